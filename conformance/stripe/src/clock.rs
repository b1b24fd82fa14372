//! The fake's clock: the machine's, moved by what a test asks for.

use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Default)]
pub struct Clock {
    pub offset_ms: i64,
}

impl Clock {
    pub fn now_ms(&self) -> i64 {
        machine_ms() + self.offset_ms
    }

    pub fn now(&self) -> i64 {
        self.now_ms().div_euclid(1000)
    }

    pub fn advance(&mut self, by_ms: i64) {
        self.offset_ms += by_ms;
    }

    pub fn set(&mut self, now_ms: i64) {
        self.offset_ms = now_ms - machine_ms();
    }
}

fn machine_ms() -> i64 {
    let since =
        SystemTime::now().duration_since(UNIX_EPOCH).expect("the machine's clock is after 1970");
    since.as_millis() as i64
}
