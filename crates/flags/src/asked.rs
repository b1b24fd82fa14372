//! Messages from sockets.

use std::borrow::Cow;

use evaluation::User;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::user::SentUser;

/// What a message asks for.
#[derive(Debug)]
pub(crate) enum Asked<'a> {
    Ping,
    Echo(&'a RawValue),
    Sync(Sync),
}

/// What a socket has, and whom it asks for.
#[derive(Debug)]
pub(crate) struct Sync {
    /// The time of the newest that it has; 0: nothing.
    pub(crate) timestamp: i64,
    /// The user of a client; nothing where there is none, or one without a key.
    pub(crate) user: Option<User>,
    /// What a relay proxy has of each environment.
    pub(crate) environments: Vec<Had>,
}

/// What a relay proxy has of an environment.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Had {
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
    /// `null` is there.
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SentSync<'a> {
    #[serde(default, deserialize_with = "zero_for_null")]
    timestamp: i64,
    #[serde(borrow)]
    user: Option<SentUser<'a>>,
    envs: Option<Vec<Had>>,
}

impl<'a> Asked<'a> {
    /// Reads a message; nothing of one that is not JSON, not of the protocol, or asks for nothing
    /// that there is: they go unanswered, as FeatBit's server leaves them.
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
