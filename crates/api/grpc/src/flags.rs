//! `FlagService`: a user's flags, evaluated once or followed as they change.

use std::pin::Pin;
use std::sync::Arc;

use engine::Reason;
use engine::access::ClientAddress;
use evaluation::{Evaluation, Flag, Property, TypedValue, User};
use feature_flags::{
    FlagCache, FlagReader, FlagUpdate, Grant, RateLimits, ReadError, RequestKind, WatchLimits,
};
use futures_util::{Stream, StreamExt as _};
use http::header::{AUTHORIZATION, HeaderName};
use http::{Extensions, HeaderMap};
use hyper::body::Incoming;
use tonic::{Request, Response, Status};
use tower::util::BoxCloneSyncService;
use tower::{Service as _, service_fn};
use web::{AnswerBudget, NetworkPermit, NetworkPermits};

use crate::api::flag_service_server::{FlagService, FlagServiceServer};
use crate::api::flag_value::Value;
use crate::api::{
    EvaluateRequest, EvaluateResponse, FlagUser, FlagValue, ResolutionReason, WatchRequest,
    WatchResponse,
};
use crate::counted::counted;
use crate::{FlagCalls, Refusal};

/// How many keys a request may name: as many as an environment has flags.
const KEYS_MAX: usize = domain::flag::definition::DEFINITIONS_MAX;

/// How many attributes a user may have.
const ATTRIBUTES_MAX: usize = 1_000;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

struct Flags {
    reader: Arc<FlagReader>,
}

/// The method that opens a stream.
const WATCH: &str = "/faregate.v1.FlagService/Watch";

/// The service on a cache. A secret is looked up, and its use counted, before the message is read; `streams`
/// counts the watches of a network, with its streams of other APIs, and `answers` what clients have not read.
#[must_use]
pub fn service(
    cache: Arc<FlagCache>,
    (limits, rate_limits): (WatchLimits, RateLimits),
    (streams, answers): (Arc<NetworkPermits>, Arc<AnswerBudget>),
    message_bytes_max: usize,
) -> FlagCalls {
    let reader = Arc::new(FlagReader::new(cache, limits));
    let service = FlagServiceServer::new(Flags { reader: Arc::clone(&reader) })
        .max_decoding_message_size(message_bytes_max);
    BoxCloneSyncService::new(service_fn(move |mut request: http::Request<Incoming>| {
        let mut service = service.clone();
        let kind = match request.uri().path() {
            WATCH => RequestKind::Streaming,
            _ => RequestKind::FeatureFlag,
        };
        let grant = reader.grant(secret(request.headers())).map_err(refused);
        let grant = grant.and_then(|grant| match grant.check_rate(&rate_limits, kind) {
            Ok(()) => Ok(grant),
            Err(wait) => Err(Status::from(Refusal::TooManyRequests(wait))),
        });
        let grant = grant.and_then(|grant| {
            if matches!(kind, RequestKind::Streaming) {
                let permit = stream_permit(&streams, request.extensions())?;
                request.extensions_mut().insert(permit);
            }
            Ok(grant)
        });
        let answers = Arc::clone(&answers);
        async move {
            match grant {
                Ok(grant) => {
                    let tenant = grant.environments().first().map(|it| it.tenant());
                    let account = answers.account(client(request.extensions()), tenant);
                    request.extensions_mut().insert(grant);
                    let response = service.call(request).await?;
                    Ok(response.map(|body| counted(account, body)))
                }
                Err(status) => Ok(status.into_http()),
            }
        }
    }))
}

#[tonic::async_trait]
impl FlagService for Flags {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn evaluate(
        &self,
        mut request: Request<EvaluateRequest>,
    ) -> Result<Response<EvaluateResponse>, Status> {
        let grant = grant(&mut request)?;
        let EvaluateRequest { user, keys } = request.into_inner();
        let user = user_of(user)?;
        if keys.len() > KEYS_MAX {
            return Err(invalid("keys", format!("are more than {KEYS_MAX}")));
        }
        let flags = self.reader.evaluate(&grant, user, &keys, shown).await.map_err(refused)?;
        Ok(Response::new(EvaluateResponse { flags }))
    }

    async fn watch(
        &self,
        mut request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let grant = grant(&mut request)?;
        let permit = request.extensions_mut().remove::<StreamPermit>();
        let user = user_of(request.into_inner().user)?;
        let watch = self.reader.watch(grant, user, shown).map_err(refused)?;
        let responses = watch.map(move |update| {
            // Held for as long as the stream is.
            let _held = &permit;
            match update {
                Ok(FlagUpdate { is_full, flags, removed }) => {
                    Ok(WatchResponse { is_full, flags, removed_keys: removed })
                }
                Err(error) => Err(refused(error)),
            }
        });
        Ok(Response::new(Box::pin(responses)))
    }
}

/// The permit of a network for a watch.
type StreamPermit = Arc<NetworkPermit>;

/// The permit of the client's network for another stream; counted where there is none.
fn stream_permit(
    streams: &Arc<NetworkPermits>,
    extensions: &Extensions,
) -> Result<StreamPermit, Status> {
    let Some(permit) = streams.acquire(client(extensions)) else {
        metrics::counter!("faregate_refused_total", "reason" => "network_streams").increment(1);
        return Err(Refusal::Full.into());
    };
    Ok(Arc::new(permit))
}

