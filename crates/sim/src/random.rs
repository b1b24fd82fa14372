//! Random numbers that a seed repeats: splitmix64 to spread the seed, xoshiro256** to draw.

use domain::mix;

/// A stream of random numbers. The same seed gives the same stream on every machine.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of a seed. `purpose` separates streams of the same seed, so that one more draw
    /// in the workload does not change what the gateway does.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut at = purpose.bytes().fold(seed, |sum, byte| mix(sum ^ u64::from(byte)));
        let mut next = || {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(at)
        };
        Self { state: [next(), next(), next(), next()] }
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let drawn = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        drawn
    }

    /// A number below `end`, which is above zero.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below zero");
        // The bias of the remainder is far below what a workload could notice.
        self.draw() % end
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        let span = to.abs_diff(from) + 1;
        from.wrapping_add_unsigned(self.below(span))
    }

    /// True in `permille` of 1000 cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// One of several, which are not none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.index(of.len());
        &of[at]
    }

    /// A place in a list of that length, which is not empty.
    pub fn index(&mut self, len: usize) -> usize {
        let at = self.below(len as u64);
        usize::try_from(at).expect("it is below a length")
    }

    /// One of several by weight.
    pub fn weighted<T: Copy>(&mut self, of: &[(u64, T)]) -> T {
        let total: u64 = of.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        for (weight, choice) in of {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return *choice,
            }
        }
        unreachable!("a draw below the total falls on one of the weights")
    }
}

/// A hash of texts, to compare two runs by (FNV-1a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes a text in.
    pub fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The hash so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_purposes_differ() {
        let draw = |seed, purpose| {
            let mut random = Random::new(seed, purpose);
            [random.draw(), random.draw(), random.draw()]
        };
        assert_eq!(draw(7, "gateway"), draw(7, "gateway"));
        assert_ne!(draw(7, "gateway"), draw(7, "workload"));
        assert_ne!(draw(7, "gateway"), draw(8, "gateway"));
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_its_ends() {
        let mut random = Random::new(1, "range");
        let drawn: Vec<i64> = (0..1000).map(|_| random.between(-2, 2)).collect();
        assert_eq!(drawn.iter().min(), Some(&-2));
        assert_eq!(drawn.iter().max(), Some(&2));
        let weighted: Vec<u8> =
            (0..1000).map(|_| random.weighted(&[(1, 1), (0, 2), (9, 3)])).collect();
        assert!(weighted.contains(&1) && !weighted.contains(&2) && weighted.contains(&3));
    }
}
