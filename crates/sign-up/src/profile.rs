//! Names, phone numbers and time zones of customers.

use unicode_normalization::UnicodeNormalization as _;

use crate::Invalid;

/// The most characters of a name, and the most bytes of its input.
const NAME_CHARACTERS_MAX: usize = 50;
const NAME_BYTES_MAX: usize = 1024;

/// The fewest and the most digits of a phone number (E.164).
const PHONE_DIGITS_MIN: usize = 2;
const PHONE_DIGITS_MAX: usize = 15;

/// The most bytes of a time zone's name.
const TIME_ZONE_BYTES_MAX: usize = 64;

/// A first name: 1 to 50 characters, composed (NFC) and trimmed.
///
/// # Errors
/// [`Invalid::FirstName`].
pub fn first_name(text: &str) -> Result<String, Invalid> {
    name(text).ok_or(Invalid::FirstName)
}

/// A last name, likewise.
///
/// # Errors
/// [`Invalid::LastName`].
pub fn last_name(text: &str) -> Result<String, Invalid> {
    name(text).ok_or(Invalid::LastName)
}

/// A phone number: `^\+?[1-9]\d{1,14}$`.
///
/// # Errors
/// [`Invalid::Phone`].
pub fn phone(text: &str) -> Result<&str, Invalid> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_number = (PHONE_DIGITS_MIN..=PHONE_DIGITS_MAX).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0');
    is_number.then_some(text).ok_or(Invalid::Phone)
}

/// A time zone of the IANA database, in its spelling.
///
/// # Errors
/// [`Invalid::TimeZone`].
pub fn time_zone(text: &str) -> Result<String, Invalid> {
    let is_name = text.len() <= TIME_ZONE_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte));
    let zone = if is_name { jiff::tz::TimeZone::get(text).ok() } else { None };
    zone.and_then(|zone| zone.iana_name().map(str::to_owned)).ok_or(Invalid::TimeZone)
}

/// Names appear in mails and pages, so control characters and changes of text direction are
/// refused.
fn name(text: &str) -> Option<String> {
    if text.len() > NAME_BYTES_MAX {
        return None;
    }
    let name: String = text.trim().nfc().collect();
    let is_allowed = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let breaks = matches!(c, '\u{2028}' | '\u{2029}');
        !c.is_control() && !turns && !breaks
    };
    let is_name =
        (1..=NAME_CHARACTERS_MAX).contains(&name.chars().count()) && name.chars().all(is_allowed);
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_1_to_50_characters() {
        for name in ["J", "John", "Ana María", "O’Neill-Śmith", "山田", &"é".repeat(50)] {
            assert_eq!(first_name(name).as_deref(), Ok(name));
        }
        assert_eq!(last_name("  Jose\u{301} ").as_deref(), Ok("José"));
        let long = "x".repeat(51);
        for name in ["", " ", "a\nb", "a\rb", "a\0b", "a\u{85}b", "a\u{202e}b", "a\u{2028}b", &long]
        {
            assert_eq!(first_name(name), Err(Invalid::FirstName), "{name:?}");
            assert_eq!(last_name(name), Err(Invalid::LastName), "{name:?}");
        }
        assert_eq!(first_name(&" ".repeat(2000)), Err(Invalid::FirstName));
    }

    #[test]
    fn phone_numbers_must_be_international() {
        for number in ["+263771234567", "263771234567", "12", "+123456789012345"] {
            assert_eq!(phone(number), Ok(number));
        }
        for number in [
            "",
            "+",
            "1",
            "+1",
            "0123",
            "+0123",
            "1234567890123456",
            "12 34",
            "++12",
            "١٢٣",
            "12\n",
        ] {
            assert_eq!(phone(number), Err(Invalid::Phone), "{number:?}");
        }
    }

    #[test]
    fn time_zones_must_be_in_the_database() {
        for zone in ["UTC", "Africa/Harare", "America/Argentina/Buenos_Aires", "Etc/GMT+5"] {
            assert_eq!(time_zone(zone).as_deref(), Ok(zone));
        }
        assert_eq!(time_zone("europe/berlin").as_deref(), Ok("Europe/Berlin"));
        let long = "A".repeat(65);
        for zone in ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "+02:00", "a b", &long]
        {
            assert_eq!(time_zone(zone), Err(Invalid::TimeZone), "{zone}");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_validated(text in ".{0,80}|[+0-9]{0,20}|[A-Za-z_/]{0,20}") {
            let _ = time_zone(&text);
            if let Ok(number) = phone(&text) {
                prop_assert!((2..=16).contains(&number.len()));
            }
            if let Ok(name) = first_name(&text) {
                prop_assert_eq!(first_name(&name), Ok(name));
            }
        }
    }
}