fn client(extensions: &Extensions) -> ClientAddress {
    extensions.get().copied().unwrap_or(ClientAddress::UNKNOWN)
}

/// The secret of a call: `X-API-Key`, or `Authorization` with or without `Bearer`.
fn secret(headers: &HeaderMap) -> Option<&str> {
    let text = |name: HeaderName| headers.get(name).and_then(|it| it.to_str().ok());
    if let Some(key) = text(API_KEY) {
        return Some(key);
    }
    let authorization = text(AUTHORIZATION)?;
    let bearer = authorization.split_once(' ');
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    Some(bearer.map_or(authorization, |(_, secret)| secret.trim()))
}

fn grant<M>(request: &mut Request<M>) -> Result<Arc<Grant>, Status> {
    request.extensions_mut().remove().ok_or_else(|| Refusal::SecretWrong.into())
}

fn user_of(given: Option<FlagUser>) -> Result<User, Status> {
    let given = given.filter(|it| !it.key.trim().is_empty());
    let given = given.ok_or_else(|| invalid("user.key", "needs to be set".to_owned()))?;
    if given.attributes.len() > ATTRIBUTES_MAX {
        return Err(invalid("user.attributes", format!("are more than {ATTRIBUTES_MAX}")));
    }
    let properties = given.attributes.into_iter();
    Ok(User {
        key_id: given.key,
        name: given.name,
        customized_properties: properties
            .map(|(name, value)| Property { name, value: Some(value) })
            .collect(),
        ..User::default()
    })
}

fn shown(it: &Evaluation<'_>, version: i64) -> FlagValue {
    let variation = it.value_variation();
    FlagValue {
        key: it.flag.key.clone(),
        value: variation.map(|found| typed(it.flag, &found.value)),
        variation_id: variation.map(|it| it.id.clone()).unwrap_or_default(),
        reason: it.reason.text().to_owned(),
        version,
        resolution_reason: resolution_reason(it.resolution_reason()).into(),
    }
}

/// A value of its flag's type. One that does not parse stays a text.
fn typed(flag: &Flag, value: &str) -> Value {
    let text = || Value::Text(value.to_owned());
    match flag.typed(value) {
        Some(TypedValue::Boolean(value)) => Value::Boolean(value),
        Some(TypedValue::Number(number)) => number.parse().map_or_else(|_| text(), Value::Number),
        Some(TypedValue::Json(json)) => Value::Json(json.to_owned()),
        Some(TypedValue::Text(text)) => Value::Text(text.to_owned()),
        None => text(),
    }
}

/// A reason of OpenFeature's list.
const fn resolution_reason(reason: evaluation::ResolutionReason) -> ResolutionReason {
    match reason {
        evaluation::ResolutionReason::Static => ResolutionReason::Static,
        evaluation::ResolutionReason::Default => ResolutionReason::Default,
        evaluation::ResolutionReason::TargetingMatch => ResolutionReason::TargetingMatch,
        evaluation::ResolutionReason::Split => ResolutionReason::Split,
        evaluation::ResolutionReason::Disabled => ResolutionReason::Disabled,
        evaluation::ResolutionReason::Unknown => ResolutionReason::Unspecified,
    }
}

fn invalid(field: &'static str, reason: String) -> Status {
    Refusal::field(field, reason).into()
}

fn refused(error: ReadError) -> Status {
    let refusal = match error {
        ReadError::Unavailable => Refusal::FlagsUnread,
        ReadError::Stopping => Refusal::Unavailable(Reason::Stopping.into()),
        ReadError::Unauthorized => Refusal::SecretWrong,
        ReadError::Full => Refusal::Full,
        ReadError::TooSlow => Refusal::ReaderTooSlow,
    };
    refusal.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_from_both_headers() {
        let with = |name: &'static str, value: &str| {
            HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())])
        };
        for (headers, expected) in [
            (with("x-api-key", "s"), Some("s")),
            (with("authorization", "Bearer s"), Some("s")),
            (with("authorization", "bearer  s"), Some("s")),
            (with("authorization", "Bearer "), Some("")),
            (with("authorization", "s"), Some("s")),
            (HeaderMap::new(), None),
        ] {
            assert_eq!(secret(&headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn values_have_the_type_of_their_flag() {
        let text = |it: &str| Value::Text(it.to_owned());
        for (kind, value, expected) in [
            ("boolean", "true", Value::Boolean(true)),
            ("boolean", "yes", text("yes")),
            ("number", " -0.50", Value::Number(-0.5)),
            ("number", "+.5", Value::Number(0.5)),
            ("number", "inf", text("inf")),
            ("number", "many", text("many")),
            ("json", "{\"a\": 1}", Value::Json("{\"a\": 1}".to_owned())),
            ("json", "{", text("{")),
            ("string", "true", text("true")),
        ] {
            let flag = Flag { variation_type: kind.to_owned(), ..Flag::default() };
            assert_eq!(typed(&flag, value), expected, "{kind} {value}");
        }
    }
}
