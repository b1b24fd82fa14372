//! Decodes the value of a field from its content.

use crate::class::{Coding, Content, FieldFormat, OddPadding};
use crate::coding::{self, FROM_EBCDIC};

/// Appends the value of a content, given the length of the value.
pub(crate) fn decode(format: &FieldFormat, content: &[u8], length: usize, out: &mut Vec<u8>) {
    match (format.content, format.coding) {
        (Content::Digits | Content::Text, Coding::Bcd) => {
            read_bcd(format.padding, content, length, out);
        }
        (Content::Amount, Coding::Bcd) => {
            let Some((direction, digits)) = content.split_first() else { return };
            out.push(*direction);
            read_bcd(format.padding, digits, length.saturating_sub(1), out);
        }
        (Content::HexText, _) => {
            let first = usize::from(length % 2 == 1 && format.padding == OddPadding::ZeroLeft);
            let digit = |half: u8| coding::HEX[usize::from(half & 0x0F)];
            read_halves(content, first, length, out, digit);
        }
        (Content::SignedDigits, _) => read_signed(content, out),
        (_, Coding::HexAscii) => read_hex(content, out, |byte| byte),
        (_, Coding::HexEbcdic) => read_hex(content, out, |byte| FROM_EBCDIC[byte as usize]),
        (_, Coding::Ebcdic) => {
            out.extend(content.iter().map(|byte| FROM_EBCDIC[*byte as usize]));
        }
        (_, Coding::Latin1 | Coding::Raw | Coding::Bcd) => out.extend_from_slice(content),
    }
}

fn read_bcd(padding: OddPadding, content: &[u8], length: usize, out: &mut Vec<u8>) {
    let first = usize::from(length % 2 == 1 && padding == OddPadding::ZeroLeft);
    read_halves(content, first, length, out, coding::bcd_character);
}

/// Decodes `length` half bytes, from index `first` on.
fn read_halves(
    content: &[u8],
    first: usize,
    length: usize,
    out: &mut Vec<u8>,
    character: impl Fn(u8) -> u8,
) {
    let halves = content.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
    out.extend(halves.skip(first).take(length).map(character));
}

fn read_hex(content: &[u8], out: &mut Vec<u8>, read: impl Fn(u8) -> u8) {
    let half = |byte: u8| coding::hex_value(read(byte)).unwrap_or(0);
    out.extend(content.as_chunks::<2>().0.iter().map(|pair| half(pair[0]) << 4 | half(pair[1])));
}

fn read_signed(content: &[u8], out: &mut Vec<u8>) {
    let Some((last, digits)) = content.split_last() else { return };
    if last >> 4 == 0xD {
        out.push(b'-');
    }
    out.extend(digits.iter().map(|byte| FROM_EBCDIC[*byte as usize]));
    out.push(b'0' + last % 16);
}
