//! Changes of flags and segments that are kept for later: until another user approves them, until
//! their time has come, or both. What a change makes of a document is not known here: the API keeps
//! it as a patch, and says what came of it when it is applied.

use serde::{Deserialize, Serialize};

use crate::definition::DefinitionKey;
use crate::{ChangeRequestId, DefinitionId, EnvironmentId, Revision, Seq, TenantNo, Timestamp};

/// How many changes of an environment wait at most.
pub const CHANGES_WAITING_MAX: u32 = 1_000;

/// Where a change stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ChangeStatus {
    /// It waits for another user's approval.
    Pending,
    /// It is approved or needs no approval, and waits for its time.
    Scheduled,
    /// It was made.
    Applied,
    /// Somebody who may approve it did not.
    Rejected,
    /// Its author took it back.
    Withdrawn,
    /// It could not be made when its time had come.
    Failed,
}

impl ChangeStatus {
    /// Whether it can still be made.
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        match self {
            Self::Pending | Self::Scheduled => true,
            Self::Applied | Self::Rejected | Self::Withdrawn | Self::Failed => false,
        }
    }
}

/// A change that is kept for later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRequest {
    pub tenant: TenantNo,
    pub id: ChangeRequestId,
    /// What is to be changed.
    pub key: DefinitionKey,
    /// What is to be made of it: as the API wrote it. Not journalled: it never changes, and what
    /// came of it is.
    #[serde(skip)]
    pub patch: String,
    /// The version that it must be made upon, if it must.
    pub expected: Option<i64>,
    /// When it is to be made; where nothing was said, as soon as nobody has to approve it.
    pub due_at: Option<Timestamp>,
    /// Who asked for it.
    pub author: String,
    pub reason: Option<String>,
    /// What else they said about it.
    pub comment: Option<String>,
    pub status: ChangeStatus,
    /// Who approved or rejected it.
    pub decided_by: Option<String>,
    /// Why it was rejected, or failed.
    pub explanation: Option<String>,
    /// The version that it made.
    pub version: Option<i64>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was made, or given up.
    pub settled_at: Option<Timestamp>,
    pub revision: Revision,
}

/// Keeps a change for later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestChange {
    pub key: DefinitionKey,
    /// See [`ChangeRequest::patch`].
    pub patch: String,
    /// See [`ChangeRequest::expected`].
    pub expected: Option<i64>,
    /// See [`ChangeRequest::due_at`].
    pub due_at: Option<Timestamp>,
    /// Whether another user has to approve it although the environment does not demand that.
    pub needs_approval: bool,
}

/// What somebody thinks of a change that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// It is to be made when its time has come.
    Approve,
    /// It is not to be made.
    Reject,
    /// Its author takes it back.
    Withdraw,
}

/// Decides on a change that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecideChange {
    pub environment: EnvironmentId,
    pub change: ChangeRequestId,
    /// What about it.
    pub decision: Decision,
    /// What was looked at before, where it has to be there still.
    #[serde(default)]
    pub seen: Option<Seen>,
}

/// A change, and what it is to change, as somebody saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The change's last journal row.
    pub change: Seq,
    /// What it is to change.
    pub key: DefinitionKey,
    /// The version of that; `None` where there was nothing.
    pub version: Option<i64>,
}

/// Makes a change whose time has come, or gives it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyChange {
    pub change: ChangeRequestId,
    pub key: DefinitionKey,
    /// The version that was looked at; `None` where there was nothing.
    pub upon: Option<i64>,
    /// See [`crate::definition::PutDefinitions::version`].
    #[serde(default)]
    pub version: Option<i64>,
    /// What came of it.
    pub judged: Judged,
}

/// What the patch of a change makes of the document that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judged {
    /// Another one.
    Fits {
        /// See [`crate::definition::NewDefinition::id`].
        id: DefinitionId,
        /// See [`crate::definition::NewDefinition::body`].
        body: String,
        /// See [`crate::definition::NewDefinition::is_archived`].
        is_archived: bool,
    },
    /// What cannot be.
    Fails { explanation: String },
}
