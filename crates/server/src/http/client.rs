//! Where a request comes from: its peer, or what proxies that are trusted say.

use std::net::{IpAddr, SocketAddr};

use engine::access::ClientAddress;
use http::HeaderMap;
use http::header::HeaderName;

use crate::config::Prefix;

/// The addresses that a request came by, as each proxy adds the one it got it from.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The last address on the request's way that no trusted proxy has. What stands before that one,
/// anybody could have written.
pub fn address(peer: IpAddr, headers: &HeaderMap, trusted: &[Prefix]) -> ClientAddress {
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
}
