//! How many of something each key holds, such as permits of a tenant or of a network.

use std::collections::HashMap;
use std::hash::Hash;

/// Counts by key. A key that holds none takes no memory.
#[derive(Debug)]
pub struct Holdings<K>(HashMap<K, usize>);

impl<K> Default for Holdings<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Holdings<K> {
    /// How many a key holds.
    pub fn of(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Whether no key holds any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A key holds more.
    pub fn add(&mut self, key: K, count: usize) {
        *self.0.entry(key).or_default() += count;
    }

    /// A key holds one more, unless it holds `max`; whether it does.
    pub fn add_below(&mut self, key: K, max: usize) -> bool {
        let has_room = self.of(&key) < max;
        if has_room {
            self.add(key, 1);
        }
        has_room
    }

    /// A key gives some back.
    pub fn remove(&mut self, key: &K, count: usize) {
        let Some(held) = self.0.get_mut(key) else { return };
        *held = held.saturating_sub(count);
        if *held == 0 {
            self.0.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_up_to_its_maximum_and_leaves_nothing_behind() {
        let mut held = Holdings::default();
        assert_eq!([1, 2, 3].map(|_| held.add_below("ann", 2)), [true, true, false]);
        held.add("bob", 5);
        assert_eq!((held.of(&"ann"), held.of(&"bob"), held.of(&"cleo")), (2, 5, 0));
        held.remove(&"ann", 1);
        assert!(held.add_below("ann", 2));
        held.remove(&"ann", 2);
        held.remove(&"bob", 5);
        held.remove(&"cleo", 1);
        assert!(held.is_empty());
    }
}
