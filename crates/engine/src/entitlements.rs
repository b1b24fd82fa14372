//! Entitlements of accounts in the form that all APIs share: the document, the check, and values as
//! JSON.

use std::collections::BTreeMap;

use domain::entitlement::feature::{FeatureKind, FeatureValue};
use domain::entitlement::level::Level;
use domain::entitlement::usage::{Usage, level_now};
use domain::entitlement::{Entitled, Entitlements};
use domain::{AccountId, TenantNo, Timestamp};
use serde_json::Value;

use crate::ports::{Checked, Queries, StoreError};

/// The value of a feature as JSON: `true` for one that is on, a number for a limit.
#[must_use]
pub fn value_json(value: &FeatureValue) -> Value {
    match value {
        FeatureValue::On => Value::Bool(true),
        FeatureValue::Limit(limit) => Value::from(*limit),
        FeatureValue::Boolean(it) => Value::Bool(*it),
        FeatureValue::String(it) => Value::String(it.clone()),
        // They were JSON when they were stored.
        FeatureValue::Number(it) | FeatureValue::Json(it) => {
            serde_json::from_str(it).unwrap_or_default()
        }
    }
}

/// Where the limits of an account stand, by the keys of their features.
pub type Levels = BTreeMap<String, Level>;

/// An account's entitlements and the levels of its limits, as read from the store.
#[derive(Clone, Debug)]
pub struct Known {
    pub account: AccountId,
    /// `None` where nothing was ever granted.
    pub entitlements: Option<Entitlements>,
    /// Where the limits stand that it has.
    pub levels: Levels,
}

/// When a document is made, and for how long a program may hold it.
#[derive(Clone, Copy, Debug)]
pub struct Holding {
    pub now: Timestamp,
    /// In microseconds.
    pub held_us: i64,
}

/// All that an account may do at a time.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    pub account: AccountId,
    /// Counts the changes of what was granted to the account and of its users, without gaps.
    pub version: i64,
    /// Until when a program may hold it: then nothing is known any more, and nothing is allowed.
    pub valid_until: Timestamp,
    /// In the order of their keys.
    pub features: Vec<HeldFeature<'a>>,
}

/// A feature that an account has, in a document.
#[derive(Clone, Debug)]
pub struct HeldFeature<'a> {
    pub key: &'a str,
    pub has: Entitled<'a>,
    /// That of the document, or earlier where the value ends or changes before.
    pub valid_until: Timestamp,
    /// How much of it is used, of a limit.
    pub level: Option<Level>,
}

/// Whether an account may use a feature at a time.
#[derive(Clone, Debug)]
pub struct Check<'a> {
    /// The account's entitlement to it; `None` where it has none.
    pub has: Option<Entitled<'a>>,
    /// How much of it is used, of a limit.
    pub level: Option<Level>,
    pub reason: CheckReason,
}

/// Why an account may or may not use a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckReason {
    Granted,
    NotGranted,
    /// Nothing is left, and no more may be used.
    LimitReached,
}

/// The missing object of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotThere {
    Feature,
    Account,
}

/// Reads what an account may do; `None` where there is no such account.
///
/// # Errors
/// [`StoreError`].
pub fn read(
    queries: &dyn Queries,
    (tenant, account): (TenantNo, AccountId),
    now: Timestamp,
) -> Result<Option<Known>, StoreError> {
    let Some(found) = queries.account(tenant, account)? else { return Ok(None) };
    let entitlements = queries.entitlements(tenant, account)?;
    let zone = &found.account.time_zone;
    let has = entitlements.as_ref().map(|it| it.at(now)).unwrap_or_default();
    let counts = read_counts(queries, (tenant, account), &has)?;
    let levels = levels(&has, &counts, (zone, now));
    Ok(Some(Known { account, levels, entitlements }))
}

