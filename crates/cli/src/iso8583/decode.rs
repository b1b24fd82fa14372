//! `faregate iso8583 decode`: shows the fields of messages.

use std::process::ExitCode;

use command_line::message_format::{Format, framing};
use iso8583::framing::{Decoded, Framing, FramingError};
use iso8583::{Index, MessageView, Packager, Validation};
use serde_json::json;

use super::fields::{self, Object};
use super::input::{self, Notation, to_hex};
use super::invalid;

/// Options of `faregate iso8583 decode`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The message; without it, standard input
    message: Option<String>,
    #[command(flatten)]
    format: Format,
    /// Messages are framed: the channel, with settings
    #[arg(long, value_name = "C", value_parser = framing)]
    channel: Option<Framing>,
    /// The notation of the bytes
    #[arg(long, value_enum, default_value = "auto")]
    input: Notation,
    /// One line of JSON for each message
    #[arg(long)]
    json: bool,
    /// Show the bytes with offsets and fields as well
    #[arg(long)]
    dump: bool,
    /// Show everything unmasked, card data as well
    #[arg(long)]
    reveal: bool,
}

/// Shows each message.
///
/// # Errors
/// If the arguments or the input cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let packager = args.format.packager()?;
    let bytes = input::bytes(input::read(args.message.as_deref())?, args.input)?;
    let Some(framing) = &args.channel else {
        return Ok(args.show(&packager, (&[], &bytes)).err().unwrap_or(ExitCode::SUCCESS));
    };
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let Frame { header, body, consumed } = match next(framing, &packager, &bytes[at..]) {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(error) => return Ok(invalid(&format!("in the frame at byte {at}: {error}"))),
        };
        at += consumed;
        if body.is_empty() {
            println!("{}", if args.json { r#"{"keep_alive":true}"# } else { "keep-alive" });
        } else if let Err(code) = args.show(&packager, (header, body)) {
            return Ok(code);
        }
        count += 1;
    }
    if count == 0 {
        return Ok(invalid(&"there is no message"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A frame's content; a keep-alive has no body.
struct Frame<'a> {
    header: &'a [u8],
    body: &'a [u8],
    consumed: usize,
}

/// The next frame; `None` if only a line end is left.
fn next<'a>(
    framing: &Framing,
    packager: &Packager,
    bytes: &'a [u8],
) -> Result<Option<Frame<'a>>, FramingError> {
    let measure = |bytes: &[u8]| packager.measure(bytes, &mut Index::new());
    match framing.decode_measured(bytes, measure)? {
        Decoded::Message { header, body, consumed } => {
            Ok(Some(Frame { header: &bytes[header], body: &bytes[body], consumed }))
        }
        Decoded::KeepAlive { consumed } => Ok(Some(Frame { header: &[], body: &[], consumed })),
        Decoded::Incomplete { .. } => framing.finish(bytes).map(|()| None),
    }
}

/// The warnings about fields of a refused message that were probably written with another padding.
fn other_paddings(packager: &Packager, body: &[u8]) -> Vec<String> {
    let lenient = packager.clone().with_validation(Validation::Lenient);
    let mut index = Index::new();
    let view = lenient.unpack(body, &mut index).ok();
    view.iter().flat_map(MessageView::other_paddings).map(|it| it.to_string()).collect()
}

impl Args {
    /// Prints one message; the error has been reported.
    fn show(&self, packager: &Packager, (header, body): (&[u8], &[u8])) -> Result<(), ExitCode> {
        if self.dump {
            let dump = packager.dump(body);
            if self.reveal { print!("{}", dump.revealed()) } else { print!("{dump}") }
        }
        let mut index = Index::new();
        let view = packager.unpack(body, &mut index).map_err(|error| {
            let name = self.format.name();
            let other = other_paddings(packager, body);
            let other: String = other.iter().map(|it| format!("; {it}")).collect();
            invalid(&format!("{error}; read as {name}, `--packager` names another format{other}"))
        })?;
        for other in view.other_paddings() {
            eprintln!("warning: {other}");
        }
        if self.json {
            let json = serde_json::to_string(&self.to_json(header, view));
            println!("{}", json.map_err(|error| invalid(&error))?);
            return Ok(());
        }
        for (name, bytes) in [("channel header", header), ("header", view.header())] {
            if !bytes.is_empty() {
                println!("{name} {}", to_hex(bytes));
            }
        }
        if self.reveal {
            print!("{}", view.revealed())
        } else {
            print!("{view}")
        }
        Ok(())
    }

    fn to_json(&self, header: &[u8], view: MessageView<'_>) -> Object {
        let mut shown = if self.reveal { fields::revealed(view) } else { fields::masked(view) };
        for (name, bytes) in [("header", view.header()), ("channel_header", header)] {
            if !bytes.is_empty() {
                shown.0.insert(0, (name.to_owned(), json!(to_hex(bytes))));
            }
        }
        shown
    }
}
