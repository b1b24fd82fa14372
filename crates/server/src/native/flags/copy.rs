//! Flags and segments of one environment, copied into another: all or none.

use std::collections::BTreeSet;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use domain::definition::{
    DEFINITIONS_MAX, Definition, DefinitionKind, Expected, NewDefinition, PutDefinitions,
};
use domain::{Rejection, Reply};
use evaluation::{Condition, Flag, IN_SEGMENT, NOT_IN_SEGMENT, Segment};
use http::{HeaderMap, Uri};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::definitions::{TRIES_MAX, is_changed};
use super::diff::{Pair, is_same, name};
use super::find::{self, bug, word};
use super::input;
use super::patch::{new_flag, new_segment};
use super::turn::Turn;
use crate::document;
use crate::native::Native;
use crate::native::caller::Asking;
use crate::native::parameters::{Parameters, invalid};
use crate::problem::{Problem, WrongField};

/// What is to be copied. Where neither flags nor segments are named, it is everything.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Copying {
    /// The environment to copy from, of the same project.
    from: String,
    /// Keys of flags. The segments that they ask about come along.
    flags: Option<Vec<String>>,
    /// Ids of segments.
    segments: Option<Vec<String>>,
}

/// What was changed by copying.
#[derive(Serialize, ToSchema)]
pub struct CopiedView {
    /// The environment that was copied from.
    from: String,
    /// The environment's version, which everything has that was copied now.
    version: i64,
    /// Its flags.
    flags: ChangedView,
    /// Its segments.
    segments: ChangedView,
}

/// What was changed of flags, or of segments. What was the same already was not.
#[derive(Default, Serialize, ToSchema)]
struct ChangedView {
    /// The keys or ids of those that are new.
    made: Vec<String>,
    /// Of those that were put in the place of others.
    replaced: Vec<String>,
}

/// Copies into an environment.
#[utoipa::path(
    post,
    path = "/v1/environments/{key}/copy",
    tag = "Feature flags",
    operation_id = "copy_flags",
    summary = "Copies flags, with the segments that they ask about, and segments from another environment, all or none, upon the environment's version that If-Match names",
    params(
        ("key" = String, Path, description = "The environment to copy into"),
        ("project" = Option<String>, Query, description = "Their project; default by default"),
        ("If-Match" = Option<String>, Header, description = "The environment's version that is to be changed"),
    ),
    request_body = Copying,
    responses(
        (status = 200, description = "What was changed; ETag is the environment's version", body = CopiedView),
        (status = 400, description = "The body asks for nothing that there can be"),
        (status = 403, description = "flag:write is missing"),
        (status = 404, description = "There is no such environment"),
        (status = 412, description = "The environment is in another version, which is told"),
        (status = 422, description = "Flags or segments are not there, or do not fit here: all are listed, nothing was copied"),
    )
)]
pub async fn copy(
    State(native): State<Native>,
    asking: Asking,
    Path(key): Path<String>,
    (uri, headers): (Uri, HeaderMap),
    body: Body,
) -> Result<Response, Problem> {
    asking.require("flag:write")?;
    let mut parameters = Parameters::of(&uri)?;
    let mut here = find::environment_by_key(&native, &asking, key, &mut parameters).await?;
    parameters.end()?;
    let expected = input::expected(&headers)?;
    let copying: Copying = input::json(body).await?;
    let mut turn = Turn::new(&native);
    for _ in 0..TRIES_MAX {
        let (project, key) = (here.project.clone(), here.key.clone());
        let pair = Pair::read((&native, &asking), here, copying.from.clone()).await?;
        match copying.once((&turn, &asking), &pair, expected).await {
            Err(Problem::Rejected(it)) if is_changed(&it) && expected.is_none() => {
                turn.wait_to_be_alone().await;
            }
            Ok(copied) => {
                let etag = input::etag(copied.version);
                return Ok(([etag], Json(copied)).into_response());
            }
            Err(problem) => return Err(problem),
        }
        here = find::environment_of(&native, &asking, project, key).await?;
    }
    Err(Problem::Contended)
}

