//! Secrets: what opens the doors to an environment.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// How much of a hash a channel's name is made of: enough that nobody guesses it.
const CHANNEL_BYTES: usize = 18;

/// What a secret opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretKind {
    /// Flags and segments as they are, for servers that evaluate by themselves.
    Server,
    /// Flags as they are for one user. It is not secret: it stands in web pages.
    Client,
    /// Flags, segments and secrets of several environments, for FeatBit's agent.
    RelayProxy,
}

/// A secret of an environment. That of a relay proxy stands with each environment that it opens.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// What it opens.
    pub kind: SecretKind,
    /// The secret itself.
    pub value: String,
    /// When it ends, in milliseconds since 1970: rotated secrets overlap.
    pub expires_at_ms: Option<i64>,
}

impl SecretKind {
    /// In FeatBit's words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::RelayProxy => "relay-proxy",
        }
    }

    /// The kind that FeatBit calls so.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        [Self::Server, Self::Client, Self::RelayProxy].into_iter().find(|it| it.text() == text)
    }
}

impl Secret {
    pub(crate) fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|end| end <= now_ms)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, value: _, expires_at_ms } = self;
        f.debug_struct("Secret")
            .field("kind", kind)
            .field("expires_at_ms", expires_at_ms)
            .finish_non_exhaustive()
    }
}

/// What secrets are looked up by: how long that takes says nothing of a secret that is nearly right.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn of(secret: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, secret.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }

    /// A name for what the secret opens, from which nobody finds the secret.
    pub(crate) fn channel(&self) -> String {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        hash.update(b"faregate flags events");
        hash.update(&self.0);
        URL_SAFE_NO_PAD.encode(&hash.finish().as_ref()[..CHANNEL_BYTES])
    }
}
