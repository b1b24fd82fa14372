//! When a subscription is blocked: by the states of its account, of its bundle and of its own.

use std::collections::BTreeMap;

use crate::Timestamp;
use crate::account::blocking_state::{Blockable, BlockingState, Blocks};
use crate::billing::subscription::Subscription;
use crate::billing::timeline::{Blocked, To};

/// Whether the product of a subscription may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not yet.
    Pending,
    Active,
    Blocked,
    Cancelled,
    /// The last phase of its plan is over.
    Expired,
}

impl Standing {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Active => "ACTIVE",
            Self::Blocked => "BLOCKED",
            Self::Cancelled => "CANCELLED",
            Self::Expired => "EXPIRED",
        }
    }
}

/// Whether the product of a subscription may be used at a time; `all` are the states of its account and of all that
/// belongs to that.
#[must_use]
pub fn standing(it: &Subscription, all: &[BlockingState], at: Timestamp) -> Standing {
    let has_ended = |end: Timestamp| end <= at;
    match it.transitions.last().map(|it| &it.to) {
        Some(To::Expired) if it.ends_at().is_some_and(has_ended) => Standing::Expired,
        _ if it.entitled_until.or(it.ends_at()).is_some_and(has_ended) => Standing::Cancelled,
        _ if it.entitled_from > at => Standing::Pending,
        _ if blocks_at(&own_states(it, all), at).entitlement => Standing::Blocked,
        _ => Standing::Active,
    }
}

/// The states that are of a subscription, in their order, but those from after its end.
#[must_use]
pub fn own_states<'a>(it: &Subscription, all: &'a [BlockingState]) -> Vec<&'a BlockingState> {
    let end = it.ends_at().into_iter().chain(it.entitled_until).max();
    let mut states = states_of(all, Some(it));
    states.retain(|state| end.is_none_or(|end| state.effective_at < end));
    states
}

/// The newest state of each service for each object, as far as they were counted.
#[derive(Clone, Debug, Default)]
pub struct Holding<'a>(BTreeMap<(Level, &'a str), Blocks>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Account,
    Bundle,
    Subscription,
}

impl<'a> Holding<'a> {
    /// Counts the next state.
    pub fn count(&mut self, it: &'a BlockingState) {
        let level = match it.of {
            Blockable::Account => Level::Account,
            Blockable::Bundle(_) => Level::Bundle,
            Blockable::Subscription(_) => Level::Subscription,
        };
        self.0.insert((level, &it.service), it.blocks);
    }

    /// What all of them block together.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        self.0.values().fold(Blocks::default(), |all, it| all.or(*it))
    }
}

/// The states that are of a subscription, or of the account alone, in their order.
#[must_use]
pub fn states_of<'a>(
    all: impl IntoIterator<Item = &'a BlockingState>,
    subscription: Option<&Subscription>,
) -> Vec<&'a BlockingState> {
    let is_of = |it: &&BlockingState| match it.of {
        Blockable::Account => true,
        Blockable::Bundle(id) => subscription.is_some_and(|it| it.bundle_id == id),
        Blockable::Subscription(id) => subscription.is_some_and(|it| it.id == id),
    };
    let mut states: Vec<_> = all.into_iter().filter(is_of).collect();
    states.sort_by_key(|it| it.order());
    states
}

/// What the states block at a time.
#[must_use]
pub fn blocks_at(states: &[&BlockingState], at: Timestamp) -> Blocks {
    let mut holding = Holding::default();
    states.iter().take_while(|it| it.effective_at <= at).for_each(|it| holding.count(it));
    holding.blocks()
}

/// The spans in which the states, which are in their order, block billing.
#[must_use]
pub fn billing_spans(states: &[&BlockingState]) -> Vec<Blocked> {
    let mut spans: Vec<Blocked> = vec![];
    let (mut holding, mut from) = (Holding::default(), None);
    for state in states {
        holding.count(state);
        let at = state.effective_at;
        match (from, holding.blocks().billing) {
            (None, true) => from = Some(at),
            (Some(start), false) => {
                from = None;
                if start < at {
                    add(&mut spans, Blocked { from: start, until: Some(at) });
                }
            }
            (None, false) | (Some(_), true) => {}
        }
    }
    if let Some(from) = from {
        add(&mut spans, Blocked { from, until: None });
    }
    spans
}

/// Adds a span, to the last one where that ends when it begins.
fn add(spans: &mut Vec<Blocked>, it: Blocked) {
    match spans.last_mut().filter(|last| last.until == Some(it.from)) {
        Some(last) => last.until = it.until,
        None => spans.push(it),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use super::*;
    use crate::{AccountId, BlockingStateId, Revision, Seq, TenantNo};

    /// States as `service object time blocks`, with `b` for billing.
    fn check(states: &[(&str, Blockable, i64, &str)], expected: Expect) {
        let state = |(ordinal, it): (usize, &(&str, Blockable, i64, &str))| BlockingState {
            tenant: TenantNo(1),
            id: BlockingStateId::new(Uuid::from_u128(ordinal as u128)),
            account: AccountId::new(Uuid::nil()),
            of: it.1,
            ordinal: u32::try_from(ordinal).unwrap(),
            service: it.0.to_owned(),
            name: it.3.to_owned(),
            blocks: Blocks { billing: it.3.contains('b'), ..Blocks::default() },
            effective_at: Timestamp(it.2),
            active: true,
            created_at: Timestamp(0),
            revision: Revision::first(Seq(1)),
        };
        let states: Vec<_> = states.iter().enumerate().map(state).collect();
        let shown = |it: &Blocked| {
            let until = it.until.map(|it| it.0.to_string()).unwrap_or_default();
            format!("{}..{until}", it.from.0)
        };
        let spans = billing_spans(&states.iter().collect::<Vec<_>>());
        expected.assert_eq(&spans.iter().map(shown).collect::<Vec<_>>().join(" "));
    }

    #[test]
    fn billing_is_blocked_as_long_as_any_service_blocks_it_for_any_object() {
        let bundle = Blockable::Bundle(crate::BundleId::new(Uuid::nil()));
        let account = Blockable::Account;
        check(&[], expect![[""]]);
        check(&[("a", account, 5, "-")], expect![[""]]);
        check(&[("a", account, 5, "b"), ("a", account, 9, "-")], expect!["5..9"]);
        check(&[("a", account, 5, "b"), ("b", account, 9, "-")], expect!["5.."]);
        let overlap = [
            ("a", account, 1, "b"),
            ("a", bundle, 2, "b"),
            ("a", account, 3, "-"),
            ("a", bundle, 4, "-"),
        ];
        check(&overlap, expect!["1..4"]);
    }

    #[test]
    fn spans_that_meet_are_one_and_an_empty_one_is_none() {
        let account = Blockable::Account;
        check(&[("a", account, 5, "b"), ("a", account, 5, "-")], expect![[""]]);
        let again = [
            ("a", account, 1, "b"),
            ("a", account, 3, "-"),
            ("b", account, 3, "b"),
            ("b", account, 4, "-"),
        ];
        check(&again, expect!["1..4"]);
    }
}
