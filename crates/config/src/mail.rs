//! Settings of mail: sender, transport and retries.

use std::path::{Path, PathBuf};

use ::mail::{Links, Options, Security, SmtpOptions, Transport};
use serde::{Deserialize, Serialize};

use super::period::Period;

/// The sender that no mail server forwards.
const FROM_DEFAULT: &str = "noreply@localhost";

/// The maximum number of retry delays.
const RETRIES_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    pub transport: MailTransport,
    /// The directory of the transport `file`; a relative path is below the data directory.
    pub directory: PathBuf,
    /// The sender: an address, or `Name <address>`.
    pub from: String,
    /// The name of the platform in mails.
    pub platform_name: String,
    /// The base URL of links in mails; empty: `public_url`, or else the address listened on.
    pub base_url: String,
    /// The delay before each retry of a mail; further retries use the last delay.
    pub retry_delays: Vec<Period>,
    /// Attempts to send a mail, the first one included.
    pub attempts: u32,
    /// The server of the transport `smtp`.
    pub smtp: Smtp,
}

/// The transport of mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTransport {
    /// Files in [`Mail::directory`], for development.
    File,
    Smtp,
    /// Mail is discarded.
    None,
}

/// An SMTP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smtp {
    /// The host name, which the server's certificate must match.
    pub host: String,
    pub port: u16,
    pub security: SmtpSecurity,
    /// The user name; empty: no authentication.
    pub username: String,
    pub password_file: String,
    /// PEM file with the authorities that sign the server's certificate; empty: those of browsers.
    pub ca: String,
    /// Timeout for connecting, and again for sending a mail.
    pub timeout: Period,
}

/// The encryption of a connection to an SMTP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SmtpSecurity {
    /// TLS from the first byte.
    Tls,
    /// STARTTLS is required before anything is sent.
    Starttls,
    /// STARTTLS if the server offers it.
    Opportunistic,
    /// No encryption at all.
    None,
}

impl Mail {
    /// The settings as options of the mail crate.
    #[must_use]
    pub fn options(&self, data_dir: &Path) -> Options {
        let transport = match self.transport {
            MailTransport::File => Transport::File(data_dir.join(&self.directory)),
            MailTransport::Smtp => Transport::Smtp(self.smtp.options()),
            MailTransport::None => Transport::None,
        };
        Options { from: self.from.clone(), transport }
    }

    /// Where mails go, for people.
    #[must_use]
    pub fn destination(&self, data_dir: &Path) -> String {
        match self.transport {
            MailTransport::File => {
                format!("files in {}", data_dir.join(&self.directory).display())
            }
            MailTransport::Smtp => {
                let Smtp { host, port, .. } = &self.smtp;
                format!("sent by {host}:{port}, from {}", self.from)
            }
            MailTransport::None => "discarded".to_owned(),
        }
    }

    /// The settings of the mail queue, whose links begin with `base_url`.
    #[must_use]
    pub fn queue(&self, data_dir: &Path, base_url: String) -> ::mail::Settings {
        ::mail::Settings {
            options: self.options(data_dir),
            base_url,
            platform_name: self.platform_name.clone(),
            retry_delays_us: self.retry_delays.iter().map(|it| it.as_us()).collect(),
            attempts_max: self.attempts,
        }
    }

    /// The setting that is invalid, and the reason.
    pub(super) fn check(&self, data_dir: &Path) -> Result<(), (&'static str, String)> {
        self.options(data_dir).check().map_err(|error| (error.setting, error.reason))?;
        if !self.base_url.is_empty() {
            Links::new(&self.base_url).map_err(|error| ("mail.base_url", error.to_string()))?;
        }
        if self.transport == MailTransport::File && !self.smtp.host.is_empty() {
            let reason = "must be `smtp` where `mail.smtp.host` is set, or `none`".to_owned();
            return Err(("mail.transport", reason));
        }
        if self.transport == MailTransport::Smtp && self.from == FROM_DEFAULT {
            let reason = "must be an address of yours where `mail.transport` is `smtp`".to_owned();
            return Err(("mail.from", reason));
        }
        if self.attempts == 0 {
            return Err(("mail.attempts", "must be at least 1".to_owned()));
        }
        if self.retry_delays.is_empty() || self.retry_delays.len() > RETRIES_MAX {
            return Err(("mail.retry_delays", format!("are 1 to {RETRIES_MAX} periods")));
        }
        if self.retry_delays.iter().any(|delay| delay.0.is_zero()) {
            return Err(("mail.retry_delays", "must be more than nothing".to_owned()));
        }
        Ok(())
    }
}

impl Smtp {
    fn options(&self) -> SmtpOptions {
        let file = |name: &str| Some(PathBuf::from(name)).filter(|_| !name.is_empty());
        let security = match self.security {
            SmtpSecurity::Tls => Security::Tls,
            SmtpSecurity::Starttls => Security::Starttls,
            SmtpSecurity::Opportunistic => Security::Opportunistic,
            SmtpSecurity::None => Security::None,
        };
        SmtpOptions {
            host: self.host.clone(),
            port: self.port,
            security,
            username: self.username.clone(),
            password_file: file(&self.password_file),
            ca: file(&self.ca),
            timeout: self.timeout.0,
        }
    }
}

impl Default for Mail {
    fn default() -> Self {
        let (minute, hour, day) = (60, 3_600, 86_400);
        let delays = [minute, 5 * minute, 15 * minute, hour, 4 * hour, 12 * hour, day, day];
        Self {
            transport: MailTransport::File,
            directory: PathBuf::from("mail"),
            from: FROM_DEFAULT.to_owned(),
            platform_name: "Faregate".to_owned(),
            base_url: String::new(),
            retry_delays: delays.map(Period::seconds).to_vec(),
            attempts: 9,
            smtp: Smtp {
                host: String::new(),
                port: 587,
                security: SmtpSecurity::Starttls,
                username: String::new(),
                password_file: String::new(),
                ca: String::new(),
                timeout: Period::seconds(60),
            },
        }
    }
}
