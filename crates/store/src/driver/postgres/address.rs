//! Where a server is, as a URL says it: `postgres://user:password@host:port/database?options`.

use std::net::IpAddr;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use crate::Error;

/// PostgreSQL's port, where the URL names none.
const PORT: u16 = 5432;

/// Whether TLS is used and the server's certificate is verified, in the words of the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsMode {
    Disable,
    /// TLS where the server offers it, without verifying its certificate.
    Prefer,
    /// TLS required, without verifying the certificate.
    Require,
    /// TLS with a certificate that a known authority signed.
    VerifyCa,
    /// TLS with such a certificate of the host that the URL names.
    VerifyFull,
}

const MODES: [(&str, TlsMode); 5] = [
    ("disable", TlsMode::Disable),
    ("prefer", TlsMode::Prefer),
    ("require", TlsMode::Require),
    ("verify-ca", TlsMode::VerifyCa),
    ("verify-full", TlsMode::VerifyFull),
];

impl TlsMode {
    /// The mode where the URL names none. On this machine no other listens in; elsewhere a server has to
    /// prove its identity, or any host that answers at its address would be given the password.
    fn default_for(host: &str) -> Self {
        let is_loopback = |it: IpAddr| it.to_canonical().is_loopback();
        let is_here = host.starts_with('/')
            || host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(is_loopback);
        if is_here { Self::Prefer } else { Self::VerifyFull }
    }
}

/// The parts of a URL.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// A name or an address; a directory with a socket where it begins with `/`.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) database: String,
    pub(super) tls: TlsMode,
    /// PEM file of the authorities that are believed.
    pub(super) root_cert: Option<PathBuf>,
    /// PEM files of the certificate that we show, and of its key.
    pub(super) client_cert: Option<(PathBuf, PathBuf)>,
}

/// The parts that were read so far. The names are those of the URL's options.
#[derive(Default)]
struct Draft {
    host: Option<String>,
    port: Option<u16>,
    user: Option<String>,
    password: Option<String>,
    dbname: Option<String>,
    sslmode: Option<TlsMode>,
    sslrootcert: Option<PathBuf>,
    sslcert: Option<PathBuf>,
    sslkey: Option<PathBuf>,
}

impl Address {
    /// Reads a URL, or the same as `host=... port=... user=...`.
    ///
    /// # Errors
    /// [`Error::Address`], which names the part and never repeats what could be a password.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let mut draft = Draft::default();
        let schemes = ["postgres://", "postgresql://"];
        match schemes.iter().find_map(|scheme| text.strip_prefix(scheme)) {
            Some(rest) => draft.read_url(rest)?,
            None => draft.read_words(text)?,
        }
        draft.finish()
    }

    /// The URL without its password.
    pub(super) fn shown(&self) -> String {
        let Self { host, port, user, database, .. } = self;
        let password = self.password.as_ref().map_or("", |_| ":***");
        let mode = MODES.iter().find(|(_, mode)| *mode == self.tls).map_or("", |(name, _)| name);
        let mut shown = if host.starts_with('/') {
            format!(
                "postgres://{user}{password}@/{database}?host={host}&port={port}&sslmode={mode}"
            )
        } else {
            let colon = host.contains(':');
            let host = if colon { format!("[{host}]") } else { host.clone() };
            format!("postgres://{user}{password}@{host}:{port}/{database}?sslmode={mode}")
        };
        let certificate = self.client_cert.as_ref();
        let files = [
            ("sslrootcert", self.root_cert.as_ref()),
            ("sslcert", certificate.map(|(cert, _)| cert)),
            ("sslkey", certificate.map(|(_, key)| key)),
        ];
        for (name, path) in files {
            if let Some(path) = path {
                shown.push_str(&format!("&{name}={}", path.display()));
            }
        }
        shown
    }
}

