//! Validates the URLs and addresses of callbacks. A tenant chooses the URL, so it must not lead to
//! internal addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::Uri;

/// The maximum length of a callback's URL.
pub const URL_BYTES_MAX: usize = 2_048;

/// Ports below are assigned to other services, which must not be called in our name.
const FREE_PORTS_FROM: u16 = 1_024;

/// The addresses that callbacks may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Public,
    /// Public addresses, private networks and this machine: for tests and internal receivers.
    PublicAndPrivate,
}

/// Gives the addresses of a host and a port.
type Resolve = dyn Fn(&str, u16) -> Vec<SocketAddr> + Send + Sync;

/// The error for a host that cannot be called. It is the same where the name does not exist and where it leads
/// inside: otherwise tenants would learn which names the operator's network has.
const NO_ADDRESS: &str = "the host has no address, or none that may be called";

/// Finds the addresses of a host.
#[derive(Clone)]
pub enum Resolver {
    /// The system's.
    System,
    /// A function of the host and the port, for tests of what a resolver may answer.
    Function(Arc<Resolve>),
}

impl Resolver {
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        match self {
            Self::System => {
                let found = tokio::net::lookup_host((host, port)).await;
                Ok(found.map_err(|_| NO_ADDRESS.to_owned())?.collect())
            }
            Self::Function(resolve) => Ok(resolve(host, port)),
        }
    }
}

/// Why a URL cannot be a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// The text is not a URL.
    #[error("is not a URL")]
    NotAUrl,
    /// The URL is longer than [`URL_BYTES_MAX`].
    #[error("is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// The scheme is neither http nor https.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// The URL has a user or password.
    #[error("must have no user or password")]
    User,
    /// The URL has no host.
    #[error("has no host")]
    NoHost,
    /// The scheme is not https, where it has to be.
    #[error("must begin with https://")]
    Plain,
    /// The port is one of another service.
    #[error("has a port other than 443 and 1024 to 65535")]
    Port,
    /// The address is not public.
    #[error("leads to an address that is not public")]
    NotPublic,
}

/// The parts of a callback's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    pub is_tls: bool,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    /// The value of the `Host` header.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

/// Checks whether a URL can be a callback. A host name is resolved, and its address checked, with each
/// delivery.
///
/// # Errors
/// [`CallbackError`], for the client that registers the callback.
pub fn validate_callback(url: &str, reach: Reach) -> Result<(), CallbackError> {
    let callback = Callback::parse(url)?;
    match callback.host.parse::<IpAddr>() {
        Ok(address) if !reach.allows(address) => Err(CallbackError::NotPublic),
        // Resolvers read it as an address in another spelling.
        Err(_) if ends_in_number(&callback.host) => Err(CallbackError::NotPublic),
        // `localhost` is this machine without a lookup (RFC 6761).
        Err(_) if is_localhost(&callback.host) && reach == Reach::Public => {
            Err(CallbackError::NotPublic)
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// As [`validate_callback`], for a URL that comes with one request: HTTPS, at a port where a callback can be
/// expected. Plain HTTP leads to this machine only, where `reach` allows that.
///
/// # Errors
/// [`CallbackError`], for the client of the request.
pub fn validate_request_callback(url: &str, reach: Reach) -> Result<(), CallbackError> {
    let Callback { is_tls, host, port, .. } = Callback::parse(url)?;
    let is_here = host.parse().map_or_else(|_| is_localhost(&host), |it: IpAddr| it.is_loopback());
    let may_be_plain = is_here && reach == Reach::PublicAndPrivate;
    if !is_tls && !may_be_plain {
        return Err(CallbackError::Plain);
    }
    if port != 443 && port < FREE_PORTS_FROM {
        return Err(CallbackError::Port);
    }
    validate_callback(url, reach)
}

/// Whether the last label of a host is a number, as that of an address in one of IPv4's older spellings.
fn ends_in_number(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_hexadecimal = |digits: &str| digits.bytes().all(|it| it.is_ascii_hexdigit());
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    !last.is_empty() && last.bytes().all(|it| it.is_ascii_digit())
        || hexadecimal.is_some_and(is_hexadecimal)
}

fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

impl Callback {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`CallbackError`].
    pub fn parse(url: &str) -> Result<Self, CallbackError> {
        if url.len() > URL_BYTES_MAX {
            return Err(CallbackError::TooLong);
        }
        let uri: Uri = url.parse().map_err(|_| CallbackError::NotAUrl)?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err(CallbackError::Scheme),
        };
        let authority = uri.authority().ok_or(CallbackError::NoHost)?;
        if authority.as_str().contains('@') {
            return Err(CallbackError::User);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(CallbackError::NoHost);
        }
        // Resolvers may read what is encoded, and zones are of this machine's network.
        let is_address = authority.host().starts_with('[');
        if host.contains('%') || is_address && host.parse::<Ipv6Addr>().is_err() {
            return Err(CallbackError::NotAUrl);
        }
        let port = match (authority.port_u16(), is_tls) {
            (Some(port), _) => port,
            // The text behind the host is not a port.
            (None, _) if authority.host() != authority.as_str() => {
                return Err(CallbackError::NotAUrl);
            }
            (None, true) => 443,
            (None, false) => 80,
        };
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port,
            authority: authority.as_str().to_owned(),
            target: uri.path_and_query().map_or("/", |target| target.as_str()).to_owned(),
        })
    }

    /// Resolves the host and returns an allowed address, to be connected to as it is: another look-up may find
    /// another one.
    ///
    /// # Errors
    /// The host has no address that may be called.
    pub async fn address_by(
        &self,
        resolver: &Resolver,
        reach: Reach,
    ) -> Result<SocketAddr, String> {
        let found = resolver.addresses(&self.host, self.port).await?;
        found
            .into_iter()
            .find(|address| reach.allows(address.ip()))
            .ok_or_else(|| NO_ADDRESS.to_owned())
    }
}

