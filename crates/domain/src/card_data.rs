//! Card data does not belong here: what looks like it is refused before it is stored or logged.

mod names;
mod normalised;

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use crate::Properties;
pub use names::holds_security_code;
use normalised::normalised;

/// How many digits a card number has (ISO/IEC 7812-1 allows fewer, which no scheme issues).
const PAN_DIGITS: RangeInclusive<usize> = PAN_DIGITS_MIN..=19;

/// How many digits a card number has at least.
pub const PAN_DIGITS_MIN: usize = 13;

/// How long a card number can be with what is between its digits, in characters.
pub(crate) const PAN_CHARS_MAX: usize = 19 * 2;

/// How much of a word is looked at before and after a number, in bytes, as long as the longest hash:
/// with all of it, a text that is one long word would take time in proportion to its square.
const WORD_BYTES_MAX: usize = 128;

/// The first six digits of the schemes' numbers, and how many digits these have.
const SCHEMES: &[(Range<u32>, &[usize])] = &[
    (220_000..220_500, &[16, 17, 18, 19]),             // Mir
    (222_100..272_100, &[16]),                         // Mastercard
    (300_000..306_000, &[14, 16, 17, 18, 19]),         // Diners Club
    (309_500..309_600, &[14, 16, 17, 18, 19]),         // Diners Club
    (340_000..350_000, &[15]),                         // American Express
    (352_800..359_000, &[16, 17, 18, 19]),             // JCB
    (360_000..370_000, &[14, 15, 16, 17, 18, 19]),     // Diners Club
    (370_000..380_000, &[15]),                         // American Express
    (380_000..400_000, &[14, 16, 17, 18, 19]),         // Diners Club
    (400_000..500_000, &[13, 16, 19]),                 // Visa
    (500_000..510_000, &[13, 14, 15, 16, 17, 18, 19]), // Maestro, RuPay, Verve
    (510_000..560_000, &[16]),                         // Mastercard
    (560_000..590_000, &[13, 14, 15, 16, 17, 18, 19]), // Maestro
    (601_100..601_200, &[16, 17, 18, 19]),             // Discover
    (606_282..606_283, &[16]),                         // Hipercard
    (606_985..608_501, &[16]),                         // RuPay
    (620_000..630_000, &[16, 17, 18, 19]),             // UnionPay
    (630_000..640_000, &[13, 14, 15, 16, 17, 18, 19]), // Maestro
    (644_000..660_000, &[16, 17, 18, 19]),             // Discover, RuPay
    (670_000..680_000, &[13, 14, 15, 16, 17, 18, 19]), // Maestro
    (810_000..830_000, &[16, 17, 18, 19]),             // UnionPay, RuPay
    (979_200..979_290, &[16]),                         // Troy
];

/// How digits are grouped on cards, and where people type them so.
const GROUPINGS: &[&[usize]] = &[
    &[4, 4, 4, 4],
    &[4, 6, 5],
    &[4, 6, 4],
    &[4, 4, 4, 4, 3],
    &[4, 4, 4, 4, 2],
    &[4, 4, 4, 4, 1],
    &[4, 4, 4, 3],
    &[4, 4, 4, 2],
    &[4, 4, 4, 1],
    &[4, 3, 3, 3],
    &[6, 13],
];

/// How many separators may stand between two groups, of any kind.
const SEPARATORS_MAX: usize = 3;

/// The name of the first property that holds card data, if one does.
#[must_use]
pub fn find_card_data(properties: &Properties) -> Option<&str> {
    let holds =
        |(name, value): &&(String, String)| names::is_forbidden(name, value) || contains_pan(value);
    properties.iter().find(holds).map(|(name, _)| name.as_str())
}

