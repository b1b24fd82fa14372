//! TLS to a server: whose certificate is believed, as the URL's `sslmode` says.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use secrets::private_file;

use super::address::{Address, TlsMode};
use crate::Error;

/// How TLS is spoken with a server; `None` for not at all.
///
/// # Errors
/// [`Error::Address`], which names the option.
pub(super) fn client(address: &Address) -> Result<Option<ClientConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // A root certificate that is named is for verifying with, as libpq sees it too.
    let mode = match (address.tls, &address.root_cert) {
        (TlsMode::Disable, _) => return Ok(None),
        (TlsMode::Require, Some(_)) => TlsMode::VerifyCa,
        (mode, _) => mode,
    };
    let roots = Arc::new(roots(address.root_cert.as_deref())?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let verifier = verifier.build().map_err(|error| refused("sslrootcert", &error))?;
    let verifier: Arc<dyn ServerCertVerifier> = match mode {
        TlsMode::VerifyFull => verifier,
        TlsMode::VerifyCa => {
            Arc::new(Lenient { authorities: Some(verifier), provider: Arc::clone(&provider) })
        }
        TlsMode::Require | TlsMode::Prefer | TlsMode::Disable => {
            Arc::new(Lenient { authorities: None, provider: Arc::clone(&provider) })
        }
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused("sslmode", &error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some((cert, key)) = &address.client_cert else {
        return Ok(Some(builder.with_no_client_auth()));
    };
    let chain = certificates("sslcert", cert)?;
    let pem = private_file::open(key).map_err(|error| unreadable("sslkey", key, &error))?;
    let key =
        PrivateKeyDer::from_pem_reader(pem).map_err(|error| unreadable("sslkey", key, &error))?;
    let config = builder.with_client_auth_cert(chain, key);
    Ok(Some(config.map_err(|error| refused("sslcert", &error))?))
}

/// The authorities in a file; without one, those that browsers believe.
fn roots(file: Option<&Path>) -> Result<RootCertStore, Error> {
    let Some(file) = file else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("sslrootcert", file)? {
        roots.add(certificate).map_err(|error| refused("sslrootcert", &error))?;
    }
    Ok(roots)
}

fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let all = all.map_err(|error| unreadable(option, file, &error))?;
    if all.is_empty() {
        return Err(unreadable(option, file, &"it has no certificate"));
    }
    Ok(all)
}

fn unreadable(option: &str, file: &Path, error: &dyn std::fmt::Display) -> Error {
    refused(option, &format!("{}: {error}", file.display()))
}

fn refused(option: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Address { reason: format!("its option `{option}`: {error}") }
}

/// Believes less than `verify-full`: the authorities' certificates whatever host they name, or all.
#[derive(Debug)]
struct Lenient {
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified = authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The name is looked at last: everything else held.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