impl Reach {
    const fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Public => is_public(address),
            Self::PublicAndPrivate => is_public(address) || is_private(address),
        }
    }
}

/// This machine and private networks, without the metadata services of clouds.
const fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => {
            let is_metadata = matches!(address.segments(), [0xfd00, 0x0ec2, ..]);
            address.is_loopback() || address.is_unique_local() && !is_metadata
        }
    }
}

const fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// All addresses except those that IANA's registry of special-purpose addresses excludes.
const fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || address.is_private()
        || a == 100 && b & 0xc0 == 64 // Carrier-grade NAT.
        || address.is_loopback()
        || address.is_link_local() // Metadata services of clouds.
        || a == 192 && b == 0 && c == 0
        || address.is_documentation()
        || a == 192 && b == 88 && c == 99
        || a == 198 && b & 0xfe == 18 // Benchmarks.
        || a >= 224)
}

/// Global unicast without the ranges that embed an IPv4 address, which would bypass [`is_public_v4`].
/// Mapped and translated addresses are outside of global unicast.
const fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    first & 0xe000 == 0x2000
        && !(first == 0x2001 && second < 0x0200) // Teredo and other protocol assignments.
        && !(first == 0x2001 && second == 0x0db8)
        && first != 0x2002
        && first != 0x3fff
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(url: &str, expected: Expect) {
        check_by(validate_callback, url, expected);
    }

    fn check_by(
        validate: fn(&str, Reach) -> Result<(), CallbackError>,
        url: &str,
        expected: Expect,
    ) {
        let shown = |reach| match validate(url, reach) {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        let (public, private) = (shown(Reach::Public), shown(Reach::PublicAndPrivate));
        expected.assert_eq(&if public == private {
            public
        } else {
            format!("{public}; else: {private}")
        });
    }

    #[test]
    fn urls_of_requests_are_encrypted_and_call_no_other_service() {
        let check = |url: &str, expected| check_by(validate_request_callback, url, expected);
        check("https://example.com/cb", expect!["ok"]);
        check("https://example.com:443", expect!["ok"]);
        check("https://example.com:1024", expect!["ok"]);
        check("http://example.com/cb", expect!["must begin with https://"]);
        for port in [22, 25, 80, 465, 1_023] {
            let expected = expect!["has a port other than 443 and 1024 to 65535"];
            check(&format!("https://example.com:{port}"), expected);
        }
        check(
            "https://127.0.0.1:8443",
            expect!["leads to an address that is not public; else: ok"],
        );
        check("http://127.0.0.1:8080", expect!["must begin with https://; else: ok"]);
        check("http://localhost:8080", expect!["must begin with https://; else: ok"]);
        check("http://[::1]:8080", expect!["must begin with https://; else: ok"]);
        check("http://10.0.0.1:8080", expect!["must begin with https://"]);
        check(
            "http://127.0.0.1/",
            expect!["must begin with https://; else: has a port other than 443 and 1024 to 65535"],
        );
        check("nothing", expect!["must begin with http:// or https://"]);
    }

    #[test]
    fn urls_are_validated_by_their_reach() {
        check("http://example.com/cb?a=b", expect!["ok"]);
        check("https://example.com", expect!["ok"]);
        check("https://8.8.8.8:8443/cb", expect!["ok"]);
        check("http://[2606:4700::1111]/cb", expect!["ok"]);
        check("ftp://example.com/", expect!["must begin with http:// or https://"]);
        check("/cb", expect!["must begin with http:// or https://"]);
        check("example.com", expect!["must begin with http:// or https://"]);
        check("http://", expect!["is not a URL"]);
        check("http:///cb", expect!["is not a URL"]);
        check("http://a b/", expect!["is not a URL"]);
        check("", expect!["is not a URL"]);
        check("http://user:secret@example.com/", expect!["must have no user or password"]);
        check("http://example.com:99999/", expect!["is not a URL"]);
        check(
            &format!("http://example.com/{}", "x".repeat(2_048)),
            expect!["is longer than 2048 bytes"],
        );
        check("http://127.0.0.1:9/cb", expect!["leads to an address that is not public; else: ok"]);
        check("http://localhost/", expect!["leads to an address that is not public; else: ok"]);
        check(
            "http://a.LocalHost.:9/",
            expect!["leads to an address that is not public; else: ok"],
        );
        check("http://localhost.example/", expect!["ok"]);
        for number in
            ["2130706433", "0x7f000001", "0X7F.1", "127.1", "0177.0.0.1", "a.0x", "8.8.8."]
        {
            let expected = expect!["leads to an address that is not public"];
            check(&format!("http://{number}/"), expected);
        }
        check("http://0x7f.example/", expect!["ok"]);
        check("http://8.8.8.8./", expect!["leads to an address that is not public"]);
        check("http://[::1]:9/cb", expect!["leads to an address that is not public; else: ok"]);
        check("http://169.254.169.254/latest", expect!["leads to an address that is not public"]);
    }

    #[test]
    fn addresses_that_are_not_public_are_refused() {
        let refused = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:8.8.8.8",
            "::ffff:127.0.0.1",
            "64:ff9b::808:808",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "100::1",
        ];
        for address in refused {
            assert!(!Reach::Public.allows(address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "100.63.0.1", "172.32.0.1", "198.20.0.1", "2a00::1", "2600::1"] {
            assert!(Reach::Public.allows(address.parse().unwrap()), "{address}");
        }
        for address in [
            "169.254.169.254",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "::",
            "fe80::1",
            "224.0.0.1",
        ] {
            assert!(!Reach::PublicAndPrivate.allows(address.parse().unwrap()), "{address}");
        }
        for address in ["127.0.0.1", "10.1.2.3", "192.168.0.1", "::1", "fd12::1", "1.1.1.1"] {
            assert!(Reach::PublicAndPrivate.allows(address.parse().unwrap()), "{address}");
        }
    }

    #[tokio::test]
    async fn names_that_exist_inside_are_refused_as_those_that_do_not() {
        let said = async |resolver: Resolver| {
            let to = Callback::parse("http://name.invalid/cb").unwrap();
            to.address_by(&resolver, Reach::Public).await.unwrap_err()
        };
        let inside = |_: &str, port| vec![SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), port))];
        let missing = said(Resolver::System).await;
        assert_eq!(said(Resolver::Function(Arc::new(inside))).await, missing);
        assert_eq!(said(Resolver::Function(Arc::new(|_, _| vec![]))).await, missing);
    }
}
