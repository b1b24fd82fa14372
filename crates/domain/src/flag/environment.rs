//! Environments of feature flags, and the secrets that programs read them with.

use serde::{Deserialize, Serialize};

use crate::claim::{ClaimKey, ClaimKind};
use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::{EnvironmentId, Revision, SecretId, TenantNo, Timestamp};

/// How many secrets an environment has at most, those that ended too.
pub const SECRETS_MAX: usize = 1_000;

/// How many environments a relay proxy has at most: it names all of them where it asks for what is
/// new, in a message of 8 KiB at most.
pub const ENVIRONMENTS_OF_RELAY_MAX: usize = 100;

/// How long the documents of an environment's flags and segments are together at most, in bytes: a client
/// gets them in one answer.
pub const DEFINITIONS_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Where a project's flags have values of their own, such as `dev` or `prod`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub tenant: TenantNo,
    /// Its id, which its secrets carry.
    pub id: EnvironmentId,
    /// The project's key.
    pub project: String,
    /// Its own key; unique in the project.
    pub key: String,
    /// The display name.
    pub name: String,
    /// The version that was given to its last change: Unix time in milliseconds, and always more
    /// than the one before, so that a reader who has a version knows what it misses.
    pub version: i64,
    /// How many flags and segments it has.
    pub definitions: u32,
    /// How many bytes their documents have together.
    #[serde(default)]
    pub definitions_bytes: u64,
    /// How many secrets it has, those that ended too.
    pub secrets: u32,
    /// Whether what is defined there changes only by changes that another user has approved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_need_approval: bool,
    /// How many changes wait: see [`crate::flag::change_request`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changes_waiting: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its history: a change of its secrets or definitions is one of it too, so that a reader who has its
    /// newest revision knows what they miss.
    pub revision: Revision,
}

impl Keyed for Environment {
    type Key = (TenantNo, EnvironmentId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for Environment {
    fn facts(&self) -> Facts {
        Facts::new("environment", self.id, self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// The kind of a secret: the data that it gives access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SecretKind {
    /// All flags and segments, for servers.
    Server,
    /// Flags as they are for one user, for browsers and apps: not secret from their users.
    Client,
    /// Flags, segments and secrets of several environments, for proxies between them and programs.
    /// Each environment has a row of it, with the same value.
    RelayProxy,
}

/// A secret that programs read an environment with. There may be several, so that one can replace another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    pub tenant: TenantNo,
    /// Its id, which is not secret.
    pub id: SecretId,
    /// The environment that it gives access to.
    pub environment: EnvironmentId,
    pub kind: SecretKind,
    /// The display name.
    pub name: String,
    /// The value, encrypted. Never journalled.
    #[serde(skip)]
    pub sealed: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working, in real time; `None` for never.
    pub expires_at: Option<Timestamp>,
    pub revision: Revision,
}

impl Keyed for Secret {
    type Key = (TenantNo, SecretId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for Secret {
    fn facts(&self) -> Facts {
        Facts::new("secret", self.id, self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn journalled(self) -> Self {
        Self { sealed: String::new(), ..self }
    }
}

/// Creates an environment with its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateEnvironment {
    /// Its id: its secrets were made with it.
    pub id: EnvironmentId,
    /// The key of the project.
    pub project: String,
    /// Unique in the project.
    pub key: String,
    /// The display name.
    pub name: String,
    /// At most [`SECRETS_MAX`].
    pub secrets: Vec<NewSecret>,
}

/// A secret to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSecret {
    pub kind: SecretKind,
    /// The display name.
    pub name: String,
    /// The encrypted value of the secret.
    pub sealed: String,
}

/// Changes what an environment is called, and whether changes need approval there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateEnvironment {
    pub environment: EnvironmentId,
    /// The new display name; `None` keeps it.
    pub name: Option<String>,
    /// Whether changes need the approval of another user; `None` keeps the setting.
    pub changes_need_approval: Option<bool>,
}

/// Adds a secret to an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddSecret {
    pub environment: EnvironmentId,
    pub secret: NewSecret,
}

/// Sets when a secret expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpireSecret {
    pub environment: EnvironmentId,
    pub secret: SecretId,
    /// When the secret stops working, in real time.
    pub at: Timestamp,
}

/// Adds a secret to each of several environments, all or none: those of a relay proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddSecrets {
    /// One for each environment, at most [`ENVIRONMENTS_OF_RELAY_MAX`].
    pub secrets: Vec<AddSecret>,
}

/// Sets when several secrets expire, all or none: those of a relay proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpireSecrets {
    /// One of each environment.
    pub secrets: Vec<ExpireSecret>,
}

/// The claim on an environment's name.
pub(crate) fn claim(tenant: TenantNo, project: &str, key: &str) -> ClaimKey {
    ClaimKey::new(tenant, ClaimKind::Environment, &format!("{project}/{key}"))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}
