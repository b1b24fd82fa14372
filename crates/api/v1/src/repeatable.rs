//! Requests with an `Idempotency-Key`: a repetition is answered as the first one was.

use domain::Idempotency;
use domain::payment::ReplyKey;
use http::{HeaderMap, Uri};
use serde::Serialize;
use sign_up::Error as SignUpError;
use uuid::Uuid;
use web::fingerprint;

use crate::caller::RequestContext;
use crate::error::Error;
use crate::input;

/// A request that may come again.
#[derive(Clone, Copy)]
pub(crate) struct Repeatable {
    /// Names the tenant, the user and their key.
    pub(crate) key: Uuid,
    /// The fingerprint of path and body, equal for a repetition. Only stored sealed: requests may have secrets.
    pub(crate) fingerprint: Uuid,
}

impl Repeatable {
    /// The request with this body, if it has a key.
    ///
    /// # Errors
    /// The header `Idempotency-Key`.
    pub(crate) fn of(
        context: &RequestContext,
        (uri, headers): (&Uri, &HeaderMap),
        body: &impl Serialize,
    ) -> Result<Option<Self>, Error> {
        let Some(key) = input::idempotency_key(headers)? else { return Ok(None) };
        let tenant = context.tenant.no.0.to_be_bytes();
        let user = context.operator.caller.username.as_bytes();
        let body = serde_json::to_vec(body).expect("what was read from JSON can be written");
        Ok(Some(Self {
            key: fingerprint(&[&tenant, user, key.as_bytes()]),
            fingerprint: fingerprint(&[uri.path().as_bytes(), &body]),
        }))
    }

    /// As the core knows it.
    pub(crate) const fn idempotency(self) -> Idempotency {
        Idempotency { key: ReplyKey(self.key), fingerprint: self.fingerprint }
    }

    /// # Errors
    /// Where the key was used for another request.
    pub(crate) fn require_same(self, fingerprint: Uuid) -> Result<(), Error> {
        match self.fingerprint == fingerprint {
            true => Ok(()),
            false => Err(SignUpError::AnotherRequest.into()),
        }
    }
}
