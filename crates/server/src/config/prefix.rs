//! Networks as people write them in a configuration: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.1`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u32,
}

impl Prefix {
    /// Whether the address is one of them.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let differing = match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(it)) => (ours.to_bits() ^ it.to_bits()).leading_zeros(),
            (IpAddr::V6(ours), IpAddr::V6(it)) => (ours.to_bits() ^ it.to_bits()).leading_zeros(),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
        };
        differing >= self.bits
    }
}

/// The text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address or a network such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32")]
pub struct NotAPrefix(String);

impl FromStr for Prefix {
    type Err = NotAPrefix;

    fn from_str(text: &str) -> Result<Self, NotAPrefix> {
        let refused = || NotAPrefix(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| refused())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(bits_max);
        if bits <= bits_max { Ok(Self { address, bits }) } else { Err(refused()) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prefix: &str, inside: &[&str], outside: &[&str]) {
        let prefix: Prefix = prefix.parse().unwrap();
        for it in inside {
            assert!(prefix.contains(it.parse().unwrap()), "{it} in {prefix}");
        }
        for it in outside {
            assert!(!prefix.contains(it.parse().unwrap()), "{it} not in {prefix}");
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
    fn what_is_no_network() {
        for text in ["", "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129", "10.0.0/8"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }
}
