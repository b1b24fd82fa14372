//! TLS for the listener, from two PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read, or holds nothing of use.
    #[error("setting `{key}`: {path}: {reason}")]
    File {
        /// Which setting.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Certificate and key do not belong together, or are of a kind that is not supported.
    #[error("settings `tls.cert` and `tls.key`: {0}")]
    Pair(#[from] rustls::Error),
}

/// What accepts TLS connections; `None` where there is no TLS.
///
/// # Errors
/// [`Error`], naming the setting.
pub fn acceptor(tls: &Tls) -> Result<Option<TlsAcceptor>, Error> {
    if tls.cert.is_empty() {
        return Ok(None);
    }
    let (cert, key) = (Path::new(&tls.cert), Path::new(&tls.key));
    let refused = |key: &'static str, path: &Path| {
        let path = path.to_owned();
        move |error: rustls::pki_types::pem::Error| Error::File {
            key,
            path,
            reason: error.to_string(),
        }
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain = chain.map_err(refused("tls.cert", cert))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(refused("tls.key", key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}
