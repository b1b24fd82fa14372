//! Delays that are asked for: `MIN-MAX` in milliseconds.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The longest delay: the simulator grants no longer one.
const DELAY_MAX_MS: u32 = 600_000;

/// A delay drawn from a range, each with the same chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayMs {
    min: u32,
    max: u32,
}

impl DelayMs {
    /// What `half` has payments take.
    pub const HALF_PAYMENT: Self = Self { min: 100, max: 1_000 };
    /// What `half` has balances take.
    pub const HALF_BALANCE: Self = Self { min: 2_000, max: 5_000 };
}

impl Display for DelayMs {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { min, max } = self;
        write!(f, "{min}-{max}")
    }
}

impl FromStr for DelayMs {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| digits).ok_or("expected MIN-MAX in milliseconds")
        };
        let (min, max) = text.split_once('-').ok_or("expected MIN-MAX in milliseconds")?;
        let (min, max) = (number(min)?, number(max)?);
        if min > max {
            return Err("the first must not be above the second");
        }
        if max > DELAY_MAX_MS { Err("at most 600000") } else { Ok(Self { min, max }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for text in ["0-0", "100-1000", "2000-5000", "600000-600000"] {
            assert_eq!(text.parse::<DelayMs>().unwrap().to_string(), text);
        }
        for text in ["", "-", "100", "100-", "-100", "+1-2", "1-2-3", "2-1", "0-600001", "a-b"] {
            assert!(text.parse::<DelayMs>().is_err(), "{text}");
        }
    }
}
