//! One admitted request: its parameters, its body, and its access to the engine.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::object::ObjectType;
use domain::payment::Actor;
use domain::{Command, Id, Idempotency, Reply, Request, RequestId, TenantNo};
use engine::Answer;
use engine::access::{Caller, TenantRef};
use engine::ports::{Queries, StoreError};
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use web::fingerprint;
use web::headers::has_idempotency_key;

use crate::KillBillApi;
use crate::error::{Failure, Problem, class, code};
use crate::json::{Json, parse, parse_uuid};
use crate::media_types::Gives;
use crate::reply;
use crate::request::{self, Query, RequestIdentity};

/// When a request may be sent again with its idempotency key.
const RETRY_AFTER_IN_PROGRESS: Duration = Duration::from_secs(1);

/// A request of an authenticated and authorized caller.
pub(crate) struct Call {
    pub(crate) api: KillBillApi,
    /// The route's path, with its parameters in braces.
    pub(crate) template: &'static str,
    /// The type of objects that the path names, on a route that several types have.
    pub(crate) object: Option<ObjectType>,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    pub(crate) caller: Arc<Caller>,
    /// `None` on routes of the installation.
    pub(crate) tenant: Option<Arc<TenantRef>>,
    /// `None` on routes that are not audited.
    pub(crate) actor: Option<Actor>,
    pub(crate) id: RequestId,
}

impl Call {
    /// The tenant's number.
    ///
    /// # Panics
    /// On a route that does not require a tenant.
    pub(crate) fn tenant(&self) -> TenantNo {
        self.tenant.as_ref().expect("the route requires a tenant").no
    }

