//! Usage of accounts' limits: the check is in the commit of the count.

use std::collections::BTreeMap;

use crate::account::blocking_state::ClosedTo;
use crate::account::rules::closed::refuse_closed;
use crate::change::EntitlementChange;
use crate::context::Context;
use crate::entitlement::feature::{FeatureKind, FeatureValue, LIMIT_MAX, LimitTerms, Reset};
use crate::entitlement::level::Counted;
use crate::entitlement::period::Period;
use crate::entitlement::usage::{
    AHEAD_US_MAX, ConfirmReservation, ENDS_MAX, Ends, EventKey, ITEMS_MAX, KEPT_US, LATE_US_MAX,
    RESERVED_US_MAX, RecordUsage, RecordUsages, ReleaseReservation, Reservation, ReservationStatus,
    Reserve, Usage, UsageEvent, UsageItem, begun, check_quantity,
};
use crate::reply::{EntitlementReply, Outcome};
use crate::state::State;
use crate::{
    Accepted, AccountId, AccountRejection, EntitlementRejection as R, Event, Rejection, Reply,
    ReservationId, TenantNo, Timestamp,
};

pub(crate) fn record(state: &State, it: &RecordUsage, cx: &mut Context) -> Outcome {
    let mut counts = Counts::of(state, it.account, cx)?;
    let counted = counts.count(&it.item, cx)?;
    counts.write(cx);
    Ok(Accepted::now(Reply::Entitlement(EntitlementReply::Counted(counted))))
}

pub(crate) fn record_all(state: &State, it: &RecordUsages, cx: &mut Context) -> Outcome {
    if !(1..=ITEMS_MAX).contains(&it.items.len()) {
        return Err(Rejection::invalid("events", "should be 1 to 1000"));
    }
    let mut counts = Counts::of(state, it.account, cx)?;
    let recorded = it.items.iter().map(|item| counts.count(item, cx)).collect();
    counts.write(cx);
    Ok(Accepted::now(Reply::Entitlement(EntitlementReply::Recorded(recorded))))
}

pub(crate) fn reserve(state: &State, it: &Reserve, cx: &mut Context) -> Outcome {
    check_quantity(it.quantity)?;
    let mut counts = Counts::of(state, it.account, cx)?;
    let allowance = counts.allowance(&it.feature, cx)?;
    let mut usage = counts.usage(&it.feature, allowance.resets, cx.now);
    let until = end(it.ends, usage.not_before(cx.now))?;
    allowance.check(&usage, it.quantity, cx)?;
    let is_known = usage.reserved.contains_key(&until);
    let over = usage.not_before(cx.earliest());
    if !is_known && usage.reserved.keys().filter(|it| **it > over).count() >= ENDS_MAX {
        let what = "reservations that end at different times".to_owned();
        return Err(R::TooMany { what, most: ENDS_MAX }.into());
    }
    *usage.reserved.entry(until).or_default() += it.quantity;
    let reservation = Reservation {
        tenant: cx.tenant,
        id: cx.mint(),
        account_id: it.account,
        feature: it.feature.clone(),
        period: usage.period,
        quantity: it.quantity,
        until,
        endings: usage.endings,
        status: ReservationStatus::Open,
        created_at: cx.now,
        updated_at: cx.now,
    };
    let (feature, quantity) = (it.feature.clone(), it.quantity);
    let counted = Counted { feature, quantity, level: usage.level(allowance.limit, cx.now) };
    let reply = EntitlementReply::Reserved { reservation: reservation.id, until, counted };
    cx.change(EntitlementChange::Reservation(Box::new(reservation)));
    counts.put(usage);
    counts.write(cx);
    Ok(Accepted::now(Reply::Entitlement(reply)))
}

