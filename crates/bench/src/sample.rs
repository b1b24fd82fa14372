//! A uniform sample of a stream of unknown length (reservoir sampling).

use super::random::Random;

/// Keeps at most `limit` items; each item seen is kept with the same probability.
#[derive(Clone, Debug)]
pub struct Sample<T> {
    kept: Vec<T>,
    limit: usize,
    seen: u64,
    random: Random,
}

impl<T> Sample<T> {
    /// An empty sample that keeps `limit` items.
    pub fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit, seen: 0, random: Random::new(0) }
    }

    /// Adds an item, which replaces a kept one or is dropped once the sample is full.
    pub fn add(&mut self, item: T) {
        self.seen += 1;
        if self.kept.len() < self.limit {
            self.kept.push(item);
            return;
        }
        // The n-th item is kept with a probability of limit / n and replaces any other.
        let index = usize::try_from(self.random.next() % self.seen).unwrap_or(usize::MAX);
        if let Some(kept) = self.kept.get_mut(index) {
            *kept = item;
        }
    }

    /// The kept items, in no order.
    pub fn into_kept(self) -> Vec<T> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_items_are_all_kept() {
        let mut sample = Sample::new(10);
        (0..10).for_each(|item| sample.add(item));
        assert_eq!(sample.into_kept(), (0..10).collect::<Vec<_>>());
    }

    /// Each tenth of the stream has about a tenth of the sample.
    #[test]
    fn many_items_are_kept_evenly() {
        let mut sample = Sample::new(1_000);
        (0..100_000).for_each(|item| sample.add(item));
        let kept = sample.into_kept();
        assert_eq!(kept.len(), 1_000);
        for tenth in 0..10 {
            let range = tenth * 10_000..(tenth + 1) * 10_000;
            let share = kept.iter().filter(|item| range.contains(*item)).count();
            assert!((60..140).contains(&share), "tenth {tenth}: {share}");
        }
    }
}
