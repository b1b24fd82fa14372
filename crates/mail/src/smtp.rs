//! Sends mail by SMTP to one server over a few reusable connections.
//!
//! The pool of connections is our own, because lettre's pool takes a connection back even if its user
//! was cancelled in the middle of a response. The next mail would then read the responses to the
//! cancelled one, and could be reported as accepted although it was not. Here a connection is dropped
//! after any error or cancellation.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::Response;
use secrets::private_file;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::clean;
use crate::error::{MailError, SetupError};
use crate::line_stream::LineStream;
use crate::message::EncodedMail;
use crate::options::{Security, SmtpOptions};

/// The maximum number of concurrent connections.
pub(crate) const CONNECTIONS_MAX: usize = 4;

/// How long an idle connection is reusable: shorter than the timeouts of servers.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// The maximum number of mails per connection.
const MAILS_PER_CONNECTION_MAX: u32 = 100;

/// The timeout of the QUIT command.
const QUIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Refusals because of authentication or encryption: the mail can be sent after the configuration is
/// corrected.
const AUTHENTICATION_CODES: [u16; 4] = [530, 534, 535, 538];

/// An idle connection.
struct Idle {
    connection: AsyncSmtpConnection,
    used: Instant,
    mails: u32,
}

/// The client of an SMTP server.
pub(crate) struct Smtp {
    host: String,
    port: u16,
    security: Security,
    tls: TlsParameters,
    credentials: Option<Credentials>,
    hello: ClientId,
    timeout: Duration,
    permits: Semaphore,
    idle: Mutex<Vec<Idle>>,
}

impl Smtp {
    /// Reads the files that the options name. Does not connect.
    pub(crate) fn new(options: &SmtpOptions, hello: &str) -> Result<Self, SetupError> {
        let credentials = if options.username.is_empty() {
            None
        } else {
            let password = match &options.password_file {
                Some(file) => read_password("mail.smtp.password_file", file)?,
                None => String::new(),
            };
            let password = password.trim_end_matches(['\r', '\n']).to_owned();
            Some(Credentials::new(options.username.clone(), password))
        };
        let hello = if hello.is_ascii() && !hello.starts_with('[') {
            ClientId::Domain(hello.to_owned())
        } else {
            ClientId::default()
        };
        Ok(Self {
            host: options.host.clone(),
            port: options.port,
            security: options.security,
            tls: tls(options)?,
            credentials,
            hello,
            timeout: options.timeout,
            permits: Semaphore::new(CONNECTIONS_MAX),
            idle: Mutex::default(),
        })
    }

    pub(crate) async fn send(&self, mail: &EncodedMail) -> Result<(), MailError> {
        let permit = self.permits.acquire().await;
        let _permit =
            permit.map_err(|_| MailError::Temporary("the mailer is shutting down".to_owned()))?;
        let mut idle = self.connection().await?;
        let sent = timeout(self.timeout, transmit(&mut idle.connection, mail)).await;
        match sent {
            Ok(Ok(())) => {
                idle.mails += 1;
                idle.used = Instant::now();
                if idle.mails < MAILS_PER_CONNECTION_MAX {
                    self.idle().push(idle);
                } else {
                    quit(idle.connection);
                }
                Ok(())
            }
            Ok(Err(error)) => {
                quit(idle.connection);
                Err(error)
            }
            Err(_) => Err(self.timed_out("did not accept the mail")),
        }
    }

    /// An idle connection that responds, or a new one.
    async fn connection(&self) -> Result<Idle, MailError> {
        let idle = self.idle().pop();
        if let Some(mut idle) = idle
            && idle.used.elapsed() < IDLE_MAX
            && matches!(timeout(self.timeout, idle.connection.test_connected()).await, Ok(true))
        {
            return Ok(idle);
        }
        let connection = match timeout(self.timeout, self.connect()).await {
            Err(_) => return Err(self.timed_out("was not ready for a mail")),
            Ok(Err(reason)) => {
                let Self { host, port, .. } = self;
                let reason = clean::line(&reason);
                return Err(MailError::Temporary(format!("{host}:{port}: {reason}")));
            }
            Ok(Ok(connection)) => connection,
        };
        Ok(Idle { connection, used: Instant::now(), mails: 0 })
    }

