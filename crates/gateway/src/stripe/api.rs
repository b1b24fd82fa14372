//! Requests to Stripe's API: authenticated, versioned, and each with what is known after it of whether it was
//! carried out.

use std::time::Duration;

use bytes::Bytes;
use engine::Deadline;
use form_urlencoded::Serializer;
use http::{Method, StatusCode, header};
use outbound::{Host, SendError};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::configuration::Configuration;
use super::objects::{ErrorAnswer, ErrorBody};

/// The version of Stripe's API that requests and answers are of.
pub(super) const VERSION: &str = "2026-08-26.dahlia";

/// The maximum size of an answer: a page of 100 objects.
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How often a request is sent that Stripe did not take, within the call's time.
const TRIES_MAX: u32 = 4;

/// The pause before the second try; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a request has no object for an answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Stripe was not reached: nothing was carried out.
    NotSent(String),
    /// Stripe takes no more of the account's requests for now: nothing was carried out.
    Limited(String),
    /// The call, or the tenant's account, does not allow it: nothing was asked for.
    Unfit(String),
    /// It may have been carried out.
    Unknown(String),
    /// So may one of the same key, which runs or ran.
    KeyInUse(String),
    /// Stripe took it and refused: nothing was carried out but what the error's intent says.
    Refused(Box<Refused>),
}

/// An error of Stripe's that is final.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) error: ErrorBody,
}

/// A request's parameters, in order.
#[derive(Clone, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(super) fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.push((name.into(), value.into()));
        self
    }

    pub(super) fn with_some(self, name: &str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn encoded(&self) -> String {
        Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }
}

/// Stripe's API with a tenant's key.
pub(super) struct Api<'a> {
    pub(super) host: &'a Host,
    pub(super) configuration: &'a Configuration,
    /// Until when requests may leave; `None`: the caller ends the waiting, and what is asked may come late.
    pub(super) deadline: Option<&'a Deadline>,
}

impl Api<'_> {
    /// Reads an object.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: Parameters,
    ) -> Result<T, Trouble> {
        let path = match parameters.0.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{}", parameters.encoded()),
        };
        self.repeated(|| self.once(Method::GET, &path, Bytes::new(), None)).await
    }

    /// Makes or changes an object, once for each idempotency key.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: Parameters,
        idempotency_key: &str,
    ) -> Result<T, Trouble> {
        let body = Bytes::from(parameters.encoded());
        self.repeated(|| self.once(Method::POST, path, body.clone(), Some(idempotency_key))).await
    }

    /// As [`Api::post`], and sent again also where it may have been carried out: for what moves no money and is the same
    /// for each caller, so that a request of the same key that runs elsewhere is waited for.
    pub(super) async fn post_again<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: Parameters,
        idempotency_key: &str,
    ) -> Result<T, Trouble> {
        let mut pause = PAUSE;
        for _ in 1..TRIES_MAX {
            let answered = self.post(path, parameters.clone(), idempotency_key).await;
            let is_unknown = matches!(answered, Err(Trouble::Unknown(_) | Trouble::KeyInUse(_)));
            if !is_unknown || self.deadline.is_some_and(|deadline| deadline.left() <= pause) {
                return answered;
            }
            sleep(pause).await;
            pause *= 2;
        }
        self.post(path, parameters, idempotency_key).await
    }

    /// Sends a request again that Stripe did not take: the connection was refused, or Stripe was busy.
    async fn repeated<T, F>(&self, send: impl Fn() -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let mut pause = PAUSE;
        for _ in 1..TRIES_MAX {
            let answered = send().await;
            let was_taken = !matches!(answered, Err(Trouble::NotSent(_) | Trouble::Limited(_)));
            if was_taken || self.deadline.is_some_and(|deadline| deadline.left() <= pause) {
                return answered;
            }
            sleep(pause).await;
            pause *= 2;
        }
        send().await
    }

    async fn once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        idempotency_key: Option<&str>,
    ) -> Result<T, Trouble> {
        let mut request = self
            .host
            .request(method, path)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.configuration.api_key))
            .header(header::USER_AGENT, concat!("Faregate/", env!("CARGO_PKG_VERSION")))
            .header("stripe-version", VERSION);
        if let Some(key) = idempotency_key {
            request = request
                .header("idempotency-key", key)
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        let sent = self.host.send((request, body), self.deadline, ANSWER_BYTES_MAX).await;
        let answer = sent.map_err(|error| match error {
            SendError::NotSent(reason) => Trouble::NotSent(format!(
                "Stripe was not reached at {}: {reason}; is there a way to it from this server, and is \
                 gateway.stripe.base_url right?",
                self.host.authority()
            )),
            SendError::Unknown(reason) => Trouble::Unknown(format!("Stripe: {reason}")),
        })?;
        read(answer.status(), answer.body())
    }
}

