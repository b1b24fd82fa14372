//! Sanitizes untrusted texts for mail: one line of bounded length, without formatting characters.

/// The maximum length of a name in characters.
const NAME_CHARS_MAX: usize = 64;

/// The maximum length of a subject or a value in characters.
const LINE_CHARS_MAX: usize = 255;

/// The text as one line. A run of white space and control characters becomes one space.
pub(crate) fn line(text: &str) -> String {
    cut(text, LINE_CHARS_MAX)
}

/// A person's name. It is untrusted: anyone can sign up with another person's address, so that the name
/// arrives in a mail to that person. It must not contain a link.
pub(crate) fn name(text: &str) -> String {
    let mut name = String::new();
    let mut characters =
        text.chars().filter(|c| !matches!(c, '/' | ':' | '@' | '<' | '>')).peekable();
    while let Some(character) = characters.next() {
        name.push(character);
        // A space behind the dot keeps mail programs from making a link of `example.com`.
        if character == '.' && characters.peek().is_some_and(|next| next.is_alphanumeric()) {
            name.push(' ');
        }
    }
    cut(&name, NAME_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    let visible = line.chars().filter(|c| !is_formatting(*c));
    visible.take(chars_max).collect::<String>().trim_end().to_owned()
}

/// Characters that reorder or hide the text around them.
const fn is_formatting(character: char) -> bool {
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
    fn a_text_becomes_one_line() {
        assert_eq!(line("a\r\nBcc: b@example.org"), "a Bcc: b@example.org");
        assert_eq!(line(" a\u{0} \u{85}\u{2028}b\u{202e}c\u{7f} "), "a bc");
        assert_eq!(line(&"ä".repeat(300)), "ä".repeat(255));
    }

    #[test]
    fn a_name_cannot_contain_a_link() {
        assert_eq!(name("J.R.R. Tolkien"), "J. R. R. Tolkien");
        assert_eq!(name("win at https://evil.example/x?y"), "win at httpsevil. examplex?y");
        assert_eq!(name("Zoë\r\nBcc: x@example.org"), "Zoë Bcc xexample. org");
        assert_eq!(name("\u{202e}<>"), "");
    }
}
