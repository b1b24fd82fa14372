//! What flags are for a user, in one question.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use evaluation::{Evaluation, Flag};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use super::secret;
use crate::door::{Door, SDK};
use crate::limit::Sort;
use crate::reply::{self, Refusal, read_body};
use crate::user::SentUser;

#[derive(Deserialize)]
struct Question<'a> {
    #[serde(borrow)]
    user: Option<SentUser<'a>>,
    filter: Option<Filter>,
}

/// Which flags are asked for: those that fit all of it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    tags: Option<Vec<String>>,
    tag_filter_mode: Option<String>,
    keys: Option<Vec<String>>,
    timestamp: Option<i64>,
}

/// How many of the tags a flag has to have.
#[derive(Clone, Copy)]
enum TagMode {
    All,
    Any,
    Ignored,
}

#[derive(Serialize)]
struct Answer<'s> {
    key: &'s str,
    variation: Value<'s>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Value<'s> {
    id: &'s str,
    r#type: &'s str,
    value: &'s str,
    match_reason: &'s str,
    send_to_experiment: bool,
}

/// `POST /api/public/featureflag/evaluate`
pub(crate) async fn evaluate(
    State(door): State<Arc<Door>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let grant = door.open(secret(&headers), SDK, Sort::FeatureFlag)?;
    let body = read_body(&door, body, door.settings.user_bytes_max).await?;
    let question: Question<'_> =
        serde_json::from_slice(&body).map_err(|_| Refusal::Bad("The body is not as expected."))?;
    let user = question.user.and_then(|it| it.read());
    let user = user.ok_or(Refusal::Bad("A valid user is required."))?;
    let filter = question.filter.unwrap_or_default();
    let mode = filter.tag_mode()?;
    let state = grant.environments()[0].state();
    let asked = state.flags().filter(|(it, at_ms)| filter.has(it.flag(), *at_ms, mode));
    let answers = asked.filter_map(|(flag, _)| {
        let evaluation = state.snapshot.evaluate_flag(flag, &user);
        Answer::of(&evaluation)
    });
    let answers = serde_json::to_vec(&answers.collect::<Vec<_>>());
    Ok(reply::json(StatusCode::OK, answers.expect("texts are JSON")))
}

impl Filter {
    fn tag_mode(&self) -> Result<TagMode, Refusal> {
        match self.tag_filter_mode.as_deref().unwrap_or("and").trim() {
            "and" => Ok(TagMode::All),
            "or" => Ok(TagMode::Any),
            "" => Ok(TagMode::Ignored),
            _ => Err(Refusal::Bad("Invalid tag filter mode: 'and' or 'or' was expected.")),
        }
    }

    fn has(&self, flag: &Flag, changed_at_ms: i64, mode: TagMode) -> bool {
        let keys = self.keys.as_deref().unwrap_or_default();
        let tags = self.tags.as_deref().unwrap_or_default();
        let has_tag = |tag: &String| flag.tags.contains(tag);
        let has_tags = match mode {
            TagMode::All => tags.iter().all(has_tag),
            TagMode::Any => tags.is_empty() || tags.iter().any(has_tag),
            TagMode::Ignored => true,
        };
        has_tags
            && (keys.is_empty() || keys.contains(&flag.key))
            && self.timestamp.is_none_or(|it| changed_at_ms > it)
    }
}

impl<'s> Answer<'s> {
    /// Nothing of a flag that is put away: it has no value.
    fn of(evaluation: &Evaluation<'s>) -> Option<Self> {
        let Evaluation { flag, variation, reason, send_to_experiment } = *evaluation;
        let variation = variation?;
        Some(Self {
            key: &flag.key,
            variation: Value {
                id: &variation.id,
                r#type: &flag.variation_type,
                value: &variation.value,
                match_reason: reason.text(),
                send_to_experiment,
            },
        })
    }
}
