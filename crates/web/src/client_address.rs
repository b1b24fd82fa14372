//! Where a request comes from: its peer, or what proxies that are trusted say.

use std::net::{IpAddr, SocketAddr};

use engine::access::{ClientAddress, Peer};
use http::HeaderMap;
use http::header::HeaderName;

use crate::network::Network;

/// The addresses that a request came by, as each proxy adds the one it got it from.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers that proxies add to the requests that they hand on, whether they are trusted or not.
const HANDED_ON: [HeaderName; 4] = [
    FORWARDED_FOR,
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("via"),
];

/// Whether the peer is a program on this machine that asks for itself, where such are exempt from limits. A local
/// proxy that adds no header cannot be distinguished from one: exempt none where others reach the server.
pub fn peer(peer: IpAddr, headers: &HeaderMap, exempts_local: bool) -> Peer {
    let is_handed_on = || HANDED_ON.iter().any(|name| headers.contains_key(name));
    Peer { is_local: exempts_local && peer.to_canonical().is_loopback() && !is_handed_on() }
}

/// The last address on the request's path that is not a trusted proxy. A client can forge the
/// addresses before it.
pub fn address(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> ClientAddress {
    let is_trusted = |address: IpAddr| trusted.iter().any(|it| it.contains(address));
    let mut last = peer.to_canonical();
    let hops = headers.get_all(FORWARDED_FOR).iter().rev();
    let mut hops = hops.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
    while is_trusted(last)
        && let Some(before) = hops.next().and_then(read)
    {
        last = before;
    }
    ClientAddress(last)
}

/// An address; some proxies write the port too.
fn read(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?.trim();
    let with_port = || hop.parse().map(|it: SocketAddr| it.ip());
    hop.parse().or_else(|_| with_port()).ok().map(|it: IpAddr| it.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request from `peer` with these headers, where 10.0.0.0/8 and ::1 are trusted.
    fn check(peer: &str, forwarded_for: &[&str], expected: &str) {
        let trusted = ["10.0.0.0/8", "::1"].map(|it| it.parse().unwrap());
        let mut headers = HeaderMap::new();
        for value in forwarded_for {
            headers.append(FORWARDED_FOR, value.parse().unwrap());
        }
        let found = address(peer.parse().unwrap(), &headers, &trusted);
        assert_eq!(found, ClientAddress(expected.parse().unwrap()), "{peer} {forwarded_for:?}");
    }

    #[test]
    fn only_what_trusted_proxies_add_is_believed() {
        check("192.0.2.1", &[], "192.0.2.1");
        check("192.0.2.1", &["192.0.2.9"], "192.0.2.1");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &["192.0.2.9"], "192.0.2.9");
        check("10.0.0.1", &["1.1.1.1, 192.0.2.9"], "192.0.2.9");
        check("10.0.0.1", &["1.1.1.1, 192.0.2.9 , 10.0.0.2"], "192.0.2.9");
        check("10.0.0.1", &["1.1.1.1", "192.0.2.9", "10.0.0.2"], "192.0.2.9");
        check("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
        check("10.0.0.1", &["192.0.2.9, unknown"], "10.0.0.1");
        check("10.0.0.1", &["192.0.2.9:4711"], "192.0.2.9");
        check("::1", &["[2001:db8::1]:4711"], "2001:db8::1");
        check("::ffff:10.0.0.1", &["::ffff:192.0.2.9"], "192.0.2.9");
    }

    #[test]
    fn only_who_asks_for_itself_from_this_machine_is_local() {
        let check = |from: &str, header: Option<&'static str>, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("host", "localhost".parse().unwrap());
            if let Some(name) = header {
                headers.insert(name, "127.0.0.1".parse().unwrap());
            }
            let local = |exempts| peer(from.parse().unwrap(), &headers, exempts).is_local;
            assert!(!local(false), "{from} {header:?}");
            let is_local = local(true);
            assert_eq!(is_local, expected, "{from} {header:?}");
        };
        check("127.0.0.1", None, true);
        check("127.1.2.3", None, true);
        check("::1", None, true);
        check("::ffff:127.0.0.1", None, true);
        check("192.0.2.1", None, false);
        check("10.0.0.1", None, false);
        check("2001:db8::1", None, false);
        check("::ffff:192.0.2.1", None, false);
        for header in ["x-forwarded-for", "forwarded", "x-real-ip", "via"] {
            check("127.0.0.1", Some(header), false);
            check("::1", Some(header), false);
        }
    }
}
