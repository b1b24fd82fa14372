//! E-mail addresses: parsing, display form and comparison form.
//!
//! RFC 5321 and 6531 without quoted strings, comments and address literals. Each word may have
//! letters of one script, or of the combinations that are usual in Japanese, Korean and Chinese
//! ("highly restrictive" of Unicode's UTS 39): `аnа@…` with Cyrillic `а` and Latin `n` is refused. A
//! word that is Cyrillic as a whole is allowed even if it looks Latin: the verification mail proves
//! who owns it.

use std::sync::LazyLock;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use regex::Regex;
use unicode_normalization::UnicodeNormalization as _;

use crate::Invalid;

/// The most bytes of an address, of its local part, of its domain and of a label.
const ADDRESS_BYTES_MAX: usize = 254;
const LOCAL_BYTES_MAX: usize = 64;
const DOMAIN_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// The most bytes of an input, which can be longer than its composed form.
const INPUT_BYTES_MAX: usize = 1024;

/// Characters of a local part besides letters, digits and single dots.
const LOCAL_SIGNS: &str = "!#$%&'*+-/=?^_`{|}~";

/// Scripts in use today (table 5 of Unicode's UAX 31), and the usual combinations.
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

/// Words in one of [`SCRIPTS`].
static ONE_SCRIPT: LazyLock<Regex> = LazyLock::new(|| {
    let sets = SCRIPTS.map(|script| format!(r"[\p{{Common}}\p{{Inherited}}{script}]*"));
    Regex::new(&format!("^(?:{})$", sets.join("|"))).expect("the scripts are Unicode's")
});

/// Letters, marks and digits of any script, and no invisible characters.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[\p{L}\p{Nd}][\p{L}\p{M}\p{Nd}]*$").expect("the classes are Unicode's")
});

/// An address that mail can be sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct EmailAddress {
    shown: String,
    folded: String,
}

/// Personal data: it must not appear in a log.
impl std::fmt::Debug for EmailAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EmailAddress(…)")
    }
}

impl EmailAddress {
    /// Parses an address as it was entered.
    ///
    /// # Errors
    /// [`Invalid::Email`], or [`Invalid::EmailScripts`] where a word mixes scripts.
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

    /// The address for mails and for display: composed (NFC), in lower case as the contract
    /// requires, with its domain in ASCII.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The address for comparison, unique among customers. Compatible forms of a letter, such as
    /// its full-width form, are equal (NFKC).
    #[must_use]
    pub fn folded(&self) -> &str {
        &self.folded
    }
}

fn fold(text: &str) -> String {
    let compatible: String = text.nfkc().collect();
    compatible.to_lowercase().nfkc().collect()
}

/// Whether a local part has words and [`LOCAL_SIGNS`] with single dots between them.
fn is_local(local: &str) -> bool {
    local.split('.').all(|part| {
        !part.is_empty()
            && part
                .split(|c: char| LOCAL_SIGNS.contains(c))
                .all(|word| word.is_empty() || is_word(word))
    })
}

/// Nearly all words are ASCII, for which no Unicode tables are needed.
fn is_word(word: &str) -> bool {
    if word.is_ascii() {
        word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    } else {
        WORD.is_match(word)
    }
}

/// A domain in lower case and ASCII: at least two labels, the last of which is not a number.
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