    /// Connects, encrypts and authenticates. An error of this phase never concerns the mail.
    async fn connect(&self) -> Result<AsyncSmtpConnection, String> {
        let refused = |error: lettre::transport::smtp::Error| error.to_string();
        let server = (self.host.as_str(), self.port);
        let mut connection = if self.security == Security::Tls {
            let tls = Some(self.tls.clone());
            let connected =
                AsyncSmtpConnection::connect_tokio1(server, None, &self.hello, tls, None).await;
            connected.map_err(refused)?
        } else {
            let stream = TcpStream::connect(server).await.map_err(|error| error.to_string())?;
            let stream = Box::new(LineStream::new(stream));
            let connected = AsyncSmtpConnection::connect_with_transport(stream, &self.hello).await;
            connected.map_err(refused)?
        };
        let encrypts = match self.security {
            Security::Starttls => true,
            Security::Opportunistic => connection.can_starttls(),
            Security::Tls | Security::None => false,
        };
        if encrypts {
            connection.starttls(self.tls.clone(), &self.hello).await.map_err(refused)?;
        }
        if let Some(credentials) = &self.credentials {
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            connection.auth(&mechanisms, credentials).await.map_err(refused)?;
        }
        Ok(connection)
    }

    fn timed_out(&self, what: &str) -> MailError {
        let Self { host, port, timeout, .. } = self;
        MailError::Temporary(format!("{host}:{port} {what} within {timeout:?}"))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends MAIL, RCPT and DATA, and waits for each response.
async fn transmit(
    connection: &mut AsyncSmtpConnection,
    mail: &EncodedMail,
) -> Result<(), MailError> {
    let mut parameters = vec![];
    if mail.is_international() {
        if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
            let reason = "the server does not support addresses with non-ASCII characters";
            return Err(MailError::Permanent(reason.to_owned()));
        }
        parameters.push(MailParameter::SmtpUtfEight);
        parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    let from = Mail::new(Some(mail.from.clone()), parameters);
    expect_code(connection.command(from).await, 2)?;
    expect_code(connection.command(Rcpt::new(mail.to.clone(), vec![])).await, 2)?;
    expect_code(connection.command(Data).await, 3)?;
    expect_code(connection.message(&mail.bytes).await, 2)
}

/// Checks the first digit of the code of a response.
fn expect_code(
    response: Result<Response, lettre::transport::smtp::Error>,
    digit: u16,
) -> Result<(), MailError> {
    match response {
        Ok(response) if u16::from(response.code()) / 100 == digit => Ok(()),
        Ok(response) => {
            Err(MailError::Temporary(format!("unexpected response {}", response.code())))
        }
        Err(error) => {
            let reason = clean::line(&error.to_string());
            let code = error.status().map(u16::from);
            if code.is_some_and(|code| code >= 500 && !AUTHENTICATION_CODES.contains(&code)) {
                Err(MailError::Permanent(reason))
            } else {
                Err(MailError::Temporary(reason))
            }
        }
    }
}

/// Ends a connection with QUIT in the background.
fn quit(mut connection: AsyncSmtpConnection) {
    tokio::spawn(async move { drop(timeout(QUIT_TIMEOUT, connection.abort()).await) });
}

fn tls(options: &SmtpOptions) -> Result<TlsParameters, SetupError> {
    let mut builder = TlsParameters::builder(options.host.clone());
    if let Some(file) = &options.ca {
        const SETTING: &str = "mail.smtp.ca";
        let pem = read(SETTING, file)?;
        let invalid = || SetupError { setting: SETTING, reason: "has no certificate".to_owned() };
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            return Err(invalid());
        }
        let authorities = Certificate::from_pem(pem.as_bytes()).map_err(|_| invalid())?;
        builder = builder.certificate_store(CertificateStore::None);
        builder = builder.add_root_certificate(authorities);
    }
    let built = builder.build();
    built.map_err(|error| SetupError { setting: "mail.smtp.host", reason: error.to_string() })
}

fn read(setting: &'static str, file: &Path) -> Result<String, SetupError> {
    std::fs::read_to_string(file).map_err(failed(setting, file))
}

fn read_password(setting: &'static str, file: &Path) -> Result<String, SetupError> {
    private_file::open(file).and_then(std::io::read_to_string).map_err(failed(setting, file))
}

fn failed(setting: &'static str, file: &Path) -> impl Fn(std::io::Error) -> SetupError {
    move |error| SetupError { setting, reason: format!("{}: {error}", file.display()) }
}
