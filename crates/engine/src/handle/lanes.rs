//! The lines in which works wait for the partition's thread.

use std::collections::VecDeque;

use super::Waiting;
use crate::partition::BATCH_COMMANDS_MAX;

/// How many works of [`Lane::Background`] a batch has at most. Small batches keep a request that comes next from
/// waiting for them: with 16 a commit takes a millisecond or two.
const BACKGROUND_MAX: usize = 16;

/// How many of them a batch with requests has at most, whose clients wait for all of it.
const BACKGROUND_BESIDE_REQUESTS_MAX: usize = 2;

/// The line in which a work waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What the core itself has to say goes first: an outcome ends what was begun, and behind thousands of
    /// commands that came at once each of them would end last.
    Own,
    Request,
    /// What the core does of itself, however much of it is due: a few with each batch.
    Background,
}

/// The works that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Lanes {
    own: VecDeque<Waiting>,
    requests: VecDeque<Waiting>,
    background: VecDeque<Waiting>,
}

impl Lanes {
    pub(super) fn push(&mut self, waiting: Waiting) {
        match waiting.lane {
            Lane::Own => self.own.push_back(waiting),
            Lane::Request => self.requests.push_back(waiting),
            Lane::Background => self.background.push_back(waiting),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.own.len() + self.requests.len() + self.background.len()
    }

    /// Takes the works of the next batch.
    pub(super) fn next_batch(&mut self) -> impl Iterator<Item = Waiting> {
        let own = self.own.len().min(BATCH_COMMANDS_MAX);
        let background_max = match self.requests.is_empty() {
            true => BACKGROUND_MAX,
            false => BACKGROUND_BESIDE_REQUESTS_MAX,
        };
        let background = self.background.len().min(background_max).min(BATCH_COMMANDS_MAX - own);
        let requests = self.requests.len().min(BATCH_COMMANDS_MAX - own - background);
        let requests = self.requests.drain(..requests);
        self.own.drain(..own).chain(requests).chain(self.background.drain(..background))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::partition::Work;

    /// How many works of each lane the batches have, while so many wait.
    fn batches(own: usize, requests: usize, background: usize) -> Vec<(usize, usize, usize)> {
        let mut lanes = Lanes::default();
        let count = [(Lane::Background, background), (Lane::Request, requests), (Lane::Own, own)];
        for (lane, count) in count {
            for _ in 0..count {
                let (answer, _) = oneshot::channel();
                let (work, position) = (Work::Bookkeeping(vec![]), None);
                lanes.push(Waiting { work, answer, lane, position });
            }
        }
        let mut batches = vec![];
        while lanes.len() > 0 {
            let batch: Vec<Lane> = lanes.next_batch().map(|it| it.lane).collect();
            let of = |lane| batch.iter().filter(|it| **it == lane).count();
            let found = (of(Lane::Own), of(Lane::Request), of(Lane::Background));
            let order = [Lane::Own, Lane::Request, Lane::Background];
            let position = |lane: &Lane| order.iter().position(|it| it == lane);
            assert!(batch.is_sorted_by_key(position), "{batch:?}");
            batches.push(found);
        }
        batches
    }

    #[test]
    fn what_nobody_waits_for_comes_behind_and_never_stands_still() {
        assert_eq!(batches(3, 2, 1), [(3, 2, 1)]);
        assert_eq!(batches(0, 0, 50), [(0, 0, 16), (0, 0, 16), (0, 0, 16), (0, 0, 2)]);
        assert_eq!(batches(0, 1, 29), [(0, 1, 2), (0, 0, 16), (0, 0, 11)]);
        assert_eq!(batches(0, 2_000, 10), [(0, 1_022, 2), (0, 978, 2), (0, 0, 6)]);
        assert_eq!(batches(1_500, 10, 5), [(1_024, 0, 0), (476, 10, 2), (0, 0, 3)]);
    }
}
