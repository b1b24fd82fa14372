//! TLS: the same server behind a certificate.

use std::fs::Permissions;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::Answer;
use crate::process::{Launch, Server, TempDir, faregate, run};

/// A certificate for `localhost` that signed itself. Its key is no secret.
const CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/cert.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/key.pem");

/// A copy of the key with this mode: in a checkout, others may read it.
pub fn private_key(dir: &TempDir, mode: u32) -> String {
    let path = dir.path().join("key.pem");
    std::fs::copy(KEY, &path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn requests_are_answered_over_tls_only() {
    let dir = TempDir::new();
    let key = private_key(&dir, 0o600);
    let launch = Launch::usual().env("FAREGATE_TLS_CERT", CERT).env("FAREGATE_TLS_KEY", &key);
    let server = Server::start_with(launch);
    let address = server.url.strip_prefix("https://").expect("the URL says that it is TLS");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(CERT).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!((answer.status, answer.text().as_str()), (200, r#"{"status":"live"}"#));
}

#[test]
fn the_command_line_checks_the_servers_certificate() {
    let dir = TempDir::new();
    let key = private_key(&dir, 0o600);
    let launch = Launch::usual().env("FAREGATE_TLS_CERT", CERT).env("FAREGATE_TLS_KEY", &key);
    let server = Server::start_with(launch);
    let port = server.url.rsplit_once(':').unwrap().1;
    let said = |url: &str, ca_file: &[&str]| {
        let arguments = ["tenants", "create", "--key", "shop", "--url", url];
        let mut command = faregate(&[&arguments[..], ca_file].concat());
        command.env("FAREGATE_PASSWORD", "password");
        let Output { status, stdout, stderr } = command.output().unwrap();
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    };
    let url = format!("https://localhost:{port}");
    let (code, text) = said(&url, &[]);
    assert!(code == Some(2) && text.contains("UnknownIssuer"), "{code:?}: {text}");
    let (code, text) = said(&url, &["--ca-file", KEY]);
    assert!(code == Some(2) && text.contains("key.pem has no certificate"), "{code:?}: {text}");
    let (code, text) = said(&url, &["--ca-file", CERT]);
    assert!(code == Some(0) && text.contains("apiSecret"), "{code:?}: {text}");
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let dir = TempDir::new();
    let key = private_key(&dir, 0o644);
    let file = dir.path().join("faregate.toml");
    std::fs::write(&file, format!("[tls]\ncert = \"{CERT}\"\nkey = \"{key}\"\n")).unwrap();
    let (file, path) = (file.to_str().unwrap(), dir.path().to_str().unwrap());
    let refused = run(&["serve", "--config", file, "--data-dir", path, "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("setting `tls.key`") && said.contains("chmod g-w,o="), "{said}");
}

#[test]
fn a_certificate_that_cannot_be_read_names_its_setting() {
    let dir = TempDir::new();
    let path = dir.path().to_str().unwrap();
    let file = dir.path().join("faregate.toml");
    std::fs::write(&file, format!("[tls]\ncert = \"{path}/none.pem\"\nkey = \"{KEY}\"\n")).unwrap();
    let file = file.to_str().unwrap();
    let refused = run(&["serve", "--config", file, "--data-dir", path, "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("setting `tls.cert`") && said.contains("none.pem"), "{said}");
}
