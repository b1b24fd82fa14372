//! One call past the gate: who asks, what they may, and what makes a call the same when it comes again.

use std::sync::Arc;
use std::time::Duration;

use domain::payment::{Actor, ReplyKey};
use domain::{Command, Idempotency, Reply, Request, RequestId, TenantNo};
use engine::Answer;
use engine::access::{Caller, TenantRef};
use engine::ports::{Queries, StoreError};
use engine::queue::SimulatedWork;
use http::HeaderMap;
use prost::Message;
use ring::digest;
use uuid::Uuid;

use crate::gate::Core;
use crate::refusal::Refusal;

/// How long the answer is to be kept back, as if a provider had to be asked: for benchmarks.
const SIMULATED_WORK: &str = "faregate-balance-delay-ms";
/// The longest work that is simulated.
const SIMULATED_WORK_MAX: Duration = Duration::from_secs(60);
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const REQUEST_ID: &str = "x-request-id";

/// Who asks, why, and with which words: ours, or those that Kill Bill's clients send. Lengths in
/// characters.
const CREATED_BY: Header = Header(["x-faregate-createdby", "x-killbill-createdby"], 50);
const REASON: Header = Header(["x-faregate-reason", "x-killbill-reason"], 255);
const COMMENT: Header = Header(["x-faregate-comment", "x-killbill-comment"], 255);

/// How long an idempotency key may be, in bytes.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Metadata under two names, and how long it may be.
struct Header([&'static str; 2], usize);

/// Somebody who may call, as the gate notes them on the request.
#[derive(Clone)]
pub(crate) struct Entered {
    pub(crate) caller: Arc<Caller>,
    pub(crate) tenant: Arc<TenantRef>,
}

/// A call whose caller is known.
pub(crate) struct Call<'a> {
    core: &'a Core,
    entered: Entered,
    metadata: HeaderMap,
}

impl<'a> Call<'a> {
    /// Splits a request into the call and its message.
    ///
    /// # Errors
    /// Where it did not come through the gate.
    pub(crate) fn of<M>(core: &'a Core, request: tonic::Request<M>) -> Result<(Self, M), Refusal> {
        let (metadata, mut extensions, message) = request.into_parts();
        let entered = extensions.remove().ok_or(Refusal::TenantMissing)?;
        Ok((Self { core, entered, metadata: metadata.into_headers() }, message))
    }

    /// The tenant's number.
    pub(crate) fn tenant(&self) -> TenantNo {
        self.entered.tenant.no
    }

    /// The work that a client wants simulated, where that is allowed: `MIN-MAX`, in milliseconds.
    ///
    /// # Errors
    /// Where it is none.
    pub(crate) fn simulated_work(&self) -> Result<Option<SimulatedWork>, Refusal> {
        let Some(text) = self.metadata.get(SIMULATED_WORK).filter(|_| self.core.simulates_work)
        else {
            return Ok(None);
        };
        let ends = text.to_str().ok().and_then(|text| text.split_once('-'));
        let ms = |text: &str| text.trim().parse().ok().map(Duration::from_millis);
        let work = ends.and_then(|(from, to)| Some(SimulatedWork { from: ms(from)?, to: ms(to)? }));
        match work {
            Some(work) if work.from <= work.to && work.to <= SIMULATED_WORK_MAX => Ok(Some(work)),
            Some(_) | None => Err(Refusal::Metadata {
                key: SIMULATED_WORK,
                reason: "is not MIN-MAX milliseconds, at most a minute",
            }),
        }
    }

    /// Refuses a caller who may not do something.
    ///
    /// # Errors
    /// Where the permission is missing.
    pub(crate) fn needs(&self, permission: &'static str) -> Result<(), Refusal> {
        let may = self.entered.caller.may(permission);
        if may { Ok(()) } else { Err(Refusal::Forbidden(permission)) }
    }

    /// Reads committed rows.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, Refusal>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        Ok(self.core.engine.read(query).await?)
    }

    /// What makes the call repeatable: the hash of its method and message, where it has a key.
    ///
    /// # Errors
    /// A key that is empty, too long, or not of visible ASCII.
    pub(crate) fn idempotency(
        &self,
        method: &str,
        message: &impl Message,
    ) -> Result<Option<Idempotency>, Refusal> {
        let Some(key) = read_idempotency_key(&self.metadata)? else { return Ok(None) };
        let tenant = self.tenant().0.to_be_bytes();
        let name = hash(&[&tenant, self.entered.caller.username.as_bytes(), key.as_bytes()]);
        let fingerprint = hash(&[b"grpc", method.as_bytes(), &message.encode_to_vec()]);
        Ok(Some(Idempotency { key: ReplyKey(name), fingerprint }))
    }

    /// Submits a command of the call's tenant and waits for its durable answer.
    ///
    /// # Errors
    /// The core's refusal, or that it could not.
    pub(crate) async fn submit(
        &self,
        command: Command,
        idempotency: Option<Idempotency>,
    ) -> Result<Reply, Refusal> {
        let id = self.core.engine.mint();
        let actor = actor(&self.metadata, &self.entered.caller.username, id)?;
        let request = Request { id, tenant: self.tenant(), actor, idempotency, command };
        match self.core.engine.submit(request).await? {
            Answer::Replied(reply) => Ok(reply),
            Answer::Refused(rejection) => Err(rejection.into()),
            Answer::StillRunning => Err(Refusal::StillRunning),
            Answer::AnotherRequest => Err(Refusal::AnotherCall),
        }
    }
}

