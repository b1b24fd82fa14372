//! A running server, as named by `--url` or `--targets`.

use std::net::{SocketAddr, ToSocketAddrs};

/// The server that requests go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `host:port` as it goes into the `Host` header.
    pub authority: String,
    /// The address to connect to.
    pub address: SocketAddr,
}

/// Why a URL is refused.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// TLS is not supported: it would measure the client.
    #[error("{option} {url}: only http is spoken here; name the plain listener")]
    Https {
        option: &'static str,
        /// The URL as given.
        url: String,
    },
    /// The URL is not `http://HOST:PORT`.
    #[error("{option} {url}: expected http://HOST:PORT, without a path")]
    Shape {
        option: &'static str,
        /// The URL as given.
        url: String,
    },
    /// The name does not resolve.
    #[error("{option} {url}: {source}")]
    Resolve {
        option: &'static str,
        /// The URL as given.
        url: String,
        /// The resolver's error.
        source: std::io::Error,
    },
}

impl Target {
    /// Reads `http://HOST:PORT` (IPv4, `[IPv6]` or a name; port 80 by default) as given to an
    /// option.
    pub fn parse(option: &'static str, url: &str) -> Result<Self, TargetError> {
        match Self::parse_any(option, url)? {
            (target, Scheme::Http) => Ok(target),
            (_, Scheme::Https) => Err(TargetError::Https { option, url: url.to_owned() }),
        }
    }

    /// The same, or `https://HOST:PORT` (port 443 by default).
    pub fn parse_any(option: &'static str, url: &str) -> Result<(Self, Scheme), TargetError> {
        let (authority, scheme) = authority(option, url)?;
        let resolve = |source| TargetError::Resolve { option, url: url.to_owned(), source };
        let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, "no address");
        let address = authority
            .to_socket_addrs()
            .and_then(|mut addresses| addresses.next().ok_or_else(missing))
            .map_err(resolve)?;
        Ok((Self { authority, address }, scheme))
    }
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

fn authority(option: &'static str, url: &str) -> Result<(String, Scheme), TargetError> {
    let shape = || TargetError::Shape { option, url: url.to_owned() };
    let (rest, scheme) = match url.split_once("://") {
        None => (url, Scheme::Http),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (rest, Scheme::Http),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (rest, Scheme::Https),
        Some(_) => return Err(shape()),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || "/?#@\\".contains(c);
    if authority.is_empty() || authority.contains(forbidden) {
        return Err(shape());
    }
    let host_end = match authority.strip_prefix('[') {
        Some(inner) => inner.find(']').map(|end| end + 2).ok_or_else(shape)?,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    match &authority[host_end..] {
        "" => {
            let port = if scheme == Scheme::Https { 443 } else { 80 };
            Ok((format!("{authority}:{port}"), scheme))
        }
        port if port.starts_with(':') && port[1..].parse::<u16>().is_ok_and(|port| port > 0) => {
            Ok((authority.to_owned(), scheme))
        }
        _ => Err(shape()),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(url: &str, expected: Expect) {
        let rendered = match Target::parse("--url", url) {
            Ok(target) => format!("{} at {}", target.authority, target.address),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&rendered);
    }

    fn is_shape(url: &str) -> bool {
        matches!(authority("--url", url), Err(TargetError::Shape { .. }))
    }

    #[test]
    fn host_and_port_are_read() {
        check("http://127.0.0.1:8080", expect!["127.0.0.1:8080 at 127.0.0.1:8080"]);
        check("http://127.0.0.1:8080/", expect!["127.0.0.1:8080 at 127.0.0.1:8080"]);
        check("HTTP://[::1]:8080", expect!["[::1]:8080 at [::1]:8080"]);
        check("127.0.0.1", expect!["127.0.0.1:80 at 127.0.0.1:80"]);
        check("http://[::1]", expect!["[::1]:80 at [::1]:80"]);
    }

    #[test]
    fn other_schemes_paths_and_ports_are_refused() {
        check(
            "https://127.0.0.1:8443",
            expect![
                "--url https://127.0.0.1:8443: only http is spoken here; name the plain listener"
            ],
        );
        for url in
            ["", "http://", "ftp://h:1", "http://h:1/kb", "http://u:p@h:1", "h:0", "h:65536", "h:x"]
        {
            assert!(is_shape(url), "{url}");
        }
        assert!(is_shape("http://[::1") && is_shape("http://[::1]8080"));
    }
}
