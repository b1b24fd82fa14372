//! One authenticated call: its permissions, its audit metadata, its idempotency key, and its access to
//! the engine.

use std::sync::Arc;
use std::time::Duration;

use domain::payment::{Actor, ReplyKey};
use domain::{Command, Currency, Idempotency, Reply, Request, RequestId, TenantNo};
use engine::access::{Access, Caller, ClientAddress, TenantRef, text_of_header};
use engine::ports::{Page, Queries, StoreError};
use engine::queue::SimulatedWork;
use engine::watched_accounts::WatchedAccounts;
use engine::{Answer, Engine};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use prost::Message;
use uuid::Uuid;
use web::headers::{InvalidIdempotencyKey, TenantHeaders, idempotency_key, tenant};
use web::{NetworkPermits, card_data, fingerprint};

use crate::fields;
use crate::refusal::Refusal;

/// The delay of the response, as if a provider had to be called: for benchmarks.
const SIMULATED_WORK: &str = "faregate-balance-delay-ms";
const REQUEST_ID: &str = "x-request-id";

/// The audit metadata: our names, or those of Kill Bill's clients; with the longest values, in
/// characters.
const CREATED_BY: Header = Header(["x-faregate-createdby", "x-killbill-createdby"], 50);
const REASON: Header = Header(["x-faregate-reason", "x-killbill-reason"], 255);
const COMMENT: Header = Header(["x-faregate-comment", "x-killbill-comment"], 255);

