//! When two texts that people type are the same: one form for each kind of text (decision 0040).

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// A text as searches compare it: without case, and with compatible forms of a letter as that letter (NFKC).
#[must_use]
pub fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // Upper case first: ß is SS there, and both small sigmas are one letter.
    let upper = text.nfkc().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).nfkc().collect()
}

/// A password as it is hashed (RFC 8265, OpaqueString): composed (NFC), with any space as that of ASCII.
#[must_use]
pub fn password(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_other_space(c) { ' ' } else { c }).nfc().collect())
}

/// The name of an operator (RFC 8265, UsernameCasePreserved): full-width and half-width forms as their letters,
/// composed (NFC), in the case that it has.
#[must_use]
pub fn username(text: &str) -> Cow<'_, str> {
    let has_width = |c: char| matches!(c, '\u{ff01}'..='\u{ffef}' | '\u{3000}');
    if text.is_ascii() || (is_nfc(text) && !text.contains(has_width)) {
        return Cow::Borrowed(text);
    }
    let letter = |c: char| {
        let width = has_width(c).then(|| std::iter::once(c).nfkc());
        let other = (!has_width(c)).then_some(c);
        width.into_iter().flatten().chain(other)
    };
    Cow::Owned(text.chars().flat_map(letter).nfc().collect())
}

/// A code that a person reads and types, of a second factor or a recovery: in compatible forms (NFKC), without
/// blanks.
#[must_use]
pub fn code(text: &str) -> Cow<'_, str> {
    if text.is_ascii() && !text.contains(' ') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfkc().filter(|c| !c.is_whitespace()).collect())
}

/// A space separator (Zs) that is not ASCII's.
const fn is_other_space(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_know_the_letters_of_all_scripts() {
        for (one, other) in [
            ("Österreich", "ÖSTERREICH"),
            ("o\u{308}sterreich", "Österreich"),
            ("ИВАНОВ", "иванов"),
            ("Čapek", "čAPEK"),
            ("Straße", "STRASSE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("ＡＢＣ１", "abc1"),
            ("ﬁn", "FIN"),
            ("Ǆ", "ǆ"),
        ] {
            assert_eq!(folded(one), folded(other), "{one} and {other}");
        }
        assert_ne!(folded("resume"), folded("résumé"), "an accent is a letter of its own");
        let twice = |text: &str| folded(&folded(text));
        for text in ["İstanbul", "ΐ", "Σ", "ŉ", "K", "Å"] {
            assert_eq!(twice(text), folded(text), "{text}");
        }
    }

    #[test]
    fn a_password_is_the_same_however_its_letters_are_composed() {
        assert_eq!(password("pa\u{308}ss word"), "päss word");
        assert_eq!(password("a\u{a0}b\u{3000}c"), "a b c");
        assert_eq!(password("ＡﬁSs"), "ＡﬁSs", "neither width nor case nor ligatures are changed");
    }

    #[test]
    fn names_and_codes_are_read_as_they_are_meant() {
        assert_eq!(username("Ju\u{308}rgen"), "Jürgen");
        assert_eq!(username("ａｄｍｉｎ"), "admin");
        assert_eq!(username("Admin ﬁ"), "Admin ﬁ");
        assert_eq!(code("１２３ ４５６"), "123456");
        assert_eq!(code("123456"), "123456");
    }
}