    /// The query parameters.
    pub(crate) fn query(&self) -> Query<'_> {
        Query::new(self.parts.uri.query().unwrap_or_default())
    }

    /// A path parameter, decoded.
    ///
    /// # Errors
    /// 400 if it is not UTF-8.
    pub(crate) fn param(&self, name: &'static str) -> Result<Cow<'_, str>, Failure> {
        let raw = request::parameter(self.template, self.parts.uri.path(), name);
        percent_decode_str(raw.expect("the route's path has the parameter"))
            .decode_utf8()
            .map_err(|_| Failure::illegal(format!("{name} is not valid UTF-8")))
    }

    /// A path parameter that is an id.
    ///
    /// # Errors
    /// 400 if it is not a UUID.
    pub(crate) fn param_id<K>(&self, name: &'static str) -> Result<Id<K>, Failure> {
        read_id(name, &self.param(name)?)
    }

    /// A query parameter that is an id.
    ///
    /// # Errors
    /// 400 if it is not a UUID.
    pub(crate) fn query_id<K>(&self, name: &'static str) -> Result<Option<Id<K>>, Failure> {
        self.query().text(name)?.map(|text| read_id(name, &text)).transpose()
    }

    /// Whether the client accepts XML and no JSON.
    pub(crate) fn wants_xml(&self) -> bool {
        let accept = self.parts.headers.get(ACCEPT).map_or(&b""[..], HeaderValue::as_bytes);
        !Gives::Json.is_accepted(accept) && Gives::Xml.is_accepted(accept)
    }

    /// The required body.
    ///
    /// # Errors
    /// 400, naming the field.
    pub(crate) fn body<'a, T: Deserialize<'a>>(&'a self, json: Json) -> Result<T, Failure> {
        self.optional_body(json)?.ok_or_else(|| json.missing_body())
    }

    /// The body; `None` if it is empty or null.
    ///
    /// # Errors
    /// 400, naming the field.
    pub(crate) fn optional_body<'a, T: Deserialize<'a>>(
        &'a self,
        json: Json,
    ) -> Result<Option<T>, Failure> {
        parse(json, &self.body)
    }

    /// An absolute URL for `Location`.
    pub(crate) fn location(&self, path: &[&str]) -> HeaderValue {
        let settings = self.api.settings();
        match settings.public_url.as_str() {
            "" => reply::location(&self.parts.headers, settings.tls, path),
            url => reply::location_below(url, path),
        }
    }

    /// Reads committed rows.
    ///
    /// # Errors
    /// [`Failure::Unavailable`]: the store cannot be read.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, Failure>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        Ok(self.api.engine().read(query).await?)
    }

    /// Submits a command for the tenant and waits until its reply is durable.
    ///
    /// # Errors
    /// The engine's refusal, or [`Failure::Unavailable`].
    pub(crate) async fn submit(&self, command: Command) -> Result<Reply, Failure> {
        self.submit_as(self.tenant_no(), command, &self.body).await
    }

    /// Submits a command whose body contains a secret. `rest` is the body without the secret; only it
    /// is fingerprinted for the idempotency key, because a secret can be guessed from its hash.
    ///
    /// # Errors
    /// See [`Call::submit`].
    pub(crate) async fn submit_secret(
        &self,
        command: Command,
        rest: impl Serialize,
    ) -> Result<Reply, Failure> {
        let rest = serde_json::to_vec(&rest).expect("values decoded from JSON can be encoded");
        self.submit_as(self.tenant_no(), command, &rest).await
    }

    /// Submits a command whose reply carries no data.
    ///
    /// # Errors
    /// See [`Call::submit`].
    pub(crate) async fn submit_change(&self, command: Command) -> Result<(), Failure> {
        self.submit_change_of(self.tenant_no(), command).await
    }

    /// As [`Call::submit_change`], for a tenant that need not be the request's.
    ///
    /// # Errors
    /// See [`Call::submit`].
    pub(crate) async fn submit_change_of(
        &self,
        tenant: TenantNo,
        command: Command,
    ) -> Result<(), Failure> {
        let reply = self.submit_as(tenant, command, &self.body).await?;
        let Reply::Done = reply else { unexpected() };
        Ok(())
    }

    /// The tenant that the request is about: the installation's own where it names none.
    fn tenant_no(&self) -> TenantNo {
        self.tenant.as_ref().map_or(TenantNo::SYSTEM, |tenant| tenant.no)
    }

    /// Whether the request can be sent again without doing its work twice: it has an idempotency key.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.parts.method == Method::POST && has_idempotency_key(&self.parts.headers)
    }

    /// An id of the request beyond this process: the same for one that is sent again with its idempotency key.
    ///
    /// # Errors
    /// 400 if the key is invalid.
    pub(crate) fn name_of_request(&self) -> Result<Uuid, Failure> {
        let repeatable = self.idempotency(self.tenant_no(), &self.body)?;
        Ok(repeatable
            .map_or(self.id.0, |it| fingerprint(&[it.key.0.as_bytes(), it.fingerprint.as_bytes()])))
    }

    fn idempotency(&self, tenant: TenantNo, body: &[u8]) -> Result<Option<Idempotency>, Failure> {
        let uri = &self.parts.uri;
        let identity = RequestIdentity {
            tenant,
            user: &self.caller.username,
            method: self.parts.method.as_str(),
            path: uri.path(),
            query: uri.query().unwrap_or_default(),
            body,
        };
        request::idempotency(&self.parts.headers, identity)
    }

    /// The id of one of several commands of the request, which `part` names: the same where the request is sent again
    /// with its idempotency key.
    ///
    /// # Errors
    /// 400 if the key is invalid.
    pub(crate) fn id_of_part(&self, part: Uuid) -> Result<RequestId, Failure> {
        let request = self.name_of_request()?;
        let hash = fingerprint(&[request.as_bytes(), part.as_bytes()]);
        // What it makes is stored near what the request makes.
        let time = request.as_u128() >> 80 << 80;
        Ok(RequestId(Uuid::from_u128(time | hash.as_u128() >> 48)))
    }

    /// Submits one of several commands of the request, with the id of its part. Its reply is not stored.
    ///
    /// # Errors
    /// See [`Call::submit`].
    pub(crate) async fn submit_part(
        &self,
        id: RequestId,
        command: Command,
    ) -> Result<Reply, Failure> {
        self.answered(id, None, (self.tenant_no(), command)).await
    }

    async fn submit_as(
        &self,
        tenant: TenantNo,
        command: Command,
        body: &[u8],
    ) -> Result<Reply, Failure> {
        let idempotency =
            if self.parts.method == Method::POST { self.idempotency(tenant, body)? } else { None };
        self.answered(self.id, idempotency, (tenant, command)).await
    }

    async fn answered(
        &self,
        id: RequestId,
        idempotency: Option<Idempotency>,
        (tenant, command): (TenantNo, Command),
    ) -> Result<Reply, Failure> {
        let actor = self.actor.clone().expect("routes that write are audited");
        let request = Request { id, tenant, actor, idempotency, command };
        let answer = self.api.engine().submit(request).await.map_err(|mut unavailable| {
            if unavailable.reason.leaves_outcome_unknown() && self.is_repeatable() {
                unavailable.retry_after = Some(RETRY_AFTER_IN_PROGRESS);
            }
            unavailable
        })?;
        match answer {
            Answer::Replied(reply) => Ok(reply),
            Answer::Refused(rejection) => Err(Failure::Refused(Box::new(rejection))),
            Answer::StillRunning => Err(still_running()),
            Answer::AnotherRequest => Err(another_request()),
        }
    }
}

/// Parses an id of the path or the query.
///
/// # Errors
/// 400 if it is not a UUID.
pub(crate) fn read_id<K>(name: &str, text: &str) -> Result<Id<K>, Failure> {
    parse_uuid(text).map(Id::new).ok_or_else(|| {
        Failure::illegal(format!("{name}: Invalid UUID string: {}", request::printable(text)))
    })
}

fn still_running() -> Failure {
    let code = code::plain(StatusCode::CONFLICT, class::CLIENT_ERROR);
    let message =
        "Idempotency-Key: a request with this key is in progress or its outcome is not known yet";
    let mut problem = Problem::new(code, message);
    problem.is_unknown = true;
    problem.retry_after = Some(RETRY_AFTER_IN_PROGRESS);
    Failure::Problem(Box::new(problem))
}

fn another_request() -> Failure {
    let code = code::plain(StatusCode::UNPROCESSABLE_ENTITY, class::CLIENT_ERROR);
    Failure::coded(code, "Idempotency-Key: the key was used for another request")
}

/// Handles a reply of another command's kind.
///
/// # Panics
/// Always: the engine returns the kind of reply that belongs to the command.
pub(crate) fn unexpected() -> ! {
    unreachable!("the reply belongs to the command")
}
