//! What the doors of feature flags show: the store's environments, as they are committed.

use std::sync::Arc;

use ::flags::{Board, Environment, SecretKind};
use domain::EnvironmentId;
use domain::definition::{Definition, DefinitionKind};
use domain::environment;
use engine::ports::{Audience, EnvironmentFile};
use evaluation::{Flag, MissingAttribute, Segment, Snapshot};

use crate::document;
use crate::seal::Sealer;

/// Puts on the board what it is told of.
pub struct Feed {
    /// What the doors read.
    pub board: Arc<Board>,
    /// What the secrets are stored with.
    pub sealer: Arc<Sealer>,
    /// What an attribute is that a user lacks.
    pub missing: MissingAttribute,
}

impl Audience for Feed {
    fn environment(&self, file: EnvironmentFile) {
        let id = file.environment.id;
        let secrets = file.secrets.iter().filter_map(|secret| self.open(secret)).collect();
        let (flags, segments) = documents(id, &file.definitions);
        self.board.put([Environment {
            id: id.uuid(),
            key: file.environment.key,
            project_key: file.environment.project,
            secrets,
            snapshot: Snapshot::new(self.missing).with(flags, segments),
        }]);
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

impl Feed {
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
        };
        let expires_at_ms = secret.expires_at.map(domain::Timestamp::millis);
        Some(::flags::Secret { kind, value, expires_at_ms })
    }
}

/// What definitions say. One that cannot be read is left out: the others are not to wait for it.
fn documents(environment: EnvironmentId, definitions: &[Definition]) -> (Vec<Flag>, Vec<Segment>) {
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