/// Reads what an account used of the limits that it has.
///
/// # Errors
/// [`StoreError`].
pub fn read_counts(
    queries: &dyn Queries,
    (tenant, account): (TenantNo, AccountId),
    has: &BTreeMap<&str, Entitled<'_>>,
) -> Result<Vec<Usage>, StoreError> {
    let limits: Vec<&str> = limits(has).map(|(key, _)| key).collect();
    if limits.is_empty() { Ok(vec![]) } else { queries.usage_now(tenant, account, &limits) }
}

/// Where the limits stand that an account has, of what it used of them; `zone` is its time zone.
#[must_use]
pub fn levels(
    has: &BTreeMap<&str, Entitled<'_>>,
    counts: &[Usage],
    (zone, now): (&str, Timestamp),
) -> Levels {
    let level = |(key, has): (&str, &Entitled<'_>)| {
        let of_feature: Vec<&Usage> = counts.iter().filter(|it| it.feature == key).collect();
        level_now(has, &of_feature, zone, now).map(|it| (key.to_owned(), it))
    };
    limits(has).filter_map(level).collect()
}

fn limits<'a, 'b>(
    has: &'b BTreeMap<&'a str, Entitled<'a>>,
) -> impl Iterator<Item = (&'a str, &'b Entitled<'a>)> {
    let all = has.iter().map(|(key, it)| (*key, it));
    all.filter(|(_, it)| matches!(it.terms.kind, FeatureKind::Limit(_)))
}

impl Holding {
    /// Until when a program may hold it.
    #[must_use]
    pub fn until(self) -> Timestamp {
        self.now.plus_us(self.held_us)
    }
}

impl Known {
    /// Counts the changes; 0 before the first.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.entitlements.as_ref().map_or(0, |it| it.version)
    }

    /// All that the account may do.
    #[must_use]
    pub fn document(&self, holding: Holding) -> Document<'_> {
        let mut document = Document::of(self.account, self.entitlements.as_ref(), holding);
        for it in &mut document.features {
            it.level = self.levels.get(it.key).copied();
        }
        document
    }
}

impl<'a> Document<'a> {
    /// The document of an account, without how much of its limits is used; without features where nothing was ever
    /// granted to it.
    #[must_use]
    pub fn of(account: AccountId, found: Option<&'a Entitlements>, holding: Holding) -> Self {
        let features = found.map(|it| it.at(holding.now)).unwrap_or_default();
        let changes = found.map(|it| it.next_changes(holding.now)).unwrap_or_default();
        let until = |key: &str| {
            let changes = changes.get(key).copied();
            changes.map_or(holding.until(), |it| it.min(holding.until()))
        };
        let held = |(key, has)| HeldFeature { key, has, valid_until: until(key), level: None };
        Self {
            account,
            version: found.map_or(0, |it| it.version),
            valid_until: holding.until(),
            features: features.into_iter().map(held).collect(),
        }
    }
}

impl<'a> Check<'a> {
    /// The check of a feature at a time, of the data that was read.
    ///
    /// # Errors
    /// [`NotThere`]: there is no such feature, or no such account.
    pub fn of(checked: &'a Checked, feature: &str, now: Timestamp) -> Result<Self, NotThere> {
        if !checked.is_feature {
            return Err(NotThere::Feature);
        }
        let zone = checked.zone.as_ref().ok_or(NotThere::Account)?;
        let has = checked.entitlements.as_ref().and_then(|it| it.feature_at(feature, now));
        let Some(has) = has else {
            return Ok(Self { has: None, level: None, reason: CheckReason::NotGranted });
        };
        let counts: Vec<&Usage> = checked.usage.iter().collect();
        let level = level_now(&has, &counts, zone, now);
        let overdraft = matches!(&has.terms.kind, FeatureKind::Limit(limit) if limit.overdraft);
        let is_left = overdraft || level.is_none_or(|it| it.left() > 0);
        let reason = if is_left { CheckReason::Granted } else { CheckReason::LimitReached };
        Ok(Self { has: Some(has), level, reason })
    }

    /// Whether the account may use the feature.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.reason == CheckReason::Granted
    }
}
