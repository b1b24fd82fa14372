//! Fingerprints of idempotent requests: what a repetition has to have in common with the first one.

use ring::digest;
use uuid::Uuid;

/// The first 16 bytes of SHA-256 over the parts, each behind its length in 8 bytes, big-endian.
#[must_use]
pub fn fingerprint(parts: &[&[u8]]) -> Uuid {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let digest = context.finish();
    Uuid::from_slice(&digest.as_ref()[..16]).expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundaries_of_parts_count() {
        assert_eq!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"ab", b"c"]));
        assert_ne!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"a", b"bc"]));
    }
}
