//! Reports of SDKs about evaluations and metrics, to be counted.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use feature_flags::time::now_ms;
use feature_flags::{RequestKind, SDK};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::secret;
use crate::reply::{self, Refusal, read_body};
use crate::state::ApiState;
use crate::user::SentUser;

/// An entry of a list; none where it has another type: the others count all the same.
struct Entry<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entry<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <&'de RawValue>::deserialize(from)?.get();
        Ok(Self(serde_json::from_str(text).ok()))
    }
}

#[derive(Deserialize)]
struct SentInsight<'a> {
    #[serde(borrow)]
    user: Option<SentUser<'a>>,
    #[serde(borrow)]
    variations: Option<Vec<Entry<SentEvaluation<'a>>>>,
    #[serde(borrow)]
    metrics: Option<Vec<Entry<SentMetric<'a>>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentEvaluation<'a> {
    #[serde(borrow)]
    feature_flag_key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    variation: Option<SentVariation<'a>>,
    timestamp: Option<i64>,
    send_to_experiment: Option<bool>,
}

#[derive(Deserialize)]
struct SentVariation<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentMetric<'a> {
    #[serde(borrow)]
    r#type: Option<Cow<'a, str>>,
    #[serde(borrow)]
    event_name: Option<Cow<'a, str>>,
    numeric_value: Option<f64>,
    timestamp: Option<i64>,
}

/// `POST /api/public/insight/track`
pub(crate) async fn track(
    State(api): State<Arc<ApiState>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let grant = api.authenticate(secret(&headers), SDK, RequestKind::Insight)?;
    let body = read_body(body, api.settings.insights_bytes_max).await?;
    let sent: Vec<Entry<SentInsight<'_>>> =
        serde_json::from_slice(&body).map_err(|_| Refusal::Bad("insights were expected"))?;
    let environment = &grant.environments()[0];
    let (state, now_ms) = (environment.state(), now_ms());
    let mut tally = environment.tally();
    for Entry(insight) in sent {
        let Some(insight) = insight else {
            tally.add_dropped(1);
            continue;
        };
        // Reports without a user are ignored, as FeatBit's server does.
        if !insight.user.as_ref().is_some_and(SentUser::has_key) {
            continue;
        }
        for Entry(it) in insight.variations.into_iter().flatten() {
            let Some(it) = it else {
                tally.add_dropped(1);
                continue;
            };
            let flag = it.feature_flag_key.and_then(|key| state.snapshot.flag(&key));
            let id = it.variation.and_then(|it| it.id).unwrap_or_default();
            let is_for_experiment = it.send_to_experiment.unwrap_or_default();
            let at_ms = it.timestamp.unwrap_or(now_ms);
            tally.evaluated(flag, &id, is_for_experiment, (at_ms, now_ms));
        }
        for Entry(it) in insight.metrics.into_iter().flatten() {
            let Some(it) = it else {
                tally.add_dropped(1);
                continue;
            };
            let (kind, name) = (it.r#type.unwrap_or_default(), it.event_name.unwrap_or_default());
            let at_ms = it.timestamp.unwrap_or(now_ms);
            tally.measured(&kind, &name, it.numeric_value.unwrap_or(1.0), (at_ms, now_ms));
        }
    }
    Ok(reply::response(StatusCode::OK, Body::empty()))
}
