//! Events by the time at which they happen.

use std::collections::BTreeMap;

/// Names a scheduled event: its time, and a number.
pub type Place = (i64, u64);

/// Scheduled events. Those of one time happen in the order in which they were scheduled.
#[derive(Clone, Debug)]
pub struct Schedule<E> {
    events: BTreeMap<Place, E>,
    last_number: u64,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), last_number: 0 }
    }
}

impl<E> Schedule<E> {
    /// A number that was not drawn before.
    pub const fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The number that was drawn last; 0 before the first one.
    #[must_use]
    pub const fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Schedules an event.
    pub fn at(&mut self, at: i64, event: E) -> Place {
        let place = (at, self.number());
        self.events.insert(place, event);
        place
    }

    /// Cancels an event that has not happened.
    pub fn cancel(&mut self, place: Place) {
        self.events.remove(&place);
    }

    /// The event that happens next.
    #[must_use]
    pub fn first(&self) -> Option<(&Place, &E)> {
        self.events.first_key_value()
    }

    /// Takes the event that happens next, if it happens until then, with its time.
    pub fn take(&mut self, until: i64) -> Option<(i64, E)> {
        let first = self.events.first_entry().filter(|it| it.key().0 <= until)?;
        let ((at, _), event) = first.remove_entry();
        Some((at, event))
    }
}
