//! The crates that can pack and unpack. Each proves its bytes before it is measured.

mod i8583;
mod iso8583_codec_rs;
mod iso8583_core;
mod iso8583_rs;
mod iso_8583_rs;

use crate::clock::Clock;
use crate::subject::Subject;

pub struct Peer {
    pub name: &'static str,
    pub version: &'static str,
    /// The rates, or why this crate cannot do the message.
    pub measure: fn(&Subject, &Clock) -> Result<Outcome, String>,
}

pub struct Outcome {
    /// What was compared before.
    pub proof: &'static str,
    /// Of the [`OPERATIONS`], in their order.
    pub rates: [f64; 5],
}

/// What is measured: a message's values to bytes; a filled message to bytes; bytes to a message;
/// the two after each other; and five values of a message set anew before that.
pub const OPERATIONS: [&str; 5] =
    ["fill_pack", "pack", "unpack", "pack_unpack", "update_pack_unpack"];

/// The bytes are those of the vector, and every value is read back from them.
const SAME_BYTES: &str = "same bytes";

pub const PEERS: &[Peer] = &[
    Peer { name: "iso_8583_rs", version: "0.2.2", measure: iso_8583_rs::measure },
    Peer { name: "i8583", version: "0.1.0", measure: i8583::measure },
    Peer { name: "iso8583-core", version: "0.1.0", measure: iso8583_core::measure },
    Peer { name: "iso8583_rs", version: "0.1.10", measure: iso8583_rs::measure },
    Peer { name: "iso8583-codec-rs", version: "0.1.0", measure: iso8583_codec_rs::measure },
];

fn expect_same(what: &str, found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let (found, expected) = (found.len(), expected.len());
    Err(format!("{what}: {found} bytes for {expected}, other from byte {at}"))
}
