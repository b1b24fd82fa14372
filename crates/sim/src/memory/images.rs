//! The newest images of entities, by kind and key.

use std::collections::BTreeMap;

use domain::change::{AccountChange, Change, Image, PaymentChange, Visitor};
use domain::rows::Rows;
use domain::{AccountId, TenantNo};

/// The images of each kind, as changes have them, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Images(BTreeMap<&'static str, Vec<Change>>);

/// Puts the image of a change.
struct Put<'a>(&'a mut Images, &'a Change);

impl Visitor for Put<'_> {
    type Output = ();

    fn visit<T: Image>(self, entity: &T) {
        let Put(images, change) = self;
        let place = images.find::<T>(&entity.key());
        let of_kind = images.0.entry(std::any::type_name::<T>()).or_default();
        match place {
            Ok(at) => of_kind[at] = change.clone(),
            Err(at) => of_kind.insert(at, change.clone()),
        }
    }
}

/// Whether there is an image of the entity of a change.
struct Have<'a>(&'a Images);

impl Visitor for Have<'_> {
    type Output = bool;

    fn visit<T: Image>(self, entity: &T) -> bool {
        self.0.find::<T>(&entity.key()).is_ok()
    }
}

impl Images {
    /// Puts the image of a change; `false` if the change writes no entity.
    pub(super) fn put(&mut self, change: &Change) -> bool {
        change.entity(Put(self, change)).is_some()
    }

    /// Whether there is an image of the entity that a change writes.
    pub(super) fn have(&self, change: &Change) -> bool {
        change.entity(Have(self)).unwrap_or(false)
    }

    /// The row of an entity.
    pub(super) fn get<T: Image>(&self, key: &T::Key) -> Option<T> {
        let at = self.find::<T>(key).ok()?;
        T::of(&self.of_kind::<T>()[at]).map(row)
    }

    /// Loads the row of an entity, or that there is none.
    pub(super) fn load<T: Image>(&self, key: T::Key, loaded: &mut Rows<T>) {
        let row = self.get(&key);
        loaded.set(key, row);
    }

    /// All images of a kind, in the order of their keys.
    pub(super) fn all<T: Image>(&self) -> impl Iterator<Item = &T> {
        self.of_kind::<T>().iter().filter_map(T::of)
    }

    fn of_kind<T: Image>(&self) -> &[Change] {
        self.0.get(std::any::type_name::<T>()).map_or(&[], Vec::as_slice)
    }

    /// The place of a key among the images of its kind, or the place where it belongs.
    fn find<T: Image>(&self, key: &T::Key) -> Result<usize, usize> {
        let key_of = |image: &Change| T::of(image).map(T::key);
        self.of_kind::<T>().binary_search_by(|image| key_of(image).as_ref().cmp(&Some(key)))
    }

    /// Erases the personal data of an account's rows, which stay.
    pub(super) fn erase(&mut self, account: (TenantNo, AccountId)) {
        for change in self.0.values_mut().flatten() {
            if let Change::Account(AccountChange::PaymentMethod(it)) = change
                && (it.tenant, it.account_id) == account
            {
                it.erase();
            } else if let Change::Account(AccountChange::Email(it)) = change
                && (it.tenant, it.account) == account
            {
                it.email.clear();
            } else if let Change::Account(AccountChange::CustomField(it)) = change
                && (it.tenant, it.account) == account
            {
                it.name.clear();
                it.value.clear();
            } else if let Change::Payment(PaymentChange::Attempt(it)) = change
                && (it.tenant, it.account_id) == account
            {
                it.erase();
            }
        }
    }
}

/// The row of an image: it names its journal row only; the one before is in the journal's image.
pub(super) fn row<T: Image>(image: &T) -> T {
    let mut row = image.clone();
    row.revision_mut().previous = None;
    row
}
