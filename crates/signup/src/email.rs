//! E-mail addresses: what is one, how it is shown, and which two are the same.
//!
//! As RFC 5321 and 6531 have them where they are used: no quoted strings, comments or addresses of
//! machines. Letters of any script in use, but not of several in one word, beyond what is usual in
//! Japanese, Korean and Chinese ("highly restrictive" of Unicode's UTS 39): `аnа@…` with Cyrillic
//! `а` and Latin `n` is refused. A word that is Cyrillic as a whole is allowed, however Latin it
//! looks: that its owner reads it is what the mail to it shows.

mod punycode;

use std::sync::LazyLock;

use regex::Regex;
use unicode_normalization::UnicodeNormalization as _;

use crate::Invalid;

/// The most bytes of an address, of what is before its sign, of its domain and of a label.
const ADDRESS_BYTES_MAX: usize = 254;
const LOCAL_BYTES_MAX: usize = 64;
const DOMAIN_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// The most bytes that are looked at: composed, a text can be shorter than as it came.
const INPUT_BYTES_MAX: usize = 1024;

/// Signs before the `@` beside letters, digits and single dots.
const LOCAL_SIGNS: &str = "!#$%&'*+-/=?^_`{|}~";

/// Scripts in use today (table 5 of Unicode's UAX 31), and those that are written together.
const SCRIPTS: [&str; 33] = [
    r"\p{Latin}",
    r"\p{Cyrillic}",
    r"\p{Greek}",
    r"\p{Arabic}",
    r"\p{Armenian}",
    r"\p{Bengali}",
    r"\p{Devanagari}",
    r"\p{Ethiopic}",
    r"\p{Georgian}",
    r"\p{Gujarati}",
    r"\p{Gurmukhi}",
    r"\p{Hebrew}",
    r"\p{Kannada}",
    r"\p{Khmer}",
    r"\p{Lao}",
    r"\p{Malayalam}",
    r"\p{Myanmar}",
    r"\p{Oriya}",
    r"\p{Sinhala}",
    r"\p{Tamil}",
    r"\p{Telugu}",
    r"\p{Thaana}",
    r"\p{Thai}",
    r"\p{Tibetan}",
    r"\p{Han}",
    r"\p{Hiragana}",
    r"\p{Katakana}",
    r"\p{Bopomofo}",
    r"\p{Hangul}",
    r"\p{Latin}\p{Han}\p{Hiragana}\p{Katakana}",
    r"\p{Latin}\p{Han}\p{Bopomofo}",
    r"\p{Latin}\p{Han}\p{Hangul}",
    "",
];

/// Words in one script, or in several that are written together.
static ONE_SCRIPT: LazyLock<Regex> = LazyLock::new(|| {
    let sets = SCRIPTS.map(|script| format!(r"[\p{{Common}}\p{{Inherited}}{script}]*"));
    Regex::new(&format!("^(?:{})$", sets.join("|"))).expect("the scripts are Unicode's")
});

/// Letters, marks and digits of any script, and nothing that is invisible.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[\p{L}\p{Nd}][\p{L}\p{M}\p{Nd}]*$").expect("the classes are Unicode's")
});

/// An address that mail can be sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct EmailAddress {
    shown: String,
    folded: String,
}

/// Personal data: nothing of it comes into a log.
impl std::fmt::Debug for EmailAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EmailAddress(…)")
    }
}

impl EmailAddress {
    /// Reads an address as somebody entered it.
    ///
    /// # Errors
    /// [`Invalid::Email`], or [`Invalid::EmailScripts`] where letters look like others.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() > INPUT_BYTES_MAX {
            return Err(Invalid::Email);
        }
        let (local, domain) = text.rsplit_once('@').ok_or(Invalid::Email)?;
        let composed: String = local.nfc().collect();
        let shown: String = composed.to_lowercase().nfc().collect();
        let folded = fold(local);
        let is_local = |local: &str| local.len() <= LOCAL_BYTES_MAX && is_local(local);
        if !is_local(&composed) || !is_local(&shown) || !is_local(&folded) {
            return Err(Invalid::Email);
        }
        if !ONE_SCRIPT.is_match(&folded) {
            return Err(Invalid::EmailScripts);
        }
        let domain = ascii_domain(domain)?;
        let [shown, folded] = [shown, folded].map(|local| format!("{local}@{domain}"));
        if shown.len() > ADDRESS_BYTES_MAX || folded.len() > ADDRESS_BYTES_MAX {
            return Err(Invalid::Email);
        }
        Ok(Self { shown, folded })
    }

    /// The address for mails and for the customer to see: composed (NFC), in lower case as the
    /// contract has it, its domain in ASCII.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The address for comparing: one customer has it. Forms of one letter, such as its wide and
    /// its usual one, are the same (NFKC).
    #[must_use]
    pub fn folded(&self) -> &str {
        &self.folded
    }
}

