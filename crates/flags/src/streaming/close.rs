//! How the server closes sockets. Never with 1000: one SDK would stay away.

use bytes::Bytes;

use crate::frame;

/// The node stops; another one is there.
pub(crate) const GOING_AWAY: u16 = 1001;
/// A frame that no client may send.
pub(crate) const PROTOCOL_ERROR: u16 = 1002;
/// A text that is not UTF-8.
pub(crate) const NOT_TEXT: u16 = 1007;
/// A message that is too long, or in too many pieces.
pub(crate) const TOO_BIG: u16 = 1009;
/// The store cannot be read, or the socket does not take what it is sent.
pub(crate) const UNAVAILABLE: u16 = 1011;
/// What the socket came in by was changed.
pub(crate) const COME_AGAIN: u16 = 1012;
/// The secret is used too often.
pub(crate) const TRY_AGAIN_LATER: u16 = 1013;
/// No SDK tries again after this one.
pub(crate) const INVALID_REQUEST: u16 = 4003;

/// The frame that closes with a code.
pub(crate) fn frame(code: u16) -> Bytes {
    let reason = match code {
        GOING_AWAY => "going away",
        PROTOCOL_ERROR => "protocol error",
        NOT_TEXT => "invalid text",
        TOO_BIG => "message too big",
        UNAVAILABLE => "service unavailable, close by server",
        COME_AGAIN => "service restart",
        TRY_AGAIN_LATER => "too many requests",
        INVALID_REQUEST => "invalid request, close by server",
        _ => "",
    };
    frame::close(Some(code), reason)
}
