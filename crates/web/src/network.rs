//! Networks as people write them in a configuration: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.1`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Whether the address belongs to it.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

/// The text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address or a network such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32")]
pub struct InvalidNetwork(String);

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let host = || text.parse::<IpAddr>().map(IpNet::from).ok();
        let network = text.parse().ok().or_else(host);
        network.map(Self).ok_or_else(|| InvalidNetwork(text.to_owned()))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(network: &str, inside: &[&str], outside: &[&str]) {
        let network: Network = network.parse().unwrap();
        for it in inside {
            assert!(network.contains(it.parse().unwrap()), "{it} in {network}");
        }
        for it in outside {
            assert!(!network.contains(it.parse().unwrap()), "{it} not in {network}");
        }
    }

    #[test]
    fn networks() {
        check("10.0.0.0/8", &["10.0.0.0", "10.255.255.255"], &["11.0.0.0", "::a00:0"]);
        check("192.0.2.1", &["192.0.2.1"], &["192.0.2.0"]);
        check("192.0.2.128/25", &["192.0.2.128"], &["192.0.2.127"]);
        check("0.0.0.0/0", &["255.255.255.255"], &["::"]);
        check("2001:db8::/32", &["2001:db8:ffff::1"], &["2001:db9::"]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129", "10.0.0/8"] {
            assert_eq!(text.parse::<Network>(), Err(InvalidNetwork(text.to_owned())));
        }
    }
}
