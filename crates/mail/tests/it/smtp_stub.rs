//! An SMTP server whose responses depend on the recipient's name.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use mail::{Security, SmtpOptions};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use crate::TIMEOUT;

/// The received commands and mails.
#[derive(Default)]
struct Received {
    connections: usize,
    commands: Vec<String>,
    mails: Vec<String>,
}

/// The features of the server.
#[derive(Clone, Default)]
struct Features {
    tls: Option<TlsAcceptor>,
    /// Whether an attacker injects a response behind that to STARTTLS.
    injects: bool,
}

pub struct SmtpStub {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
    /// The certificate of an encrypted server.
    ca: Option<PathBuf>,
}

impl SmtpStub {
    pub async fn start() -> Self {
        Self::with(Features::default(), None).await
    }

    /// A server that offers STARTTLS.
    pub async fn encrypted(injects: bool) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let ca = std::env::temp_dir().join(format!("smtp-stub-{}.pem", uuid::Uuid::now_v7()));
        let der = BASE64_STANDARD.encode(made.cert.der());
        let pem = format!("-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n");
        std::fs::write(&ca, pem).unwrap();
        let key = made.signing_key.serialize_der().try_into().unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let tls = Some(TlsAcceptor::from(Arc::new(config)));
        Self::with(Features { tls, injects }, Some(ca)).await
    }

    async fn with(features: Features, ca: Option<PathBuf>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Received>>::default();
        let shared = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                tokio::spawn(serve(stream, features.clone(), Arc::clone(&shared)));
            }
        });
        Self { address, received, ca }
    }

    pub fn options(&self, security: Security) -> SmtpOptions {
        SmtpOptions {
            host: "localhost".to_owned(),
            port: self.address.port(),
            security,
            username: String::new(),
            password_file: None,
            ca: self.ca.clone(),
            timeout: TIMEOUT,
        }
    }

    pub fn connections(&self) -> usize {
        self.received.lock().unwrap().connections
    }

    pub fn commands(&self) -> Vec<String> {
        self.received.lock().unwrap().commands.clone()
    }

    pub fn mails(&self) -> Vec<String> {
        self.received.lock().unwrap().mails.clone()
    }
}

impl Drop for SmtpStub {
    fn drop(&mut self) {
        if let Some(ca) = &self.ca {
            drop(std::fs::remove_file(ca));
        }
    }
}

async fn serve(mut stream: TcpStream, features: Features, received: Arc<Mutex<Received>>) {
    drop(stream.write_all(b"220 localhost\r\n").await);
    let offer = if features.tls.is_some() { "250-localhost\r\n250 STARTTLS\r\n" } else { PLAIN };
    let Some(mut stream) = session(stream, offer, &received).await else { return };
    let Some(tls) = features.tls else { return };
    let answer = if features.injects { "220 go\r\n250 PIPELINING\r\n" } else { "220 go\r\n" };
    drop(stream.write_all(answer.as_bytes()).await);
    if let Ok(stream) = tls.accept(stream).await {
        session(stream, PLAIN, &received).await;
    }
}

const PLAIN: &str = "250 localhost\r\n";

/// After this answer the server closes the connection.
const LEAVE: &str = "250 taken, and gone";

/// It closes the connection instead of an answer.
const VANISH: &str = "";

/// Responds until the client ends the connection; returns the stream for STARTTLS.
async fn session<S>(stream: S, offer: &str, received: &Mutex<Received>) -> Option<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut stream = BufReader::new(stream);
    let mut after_mail = "250 taken";
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        received.lock().unwrap().commands.push(line.to_owned());
        let answer = match line.get(..4) {
            Some("EHLO") => offer.trim_end(),
            Some("STAR") => return Some(stream.into_inner()),
            Some("RCPT") if line.contains("<hang@") => continue,
            Some("RCPT") if line.contains("<busy@") => "451 later",
            Some("RCPT") if line.contains("<unknown@") => "550-no such user\r\n550 at all",
            Some("RCPT") if line.contains("<unauthenticated@") => "530 log in first",
            Some("RCPT") => {
                after_mail = match line {
                    _ if line.contains("<spam@") => "554 spam",
                    _ if line.contains("<leave@") => LEAVE,
                    _ if line.contains("<vanish@") => VANISH,
                    _ => "250 taken",
                };
                "250 fine"
            }
            Some("DATA") => "354 go on",
            Some("QUIT") => "221 bye",
            _ => "250 fine",
        };
        stream.write_all(format!("{answer}\r\n").as_bytes()).await.ok()?;
        if line == "DATA" {
            let mail = content(&mut stream).await?;
            received.lock().unwrap().mails.push(mail);
            if after_mail == VANISH {
                return None;
            }
            stream.write_all(format!("{after_mail}\r\n").as_bytes()).await.ok()?;
            if after_mail == LEAVE {
                return None;
            }
        }
    }
}

async fn content<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> Option<String> {
    let mut mail = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line == ".\r\n" {
            return Some(mail);
        }
        mail.push_str(line.strip_prefix('.').unwrap_or(&line));
    }
}