impl Draft {
    fn read_url(&mut self, rest: &str) -> Result<(), Error> {
        let (before, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = before.split_once('/').unwrap_or((before, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (user, None),
        };
        let (host, port) = match host.rsplit_once(':') {
            // Colons within brackets are those of an IPv6 address.
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            Some(_) | None => (host, None),
        };
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let parts = [("user", user), ("host", host), ("dbname", database)];
        for (name, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()) {
            self.set(name, &decoded(name, value)?)?;
        }
        for (name, value) in [("password", password), ("port", port)] {
            if let Some(value) = value {
                self.set(name, &decoded(name, value)?)?;
            }
        }
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            self.set(name, &decoded(name, value)?)?;
        }
        Ok(())
    }

    fn read_words(&mut self, text: &str) -> Result<(), Error> {
        for word in text.split_whitespace() {
            let Some((name, value)) = word.split_once('=') else {
                return refused(
                    "is no URL of a PostgreSQL database: postgres://user:password@host:port/database",
                );
            };
            if value.contains(['\'', '\\']) {
                return refused(
                    "is not a URL, and quotes are understood in a URL only: percent-encode",
                );
            }
            self.set(name, value)?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let text = || Some(value.to_owned());
        let path = || Some(PathBuf::from(value));
        match name {
            "host" => self.host = text(),
            "port" => {
                let port = value.parse().ok().filter(|port| *port > 0);
                let Some(port) = port else {
                    return refused("its port is no number from 1 to 65535");
                };
                self.port = Some(port);
            }
            "user" => self.user = text(),
            "password" => self.password = text(),
            "dbname" => self.dbname = text(),
            "sslmode" => {
                let mode = MODES.iter().find(|(name, _)| *name == value);
                let Some((_, mode)) = mode else {
                    let names = MODES.map(|(name, _)| name).join(", ");
                    return refused(&format!("its option `sslmode` is one of {names}"));
                };
                self.sslmode = Some(*mode);
            }
            "sslrootcert" => self.sslrootcert = path(),
            "sslcert" => self.sslcert = path(),
            "sslkey" => self.sslkey = path(),
            "connect_timeout" | "statement_timeout" => {
                let instead = format!("`{name}` is set by `database.{name}`, not in the URL");
                return refused(&instead);
            }
            // Not repeated if it could be part of a password that has an `&` or a `?`.
            _ if name.len() > 32 || !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => {
                return refused(
                    "has an option that is not known; special characters in a password are percent-encoded",
                );
            }
            _ => return refused(&format!("has an option `{name}`, which is not known")),
        }
        Ok(())
    }

    fn finish(self) -> Result<Address, Error> {
        let Some(user) = self.user else { return refused("names no user") };
        let Some(host) = self.host else { return refused("names no host") };
        if host.contains(',') {
            return refused("names more than one host");
        }
        let client_cert = match (self.sslcert, self.sslkey) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                return refused("has `sslcert` and `sslkey` together or not at all");
            }
        };
        Ok(Address {
            tls: self.sslmode.unwrap_or_else(|| TlsMode::default_for(&host)),
            host,
            port: self.port.unwrap_or(PORT),
            database: self.dbname.unwrap_or_else(|| user.clone()),
            user,
            password: self.password,
            root_cert: self.sslrootcert,
            client_cert,
        })
    }
}

fn decoded(name: &str, value: &str) -> Result<String, Error> {
    match percent_decode_str(value).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) if name.len() <= 32 => refused(&format!("its {name} is no UTF-8 once decoded")),
        Err(_) => refused("is no UTF-8 once decoded"),
    }
}

fn refused<T>(reason: &str) -> Result<T, Error> {
    Err(Error::Address { reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let shown = match Address::parse(text) {
            Ok(address) => format!("{} {:?}", address.shown(), address.password),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_url_says_where_the_server_is() {
        check(
            "postgres://faregate:s%40cr%3At@db.example.org:6432/billing?sslmode=verify-full&sslrootcert=/etc/ca.pem",
            expect![[
                r#"postgres://faregate:***@db.example.org:6432/billing?sslmode=verify-full&sslrootcert=/etc/ca.pem Some("s@cr:t")"#
            ]],
        );
        check("postgresql://me@[::1]", expect!["postgres://me@[::1]:5432/me?sslmode=prefer None"]);
        check(
            "postgres://me:p@ss@localhost/x",
            expect![[r#"postgres://me:***@localhost:5432/x?sslmode=prefer Some("p@ss")"#]],
        );
        check("postgres://me@db/x", expect!["postgres://me@db:5432/x?sslmode=verify-full None"]);
        check(
            "postgres:///x?host=/run/postgresql&user=me",
            expect!["postgres://me@/x?host=/run/postgresql&port=5432&sslmode=prefer None"],
        );
        check(
            "postgres:///x?host=/run/postgresql&user=me&sslmode=disable",
            expect!["postgres://me@/x?host=/run/postgresql&port=5432&sslmode=disable None"],
        );
        check(
            "host=127.0.0.1 port=1 user=me dbname=x sslcert=c sslkey=k",
            expect!["postgres://me@127.0.0.1:1/x?sslmode=prefer&sslcert=c&sslkey=k None"],
        );
    }

    #[test]
    fn invalid_address_is_named_without_its_password() {
        for (text, expected) in [
            (
                "mysql://me:secret@here",
                expect![
                    "is no URL of a PostgreSQL database: postgres://user:password@host:port/database"
                ],
            ),
            ("postgres://me:secret@here:0/x", expect!["its port is no number from 1 to 65535"]),
            ("postgres://:secret@here/x", expect!["names no user"]),
            ("postgres://me:secret@/x", expect!["names no host"]),
            ("postgres://me:secret@a,b/x", expect!["names more than one host"]),
            (
                "postgres://me:secret@here/x?sslmode=yes",
                expect![
                    "its option `sslmode` is one of disable, prefer, require, verify-ca, verify-full"
                ],
            ),
            (
                "postgres://me:secret@here/x?pool=3",
                expect!["has an option `pool`, which is not known"],
            ),
            (
                "postgres://me:a?Secret-secret@here/x",
                expect!["its port is no number from 1 to 65535"],
            ),
            (
                "postgres://me@here/x?Of-a-secret-password=1",
                expect![
                    "has an option that is not known; special characters in a password are percent-encoded"
                ],
            ),
            (
                "postgres://me:secret@here/x?connect_timeout=3",
                expect!["`connect_timeout` is set by `database.connect_timeout`, not in the URL"],
            ),
            (
                "postgres://me:secret@here/x?sslcert=a",
                expect!["has `sslcert` and `sslkey` together or not at all"],
            ),
            ("postgres://me:%ffsecret@here/x", expect!["its password is no UTF-8 once decoded"]),
        ] {
            check(text, expected);
            let error = Address::parse(text).err().unwrap().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
