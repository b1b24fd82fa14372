//! The settings of mail.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::SetupError;
use crate::message;

/// The options of mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The sender: `Name <address>`, or an address.
    pub from: String,
    pub transport: Transport,
}

/// How mail is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// As files in a directory, for development.
    File(PathBuf),
    Smtp(SmtpOptions),
    /// Mail is discarded.
    None,
}

/// The options of SMTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpOptions {
    pub host: String,
    pub port: u16,
    pub security: Security,
    /// Empty: no authentication.
    pub username: String,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// A PEM file with the certificate authorities of the server; `None`: those of the public web.
    pub ca: Option<PathBuf>,
    /// The timeout of the connection setup, and that of sending a mail.
    pub timeout: Duration,
}

/// The encryption of a connection. An encrypted connection also authenticates the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Implicit TLS (port 465).
    Tls,
    /// STARTTLS is required (port 587).
    Starttls,
    /// STARTTLS if the server offers it, which does not protect from an active attacker.
    Opportunistic,
    None,
}

impl Security {
    /// Whether mail and passwords are never sent unencrypted.
    #[must_use]
    pub const fn is_encrypted(self) -> bool {
        match self {
            Self::Tls | Self::Starttls => true,
            Self::Opportunistic | Self::None => false,
        }
    }
}

impl Options {
    /// Validates the options, except for the files that they name.
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
        if !self.username.is_empty() && !self.security.is_encrypted() {
            let reason = "must be `starttls` or `tls` where there is a password";
            return refused("mail.smtp.security", reason);
        }
        Ok(())
    }
}