fn actor(metadata: &HeaderMap, user: &str, id: RequestId) -> Result<Actor, Refusal> {
    let token = metadata.get(REQUEST_ID).and_then(|it| Uuid::try_parse_ascii(it.as_bytes()).ok());
    Ok(Actor {
        user: user.to_owned(),
        created_by: CREATED_BY.read(metadata)?.unwrap_or_else(|| user.to_owned()),
        reason: REASON.read(metadata)?,
        comments: COMMENT.read(metadata)?,
        token: token.unwrap_or(id.0),
    })
}

impl Header {
    fn read(&self, metadata: &HeaderMap) -> Result<Option<String>, Refusal> {
        let Self([ours, theirs], chars_max) = self;
        let Some(value) = metadata.get(*ours).or_else(|| metadata.get(*theirs)) else {
            return Ok(None);
        };
        let refused = |reason| Refusal::Metadata { key: ours, reason };
        let text =
            std::str::from_utf8(value.as_bytes()).map_err(|_| refused("is not valid UTF-8"))?;
        if text.len() > *chars_max && text.chars().count() > *chars_max {
            return Err(refused("is too long"));
        }
        Ok(Some(text.to_owned()))
    }
}

/// The idempotency key, quoted or bare, as the HTTP doors read it.
fn read_idempotency_key(metadata: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(value) = metadata.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let refused = |reason| Refusal::Metadata { key: IDEMPOTENCY_KEY, reason };
    let text = value.to_str().map_err(|_| refused("should be visible ASCII"))?.trim();
    let key = match text.strip_prefix('"') {
        Some(quoted) => quoted
            .strip_suffix('"')
            .ok_or_else(|| refused("has an opening quote but no closing one"))?,
        None => text,
    };
    if key.is_empty() {
        return Err(refused("should not be empty"));
    }
    if key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(refused("should have at most 255 characters"));
    }
    Ok(Some(key))
}

/// The first 16 bytes of SHA-256 over the parts, each with its length.
fn hash(parts: &[&[u8]]) -> Uuid {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let digest = context.finish();
    Uuid::from_slice(&digest.as_ref()[..16]).expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn with(name: &'static str, value: &str) -> HeaderMap {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        HeaderMap::from_iter([(HeaderName::from_static(name), value)])
    }

    #[test]
    fn idempotency_keys() {
        let read = |key: &str| {
            let metadata = with(IDEMPOTENCY_KEY, key);
            read_idempotency_key(&metadata).map(|key| key.map(str::to_owned)).ok().flatten()
        };
        assert_eq!(read("abc").as_deref(), Some("abc"));
        assert_eq!(read("\"abc\"").as_deref(), Some("abc"));
        assert_eq!(read(&"k".repeat(255)), Some("k".repeat(255)));
        for refused in ["", "  ", "\"\"", "\"abc", "é", &"k".repeat(256)] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }

    #[test]
    fn who_asks() {
        let id = RequestId(Uuid::from_u128(9));
        let read = |metadata: &HeaderMap| actor(metadata, "admin", id);
        assert_eq!(read(&HeaderMap::new()).unwrap().created_by, "admin");
        assert_eq!(read(&with("x-killbill-createdby", "w")).unwrap().created_by, "w");
        let ours = read(&with("x-faregate-createdby", "me")).unwrap();
        assert_eq!(
            (ours.created_by.as_str(), ours.user.as_str(), ours.token),
            ("me", "admin", id.0)
        );
        assert!(read(&with("x-faregate-createdby", &"x".repeat(51))).is_err());
        let token = "0192aabb-ccdd-7123-9456-789abcdef012";
        assert_eq!(read(&with(REQUEST_ID, token)).unwrap().token.to_string(), token);
    }
}
