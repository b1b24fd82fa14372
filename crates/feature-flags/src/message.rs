//! Messages of FeatBit's SDK protocol. The text is the body of an HTTP response, too.
//!
//! A message is encoded as a WebSocket frame here, once, so that thousands of sockets share its bytes:
//! that is why `frame` stands in this crate and not with the streaming API.

use bytes::Bytes;
use evaluation::{Evaluation, Flag, Segment, User};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::frame;
use crate::profile::Profile;
use crate::secret::{Secret, SecretKind};
use crate::shard::{self, Shard};

/// Capacity for one flag of a client's message.
pub const CLIENT_FLAG_BYTES: usize = 448;

/// Capacity for what is around the flags, with a frame's head.
pub const ENVELOPE_BYTES: usize = 256;

/// An encoded message, with the head of its frame. Clones share the bytes.
#[derive(Clone)]
pub struct Message {
    /// Room for the longest head, its end filled in, then the text.
    bytes: Bytes,
    frame_at: usize,
}

impl Message {
    fn write(bytes_hint: usize, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = Vec::with_capacity(frame::HEAD_BYTES_MAX + bytes_hint);
        bytes.resize(frame::HEAD_BYTES_MAX, 0);
        write(&mut bytes);
        let frame_at = frame::text_around(&mut bytes);
        Self { bytes: bytes.into(), frame_at }
    }

    /// The text, without a frame.
    pub fn text(&self) -> Bytes {
        self.bytes.slice(frame::HEAD_BYTES_MAX..)
    }

    /// The text in a frame.
    pub fn frame(&self) -> Bytes {
        self.bytes.slice(self.frame_at..)
    }
}

/// Whether a message replaces the reader's state, or adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Full,
    Patch,
}

impl Extent {
    /// The extent for a reader that has everything up to `timestamp`.
    pub const fn since(timestamp: i64) -> Self {
        if timestamp > 0 { Self::Patch } else { Self::Full }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Patch => "patch",
        }
    }
}

/// Definitions of flags and segments of an environment, and the segments of users who are entitled to something.
pub fn server<'s>(
    extent: Extent,
    flags: impl Iterator<Item = &'s Flag>,
    segments: impl Iterator<Item = &'s Segment>,
    (environment, shards): (Uuid, &[&Shard]),
) -> Message {
    Message::write(ENVELOPE_BYTES, |out| {
        begin(out, extent.text());
        flags_and_segments(out, flags, segments, (environment, shards));
        out.extend_from_slice(b"}}");
    })
}

/// Evaluated flags of one user; `count` is an estimate, for the capacity.
pub fn client<'s>(
    extent: Extent,
    user: &User,
    count: usize,
    flags: impl Iterator<Item = (Evaluation<'s>, i64)>,
) -> Message {
    Message::write(ENVELOPE_BYTES + user.key_id.len() + count * CLIENT_FLAG_BYTES, |out| {
        begin_client(out, extent, user);
        for (number, (evaluation, at_ms)) in flags.enumerate() {
            if number > 0 {
                out.push(b',');
            }
            client_flag(out, &evaluation, at_ms);
        }
        out.extend_from_slice(CLIENT_END);
    })
}

