//! TLS for the listeners, from PEM files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use secrets::private_file;
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// The PEM files of a listener; both paths empty: no TLS.
#[derive(Clone, Copy, Debug)]
pub struct TlsFiles<'a> {
    /// The certificate chain.
    pub cert: &'a str,
    /// The private key.
    pub key: &'a str,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read, or holds nothing of use.
    #[error("setting `{key}`: {path}: {reason}")]
    File {
        /// The setting that names the file, such as `tls.cert`.
        key: &'static str,
        path: PathBuf,
        reason: String,
    },
    /// Certificate and key do not belong together, or are of a kind that is not supported.
    #[error("settings `tls.cert` and `tls.key`: {0}")]
    Pair(#[from] rustls::Error),
}

/// A certificate with its key, which is read again while it is served. Listeners that share it serve the same.
pub struct ServedCertificate {
    cert: PathBuf,
    key: PathBuf,
    current: ArcSwap<Current>,
}

struct Current {
    key: Arc<CertifiedKey>,
    expires_at_s: i64,
}

impl ServedCertificate {
    /// Reads the files; `None` without TLS.
    ///
    /// # Errors
    /// [`Error`], naming the setting.
    pub fn read(tls: TlsFiles<'_>) -> Result<Option<Arc<Self>>, Error> {
        if tls.cert.is_empty() {
            return Ok(None);
        }
        let (cert, key) = (PathBuf::from(tls.cert), PathBuf::from(tls.key));
        let current = ArcSwap::from_pointee(Current::read(&cert, &key)?);
        Ok(Some(Arc::new(Self { cert, key, current })))
    }

    /// Reads the files again; says whether they have another certificate, which is served from now on.
    ///
    /// # Errors
    /// [`Error`]: what was served goes on to be.
    pub fn reload(&self) -> Result<bool, Error> {
        let read = Current::read(&self.cert, &self.key)?;
        let is_new = read.key.cert != self.current.load().key.cert;
        if is_new {
            self.current.store(Arc::new(read));
        }
        Ok(is_new)
    }

    /// When the first certificate of the chain ends, in seconds since 1970.
    #[must_use]
    pub fn expires_at_s(&self) -> i64 {
        self.current.load().expires_at_s
    }
}

impl fmt::Debug for ServedCertificate {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedCertificate").field("cert", &self.cert).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().key))
    }
}

impl Current {
    fn read(cert: &Path, key: &Path) -> Result<Self, Error> {
        let chain = certificates("tls.cert", cert)?;
        let invalid =
            |reason: String| Error::File { key: "tls.cert", path: cert.to_owned(), reason };
        if chain.is_empty() {
            return Err(invalid("has no certificate".to_owned()));
        }
        let mut expires_at_s = i64::MAX;
        for certificate in &chain {
            let parsed = Certificate::from_der(certificate);
            let parsed = parsed.map_err(|error| invalid(error.to_string()))?;
            let end = parsed.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
            expires_at_s = expires_at_s.min(i64::try_from(end).unwrap_or(i64::MAX));
        }
        let pem = private_file::open(key).map_err(|error| Error::File {
            key: "tls.key",
            path: key.to_owned(),
            reason: error.to_string(),
        })?;
        let key = PrivateKeyDer::from_pem_reader(pem).map_err(refused("tls.key", key))?;
        let key = Arc::new(CertifiedKey::from_der(chain, key, &provider())?);
        Ok(Self { key, expires_at_s })
    }
}

/// The TLS acceptor for HTTP/1.1.
///
/// # Errors
/// [`Error`].
pub fn acceptor(certificate: &Arc<ServedCertificate>) -> Result<TlsAcceptor, Error> {
    acceptor_of(certificate, b"http/1.1", None)
}

/// The TLS acceptor for gRPC. With `client_ca`, clients need a certificate that one of its authorities signed.
///
/// # Errors
/// [`Error`], naming the setting.
pub fn grpc_acceptor(
    certificate: &Arc<ServedCertificate>,
    client_ca: &str,
) -> Result<TlsAcceptor, Error> {
    let clients = if client_ca.is_empty() { None } else { Some(verifier(Path::new(client_ca))?) };
    acceptor_of(certificate, b"h2", clients)
}

fn acceptor_of(
    certificate: &Arc<ServedCertificate>,
    protocol: &[u8],
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<TlsAcceptor, Error> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let resolver: Arc<dyn ResolvesServerCert> = Arc::<ServedCertificate>::clone(certificate);
    let mut server = builder.with_cert_resolver(resolver);
    server.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}

fn verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    const KEY: &str = "grpc.client_ca";
    let invalid = |reason: String| Error::File { key: KEY, path: path.to_owned(), reason };
    let mut authorities = RootCertStore::empty();
    for authority in certificates(KEY, path)? {
        authorities.add(authority).map_err(|error| invalid(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider());
    verifier.build().map_err(|error| invalid(error.to_string()))
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(refused(key, path))
}

fn refused(key: &'static str, path: &Path) -> impl Fn(rustls::pki_types::pem::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::File { key, path: path.clone(), reason: error.to_string() }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