fn fold(text: &str) -> String {
    let compatible: String = text.nfkc().collect();
    compatible.to_lowercase().nfkc().collect()
}

/// Words and signs with single dots between them.
fn is_local(local: &str) -> bool {
    local.split('.').all(|part| {
        !part.is_empty()
            && part
                .split(|c: char| LOCAL_SIGNS.contains(c))
                .all(|word| word.is_empty() || is_word(word))
    })
}

/// ASCII without asking the tables, which is what nearly all are.
fn is_word(word: &str) -> bool {
    if word.is_ascii() {
        word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    } else {
        WORD.is_match(word)
    }
}

/// A domain in lower case and ASCII: at least two labels, the last one not a number.
fn ascii_domain(domain: &str) -> Result<String, Invalid> {
    let labels = domain.split('.').map(ascii_label).collect::<Result<Vec<_>, _>>()?;
    let last = labels.last().map_or("", String::as_str);
    let is_address = last.bytes().all(|byte| byte.is_ascii_digit());
    let ascii = labels.join(".");
    if labels.len() < 2 || is_address || ascii.len() > DOMAIN_BYTES_MAX {
        return Err(Invalid::Email);
    }
    Ok(ascii)
}

fn ascii_label(label: &str) -> Result<String, Invalid> {
    let label = fold(label);
    let words = label.split('-').all(|word| word.is_empty() || is_word(word));
    if label.is_empty() || label.starts_with('-') || label.ends_with('-') || !words {
        return Err(Invalid::Email);
    }
    let ascii = if label.is_ascii() {
        label
    } else if ONE_SCRIPT.is_match(&label) {
        format!("xn--{}", punycode::encode(&label).ok_or(Invalid::Email)?)
    } else {
        return Err(Invalid::EmailScripts);
    };
    (ascii.len() <= LABEL_BYTES_MAX).then_some(ascii).ok_or(Invalid::Email)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, shown: &str, folded: &str) {
        let address = EmailAddress::parse(text).unwrap_or_else(|_| panic!("{text}"));
        assert_eq!((address.shown(), address.folded()), (shown, folded), "{text}");
    }

    fn refused(text: &str, why: Invalid) {
        assert_eq!(EmailAddress::parse(text), Err(why), "{text:?}");
    }

    #[test]
    fn addresses_are_shown_and_compared_in_lower_case() {
        let load = "cap_1700000000000000_abcd@loadtest.example.com";
        check(load, load, load);
        check(
            "Ana.Lopez+Bills@Example.COM",
            "ana.lopez+bills@example.com",
            "ana.lopez+bills@example.com",
        );
        check("o'neill@a-b.example", "o'neill@a-b.example", "o'neill@a-b.example");
        let signs = "!#$%&'*+-/=?^_`{|}~@x.example";
        check(signs, signs, signs);
        let numbers = "1@2.3.example";
        check(numbers, numbers, numbers);
    }

    #[test]
    fn one_letter_is_one_however_it_is_written() {
        check("JOSE\u{301}@example.com", "josé@example.com", "josé@example.com");
        check("ａｎａ@example.com", "ａｎａ@example.com", "ana@example.com");
        check("ﬁn@example.com", "ﬁn@example.com", "fin@example.com");
        check("анна@Почта.РФ", "анна@xn--80a1acny.xn--p1ai", "анна@xn--80a1acny.xn--p1ai");
        check("ana@BÜCHER.example", "ana@xn--bcher-kva.example", "ana@xn--bcher-kva.example");
        check(
            "ana@xn--bcher-kva.example",
            "ana@xn--bcher-kva.example",
            "ana@xn--bcher-kva.example",
        );
        check("ana@ｅxample.com", "ana@example.com", "ana@example.com");
        check("山田たろう@例え.jp", "山田たろう@xn--r8jz45g.jp", "山田たろう@xn--r8jz45g.jp");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "@",
            "ana",
            "ana@",
            "@example.com",
            "ana@example",
            "ana@@example.com",
            "ana@b@example.com",
            ".ana@example.com",
            "ana.@example.com",
            "a..b@example.com",
            "ana@.example.com",
            "ana@example..com",
            "ana@example.com.",
            "ana@-a.example",
            "ana@a-.example",
            "ana@exa_mple.com",
            "ana@127.0.0.1",
            "ana@[127.0.0.1]",
            "\"ana\"@example.com",
            "ana lopez@example.com",
            " ana@example.com",
            "ana@example.com ",
            "ana(x)@example.com",
            "ana@example.com\r\nBcc: b@example.com",
            "ana\n@example.com",
            "ana\0@example.com",
            "a\u{200b}na@example.com",
            "a\u{202e}na@example.com",
            "ana@exa\u{ad}mple.com",
            "\u{301}ana@example.com",
            "ana＠example.com",
            "ana@example。com",
            "⒈ana@example.com",
            "a,b@example.com",
            "a:b@example.com",
            "a;b@example.com",
            "<ana@example.com>",
            "ana\\b@example.com",
            "😀@example.com",
            "ﷺ@example.com",
        ] {
            refused(text, Invalid::Email);
        }
    }

    #[test]
    fn letters_of_several_scripts_are_not_mixed() {
        refused("аnа@example.com", Invalid::EmailScripts);
        refused("pαypal@example.com", Invalid::EmailScripts);
        refused("ana@exаmple.com", Invalid::EmailScripts);
        refused("анна.lopez@example.com", Invalid::EmailScripts);
        // A script that nobody writes any more.
        refused("ᚠᚢᚦ@example.com", Invalid::EmailScripts);
        // Each label for itself.
        check("anna@почта.example", "anna@xn--80a1acny.example", "anna@xn--80a1acny.example");
        assert_eq!(Invalid::EmailScripts.field(), "email");
    }

    #[test]
    fn every_part_is_bounded() {
        let local = |bytes: usize| format!("{}@example.com", "a".repeat(bytes));
        assert!(EmailAddress::parse(&local(64)).is_ok());
        refused(&local(65), Invalid::Email);
        refused(&format!("{}@example.com", "é".repeat(33)), Invalid::Email);
        let label = |bytes: usize| format!("a@{}.com", "a".repeat(bytes));
        assert!(EmailAddress::parse(&label(63)).is_ok());
        refused(&label(64), Invalid::Email);
        refused(&format!("a@{}.com", "é".repeat(63)), Invalid::Email);
        let long = |bytes: usize| format!("a@{}{}", "a.".repeat((bytes - 4) / 2), "aa");
        assert_eq!(long(254).len(), 254);
        assert!(EmailAddress::parse(&long(254)).is_ok());
        refused(&long(256), Invalid::Email);
        refused(&format!("{}@example.com", "\u{301}".repeat(4000)), Invalid::Email);
    }

    #[test]
    fn nothing_of_an_address_is_logged() {
        let address = EmailAddress::parse("ana@example.com").unwrap();
        assert_eq!(format!("{address:?}"), "EmailAddress(…)");
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_stable(
            text in ".{0,40}@.{0,40}|[\\p{L}\\p{M}.]{1,12}@[\\p{L}\\p{M}.-]{1,20}\\.[a-z]{2,3}|[A-Za-z.+]{1,10}@[A-Za-z.]{1,10}\\.com",
        ) {
            if let Ok(address) = EmailAddress::parse(&text) {
                let again = EmailAddress::parse(address.shown()).unwrap();
                prop_assert_eq!(again.shown(), address.shown());
                prop_assert_eq!(again.folded(), address.folded());
                let folded = EmailAddress::parse(address.folded()).unwrap();
                prop_assert_eq!(folded.folded(), address.folded());
                let is_safe = |c: char| !c.is_control() && !c.is_whitespace();
                prop_assert!(address.shown().chars().all(is_safe), "{:?}", text);
                prop_assert!(address.shown().len() <= ADDRESS_BYTES_MAX);
                let at_signs = address.folded().matches('@').count();
                prop_assert_eq!(at_signs, 1);
            }
        }
    }
}
