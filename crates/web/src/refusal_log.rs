//! Which refusals are logged at the level info: those for want of credentials or rights, but no flood of
//! them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;

/// How many refusals are logged at the level info in a second; the rest is at the level debug.
pub const LINES_PER_SECOND_MAX: u32 = 100;

static LINES: Mutex<Option<Lines>> = Mutex::new(None);

/// The lines of a second.
#[derive(Clone, Copy)]
struct Lines {
    since: Instant,
    count: u32,
}

/// Whether an answer's log line is to have the level info.
#[must_use]
pub fn is_worth_a_line(status: StatusCode) -> bool {
    let is_refusal = status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN;
    is_refusal
        && has_room(&mut LINES.lock().unwrap_or_else(PoisonError::into_inner), Instant::now())
}

fn has_room(lines: &mut Option<Lines>, now: Instant) -> bool {
    let is_over = |it: &Lines| now.duration_since(it.since) >= Duration::from_secs(1);
    let current = lines.take_if(|it| !is_over(it)).unwrap_or(Lines { since: now, count: 0 });
    let has_room = current.count < LINES_PER_SECOND_MAX;
    *lines = Some(Lines { count: current.count + u32::from(has_room), ..current });
    has_room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_second_are_worth_it() {
        let (mut lines, began) = (None, Instant::now());
        let mut at = |after_ms| has_room(&mut lines, began + Duration::from_millis(after_ms));
        let written = (0..150).filter(|it| at(*it)).count();
        assert_eq!(written, LINES_PER_SECOND_MAX as usize);
        assert!(!at(999));
        assert!(at(1_000), "another second");
    }
}
