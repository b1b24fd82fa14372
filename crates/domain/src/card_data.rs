//! Card data does not belong here: what looks like it is refused before it is stored or logged.

use crate::Properties;

/// Names under which gateways' clients send what may not be kept after authorization, or at all
/// outside a vault (PCI DSS 3.3.1, 3.5.1), in lower case without separators.
const FORBIDDEN_NAMES: &[&str] = &[
    "ccnumber",
    "cardnumber",
    "pan",
    "ccverificationvalue",
    "cvv",
    "cvv2",
    "cvc",
    "cvc2",
    "cid",
    "track1",
    "track2",
    "trackdata",
    "pin",
    "pinblock",
];

/// How long a card number can be with what is between its digits.
pub(crate) const PAN_CHARS_MAX: usize = 19 * 2;

/// The name of the first property that holds card data, if one does.
#[must_use]
pub fn find_card_data(properties: &Properties) -> Option<&str> {
    let holds = |(name, value): &&(String, String)| {
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        FORBIDDEN_NAMES.contains(&name.to_ascii_lowercase().as_str()) || looks_like_pan(value)
    };
    properties.iter().find(holds).map(|(name, _)| name.as_str())
}

/// Whether a text is a primary account number: 13 to 19 digits, spaces and dashes aside, starting
/// with a digit that a card scheme uses, with a valid check digit (ISO/IEC 7812-1).
#[must_use]
pub fn looks_like_pan(text: &str) -> bool {
    if !text.chars().all(|c| c.is_ascii_digit() || c == ' ' || c == '-') {
        return false;
    }
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    (13..=19).contains(&digits.len()) && (2..=6).contains(&digits[0]) && luhn(&digits)
}

/// The text with every card number in it masked but for its last four digits. Digits in groups, as on
/// a card, count as one number.
#[must_use]
pub fn mask_pans(text: &str) -> String {
    let mut masked = text.as_bytes().to_vec();
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let starts = (0..text.len()).filter(|at| is_digit(*at) && (*at == 0 || !is_digit(at - 1)));
    for start in starts {
        let in_number = |c: &char| c.is_ascii_digit() || *c == ' ' || *c == '-';
        let run = text[start..].chars().take_while(in_number).take(PAN_CHARS_MAX).count();
        let ends = (start + 1..=start + run).filter(|at| is_digit(at - 1) && !is_digit(*at));
        for end in ends.filter(|end| looks_like_pan(&text[start..*end])) {
            let digits = (start..end).rev().filter(|at| is_digit(*at));
            digits.skip(4).for_each(|at| masked[at] = b'*');
        }
    }
    String::from_utf8(masked).expect("ASCII digits took the place of ASCII digits")
}

fn luhn(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit * 2) {
            (0, _) => *digit,
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
    }

    #[test]
    fn card_numbers_in_texts_are_masked() {
        for (text, masked) in [
            ("card 4111111111111111 declined", "card ************1111 declined"),
            ("4111 1111-1111 1111 12/27", "**** ****-**** 1111 12/27"),
            ("é4111111111111111é", "é************1111é"),
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
}
