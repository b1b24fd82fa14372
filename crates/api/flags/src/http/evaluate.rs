//! Evaluates several flags for a user in one request.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use evaluation::{Evaluation, Flag};
use feature_flags::{RequestKind, SDK};
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::secret;
use crate::reply::{self, Refusal, read_body};
use crate::state::ApiState;
use crate::user::SentUser;

#[derive(Deserialize)]
struct EvaluateRequest<'a> {
    #[serde(borrow)]
    user: Option<SentUser<'a>>,
    filter: Option<Filter>,
}

/// The wanted flags: those that match all conditions.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    tags: Option<Vec<String>>,
    tag_filter_mode: Option<String>,
    keys: Option<Vec<String>>,
    timestamp: Option<i64>,
}

/// Which of the tags a flag has to have.
#[derive(Clone, Copy)]
enum TagMode {
    All,
    Any,
    Ignored,
}

#[derive(Serialize)]
struct FlagView<'s> {
    key: &'s str,
    variation: VariationView<'s>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VariationView<'s> {
    id: &'s str,
    r#type: &'s str,
    value: &'s str,
    match_reason: &'s str,
    send_to_experiment: bool,
}

/// `POST /api/public/featureflag/evaluate`
pub(crate) async fn evaluate(
    State(api): State<Arc<ApiState>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let grant = api.authenticate(secret(&headers), SDK, RequestKind::FeatureFlag)?;
    let body = read_body(body, api.settings.user_bytes_max).await?;
    let request: EvaluateRequest<'_> =
        serde_json::from_slice(&body).map_err(|_| Refusal::Bad("The body is not as expected."))?;
    let user = request.user.and_then(|it| it.read());
    let user = user.ok_or(Refusal::Bad("A valid user is required."))?;
    let mut filter = request.filter.unwrap_or_default();
    let mode = filter.tag_mode()?;
    let environment = &grant.environments()[0];
    let user = api.cache.with_entitled(environment, user).await.ok_or(Refusal::Unavailable)?;
    let state = environment.state();
    // What users are entitled to has no time.
    filter.timestamp = filter.timestamp.filter(|_| !state.asks_for_entitled);
    let wanted = state.flags().filter(|(it, at_ms)| filter.has(it.flag(), *at_ms, mode));
    let views = wanted.filter_map(|(flag, _)| {
        let evaluation = state.snapshot.evaluate_flag(flag, &user.user);
        FlagView::of(&evaluation)
    });
    let body = serde_json::to_vec(&views.collect::<Vec<_>>());
    Ok(reply::of(environment, body.expect("texts are JSON")))
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

impl<'s> FlagView<'s> {
    /// None of an archived flag: it has no value.
    fn of(evaluation: &Evaluation<'s>) -> Option<Self> {
        let Evaluation { flag, variation, reason, send_to_experiment, .. } = *evaluation;
        let variation = variation?;
        Some(Self {
            key: &flag.key,
            variation: VariationView {
                id: &variation.id,
                r#type: &flag.variation_type,
                value: &variation.value,
                match_reason: reason.text(),
                send_to_experiment,
            },
        })
    }
}
