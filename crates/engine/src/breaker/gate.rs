//! Lets calls through, or none for a while, and then a few at a time to find out.

use std::time::{Duration, Instant};

use super::BreakerState;

/// How many probes a half-open breaker lets through at a time, and how many have to succeed.
const PROBES: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Gate {
    phase: Phase,
    /// How often it was opened: the end of a probe of an earlier phase changes nothing.
    opened: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Closed,
    /// From `until` on it probes.
    Open { until: Instant, in_flight: u32, succeeded: u32 },
}

impl Gate {
    /// The phase that the call is a probe of, where it is one; `None` where no call is let through.
    pub(super) fn admit(&mut self, now: Instant) -> Option<Option<u64>> {
        match &mut self.phase {
            Phase::Closed => Some(None),
            Phase::Open { until, in_flight, .. } => {
                let may_probe = *until <= now && *in_flight < PROBES;
                *in_flight += u32::from(may_probe);
                may_probe.then_some(Some(self.opened))
            }
        }
    }

    pub(super) const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether it lets no call through now.
    pub(super) fn refuses(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Closed => false,
            Phase::Open { until, in_flight, .. } => until > now || in_flight >= PROBES,
        }
    }

    pub(super) fn shown(&self, now: Instant) -> BreakerState {
        match self.phase {
            Phase::Closed => BreakerState::Closed,
            Phase::Open { until, .. } if until > now => BreakerState::Open,
            Phase::Open { .. } => BreakerState::HalfOpen,
        }
    }

    /// Whether a call is a probe of the phase that it is in.
    pub(super) fn is_probed_by(&self, probe_of: Option<u64>) -> bool {
        !self.is_closed() && probe_of == Some(self.opened)
    }

    pub(super) fn open(&mut self, now: Instant, open_for: Duration) {
        self.opened += 1;
        self.phase = Phase::Open { until: now + open_for, in_flight: 0, succeeded: 0 };
    }

    /// A probe has succeeded; returns whether it is closed now.
    pub(super) fn succeeded(&mut self) -> bool {
        if let Phase::Open { in_flight, succeeded, .. } = &mut self.phase {
            *in_flight = in_flight.saturating_sub(1);
            *succeeded += 1;
            if *succeeded >= PROBES {
                self.phase = Phase::Closed;
            }
        }
        self.is_closed()
    }

    /// The probe of a phase has ended and says nothing.
    pub(super) fn given_back(&mut self, probe_of: Option<u64>) {
        if probe_of == Some(self.opened)
            && let Phase::Open { in_flight, .. } = &mut self.phase
        {
            *in_flight = in_flight.saturating_sub(1);
        }
    }
}
