//! The client's address: it is the last one of `X-Forwarded-For` that no trusted proxy wrote, as a slow
//! reading of the list says; an untrusted peer is never replaced; a peer whose request was handed on is
//! not local. Networks print back to what they were read from.
#![no_main]

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use web::{Network, client_address};

fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().ok().map(|it| it.ip());
    text.parse().ok().or_else(with_port).map(|it: IpAddr| it.to_canonical())
}

/// The whole path of a request first, the client's own address in front.
fn naive(peer: IpAddr, lines: &[&[u8]], trusted: &[Network]) -> IpAddr {
    let mut path = vec![];
    for line in lines {
        for hop in line.split(|byte| *byte == b',') {
            path.push(std::str::from_utf8(hop).ok().and_then(|it| address(it.trim())));
        }
    }
    path.push(Some(peer.to_canonical()));
    let mut last = peer.to_canonical();
    for hop in path.iter().rev() {
        let Some(hop) = hop else { break };
        last = *hop;
        if !trusted.iter().any(|network| network.contains(last)) {
            break;
        }
    }
    last
}

fuzz_target!(|data: &[u8]| {
    // Lines: the peer, the trusted networks, and the values of the header.
    let mut lines = data.split(|byte| *byte == b'\n');
    let texts = [lines.next(), lines.next()].map(|it| String::from_utf8_lossy(it.unwrap_or(b"")));
    let Ok(peer) = texts[0].trim().parse::<IpAddr>() else {
        return;
    };
    let trusted: Vec<Network> = texts[1].split(' ').filter_map(|it| it.parse().ok()).collect();
    for network in &trusted {
        assert_eq!(network.to_string().parse(), Ok(*network));
    }
    let mut headers = HeaderMap::new();
    let mut values = vec![];
    for line in lines {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append("x-forwarded-for", value);
            values.push(line);
        }
    }
    let found = client_address::address(peer, &headers, &trusted);
    assert_eq!(found.0, naive(peer, &values, &trusted));
    if !trusted.iter().any(|it| it.contains(peer.to_canonical())) {
        assert_eq!(found.0, peer.to_canonical());
    }
    // An address has one network, which is its own.
    let network = found.network();
    assert_eq!(engine::access::ClientAddress(network).network(), network);
    let is_local = client_address::peer(peer, &headers, true).is_local;
    assert_eq!(is_local, values.is_empty() && peer.to_canonical().is_loopback());
    assert!(!client_address::peer(peer, &headers, false).is_local);
});
