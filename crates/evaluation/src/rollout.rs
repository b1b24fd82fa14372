//! Spreads users over variations: by a hash of their key, the same on every server and SDK.

use md5::{Digest as _, Md5};

/// The end of a rollout that reaches everybody, though its sum may have lost a little.
const NEARLY_ONE: f64 = 1e-5;

/// Where a key falls between 0 and 1.
///
/// The first four bytes of its MD5, as a signed number with the lowest byte first, divided by its
/// smallest: FeatBit's `DispatchAlgorithm`.
pub(crate) fn bucket(key: &[&str]) -> f64 {
    let mut hash = Md5::new();
    for part in key {
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let number = i32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
    (f64::from(number) / f64::from(i32::MIN)).abs()
}

/// A part of the users.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interval {
    Everybody,
    Nobody,
    Between(f64, f64),
}

impl Interval {
    pub(crate) fn new([low, high]: [f64; 2]) -> Self {
        let is_zero = |number: f64| number.abs() < f64::MIN_POSITIVE;
        if is_zero(low) && 1.0 - high < NEARLY_ONE {
            Self::Everybody
        } else if is_zero(low) && is_zero(high) {
            Self::Nobody
        } else {
            Self::Between(low, high)
        }
    }

    /// Both ends belong to it.
    pub(crate) fn has(self, bucket: impl FnOnce() -> f64) -> bool {
        match self {
            Self::Everybody => true,
            Self::Nobody => false,
            Self::Between(low, high) => {
                let bucket = bucket();
                low <= bucket && bucket <= high
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_featbits_own_tests() {
        let told = [
            ("test-value", 0.146_536_292_042_583_23),
            ("qKPKh1S3FolC", 0.910_591_969_266_533_9),
            ("3eacb184-2d79-49df-9ea7-edd4f10e4c6f", 0.089_944_031_555_205_58),
        ];
        for (key, expected) in told {
            assert_eq!(bucket(&[key]).to_bits(), f64::to_bits(expected), "{key}");
        }
        assert_eq!(bucket(&["test-", "value"]).to_bits(), bucket(&["test-value"]).to_bits());
    }

    #[test]
    fn the_ends_belong_to_an_interval() {
        assert!(Interval::new([0.25, 0.5]).has(|| 0.5));
        assert!(Interval::new([0.25, 0.5]).has(|| 0.25));
        assert!(!Interval::new([0.25, 0.5]).has(|| 0.51));
        assert!(Interval::new([0.0, 0.999_999]).has(|| 1.0));
        assert!(!Interval::new([0.0, 0.0]).has(|| 0.0));
    }
}