/// A label in ASCII. Labels with other letters are encoded by UTS 46, without its transitional
/// mapping: `straße` and `strasse` are different domains.
fn ascii_label(label: &str) -> Result<String, Invalid> {
    let label = fold(label);
    let words = label.split('-').all(|word| word.is_empty() || is_word(word));
    if label.is_empty() || label.starts_with('-') || label.ends_with('-') || !words {
        return Err(Invalid::Email);
    }
    let ascii = if label.is_ascii() {
        label
    } else if ONE_SCRIPT.is_match(&label) {
        let uts46 = Uts46::new();
        let ascii = uts46.to_ascii(
            label.as_bytes(),
            AsciiDenyList::STD3,
            Hyphens::Allow,
            DnsLength::Verify,
        );
        ascii.map_err(|_| Invalid::Email)?.into_owned()
    } else {
        return Err(Invalid::EmailScripts);
    };
    (ascii.len() <= LABEL_BYTES_MAX).then_some(ascii).ok_or(Invalid::Email)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Labels of RFC 3492, section 7.1.
    const CHINESE: &str = "ana@xn--ihqwcrb4cv8a8dqg056pqjye.example";
    const RUSSIAN: &str = "ana@xn--b1abfaaepdrnnbgefbadotcwatmq2g4l.example";
    const JAPANESE: &str = "ana@xn--3b-ww4c5e180e575a65lsy2b.example";

    fn check(text: &str, shown: &str, folded: &str) {
        let address = EmailAddress::parse(text).unwrap_or_else(|_| panic!("{text}"));
        assert_eq!((address.shown(), address.folded()), (shown, folded), "{text}");
    }

    fn accepted(text: &str) {
        check(text, text, text);
    }

    fn refused(text: &str, invalid: Invalid) {
        assert_eq!(EmailAddress::parse(text), Err(invalid), "{text:?}");
    }

    #[test]
    fn addresses_are_displayed_and_compared_in_lower_case() {
        let load = "cap_1700000000000000_abcd@loadtest.example.com";
        accepted(load);
        check(
            "Ana.Lopez+Bills@Example.COM",
            "ana.lopez+bills@example.com",
            "ana.lopez+bills@example.com",
        );
        accepted("o'neill@a-b.example");
        let signs = "!#$%&'*+-/=?^_`{|}~@x.example";
        accepted(signs);
        let numbers = "1@2.3.example";
        accepted(numbers);
    }

    #[test]
    fn compatible_forms_of_a_letter_are_compared_as_equal() {
        check("JOSE\u{301}@example.com", "josé@example.com", "josé@example.com");
        check("ａｎａ@example.com", "ａｎａ@example.com", "ana@example.com");
        check("ﬁn@example.com", "ﬁn@example.com", "fin@example.com");
        check("анна@Почта.РФ", "анна@xn--80a1acny.xn--p1ai", "анна@xn--80a1acny.xn--p1ai");
        check("ana@BÜCHER.example", "ana@xn--bcher-kva.example", "ana@xn--bcher-kva.example");
        accepted("ana@xn--bcher-kva.example");
        let street = ["ana@xn--strae-oqa.example", "ana@strasse.example"];
        check("ana@Straße.example", street[0], street[0]);
        check("ana@strasse.example", street[1], street[1]);
        accepted("straße@example.com");
        check("ana@他们为什么不说中文.example", CHINESE, CHINESE);
        check("ana@почемужеонинеговорятпорусски.example", RUSSIAN, RUSSIAN);
        check("ana@3年b組金八先生.example", JAPANESE, JAPANESE);
        check("ana@ｅxample.com", "ana@example.com", "ana@example.com");
        check("山田たろう@例え.jp", "山田たろう@xn--r8jz45g.jp", "山田たろう@xn--r8jz45g.jp");
    }

    #[test]
    fn malformed_addresses_are_refused() {
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
    fn words_that_mix_scripts_are_refused() {
        refused("аnа@example.com", Invalid::EmailScripts);
        refused("pαypal@example.com", Invalid::EmailScripts);
        refused("ana@exаmple.com", Invalid::EmailScripts);
        refused("анна.lopez@example.com", Invalid::EmailScripts);
        // A historic script.
        refused("ᚠᚢᚦ@example.com", Invalid::EmailScripts);
        // Each label may have a script of its own.
        check("anna@почта.example", "anna@xn--80a1acny.example", "anna@xn--80a1acny.example");
        assert_eq!(Invalid::EmailScripts.field(), "email");
    }

    #[test]
    fn parts_above_their_maximum_length_are_refused() {
        let local = |bytes: usize| format!("{}@example.com", "a".repeat(bytes));
        accepted(&local(64));
        refused(&local(65), Invalid::Email);
        refused(&format!("{}@example.com", "é".repeat(33)), Invalid::Email);
        let label = |bytes: usize| format!("a@{}.com", "a".repeat(bytes));
        accepted(&label(63));
        refused(&label(64), Invalid::Email);
        refused(&format!("a@{}.com", "é".repeat(63)), Invalid::Email);
        let long = |bytes: usize| format!("a@{}{}", "a.".repeat((bytes - 4) / 2), "aa");
        assert_eq!(long(254).len(), 254);
        accepted(&long(254));
        refused(&long(256), Invalid::Email);
        refused(&format!("{}@example.com", "\u{301}".repeat(4000)), Invalid::Email);
    }

    #[test]
    fn debug_output_does_not_contain_the_address() {
        let address = EmailAddress::parse("ana@example.com").unwrap();
        assert_eq!(format!("{address:?}"), "EmailAddress(…)");
    }

    proptest! {
        #[test]
        fn parsing_an_accepted_address_again_changes_nothing(
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