/// Reads an answer. The text of one that cannot be read is not repeated: it may hold anything.
fn read<T: DeserializeOwned>(status: StatusCode, body: &[u8]) -> Result<T, Trouble> {
    if status.is_success() {
        return serde_json::from_slice(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let reason = format!("Stripe's answer cannot be read: line {line}, column {column}");
            Trouble::Unknown(reason)
        });
    }
    let error = serde_json::from_slice::<ErrorAnswer>(body).ok().map(|it| it.error);
    let code = error.as_ref().and_then(|it| it.code.as_deref()).unwrap_or_default();
    let kind = error.as_ref().map(|it| it.kind.as_str()).unwrap_or_default();
    match (status.as_u16(), kind, code) {
        (429, _, _) | (_, _, "rate_limit" | "lock_timeout") => {
            Err(Trouble::Limited("Stripe is busy: HTTP 429".to_owned()))
        }
        (409, _, _) | (_, "idempotency_error", _) | (_, _, "idempotency_key_in_use") => {
            Err(Trouble::KeyInUse("Stripe: a request with the same key runs or ran".to_owned()))
        }
        (400..=499, _, _) => match error {
            Some(error) => {
                Err(Trouble::Refused(Box::new(Refused { status: status.as_u16(), error })))
            }
            None => Err(Trouble::Unknown(format!("Stripe answered HTTP {}", status.as_u16()))),
        },
        (_, _, _) => Err(Trouble::Unknown(format!("Stripe answered HTTP {}", status.as_u16()))),
    }
}

/// Whether a text is an id of Stripe's, which can stand in a path.
pub(super) fn is_id(text: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=255).contains(&text.len()) && text.chars().all(is_fit)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::objects::Named;
    use super::*;

    fn check(status: u16, body: &str, expected: Expect) {
        let status = StatusCode::from_u16(status).unwrap();
        expected.assert_eq(&match read::<Named>(status, body.as_bytes()) {
            Ok(Named { id }) => id,
            Err(Trouble::NotSent(reason)) => format!("not sent: {reason}"),
            Err(Trouble::Limited(reason)) => format!("limited: {reason}"),
            Err(Trouble::Unfit(reason)) => format!("unfit: {reason}"),
            Err(Trouble::Unknown(reason) | Trouble::KeyInUse(reason)) => {
                format!("unknown: {reason}")
            }
            Err(Trouble::Refused(it)) => format!("refused: {} {:?}", it.status, it.error.code),
        });
    }

    #[test]
    fn an_answer_says_whether_a_request_was_carried_out() {
        check(200, r#"{"id":"pi_1"}"#, expect!["pi_1"]);
        check(200, "<html>", expect!["unknown: Stripe's answer cannot be read: line 1, column 1"]);
        let error = |kind: &str, code: &str| {
            format!(r#"{{"error":{{"type":"{kind}","code":"{code}","message":"m"}}}}"#)
        };
        let card = error("card_error", "card_declined");
        check(402, &card, expect![[r#"refused: 402 Some("card_declined")"#]]);
        let missing = error("invalid_request_error", "resource_missing");
        check(404, &missing, expect![[r#"refused: 404 Some("resource_missing")"#]]);
        let busy = error("invalid_request_error", "rate_limit");
        check(429, &busy, expect!["limited: Stripe is busy: HTTP 429"]);
        let locked = error("invalid_request_error", "lock_timeout");
        check(429, &locked, expect!["limited: Stripe is busy: HTTP 429"]);
        let in_use = error("invalid_request_error", "idempotency_key_in_use");
        check(409, &in_use, expect!["unknown: Stripe: a request with the same key runs or ran"]);
        let other = error("idempotency_error", "");
        check(400, &other, expect!["unknown: Stripe: a request with the same key runs or ran"]);
        check(500, &error("api_error", ""), expect!["unknown: Stripe answered HTTP 500"]);
        check(502, "<html>", expect!["unknown: Stripe answered HTTP 502"]);
        check(400, "<html>", expect!["unknown: Stripe answered HTTP 400"]);
    }
}
