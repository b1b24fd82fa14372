//! Messages that clients send on a stream.

use std::borrow::Cow;

use evaluation::User;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::user::SentUser;

/// A message of a client.
#[derive(Debug)]
pub(crate) enum ClientMessage<'a> {
    Ping,
    Echo(&'a RawValue),
    Sync(Sync),
}

/// A request for the changes since a time.
#[derive(Debug)]
pub(crate) struct Sync {
    /// The time up to which the client has everything; 0: it has nothing.
    pub(crate) timestamp: i64,
    /// The user of a client; none where it is missing or has no key.
    pub(crate) user: Option<User>,
    /// The environments that a relay proxy has.
    pub(crate) environments: Vec<KnownEnvironment>,
}

/// The time up to which a relay proxy has an environment.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KnownEnvironment {
    #[serde(rename = "envId")]
    pub(crate) id: Uuid,
    #[serde(default, deserialize_with = "zero_for_null")]
    pub(crate) timestamp: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow)]
    message_type: Cow<'a, str>,
    /// `null` is present.
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SentSync<'a> {
    #[serde(default, deserialize_with = "zero_for_null")]
    timestamp: i64,
    #[serde(borrow)]
    user: Option<SentUser<'a>>,
    envs: Option<Vec<KnownEnvironment>>,
}

impl<'a> ClientMessage<'a> {
    /// Parses a message; none if it is not JSON or not of the protocol: it gets no answer, as from
    /// FeatBit's server.
    pub(crate) fn read(message: &'a [u8]) -> Option<Self> {
        let envelope: Envelope<'a> = serde_json::from_slice(message).ok()?;
        let (named, data) = (envelope.message_type, envelope.data?);
        if named.eq_ignore_ascii_case("ping") {
            return Some(Self::Ping);
        }
        if named.eq_ignore_ascii_case("echo") {
            return Some(Self::Echo(data));
        }
        if !named.eq_ignore_ascii_case("data-sync") {
            return None;
        }
        let sent: SentSync<'a> = serde_json::from_str(data.get()).ok()?;
        Some(Self::Sync(Sync {
            timestamp: sent.timestamp,
            user: sent.user.and_then(|it| it.read()),
            environments: sent.envs.unwrap_or_default(),
        }))
    }
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

fn zero_for_null<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
