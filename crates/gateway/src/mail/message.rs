//! A mail as bytes: headers that nobody can add to, and the same content as text and as HTML.

use std::fmt;
use std::time::SystemTime;

use lettre::Address;
use lettre::address::Envelope;
use lettre::message::header::{Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use uuid::Uuid;

use super::template::Rendered;
use super::{MailError, clean};

/// How long an address may be, in bytes (RFC 5321 allows a path of 256 with its brackets).
pub const ADDRESS_BYTES_MAX: usize = 254;

/// How a mail is recognised, also where it arrives twice: `<id@domain>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageId {
    mail: Uuid,
    domain: String,
}

impl MessageId {
    pub(super) fn new(mail: Uuid, from: &Address) -> Self {
        // A domain that is not ASCII has no place in an identifier that old programs read.
        let domain = Some(from.domain()).filter(|domain| domain.is_ascii()).unwrap_or("localhost");
        let domain = domain.trim_matches(['[', ']']).to_ascii_lowercase();
        Self { mail, domain }
    }

    /// The mail's own id.
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

/// A mail to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its identifier, the same at every try: see [`super::Mailer::message_id`].
    pub message_id: MessageId,
    /// The address.
    pub to: String,
    /// Whose it is; empty: nothing is said about that.
    pub to_name: String,
    /// What is in it.
    pub rendered: Rendered,
}

/// A mail that can go out.
pub(super) struct Ready {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) bytes: Vec<u8>,
}

impl Ready {
    pub(super) fn new(from: &Mailbox, mail: &Outgoing) -> Result<Self, MailError> {
        let to = address(&mail.to).map_err(|reason| MailError::Permanent(reason.to_owned()))?;
        let to_name = Some(clean::name(&mail.to_name)).filter(|name| !name.is_empty());
        let rendered = &mail.rendered;
        let body = MultiPart::alternative_plain_html(rendered.text.clone(), rendered.html.clone());
        let unusable = |error: lettre::error::Error| MailError::Permanent(error.to_string());
        let message = lettre::Message::builder()
            // Given rather than read back from the headers.
            .envelope(Envelope::new(None, vec![to.clone()]).map_err(unusable)?)
            .from(from.clone())
            .to(Mailbox::new(to_name, to.clone()))
            .subject(clean::line(&rendered.subject))
            .date(SystemTime::now())
            .message_id(Some(mail.message_id.to_string()))
            .header(AutoSubmitted)
            .multipart(body)
            .map_err(unusable)?;
        Ok(Self { from: from.email.clone(), to, bytes: message.formatted() })
    }

    /// Whether only a server with SMTPUTF8 can take it.
    pub(super) fn is_international(&self) -> bool {
        ![&self.from, &self.to].iter().all(|address| AsRef::<str>::as_ref(address).is_ascii())
    }
}

/// Reads an address. What could end a command or a header is refused, quoted or not.
pub(super) fn address(text: &str) -> Result<Address, &'static str> {
    let steers = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '<' | '>' | '\\');
    if text.len() > ADDRESS_BYTES_MAX {
        return Err("the address is too long");
    }
    if text.contains(steers) {
        return Err("the address has characters that addresses here do not have");
    }
    text.parse().map_err(|_| "the address is none")
}

/// Reads the sender, `Name <address>` or an address alone.
pub(super) fn sender(text: &str) -> Result<Mailbox, &'static str> {
    let (name, at) = match text.trim().strip_suffix('>').map(|rest| rest.rsplit_once('<')) {
        None => ("", text.trim()),
        Some(None) => return Err("the address is none"),
        Some(Some((name, at))) => (name.trim().trim_matches('"'), at),
    };
    let name = Some(clean::line(name)).filter(|name| !name.is_empty());
    let sender = Mailbox::new(name, address(at)?);
    // The message's builder reads the sender back from the header.
    let is_read = sender.to_string().parse::<Mailbox>().is_ok_and(|read| read == sender);
    if is_read { Ok(sender) } else { Err("the name cannot be written into a header") }
}

/// Says that no person wrote the mail, so that no program answers it (RFC 3834).
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
            text: "Grüße\n.\nBcc: nobody".to_owned(),
            html: "<p>Grüße</p>".to_owned(),
        };
        let message_id = MessageId::new(Uuid::from_u128(7), &from.email);
        let (to, to_name) = (to.to_owned(), to_name.to_owned());
        let mail = Outgoing { message_id, to, to_name, rendered };
        let shown = match Ready::new(&from, &mail) {
            Err(error) => error.to_string(),
            Ok(ready) => {
                let text = String::from_utf8(ready.bytes).unwrap();
                let (headers, _) = text.split_once("\r\n\r\n").unwrap();
                assert!(!headers.replace("\r\n", "").contains(['\r', '\n']));
                let headers = headers.lines().map(|line| match line.split_once(": ") {
                    Some(("Date", date)) => format!("Date: ({} characters)", date.len()),
                    _ => line.to_owned(),
                });
                let kept = headers.filter(|line| !line.contains("boundary"));
                kept.collect::<Vec<_>>().join("\n")
            }
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn headers_are_ours_alone() {
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
            expect!["refused: the address has characters that addresses here do not have"],
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
            assert!(address(to).is_err(), "{to:?}");
        }
        assert!(address(&format!("{}@example.com", "a".repeat(250))).is_err());
        assert!(address("o'hara+x@sub.example.com").is_ok());
    }

    #[test]
    fn a_sender_has_a_name_or_none() {
        let shown = |text| sender(text).map(|it| (it.name, it.email.to_string()));
        let at = "a@example.com".to_owned();
        assert_eq!(shown("a@example.com"), Ok((None, at.clone())));
        assert_eq!(shown("\"A, B\" <a@example.com>"), Ok((Some("A, B".to_owned()), at)));
        assert_eq!(
            shown("A <a@example.com"),
            Err("the address has characters that addresses here do not have")
        );
        assert_eq!(shown("a@example.com>"), Err("the address is none"));
        assert_eq!(shown(""), Err("the address is none"));
    }
}
