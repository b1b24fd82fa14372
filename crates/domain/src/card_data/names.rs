//! Names of fields whose values may not be stored, read part by part.

use super::normalised::normalised;

/// Names under which gateways' clients send what may not be kept outside a vault, or at all
/// (PCI DSS 3.3.1, 3.5.1), in lower case without separators; also after a word for a card.
const FORBIDDEN: &[&str] =
    &["ccnumber", "cardnumber", "pan", "cid", "track1", "track2", "trackdata", "pin", "pinblock"];

/// The names of a card's security code, by scheme and by gateway.
const CODES: &[&str] = &[
    "csc", "cvc", "cvc1", "cvc2", "cvd", "cvd2", "cvn", "cvn2", "cvv", "cvv1", "cvv2", "icvv",
    "cav2",
];

/// The same in two words.
const CODES_IN_WORDS: &[[&str; 2]] = &[
    ["security", "code"],
    ["verification", "value"],
    ["cc", "verification"],
    ["card", "verification"],
];

/// Names of a code only after a word for a card, as Authorize.net's `cardCode`.
const CODES_OF_CARDS: &[&str] = &["code", "verificationcode"];

/// Words for a card that a name begins with.
const CARD: &[&str] = &["creditcard", "debitcard", "card", "cc"];

/// Last words of names that say what became of a code, and hold none.
const RESULTS: &[&str] = &[
    "check",
    "checked",
    "indicator",
    "match",
    "message",
    "present",
    "provided",
    "required",
    "response",
    "result",
    "status",
    "valid",
    "verified",
];

/// How many words of a name are read.
const WORDS_MAX: usize = 16;

/// Whether a property may not be stored: for its name, or for its name with this value.
pub(super) fn is_forbidden(name: &str, value: &str) -> bool {
    let plain = plain(name);
    let is_forbidden = |name: &str| FORBIDDEN.contains(&name);
    is_forbidden(&plain)
        || of_card(&plain).is_some_and(|rest| is_forbidden(rest) || rest == "number")
        || is_code(name, value, CodeValue::Any)
}

/// Whether a field of this name holds a security code: three or four digits under one of its names.
#[must_use]
pub fn holds_security_code(name: &str, value: &str) -> bool {
    is_code(name, value, CodeValue::Digits)
}

/// The values that are taken for a code under a code's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CodeValue {
    Any,
    Digits,
}

fn is_code(name: &str, value: &str, values: CodeValue) -> bool {
    let words = words(name);
    let is_named = words.iter().any(|word| is_code_word(word))
        || words.windows(2).any(|pair| CODES_IN_WORDS.iter().any(|it| pair == it))
        || is_code_word(&plain(name));
    let is_result = words.last().is_some_and(|word| RESULTS.contains(&word.as_str()));
    is_named && (values == CodeValue::Any && !is_result || is_three_or_four_digits(value))
}

/// Whether one word is a code's name: `cvv`, `cardcvc`, `securitycode`, `ccverification`.
fn is_code_word(word: &str) -> bool {
    let is_name = |word: &str| {
        let is_in_words = |it: &[&str; 2]| word.strip_prefix(it[0]) == Some(it[1]);
        CODES.contains(&word) || CODES_IN_WORDS.iter().any(is_in_words)
    };
    is_name(word)
        || of_card(word).is_some_and(|rest| is_name(rest) || CODES_OF_CARDS.contains(&rest))
}

/// The rest of a name after the word for a card that it begins with; `None` where either is missing.
fn of_card(name: &str) -> Option<&str> {
    CARD.iter().find_map(|card| name.strip_prefix(card)).filter(|rest| !rest.is_empty())
}

fn is_three_or_four_digits(value: &str) -> bool {
    let value = normalised(value);
    let value = value.trim();
    matches!(value.len(), 3 | 4) && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// A name in lower case without separators.
fn plain(name: &str) -> String {
    let name = normalised(name);
    name.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_lowercase()).collect()
}

/// The words of a name in lower case: `ccCvv`, `card_cvc` and `CVVCode` have two.
fn words(name: &str) -> Vec<String> {
    let name = normalised(name);
    let mut words: Vec<String> = vec![];
    let mut before = ' ';
    let mut letters = name.chars().peekable();
    while let Some(c) = letters.next() {
        let begins = c.is_ascii_uppercase()
            && (!before.is_ascii_uppercase()
                || letters.peek().is_some_and(char::is_ascii_lowercase));
        if c.is_ascii_alphanumeric() {
            match words.last_mut() {
                Some(word) if before.is_ascii_alphanumeric() && !begins => {
                    word.push(c.to_ascii_lowercase());
                }
                Some(_) | None => words.push(c.to_ascii_lowercase().into()),
            }
        }
        if words.len() > WORDS_MAX {
            break;
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn security_codes_are_found_by_a_part_of_the_name() {
        for name in [
            "csc",
            "ccCvv",
            "card_cvc",
            "ccVerification",
            "ccVerificationValue",
            "cvv2",
            "CVV",
            "card-security-code",
            "securityCode",
            "payment.card.cvn",
            "cardCVV2",
            "cardcvc",
            "CVVCode",
            "creditCardCsc",
            "card[cvc]",
            "ｃｖｖ",
            "cardVerificationValue",
            "cvvNumber",
            "newCvc",
            "cccvv",
            "cardverificationvalue",
            "securitycode",
            "ccsecuritycode",
            "cardCode",
        ] {
            assert!(is_forbidden(name, "123"), "{name}");
            assert!(holds_security_code(name, " 1234 "), "{name}");
            assert!(holds_security_code(name, "１２３"), "{name}");
            assert!(!holds_security_code(name, "pm_123"), "{name}");
        }
        for name in
            ["ccNumber", "card-number", "creditCardNumber", "pan", "cardPan", "card_pin", "PIN"]
        {
            assert!(is_forbidden(name, "x"), "{name}");
        }
    }

    #[test]
    fn other_names_are_taken() {
        for name in [
            "number",
            "orderNumber",
            "verification",
            "emailVerification",
            "verificationCode",
            "code",
            "statusCode",
            "recvCount",
            "svcVersion",
            "pinCode",
            "pinned",
            "shipping",
            "company",
            "panel",
            "accident",
            "subscribe",
            "avscode",
            "cardToken",
            "card_brand",
            "account",
            "accountNumber",
            "success",
            "successCode",
            "delayMs",
            "",
        ] {
            assert!(!is_forbidden(name, "123"), "{name}");
            assert!(!holds_security_code(name, "123"), "{name}");
        }
        for name in ["cvvResult", "card_cvc_check", "cscResponse", "cvv_status"] {
            assert!(!is_forbidden(name, "pass"), "{name}");
            assert!(is_forbidden(name, "123"), "{name}: what it holds is a code");
        }
    }
}
