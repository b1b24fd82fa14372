//! Texts as a person or the next program reads them: digits of every script, character references and
//! escapes decoded, what is not seen left out.

use std::borrow::Cow;

/// How often a text is decoded: what is escaped more often is no accident.
const DECODINGS_MAX: usize = 3;

/// The longest character reference, in bytes without `&` and `;`.
const REFERENCE_BYTES_MAX: usize = 10;

/// The zeros of Unicode's decimal digits (general category Nd, Unicode 16), each followed by its one to nine.
const ZEROS: &[u32] = &[
    0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66,
    0x0de6, 0x0e50, 0x0ed0, 0x0f20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x104a0, 0x10d30, 0x10d40, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0,
    0x11650, 0x116c0, 0x116d0, 0x116da, 0x11730, 0x118e0, 0x11950, 0x11bf0, 0x11c50, 0x11d50,
    0x11da0, 0x11f50, 0x16130, 0x16a60, 0x16ac0, 0x16b50, 0x16d70, 0x1ccf0, 0x1d7ce, 0x1d7d8,
    0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e5f1, 0x1e950, 0x1fbf0,
];

/// Named character references (XML, HTML) of what stands between groups of digits, and of `&` itself.
const NAMED: &[(&str, char)] = &[
    ("amp", '&'),
    ("nbsp", ' '),
    ("ensp", ' '),
    ("emsp", ' '),
    ("thinsp", ' '),
    ("ndash", '-'),
    ("mdash", '-'),
    ("hyphen", '-'),
    ("dash", '-'),
    ("minus", '-'),
    ("shy", '\u{ad}'),
    ("sol", '/'),
    ("period", '.'),
    ("lowbar", '_'),
];

/// The text decoded and folded; borrowed where it is plain already, which costs one pass over its bytes.
pub(super) fn normalised(text: &str) -> Cow<'_, str> {
    let is_special =
        |byte: u8| !byte.is_ascii() | (byte == b'&') | (byte == b'%') | (byte == b'\\');
    // Without an early end, so that the compiler looks at many bytes at once.
    if !text.bytes().fold(false, |any, byte| any | is_special(byte)) {
        return Cow::Borrowed(text);
    }
    let mut normal = folded(text);
    for _ in 0..DECODINGS_MAX {
        let Some(decoded) = decoded(&normal) else { break };
        normal = Cow::Owned(folded(&decoded).into_owned());
    }
    normal
}

/// The text with ASCII for digits and full-width forms, without what is not seen.
fn folded(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| folded_char(c) == Some(c)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter_map(folded_char).collect())
}

/// The character that a character is read as, such as the ASCII digit of its value; `None` where it is invisible.
fn folded_char(c: char) -> Option<char> {
    if c.is_ascii() {
        return Some(c);
    }
    match u32::from(c) {
        // Soft hyphen; zero-width, bidirectional and invisible formats; variation selectors; a key's frame.
        0xad
        | 0x200b..=0x200f
        | 0x202a..=0x202e
        | 0x2060..=0x206f
        | 0xfe00..=0xfe0f
        | 0xfeff
        | 0x20e3 => None,
        // Superscripts, subscripts, circled.
        0xb9 => Some('1'),
        code @ 0xb2..=0xb3 => ascii_digit(code - 0xb0),
        code @ (0x2070 | 0x2074..=0x2079) => ascii_digit(code - 0x2070),
        code @ 0x2080..=0x2089 => ascii_digit(code - 0x2080),
        code @ 0x2460..=0x2468 => ascii_digit(code - 0x245f),
        0x24ea => Some('0'),
        // Full-width forms of ASCII.
        code @ 0xff01..=0xff5e => char::from_u32(code - 0xfee0),
        code => {
            let before = ZEROS.partition_point(|zero| *zero <= code);
            let digit = before.checked_sub(1).map(|at| code - ZEROS[at]);
            digit.filter(|it| *it < 10).map_or(Some(c), ascii_digit)
        }
    }
}

const fn ascii_digit(value: u32) -> Option<char> {
    char::from_digit(value, 10)
}

