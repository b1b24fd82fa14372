//! Evaluation of several flags for a user in one request.

use std::collections::BTreeSet;

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use domain::flag::definition::{DEFINITIONS_MAX, Definition, DefinitionKind};
use evaluation::{Evaluation, Flag, MissingAttribute, Segment, Snapshot, TypedValue, User};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::find;
use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::{EnvironmentParameters, NoEnvironment};
use crate::parameters::invalid;
use feature_flags::definition::{self, check_user};
use feature_flags::{document, gate};

/// The maximum number of tags in a request.
const TAGS_MAX: usize = 100;

/// The user, and the flags to evaluate.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// `{keyId, name, customizedProperties: [{name, value}]}`
    #[schema(value_type = Object)]
    user: User,
    /// The keys of the flags to evaluate; empty: all flags.
    #[serde(default)]
    keys: Vec<String>,
    /// Only flags that have all of these tags are evaluated.
    #[serde(default)]
    tags: Vec<String>,
}

/// A flag's value for the user.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValueView {
    /// The flag's key.
    key: String,
    /// Of the flag's type: `true`, a number, a text, or JSON. `null` where no part of the rollout is
    /// the user's.
    #[schema(value_type = Value)]
    value: Box<RawValue>,
    /// The variation's id; `null` if there is none.
    variation_id: Option<String>,
    /// The reason, in FeatBit's wording.
    reason: String,
    /// The flag's version.
    version: i64,
}

/// The values of flags for a user, in the order of their keys, without archived flags
#[utoipa::path(post, path = "/v1/flags/evaluate", tag = "Feature flags", operation_id = "evaluate_flags",
    params(EnvironmentParameters), request_body = Question,
    responses((status = 200, description = "Those that there are", body = [ValueView]),
        (status = 400, description = "The body is no such question, or asks for too much"),
        (status = 403, description = "flag:read is missing"), NoEnvironment))]
pub async fn evaluate(
    call: Call,
    Path(name): Path<String>,
    body: Body,
) -> Result<Json<Vec<ValueView>>, Error> {
    // The route is that of the flag of this key, which takes no POST: there can be one.
    if name != "evaluate" {
        return Err(Error::NoMethod);
    }
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
    let mut question: Question = input::json(body, &context.tenant).await?;
    question.check()?;
    let environment = find::environment(&api, &context, &mut parameters).await?;
    parameters.end()?;
    let all = find::definitions(&api, &environment).await?;
    question.user = find::with_entitled(&api, &context, question.user).await?;
    let missing = api.missing;
    let answering = tokio::task::spawn_blocking(move || question.answer(&all, missing));
    answering.await.map_err(|_| find::bug())?.map(Json)
}

impl Question {
    fn check(&self) -> Result<(), Error> {
        check_user("user.", &self.user)?;
        for (field, given, most) in
            [("keys", &self.keys, DEFINITIONS_MAX), ("tags", &self.tags, TAGS_MAX)]
        {
            if given.len() > most {
                return Err(invalid(field, format!("are more than {most}")));
            }
        }
        Ok(())
    }

    fn answer(
        &self,
        all: &[Definition],
        missing: MissingAttribute,
    ) -> Result<Vec<ValueView>, Error> {
        let keys: BTreeSet<&str> = self.keys.iter().map(String::as_str).collect();
        let (mut flags, mut versions) = (vec![], vec![]);
        let rows = all.iter().filter(|it| it.key.kind == DefinitionKind::Flag && !it.is_archived);
        for row in rows.filter(|it| keys.is_empty() || keys.contains(it.key.key.as_str())) {
            let flag = gate::as_rule(document::flag(row)?);
            if self.tags.iter().all(|tag| flag.tags.contains(tag)) {
                flags.push(flag);
                versions.push((row.key.key.as_str(), row.version));
            }
        }
        let segments: Vec<Segment> = definition::segments(all)?;
        let snapshot = Snapshot::new(missing).with(flags, segments);
        let values = versions.into_iter().filter_map(|(key, version)| {
            let evaluation = snapshot.evaluate(key, &self.user)?;
            Some(ValueView::of(&evaluation, version))
        });
        Ok(values.collect())
    }
}

impl ValueView {
    fn of(it: &Evaluation<'_>, version: i64) -> Self {
        let variation = it.value_variation();
        Self {
            key: it.flag.key.clone(),
            value: variation.map_or_else(null, |variation| typed(it.flag, &variation.value)),
            variation_id: variation.map(|it| it.id.clone()),
            reason: it.reason.text().to_owned(),
            version,
        }
    }
}

/// A value as its flag's type has it. One that is not of the type stays a text.
fn typed(flag: &Flag, value: &str) -> Box<RawValue> {
    let json = match flag.typed(value) {
        Some(TypedValue::Boolean(value)) => value.to_string(),
        Some(TypedValue::Number(number)) => number.into_owned(),
        Some(TypedValue::Json(json)) => json.to_owned(),
        Some(TypedValue::Text(text)) => return raw_text(text),
        None => return raw_text(value),
    };
    RawValue::from_string(json).unwrap_or_else(|_| raw_text(value))
}

fn raw_text(value: &str) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a text is JSON")
}

fn null() -> Box<RawValue> {
    serde_json::value::to_raw_value(&Value::Null).expect("null is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_their_flags_type() {
        for (kind, value, expected) in [
            ("boolean", "true", "true"),
            ("boolean", "yes", "\"yes\""),
            ("boolean", "1", "\"1\""),
            ("number", "-0.50", "-0.50"),
            ("number", " 7 ", "7"),
            ("number", "12345678901234567890.5", "12345678901234567890.5"),
            ("number", ".5", "0.5"),
            ("number", "+5", "5"),
            ("number", "007", "7"),
            ("number", "many", "\"many\""),
            ("number", "true", "\"true\""),
            ("json", "{\"a\": [1]}", "{\"a\": [1]}"),
            ("json", "{", "\"{\""),
            ("string", "true", "\"true\""),
        ] {
            let flag = Flag { variation_type: kind.to_owned(), ..Flag::default() };
            assert_eq!(typed(&flag, value).get(), expected, "{kind} {value}");
        }
    }
}