/// Whether a primary account number (ISO/IEC 7812-1) is in a text: 13 to 19 digits of a scheme's prefix
/// and length with a valid check digit, unbroken or grouped as on a card. It begins and ends where a
/// group of digits does: a number within more digits, or within a hexadecimal id, is none.
///
/// The text is also read as its next reader may: digits of every script, and with character references
/// (XML), percent-encoding and `\u` escapes decoded.
#[must_use]
pub fn contains_pan(text: &str) -> bool {
    let holds = |text: &str| Pans::of(text).next().is_some();
    text.len() >= PAN_DIGITS_MIN
        && (holds(text) || matches!(normalised(text), Cow::Owned(normal) if holds(&normal)))
}

/// The check of a tenant's texts that are one number and nothing else, such as keys of orders: one in ten of those in
/// a scheme's range has a valid check digit, and looks exactly like a card number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumericKeys {
    /// Those that may be a card number are refused.
    #[default]
    Checked,
    /// They are taken.
    Allowed,
}

impl NumericKeys {
    /// Whether a text is to be refused: [`contains_pan`], and it is not allowed.
    #[must_use]
    pub fn refuses(self, text: &str) -> bool {
        let is_number = || normalised(text).bytes().all(|byte| byte.is_ascii_digit());
        contains_pan(text) && !(self == Self::Allowed && is_number())
    }
}

/// The text with every card number in it masked but for its last four digits. More is masked than
/// [`contains_pan`] finds: a number with the right check digit however its digits are grouped by spaces
/// and hyphens. No request is refused for it. A text that hides a number from those who read it as it is,
/// in digits of another script or escaped, is returned as it reads.
#[must_use]
pub fn mask_pans(text: &str) -> String {
    let masked = mask_plain(text);
    match normalised(&masked) {
        Cow::Owned(normal) if contains_pan(&normal) => mask_plain(&normal),
        Cow::Owned(_) | Cow::Borrowed(_) => masked,
    }
}

fn mask_plain(text: &str) -> String {
    let mut masked = text.as_bytes().to_vec();
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let mut mask = |number: Range<usize>| {
        let digits = number.rev().filter(|at| is_digit(*at));
        digits.skip(4).for_each(|at| masked[at] = b'*');
    };
    let starts = (0..text.len()).filter(|at| is_digit(*at) && (*at == 0 || !is_digit(at - 1)));
    for start in starts {
        let in_number = |c: &char| c.is_ascii_digit() || *c == ' ' || *c == '-';
        let run = text[start..].chars().take_while(in_number).take(PAN_CHARS_MAX).count();
        let ends = (start + 1..=start + run).filter(|at| is_digit(at - 1) && !is_digit(*at));
        ends.filter(|end| may_be_pan(&text[start..*end])).for_each(|end| mask(start..end));
    }
    Pans::of(text).for_each(mask);
    String::from_utf8(masked).expect("ASCII digits took the place of ASCII digits")
}

/// Whether the digits among spaces and hyphens may be those of a card.
fn may_be_pan(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).map(|it| it - b'0').collect();
    PAN_DIGITS.contains(&digits.len()) && (2..=6).contains(&digits[0]) && luhn(&digits)
}

/// The places of card numbers in a text, in bytes.
struct Pans<'a> {
    text: &'a str,
    /// Where the next group of digits is looked for.
    at: usize,
}

impl<'a> Pans<'a> {
    const fn of(text: &'a str) -> Self {
        Self { text, at: 0 }
    }
}

impl Iterator for Pans<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while let Some(group) = next_group(self.text, self.at) {
            self.at = group.end;
            if let Some(end) = pan_end(self.text, &group) {
                self.at = end;
                return Some(group.start..end);
            }
        }
        None
    }
}

/// The first whole group of digits from a place on, which is the end of another group or the beginning.
fn next_group(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let start = from + bytes[from..].iter().position(u8::is_ascii_digit)?;
    Some(start..end_of_digits(bytes, start))
}