/// Writes the beginning of a client's message, up to its flags.
pub fn begin_client(out: &mut Vec<u8>, extent: Extent, user: &User) {
    begin(out, extent.text());
    out.extend_from_slice(br#","userKeyId":"#);
    write_json(out, &user.key_id);
    out.extend_from_slice(br#","featureFlags":["#);
}

/// One flag of a client's message.
pub fn client_flag(out: &mut Vec<u8>, evaluation: &Evaluation<'_>, at_ms: i64) {
    let text = evaluation.client_text();
    text.head.iter().for_each(|it| out.extend_from_slice(it.as_bytes()));
    write_json(out, evaluation.reason.text());
    out.extend_from_slice(text.options.as_bytes());
    out.extend_from_slice(if evaluation.send_to_experiment { b"true" } else { b"false" });
    out.extend_from_slice(br#","timestamp":"#);
    write_json(out, &at_ms);
    out.push(b'}');
}

/// The end of a client's message, after its flags.
pub const CLIENT_END: &[u8] = b"]}}";

/// An environment for a relay proxy.
pub struct RelayItem<'s> {
    pub id: Uuid,
    pub profile: &'s Profile,
    pub flags: Vec<&'s Flag>,
    pub segments: Vec<&'s Segment>,
    /// The segments of users who are entitled to something.
    pub shards: Vec<&'s Shard>,
}

/// Environments for a relay proxy, with the secrets that are valid at this time.
pub fn relay(extent: Extent, items: &[RelayItem<'_>], now_ms: i64) -> Message {
    Message::write(ENVELOPE_BYTES, |out| {
        begin(out, if extent == Extent::Full { "rp_full" } else { "rp_patch" });
        out.extend_from_slice(br#","items":["#);
        for (number, item) in items.iter().enumerate() {
            out.extend_from_slice(if number > 0 { br#",{"envId":"# } else { br#"{"envId":"# });
            write_json(out, &item.id);
            out.extend_from_slice(br#","secrets":["#);
            let secrets = item.profile.secrets.iter().map(|(_, secret)| secret);
            let secrets = secrets.filter(|it| it.kind != SecretKind::RelayProxy);
            let secrets = secrets.filter(|it| !it.has_expired(now_ms));
            list(out, secrets.map(|secret| RelaySecret::of(secret, item)));
            out.push(b']');
            let (flags, segments) = (item.flags.iter().copied(), item.segments.iter().copied());
            flags_and_segments(out, flags, segments, (item.id, &item.shards));
            out.push(b'}');
        }
        out.extend_from_slice(b"]}}");
    })
}

/// The answer to an echo.
pub fn echo(data: &RawValue) -> Message {
    let data = data.get().as_bytes();
    Message::write(ENVELOPE_BYTES + data.len(), |out| {
        out.extend_from_slice(br#"{"messageType":"echo","data":"#);
        out.extend_from_slice(data);
        out.push(b'}');
    })
}

/// The answer to FeatBit's ping, in a frame.
pub const fn pong() -> Bytes {
    Bytes::from_static(b"\x81\x20{\"messageType\":\"pong\",\"data\":{}}")
}

fn begin(out: &mut Vec<u8>, event: &str) {
    out.extend_from_slice(br#"{"messageType":"data-sync","data":{"eventType":""#);
    out.extend_from_slice(event.as_bytes());
    out.push(b'"');
}

fn flags_and_segments<'s>(
    out: &mut Vec<u8>,
    flags: impl Iterator<Item = &'s Flag>,
    segments: impl Iterator<Item = &'s Segment>,
    (environment, shards): (Uuid, &[&Shard]),
) {
    out.extend_from_slice(br#","featureFlags":["#);
    list(out, flags.map(shard::flag));
    out.extend_from_slice(br#"],"segments":["#);
    let begins_at = out.len();
    list(out, segments.map(shard::segment));
    for shard in shards {
        if out.len() > begins_at {
            out.push(b',');
        }
        shard.write(out, environment);
    }
    out.push(b']');
}

fn list(out: &mut Vec<u8>, items: impl Iterator<Item = impl Serialize>) {
    for (number, item) in items.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write_json(out, &item);
    }
}

/// Appends a value as JSON.
pub fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value)
        .expect("texts, numbers and lists are JSON, and memory takes them");
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RelaySecret<'s> {
    r#type: &'static str,
    project_key: &'s str,
    env_id: Uuid,
    env_key: &'s str,
    value: &'s str,
}

impl<'s> RelaySecret<'s> {
    fn of(secret: &'s Secret, item: &RelayItem<'s>) -> Self {
        Self {
            r#type: secret.kind.text(),
            project_key: &item.profile.project_key,
            env_id: item.id,
            env_key: &item.profile.key,
            value: &secret.value,
        }
    }
}