pub(crate) fn confirm(state: &State, it: &ConfirmReservation, cx: &mut Context) -> Outcome {
    if let Some(quantity) = it.quantity {
        check_quantity(quantity)?;
    }
    let of = |reserved: i64| match it.quantity {
        Some(quantity) if quantity > reserved => {
            Err(Rejection::invalid("quantity", "is more than was reserved"))
        }
        Some(quantity) => Ok(quantity),
        None => Ok(reserved),
    };
    let status = |reserved| Ok(ReservationStatus::Confirmed { quantity: of(reserved)? });
    settle(state, (it.account, it.reservation), status, cx)
}

pub(crate) fn release(state: &State, it: &ReleaseReservation, cx: &mut Context) -> Outcome {
    settle(state, (it.account, it.reservation), |_| Ok(ReservationStatus::Released), cx)
}

/// Ends a reservation. `status`, of what was reserved, says how.
fn settle(
    state: &State,
    (account, id): (AccountId, ReservationId),
    status: impl Fn(i64) -> Result<ReservationStatus, Rejection>,
    cx: &mut Context,
) -> Outcome {
    let mut counts = Counts::of(state, account, cx)?;
    let known = state.reservation(cx.tenant, account, id);
    let Some(known) = known.filter(|it| it.is_known(cx.now)) else {
        return Err(R::ReservationNotFound { id }.into());
    };
    let mut usage = counts.usage_of(&known.feature, known.period);
    if !known.is_open(usage.endings, usage.not_before(cx.now)) {
        let status = known.status.ended_name().to_owned();
        return Err(R::ReservationEnded { id, status }.into());
    }
    let status = status(known.quantity)?;
    let held = usage.reserved.entry(known.until).or_default();
    *held -= known.quantity;
    assert!(*held >= 0, "what is reserved is the sum of the reservations that are open");
    let quantity = match status {
        ReservationStatus::Confirmed { quantity } => quantity,
        ReservationStatus::Open | ReservationStatus::Released => 0,
    };
    usage.used += quantity;
    // What the account has may be less by now, or nothing: what was reserved may be used all the same.
    let limit = counts.limit(&known.feature, cx);
    if let Some(limit) = limit {
        note_reached(&mut usage, limit, cx);
    }
    let reservation = Reservation { status, updated_at: cx.now, ..known.clone() };
    cx.change(EntitlementChange::Reservation(Box::new(reservation)));
    let level = usage.level(limit.unwrap_or_default(), cx.now);
    let counted = Counted { feature: known.feature.clone(), quantity, level };
    counts.put(usage);
    counts.write(cx);
    Ok(Accepted::now(Reply::Entitlement(EntitlementReply::Counted(counted))))
}

/// Ends all that a closed account has reserved.
pub(crate) fn end_all(state: &State, account: AccountId, cx: &mut Context) {
    let reserved = state.reserved_usage(cx.tenant, account).filter(|it| !it.reserved.is_empty());
    for it in reserved {
        cx.change(EntitlementChange::Usage(Box::new(Usage {
            reserved: BTreeMap::new(),
            endings: it.endings + 1,
            updated_at: it.not_before(cx.earliest()),
            ..it.clone()
        })));
    }
}

/// When a reservation ends: at the next whole second.
fn end(ends: Ends, now: Timestamp) -> Result<Timestamp, Rejection> {
    let (field, until) = match ends {
        Ends::At(until) => ("until", until),
        Ends::After(us) => ("ttlSeconds", now.plus_us(us)),
    };
    if until <= now || now.until_us(until) > RESERVED_US_MAX {
        return Err(Rejection::invalid(field, "should be in the future, and within 31 days"));
    }
    let seconds = until.plus_us(Timestamp::SECOND_US - 1).0.div_euclid(Timestamp::SECOND_US);
    Ok(Timestamp(seconds * Timestamp::SECOND_US))
}

/// The limit of a feature that an account has now, with its terms.
#[derive(Clone, Copy)]
struct Allowance {
    limit: i64,
    resets: Reset,
    overdraft: bool,
}

