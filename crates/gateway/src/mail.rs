//! Mail: what it says, and how it goes out. Which mails wait, and when one is tried again, is not
//! decided here.

mod clean;
mod directory;
mod lines;
mod links;
mod message;
mod pattern;
mod smtp;
mod template;

use std::path::PathBuf;
use std::time::Duration;

use lettre::message::Mailbox;
use uuid::Uuid;

pub use links::{Links, NotABaseUrl};
pub use message::{ADDRESS_BYTES_MAX, MessageId, Outgoing};
pub use pattern::{PART_BYTES_MAX, PLACEHOLDERS_MAX};
pub use template::{
    RenderError, Rendered, SUBJECT_BYTES_MAX, TEMPLATES_BYTES_MAX, Template, TemplateError,
    Templates, URL_BYTES_MAX, Variables,
};

/// How mail goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Who sends it: `Name <address>`, or an address.
    pub from: String,
    /// Where it goes.
    pub transport: Transport,
}

/// Where mail goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Into a directory, to be looked at.
    File(PathBuf),
    /// To a server.
    Smtp(SmtpOptions),
    /// Nowhere.
    None,
}

/// A server to send by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpOptions {
    /// Its name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub security: Security,
    /// Who logs in; empty: nobody.
    pub username: String,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// PEM file with the authorities that vouch for the server; `None`: those that browsers know.
    pub ca: Option<PathBuf>,
    /// How long the server may take to be ready, and how long to take a mail.
    pub timeout: Duration,
}

/// How a connection is encrypted. Where it is, the server proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// From the first byte (port 465).
    Tls,
    /// By STARTTLS, without which nothing is sent (port 587).
    Starttls,
    /// By STARTTLS where the server offers it: no protection from somebody in between.
    Opportunistic,
    /// Not at all.
    None,
}

impl Security {
    /// Whether nothing is sent in the clear.
    #[must_use]
    pub const fn is_certain(self) -> bool {
        match self {
            Self::Tls | Self::Starttls => true,
            Self::Opportunistic | Self::None => false,
        }
    }
}

/// A setting that mail cannot be sent with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting `{setting}`: {reason}")]
pub struct SetupError {
    /// Which setting.
    pub setting: &'static str,
    /// What is wrong.
    pub reason: String,
}

/// Why a mail did not go out. The reason may name the recipient: it belongs to the mail, not into
/// logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    /// A later try may work. Where the connection broke off, this one may have worked too: then the
    /// mail arrives twice, with one `Message-ID`.
    #[error("not now: {0}")]
    Temporary(String),
    /// No try will work.
    #[error("refused: {0}")]
    Permanent(String),
}

/// Sends mail.
pub struct Mailer {
    from: Mailbox,
    way: Way,
}

enum Way {
    Nowhere,
    Directory(PathBuf),
    Smtp(Box<smtp::Smtp>),
}

impl Options {
    /// Looks at everything but the files.
    ///
    /// # Errors
    /// [`SetupError`], naming the setting.
    pub fn check(&self) -> Result<(), SetupError> {
        let refused =
            |setting, reason: &str| Err(SetupError { setting, reason: reason.to_owned() });
        if let Err(reason) = message::sender(&self.from) {
            return refused("mail.from", reason);
        }
        match &self.transport {
            Transport::Smtp(smtp) => smtp.check(),
            Transport::File(directory) if directory.as_os_str().is_empty() => {
                refused("mail.directory", "is needed where `mail.transport` is `file`")
            }
            Transport::File(_) | Transport::None => Ok(()),
        }
    }
}

impl SmtpOptions {
    fn check(&self) -> Result<(), SetupError> {
        let refused =
            |setting, reason: &str| Err(SetupError { setting, reason: reason.to_owned() });
        if self.host.is_empty() {
            return refused("mail.smtp.host", "is needed where `mail.transport` is `smtp`");
        }
        if self.port == 0 {
            return refused("mail.smtp.port", "must be at least 1");
        }
        if self.timeout.is_zero() {
            return refused("mail.smtp.timeout", "must be more than nothing");
        }
        if self.username.is_empty() != self.password_file.is_none() {
            let reason = "and `mail.smtp.password_file` are set together or not at all";
            return refused("mail.smtp.username", reason);
        }
        if !self.username.is_empty() && !self.security.is_certain() {
            let reason = "must be `starttls` or `tls` where there is a password";
            return refused("mail.smtp.security", reason);
        }
        Ok(())
    }
}

impl Mailer {
    /// Makes one, and reads the files that the options name.
    ///
    /// # Errors
    /// [`SetupError`], naming the setting.
    pub fn new(options: &Options) -> Result<Self, SetupError> {
        options.check()?;
        let from = message::sender(&options.from)
            .map_err(|reason| SetupError { setting: "mail.from", reason: reason.to_owned() })?;
        let way = match &options.transport {
            Transport::None => Way::Nowhere,
            Transport::File(directory) => Way::Directory(directory.clone()),
            Transport::Smtp(smtp) => {
                Way::Smtp(Box::new(smtp::Smtp::new(smtp, from.email.domain())?))
            }
        };
        Ok(Self { from, way })
    }

    /// How many mails it sends at once, where there is a bound: one more would wait for a connection.
    #[must_use]
    pub const fn at_once(&self) -> Option<usize> {
        match &self.way {
            Way::Nowhere => None,
            Way::Directory(_) | Way::Smtp(_) => Some(smtp::CONNECTIONS_MAX),
        }
    }

    /// How the mail with this id is recognised: the same at every try.
    #[must_use]
    pub fn message_id(&self, mail: Uuid) -> MessageId {
        MessageId::new(mail, &self.from.email)
    }

    /// Sends a mail, or says why not. What comes of a mail whose sending is given up from outside is
    /// not known; its connection is not used again.
    ///
    /// # Errors
    /// [`MailError`], which says whether another try makes sense.
    pub async fn send(&self, mail: &Outgoing) -> Result<(), MailError> {
        let ready = message::Ready::new(&self.from, mail)?;
        match &self.way {
            Way::Nowhere => Ok(()),
            Way::Directory(directory) => {
                directory::write(directory.clone(), mail.message_id.mail(), ready.bytes).await
            }
            Way::Smtp(smtp) => smtp.send(&ready).await,
        }
    }
}