/// The text with its character references, percent-encoded bytes and `\u` escapes decoded once, if it
/// has any.
fn decoded(text: &str) -> Option<String> {
    let mut decoded: Vec<u8> = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = text.as_bytes()[at..].iter().position(|it| b"&%\\".contains(it)) {
        at += found;
        let rest = &text.as_bytes()[at + 1..];
        let escape = match text.as_bytes()[at] {
            b'&' => reference(rest),
            b'%' => percent_encoded(rest),
            _ => json_escape(rest),
        };
        let Some((escape, length)) = escape else {
            at += 1;
            continue;
        };
        decoded.extend_from_slice(&text.as_bytes()[copied..at]);
        match escape {
            Escape::Byte(byte) => decoded.push(byte),
            Escape::Char(c) => decoded.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        at += 1 + length;
        copied = at;
    }
    if copied == 0 {
        return None;
    }
    decoded.extend_from_slice(&text.as_bytes()[copied..]);
    Some(String::from_utf8_lossy(&decoded).into_owned())
}

enum Escape {
    Byte(u8),
    Char(char),
}

/// A character reference after its `&`, with its length; HTML's readers take it without its `;` too.
fn reference(rest: &[u8]) -> Option<(Escape, usize)> {
    let (digits, radix) = match rest {
        [b'#', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'#', digits @ ..] => (digits, 10),
        name => {
            let of_name = |it: &&(&str, char)| {
                name.strip_prefix(it.0.as_bytes()).is_some_and(|rest| rest.first() == Some(&b';'))
            };
            let (name, c) = NAMED.iter().find(of_name)?;
            return Some((Escape::Char(*c), name.len() + 1));
        }
    };
    let (value, length) = number(digits, radix, REFERENCE_BYTES_MAX)?;
    let before = rest.len() - digits.len();
    let ends = usize::from(digits.get(length) == Some(&b';'));
    Some((Escape::Char(char::from_u32(value)?), before + length + ends))
}

fn percent_encoded(rest: &[u8]) -> Option<(Escape, usize)> {
    let (value, length) = number(rest, 16, 2)?;
    (length == 2).then_some(())?;
    Some((Escape::Byte(u8::try_from(value).ok()?), length))
}

/// `\uXXXX`; halves of a pair are none.
fn json_escape(rest: &[u8]) -> Option<(Escape, usize)> {
    let (value, length) = number(rest.strip_prefix(b"u")?, 16, 4)?;
    (length == 4).then_some(())?;
    Some((Escape::Char(char::from_u32(value)?), length + 1))
}

/// The number that so many digits at most begin with, and how many they are.
fn number(digits: &[u8], radix: u32, digits_max: usize) -> Option<(u32, usize)> {
    let mut value = 0_u32;
    let mut length = 0;
    let of_radix = digits.iter().take(digits_max).map_while(|it| char::from(*it).to_digit(radix));
    for digit in of_radix {
        value = value.checked_mul(radix)?.checked_add(digit)?;
        length += 1;
    }
    (length > 0).then_some((value, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_the_next_reader_does() {
        for (text, normal) in [
            ("plain 4111", "plain 4111"),
            ("４１１１－１１１１", "4111-1111"),
            ("٤١١١ ۴۱۱۱ ४१११ 𝟒𝟏𝟏𝟏 ⁴¹¹¹ ₄₁₁₁ ④①①①", "4111 4111 4111 4111 4111 4111 4111"),
            ("4\u{fe0f}\u{20e3}1\u{200b}1\u{ad}1", "4111"),
            ("&#52;&#x31;&#X31;&#49", "4111"),
            ("&amp;#52;&nbsp;1", "4 1"),
            ("%34%31%EF%BC%91%20", "411 "),
            ("\\u0034\\u0031 \\n", "41 \\n"),
            (
                "a & b, 10 %, 5 %x, &nosuch; &#xfffffffff; \\",
                "a & b, 10 %, 5 %x, &nosuch; &#xfffffffff; \\",
            ),
            ("Zoë & Söhne", "Zoë & Söhne"),
        ] {
            assert_eq!(normalised(text), normal);
        }
        assert!(matches!(normalised("nothing to do"), Cow::Borrowed(_)));
    }

    #[test]
    fn every_zero_is_followed_by_its_digits() {
        assert!(ZEROS.is_sorted());
        for zero in ZEROS {
            let digits: String = (0..10).filter_map(|it| char::from_u32(zero + it)).collect();
            assert_eq!(folded(&digits), "0123456789", "{zero:x}");
        }
    }
}
