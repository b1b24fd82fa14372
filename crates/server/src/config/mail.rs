//! Settings of mail: who sends it, where it goes, and when a failed one is tried again.

use std::path::{Path, PathBuf};

use gateway::mail::{Links, Options, Security, SmtpOptions, Transport};
use serde::{Deserialize, Serialize};

use super::period::Period;

/// Retries of a mail at most.
const RETRIES_MAX: usize = 100;

/// Mail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    /// Where it goes.
    pub transport: MailTransport,
    /// The directory of mails that go into files; below the data directory where it is relative.
    pub directory: PathBuf,
    /// Who sends it: an address, or a name and the address between angle brackets.
    pub from: String,
    /// What the platform is called in mails.
    pub platform_name: String,
    /// What links in mails begin with.
    pub base_url: String,
    /// The delay before each retry of a mail that could not be sent; the last one is used again.
    pub retry_delays: Vec<Period>,
    /// How often a mail is tried at most.
    pub attempts: u32,
    /// The server, where mail goes by SMTP.
    pub smtp: Smtp,
}

/// Where mail goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTransport {
    /// Into files.
    File,
    /// To a server.
    Smtp,
    /// Nowhere.
    None,
}

/// A server to send by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smtp {
    /// Its name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub security: SmtpSecurity,
    /// Who logs in; empty: nobody.
    pub username: String,
    /// The file with the password.
    pub password_file: String,
    /// PEM file with the authorities that vouch for the server; empty: those that browsers know.
    pub ca: String,
    /// How long the server may take to be ready, and how long to take a mail.
    pub timeout: Period,
}

/// How the connection to a server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SmtpSecurity {
    /// From the first byte.
    Tls,
    /// By STARTTLS, or not at all and then nothing is sent.
    Starttls,
    /// By STARTTLS where the server offers it.
    Opportunistic,
    /// Not at all.
    None,
}

impl Mail {
    /// The same in the words of the gateway.
    #[must_use]
    pub fn options(&self, data_dir: &Path) -> Options {
        let transport = match self.transport {
            MailTransport::File => Transport::File(data_dir.join(&self.directory)),
            MailTransport::Smtp => Transport::Smtp(self.smtp.options()),
            MailTransport::None => Transport::None,
        };
        Options { from: self.from.clone(), transport }
    }

    /// The settings of the mail queue.
    #[must_use]
    pub fn queue(&self, data_dir: &Path) -> ::mail::Settings {
        ::mail::Settings {
            options: self.options(data_dir),
            base_url: self.base_url.clone(),
            platform_name: self.platform_name.clone(),
            retry_delays_us: self.retry_delays.iter().map(|it| it.as_us()).collect(),
            attempts_max: self.attempts,
        }
    }

    /// The setting that is invalid, and the reason.
    pub(super) fn check(&self, data_dir: &Path) -> Result<(), (&'static str, String)> {
        self.options(data_dir).check().map_err(|error| (error.setting, error.reason))?;
        Links::new(&self.base_url).map_err(|error| ("mail.base_url", error.to_string()))?;
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
            from: "noreply@localhost".to_owned(),
            platform_name: "Faregate".to_owned(),
            base_url: "http://localhost:8080".to_owned(),
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
