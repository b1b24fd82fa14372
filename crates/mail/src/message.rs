//! Encodes a mail as MIME: headers that are safe from injection, and the content as text and as HTML.

use std::fmt;
use std::time::SystemTime;

use lettre::Address;
use lettre::address::Envelope;
use lettre::message::header::{Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use uuid::Uuid;

use crate::clean;
use crate::error::MailError;
use crate::template::Rendered;

/// The maximum length of an address in bytes (RFC 5321: a path of 256 with its brackets).
pub const ADDRESS_BYTES_MAX: usize = 254;

/// The value of the `Message-ID` header, `<id@domain>`, by which duplicates are recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageId {
    mail: Uuid,
    domain: String,
}

impl MessageId {
    pub(crate) fn new(mail: Uuid, from: &Address) -> Self {
        // Old mail programs do not support other characters in a `Message-ID`.
        let domain = Some(from.domain()).filter(|domain| domain.is_ascii()).unwrap_or("localhost");
        let domain = domain.trim_matches(['[', ']']).to_ascii_lowercase();
        Self { mail, domain }
    }

    /// The id of the mail.
    #[must_use]
    pub const fn mail(&self) -> Uuid {
        self.mail
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}@{}>", self.mail, self.domain)
    }
}

/// A mail that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMail {
    /// The same for each attempt: see [`crate::Mailer::message_id`].
    pub message_id: MessageId,
    /// The recipient's address.
    pub to: String,
    /// The recipient's name; may be empty.
    pub to_name: String,
    pub rendered: Rendered,
}

/// An encoded mail with its envelope.
pub(crate) struct EncodedMail {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) bytes: Vec<u8>,
}

impl EncodedMail {
    pub(crate) fn new(from: &Mailbox, mail: &OutgoingMail) -> Result<Self, MailError> {
        let to = address(&mail.to).map_err(|reason| MailError::Permanent(reason.to_owned()))?;
        let to_name = Some(clean::name(&mail.to_name)).filter(|name| !name.is_empty());
        let rendered = &mail.rendered;
        let body = MultiPart::alternative_plain_html(rendered.text.clone(), rendered.html.clone());
        let invalid = |error: lettre::error::Error| MailError::Permanent(error.to_string());
        let message = lettre::Message::builder()
            // Otherwise lettre parses the headers for it.
            .envelope(Envelope::new(None, vec![to.clone()]).map_err(invalid)?)
            .from(from.clone())
            .to(Mailbox::new(to_name, to.clone()))
            .subject(clean::line(&rendered.subject))
            .date(SystemTime::now())
            .message_id(Some(mail.message_id.to_string()))
            .header(AutoSubmitted)
            .multipart(body)
            .map_err(invalid)?;
        Ok(Self { from: from.email.clone(), to, bytes: message.formatted() })
    }

    /// Whether the server must support SMTPUTF8.
    pub(crate) fn is_international(&self) -> bool {
        ![&self.from, &self.to].iter().all(|address| AsRef::<str>::as_ref(address).is_ascii())
    }
}

/// Whether mail can be sent to it.
#[must_use]
pub fn is_address(text: &str) -> bool {
    address(text).is_ok()
}

/// Parses an address. Characters that could end a command or a header are refused, even if quoted.
pub(crate) fn address(text: &str) -> Result<Address, &'static str> {
    let is_unsafe = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '<' | '>' | '\\');
    if text.len() > ADDRESS_BYTES_MAX {
        return Err("the address is too long");
    }
    if text.contains(is_unsafe) {
        return Err("the address has unsupported characters");
    }
    text.parse().map_err(|_| "the address is invalid")
}

/// Parses the sender: `Name <address>` or an address.
pub(crate) fn sender(text: &str) -> Result<Mailbox, &'static str> {
    let (name, at) = match text.trim().strip_suffix('>').map(|rest| rest.rsplit_once('<')) {
        None => ("", text.trim()),
        Some(None) => return Err("the address is invalid"),
        Some(Some((name, at))) => (name.trim().trim_matches('"'), at),
    };
    let name = Some(clean::line(name)).filter(|name| !name.is_empty());
    let sender = Mailbox::new(name, address(at)?);
    // The message builder parses the header again.
    let is_parsed = sender.to_string().parse::<Mailbox>().is_ok_and(|parsed| parsed == sender);
    if is_parsed { Ok(sender) } else { Err("the name cannot be written into a header") }
}

