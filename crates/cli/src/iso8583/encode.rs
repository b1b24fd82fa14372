//! `faregate iso8583 encode`: builds the bytes of a message.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use command_line::message_format::{Format, framing};
use iso8583::framing::{Framing, Header};
use iso8583::{Error, Message};
use serde_json::{Map, Value, json};

use super::fields::{self, FieldValue, Values};
use super::input::{self, to_hex};
use super::invalid;

/// Options of `faregate iso8583 encode`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// FIELD=VALUE, or FIELD:=HEX for bytes: 0=0200 48.1=07 52:=1122334455667788; header=HEX and
    /// channel_header=HEX for the headers. Without any, or with one object, the fields are JSON, from
    /// standard input or the argument
    fields: Vec<String>,
    #[command(flatten)]
    format: Format,
    /// Frame the message: the channel, with settings
    #[arg(long, value_name = "C", value_parser = framing)]
    channel: Option<Framing>,
    /// Write raw bytes, not hexadecimal digits
    #[arg(long, conflicts_with = "json")]
    binary: bool,
    /// One line of JSON: {"hex":"...","bytes":N}
    #[arg(long)]
    json: bool,
}

/// The message to build.
#[derive(Default)]
struct Input {
    values: Values,
    header: Option<Vec<u8>>,
    channel_header: Option<Vec<u8>>,
}

/// Builds a message and prints it.
///
/// # Errors
/// If the arguments or the input cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let packager = args.format.packager()?;
    let input = args.input()?;
    let mut message = Message::new(&packager);
    let packed = match pack(&mut message, &input) {
        Ok(packed) => packed,
        Err(error) => return Ok(invalid(&error)),
    };
    let mut bytes = vec![];
    match &args.channel {
        Some(framing) => {
            let given = input.channel_header.as_deref();
            let header = given.map_or(Header::Configured, Header::Given);
            if let Err(error) = framing.encode(header, &packed, &mut bytes) {
                return Ok(invalid(&error));
            }
        }
        None => bytes = packed,
    }
    if args.binary {
        std::io::stdout().lock().write_all(&bytes).context("cannot write the message")?;
    } else if args.json {
        println!("{}", json!({ "hex": to_hex(&bytes), "bytes": bytes.len() }));
    } else {
        println!("{}", to_hex(&bytes));
    }
    Ok(ExitCode::SUCCESS)
}

fn pack(message: &mut Message, input: &Input) -> Result<Vec<u8>, Error> {
    if let Some(header) = &input.header {
        message.set_header(header)?;
    }
    fields::set(message, &input.values)?;
    message.pack()
}

impl Args {
    fn input(&self) -> anyhow::Result<Input> {
        let json = match &self.fields[..] {
            [] => input::read(None)?,
            [only] if only.trim_start().starts_with('{') => only.as_bytes().to_vec(),
            fields => {
                return assignments(fields);
            }
        };
        let mut object: Map<String, Value> =
            serde_json::from_slice(&json).context("an object of fields was expected")?;
        let mut header = |name: &str| {
            let Some(value) = object.remove(name) else { return Ok(None) };
            let bytes = value.as_str().and_then(|text| input::hex(text.as_bytes()));
            bytes.map(Some).with_context(|| format!("`{name}` is no hex"))
        };
        let (header, channel_header) = (header("header")?, header("channel_header")?);
        Ok(Input { values: fields::values(&object)?, header, channel_header })
    }
}

/// Parses the arguments: fields and headers.
fn assignments(arguments: &[String]) -> anyhow::Result<Input> {
    let mut input = Input::default();
    for (position, text) in (1..).zip(arguments) {
        let header = match text.split_once('=') {
            Some(("header", value)) => Some((&mut input.header, value)),
            Some(("channel_header", value)) => Some((&mut input.channel_header, value)),
            Some(_) | None => None,
        };
        let Some((header, value)) = header else {
            input.values.push(assignment(position, text)?);
            continue;
        };
        let bytes = input::hex(value.as_bytes());
        *header = Some(bytes.with_context(|| format!("argument {position}: hex was expected"))?);
    }
    input.values.sort_by_key(|(path, _)| *path);
    Ok(input)
}

/// Parses FIELD=VALUE or FIELD:=HEX. Errors name the argument's position, not its text, which may be
/// card data.
fn assignment(position: usize, text: &str) -> anyhow::Result<(iso8583::FieldPath, FieldValue)> {
    let (path, value) = text
        .split_once('=')
        .with_context(|| format!("argument {position}: FIELD=VALUE or FIELD:=HEX was expected"))?;
    let (path, value) = match path.strip_suffix(':') {
        Some(path) => {
            let bytes = input::hex(value.as_bytes());
            let bytes = bytes.with_context(|| format!("argument {position}: hex was expected"))?;
            (path, FieldValue::Bytes(bytes))
        }
        None => (path, FieldValue::Text(value.to_owned())),
    };
    Ok((
        path.parse()
            .with_context(|| format!("argument {position}: the number of a field was expected"))?,
        value,
    ))
}
