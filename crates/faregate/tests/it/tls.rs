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

use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir, eventually, faregate, run};

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

/// Another one.
const NEXT_CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/next-cert.pem");
const NEXT_KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/next-key.pem");

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

fn certificate(file: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).unwrap()
}

/// A connection to a server with one of the certificates, after its handshake.
fn connect(address: &str) -> TlsStream {
    let mut roots = RootCertStore::empty();
    for file in [CERT, NEXT_CERT] {
        roots.add(certificate(file)).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    connection.complete_io(&mut stream).unwrap();
    StreamOwned::new(connection, stream)
}

fn get_live(stream: &mut TlsStream) -> Answer {
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    Answer::read(stream)
}

/// Waits until the ports serve a certificate.
fn wait_for(addresses: &[&str], file: &str) {
    let wanted = certificate(file);
    for address in addresses {
        eventually(&format!("{address} serves {file}"), || {
            let stream = connect(address);
            (stream.conn.peer_certificates().unwrap()[0] == wanted).then_some(())
        });
    }
}

#[test]
fn requests_are_answered_over_tls_only() {
    let dir = TempDir::new();
    let key = private_key(&dir, 0o600);
    let launch = Launch::usual().env("FAREGATE_TLS_CERT", CERT).env("FAREGATE_TLS_KEY", &key);
    let server = Server::start_with(launch);
    let address = server.url.strip_prefix("https://").expect("the URL says that it is TLS");
    let answer = get_live(&mut connect(address));
    assert_eq!((answer.status, answer.text().as_str()), (200, r#"{"status":"live"}"#));
}

#[test]
fn a_certificate_is_renewed_without_a_restart() {
    let dir = TempDir::new();
    let (cert, key) = (dir.path().join("cert.pem"), private_key(&dir, 0o600));
    std::fs::copy(CERT, &cert).unwrap();
    let launch = Launch::usual()
        .grpc()
        .env("FAREGATE_TLS_CERT", cert.to_str().unwrap())
        .env("FAREGATE_TLS_KEY", &key)
        .env("FAREGATE_OPERATIONS_LISTEN", "127.0.0.1:0");
    let server = Server::start_with(launch);
    let http = server.url.strip_prefix("https://").unwrap();
    let grpc = server.grpc_url.as_ref().unwrap().strip_prefix("https://").unwrap();
    let operations = Client::new(server.operations_url.as_ref().unwrap());
    let shows = |metric: &str| {
        eventually(metric, || operations.get("/metrics").text().contains(metric).then_some(()));
    };
    wait_for(&[http, grpc], CERT);
    shows("\nfaregate_tls_certificate_expiry_timestamp_seconds 4948786713\n");
    let mut open = connect(http);
    // Half of it: the old one is served on.
    std::fs::copy(NEXT_CERT, &cert).unwrap();
    server.signal("-HUP");
    shows("\nfaregate_tls_reloads_total{result=\"failed\"} 1\n");
    wait_for(&[http, grpc], CERT);
    std::fs::write(&key, std::fs::read(NEXT_KEY).unwrap()).unwrap();
    server.signal("-HUP");
    wait_for(&[http, grpc], NEXT_CERT);
    shows("\nfaregate_tls_certificate_expiry_timestamp_seconds 4949550817\n");
    assert_eq!(get_live(&mut open).status, 200, "an open connection goes on");
    // Without a signal too.
    std::fs::copy(CERT, &cert).unwrap();
    std::fs::write(&key, std::fs::read(KEY).unwrap()).unwrap();
    wait_for(&[http, grpc], CERT);
    drop(open);
    let (status, said) = server.stop();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("the old one is served"), "{said}");
    assert_eq!(said.matches("a new certificate is served").count(), 2, "{said}");
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
