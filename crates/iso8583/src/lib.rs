//! ISO 8583 messages: formats as data, zero-copy reading, edits in place, framing.

#![forbid(unsafe_code)]

pub mod framing;
pub mod tlv;
