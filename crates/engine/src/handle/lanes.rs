//! The lines in which works wait for the partition's thread.

use std::collections::VecDeque;
use std::time::Duration;

use super::Waiting;
use crate::lane::Lane;
use crate::partition::BATCH_COMMANDS_MAX;

/// How many works of the core's own accord a batch has. Small batches keep a request that comes next from waiting for
/// them: with 16 a commit takes a millisecond or two.
const BACKGROUND: usize = 16;

/// How many of them a batch with requests has, whose clients wait for all of it.
const BACKGROUND_BESIDE_REQUESTS: usize = 3;

/// Where batches take long whatever is in them, as with a server or a slow disk, they have more of these works: one for
/// each so long. A work itself takes a fraction of that.
const TIME_OF_A_BATCH_FOR_EACH: Duration = Duration::from_millis(1);

/// How many of them a batch has at most.
const BACKGROUND_MAX: usize = 48;

/// Of so many batches the time is an average, roughly.
const BATCHES_AVERAGED: u32 = 8;

/// The works that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Lanes {
    /// How long a batch takes.
    batch_time: Duration,
    own: VecDeque<Waiting>,
    requests: VecDeque<Waiting>,
    background_outcomes: VecDeque<Waiting>,
    background: VecDeque<Waiting>,
}

impl Lanes {
    pub(super) fn push(&mut self, waiting: Waiting) {
        match waiting.lane {
            Lane::Own => self.own.push_back(waiting),
            Lane::Request => self.requests.push_back(waiting),
            Lane::BackgroundOutcome => self.background_outcomes.push_back(waiting),
            Lane::Background => self.background.push_back(waiting),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.own.len()
            + self.requests.len()
            + self.background_outcomes.len()
            + self.background.len()
    }

    /// Notes how long a batch took.
    pub(super) fn note_time(&mut self, took: Duration) {
        self.batch_time = (self.batch_time * (BATCHES_AVERAGED - 1) + took) / BATCHES_AVERAGED;
    }

    /// How many works of the core's own accord the next batch has at most.
    fn background_max(&self) -> usize {
        let few = match self.requests.is_empty() {
            true => BACKGROUND,
            false => BACKGROUND_BESIDE_REQUESTS,
        };
        let by_time = self.batch_time.as_micros() / TIME_OF_A_BATCH_FOR_EACH.as_micros();
        usize::try_from(by_time).unwrap_or(BACKGROUND_MAX).clamp(few, BACKGROUND_MAX)
    }

    /// Takes the works of the next batch.
    pub(super) fn next_batch(&mut self) -> impl Iterator<Item = Waiting> {
        let own = self.own.len().min(BATCH_COMMANDS_MAX);
        let background_max = self.background_max().min(BATCH_COMMANDS_MAX - own);
        let outcomes = self.background_outcomes.len().min(background_max);
        let background = self.background.len().min(background_max - outcomes);
        let requests = self.requests.len().min(BATCH_COMMANDS_MAX - own - outcomes - background);
        let requests = self.requests.drain(..requests);
        let outcomes = self.background_outcomes.drain(..outcomes);
        let background = self.background.drain(..background);
        self.own.drain(..own).chain(requests).chain(outcomes).chain(background)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::partition::Work;

    /// How many works of each lane the batches have, while so many wait.
    fn batches(waiting: [(Lane, usize); 4]) -> Vec<[usize; 4]> {
        batches_of(Duration::ZERO, waiting)
    }

    /// The same, where batches take so long.
    fn batches_of(batch_time: Duration, waiting: [(Lane, usize); 4]) -> Vec<[usize; 4]> {
        let mut lanes = Lanes { batch_time, ..Lanes::default() };
        for (lane, count) in waiting.iter().rev() {
            for _ in 0..*count {
                let (answer, _) = oneshot::channel();
                let (work, position) = (Work::Bookkeeping(vec![]), None);
                lanes.push(Waiting { work, answer, lane: *lane, position });
            }
        }
        let mut batches = vec![];
        while lanes.len() > 0 {
            let batch: Vec<Lane> = lanes.next_batch().map(|it| it.lane).collect();
            let position = |lane: &Lane| waiting.iter().position(|it| it.0 == *lane);
            assert!(batch.is_sorted_by_key(position), "{batch:?}");
            batches.push(waiting.map(|of| batch.iter().filter(|it| **it == of.0).count()));
        }
        batches
    }

    #[test]
    fn what_nobody_waits_for_comes_behind_and_never_stands_still() {
        let batches = |own, requests, outcomes, background| {
            batches([
                (Lane::Own, own),
                (Lane::Request, requests),
                (Lane::BackgroundOutcome, outcomes),
                (Lane::Background, background),
            ])
        };
        assert_eq!(batches(3, 2, 1, 1), [[3, 2, 1, 1]]);
        assert_eq!(
            batches(0, 0, 0, 50),
            [[0, 0, 0, 16], [0, 0, 0, 16], [0, 0, 0, 16], [0, 0, 0, 2]]
        );
        assert_eq!(batches(0, 0, 12, 10), [[0, 0, 12, 4], [0, 0, 0, 6]]);
        assert_eq!(batches(0, 1, 5, 29), [[0, 1, 3, 0], [0, 0, 2, 14], [0, 0, 0, 15]]);
        assert_eq!(batches(0, 2_000, 1, 9), [[0, 1_021, 1, 2], [0, 979, 0, 3], [0, 0, 0, 4]]);
        assert_eq!(batches(1_500, 10, 0, 6), [[1_024, 0, 0, 0], [476, 10, 0, 3], [0, 0, 0, 3]]);
    }

    #[test]
    fn where_batches_take_long_more_comes_behind() {
        let batches = |millis| {
            let [own, outcomes] = [(Lane::Own, 0), (Lane::BackgroundOutcome, 0)];
            let waiting = [own, (Lane::Request, 1), outcomes, (Lane::Background, 70)];
            let batches = batches_of(Duration::from_millis(millis), waiting);
            batches.iter().map(|it| it[3]).collect::<Vec<_>>()
        };
        assert_eq!(batches(1), [3, 16, 16, 16, 16, 3]);
        assert_eq!(batches(10), [10, 16, 16, 16, 12]);
        assert_eq!(batches(30), [30, 30, 10]);
        assert_eq!(batches(60_000), [48, 22]);
    }

    #[test]
    fn one_batch_that_took_long_is_forgotten_after_some() {
        let mut lanes = Lanes::default();
        lanes.note_time(Duration::from_millis(240));
        assert_eq!(lanes.background_max(), 30);
        (0..8).for_each(|_| lanes.note_time(Duration::from_millis(1)));
        assert_eq!(lanes.background_max(), 16);
    }
}
