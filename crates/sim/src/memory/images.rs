//! The newest images of entities, by kind and key.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;

use domain::AccountId;
use domain::change::Change;
use domain::entity::{Entity, Visitor};
use domain::rows::{Part, Parts, Rows};
use domain::source::Source;

/// The images of each kind.
#[derive(Debug, Default)]
pub(super) struct Images(BTreeMap<TypeId, Box<dyn Kind>>);

/// The images of one kind, by key.
#[derive(Clone, Debug)]
struct ImagesOf<T: Entity>(BTreeMap<T::Key, T>);

/// The images of any one kind.
trait Kind: Any + Debug + Send + Sync {
    fn cloned(&self) -> Box<dyn Kind>;

    /// Erases the personal data of an account's rows, which stay.
    fn erase(&mut self, account: AccountId);
}

impl<T: Entity> Kind for ImagesOf<T> {
    fn cloned(&self) -> Box<dyn Kind> {
        Box::new(self.clone())
    }

    fn erase(&mut self, account: AccountId) {
        let own = self.0.values_mut().filter(|it| it.facts().account == Some(account));
        own.for_each(Entity::erase);
    }
}

impl Clone for Images {
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|(kind, images)| (*kind, images.cloned())).collect())
    }
}

/// Puts the image of a change.
struct Put<'a>(&'a mut Images);

impl Visitor<'_> for Put<'_> {
    type Output = ();

    fn visit<T: Entity>(self, entity: &T) {
        let none = || Box::new(ImagesOf::<T>(BTreeMap::new()));
        let images = self.0.0.entry(TypeId::of::<T>()).or_insert_with(|| none());
        let images: &mut dyn Any = &mut **images;
        let images: &mut ImagesOf<T> = images.downcast_mut().expect("images of this kind");
        images.0.insert(entity.key(), entity.clone());
    }
}

/// Whether there is an image of the entity of a change.
struct Have<'a>(&'a Images);

impl Visitor<'_> for Have<'_> {
    type Output = bool;

    fn visit<T: Entity>(self, entity: &T) -> bool {
        self.0.of_kind::<T>().is_some_and(|images| images.contains_key(&entity.key()))
    }
}

impl Images {
    /// Puts the image of a change; `false` if the change writes no entity.
    pub(super) fn put(&mut self, change: &Change) -> bool {
        change.entity(Put(self)).is_some()
    }

    /// Whether there is an image of the entity that a change writes.
    pub(super) fn have(&self, change: &Change) -> bool {
        change.entity(Have(self)).unwrap_or(false)
    }

    /// The row of an entity.
    pub(super) fn get<T: Entity>(&self, key: &T::Key) -> Option<T> {
        self.of_kind()?.get(key).map(row)
    }

    /// All images of a kind, in the order of their keys.
    pub(super) fn all<T: Entity>(&self) -> impl Iterator<Item = &T> {
        self.of_kind().into_iter().flat_map(BTreeMap::values)
    }

    fn of_kind<T: Entity>(&self) -> Option<&BTreeMap<T::Key, T>> {
        let images: &dyn Any = &**self.0.get(&TypeId::of::<T>())?;
        images.downcast_ref().map(|ImagesOf(images)| images)
    }

    /// Erases the personal data of an account's rows, which stay. No two tenants have one id here: nothing is imported.
    pub(super) fn erase(&mut self, account: AccountId) {
        self.0.values_mut().for_each(|images| images.erase(account));
    }
}

impl Source for Images {
    type Error = Infallible;

    fn rows<T: Entity>(&self, loaded: &mut Rows<T>) -> Result<(), Infallible> {
        let keys: Vec<T::Key> = loaded.absent().cloned().collect();
        keys.iter().filter_map(|key| self.get::<T>(key)).for_each(|row| drop(loaded.put(row)));
        Ok(())
    }

    fn parts<T: Entity + Part>(&self, loaded: &mut Parts<T>) -> Result<(), Infallible> {
        let owners: Vec<T::Owner> = loaded.owners().cloned().collect();
        for owner in owners {
            let own = self.all::<T>().filter(|it| it.owner() == owner && it.is_active());
            own.for_each(|it| loaded.put(row(it)));
        }
        Ok(())
    }
}

/// The row of an image: it names its journal row only; the one before is in the journal's image.
pub(super) fn row<T: Entity>(image: &T) -> T {
    let mut row = image.clone();
    row.revision_mut().previous = None;
    row
}
