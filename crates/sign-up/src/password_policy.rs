//! The password policy: the contract's rules, and a list of common passwords.

use std::collections::HashSet;
use std::sync::LazyLock;

use engine::text;

use crate::Invalid;

/// The fewest and the most characters of a password.
pub const PASSWORD_CHARACTERS_MIN: usize = 8;
pub const PASSWORD_CHARACTERS_MAX: usize = 128;

/// The most bytes of a password; longer ones are neither validated nor hashed.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// Common passwords in lower case, one per line; `#` begins a comment.
const COMMON: &str = include_str!("../data/common-passwords.txt");

/// A common word of at least this many characters makes a password common, whatever surrounds it.
const WORD_CHARACTERS: usize = 5;

/// A shorter common word makes a password common with at most this many characters around it.
const SURROUNDINGS_MAX: usize = 6;

/// The common passwords and their words.
static KNOWN: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let lines = COMMON.lines().filter(|line| !line.starts_with('#'));
    let passwords = lines.flat_map(str::split_whitespace);
    let known = passwords.flat_map(|password| [password.to_owned(), plain(word(password))]);
    known.filter(|it| !it.is_empty()).collect()
});

/// Validates a password, as it is hashed: composed letters, one kind of blank.
///
/// # Errors
/// The first broken rule.
pub fn check(password: &str) -> Result<(), Invalid> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(Invalid::PasswordTooLong);
    }
    let password = &*text::password(password);
    let characters = password.chars().count();
    let broken = [
        (characters < PASSWORD_CHARACTERS_MIN, Invalid::PasswordTooShort),
        (characters > PASSWORD_CHARACTERS_MAX, Invalid::PasswordTooLong),
        (!password.contains(char::is_uppercase), Invalid::PasswordLacksUpper),
        (!password.contains(char::is_lowercase), Invalid::PasswordLacksLower),
        (!password.contains(char::is_numeric), Invalid::PasswordLacksDigit),
        (!password.contains(is_special), Invalid::PasswordLacksSpecial),
    ];
    match broken.into_iter().find(|(is_broken, _)| *is_broken) {
        Some((_, rule)) => Err(rule),
        None if is_common(password) => Err(Invalid::PasswordCommon),
        None => Ok(()),
    }
}

/// Whether it is no letter, digit or control character: a sign of any script, or a blank.
fn is_special(c: char) -> bool {
    !c.is_alphanumeric() && !c.is_control()
}

/// Whether a password is common without its case, the digits and signs around it, and the signs
/// that replace letters: `P@ssw0rd1!` is `password`.
fn is_common(password: &str) -> bool {
    let folded = password.to_lowercase();
    let unsigned = folded.trim_end_matches(|c: char| !c.is_alphanumeric());
    if KNOWN.contains(unsigned) {
        return true;
    }
    // A leading sign may replace a letter.
    let from_the_start = folded.trim_end_matches(|c: char| !c.is_alphabetic());
    [word(&folded), from_the_start].into_iter().any(|word| {
        let characters = word.chars().count();
        let surroundings = folded.chars().count() - characters;
        let is_all_there_is = characters >= WORD_CHARACTERS || surroundings <= SURROUNDINGS_MAX;
        is_all_there_is && KNOWN.contains(&plain(word))
    })
}

/// A password from its first letter to its last.
fn word(folded: &str) -> &str {
    folded.trim_matches(|c: char| !c.is_alphabetic())
}

/// A word with letters instead of digits and signs. Letters that share a sign become one letter, in
/// the list too.
fn plain(word: &str) -> String {
    let letter = |c| match c {
        '0' => 'o',
        '1' | '!' | '|' | 'l' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' | '+' => 't',
        other => other,
    };
    word.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(password: &str, rule: Invalid) {
        assert_eq!(check(password), Err(rule), "{password}");
    }

    #[test]
    fn passwords_that_satisfy_the_contract_are_accepted() {
        for password in ["LoadTest123@", "Ünïcode-7x", "Zq8,lrv<b", "correct Horse 7 battery!"] {
            assert_eq!(check(password), Ok(()), "{password}");
        }
        // All that is no letter, digit or control character is special.
        for special in "!@#$%^&*()_+-=[]{}|;:,.<>?/~`'\"\\ \u{a0}§€¿\u{1f600}".chars() {
            assert_eq!(check(&format!("Zq8lr{special}vbx")), Ok(()), "{special:?}");
        }
        for other in "é७\u{7}\n".chars() {
            refused(&format!("Zq8lr{other}vbx"), Invalid::PasswordLacksSpecial);
        }
    }

    #[test]
    fn the_first_broken_rule_is_reported() {
        refused("Zq8,lrv", Invalid::PasswordTooShort);
        refused("", Invalid::PasswordTooShort);
        refused("zq8,lrvb", Invalid::PasswordLacksUpper);
        refused("ZQ8,LRVB", Invalid::PasswordLacksLower);
        refused("Zqx,lrvb", Invalid::PasswordLacksDigit);
        refused("Zq8xlrvb", Invalid::PasswordLacksSpecial);
        let text = Invalid::PasswordLacksUpper.to_string();
        assert_eq!(text, "Password must contain at least one uppercase letter");
        assert_eq!(Invalid::PasswordLacksUpper.field(), "password");
    }

    #[test]
    fn passwords_are_bounded_in_characters_and_bytes() {
        let of = |fill: &str, times: usize| format!("Zq8,{}", fill.repeat(times));
        assert_eq!(check(&of("x", 124)), Ok(()));
        refused(&of("x", 125), Invalid::PasswordTooLong);
        assert_eq!(check(&of("é", 124)), Ok(()));
        // 128 characters, and more than the maximum of bytes.
        let long = format!("{}{}", of("\u{1f600}", 124), "x".repeat(600));
        refused(&long, Invalid::PasswordTooLong);
        refused(&"x".repeat(PASSWORD_BYTES_MAX + 1), Invalid::PasswordTooLong);
    }

    #[test]
    fn variants_of_common_passwords_are_refused() {
        for password in [
            "Password1!",
            "P@ssw0rd1!",
            "Pa$$w0rd!",
            "!!Password1!!",
            "Password123456789!",
            "Qwerty123!",
            "1Q2w3e4r!",
            "1Qaz2wsx!",
            "Letmein1!",
            "$Uperman1!",
            "Trustno1!",
            "Abc12345!",
            "Aa123456!",
            "Test1234!",
            "Love1234!",
            "Welcome2024!",
            "Iloveyou1!",
            "Summer#2025",
        ] {
            refused(password, Invalid::PasswordCommon);
        }
        // A short common word does not make a long password common.
        for password in ["Test-9384-7716!", "LovePotion#9x", "MyPassword-Is-7x!"] {
            assert_eq!(check(password), Ok(()), "{password}");
        }
    }

    #[test]
    fn the_list_of_common_passwords_is_well_formed() {
        assert!(KNOWN.len() > 1000, "{}", KNOWN.len());
        assert!(COMMON.lines().filter(|line| !line.starts_with('#')).all(|line| {
            line.chars().all(|c| c == ' ' || c.is_ascii_lowercase() || c.is_ascii_digit())
        }));
    }

    proptest! {
        #[test]
        fn any_text_can_be_validated(password in ".{0,300}") {
            let characters = password.chars().count();
            if check(&password).is_ok() {
                prop_assert!((8..=128).contains(&characters));
            }
        }
    }
}
