//! Bytes from the command line or standard input: raw, or in hexadecimal digits.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use iso8583::coding::hex_value;

/// The most bytes that are read from standard input.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The notation of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Notation {
    /// Hexadecimal, if there are only hexadecimal digits and blanks
    Auto,
    /// Hexadecimal digits
    Hex,
    /// Raw bytes
    Binary,
}

/// The argument, or standard input.
///
/// # Errors
/// If it cannot be read, is longer than [`INPUT_BYTES_MAX`], or the argument is the name of a file.
pub fn read(argument: Option<&str>) -> anyhow::Result<Vec<u8>> {
    if let Some(text) = argument {
        let is_file = hex(text.as_bytes()).is_none() && Path::new(text).is_file();
        anyhow::ensure!(
            !is_file,
            "{text} is a file: its messages are read from standard input, by < {text}"
        );
        return Ok(text.as_bytes().to_vec());
    }
    let mut input = vec![];
    let limited = std::io::stdin().lock().take(INPUT_BYTES_MAX + 1);
    let read = { limited }.read_to_end(&mut input).context("cannot read standard input")?;
    anyhow::ensure!(read as u64 <= INPUT_BYTES_MAX, "more than 16 MiB on standard input");
    Ok(input)
}

/// Decodes a notation.
///
/// # Errors
/// If hexadecimal digits are required and missing, or the input has hexadecimal digits only and they
/// are an odd number or follow a `0x`.
pub fn bytes(input: Vec<u8>, notation: Notation) -> anyhow::Result<Vec<u8>> {
    if notation == Notation::Binary {
        return Ok(input);
    }
    match (notation, decoded(&input)) {
        (_, Ok(bytes)) => Ok(bytes),
        (Notation::Auto, Err(NotHex::OtherByte)) => Ok(input),
        (Notation::Auto | Notation::Hex | Notation::Binary, Err(error)) => Err(error.into()),
    }
}

/// Why a text is not the hexadecimal digits of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NotHex {
    #[error(
        "the message has {0} hexadecimal digits, but two of them make a byte; \
         for bytes as they are, use `--input binary`"
    )]
    Odd(usize),
    #[error(
        "the message begins with `0x`; give the hexadecimal digits without it, \
         or for bytes as they are, use `--input binary`"
    )]
    Prefix,
    #[error("hexadecimal digits in pairs were expected")]
    OtherByte,
}

/// Decodes hexadecimal digits; blanks are ignored.
pub fn hex(text: &[u8]) -> Option<Vec<u8>> {
    decoded(text).ok()
}

fn decoded(text: &[u8]) -> Result<Vec<u8>, NotHex> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"));
    let halves =
        |text: &[u8]| text.iter().map(|digit| hex_value(*digit)).collect::<Option<Vec<u8>>>();
    let halves = match (halves(&text), digits.and_then(halves)) {
        (Some(halves), _) => halves,
        (None, Some(_)) => return Err(NotHex::Prefix),
        (None, None) => return Err(NotHex::OtherByte),
    };
    let (pairs, rest) = halves.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(NotHex::Odd(halves.len()));
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
