//! `FlagService` of the gRPC door: what flags are for a user, once or as they change.

use std::pin::Pin;
use std::sync::Arc;

use ::flags::{Board, Calls, Grant, News, NoFlags, Settings};
use engine::Reason;
use evaluation::{Evaluation, Property, User};
use futures_util::{Stream, StreamExt as _};
use grpc::api::flag_service_server::{FlagService, FlagServiceServer};
use grpc::api::flag_value::Value;
use grpc::api::{
    EvaluateRequest, EvaluateResponse, FlagUser, FlagValue, WatchRequest, WatchResponse,
};
use grpc::{FlagCalls, Refusal};
use hyper::body::Incoming;
use tonic::{Request, Response, Status};
use tower::util::BoxCloneSyncService;
use tower::{Service as _, service_fn};

/// How many keys can be asked for: as many as an environment has flags.
const KEYS_MAX: usize = domain::definition::DEFINITIONS_MAX;

/// How many attributes a user has at most.
const ATTRIBUTES_MAX: usize = 1_000;

struct Flags {
    calls: Arc<Calls>,
}

/// The service on a board. A secret is looked up before the message is read.
pub fn service(board: Arc<Board>, settings: &Settings, message_bytes_max: usize) -> FlagCalls {
    let calls = Arc::new(Calls::new(board, settings));
    let service = FlagServiceServer::new(Flags { calls: Arc::clone(&calls) })
        .max_decoding_message_size(message_bytes_max);
    BoxCloneSyncService::new(service_fn(move |mut request: http::Request<Incoming>| {
        let (mut service, entered) = (service.clone(), calls.enter(request.headers()));
        async move {
            match entered {
                Ok(grant) => {
                    request.extensions_mut().insert(grant);
                    service.call(request).await
                }
                Err(why) => Ok(refused(why).into_http()),
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
            return Err(wrong("keys", format!("are more than {KEYS_MAX}")));
        }
        let flags = self.calls.evaluate(&grant, &user, &keys, shown);
        Ok(Response::new(EvaluateResponse { flags }))
    }

    async fn watch(
        &self,
        mut request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let grant = grant(&mut request)?;
        let user = user_of(request.into_inner().user)?;
        let watch = self.calls.watch(grant, user, shown).map_err(refused)?;
        let told = watch.map(|news| match news {
            Ok(News { is_full, flags, removed }) => {
                Ok(WatchResponse { is_full, flags, removed_keys: removed })
            }
            Err(why) => Err(refused(why)),
        });
        Ok(Response::new(Box::pin(told)))
    }
}

fn grant<M>(request: &mut Request<M>) -> Result<Arc<Grant>, Status> {
    request.extensions_mut().remove().ok_or_else(|| Refusal::SecretWrong.into())
}

fn user_of(given: Option<FlagUser>) -> Result<User, Status> {
    let given = given.filter(|it| !it.key.trim().is_empty());
    let given = given.ok_or_else(|| wrong("user.key", "needs to be set".to_owned()))?;
    if given.attributes.len() > ATTRIBUTES_MAX {
        return Err(wrong("user.attributes", format!("are more than {ATTRIBUTES_MAX}")));
    }
    let properties = given.attributes.into_iter();
    Ok(User {
        key_id: given.key,
        name: given.name,
        customized_properties: properties
            .map(|(name, value)| Property { name, value: Some(value) })
            .collect(),
    })
}

fn shown(it: &Evaluation<'_>, version: i64) -> FlagValue {
    let variation = it.variation.filter(|it| !it.id.is_empty());
    FlagValue {
        key: it.flag.key.clone(),
        value: variation.map(|found| typed(&it.flag.variation_type, &found.value)),
        variation_id: variation.map(|it| it.id.clone()).unwrap_or_default(),
        reason: it.reason.text().to_owned(),
        version,
    }
}

/// A value of a flag's type. One that is not of it stays a text.
fn typed(kind: &str, value: &str) -> Value {
    let text = || Value::Text(value.to_owned());
    match kind {
        "boolean" => value.parse().map_or_else(|_| text(), Value::Boolean),
        "number" => {
            let number = value.trim().parse().ok().filter(|it: &f64| it.is_finite());
            number.map_or_else(text, Value::Number)
        }
        "json" if serde_json::from_str::<serde::de::IgnoredAny>(value).is_ok() => {
            Value::Json(value.to_owned())
        }
        _ => text(),
    }
}

fn wrong(field: &'static str, reason: String) -> Status {
    Refusal::field(field, reason).into()
}

fn refused(why: NoFlags) -> Status {
    let refusal = match why {
        NoFlags::Unavailable => Refusal::FlagsUnread,
        NoFlags::Stopping => Refusal::Unavailable(Reason::Stopping.into()),
        NoFlags::Unauthorized => Refusal::SecretWrong,
        NoFlags::Full => Refusal::Full,
        NoFlags::TooSlow => Refusal::ReaderTooSlow,
    };
    refusal.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_their_flags_type() {
        let text = |it: &str| Value::Text(it.to_owned());
        for (kind, value, expected) in [
            ("boolean", "true", Value::Boolean(true)),
            ("boolean", "yes", text("yes")),
            ("number", " -0.50", Value::Number(-0.5)),
            ("number", "inf", text("inf")),
            ("number", "many", text("many")),
            ("json", "{\"a\": 1}", Value::Json("{\"a\": 1}".to_owned())),
            ("json", "{", text("{")),
            ("string", "true", text("true")),
        ] {
            assert_eq!(typed(kind, value), expected, "{kind} {value}");
        }
    }
}
