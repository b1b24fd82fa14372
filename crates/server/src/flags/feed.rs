//! What the doors of feature flags show: the store's environments, as they are committed.

use std::sync::Arc;

use ::flags::{Board, Environment, SecretKind};
use domain::EnvironmentId;
use domain::definition::{Definition, DefinitionKind};
use domain::environment;
use engine::ports::{Audience, EnvironmentFile};
use evaluation::{Flag, MissingAttribute, Segment, Snapshot};
use uuid::Uuid;

use super::Owners;
use crate::document;
use crate::seal::Sealer;

/// Puts on the board what it is told of.
#[derive(Clone)]
pub struct Feed {
    /// What the doors read.
    pub board: Arc<Board>,
    /// What the secrets are stored with.
    pub sealer: Arc<Sealer>,
    /// What an attribute is that a user lacks.
    pub missing: MissingAttribute,
    /// Whose the environments are.
    pub owners: Arc<Owners>,
}

impl Audience for Feed {
    fn environments(&self, files: Vec<EnvironmentFile>) {
        self.board.put(files.into_iter().map(|file| {
            self.owners.learn(file.environment.id, file.environment.tenant);
            let Contents { id, key, project_key, secrets, flags, segments } = self.read(file);
            let snapshot = Snapshot::new(self.missing).with(flags, segments);
            Environment { id, key, project_key, secrets, snapshot }
        }));
    }

    fn changed(&self, environment: EnvironmentId, definitions: Vec<Definition>) {
        let (flags, segments) = documents(environment, &definitions);
        if !self.board.change(environment.uuid(), flags, segments) {
            tracing::error!(%environment, "a change of an environment that nobody was told of");
        }
    }

    fn caught_up(&self) {
        self.board.set_available(true);
    }
}

/// What an environment holds, in clear and read.
pub struct Contents {
    pub id: Uuid,
    pub key: String,
    pub project_key: String,
    pub secrets: Vec<::flags::Secret>,
    pub flags: Vec<Flag>,
    pub segments: Vec<Segment>,
}

impl Feed {
    /// Reads what the store has of an environment.
    pub fn read(&self, file: EnvironmentFile) -> Contents {
        let id = file.environment.id;
        let (flags, segments) = documents(id, &file.definitions);
        Contents {
            id: id.uuid(),
            key: file.environment.key,
            project_key: file.environment.project,
            secrets: file.secrets.iter().filter_map(|secret| self.open(secret)).collect(),
            flags,
            segments,
        }
    }

    fn open(&self, secret: &environment::Secret) -> Option<::flags::Secret> {
        let opened = self.sealer.open(secret.environment, &secret.sealed);
        let value = match opened {
            Ok(value) => value,
            Err(error) => {
                tracing::error!(secret.id = %secret.id, %error, "a secret opens nothing");
                return None;
            }
        };
        let kind = match secret.kind {
            environment::SecretKind::Server => SecretKind::Server,
            environment::SecretKind::Client => SecretKind::Client,
            environment::SecretKind::RelayProxy => SecretKind::RelayProxy,
        };
        let expires_at_ms = secret.expires_at.map(domain::Timestamp::millis);
        Some(::flags::Secret { kind, value, expires_at_ms })
    }
}

/// What definitions say. One that cannot be read is left out: the others are not to wait for it.
pub fn documents(
    environment: EnvironmentId,
    definitions: &[Definition],
) -> (Vec<Flag>, Vec<Segment>) {
    let (mut flags, mut segments) = (vec![], vec![]);
    for definition in definitions {
        let read = match definition.key.kind {
            DefinitionKind::Flag => document::flag(definition).map(|it| flags.push(it)),
            DefinitionKind::Segment => document::segment(definition).map(|it| segments.push(it)),
        };
        if let Err(error) = read {
            tracing::error!(%environment, %error, "a flag or segment is left out");
        }
    }
    (flags, segments)
}
