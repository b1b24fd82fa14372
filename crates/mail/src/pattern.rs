//! The language of templates: text with placeholders such as `{{first_name}}`.

/// The maximum length of a part of a template in bytes.
pub const PART_BYTES_MAX: usize = 64 * 1024;

/// The maximum number of placeholders in a part. It bounds the rendered mail, because values are
/// bounded.
pub const PLACEHOLDERS_MAX: usize = 100;

/// A placeholder of a template, such as `{{first_name}}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    FirstName,
    PlatformName,
    Email,
    ActionUrl,
    ExpiresIn,
}

impl Placeholder {
    pub(crate) const ALL: [Self; 5] =
        [Self::FirstName, Self::PlatformName, Self::Email, Self::ActionUrl, Self::ExpiresIn];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FirstName => "first_name",
            Self::PlatformName => "platform_name",
            Self::Email => "email",
            Self::ActionUrl => "action_url",
            Self::ExpiresIn => "expires_in",
        }
    }
}

/// How values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    None,
    Html,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Placeholder),
}

/// A parsed part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Piece>);

impl Pattern {
    /// Parses a part of a template that may use these placeholders.
    pub(crate) fn parse(text: &str, known: &[Placeholder]) -> Result<Self, String> {
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

    pub(crate) fn uses(&self, placeholder: Placeholder) -> bool {
        self.0.contains(&Piece::Value(placeholder))
    }

    /// Replaces the placeholders. A space before an empty value is removed, so that
    /// `Hello {{first_name}},` becomes `Hello,` without a name. The error is a placeholder without a
    /// value.
    pub(crate) fn fill<'a>(
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
                        Escape::None => filled.push_str(value),
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

/// Escapes a value for HTML, both between tags and in quoted attributes.
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
    fn values_are_escaped_and_not_parsed() {
        check(
            "Hello {{first_name}}, {{ first_name }}",
            expect![[r#"
                Hello &lt;b&gt;&quot;A&quot; &amp; &#39;B&#39;&lt;/b&gt; {{email}}, &lt;b&gt;&quot;A&quot; &amp; &#39;B&#39;&lt;/b&gt; {{email}}"#]],
        );
    }

    #[test]
    fn the_space_before_an_empty_value_is_removed() {
        check("Hello {{platform_name}}, and {{platform_name}}", expect!["Hello, and"]);
    }

    #[test]
    fn single_braces_are_text() {
        check("a { color: red } {x} }} b", expect!["a { color: red } {x} }} b"]);
    }

    #[test]
    fn invalid_templates_are_refused() {
        let (too_many, too_long) = ("{{email}}".repeat(101), "x".repeat(PART_BYTES_MAX + 1));
        for (text, expected) in [
            (
                "Hello {{name}}",
                expect![
                    "there is no placeholder `name` here; there are `first_name`, `platform_name`, `email`, `action_url`, `expires_in`"
                ],
            ),
            ("Hello {{first_name", expect!["has a placeholder that is not closed with `}}`"]),
            ("{{email}}", expect!["no value for email"]),
            (&too_many, expect!["has more than 100 placeholders"]),
            (&too_long, expect!["has 65537 bytes, 65536 at most"]),
        ] {
            check(text, expected);
        }
    }
}
