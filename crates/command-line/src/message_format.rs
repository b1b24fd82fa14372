//! Options that name an ISO 8583 format and a channel.

use std::path::Path;

use anyhow::Context as _;
use iso8583::framing::Framing;
use iso8583::framing::codec::Codec;
use iso8583::{Packager, Validation};

/// The format of messages.
#[derive(Clone, Debug, clap::Args)]
pub struct Format {
    /// A built-in format, or a file: .toml, .json, or .xml as jPOS has it
    #[arg(long, value_name = "P", default_value = "iso87a")]
    packager: String,
    /// How strictly messages are checked; lenient: only what is needed to find the fields, as jPOS does
    #[arg(long, value_enum, value_name = "V", default_value = "strict")]
    validation: HowStrictly,
    /// The same as --validation lenient
    #[arg(long, conflicts_with = "validation")]
    lenient: bool,
}

/// The validation by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HowStrictly {
    Strict,
    Lenient,
}

/// How messages are framed on a connection.
#[derive(Clone, Debug, clap::Args)]
pub struct Channel {
    /// The channel, with settings: nac:header=6000010002,max-packet-length=2048
    #[arg(long, value_name = "C", default_value = "ascii", value_parser = framing)]
    channel: Framing,
}

impl Format {
    /// The named packager, with the validation that was asked for.
    ///
    /// # Errors
    /// If no packager has this name, or its file is invalid.
    pub fn packager(&self) -> anyhow::Result<Packager> {
        let packager = packager(&self.packager)?;
        let is_lenient = self.lenient || self.validation == HowStrictly::Lenient;
        let validation = if is_lenient { Validation::Lenient } else { Validation::Strict };
        Ok(packager.with_validation(validation))
    }

    /// The packager's name as given.
    pub fn name(&self) -> &str {
        &self.packager
    }
}

impl Channel {
    /// A codec for one connection.
    pub fn codec(&self, packager: &Packager) -> Codec {
        Codec::new(self.channel.clone()).measured_by_packager(packager)
    }

    /// The channel's name.
    pub fn name(&self) -> &'static str {
        self.channel.channel().name()
    }
}

/// Parses a channel with its settings.
///
/// # Errors
/// If the channel or a setting is unknown, or a value is out of range.
pub fn framing(text: &str) -> Result<Framing, iso8583::framing::SettingsError> {
    text.parse()
}

/// A built-in packager, or one that a file describes.
///
/// # Errors
/// If no packager has this name, or its file is invalid.
pub fn packager(name: &str) -> anyhow::Result<Packager> {
    if let Some(packager) = Packager::built_in(name) {
        return Ok(packager);
    }
    let extension = Path::new(name).extension().and_then(|it| it.to_str()).unwrap_or_default();
    let read: fn(&[u8]) -> anyhow::Result<Packager> = match extension {
        "toml" => |bytes| Ok(Packager::from_toml(text(bytes)?)?),
        "json" => |bytes| Ok(Packager::from_json(text(bytes)?)?),
        // In the encoding that it declares.
        "xml" => |bytes| Ok(Packager::from_jpos_xml_bytes(bytes)?),
        _ => anyhow::bail!(
            "there is no packager `{name}`: one of {}, or a file .toml, .json or .xml",
            Packager::built_in_names().join(", ")
        ),
    };
    let bytes = std::fs::read(name).with_context(|| format!("cannot read {name}"))?;
    read(&bytes).with_context(|| format!("{name} is no packager"))
}

/// TOML and JSON are UTF-8.
fn text(bytes: &[u8]) -> anyhow::Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let lines = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n');
        anyhow::anyhow!("line {}: this is not UTF-8", 1 + lines.count())
    })
}
