//! ISO 8583 messages: formats as data, zero-copy reading, edits in place, framing.
//!
//! - A [`Packager`] is a message format: which fields there are, and how each stands on the wire.
//!   It is [built in](Packager::built_in), or compiled from a description: [TOML](Packager::from_toml),
//!   [JSON](Packager::from_json) or a [packager file of jPOS](Packager::from_jpos_xml).
//! - [`Packager::unpack`] reads received bytes and copies nothing: a [`MessageView`] is where the
//!   fields lie.
//! - A [`Message`] is built or changed. It keeps the packed bytes of each field, so that a change
//!   encodes one field again and no other.
//! - [`framing`] puts messages on a stream and finds them there, as the channels of jPOS do.
//! - [`tlv`] reads and changes BER-TLV, such as field 55, byte for byte.
//!
//! ```
//! use iso8583::framing::{Channel, Decoded, Framing, Header, Settings};
//! use iso8583::{Index, Message, Packager};
//!
//! // A terminal asks.
//! let packager = Packager::built_in("iso87b").expect("it is built in");
//! let mut request = Message::new(&packager);
//! request.set(0, "0200")?;
//! request.set(2, "4761739001010119")?;
//! request.set(3, "000000")?;
//! request.set(4, "000000012300")?;
//! request.set(11, "000042")?;
//! request.set(41, "TERM0001")?;
//! let framing = Framing::new(Channel::Nac, Settings::default())?;
//! let mut wire = vec![];
//! framing.encode(Header::Configured, &request.pack()?, &mut wire)?;
//!
//! // A host finds the message in what arrives, and reads it.
//! let Decoded::Message { body, consumed, .. } = framing.decode(&wire)? else { panic!("all is there") };
//! assert_eq!(consumed, wire.len());
//! let mut index = Index::new();
//! let view = packager.unpack(&wire[body.clone()], &mut index)?;
//! assert_eq!(view.text(4).as_deref(), Some("000000012300"));
//! assert!(view.to_string().contains("476173******0119"), "card data is not shown");
//!
//! // It answers with the same message, of which it changes what is different.
//! let mut answer = Message::new(&packager);
//! answer.load(&wire[body])?;
//! answer.set(0, "0210")?;
//! answer.set(39, "00")?;
//! assert_eq!(answer.text(11).as_deref(), Some("000042"));
//!
//! // What is wrong is said with its field and its byte.
//! let mut broken = answer.pack()?;
//! broken[20] = 0xAB;
//! let error = packager.unpack(&broken, &mut index).expect_err("letters are no digits");
//! assert!(error.to_string().starts_with("field 3 at byte 20"), "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything is bounded: what a message says of itself never makes the library allocate more than
//! the message is long. After the first messages, reading into an [`Index`] and setting, loading and
//! packing a [`Message`] allocate nothing where these and the buffers are used again. Nor does
//! [`Packager::pack_values`] of values in the order of their numbers without fields inside, where
//! the packager has a bitmap in front of all fields and no header. Messages in XML allocate always.
//!
//! [`Validation::Strict`] is the default. What `Lenient` accepts beside it, and where both differ
//! from jPOS, is in `docs/reference/iso8583-differences.md`.

#![forbid(unsafe_code)]

mod append;
#[cfg(feature = "bench")]
pub mod bench;
mod bitmap;
mod check;
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
