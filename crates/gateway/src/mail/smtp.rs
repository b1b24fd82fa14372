//! SMTP: to one server, over a few connections that are kept while they are of use.
//!
//! The connections are kept here and not by the SMTP library, whose pool takes a connection back
//! also where its user gave up in the middle of an answer: the next mail would then read the answers
//! to this one, and could be told that it was taken where it was not. A connection that anything
//! went wrong on is dropped.

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
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::lines::Lines;
use super::message::Ready;
use super::{MailError, Security, SetupError, SmtpOptions, clean};

/// Connections to the server at the same time.
pub(super) const CONNECTIONS_MAX: usize = 4;

/// How long an idle connection is kept: shorter than servers keep it.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// How many mails go over one connection.
const MAILS_MAX: u32 = 100;

/// How long a connection that is given up may take to say goodbye.
const GOODBYE_MAX: Duration = Duration::from_secs(5);

/// Refusals that are about our login or encryption: the mail can go out once that is put right.
const ABOUT_US: [u16; 4] = [530, 534, 535, 538];

/// A connection that no mail is on.
struct Idle {
    connection: AsyncSmtpConnection,
    used: Instant,
    mails: u32,
}

/// A server to send by.
pub(super) struct Smtp {
    host: String,
    port: u16,
    security: Security,
    tls: TlsParameters,
    credentials: Option<Credentials>,
    hello: ClientId,
    patience: Duration,
    permits: Semaphore,
    idle: Mutex<Vec<Idle>>,
}

impl Smtp {
    /// Reads the files that the options name. Nothing is connected to yet.
    pub(super) fn new(options: &SmtpOptions, hello: &str) -> Result<Self, SetupError> {
        let credentials = if options.username.is_empty() {
            None
        } else {
            let password = match &options.password_file {
                Some(file) => read("mail.smtp.password_file", file)?,
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
            patience: options.timeout,
            permits: Semaphore::new(CONNECTIONS_MAX),
            idle: Mutex::default(),
        })
    }

    pub(super) async fn send(&self, mail: &Ready) -> Result<(), MailError> {
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| MailError::Temporary("is shut down".to_owned()))?;
        let mut idle = self.connection().await?;
        let sent = timeout(self.patience, hand_over(&mut idle.connection, mail)).await;
        match sent {
            Ok(Ok(())) => {
                idle.mails += 1;
                idle.used = Instant::now();
                if idle.mails < MAILS_MAX {
                    self.idle().push(idle);
                } else {
                    say_goodbye(idle.connection);
                }
                Ok(())
            }
            Ok(Err(error)) => {
                say_goodbye(idle.connection);
                Err(error)
            }
            Err(_) => Err(self.late("did not take the mail")),
        }
    }

    /// A connection that answers: one that is there, or a new one.
    async fn connection(&self) -> Result<Idle, MailError> {
        let kept = self.idle().pop();
        if let Some(mut kept) = kept
            && kept.used.elapsed() < IDLE_MAX
            && matches!(timeout(self.patience, kept.connection.test_connected()).await, Ok(true))
        {
            return Ok(kept);
        }
        let connection = match timeout(self.patience, self.connect()).await {
            Err(_) => return Err(self.late("was not ready for a mail")),
            Ok(Err(reason)) => {
                let place = format!("{}:{}", self.host, self.port);
                return Err(MailError::Temporary(format!("{place}: {}", clean::line(&reason))));
            }
            Ok(Ok(connection)) => connection,
        };
        Ok(Idle { connection, used: Instant::now(), mails: 0 })
    }

    /// Connects, encrypts and logs in. Nothing that is said here is about a mail.
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
            let lines = Box::new(Lines::new(stream));
            let connected = AsyncSmtpConnection::connect_with_transport(lines, &self.hello).await;
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

    fn late(&self, what: &str) -> MailError {
        let (host, port, patience) = (&self.host, self.port, self.patience);
        MailError::Temporary(format!("{host}:{port} {what} within {patience:?}"))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says MAIL, RCPT and DATA, and waits for each answer.
async fn hand_over(connection: &mut AsyncSmtpConnection, mail: &Ready) -> Result<(), MailError> {
    let mut parameters = vec![];
    if mail.is_international() {
        if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
            let reason = "the server does not take addresses with other letters than ASCII's";
            return Err(MailError::Permanent(reason.to_owned()));
        }
        parameters.push(MailParameter::SmtpUtfEight);
        parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    let from = Mail::new(Some(mail.from.clone()), parameters);
    accepted(connection.command(from).await, 2)?;
    accepted(connection.command(Rcpt::new(mail.to.clone(), vec![])).await, 2)?;
    accepted(connection.command(Data).await, 3)?;
    accepted(connection.message(&mail.bytes).await, 2)
}

/// Whether an answer is the one that is wanted, by the first digit of its code.
fn accepted(
    answer: Result<Response, lettre::transport::smtp::Error>,
    digit: u16,
) -> Result<(), MailError> {
    match answer {
        Ok(answer) if u16::from(answer.code()) / 100 == digit => Ok(()),
        Ok(answer) => Err(MailError::Temporary(format!("answered {} out of turn", answer.code()))),
        Err(error) => {
            let reason = clean::line(&error.to_string());
            let code = error.status().map(u16::from);
            if code.is_some_and(|code| code >= 500 && !ABOUT_US.contains(&code)) {
                Err(MailError::Permanent(reason))
            } else {
                Err(MailError::Temporary(reason))
            }
        }
    }
}

/// Ends a connection as servers like it, without anybody waiting for it.
fn say_goodbye(mut connection: AsyncSmtpConnection) {
    tokio::spawn(async move { drop(timeout(GOODBYE_MAX, connection.abort()).await) });
}

fn tls(options: &SmtpOptions) -> Result<TlsParameters, SetupError> {
    let mut builder = TlsParameters::builder(options.host.clone());
    if let Some(file) = &options.ca {
        const SETTING: &str = "mail.smtp.ca";
        let pem = read(SETTING, file)?;
        let none = || SetupError { setting: SETTING, reason: "holds no certificate".to_owned() };
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            return Err(none());
        }
        let authorities = Certificate::from_pem(pem.as_bytes()).map_err(|_| none())?;
        builder = builder.certificate_store(CertificateStore::None);
        builder = builder.add_root_certificate(authorities);
    }
    let built = builder.build();
    built.map_err(|error| SetupError { setting: "mail.smtp.host", reason: error.to_string() })
}

fn read(setting: &'static str, file: &Path) -> Result<String, SetupError> {
    std::fs::read_to_string(file)
        .map_err(|error| SetupError { setting, reason: format!("{}: {error}", file.display()) })
}
