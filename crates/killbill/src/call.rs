//! One request on its way through the door: past the checks, before the answer.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use domain::payment::Actor;
use domain::{Command, Id, Reply, Request, RequestId, TenantNo};
use engine::Answer;
use engine::access::{Caller, TenantRef};
use engine::ports::{Queries, StoreError};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

use crate::Door;
use crate::error::{Failure, class, code};
use crate::json::{Json, parse, parse_uuid};
use crate::reply;
use crate::request::{self, Query, Same};
use crate::routes::Route;

/// A request whose caller may make it.
pub(crate) struct Call {
    pub(crate) door: Door,
    pub(crate) route: &'static Route,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    pub(crate) caller: Arc<Caller>,
    /// `None` on routes that are the installation's, not a tenant's.
    pub(crate) tenant: Option<Arc<TenantRef>>,
    /// `None` on routes that leave no trace in the audit.
    pub(crate) actor: Option<Actor>,
    pub(crate) id: RequestId,
}

impl Call {
    /// The tenant's number.
    ///
    /// # Panics
    /// On a route that has no tenant: the table of routes says which have.
    pub(crate) fn tenant(&self) -> TenantNo {
        self.tenant.as_ref().expect("the route's line in the table asks for a tenant").no
    }

    /// The query parameters.
    pub(crate) fn query(&self) -> Query<'_> {
        Query::new(self.parts.uri.query().unwrap_or_default())
    }

    /// A path parameter, decoded.
    ///
    /// # Errors
    /// One that is no text.
    pub(crate) fn param(&self, name: &'static str) -> Result<Cow<'_, str>, Failure> {
        let place = self.route.path.split('/').position(|segment| {
            segment.strip_prefix('{').and_then(|it| it.strip_suffix('}')) == Some(name)
        });
        let place = place.expect("the route's path has the parameter");
        let raw = self.parts.uri.path().split('/').nth(place).unwrap_or_default();
        percent_decode_str(raw)
            .decode_utf8()
            .map_err(|_| Failure::illegal(format!("{name} is not valid UTF-8")))
    }

    /// A path parameter that is an id.
    ///
    /// # Errors
    /// One that is no UUID.
    pub(crate) fn param_id<K>(&self, name: &'static str) -> Result<Id<K>, Failure> {
        read_id(name, &self.param(name)?)
    }

    /// A query parameter that is an id.
    ///
    /// # Errors
    /// One that is no UUID.
    pub(crate) fn query_id<K>(&self, name: &'static str) -> Result<Option<Id<K>>, Failure> {
        self.query().text(name)?.map(|text| read_id(name, &text)).transpose()
    }

    /// The body, which has to be there.
    ///
    /// # Errors
    /// 400, naming the field.
    pub(crate) fn body<'a, T: Deserialize<'a>>(&'a self, json: Json) -> Result<T, Failure> {
        self.optional_body(json)?.ok_or_else(|| json.missing_body())
    }

    /// The body, if there is one.
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
        reply::location(&self.parts.headers, self.door.settings().tls, path)
    }

    /// Reads committed rows.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, Failure>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        Ok(self.door.engine().read(query).await?)
    }

    /// Submits a command of the call's tenant and waits for its durable answer.
    ///
    /// # Errors
    /// The core's refusal, or that it could not.
    pub(crate) async fn submit(&self, command: Command) -> Result<Reply, Failure> {
        self.submit_as(self.id, command, &self.body).await
    }

    /// Submits a command whose request holds a secret. `rest` is all that the body says beside it, and
    /// what the request is known again by: from a fingerprint of the secret, the secret could be
    /// guessed.
    ///
    /// # Errors
    /// See [`Call::submit`].
    pub(crate) async fn submit_secret(
        &self,
        command: Command,
        rest: impl Serialize,
    ) -> Result<Reply, Failure> {
        let rest = serde_json::to_vec(&rest).expect("what was read from JSON can be written as it");
        self.submit_as(self.id, command, &rest).await
    }

    /// Submits a command that makes nothing new.
    ///
    /// # Errors
    /// See [`Call::submit`].
    pub(crate) async fn submit_change(&self, command: Command) -> Result<(), Failure> {
        let Reply::Done = self.submit(command).await? else { unexpected() };
        Ok(())
    }

    /// Submits a command once more, under an id of its own: the first try wrote nothing.
    ///
    /// # Errors
    /// See [`Call::submit`].
    pub(crate) async fn submit_again(&self, command: Command) -> Result<Reply, Failure> {
        let id = self.door.engine().mint();
        self.submit_as(id, command, &self.body).await
    }

    async fn submit_as(
        &self,
        id: RequestId,
        command: Command,
        body: &[u8],
    ) -> Result<Reply, Failure> {
        let tenant = self.tenant.as_ref().map_or(TenantNo::SYSTEM, |tenant| tenant.no);
        let idempotency = if self.parts.method == http::Method::POST {
            let uri = &self.parts.uri;
            let same = Same {
                tenant,
                user: &self.caller.username,
                method: self.parts.method.as_str(),
                path: uri.path(),
                query: uri.query().unwrap_or_default(),
                body,
            };
            request::idempotency(&self.parts.headers, same)?
        } else {
            None
        };
        let actor = self.actor.clone().expect("a route that writes is audited");
        let request = Request { id, tenant, actor, idempotency, command };
        match self.door.engine().submit(request).await? {
            Answer::Replied(reply) => Ok(reply),
            Answer::Refused(rejection) => Err(Failure::Refused(Box::new(rejection))),
            Answer::StillRunning => Err(still_running()),
            Answer::AnotherRequest => Err(another_request()),
        }
    }

    /// Whether the request says that it may come again.
    pub(crate) fn may_come_again(&self) -> bool {
        self.parts.method == http::Method::POST && request::has_idempotency_key(&self.parts.headers)
    }
}

/// An id out of the path or the query.
///
/// # Errors
/// One that is no UUID.
pub(crate) fn read_id<K>(name: &str, text: &str) -> Result<Id<K>, Failure> {
    parse_uuid(text).map(Id::new).ok_or_else(|| {
        Failure::illegal(format!("{name}: Invalid UUID string: {}", request::shown(text)))
    })
}

fn still_running() -> Failure {
    let code = code::plain(StatusCode::CONFLICT, class::CLIENT_ERROR);
    Failure::coded(
        code,
        "Idempotency-Key: a request with this key is in progress or its outcome is not known yet",
    )
}

fn another_request() -> Failure {
    let code = code::plain(StatusCode::UNPROCESSABLE_ENTITY, class::CLIENT_ERROR);
    Failure::coded(code, "Idempotency-Key: the key was used for another request")
}

/// Where a reply is of another kind than its command's.
///
/// # Panics
/// Always; each command has its kind of reply, so that it is never called.
pub(crate) fn unexpected() -> ! {
    unreachable!("each command has its kind of reply")
}
