//! Bytes from the command line or standard input: raw, or in hexadecimal digits.

use std::io::Read as _;

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
/// If it cannot be read, or is longer than [`INPUT_BYTES_MAX`].
pub fn read(argument: Option<&str>) -> anyhow::Result<Vec<u8>> {
    if let Some(text) = argument {
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
/// If hexadecimal digits are required and missing.
pub fn bytes(input: Vec<u8>, notation: Notation) -> anyhow::Result<Vec<u8>> {
    let decoded = hex(&input);
    match (notation, decoded) {
        (Notation::Auto | Notation::Hex, Some(bytes)) => Ok(bytes),
        (Notation::Hex, None) => anyhow::bail!("hexadecimal digits in pairs were expected"),
        (Notation::Auto | Notation::Binary, _) => Ok(input),
    }
}

/// Decodes hexadecimal digits; blanks are ignored.
pub fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let halves = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    let halves: Option<Vec<u8>> = halves.map(|digit| hex_value(*digit)).collect();
    let (pairs, rest) = halves.as_ref()?.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