impl Allowance {
    /// Refuses what would be more than there is.
    fn check(self, usage: &Usage, quantity: i64, cx: &Context) -> Result<(), Rejection> {
        let level = usage.level(self.limit, cx.now);
        // Each of them is below 2^53, but for the sum of what is reserved, which was checked so.
        let taken = level.used.saturating_add(level.reserved).saturating_add(quantity);
        if taken > LIMIT_MAX {
            return Err(Rejection::invalid(
                "quantity",
                "would count to more than 9007199254740991",
            ));
        }
        if taken > self.limit && !self.overdraft {
            let feature = usage.feature.clone();
            return Err(R::LimitReached(Box::new(Counted { feature, quantity, level })).into());
        }
        Ok(())
    }
}

/// The counts of a command: rows as they were loaded, and as it changes them.
struct Counts<'a> {
    state: &'a State,
    tenant: TenantNo,
    account: AccountId,
    zone: &'a str,
    allowances: BTreeMap<&'a str, Allowance>,
    changed: BTreeMap<(String, Period), Usage>,
    events: BTreeMap<EventKey, UsageEvent>,
}

impl<'a> Counts<'a> {
    /// # Errors
    /// Where there is no such account, or it is closed.
    fn of(state: &'a State, account: AccountId, cx: &Context) -> Result<Self, Rejection> {
        let Some(known) = state.account(cx.tenant, account) else {
            return Err(AccountRejection::NotFound { id: account }.into());
        };
        refuse_closed(state, account, ClosedTo::Usage, cx)?;
        let (allowances, changed, events) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (tenant, zone) = (cx.tenant, &known.time_zone);
        Ok(Self { state, tenant, account, zone, allowances, changed, events })
    }

    fn count(&mut self, item: &UsageItem, cx: &mut Context) -> Result<Counted, Rejection> {
        check_quantity(item.quantity)?;
        if let Some(first) = self.first(item.event, cx) {
            return Err(R::EventCounted(Box::new(first.clone())).into());
        }
        let allowance = self.allowance(&item.feature, cx)?;
        let at = time_of(item, cx)?;
        let mut usage = self.usage(&item.feature, allowance.resets, at);
        allowance.check(&usage, item.quantity, cx)?;
        usage.used += item.quantity;
        note_reached(&mut usage, allowance.limit, cx);
        let level = usage.level(allowance.limit, cx.now);
        let counted = Counted { feature: item.feature.clone(), quantity: item.quantity, level };
        let event = UsageEvent {
            tenant: cx.tenant,
            account_id: self.account,
            key: item.event,
            period: usage.period,
            counted: counted.clone(),
            counted_at: cx.now,
        };
        self.events.insert(item.event, event);
        self.put(usage);
        Ok(counted)
    }

    /// The answer to an event that was counted before, and is still known.
    fn first(&self, key: EventKey, cx: &Context) -> Option<&Counted> {
        let known = self.state.usage_event(cx.tenant, self.account, key);
        let known = known.filter(|it| it.counted_at.plus_us(KEPT_US) > cx.now);
        self.events.get(&key).or(known).map(|it| &it.counted)
    }

    /// The account's allowance of a feature. Refused where the feature does not exist, is no limit, or is not
    /// granted.
    fn allowance(&mut self, feature: &str, cx: &Context) -> Result<Allowance, Rejection> {
        if let Some(known) = self.allowances.get(feature) {
            return Ok(*known);
        }
        let Some(known) = self.state.feature(cx.tenant, feature) else {
            return Err(R::FeatureNotFound { key: feature.to_owned() }.into());
        };
        if limit_terms(&known.terms.kind).is_none() {
            return Err(Rejection::invalid("feature", "is no limit"));
        }
        let entitlements = self.state.entitlements(cx.tenant, self.account);
        let entitled = entitlements.and_then(|it| it.feature_at(feature, cx.now));
        let limit = entitled.as_ref().and_then(|it| {
            let terms = limit_terms(&it.terms.kind)?;
            Some((value_of(&it.value)?, terms.resets, terms.overdraft))
        });
        let Some((limit, resets, overdraft)) = limit else {
            return Err(R::NotEntitled { feature: feature.to_owned() }.into());
        };
        let allowance = Allowance { limit, resets, overdraft };
        self.allowances.insert(&known.key, allowance);
        Ok(allowance)
    }

