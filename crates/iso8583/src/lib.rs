//! ISO 8583 messages: formats as data, zero-copy reading, edits in place, framing.
//!
//! - A [`Packager`] is a message format: the fields and their encodings.
//!   It is [built in](Packager::built_in), or compiled from a description: [TOML](Packager::from_toml),
//!   [JSON](Packager::from_json) or a [packager file of jPOS](Packager::from_jpos_xml).
//! - [`Packager::unpack`] reads received bytes without copying them: a [`MessageView`] holds the
//!   offsets of the fields.
//! - A [`Message`] can be built and changed. It stores the packed bytes of each field, so that a change
//!   encodes only the changed field.
//! - [`framing`] encodes and decodes messages on a stream like the channels of jPOS.
//! - [`tlv`] reads and changes BER-TLV, such as field 55, byte for byte.
//!
//! ```
//! use iso8583::framing::{Channel, Decoded, Framing, Header, Settings};
//! use iso8583::{Index, Message, Packager};
//!
//! // A terminal sends a request.
//! let packager = Packager::built_in("iso87b").expect("the format is built in");
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
//! // A host decodes the frame and reads the message.
//! let Decoded::Message { body, consumed, .. } = framing.decode(&wire)? else { panic!("the frame is complete") };
//! assert_eq!(consumed, wire.len());
//! let mut index = Index::new();
//! let view = packager.unpack(&wire[body.clone()], &mut index)?;
//! assert_eq!(view.text(4).as_deref(), Some("000000012300"));
//! assert!(view.to_string().contains("476173******0119"), "card data is masked");
//!
//! // The response is the request with some changed fields.
//! let mut response = Message::new(&packager);
//! response.load(&wire[body])?;
//! response.set(0, "0210")?;
//! response.set(39, "00")?;
//! assert_eq!(response.text(11).as_deref(), Some("000042"));
//!
//! // Errors name the field and the byte.
//! let mut invalid = response.pack()?;
//! invalid[20] = 0xAB;
//! let error = packager.unpack(&invalid, &mut index).expect_err("AB is not a pair of digits");
//! assert!(error.to_string().starts_with("field 3 at byte 20"), "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Memory is bounded by the length of a message, never by the lengths that it declares. With a reused
//! [`Index`], [`Message`] and buffers, unpacking, setting, loading and packing do not allocate after
//! the first messages. [`Packager::pack_values`] does not allocate either, if the values are in the
//! order of their numbers and not composite, and the packager has a bitmap in front of all fields and
//! no header. Messages in XML always allocate.
//!
//! [`Validation::Strict`] is the default. The additional inputs of `Lenient`, and the differences of
//! both from jPOS, are listed in `docs/reference/iso8583-differences.md`.

#![forbid(unsafe_code)]

mod append;
#[cfg(feature = "bench")]
pub mod bench;
mod bitmap;
mod check;
pub mod class;
pub mod coding;
#[cfg(feature = "tokio")]
pub mod connection;
mod decode;
mod description;
mod direct;
mod dump;
mod error;
pub mod framing;
mod index;
mod mask;
mod measure;
mod message;
pub mod message_type;
mod other_padding;
mod pack;
pub mod packager;
pub mod tlv;
mod unpack;
#[cfg(feature = "vectors")]
pub mod vectors;
mod view;
mod walk;
mod xml;

pub use description::{DESCRIPTION_BYTES_MAX, DescriptionError};
pub use dump::Dump;
pub use error::{Error, FieldPath, Problem};
pub use index::Index;
pub use mask::Revealed;
pub use message::Message;
pub use other_padding::OtherPadding;
pub use packager::{Packager, Validation};
pub use view::{Field, MessageView};
