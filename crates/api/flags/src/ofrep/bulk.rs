//! All flags of a user in one answer, evaluated part by part.

use std::sync::Arc;

use axum::body::Body;
use evaluation::User;
use feature_flags::Grant;
use feature_flags::environment_state::EnvironmentState;
use feature_flags::message::write_json;
use feature_flags::time::now_ms;

use super::{INACTIVITY_SECONDS, count, outcome, write_failure};
use crate::in_parts::{self, InParts, PART_BYTES};
use crate::state::ApiState;

/// Capacity for a flag, and for what is around the flags.
const FLAG_BYTES: usize = 192;
const ENVELOPE_BYTES: usize = 384;

/// An answer in the making.
pub(super) struct Bulk {
    pub(super) api: Arc<ApiState>,
    pub(super) grant: Arc<Grant>,
    /// The state that all of the answer is of.
    pub(super) state: Arc<EnvironmentState>,
    pub(super) user: User,
    /// How many flags are passed.
    passed: usize,
    /// How many of them are written.
    written: usize,
}

impl Bulk {
    pub(super) fn new(
        api: Arc<ApiState>,
        grant: Arc<Grant>,
        state: Arc<EnvironmentState>,
        user: User,
    ) -> Self {
        Self { api, grant, state, user, passed: 0, written: 0 }
    }

    /// The answer's body.
    pub(super) fn body(self) -> Body {
        let capacity = ENVELOPE_BYTES + self.state.snapshot.flags().count() * FLAG_BYTES;
        in_parts::body(self, capacity)
    }

    /// Writes the end of the body, after the flags.
    fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"],"metadata":{"version":"#);
        write_json(out, &*self.state.version);
        out.extend_from_slice(br#"},"eventStreams":[{"type":"sse","endpoint":{"requestUri":"#);
        let of_user = match self.state.asks_for_entitled {
            true => format!("?user={}", self.grant.digest.seal_user(&self.user.key_id)),
            false => String::new(),
        };
        let prefix = &self.api.settings.prefix;
        write_json(out, &format!("{prefix}/ofrep/v1/events/{}{of_user}", self.grant.channel));
        out.extend_from_slice(br#"},"inactivityDelaySec":"#);
        write_json(out, &INACTIVITY_SECONDS);
        out.extend_from_slice(b"}]}");
    }
}

impl InParts for Bulk {
    fn state(&self) -> &EnvironmentState {
        &self.state
    }

    fn write_part(&mut self, out: &mut Vec<u8>) -> bool {
        let environment = &self.grant.environments()[0];
        let (mut counted, now_ms) = (vec![], now_ms());
        let mut rest = self.state.snapshot.flags().skip(self.passed);
        if self.passed == 0 {
            out.extend_from_slice(br#"{"flags":["#);
        }
        let is_over = loop {
            if out.len() >= PART_BYTES {
                break false;
            }
            let Some(flag) = rest.next() else { break true };
            self.passed += 1;
            if flag.flag().is_archived {
                continue;
            }
            if self.written > 0 {
                out.push(b',');
            }
            self.written += 1;
            let evaluation = self.state.snapshot.evaluate_flag(flag, &self.user);
            match outcome::write(out, &evaluation) {
                Ok(()) => counted.push((flag, evaluation)),
                Err(unusable) => {
                    write_failure(out, Some(&flag.flag().key), unusable.code_and_details());
                }
            }
        };
        // All at once: evaluating does not hold the lock.
        let mut tally = environment.tally();
        counted.iter().for_each(|(flag, evaluation)| count(&mut tally, flag, evaluation, now_ms));
        drop(tally);
        if is_over {
            self.write_end(out);
        }
        is_over
    }
}
