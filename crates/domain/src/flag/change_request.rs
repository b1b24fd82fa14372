//! Changes of flags and segments that are kept for later: until another user approves them, until
//! their time has come, or both. What a change makes of a document is not known here: the API keeps
//! it as a patch, and says what came of it when it is applied.

use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Facts};
use crate::flag::definition::DefinitionKey;
use crate::rows::Keyed;
use crate::{ChangeRequestId, DefinitionId, EnvironmentId, Revision, Seq, TenantNo, Timestamp};

/// How many changes of an environment wait at most.
pub const CHANGES_WAITING_MAX: u32 = 1_000;

/// The status of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ChangeStatus {
    /// It waits for another user's approval.
    Pending,
    /// It is approved or needs no approval, and waits for its time.
    Scheduled,
    /// It was applied.
    Applied,
    /// A user who may approve it rejected it.
    Rejected,
    /// Its author withdrew it.
    Withdrawn,
    /// It could not be applied when it was due.
    Failed,
}

impl ChangeStatus {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Scheduled => "scheduled",
            Self::Applied => "applied",
            Self::Rejected => "rejected",
            Self::Withdrawn => "withdrawn",
            Self::Failed => "failed",
        }
    }

    /// Whether it can still be applied.
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        match self {
            Self::Pending | Self::Scheduled => true,
            Self::Applied | Self::Rejected | Self::Withdrawn | Self::Failed => false,
        }
    }
}

/// A change that is applied later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRequest {
    pub tenant: TenantNo,
    pub id: ChangeRequestId,
    /// The definition to change.
    pub key: DefinitionKey,
    /// The patch as the API wrote it. Not journalled: it never changes, and its result is.
    #[serde(skip)]
    pub patch: String,
    /// The version that the definition must have when the change is applied; `None` for any.
    pub expected: Option<i64>,
    /// When it is applied, in domain time; `None` for as soon as no approval is missing.
    pub due_at: Option<Timestamp>,
    /// The user who requested it.
    pub author: String,
    /// Never journalled, as all that people write.
    #[serde(skip)]
    pub reason: Option<String>,
    /// The author's further comment.
    #[serde(skip)]
    pub comment: Option<String>,
    pub status: ChangeStatus,
    /// The user who approved or rejected it.
    pub decided_by: Option<String>,
    /// Why it was rejected, or failed.
    #[serde(skip)]
    pub explanation: Option<String>,
    /// The version that it created.
    pub version: Option<i64>,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it was applied, or given up.
    pub settled_at: Option<Timestamp>,
    pub revision: Revision,
}

impl Keyed for ChangeRequest {
    type Key = (TenantNo, ChangeRequestId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for ChangeRequest {
    fn facts(&self) -> Facts {
        Facts::new("change", self.id, self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn journalled(self) -> Self {
        Self { patch: String::new(), reason: None, comment: None, explanation: None, ..self }
    }
}

/// Stores a change to be applied later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestChange {
    pub key: DefinitionKey,
    /// In the format of the API; the domain does not read it.
    pub patch: String,
    /// The version that the definition must have when the change is applied; `None` for any.
    pub expected: Option<i64>,
    /// Domain time; `None` for as soon as no approval is missing.
    pub due_at: Option<Timestamp>,
    /// Whether another user has to approve it although the environment does not demand that.
    pub needs_approval: bool,
}

/// A decision on a waiting change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// The change is applied when it is due.
    Approve,
    /// The change is not applied.
    Reject,
    /// The author withdraws the change.
    Withdraw,
}

/// Decides on a change that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecideChange {
    pub environment: EnvironmentId,
    pub change: ChangeRequestId,
    pub decision: Decision,
    /// The change and the definition that the user saw; if either has changed since, the decision is refused. `None`
    /// skips the check.
    #[serde(default)]
    pub seen: Option<Seen>,
}

/// A change, and the definition that it changes, as the user saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The change's last journal row.
    pub change: Seq,
    /// The definition that it changes.
    pub key: DefinitionKey,
    /// The version of the definition; `None` if there was none.
    pub version: Option<i64>,
}

/// Applies a change that is due, or gives it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyChange {
    pub change: ChangeRequestId,
    pub key: DefinitionKey,
    /// The version that the patch was applied to; `None` if there was no definition.
    pub upon: Option<i64>,
    /// The version that the environment must have; `None` for any.
    #[serde(default)]
    pub version: Option<i64>,
    /// The result of the patch.
    pub judged: Judged,
}

/// The result of applying a patch to the current document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judged {
    /// The patch applies, and this is the new definition.
    Fits {
        /// Used only if the definition is new.
        id: DefinitionId,
        body: String,
        is_archived: bool,
    },
    /// The patch does not apply.
    Fails { explanation: String },
}
