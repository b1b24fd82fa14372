//! The codes with which the server closes WebSockets. They stand here and not with the streaming
//! API because the cache decides on two of them: how a revoked grant ends, and how a drain does.
//!
//! Never 1000: after that, one SDK does not reconnect.

use bytes::Bytes;

use crate::frame;

/// The node stops; the client reconnects to another one.
pub const GOING_AWAY: u16 = 1001;
/// The client sent a frame that RFC 6455 forbids.
pub const PROTOCOL_ERROR: u16 = 1002;
/// The client sent a text that is not UTF-8.
pub const NOT_TEXT: u16 = 1007;
/// A message has too many bytes or too many frames.
pub const TOO_BIG: u16 = 1009;
/// The environments cannot be read, or the client does not read what it is sent.
pub const UNAVAILABLE: u16 = 1011;
/// The grant changed: the client reconnects and reads everything again.
pub const SERVICE_RESTART: u16 = 1012;
/// The secret is used more often than its limit.
pub const TRY_AGAIN_LATER: u16 = 1013;
/// No SDK reconnects after this one.
pub const INVALID_REQUEST: u16 = 4003;

/// The frame that closes with a code.
pub fn frame(code: u16) -> Bytes {
    let reason = match code {
        GOING_AWAY => "going away",
        PROTOCOL_ERROR => "protocol error",
        NOT_TEXT => "invalid text",
        TOO_BIG => "message too big",
        UNAVAILABLE => "service unavailable, close by server",
        SERVICE_RESTART => "service restart",
        TRY_AGAIN_LATER => "too many requests",
        INVALID_REQUEST => "invalid request, close by server",
        _ => "",
    };
    frame::close(Some(code), reason)
}
