//! The profile of an environment: its names and secrets.

use crate::secret::{Digest, Secret, SecretKind};

/// The names and secrets of an environment.
#[derive(PartialEq, Eq)]
pub struct Profile {
    pub key: String,
    pub project_key: String,
    /// Each with the hash that it is looked up by.
    pub secrets: Vec<(Digest, Secret)>,
}

impl Profile {
    /// Whether relay proxies are sent the same of both: their own secrets are not sent.
    pub fn is_same_for_relays(&self, other: &Self) -> bool {
        let is_sent = |it: &&(Digest, Secret)| it.1.kind != SecretKind::RelayProxy;
        let secrets = self.secrets.iter().filter(is_sent);
        self.key == other.key
            && self.project_key == other.project_key
            && secrets.eq(other.secrets.iter().filter(is_sent))
    }
}
