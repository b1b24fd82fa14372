//! Ids in Stripe's form: the same for the same seed and the same requests.

use std::rc::Rc;

pub type Id = Rc<str>;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The count goes on after a restart, so that no id is given twice.
pub struct Ids {
    seed: u64,
    pub count: u64,
}

impl Ids {
    pub fn new(seed: u64) -> Ids {
        Ids { seed, count: 0 }
    }

    /// `prefix` with its underscore: `pi_`.
    pub fn next(&mut self, prefix: &str) -> Id {
        format!("{prefix}{}", self.secret()).into()
    }

    /// 24 letters and digits.
    pub fn secret(&mut self) -> String {
        let mut text = String::with_capacity(24);
        for _ in 0..3 {
            let mut bits = self.number();
            for _ in 0..8 {
                text.push(char::from(DIGITS[(bits % 62) as usize]));
                bits /= 62;
            }
        }
        text
    }

    /// A number in which all 64 bits vary (splitmix64 of the count).
    pub fn number(&mut self) -> u64 {
        self.count += 1;
        let mut bits = self.seed.wrapping_add(self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