/// Marks the mail as automatic, so that automatic responders ignore it (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(from: &str, to: &str, to_name: &str, subject: &str, expected: Expect) {
        let from = sender(from).unwrap();
        let rendered = Rendered {
            subject: subject.to_owned(),
            text: "Grüße\n.\nBcc: x@example.net".to_owned(),
            html: "<p>Grüße</p>".to_owned(),
        };
        let message_id = MessageId::new(Uuid::from_u128(7), &from.email);
        let (to, to_name) = (to.to_owned(), to_name.to_owned());
        let mail = OutgoingMail { message_id, to, to_name, rendered };
        let shown = match EncodedMail::new(&from, &mail) {
            Err(error) => error.to_string(),
            Ok(ready) => {
                let text = String::from_utf8(ready.bytes).unwrap();
                let (headers, _) = text.split_once("\r\n\r\n").unwrap();
                assert!(!headers.replace("\r\n", "").contains(['\r', '\n']));
                let headers = headers.lines().map(|line| match line.split_once(": ") {
                    Some(("Date", date)) => format!("Date: ({} characters)", date.len()),
                    _ => line.to_owned(),
                });
                let stable = headers.filter(|line| !line.contains("boundary"));
                stable.collect::<Vec<_>>().join("\n")
            }
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn headers_cannot_be_injected() {
        check(
            "Müller & Söhne <noreply@example.org>",
            "zoe@example.com",
            "Zoë\r\nBcc: all@example.net",
            "Grüße\r\nX-Evil: yes",
            expect![[r#"
                From: =?utf-8?b?TcO8bGxlciAmIFPDtmhuZQ==?= <noreply@example.org>
                To: =?utf-8?b?Wm/DqyBCY2MgYWxsZXhhbXBsZS4gbmV0?= <zoe@example.com>
                Subject: =?utf-8?b?R3LDvMOfZQ==?= X-Evil: yes
                Date: (31 characters)
                Message-ID: <00000000-0000-0000-0000-000000000007@example.org>
                Auto-Submitted: auto-generated
                MIME-Version: 1.0
                Content-Type: multipart/alternative;"#]],
        );
        check(
            "noreply@localhost",
            "\"odd name\"@example.com",
            "",
            "Hi",
            expect!["refused: the address has unsupported characters"],
        );
        check(
            "noreply@localhost",
            "zoë@example.com",
            "a, b <c>",
            "Hi",
            expect![[r#"
            From: noreply@localhost
            To: =?utf-8?b?YSwgYiBj?= <zoë@example.com>
            Subject: Hi
            Date: (31 characters)
            Message-ID: <00000000-0000-0000-0000-000000000007@localhost>
            Auto-Submitted: auto-generated
            MIME-Version: 1.0
            Content-Type: multipart/alternative;"#]],
        );
    }

    #[test]
    fn an_address_that_could_end_a_command_is_refused() {
        for to in [
            "a@example.com\r\nRCPT TO:<b@example.com>",
            "a@example.com>\u{20}X",
            "\"a\r\nb\"@example.com",
            "a@b@example.com",
            "a@exa\u{0}mple.com",
            "a b@example.com",
            "@example.com",
            "example.com",
            "",
        ] {
            let reason = address(to).expect_err(to);
            assert!(reason.starts_with("the address"), "{to:?}: {reason}");
        }
        let long = format!("{}@example.com", "a".repeat(250));
        assert_eq!(address(&long), Err("the address is too long"));
        let valid = address("o'hara+x@sub.example.com").map(|it| it.to_string());
        assert_eq!(valid.as_deref(), Ok("o'hara+x@sub.example.com"));
    }

    #[test]
    fn the_name_of_a_sender_is_optional() {
        let shown = |text| sender(text).map(|it| (it.name, it.email.to_string()));
        let at = "a@example.com".to_owned();
        assert_eq!(shown("a@example.com"), Ok((None, at.clone())));
        assert_eq!(shown("\"A, B\" <a@example.com>"), Ok((Some("A, B".to_owned()), at)));
        assert_eq!(shown("A <a@example.com"), Err("the address has unsupported characters"));
        assert_eq!(shown("a@example.com>"), Err("the address is invalid"));
        assert_eq!(shown(""), Err("the address is invalid"));
    }
}
