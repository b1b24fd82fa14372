//! The language of templates: text, and placeholders such as `{{first_name}}`. Nothing else.

/// How long a part of a template may be, in bytes.
pub const PART_BYTES_MAX: usize = 64 * 1024;

/// How many placeholders a part may have: what comes of it stays bounded, because values are.
pub const PLACEHOLDERS_MAX: usize = 100;

/// What can be put into a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    FirstName,
    PlatformName,
    Email,
    ActionUrl,
    ExpiresIn,
}

impl Placeholder {
    pub(super) const ALL: [Self; 5] =
        [Self::FirstName, Self::PlatformName, Self::Email, Self::ActionUrl, Self::ExpiresIn];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FirstName => "first_name",
            Self::PlatformName => "platform_name",
            Self::Email => "email",
            Self::ActionUrl => "action_url",
            Self::ExpiresIn => "expires_in",
        }
    }
}

/// What a value is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    Nothing,
    Html,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Placeholder),
}

/// One part of a template, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Piece>);

impl Pattern {
    /// Reads a part of a template that may use these placeholders.
    pub(super) fn parse(text: &str, known: &[Placeholder]) -> Result<Self, String> {
        if text.len() > PART_BYTES_MAX {
            return Err(format!("has {} bytes, {PART_BYTES_MAX} at most", text.len()));
        }
        let (mut pieces, mut rest, mut values) = (vec![], text, 0);
        while let Some((before, after)) = rest.split_once("{{") {
            let closed = after.split_once("}}");
            let (name, after) = closed.ok_or("has a placeholder that is not closed with `}}`")?;
            let name = name.trim();
            let value = known.iter().find(|placeholder| placeholder.name() == name);
            let value = value.ok_or_else(|| unknown(name, known))?;
            values += 1;
            if values > PLACEHOLDERS_MAX {
                return Err(format!("has more than {PLACEHOLDERS_MAX} placeholders"));
            }
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Value(*value));
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    pub(super) fn uses(&self, placeholder: Placeholder) -> bool {
        self.0.contains(&Piece::Value(placeholder))
    }

    /// Writes the values in. A space before a value that is empty is left out with it, so that
    /// `Hello {{first_name}},` is a greeting without a name too.
    pub(super) fn fill<'a>(
        &self,
        escape: Escape,
        value: impl Fn(Placeholder) -> Option<&'a str>,
    ) -> Result<String, Placeholder> {
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Value(placeholder) => {
                    let value = value(*placeholder).ok_or(*placeholder)?;
                    if value.is_empty() && filled.ends_with(' ') {
                        filled.pop();
                    }
                    match escape {
                        Escape::Nothing => filled.push_str(value),
                        Escape::Html => push_escaped(&mut filled, value),
                    }
                }
            }
        }
        Ok(filled)
    }
}

fn unknown(name: &str, known: &[Placeholder]) -> String {
    let shown: String = name.chars().take(40).collect();
    let known: Vec<String> = known.iter().map(|it| format!("`{}`", it.name())).collect();
    format!("there is no placeholder `{shown}` here; there are {}", known.join(", "))
}

/// Writes a value so that it is text in HTML, between tags and in attributes with quotes.
fn push_escaped(html: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        let values = |placeholder| match placeholder {
            Placeholder::FirstName => Some(r#"<b>"A" & 'B'</b> {{email}}"#),
            Placeholder::PlatformName => Some(""),
            Placeholder::Email | Placeholder::ActionUrl | Placeholder::ExpiresIn => None,
        };
        let shown = match Pattern::parse(text, &Placeholder::ALL) {
            Err(error) => error,
            Ok(pattern) => match pattern.fill(Escape::Html, values) {
                Ok(html) => html,
                Err(placeholder) => format!("no value for {}", placeholder.name()),
            },
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn values_are_escaped_and_not_read_again() {
        check(
            "Hello {{first_name}}, {{ first_name }}",
            expect![[r#"
                Hello &lt;b&gt;&quot;A&quot; &amp; &#39;B&#39;&lt;/b&gt; {{email}}, &lt;b&gt;&quot;A&quot; &amp; &#39;B&#39;&lt;/b&gt; {{email}}"#]],
        );
    }

    #[test]
    fn an_empty_value_takes_its_space_along() {
        check("Hello {{platform_name}}, and {{platform_name}}", expect!["Hello, and"]);
    }

    #[test]
    fn single_braces_are_text() {
        check("a { color: red } {x} }} b", expect!["a { color: red } {x} }} b"]);
    }

    #[test]
    fn what_is_no_template_is_refused() {
        check(
            "Hello {{name}}",
            expect![
                "there is no placeholder `name` here; there are `first_name`, `platform_name`, `email`, `action_url`, `expires_in`"
            ],
        );
        check("Hello {{first_name", expect!["has a placeholder that is not closed with `}}`"]);
        check("{{email}}", expect!["no value for email"]);
        check(&"{{email}}".repeat(101), expect!["has more than 100 placeholders"]);
        check(&"x".repeat(PART_BYTES_MAX + 1), expect!["has 65537 bytes, 65536 at most"]);
    }
}
