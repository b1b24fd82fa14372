//! Texts of strangers made fit for a mail: one line, of bounded length, without what steers display.

/// How long a name may be, in characters.
const NAME_CHARS_MAX: usize = 64;

/// How long a line may be, in characters: a subject, or a value.
const LINE_CHARS_MAX: usize = 255;

/// The text as one line: a run of spaces, line breaks and control characters is one space.
pub(super) fn line(text: &str) -> String {
    cut(text, LINE_CHARS_MAX)
}

/// A person's name, as somebody who signed up gave it. Whoever signs up with another one's address
/// decides what the name is in a mail to that address: it must not become a link.
pub(super) fn name(text: &str) -> String {
    let mut name = String::new();
    let mut letters = text.chars().filter(|c| !matches!(c, '/' | ':' | '@' | '<' | '>')).peekable();
    while let Some(letter) = letters.next() {
        name.push(letter);
        // `J.R.R.` stays a name, `example.com` does not stay an address.
        if letter == '.' && letters.peek().is_some_and(|next| next.is_alphanumeric()) {
            name.push(' ');
        }
    }
    cut(&name, NAME_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    let shown = line.chars().filter(|c| !steers_display(*c));
    shown.take(chars_max).collect::<String>().trim_end().to_owned()
}

/// Characters that reorder or hide the text around them.
const fn steers_display(character: char) -> bool {
    matches!(
        character,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line("a\r\nBcc: b@example.org"), "a Bcc: b@example.org");
        assert_eq!(line(" a\u{0} \u{85}\u{2028}b\u{202e}c\u{7f} "), "a bc");
        assert_eq!(line(&"ä".repeat(300)), "ä".repeat(255));
    }

    #[test]
    fn a_name_is_no_link() {
        assert_eq!(name("J.R.R. Tolkien"), "J. R. R. Tolkien");
        assert_eq!(name("win at https://evil.example/x?y"), "win at httpsevil. examplex?y");
        assert_eq!(name("Zoë\r\nBcc: x@example.org"), "Zoë Bcc xexample. org");
        assert_eq!(name("\u{202e}<>"), "");
    }
}
