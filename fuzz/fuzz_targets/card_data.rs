//! Card numbers in texts: `contains_pan` agrees with a slow search of every substring, `mask_pans`
//! hides the first number that there is and changes nothing but digits, and a body in JSON is refused
//! where its text is, escaped or not.
#![no_main]

use domain::card_data::{NumericKeys, contains_pan, mask_pans};
use libfuzzer_sys::fuzz_target;
use web::card_data::find_in_json;

/// Prefixes from and to, both included and of the same length, and how many digits the numbers have.
const SCHEMES: &[(&str, &str, &[usize])] = &[
    ("2200", "2204", &[16, 17, 18, 19]),
    ("2221", "2720", &[16]),
    ("300", "305", &[14, 16, 17, 18, 19]),
    ("3095", "3095", &[14, 16, 17, 18, 19]),
    ("34", "34", &[15]),
    ("3528", "3589", &[16, 17, 18, 19]),
    ("36", "36", &[14, 15, 16, 17, 18, 19]),
    ("37", "37", &[15]),
    ("38", "39", &[14, 16, 17, 18, 19]),
    ("4", "4", &[13, 16, 19]),
    ("50", "50", &[13, 14, 15, 16, 17, 18, 19]),
    ("51", "55", &[16]),
    ("56", "58", &[13, 14, 15, 16, 17, 18, 19]),
    ("6011", "6011", &[16, 17, 18, 19]),
    ("606282", "606282", &[16]),
    ("606985", "608500", &[16]),
    ("62", "62", &[16, 17, 18, 19]),
    ("63", "63", &[13, 14, 15, 16, 17, 18, 19]),
    ("644", "659", &[16, 17, 18, 19]),
    ("67", "67", &[13, 14, 15, 16, 17, 18, 19]),
    ("81", "82", &[16, 17, 18, 19]),
    ("979200", "979289", &[16]),
];

/// How long the groups of a number are.
const GROUPINGS: [&str; 11] =
    ["4444", "465", "464", "44443", "44442", "44441", "4443", "4442", "4441", "4333", "6D"];

const SEPARATORS: &str =
    " -./_\u{a0}\u{202f}\u{2009}\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2212}";

/// How far a word of hexadecimal digits around a number is looked at, on each side.
const WORD_CHARS_MAX: usize = 128;

/// A number with what is between its digits, in characters.
const NUMBER_CHARS_MAX: usize = 24;

fn luhn(digits: &[u32]) -> bool {
    let doubled = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9];
    let mut sum = 0;
    for (place, digit) in digits.iter().rev().enumerate() {
        sum += if place % 2 == 1 { doubled[*digit as usize] } else { *digit };
    }
    sum % 10 == 0
}

fn is_number(chars: &[char]) -> bool {
    let separators: Vec<char> = chars.iter().copied().filter(|it| !it.is_ascii_digit()).collect();
    if separators.iter().any(|it| *it != separators[0] || !SEPARATORS.contains(*it)) {
        return false;
    }
    if !separators.is_empty() {
        let groups = chars.split(|it| !it.is_ascii_digit()).map(|group| match group.len() {
            13 => "D".to_owned(),
            length => length.to_string(),
        });
        if !GROUPINGS.contains(&groups.collect::<String>().as_str()) {
            return false;
        }
    }
    let text: String = chars.iter().filter(|it| it.is_ascii_digit()).collect();
    let digits: Vec<u32> = text.chars().filter_map(|it| it.to_digit(10)).collect();
    let is_of_scheme = SCHEMES.iter().any(|(from, to, lengths)| {
        let prefix = text.get(..from.len());
        lengths.contains(&text.len()) && prefix.is_some_and(|it| *from <= it && it <= *to)
    });
    is_of_scheme && luhn(&digits)
}

/// The first number of a text, from and to, in characters.
fn naive(text: &[char]) -> Option<(usize, usize)> {
    let is_digit = |at: usize| text.get(at).is_some_and(char::is_ascii_digit);
    let starts = (0..text.len()).filter(|at| is_digit(*at) && (*at == 0 || !is_digit(at - 1)));
    for start in starts {
        for end in start + 13..=text.len().min(start + NUMBER_CHARS_MAX) {
            if !is_digit(end - 1) || is_digit(end) || !is_number(&text[start..end]) {
                continue;
            }
            let is_word = |it: &&char| it.is_ascii_alphanumeric();
            let before = text[..start].iter().rev().take_while(is_word).take(WORD_CHARS_MAX);
            let after = text[end..].iter().take_while(is_word).take(WORD_CHARS_MAX);
            let around: Vec<&char> = before.chain(after).collect();
            if around.is_empty() || !around.iter().all(|it| it.is_ascii_hexdigit()) {
                return Some((start, end));
            }
        }
    }
    None
}

fn check_json(text: &str, is_found: bool) {
    let plain = serde_json::json!({ "note": text }).to_string();
    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
    for body in [plain, format!("{{\"note\":\"{units}\"}}")] {
        let found = find_in_json(body.as_bytes(), NumericKeys::Checked);
        assert_eq!(found.as_deref(), is_found.then_some("note"), "{body}");
    }
}

fn check_masked(text: &str, chars: &[char], first: Option<(usize, usize)>) {
    let masked: Vec<char> = mask_pans(text).chars().collect();
    assert_eq!(masked.len(), chars.len());
    for (now, before) in masked.iter().zip(chars) {
        assert!(now == before || *now == '*' && before.is_ascii_digit());
    }
    if let Some((start, end)) = first {
        let left = masked[start..end].iter().filter(|it| it.is_ascii_digit()).count();
        assert!(left <= 4, "{left} digits are left");
    }
}

fuzz_target!(|data: &[u8]| {
    drop(find_in_json(data, NumericKeys::Allowed));
    let text = String::from_utf8_lossy(data);
    let chars: Vec<char> = text.chars().collect();
    let first = naive(&chars);
    assert_eq!(contains_pan(&text), first.is_some(), "{text:?}");
    let is_digits = chars.iter().all(char::is_ascii_digit);
    assert_eq!(NumericKeys::Allowed.refuses(&text), first.is_some() && !is_digits);
    check_json(&text, first.is_some());
    check_masked(&text, &chars, first);
});
