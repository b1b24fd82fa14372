//! Operations: asynchronous work whose outcome a client learns later. So far registrations, which are stored whole,
//! encrypted by the API, until they are made.

use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::{CustomerId, OperationId, Revision, TenantNo, Timestamp};

/// The status of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationStatus {
    /// The registration is not made yet.
    Waiting,
    /// It made a customer; `None` where the address had one, who is notified.
    Succeeded(Option<CustomerId>),
    /// It could not be made: the API's text for it, without personal data.
    Failed(String),
}

/// A registration that is kept until it is made. Named after the request that asked for it, so that
/// its account is that of the request which makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub tenant: TenantNo,
    pub id: OperationId,
    pub status: OperationStatus,
    /// The registration, encrypted by the API; `None` once the operation has ended. Never journalled.
    #[serde(skip)]
    pub sealed: Option<String>,
    /// The callback and its secret, encrypted too. Never journalled.
    #[serde(skip)]
    pub callback: Option<String>,
    /// When the callback is called or retried.
    #[serde(skip)]
    pub notify_at: Option<Timestamp>,
    /// How many calls of the callback have failed.
    #[serde(skip)]
    pub notify_attempts: u32,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it ended.
    pub settled_at: Option<Timestamp>,
    pub revision: Revision,
}

impl Keyed for Operation {
    type Key = (TenantNo, OperationId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for Operation {
    fn facts(&self) -> Facts {
        Facts::new("operation", self.id, self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn journalled(self) -> Self {
        Self { sealed: None, callback: None, notify_at: None, notify_attempts: 0, ..self }
    }
}

/// Stores a registration to be made later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRegistration {
    /// The operation's id: that of the request.
    pub operation: OperationId,
    /// The registration, encrypted by the API.
    pub sealed: String,
    /// The callback and its secret, encrypted by the API.
    pub callback: Option<String>,
}

/// A registration that was kept cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailOperation {
    pub operation: OperationId,
    /// The API's text for the failure, without personal data.
    pub explanation: String,
}
