//! TLS to the server, as far as each `sslmode` goes.

use std::fs;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use expect_test::{Expect, expect};
use store::{Reader, Server};
use tempfile::tempdir;

use super::Scratch;

/// Gives the server a certificate of these names, and yields it.
fn enable(scratch: &Scratch, names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).unwrap();
    let cert = pem("CERTIFICATE", cert.der());
    let key = pem("PRIVATE KEY", signing_key.serialized_der());
    // The server takes no key that others can read; a program runs in its directory.
    for (file, text) in [("test.crt", &cert), ("test.key", &key)] {
        let lines = format!("string_to_table('{text}', E'\\n')");
        let program = format!("umask 077 && cat > {file}");
        scratch.run(&format!("COPY (SELECT {lines}) TO PROGRAM '{program}'"));
    }
    for sql in [
        "ALTER SYSTEM SET ssl_cert_file = 'test.crt'",
        "ALTER SYSTEM SET ssl_key_file = 'test.key'",
        "ALTER SYSTEM SET ssl = on",
        "SELECT pg_reload_conf()",
    ] {
        scratch.run(sql);
    }
    // The server takes its settings over when it comes to it.
    let files = tempdir().unwrap();
    let root = files.path().join("root.pem");
    fs::write(&root, &cert).unwrap();
    let trusting = format!("{} sslmode=verify-ca sslrootcert={}", scratch.server, root.display());
    let server = Server::parse(&format!("{trusting} dbname={}", scratch.name)).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while let Err(error) = Reader::connect(&server) {
        assert!(Instant::now() < until, "{error}");
    }
    cert
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----", lines.join("\n"))
}

/// Whether a connection with these options is made, and is encrypted.
fn check(scratch: &Scratch, options: &str, expected: Expect) {
    let server = format!("{} dbname={} {options}", scratch.server, scratch.name);
    let connected = Server::parse(&server).map_err(|error| error.to_string()).and_then(|server| {
        let reader = Reader::connect(&server).map_err(|error| error.to_string())?;
        let sql = "SELECT ssl::int::bigint FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        reader.query_one(sql, &[], |it| it.int()).map_err(|error| error.to_string())
    });
    let said = match connected {
        Ok(Some(1)) => "encrypted".to_owned(),
        Ok(_) => "in clear".to_owned(),
        Err(error) => error,
    };
    let port = scratch.server.split_whitespace().find_map(|it| it.strip_prefix("port="));
    expected.assert_eq(&said.replace(port.unwrap(), "PORT"));
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_servers_certificate_is_believed_as_far_as_the_url_says() {
    let scratch = Scratch::new();
    let files = tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    let cert = enable(&scratch, &["127.0.0.1"]);
    fs::write(path("right.pem"), &cert).unwrap();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(path("other.pem"), pem("CERTIFICATE", other.cert.der())).unwrap();
    let (right, other) = (path("right.pem"), path("other.pem"));

    check(&scratch, "sslmode=disable", expect!["in clear"]);
    check(&scratch, "sslmode=prefer", expect!["encrypted"]);
    check(&scratch, "", expect!["encrypted"]);
    check(&scratch, "sslmode=require", expect!["encrypted"]);
    check(&scratch, &format!("sslmode=verify-full sslrootcert={right}"), expect!["encrypted"]);
    check(&scratch, &format!("sslmode=verify-ca sslrootcert={right}"), expect!["encrypted"]);
    check(
        &scratch,
        &format!("sslmode=verify-full sslrootcert={other}"),
        expect![
            "no connection to the database: 127.0.0.1:PORT: error performing TLS handshake: invalid peer certificate: BadSignature"
        ],
    );
    check(
        &scratch,
        &format!("sslmode=verify-ca sslrootcert={other}"),
        expect![
            "no connection to the database: 127.0.0.1:PORT: error performing TLS handshake: invalid peer certificate: BadSignature"
        ],
    );
    check(
        &scratch,
        &format!("sslmode=require sslrootcert={other}"),
        expect![
            "no connection to the database: 127.0.0.1:PORT: error performing TLS handshake: invalid peer certificate: BadSignature"
        ],
    );
    check(
        &scratch,
        "sslmode=verify-full",
        expect![
            "no connection to the database: 127.0.0.1:PORT: error performing TLS handshake: invalid peer certificate: UnknownIssuer"
        ],
    );

    // The same server, by another name: only one of the modes looks at it.
    let cert = enable(&scratch, &["db.example.org"]);
    fs::write(path("right.pem"), &cert).unwrap();
    check(&scratch, &format!("sslmode=verify-ca sslrootcert={right}"), expect!["encrypted"]);
    check(
        &scratch,
        &format!("sslmode=verify-full sslrootcert={right}"),
        expect![[
            r#"no connection to the database: 127.0.0.1:PORT: error performing TLS handshake: invalid peer certificate: certificate not valid for name "127.0.0.1"; certificate is only valid for DnsName("db.example.org")"#
        ]],
    );

    fs::write(path("none.pem"), "nothing").unwrap();
    let none = path("none.pem");
    let refused = Server::parse(&format!("{} sslrootcert={none}", scratch.server)).unwrap_err();
    let refused = refused.to_string().replace(&none, "FILE");
    expect!["its option `sslrootcert`: FILE: it has no certificate"].assert_eq(&refused);
}