    /// The account's limit of a feature, all its grants combined; `None` where it has none.
    fn limit(&self, feature: &str, cx: &Context) -> Option<i64> {
        let entitlements = self.state.entitlements(cx.tenant, self.account);
        let entitled = entitlements.and_then(|it| it.feature_at(feature, cx.now));
        entitled.and_then(|it| value_of(&it.value))
    }

    /// The count of the period of a time.
    fn usage(&self, feature: &str, resets: Reset, at: Timestamp) -> Usage {
        let known = self.state.usage((self.tenant, self.account), feature);
        let begun = begun(known, resets, at).map(|it| it.period);
        self.usage_of(feature, begun.unwrap_or_else(|| Period::of(resets, self.zone, at)))
    }

    fn usage_of(&self, feature: &str, period: Period) -> Usage {
        if let Some(changed) = self.changed.get(&(feature.to_owned(), period)) {
            return changed.clone();
        }
        let of_account = (self.tenant, self.account);
        let mut known = self.state.usage(of_account, feature);
        let known = known.find(|it| it.period == period).cloned();
        known.unwrap_or_else(|| Usage::none_of(of_account, feature.to_owned(), period))
    }

    fn put(&mut self, usage: Usage) {
        self.changed.insert((usage.feature.clone(), usage.period), usage);
    }

    /// Writes what was counted, without reservations that ended.
    fn write(self, cx: &mut Context) {
        for (_, mut usage) in self.changed {
            // What ends between real time and a clock that is ahead may come back.
            usage.updated_at = usage.not_before(cx.earliest());
            let over = usage.updated_at;
            usage.reserved.retain(|until, quantity| *until > over && *quantity > 0);
            cx.change(EntitlementChange::Usage(Box::new(usage)));
        }
        for (_, event) in self.events {
            cx.change(EntitlementChange::UsageEvent(Box::new(event)));
        }
    }
}

/// When something was used.
fn time_of(item: &UsageItem, cx: &Context) -> Result<Timestamp, Rejection> {
    let at = item.at.unwrap_or(cx.now);
    if at > cx.now.plus_us(AHEAD_US_MAX) {
        return Err(Rejection::invalid("at", "is in the future"));
    }
    if at < cx.now.plus_us(-LATE_US_MAX) {
        return Err(Rejection::invalid("at", "is more than an hour ago"));
    }
    Ok(at.min(cx.now))
}

/// Notes that an account has used as much as it has, once in a period.
fn note_reached(usage: &mut Usage, limit: i64, cx: &mut Context) {
    if usage.is_reached || usage.used < limit {
        return;
    }
    usage.is_reached = true;
    cx.event(Event::LimitReached {
        account: usage.account_id,
        feature: usage.feature.clone(),
        limit,
        used: usage.used,
        period: usage.period,
    });
}

const fn limit_terms(kind: &FeatureKind) -> Option<&LimitTerms> {
    match kind {
        FeatureKind::Limit(terms) => Some(terms),
        FeatureKind::Switch | FeatureKind::Value(_) => None,
    }
}

const fn value_of(value: &FeatureValue) -> Option<i64> {
    match value {
        FeatureValue::Limit(limit) => Some(*limit),
        FeatureValue::On
        | FeatureValue::Boolean(_)
        | FeatureValue::Number(_)
        | FeatureValue::String(_)
        | FeatureValue::Json(_) => None,
    }
}

#[cfg(test)]
mod tests;
