//! The objects of one kind, newest last, found by id and by what they belong to.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::ids::Id;
use crate::params::Params;

const PAGE_DEFAULT: i64 = 10;
const PAGE_MAX: i64 = 100;

pub trait Object {
    /// Id, number, time of creation and owner. Numbers grow with each object of the account; lists are in their order.
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>);

    fn id(&self) -> &Id {
        self.facts().0
    }

    fn number(&self) -> u64 {
        self.facts().1
    }

    fn created(&self) -> i64 {
        self.facts().2
    }

    /// What lists of the kind are asked by: a customer, a charge, a payment.
    fn owner(&self) -> Option<&Id> {
        self.facts().3
    }
}

pub struct Collection<T> {
    by_id: HashMap<Id, Rc<T>>,
    ids: Vec<Id>,
    by_owner: HashMap<Id, Vec<Id>>,
}

impl<T> Default for Collection<T> {
    fn default() -> Collection<T> {
        Collection { by_id: HashMap::new(), ids: Vec::new(), by_owner: HashMap::new() }
    }
}

impl<T: Object> Collection<T> {
    /// Adds the object, or replaces the one of its id.
    pub fn put(&mut self, object: Rc<T>) {
        let (id, number) = (object.id().clone(), object.number());
        let owner = object.owner().cloned();
        let before = self.by_id.insert(id.clone(), object);
        if before.is_none() {
            insert_sorted(&self.by_id, &mut self.ids, &id, number);
        }
        let owned_before = before.as_ref().and_then(|it| it.owner().cloned());
        if owned_before == owner {
            return;
        }
        if let Some(owned) = owned_before.and_then(|it| self.by_owner.get_mut(&it)) {
            owned.retain(|it| *it != id);
        }
        if let Some(owner) = owner {
            insert_sorted(&self.by_id, self.by_owner.entry(owner).or_default(), &id, number);
        }
    }

    pub fn get(&self, id: &str) -> Option<&Rc<T>> {
        self.by_id.get(id)
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Rc<T>> {
        self.ids.iter().map(|id| &self.by_id[id])
    }

    /// Oldest first.
    pub fn of(&self, owner: &str) -> impl DoubleEndedIterator<Item = &Rc<T>> {
        self.by_owner.get(owner).into_iter().flatten().map(|id| &self.by_id[id])
    }

    /// A page, newest first, by `limit`, `starting_after`, `ending_before` and `created`.
    pub fn list(
        &self,
        list: &List<'_, T>,
        render: impl Fn(&T) -> Value,
    ) -> Result<Value, ApiError> {
        let ids = match list.owner {
            Some(owner) => self.by_owner.get(owner).map_or(&[][..], |it| it),
            None => &self.ids,
        };
        let limit = list.params.integer("limit")?.unwrap_or(PAGE_DEFAULT);
        if !(1..=PAGE_MAX).contains(&limit) {
            let message = format!("Invalid limit: must be between 1 and {PAGE_MAX}");
            return Err(ApiError::invalid("limit", message));
        }
        let created = Created::of(list.params)?;
        let position = |name: &str| {
            let Some(id) = list.params.text(name) else { return Ok(None) };
            let cursor =
                self.by_id.get(id).ok_or_else(|| ApiError::not_found("object", name, id))?;
            Ok(Some(ids.partition_point(|it| self.by_id[it].number() < cursor.number())))
        };
        let wanted = |id: &&Id| {
            let object = &self.by_id[*id];
            created.holds(object.created()) && (list.filter)(object)
        };
        let limit = limit as usize;
        let mut page: Vec<&Id>;
        if let Some(before) = position("ending_before")? {
            let from = ids[before..].iter().skip(1).filter(wanted);
            page = from.take(limit + 1).collect();
            let has_more = page.len() > limit;
            page.truncate(limit);
            page.reverse();
            return Ok(self.page(list.url, &page, has_more, render));
        }
        let until = position("starting_after")?.unwrap_or(ids.len());
        page = ids[..until].iter().rev().filter(wanted).take(limit + 1).collect();
        let has_more = page.len() > limit;
        page.truncate(limit);
        Ok(self.page(list.url, &page, has_more, render))
    }

    fn page(&self, url: &str, page: &[&Id], has_more: bool, render: impl Fn(&T) -> Value) -> Value {
        let data: Vec<Value> = page.iter().map(|id| render(&self.by_id[*id])).collect();
        json!({ "object": "list", "url": url, "has_more": has_more, "data": data })
    }
}

fn insert_sorted<T: Object>(by_id: &HashMap<Id, Rc<T>>, ids: &mut Vec<Id>, id: &Id, number: u64) {
    let at = match ids.last() {
        Some(last) if by_id[last].number() > number => {
            ids.partition_point(|it| by_id[it].number() < number)
        }
        Some(_) | None => ids.len(),
    };
    ids.insert(at, id.clone());
}

/// What a list is asked for.
pub struct List<'a, T> {
    pub params: &'a Params,
    pub url: &'a str,
    pub owner: Option<&'a str>,
    pub filter: &'a dyn Fn(&T) -> bool,
}

/// `created=1`, or `created[gt|gte|lt|lte]=1`, in seconds.
struct Created(Vec<(Compare, i64)>);

type Compare = fn(&i64, &i64) -> bool;

impl Created {
    fn of(params: &Params) -> Result<Created, ApiError> {
        let known: [(&str, Compare); 5] = [
            ("created", i64::eq),
            ("created[gt]", i64::gt),
            ("created[gte]", i64::ge),
            ("created[lt]", i64::lt),
            ("created[lte]", i64::le),
        ];
        let mut found = Vec::new();
        for (name, compare) in known {
            if let Some(bound) = params.integer(name)? {
                found.push((compare, bound));
            }
        }
        Ok(Created(found))
    }

    fn holds(&self, created: i64) -> bool {
        self.0.iter().all(|(compare, bound)| compare(&created, bound))
    }
}
