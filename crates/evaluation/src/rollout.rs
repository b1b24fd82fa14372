//! Distributes users over variations by a hash that is the same on every server and SDK.

use md5::{Digest as _, Md5};

/// A rollout whose end is at least this close to 1 covers all users, despite rounding errors.
const ROUNDING_ERROR_MAX: f64 = 1e-5;

/// The position of a key between 0 and 1: FeatBit's `DispatchAlgorithm`.
///
/// The first four bytes of the key's MD5, as a signed little-endian number, divided by the smallest
/// such number.
pub(crate) fn bucket(key: &[&str]) -> f64 {
    let mut hash = Md5::new();
    for part in key {
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let number = i32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
    (f64::from(number) / f64::from(i32::MIN)).abs()
}

/// The part of the users whose buckets are in a range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interval {
    All,
    Empty,
    Between(f64, f64),
}

impl Interval {
    pub(crate) fn new([low, high]: [f64; 2]) -> Self {
        let is_zero = |number: f64| number.abs() < f64::MIN_POSITIVE;
        if is_zero(low) && 1.0 - high < ROUNDING_ERROR_MAX {
            Self::All
        } else if is_zero(low) && is_zero(high) {
            Self::Empty
        } else {
            Self::Between(low, high)
        }
    }

    /// Both ends are part of the interval. The bucket is computed only if it is needed.
    pub(crate) fn contains(self, bucket: impl FnOnce() -> f64) -> bool {
        match self {
            Self::All => true,
            Self::Empty => false,
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
    fn buckets_equal_those_of_featbits_tests() {
        let cases = [
            ("test-value", 0.146_536_292_042_583_23),
            ("qKPKh1S3FolC", 0.910_591_969_266_533_9),
            ("3eacb184-2d79-49df-9ea7-edd4f10e4c6f", 0.089_944_031_555_205_58),
        ];
        for (key, expected) in cases {
            assert_eq!(bucket(&[key]).to_bits(), f64::to_bits(expected), "{key}");
        }
        assert_eq!(bucket(&["test-", "value"]).to_bits(), bucket(&["test-value"]).to_bits());
    }

    #[test]
    fn an_interval_contains_both_ends() {
        assert!(Interval::new([0.25, 0.5]).contains(|| 0.5));
        assert!(Interval::new([0.25, 0.5]).contains(|| 0.25));
        assert!(!Interval::new([0.25, 0.5]).contains(|| 0.51));
        assert!(Interval::new([0.0, 0.999_999]).contains(|| 1.0));
        assert!(!Interval::new([0.0, 0.0]).contains(|| 0.0));
    }
}
