//! The templates of mails, built-in or a tenant's own: subject, text and HTML.

use serde_json::Value;

use crate::clean;
use crate::pattern::{Escape, Pattern, Placeholder};

/// The maximum length of a tenant's document of templates in bytes.
pub const TEMPLATES_BYTES_MAX: usize = 1024 * 1024;

/// The maximum length of a subject with its placeholders in bytes.
pub const SUBJECT_BYTES_MAX: usize = 255;

/// The maximum length of a link in bytes.
pub const URL_BYTES_MAX: usize = 2_048;

/// The purpose of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Template {
    /// The account is ready.
    Welcome,
    /// Asks the recipient to confirm the address.
    Verification,
    /// Lets the recipient set a new password.
    PasswordReset,
    /// The password was changed.
    PasswordChanged,
    /// Someone tried to sign up with an address that has an account.
    AlreadyRegistered,
}

impl Template {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Welcome,
        Self::Verification,
        Self::PasswordReset,
        Self::PasswordChanged,
        Self::AlreadyRegistered,
    ];

    /// The name in a tenant's document and in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Welcome => "welcome",
            Self::Verification => "verification",
            Self::PasswordReset => "password_reset",
            Self::PasswordChanged => "password_changed",
            Self::AlreadyRegistered => "already_registered",
        }
    }

    /// The template with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|template| template.name() == name)
    }

    /// Whether the mail must have a link.
    #[must_use]
    pub const fn needs_link(self) -> bool {
        match self {
            Self::Verification | Self::PasswordReset => true,
            Self::Welcome | Self::PasswordChanged | Self::AlreadyRegistered => false,
        }
    }

    /// The placeholders that the mail has values for.
    const fn placeholders(self) -> &'static [Placeholder] {
        match self {
            Self::Verification | Self::PasswordReset => &Placeholder::ALL,
            Self::Welcome | Self::PasswordChanged | Self::AlreadyRegistered => {
                &[Placeholder::FirstName, Placeholder::PlatformName, Placeholder::Email]
            }
        }
    }

    /// The built-in subject, text and HTML.
    const fn built_in(self) -> [&'static str; 3] {
        match self {
            Self::Welcome => [
                "Welcome to {{platform_name}}",
                include_str!("templates/welcome.txt"),
                include_str!("templates/welcome.html"),
            ],
            Self::Verification => [
                "Confirm your address for {{platform_name}}",
                include_str!("templates/verification.txt"),
                include_str!("templates/verification.html"),
            ],
            Self::PasswordReset => [
                "A new password for {{platform_name}}",
                include_str!("templates/password_reset.txt"),
                include_str!("templates/password_reset.html"),
            ],
            Self::PasswordChanged => [
                "Your password for {{platform_name}} was changed",
                include_str!("templates/password_changed.txt"),
                include_str!("templates/password_changed.html"),
            ],
            Self::AlreadyRegistered => [
                "You have an account at {{platform_name}} already",
                include_str!("templates/already_registered.txt"),
                include_str!("templates/already_registered.html"),
            ],
        }
    }
}

/// The values of the placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// The recipient's name; may be empty.
    pub first_name: String,
    /// The name of the platform.
    pub platform_name: String,
    /// The recipient's address.
    pub email: String,
    /// The link; required if [`Template::needs_link`].
    pub action_url: Option<String>,
    /// The validity of the link as text, such as `24 hours`; required together with it.
    pub expires_in: Option<String>,
}

/// The content of a mail. The subject is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    pub subject: String,
    /// The plain-text alternative.
    pub text: String,
    /// The HTML alternative.
    pub html: String,
}

/// Why a mail cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A placeholder has no value.
    #[error("the mail `{template}` needs a value for `{placeholder}`")]
    Missing {
        /// The template's name.
        template: &'static str,
        /// The placeholder's name.
        placeholder: &'static str,
    },
    /// The link is invalid.
    #[error("`action_url` is no link that begins with http:// or https://, or is too long")]
    InvalidLink,
}

/// A document with templates is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct TemplateError {
    /// The invalid field, such as `welcome.subject`.
    pub path: String,
    /// Why it is invalid.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    subject: Pattern,
    text: Pattern,
    html: Pattern,
}

/// A tenant's templates. The built-in ones apply to all other mails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Templates(Vec<(Template, Parts)>);

impl Templates {
    /// Parses a document such as `{"welcome": {"subject": "…", "text": "…", "html": "…"}}`.
    ///
    /// # Errors
    /// [`TemplateError`], which names the template and the part.
    pub fn parse(json: &str) -> Result<Self, TemplateError> {
        let refused = |path: &str, reason: String| TemplateError { path: path.into(), reason };
        if json.len() > TEMPLATES_BYTES_MAX {
            let reason = format!("have {} bytes, {TEMPLATES_BYTES_MAX} at most", json.len());
            return Err(refused("templates", reason));
        }
        let document: Value = serde_json::from_str(json)
            .map_err(|error| refused("templates", format!("are not JSON: {error}")))?;
        let Value::Object(document) = document else {
            return Err(refused("templates", "are an object".to_owned()));
        };
        let mut all = vec![];
        for (name, parts) in &document {
            let template = Template::named(name).ok_or_else(|| {
                let known = Template::ALL.map(Template::name).join(", ");
                refused(&clean::line(name), format!("there is no such mail; there are {known}"))
            })?;
            all.push((template, Parts::parse(template, parts)?));
        }
        Ok(Self(all))
    }

