//! TLS for the listeners, from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use secrets::private_file;
use tokio_rustls::TlsAcceptor;

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

/// The TLS acceptor for HTTP/1.1; `None` without TLS.
///
/// # Errors
/// [`Error`], naming the setting.
pub fn acceptor(tls: TlsFiles<'_>) -> Result<Option<TlsAcceptor>, Error> {
    acceptor_of(tls, b"http/1.1", None)
}

/// The TLS acceptor for gRPC; `None` without TLS. With `client_ca`, clients need a certificate that one
/// of its authorities signed.
///
/// # Errors
/// [`Error`], naming the setting.
pub fn grpc_acceptor(tls: TlsFiles<'_>, client_ca: &str) -> Result<Option<TlsAcceptor>, Error> {
    let clients = if client_ca.is_empty() { None } else { Some(verifier(Path::new(client_ca))?) };
    acceptor_of(tls, b"h2", clients)
}

fn acceptor_of(
    tls: TlsFiles<'_>,
    protocol: &[u8],
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<Option<TlsAcceptor>, Error> {
    if tls.cert.is_empty() {
        return Ok(None);
    }
    let chain = certificates("tls.cert", Path::new(tls.cert))?;
    let key = Path::new(tls.key);
    let pem = private_file::open(key).map_err(|error| Error::File {
        key: "tls.key",
        path: key.to_owned(),
        reason: error.to_string(),
    })?;
    let key = PrivateKeyDer::from_pem_reader(pem).map_err(refused("tls.key", key))?;
    let builder =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder.with_single_cert(chain, key)?;
    server.alpn_protocols = vec![protocol.to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
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
