//! Flags and segments of one environment, copied into another: all or none.

use std::collections::BTreeSet;

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::flag::definition::{DEFINITIONS_MAX, Definition, DefinitionKind};
use domain::{FlagRejection, Rejection};
use feature_flags::FlagWriter;
use feature_flags::error::word;
use feature_flags::import::{referenced_segments, validate_copies};
use feature_flags::writer::TRIES_MAX;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::diff::{Pair, is_same, name};
use super::error::is_conflict;
use super::find;
use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::NoEnvironment;
use crate::parameters::invalid;
use web::WrongField;

/// The definitions to copy. If neither flags nor segments are named, all of them are copied.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Copying {
    /// The key of the environment to copy from, in the same project.
    from: String,
    /// Keys of flags. The segments that their rules refer to are copied too.
    flags: Option<Vec<String>>,
    /// Ids of segments.
    segments: Option<Vec<String>>,
}

/// The changes that a copy made.
#[derive(Serialize, ToSchema)]
pub struct CopiedView {
    /// The key of the environment that was copied from.
    from: String,
    /// The environment's version after the copy; the copied flags and segments have it too.
    version: i64,
    /// The changed flags.
    flags: ChangedView,
    /// The changed segments.
    segments: ChangedView,
}

/// The changed flags, or the changed segments. Identical ones are not changed.
#[derive(Default, Serialize, ToSchema)]
struct ChangedView {
    /// The keys of new flags, or the ids of new segments.
    made: Vec<String>,
    /// The keys or ids of those that replaced existing ones.
    replaced: Vec<String>,
}

/// Copies flags, with the segments that they ask about, and segments from another environment, all or none, upon the environment's version that If-Match names
#[utoipa::path(post, path = "/v1/environments/{key}/copy", tag = "Feature flags", operation_id = "copy_flags",
    params(("key" = String, Path, description = "The environment to copy into"),
        ("project" = Option<String>, Query, description = "Their project; default by default"),
        ("If-Match" = Option<String>, Header, description = "The environment's version that is to be changed")),
    request_body = Copying,
    responses((status = 200, description = "The changes; ETag is the environment's version", body = CopiedView),
        (status = 400, description = "The body asks for nothing that there can be"),
        (status = 412, description = "The environment is in another version, which the problem names"),
        (status = 422, description = "Flags or segments are not there, or do not fit here: all are listed, nothing was copied"),
        (status = 403, description = "flag:write is missing"), NoEnvironment))]
pub async fn copy(call: Call, Path(key): Path<String>, body: Body) -> Result<Response, Error> {
    let (Call { api, context, headers, .. }, mut parameters) =
        call.with_parameters("flag:write")?;
    let mut here = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    parameters.end()?;
    let expected = input::expected(&headers)?;
    let copying: Copying = input::json(body, &context.tenant).await?;
    let _lock = api.write_locks.environment(&find::name(&here)).await;
    for _ in 0..TRIES_MAX {
        let (project, key) = (here.project.clone(), here.key.clone());
        let pair = Pair::read((&api, &context), here, copying.from.clone()).await?;
        match copying.once(&find::writer(&api, &context), &pair, expected).await {
            Err(error) if is_conflict(&error) && expected.is_none() => {}
            Ok(copied) => {
                let etag = input::etag(copied.version);
                return Ok(([etag], Json(copied)).into_response());
            }
            Err(error) => return Err(error),
        }
        here = find::environment_of(&api, &context, project, key).await?;
    }
    Err(Error::Contended)
}

impl Copying {
    /// Copies onto the version that was read: it was validated against no other one.
    async fn once(
        &self,
        writer: &FlagWriter<'_>,
        pair: &Pair,
        expected: Option<i64>,
    ) -> Result<CopiedView, Error> {
        let version = pair.here.version;
        if expected.is_some_and(|it| it != version) {
            let (key, version) = (pair.here.key.clone(), Some(version));
            let changed = Rejection::Flag(FlagRejection::DefinitionChanged { key, version });
            return Err(Error::Rejected(Box::new(changed)));
        }
        let ours = pair.ours();
        let mut copied = CopiedView {
            from: self.from.clone(),
            version,
            flags: ChangedView::default(),
            segments: ChangedView::default(),
        };
        let mut changing = vec![];
        for there in self.chosen(pair)? {
            let view = match there.key.kind {
                DefinitionKind::Flag => &mut copied.flags,
                DefinitionKind::Segment => &mut copied.segments,
            };
            match ours.get(&name(there)) {
                Some(here) if is_same(here, there)? => continue,
                Some(_) => view.replaced.push(there.key.key.clone()),
                None => view.made.push(there.key.key.clone()),
            }
            changing.push(there);
        }
        if changing.is_empty() {
            return Ok(copied);
        }
        let definitions = validate_copies(&changing, &pair.ours).await?;
        let version = writer.put(&pair.here, Some(version), definitions).await?;
        Ok(CopiedView { version, ..copied })
    }

    /// The definitions that the request names, with the segments that they refer to.
    fn chosen<'p>(&self, pair: &'p Pair) -> Result<Vec<&'p Definition>, Error> {
        if self.flags.is_none() && self.segments.is_none() {
            return Ok(pair.theirs.iter().collect());
        }
        let theirs = pair.theirs();
        let (mut chosen, mut wrong) = (BTreeSet::new(), vec![]);
        let named = [
            ("flags", DefinitionKind::Flag, self.flags.as_deref()),
            ("segments", DefinitionKind::Segment, self.segments.as_deref()),
        ];
        for (field, kind, keys) in named {
            let keys = keys.unwrap_or_default();
            if keys.len() > DEFINITIONS_MAX {
                return Err(invalid(field, format!("are more than {DEFINITIONS_MAX}")));
            }
            for (at, key) in keys.iter().enumerate() {
                match theirs.get(&(kind, key.as_str())) {
                    Some(it) => drop(chosen.insert(name(it))),
                    None => wrong.push(WrongField {
                        field: format!("{field}[{at}]"),
                        reason: format!("there is no such {} in {}", word(kind), pair.there.key),
                    }),
                }
            }
        }
        if !wrong.is_empty() {
            return Err(Error::WrongFields(wrong));
        }
        let mut next: Vec<_> = chosen.iter().copied().collect();
        while let Some(referrer) = next.pop() {
            for id in referenced_segments(theirs[&referrer])? {
                // A segment that is missing there is missing here too, or the flag fits.
                let found = theirs.get(&(DefinitionKind::Segment, id.as_str()));
                next.extend(found.map(|it| name(it)).filter(|name| chosen.insert(*name)));
            }
        }
        Ok(chosen.into_iter().map(|name| theirs[&name]).collect())
    }
}