fn end_of_digits(bytes: &[u8], start: usize) -> usize {
    start + bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Where the card number ends that begins with this group, if one does.
fn pan_end(text: &str, first: &Range<usize>) -> Option<usize> {
    let is_pan = |end: usize| {
        let mut digits = [0; *PAN_DIGITS.end()];
        let mut count = 0;
        for byte in text.as_bytes()[first.start..end].iter().filter(|it| it.is_ascii_digit()) {
            *digits.get_mut(count)? = byte - b'0';
            count += 1;
        }
        let valid = is_of_scheme(&digits[..count]) && luhn(&digits[..count]);
        (valid && !is_in_hexadecimal(text, first.start..end)).then_some(end)
    };
    if PAN_DIGITS.contains(&first.len()) {
        return is_pan(first.end);
    }
    // Most groups are not the first of a number, or end the text: they cost no more than this.
    if !matches!(first.len(), 4 | 6) || first.end == text.len() {
        return None;
    }
    separators(&text[first.end..])?;
    GROUPINGS.iter().find_map(|grouping| {
        if grouping[0] != first.len() {
            return None;
        }
        let mut end = first.end;
        for length in &grouping[1..] {
            let start = end + separators(&text[end..])?;
            end = end_of_digits(text.as_bytes(), start);
            (end - start == *length).then_some(())?;
        }
        is_pan(end)
    })
}

/// How many bytes separate two groups, if the text begins with separators.
fn separators(text: &str) -> Option<usize> {
    let separators = text.chars().take(SEPARATORS_MAX).take_while(|c| is_separator(*c));
    let bytes = separators.map(char::len_utf8).sum();
    (bytes > 0).then_some(bytes)
}

/// Spaces and line ends, hyphens and dashes, a point, a slash, a low line.
fn is_separator(c: char) -> bool {
    match c {
        ' ' | '-' | '.' | '/' | '_' => true,
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => true,
        other => other.is_whitespace(),
    }
}

fn is_of_scheme(digits: &[u8]) -> bool {
    PAN_DIGITS.contains(&digits.len()) && {
        let prefix = digits[..6].iter().fold(0, |number, digit| number * 10 + u32::from(*digit));
        let mut schemes = SCHEMES.iter();
        schemes.any(|(prefixes, lengths)| {
            prefixes.contains(&prefix) && lengths.contains(&digits.len())
        })
    }
}

/// Whether the number is a part of a word of hexadecimal digits, such as a UUID without hyphens. The `B`
/// before the number of a card's first track is none of it.
fn is_in_hexadecimal(text: &str, number: Range<usize>) -> bool {
    if text.as_bytes()[number.end..].first() == Some(&b'^') {
        return false;
    }
    let before = text.as_bytes()[..number.start].iter().rev();
    let after = text.as_bytes()[number.end..].iter();
    let is_in_word = |byte: &&u8| byte.is_ascii_alphanumeric();
    let before = before.take_while(is_in_word).take(WORD_BYTES_MAX);
    let after = after.take_while(is_in_word).take(WORD_BYTES_MAX);
    let mut letters = before.chain(after).peekable();
    letters.peek().is_some() && letters.all(u8::is_ascii_hexdigit)
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, u32::from(*digit) * 2) {
            (0, _) => u32::from(*digit),
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, expected: Option<&str>) {
        let properties = vec![(name.to_owned(), value.to_owned())];
        assert_eq!(find_card_data(&properties), expected, "{name}={value}");
    }

    #[test]
    fn card_data_is_found_by_name_and_by_value() {
        check("ccNumber", "x", Some("ccNumber"));
        check("card-number", "x", Some("card-number"));
        check("note", "4111 1111 1111 1111", Some("note"));
        check("note", "4111111111111112", None);
        check("order", "1234567890123", None);
        check("delayMs", "1000", None);
        check("ccCvv", "123", Some("ccCvv"));
        check("card_cvc_check", "pass", None);
    }

    #[test]
    fn card_numbers_are_found_as_people_write_them() {
        for text in [
            "4111111111111111",
            "pan 4111 1111 1111 1111 12/27",
            "4111-1111-1111-1111",
            "4111.1111.1111.1111",
            "4111\u{a0}1111\u{a0}1111\u{a0}1111",
            "card4111111111111111",
            "order_4111111111111111_2",
            "3782 822463 10005",
            "378282246310005",
            "3056 930902 5904",
            "6200000000000000000",
            "620000 0000000000000",
            "5019717010103742",
            "4222222222222",
            "2223003122003222",
            "x,4012888888881881,y",
            "{\"a\":\"6011000990139424\"}",
            "4111 1111-1111.1111",
            "4111  1111 - 1111  1111",
            "4111\n1111\t1111\r\n1111",
            "４１１１１１１１１１１１１１１１",
            "４１１１－１１１１－１１１１－１１１１",
            "٤١١١ ١١١١ ١١١١ ١١١١",
            "&#52;111&#x20;1111&nbsp;1111 1111",
            "<pan>&#x34;&#x31;11111111111111</pan>",
            "&amp;#52;111111111111111",
            "4111%201111%201111%201111",
            "\\u0034111111111111111",
            "4111\u{200b}1111\u{200b}1111\u{200b}1111",
            "%B4111111111111111^DOE/JOHN^25121010000000000000",
            ";4111111111111111=25121010000000000000",
        ] {
            assert!(contains_pan(text), "{text}");
        }
    }

    #[test]
    fn every_grouping_begins_as_the_quick_check_expects() {
        assert!(GROUPINGS.iter().all(|grouping| matches!(grouping[0], 4 | 6)));
    }

    #[test]
    fn other_numbers_are_no_card_numbers() {
        for text in [
            "4111111111111112",                     // the check digit is wrong
            "41111111111111111",                    // no Visa card has 17 digits
            "94111111111111111",                    // within more digits
            "4111    1111 1111 1111",               // wider apart than the groups of a number
            "4111,1111,1111,1111",                  // a list
            "４１１１１１１１１１１１１１１２",     // the check digit is wrong
            "411 1111 1111 11111",                  // grouped as no card is
            "1234567890128",                        // no scheme begins with 1
            "a4111111111111111f",                   // within a hexadecimal id
            "018f41111111111111110000abcdefab",     // likewise
            "41111111-1111-4111-8111-111111111111", // a UUID of digits
            "2026-11-24 20:15:00.411111",
            "",
        ] {
            assert!(!contains_pan(text), "{text}");
        }
    }

    #[test]
    fn card_numbers_in_texts_are_masked() {
        for (text, masked) in [
            ("card 4111111111111111 declined", "card ************1111 declined"),
            ("4111 1111-1111 1111 12/27", "**** ****-**** 1111 12/27"),
            ("4111.1111.1111.1111", "****.****.****.1111"),
            ("é4111111111111111é", "é************1111é"),
            ("card ４１１１１１１１１１１１１１１１ &", "card ************1111 &"),
            ("card &#52;111111111111111", "card ************1111"),
            (
                "12 4111111111111111 and 4012888888881881",
                "12 ************1111 and ************1881",
            ),
            ("order 4111111111111112", "order 4111111111111112"),
            ("94111111111111111", "94111111111111111"),
            ("call 555-0100", "call 555-0100"),
            ("", ""),
        ] {
            assert_eq!(mask_pans(text), masked);
        }
    }

    /// xorshift64.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        fn id(&mut self) -> uuid::Uuid {
            uuid::Uuid::from_u64_pair(self.next(), self.next())
        }
    }

    /// A million with `cargo test --release`, as the nightly run does.
    const MANY: usize = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };

    /// How many of so many texts are taken for a card number.
    fn mistaken(mut text: impl FnMut(&mut Random) -> String) -> usize {
        let mut random = Random(7);
        (0..MANY).filter(|_| contains_pan(&text(&mut random))).count()
    }

    #[test]
    fn ids_are_no_card_numbers() {
        assert_eq!(mistaken(|random| random.id().to_string()), 0);
        assert_eq!(mistaken(|random| random.id().simple().to_string()), 0);
        // Of a time, as ours are and as UUIDs of version 7.
        let time = |random: &mut Random| 0x0199_0000_0000 + (random.next() >> 28);
        let ours = |random: &mut Random| {
            let (millis, rest) = (time(random), random.next());
            uuid::Uuid::from_u64_pair(millis << 16 | 0x7000 | rest >> 52, rest)
        };
        assert_eq!(mistaken(|random| ours(random).to_string()), 0);
        assert_eq!(mistaken(|random| ours(random).simple().to_string()), 0);
        const CROCKFORD: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let ulid = |random: &mut Random| {
            let bits = u128::from(time(random)) << 80 | u128::from(random.next());
            let bits = bits | u128::from(random.next() & 0xffff) << 64;
            let letter = |at: u32| CROCKFORD[(bits >> (at * 5) & 31) as usize] as char;
            (0..26).rev().map(letter).collect::<String>()
        };
        assert_eq!(mistaken(ulid), 0);
    }

    #[test]
    fn times_and_composed_keys_are_no_card_numbers() {
        // Seconds from 2001 to 2033, in each unit.
        for unit in [1, 1_000, 1_000_000, 1_000_000_000_u64] {
            let time = |random: &mut Random| {
                let seconds = 1_000_000_000 + random.next() % 1_000_000_000;
                (seconds * unit + random.next() % unit).to_string()
            };
            assert_eq!(mistaken(time), 0, "{unit} per second");
        }
        let composed = |random: &mut Random| {
            let [time, worker, count] = [24, 7, 10].map(|bits| random.next() >> (64 - bits));
            format!("p-{time:x}-{worker}-{count}")
        };
        assert_eq!(mistaken(composed), 0);
    }

    #[test]
    fn tokens_of_gateways_are_no_card_numbers() {
        const LETTERS: &[u8] =
            b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_+/=&%\\";
        let drawn = |random: &mut Random, letters: u64, length: usize| {
            let letter = |_| LETTERS[usize::try_from(random.next() % letters).unwrap()] as char;
            (0..length).map(letter).collect::<String>()
        };
        assert_eq!(mistaken(|random| format!("pm_1{}", drawn(random, 62, 23))), 0);
        assert_eq!(mistaken(|random| format!("tok_{}", drawn(random, 36, 20))), 0);
        assert_eq!(mistaken(|random| drawn(random, 16, 64)), 0, "SHA-256");
        assert_eq!(
            mistaken(|random| drawn(random, LETTERS.len() as u64, 64)),
            0,
            "base64 and escapes"
        );
        let id = |random: &mut Random| random.id().to_string().to_uppercase();
        assert_eq!(mistaken(|random| format!("{} {}/{}", id(random), id(random), id(random))), 0);
    }

    /// The limit of a check digit: of the numbers in a scheme's range one in ten has a valid one. A tenant that has
    /// such keys allows them.
    #[test]
    fn one_in_ten_numeric_keys_of_a_schemes_range_is_mistaken() {
        let in_range = |random: &mut Random| format!("4{:015}", random.next() % 10_u64.pow(15));
        let percent = |mistaken: usize| mistaken as f64 * 100.0 / MANY as f64;
        let of_range = percent(mistaken(in_range));
        assert!((9.5..10.5).contains(&of_range), "{of_range} %");
        let any = |random: &mut Random| format!("{:016}", random.next() % 10_u64.pow(16));
        let of_any = percent(mistaken(any));
        assert!((3.0..4.0).contains(&of_any), "{of_any} %");
    }

    #[test]
    fn numeric_keys_are_allowed_only_alone() {
        let refuses =
            |text| [NumericKeys::Checked, NumericKeys::Allowed].map(|it| it.refuses(text));
        assert_eq!(refuses("4111111111111111"), [true, false]);
        assert_eq!(refuses("4111-1111-1111-1111"), [true, true]);
        assert_eq!(refuses("pan 4111111111111111"), [true, true]);
        assert_eq!(refuses("4111111111111112"), [false, false]);
    }
}