impl Copying {
    /// Copies upon what was read, or not at all: what was found right fits nothing else.
    async fn once(
        &self,
        (turn, asking): (&Turn<'_>, &Asking),
        pair: &Pair,
        expected: Option<i64>,
    ) -> Result<CopiedView, Problem> {
        let version = pair.here.version;
        if expected.is_some_and(|it| it != version) {
            let (key, version) = (pair.here.key.clone(), Some(version));
            return Err(Problem::Rejected(Box::new(Rejection::DefinitionChanged { key, version })));
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
        let definitions = checked(&changing, &pair.ours).await?;
        let environment = pair.here.id;
        let put = PutDefinitions { environment, version: Some(version), definitions };
        match turn.put(asking, put).await? {
            Reply::DefinitionsPut { version } => Ok(CopiedView { version, ..copied }),
            Reply::Done
            | Reply::TenantCreated(_)
            | Reply::UserCreated(_)
            | Reply::RoleCreated(_)
            | Reply::AccountCreated(_)
            | Reply::PaymentMethodCreated(_)
            | Reply::EnvironmentCreated(_)
            | Reply::SecretAdded(_)
            | Reply::ChangeRequested(_)
            | Reply::Customer(_)
            | Reply::Payment(_) => Err(bug()),
        }
    }

    /// What is asked for of what is there, with the segments that it asks about.
    fn chosen<'p>(&self, pair: &'p Pair) -> Result<Vec<&'p Definition>, Problem> {
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
            return Err(input::wrong(wrong));
        }
        let mut next: Vec<_> = chosen.iter().copied().collect();
        while let Some(asking) = next.pop() {
            for id in asked_by(theirs[&asking])? {
                // One that is not there is not here either, or it is and the flag fits.
                let found = theirs.get(&(DefinitionKind::Segment, id.as_str()));
                next.extend(found.map(|it| name(it)).filter(|name| chosen.insert(*name)));
            }
        }
        Ok(chosen.into_iter().map(|name| theirs[&name]).collect())
    }
}

/// The ids of the segments that a flag or a segment asks about.
fn asked_by(it: &Definition) -> Result<Vec<String>, Problem> {
    let unreadable = |error| input::unreadable(&error);
    let conditions: Vec<Condition> = match it.key.kind {
        DefinitionKind::Flag => {
            let rules = document::flag(it).map_err(unreadable)?.rules;
            rules.into_iter().flat_map(|rule| rule.conditions).collect()
        }
        DefinitionKind::Segment => {
            let rules = document::segment(it).map_err(unreadable)?.rules;
            rules.into_iter().flat_map(|rule| rule.conditions).collect()
        }
    };
    let asks = |it: &&Condition| it.property == IN_SEGMENT || it.property == NOT_IN_SEGMENT;
    let ids = conditions.iter().filter(asks);
    Ok(ids
        .flat_map(|it| serde_json::from_str::<Vec<String>>(&it.value).unwrap_or_default())
        .collect())
}

/// What is to be put of definitions that come from elsewhere: they have to fit what is here. A flag
/// is another one than that it was copied from; a segment keeps its id, which conditions name.
async fn checked(
    changing: &[&Definition],
    ours: &[Definition],
) -> Result<Vec<NewDefinition>, Problem> {
    let (mut flags, mut segments): (Vec<Flag>, Vec<Segment>) = (vec![], vec![]);
    let mut new = Vec::with_capacity(changing.len());
    for it in changing {
        match it.key.kind {
            DefinitionKind::Flag => {
                let flag = document::flag(it).map_err(|error| input::unreadable(&error))?;
                let flag = Flag { id: String::new(), ..flag };
                new.push(new_flag("", &flag, Expected::Anything)?);
                flags.push(flag);
            }
            DefinitionKind::Segment => {
                let segment = document::segment(it).map_err(|error| input::unreadable(&error))?;
                new.push(new_segment("", &segment, Expected::Anything)?);
                segments.push(segment);
            }
        }
    }
    input::check(flags, segments, input::segments_of(ours)?).await?;
    Ok(new)
}
