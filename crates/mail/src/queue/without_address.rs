//! Errors of mail servers, without the person that they are about.

/// The replacement of an address.
const INSTEAD: &str = "(address)";

/// How long an error may be, in characters.
const CHARS_MAX: usize = 255;

/// The text without anything that looks like an address, and without the name before the @ of the
/// address that the mail went to: servers repeat either.
pub(super) fn without_address(text: &str, address: &str) -> String {
    let name = address.rsplit_once('@').map_or(address, |(name, _)| name).to_lowercase();
    let is_about_somebody = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.contains(['@', '\u{ff20}']) || bare.to_lowercase() == name
    };
    let words = text.split_whitespace();
    let words = words.map(|word| if is_about_somebody(word) { INSTEAD } else { word });
    words.collect::<Vec<_>>().join(" ").chars().take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_named() {
        let check = |text: &str, left: &str| {
            assert_eq!(without_address(text, "Ann.Lee@example.com"), left);
        };
        check("550 5.1.1 <ann.lee@example.com>: unknown", "550 5.1.1 (address) unknown");
        check("550 User 'ANN.LEE' is over quota", "550 User (address) is over quota");
        check("to:other@example.net, was\r\nrefused", "(address) was refused");
        check("127.0.0.1:25: Connection refused", "127.0.0.1:25: Connection refused");
        check("", "");
        assert_eq!(without_address(&"x ".repeat(400), "a@b").chars().count(), 255);
    }
}