    /// Renders a mail with these values.
    ///
    /// # Errors
    /// A value is missing or the link is invalid.
    pub fn render(
        &self,
        template: Template,
        variables: &Variables,
    ) -> Result<Rendered, RenderError> {
        let values = Values::new(variables)?;
        let own = self.0.iter().find(|(of, _)| *of == template);
        let parts = own.map_or_else(|| Parts::built_in(template), |(_, parts)| parts.clone());
        let fill = |pattern: &Pattern, escape| {
            let filled = pattern.fill(escape, |placeholder| values.value(placeholder));
            filled.map_err(|placeholder| RenderError::Missing {
                template: template.name(),
                placeholder: placeholder.name(),
            })
        };
        Ok(Rendered {
            subject: clean::line(&fill(&parts.subject, Escape::None)?),
            text: fill(&parts.text, Escape::None)?,
            html: fill(&parts.html, Escape::Html)?,
        })
    }
}

impl Parts {
    fn built_in(template: Template) -> Self {
        let [subject, text, html] = template.built_in().map(|part| {
            let pattern = Pattern::parse(part, template.placeholders());
            pattern.expect("a test parses all built-in templates")
        });
        Self { subject, text, html }
    }

    fn parse(template: Template, parts: &Value) -> Result<Self, TemplateError> {
        const NAMES: [&str; 3] = ["subject", "text", "html"];
        let refused = |part: Option<&str>, reason: &str| {
            let part = part.map(|part| format!(".{}", clean::line(part))).unwrap_or_default();
            let path = format!("{}{part}", template.name());
            Err(TemplateError { path, reason: reason.to_owned() })
        };
        let Value::Object(parts) = parts else {
            return refused(None, "is an object with `subject`, `text` and `html`");
        };
        if let Some(other) = parts.keys().find(|name| !NAMES.contains(&name.as_str())) {
            return refused(Some(other), "there is no such part; there are subject, text, html");
        }
        let mut patterns = vec![];
        for name in NAMES {
            let Some(Value::String(text)) = parts.get(name) else {
                return refused(Some(name), "is missing, or no text");
            };
            let is_subject = name == "subject";
            if is_subject && (text.trim().is_empty() || text.len() > SUBJECT_BYTES_MAX) {
                return refused(Some(name), "has 1 to 255 bytes");
            }
            if is_subject && text.chars().any(char::is_control) {
                return refused(Some(name), "is one line, without control characters");
            }
            let pattern = match Pattern::parse(text, template.placeholders()) {
                Ok(pattern) => pattern,
                Err(reason) => return refused(Some(name), &reason),
            };
            if !is_subject && template.needs_link() && !pattern.uses(Placeholder::ActionUrl) {
                return refused(Some(name), "lacks the link: `{{action_url}}`");
            }
            patterns.push(pattern);
        }
        let [subject, text, html] = <[Pattern; 3]>::try_from(patterns)
            .unwrap_or_else(|_| unreachable!("there is one pattern for each of the three names"));
        Ok(Self { subject, text, html })
    }
}

/// Values of the placeholders, without line breaks and formatting characters.
struct Values {
    first_name: String,
    platform_name: String,
    email: String,
    action_url: Option<String>,
    expires_in: Option<String>,
}

impl Values {
    fn new(variables: &Variables) -> Result<Self, RenderError> {
        let is_link = |url: &str| {
            let begins = url.starts_with("https://") || url.starts_with("http://");
            begins && url.len() <= URL_BYTES_MAX && url.bytes().all(|b| b.is_ascii_graphic())
        };
        if variables.action_url.as_deref().is_some_and(|url| !is_link(url)) {
            return Err(RenderError::InvalidLink);
        }
        Ok(Self {
            first_name: clean::name(&variables.first_name),
            platform_name: clean::line(&variables.platform_name),
            email: clean::line(&variables.email),
            action_url: variables.action_url.clone(),
            expires_in: variables.expires_in.as_deref().map(clean::line),
        })
    }

    fn value(&self, placeholder: Placeholder) -> Option<&str> {
        match placeholder {
            Placeholder::FirstName => Some(&self.first_name),
            Placeholder::PlatformName => Some(&self.platform_name),
            Placeholder::Email => Some(&self.email),
            Placeholder::ActionUrl => self.action_url.as_deref(),
            Placeholder::ExpiresIn => self.expires_in.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests;
