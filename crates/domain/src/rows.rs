//! Rows that a batch loads, by key: those that exist, and those that it looked for in vain.

use std::collections::BTreeMap;
use std::fmt::Debug;

/// A stored row with a key.
pub trait Keyed {
    /// Unique among all rows of the kind: the tenant, then an id or a name.
    type Key: Clone + Ord + Debug + Send + Sync;

    fn key(&self) -> Self::Key;
}

/// The loaded rows of one kind. Only rows that were looked for are known: a rule that asks for another one has
/// no entry in its command's reads, and panics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<T: Keyed>(BTreeMap<T::Key, Option<T>>);

impl<T: Keyed> Default for Rows<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Keyed> Rows<T> {
    /// Notes that a row was looked for: absent, until it is put.
    pub fn look_for(&mut self, key: T::Key) {
        self.0.entry(key).or_default();
    }

    /// Puts a row in place of an older image of it, which it returns.
    pub fn put(&mut self, row: T) -> Option<T> {
        self.0.insert(row.key(), Some(row)).flatten()
    }

    /// Puts a row, or notes that there is none with this key.
    pub fn set(&mut self, key: T::Key, row: Option<T>) {
        self.0.insert(key, row);
    }

    /// The row; `None` if there is none.
    ///
    /// # Panics
    /// If the row was not looked for.
    #[must_use]
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.0.get(key).unwrap_or_else(|| was_not_read::<T>()).as_ref()
    }

    /// The row, if it was looked for and exists.
    #[must_use]
    pub fn find(&self, key: &T::Key) -> Option<&T> {
        self.0.get(key).and_then(Option::as_ref)
    }

    pub fn find_mut(&mut self, key: &T::Key) -> Option<&mut T> {
        self.0.get_mut(key).and_then(Option::as_mut)
    }

    /// Whether the row was looked for.
    #[must_use]
    pub fn knows(&self, key: &T::Key) -> bool {
        self.0.contains_key(key)
    }

    /// The rows that exist, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.values().flatten()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut().flatten()
    }

    /// The keys that were looked for and have no row, or none yet.
    pub fn absent(&self) -> impl Iterator<Item = &T::Key> {
        self.0.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| key)
    }

    /// The keys that were looked for.
    pub fn keys(&self) -> impl Iterator<Item = &T::Key> {
        self.0.keys()
    }
}

/// A row that belongs to an owner and is loaded with the owner's others.
pub trait Part: Keyed {
    /// Unique among all owners: the tenant, then an id.
    type Owner: Clone + Ord + Debug;

    fn owner(&self) -> Self::Owner;

    /// Whether it is one of the owner's parts still.
    fn is_active(&self) -> bool;
}

/// The parts of one owner, by their keys.
pub type PartsOf<T> = BTreeMap<<T as Keyed>::Key, T>;

/// All active parts of the owners that were looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<T: Part>(BTreeMap<T::Owner, PartsOf<T>>);

impl<T: Part> Default for Parts<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Part> Parts<T> {
    /// Notes that an owner's parts were looked for: none, until some are put.
    pub fn look_for(&mut self, owner: T::Owner) {
        self.0.entry(owner).or_default();
    }

    /// Puts a part in place of an older image of it, or takes it away where it is no longer active.
    pub fn put(&mut self, part: T) {
        let of_owner = self.0.entry(part.owner()).or_default();
        of_owner.remove(&part.key());
        if part.is_active() {
            of_owner.insert(part.key(), part);
        }
    }

    /// The owner's parts, in the order of their keys.
    ///
    /// # Panics
    /// If the owner's parts were not looked for.
    #[must_use]
    pub fn of(&self, owner: &T::Owner) -> &PartsOf<T> {
        self.0.get(owner).unwrap_or_else(|| was_not_read::<T>())
    }

    /// The owner's parts, if they were looked for.
    #[must_use]
    pub fn find(&self, owner: &T::Owner) -> Option<&PartsOf<T>> {
        self.0.get(owner)
    }

    /// The owners whose parts were looked for.
    pub fn owners(&self) -> impl Iterator<Item = &T::Owner> {
        self.0.keys()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut().flat_map(BTreeMap::values_mut)
    }

    /// Takes away the parts that `is_kept` is false for.
    pub fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.0.values_mut().for_each(|of_owner| of_owner.retain(|_, part| is_kept(part)));
    }
}

/// A panic is logged, and a key may be a text that a client chose: only the kind is named.
fn was_not_read<T>() -> ! {
    panic!("{} is not among the command's reads", std::any::type_name::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Row(u8, char);

    impl Keyed for Row {
        type Key = u8;

        fn key(&self) -> u8 {
            self.0
        }
    }

    impl Part for Row {
        type Owner = bool;

        fn owner(&self) -> bool {
            self.0.is_multiple_of(2)
        }

        fn is_active(&self) -> bool {
            self.1 != '-'
        }
    }

    #[test]
    fn a_row_that_was_looked_for_is_absent_until_it_is_put() {
        let mut rows = Rows::default();
        rows.look_for(1);
        assert_eq!(rows.get(&1), None);
        assert_eq!(rows.put(Row(1, 'a')), None);
        rows.look_for(1);
        assert_eq!(rows.get(&1), Some(&Row(1, 'a')));
        assert_eq!(rows.put(Row(1, 'b')), Some(Row(1, 'a')));
        assert_eq!(rows.iter().collect::<Vec<_>>(), [&Row(1, 'b')]);
    }

    #[test]
    #[should_panic(expected = "Row is not among the command's reads")]
    fn a_row_that_was_not_looked_for_panics() {
        let mut rows = Rows::default();
        rows.put(Row(1, 'a'));
        assert_eq!(rows.find(&2), None);
        let _ = rows.get(&2);
    }

    #[test]
    fn a_part_that_is_no_longer_active_is_taken_away() {
        let mut parts = Parts::default();
        parts.put(Row(2, 'a'));
        parts.put(Row(4, 'b'));
        parts.put(Row(2, '-'));
        assert_eq!(parts.of(&true).keys().collect::<Vec<_>>(), [&4]);
        parts.look_for(false);
        assert!(parts.of(&false).is_empty());
    }
}