/// Metadata with its two names and its longest value, in characters.
struct Header([&'static str; 2], usize);

/// The engine and settings that all services share.
pub(crate) struct ServiceContext {
    pub(crate) engine: Engine,
    /// Authenticates users and tenants.
    pub(crate) access: Access,
    pub(crate) simulates_work: bool,
    /// The accounts that are watched.
    pub(crate) watched: Arc<WatchedAccounts>,
    /// Streams by network.
    pub(crate) streams: Arc<NetworkPermits>,
}

/// The authenticated caller and tenant, which the server stores in the request's extensions.
#[derive(Clone)]
pub(crate) struct Authenticated {
    pub(crate) client: ClientAddress,
    pub(crate) caller: Arc<Caller>,
    pub(crate) tenant: Arc<TenantRef>,
}

impl Authenticated {
    /// Authenticates the caller and the tenant of a call.
    ///
    /// # Errors
    /// [`Refusal::Access`] or [`Refusal::TenantMissing`].
    pub(crate) async fn of(
        access: &Access,
        client: ClientAddress,
        metadata: &HeaderMap,
    ) -> Result<Self, Refusal> {
        let authorization = metadata.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let caller = access.user(client, authorization).await?;
        let credentials = tenant(metadata).ok().flatten();
        let TenantHeaders { key, secret } = credentials.ok_or(Refusal::TenantMissing)?;
        let tenant = access.tenant(client, key, secret).await?;
        Ok(Self { client, caller, tenant })
    }

    /// Requires a permission of the caller.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`].
    pub(crate) fn require(&self, permission: &'static str) -> Result<(), Refusal> {
        let may = self.caller.may(permission);
        if may { Ok(()) } else { Err(Refusal::Forbidden(permission)) }
    }
}

/// Whether a client requests simulated work: such a call waits by design.
pub(crate) fn requests_simulated_work(metadata: &HeaderMap) -> bool {
    metadata.contains_key(SIMULATED_WORK)
}

/// A call of an authenticated caller.
pub(crate) struct Call<'a> {
    context: &'a ServiceContext,
    authenticated: Authenticated,
    metadata: HeaderMap,
}

impl<'a> Call<'a> {
    /// Splits a request into the call and its message.
    ///
    /// # Errors
    /// [`Refusal::TenantMissing`] if the server did not authenticate the call.
    pub(crate) fn of<M>(
        context: &'a ServiceContext,
        request: tonic::Request<M>,
    ) -> Result<(Self, M), Refusal> {
        let (metadata, mut extensions, message) = request.into_parts();
        let authenticated: Authenticated = extensions.remove().ok_or(Refusal::TenantMissing)?;
        let metadata = metadata.into_headers();
        let keys = authenticated.tenant.numeric_keys;
        if let Some(key) = card_data::find_in_headers(&metadata, keys) {
            return Err(Refusal::Metadata { key, reason: card_data::REASON.into() });
        }
        Ok((Self { context, authenticated, metadata }, message))
    }

    /// The call of a method that changes something, its message and its idempotency.
    ///
    /// # Errors
    /// As [`Self::of`], [`Self::require`] and [`Self::idempotency`].
    pub(crate) fn of_write<M: Message>(
        context: &'a ServiceContext,
        request: tonic::Request<M>,
        (method, permission): (&str, &'static str),
    ) -> Result<(Self, M, Option<Idempotency>), Refusal> {
        let (call, message) = Self::of(context, request)?;
        call.require(permission)?;
        let idempotency = call.idempotency(method, &message)?;
        Ok((call, message, idempotency))
    }

    /// An optional external key of the message; empty means none.
    ///
    /// # Errors
    /// As [`fields::key`].
    pub(crate) fn key(&self, field: &'static str, text: String) -> Result<Option<String>, Refusal> {
        fields::key(field, text, self.authenticated.tenant.numeric_keys)
    }

    /// Refuses a currency that Kill Bill lacks where the tenant's settings say so.
    ///
    /// # Errors
    /// [`Refusal::Field`].
    pub(crate) fn check_currency(
        &self,
        field: &'static str,
        currency: Option<Currency>,
    ) -> Result<(), Refusal> {
        let reason = "is not one of Kill Bill's, as `killbill.currencies` asks";
        match currency.filter(|it| self.authenticated.tenant.refuses(*it)) {
            Some(_) => Err(Refusal::field(field, reason)),
            None => Ok(()),
        }
    }

    /// The tenant's number.
    pub(crate) fn tenant(&self) -> TenantNo {
        self.authenticated.tenant.no
    }

    /// The simulated work that the client requests, if it is allowed: `MIN-MAX`, in milliseconds.
    ///
    /// # Errors
    /// [`Refusal::Metadata`]: not a range, or above a minute.
    pub(crate) fn simulated_work(&self) -> Result<Option<SimulatedWork>, Refusal> {
        let Some(text) = self.metadata.get(SIMULATED_WORK).filter(|_| self.context.simulates_work)
        else {
            return Ok(None);
        };
        let ends = text.to_str().ok().and_then(|text| text.split_once('-'));
        let ms = |text: &str| text.trim().parse().ok().map(Duration::from_millis);
        let work = ends.and_then(|(from, to)| Some(SimulatedWork { from: ms(from)?, to: ms(to)? }));
        match work {
            Some(work) if work.from <= work.to && work.to <= SimulatedWork::MAX => Ok(Some(work)),
            Some(_) | None => Err(Refusal::Metadata {
                key: SIMULATED_WORK,
                reason: "is not MIN-MAX milliseconds, at most a minute".into(),
            }),
        }
    }

    /// Requires a permission of the caller.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`].
    pub(crate) fn require(&self, permission: &'static str) -> Result<(), Refusal> {
        self.authenticated.require(permission)
    }

    /// The caller and the tenant.
    pub(crate) const fn authenticated(&self) -> &Authenticated {
        &self.authenticated
    }

    /// The caller and the tenant, and the metadata that authenticates them: for a call that lasts.
    pub(crate) fn into_caller(self) -> (Authenticated, HeaderMap) {
        (self.authenticated, self.metadata)
    }

    /// Reads committed rows.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`]: the store cannot be read.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, Refusal>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        Ok(self.context.engine.read(query).await?)
    }

    /// Reads a page of committed rows.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`]: the store cannot be read, or not in time.
    pub(crate) async fn read_page<T, F>(&self, page: Page, query: F) -> Result<T, Refusal>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        Ok(self.context.engine.read_page((self.tenant(), page), query).await?)
    }

    /// The idempotency key of the call with the hash of its method and message.
    ///
    /// # Errors
    /// [`Refusal::Metadata`]: the key is invalid.
    fn idempotency(
        &self,
        method: &str,
        message: &impl Message,
    ) -> Result<Option<Idempotency>, Refusal> {
        let Some(key) = read_idempotency_key(&self.metadata)? else { return Ok(None) };
        let tenant = self.tenant().0.to_be_bytes();
        let name =
            fingerprint(&[&tenant, self.authenticated.caller.username.as_bytes(), key.as_bytes()]);
        let fingerprint = fingerprint(&[b"grpc", method.as_bytes(), &message.encode_to_vec()]);
        Ok(Some(Idempotency { key: ReplyKey(name), fingerprint }))
    }

    /// Submits a command for the tenant and waits until its reply is durable.
    ///
    /// # Errors
    /// The engine's refusal, or [`Refusal::Unavailable`].
    pub(crate) async fn submit(
        &self,
        command: Command,
        idempotency: Option<Idempotency>,
    ) -> Result<Reply, Refusal> {
        let id = self.context.engine.mint();
        let actor = actor(&self.metadata, &self.authenticated.caller.username, id)?;
        let request = Request { id, tenant: self.tenant(), actor, idempotency, command };
        match self.context.engine.submit(request).await? {
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
        let refused = |reason: &'static str| Refusal::Metadata { key: ours, reason: reason.into() };
        let text = text_of_header(value.as_bytes());
        if text.len() > *chars_max && text.chars().count() > *chars_max {
            return Err(refused("is too long"));
        }
        Ok(Some(text.into_owned()))
    }
}

fn read_idempotency_key(metadata: &HeaderMap) -> Result<Option<String>, Refusal> {
    let refused = |error: InvalidIdempotencyKey| Refusal::Metadata {
        key: "idempotency-key",
        reason: error.to_string().into(),
    };
    idempotency_key(metadata).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn with(name: &'static str, value: &str) -> HeaderMap {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        HeaderMap::from_iter([(HeaderName::from_static(name), value)])
    }

    #[test]
    fn an_invalid_idempotency_key_is_refused_by_name() {
        let read = |key: &str| read_idempotency_key(&with("idempotency-key", key));
        assert_eq!(read("\"abc\"").unwrap().as_deref(), Some("abc"));
        let refusal = read("\"abc").unwrap_err().to_string();
        assert_eq!(refusal, "metadata idempotency-key: has an opening quote but no closing one");
    }

    #[test]
    fn the_actor_is_read_from_the_metadata() {
        let id = RequestId(Uuid::from_u128(9));
        let read = |metadata: &HeaderMap| actor(metadata, "admin", id);
        assert_eq!(read(&HeaderMap::new()).unwrap().created_by, "admin");
        assert_eq!(read(&with("x-killbill-createdby", "w")).unwrap().created_by, "w");
        let ours = read(&with("x-faregate-createdby", "me")).unwrap();
        assert_eq!(
            (ours.created_by.as_str(), ours.user.as_str(), ours.token),
            ("me", "admin", id.0)
        );
        let refusal = read(&with("x-faregate-createdby", &"x".repeat(51))).unwrap_err().to_string();
        assert_eq!(refusal, "metadata x-faregate-createdby: is too long");
        let latin = HeaderValue::from_bytes(b"J\xfcrgen").unwrap();
        let latin =
            HeaderMap::from_iter([(HeaderName::from_static("x-killbill-createdby"), latin)]);
        assert_eq!(read(&latin).unwrap().created_by, "Jürgen");
        let token = "0192aabb-ccdd-7123-9456-789abcdef012";
        assert_eq!(read(&with(REQUEST_ID, token)).unwrap().token.to_string(), token);
    }
}
