//! Publishes committed environments and changes to the cache.

use std::sync::Arc;

use domain::entitlement::Entitlements;
use domain::flag::definition::{Definition, DefinitionKind};
use domain::flag::environment;
use domain::{AccountId, EnvironmentId, TenantNo};
use engine::ports::{Audience, ChangedAccount, EntitlementAudience, EnvironmentFile};
use evaluation::{Flag, MissingAttribute, Segment, Snapshot};
use secrets::Sealer;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::accounts::Account;
use crate::cache::{Environment, FlagCache};
use crate::definition::{RESERVED_KEY, is_plain_key};
use crate::document;
use crate::gate;
use crate::secret::{self, Secret, SecretKind};

/// The follower of committed flags that keeps the cache up to date.
#[derive(Clone)]
pub struct FlagFeed {
    /// The cache that APIs read.
    pub cache: Arc<FlagCache>,
    /// Decrypts the secrets of environments.
    pub sealer: Arc<Sealer>,
    /// The value of an attribute that a user lacks.
    pub missing: MissingAttribute,
}

impl Audience for FlagFeed {
    fn environments(&self, files: Vec<EnvironmentFile>) {
        self.cache.upsert(files.into_iter().map(|file| self.read(file).compiled(self.missing)));
    }

    fn changed(&self, environment: EnvironmentId, definitions: Vec<Definition>) {
        let (flags, segments) = documents(environment, &definitions);
        if !self.cache.apply(environment.uuid(), flags, segments) {
            tracing::error!(%environment, "dropped a change of an environment that is not cached");
        }
    }

    fn caught_up(&self) {
        self.cache.set_available(true);
    }
}

impl EntitlementAudience for FlagFeed {
    fn follows(&self) {
        self.cache.accounts.begin();
        self.cache.key_ledger.begin();
    }

    fn shows(&self, it: &ChangedAccount) -> bool {
        self.cache.accounts.shows(it.account.uuid()) || self.cache.key_ledger.shows(it.tenant)
    }

    fn changed(&self, entitlements: &[Entitlements]) {
        let accounts = &self.cache.accounts;
        let now = accounts.now();
        accounts.changed(entitlements.iter().map(|it| Account::of(it, now)).collect());
        self.cache.key_ledger.changed(entitlements);
    }

    fn used(&self, accounts: &[AccountId]) {
        self.cache.accounts.used(accounts.iter().map(|it| it.uuid()));
    }
}

/// The contents of an environment, with its secrets decrypted and its documents parsed.
#[derive(Debug, Serialize, Deserialize)]
pub struct EnvironmentContents {
    pub id: Uuid,
    pub tenant: TenantNo,
    pub key: String,
    pub project_key: String,
    pub secrets: Vec<Secret>,
    pub flags: Vec<Flag>,
    pub segments: Vec<Segment>,
}

impl EnvironmentContents {
    /// The environment for the cache, with `missing` as the value of an attribute that a user lacks.
    #[must_use]
    pub fn compiled(self, missing: MissingAttribute) -> Environment {
        let Self { id, tenant, key, project_key, secrets, flags, segments } = self;
        let snapshot = Snapshot::new(missing).with(flags, segments);
        Environment { id, tenant, key, project_key, secrets, snapshot }
    }
}

impl FlagFeed {
    /// Decrypts and parses what the store has of an environment. What cannot be read is logged and
    /// left out.
    pub fn read(&self, file: EnvironmentFile) -> EnvironmentContents {
        let id = file.environment.id;
        let (flags, segments) = documents(id, &file.definitions);
        let mut reserved = flags.iter().map(|it| &*it.key).filter(|key| !is_plain_key(key));
        if let Some(first) = reserved.next() {
            let flags = 1 + reserved.count();
            tracing::warn!(environment = %id, flags, first, "the key of a flag {RESERVED_KEY}");
        }
        EnvironmentContents {
            id: id.uuid(),
            tenant: file.environment.tenant,
            key: file.environment.key,
            project_key: file.environment.project,
            secrets: file.secrets.iter().filter_map(|secret| self.open(secret)).collect(),
            flags,
            segments,
        }
    }

    fn open(&self, stored: &environment::Secret) -> Option<Secret> {
        let value = match secret::open(&self.sealer, stored.environment, &stored.sealed) {
            Ok(value) => value,
            Err(error) => {
                tracing::error!(
                    secret.id = %stored.id,
                    %error,
                    "failed to decrypt environment secret; it grants no access"
                );
                return None;
            }
        };
        let kind = match stored.kind {
            environment::SecretKind::Server => SecretKind::Server,
            environment::SecretKind::Client => SecretKind::Client,
            environment::SecretKind::RelayProxy => SecretKind::RelayProxy,
        };
        let expires_at_ms = stored.expires_at.map(domain::Timestamp::millis);
        Some(Secret { kind, value, expires_at_ms })
    }
}

/// The flags and segments of definitions. One that cannot be parsed is logged and left out, so that
/// it does not hold back the others.
pub fn documents(
    environment: EnvironmentId,
    definitions: &[Definition],
) -> (Vec<Flag>, Vec<Segment>) {
    let (mut flags, mut segments) = (vec![], vec![]);
    for definition in definitions {
        let read = match definition.key.kind {
            DefinitionKind::Flag => {
                document::flag(definition).map(|it| flags.push(gate::as_rule(it)))
            }
            DefinitionKind::Segment => document::segment(definition).map(|it| segments.push(it)),
        };
        if let Err(error) = read {
            tracing::error!(%environment, %error, "left out a flag or segment that cannot be parsed");
        }
    }
    (flags, segments)
}
