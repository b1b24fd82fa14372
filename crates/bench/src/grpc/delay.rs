//! Requested delays: `MIN-MAX` in milliseconds.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The longest delay that the simulator accepts.
const DELAY_MAX_MS: u32 = 600_000;

/// A range that a delay is drawn from, uniformly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayMs {
    min: u32,
    max: u32,
}

impl DelayMs {
    /// The delay of payments in `half`.
    pub const HALF_PAYMENT: Self = Self { min: 100, max: 1_000 };
    /// The delay of balances in `half`.
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
    fn ranges_are_ordered_and_bounded() {
        for text in ["0-0", "100-1000", "2000-5000", "600000-600000"] {
            assert_eq!(text.parse::<DelayMs>().unwrap().to_string(), text);
        }
        let check = |text: &str, error| assert_eq!(text.parse::<DelayMs>(), Err(error), "{text}");
        for text in ["", "-", "100", "100-", "-100", "+1-2", "1-2-3", "a-b"] {
            check(text, "expected MIN-MAX in milliseconds");
        }
        check("2-1", "the first must not be above the second");
        check("0-600001", "at most 600000");
    }
}
