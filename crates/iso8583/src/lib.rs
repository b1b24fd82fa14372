//! ISO 8583 messages: formats as data, zero-copy reading, edits in place, framing.

#![forbid(unsafe_code)]

mod append;
#[cfg(feature = "bench")]
pub mod bench;
pub mod class;
pub mod coding;
mod description;
mod direct;
mod dump;
mod error;
pub mod framing;
mod index;
mod mask;
mod message;
pub mod message_type;
mod pack;
pub mod packager;
pub mod tlv;
mod unpack;
#[cfg(feature = "vectors")]
pub mod vectors;
mod view;
mod xml;

pub use description::{DESCRIPTION_BYTES_MAX, DescriptionError};
pub use dump::Dump;
pub use error::{Error, FieldPath, Problem};
pub use index::Index;
pub use mask::Revealed;
pub use message::Message;
pub use packager::{Packager, Validation};
pub use view::{Field, MessageView};
