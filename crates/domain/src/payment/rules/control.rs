//! Control of payments: what plugins decide before a payment starts, and what its outcome changes.

use std::collections::BTreeSet;

use super::schedule;
use crate::change::{PaymentChange, TimerChange};
use crate::context::Context;
use crate::payment::attempt::{AttemptState, PaymentAttempt, PaymentVelocity};
use crate::payment::rules::attempt as attempt_rules;
use crate::payment::{
    FollowUp, Initiate, PaidFor, PaymentFile, Transaction, TransactionStatus, TransactionType,
};
use crate::reply::PaymentAborted;
use crate::rows::Keyed;
use crate::state::State;
use crate::tenant::payment_rules::{ControlPlugin, Limits, PaymentRules, RetrySettings};
use crate::{
    Accepted, Account, AccountId, AmountMinor, Currency, PaymentId, PaymentMethod, PaymentMethodId,
    Properties, Rejection, Reply, Revision, TransactionId,
};

/// The property of a request that asks for retries (Kill Bill's name).
const RETRIES: (&str, &str) = ("IPCD_RETRIES", "true");

/// The plugins that decide about a call, with the rules that they decide by.
pub(super) struct Control<'s> {
    plugins: BTreeSet<ControlPlugin>,
    /// The programs that have let it go on.
    programs: &'s [String],
    rules: Option<&'s PaymentRules>,
}

/// The decision of the plugins about a payment that is about to start.
pub(super) enum Decision {
    /// It begins, with this amount: what was asked for or less.
    Begin(AmountMinor),
    /// It does not: the attempt is all that is written.
    Aborted(Accepted),
}

/// A payment that is about to start.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) call: &'a Initiate,
    pub(super) kind: TransactionType,
    pub(super) amount: AmountMinor,
    pub(super) currency: Currency,
    pub(super) account: &'a Account,
    pub(super) method: &'a PaymentMethod,
    /// The gateway that is called.
    pub(super) gateway: &'a str,
    /// The payment that it is another try at.
    pub(super) existing: Option<&'a PaymentFile>,
    /// The order that it is for: such a payment has its whole amount, and is not retried.
    pub(super) paid_for: Option<PaidFor>,
    /// The attempt that it retries.
    pub(super) retried: Option<&'a PaymentAttempt>,
}

/// The details of a call that its attempt records.
struct Called<'a> {
    account: AccountId,
    payment: Option<PaymentId>,
    payment_key: Option<&'a String>,
    transaction_key: Option<&'a String>,
    method: PaymentMethodId,
    kind: TransactionType,
    amount: AmountMinor,
    currency: Currency,
    properties: &'a Properties,
    is_order: bool,
    retried: Option<&'a PaymentAttempt>,
}

impl<'s> Control<'s> {
    /// The control of a call; `None` where it names no plugin and no plugin is for every payment.
    ///
    /// # Errors
    /// The refusal of a name that no plugin has.
    pub(super) fn of(
        state: &'s State,
        call: &'s Initiate,
        cx: &Context,
    ) -> Result<Option<Self>, Rejection> {
        let (mut plugins, programs) = (named(&call.control)?, call.approved.as_slice());
        if !programs.is_empty() && asks_for_retries(&call.properties) {
            let reason = "IPCD_RETRIES: what a control program let go on is not retried";
            return Err(Rejection::invalid("pluginProperty", reason));
        }
        let rules = state.payment_rules(cx.tenant);
        if rules.and_then(|it| it.limits.as_ref()).is_some_and(|it| it.every_payment) {
            plugins.insert(ControlPlugin::FaregateRules);
        }
        let is_controlled = !plugins.is_empty() || !programs.is_empty();
        Ok(is_controlled.then_some(Self { plugins, programs, rules }))
    }

    /// The control of a call that follows on a payment; `None` where it names no plugin. No rule is about such
    /// a call, so that its attempt is all that a plugin makes of it.
    ///
    /// # Errors
    /// The refusal of a name that no plugin has.
    pub(super) fn of_follow_up(call: &'s FollowUp) -> Result<Option<Self>, Rejection> {
        let (plugins, programs) = (named(&call.control)?, call.approved.as_slice());
        let is_controlled = !plugins.is_empty() || !programs.is_empty();
        Ok(is_controlled.then_some(Self { plugins, programs, rules: None }))
    }

    /// The method that the plugins set for a payment that names none.
    pub(super) fn method<'a>(
        &self,
        state: &'a State,
        account: &Account,
    ) -> Option<&'a PaymentMethod> {
        let of_gateway = |gateway: &String| {
            let all = state.methods_to_choose(account.tenant, account.id);
            let own = all.filter(|it| it.gateway == *gateway);
            own.max_by_key(|it| (it.created_at, it.id))
        };
        self.limits()?.method_gateways.iter().find_map(of_gateway)
    }

    /// Asks the plugins before the payment starts.
    pub(super) fn prior(&self, state: &State, start: &Start, cx: &mut Context) -> Decision {
        let velocity = velocity(state, start, cx);
        let mut amount = start.amount;
        for plugin in &self.plugins {
            let decided = match plugin {
                ControlPlugin::FaregateRules => match self.limits() {
                    Some(limits) => decide(limits, start, &velocity),
                    None => Ok(start.amount),
                },
            };
            match decided {
                Ok(allowed) => amount = amount.min(allowed),
                Err(reason) => return self.abort(start, (*plugin, reason), cx),
            }
        }
        Decision::Begin(amount)
    }

    fn abort(
        &self,
        start: &Start,
        (plugin, reason): (ControlPlugin, String),
        cx: &mut Context,
    ) -> Decision {
        let attempt = self.attempt(&start.called(), None, cx);
        let plugin = plugin.name().to_owned();
        let reply = PaymentAborted { attempt: Some(attempt.id), plugin, reason };
        cx.change(PaymentChange::Attempt(attempt));
        Decision::Aborted(Accepted::now(Reply::PaymentAborted(reply)))
    }

    /// Whether a payment may begin with less than was asked for.
    pub(super) fn may_lower(&self) -> bool {
        self.limits().is_some_and(|it| it.lower_amounts)
    }

    /// The gateways that limits allow; `None`: all.
    pub(super) fn allowed(&self) -> Option<&'s BTreeSet<String>> {
        self.limits()?.gateways.as_ref()
    }

    fn limits(&self) -> Option<&'s Limits> {
        self.rules?.limits.as_ref()
    }

    /// Writes the attempt of the payment that has started, and counts it.
    pub(super) fn begun(&self, state: &State, start: &Start, cx: &mut Context) {
        let transaction = last_transaction(cx);
        let mut velocity = velocity(state, start, cx);
        velocity.add(start.amount, start.currency);
        let started = (&transaction, Some(velocity.day));
        let attempt = self.attempt(&start.called(), Some(started), cx);
        cx.change(PaymentChange::Attempt(attempt));
        cx.change(PaymentChange::Velocity(velocity));
    }

    /// Writes the attempt of a call that followed on a payment; it counts in no day.
    pub(super) fn followed(&self, state: &State, it: &FollowUp, cx: &mut Context) {
        let transaction = last_transaction(cx);
        let file = state.payment(cx.tenant, it.payment).expect("a call followed on it");
        let called = Called {
            account: transaction.account_id,
            payment: Some(it.payment),
            payment_key: file.payment.external_key.as_ref(),
            transaction_key: it.transaction_key.as_ref(),
            method: transaction.payment_method_id,
            kind: transaction.kind,
            amount: transaction.amount.unwrap_or_default(),
            currency: file.payment.currency,
            properties: &it.properties,
            is_order: false,
            retried: None,
        };
        let attempt = self.attempt(&called, Some((&transaction, None)), cx);
        cx.change(PaymentChange::Attempt(attempt));
    }

    /// The attempt of a call, with its transaction and the day that it counts in.
    fn attempt(
        &self,
        call: &Called,
        started: Option<(&Transaction, Option<i64>)>,
        cx: &mut Context,
    ) -> PaymentAttempt {
        let transaction = started.map(|(transaction, _)| transaction);
        let state = match transaction {
            Some(it) => state_after(AttemptState::Init, it.status),
            None => AttemptState::Aborted,
        };
        PaymentAttempt {
            tenant: cx.tenant,
            id: cx.mint(),
            account_id: call.account,
            payment_id: transaction.map(|it| it.payment_id).or(call.payment),
            transaction_id: transaction.map(|it| it.id),
            payment_key: call.payment_key.cloned(),
            transaction_key: call.transaction_key.cloned(),
            payment_method_id: Some(call.method),
            kind: call.kind,
            state,
            amount: call.amount,
            currency: call.currency,
            plugins: self.names(),
            properties: call.properties.clone(),
            rules: self.rules.map(|it| it.revision.seq),
            counted_on: started.and_then(|(_, day)| day),
            retries: match call.retried {
                Some(retried) => retried.retries,
                None => !call.is_order && self.retries(call.kind, call.properties),
            },
            tries: call.retried.map_or(0, |it| it.tries.saturating_add(1)),
            due_at: None,
            created_at: cx.now,
            revision: Revision::first(cx.seq),
        }
    }

    /// The names of all that decided, as the attempt shows them.
    fn names(&self) -> Vec<String> {
        let own = self.plugins.iter().map(|it| it.name());
        own.chain(self.programs.iter().map(String::as_str)).map(str::to_owned).collect()
    }

    /// Whether the call is retried if it fails. One that a program let go on is not: the core does not ask it again.
    fn retries(&self, kind: TransactionType, properties: &Properties) -> bool {
        let is_setting = |it: &RetrySettings| it.api;
        let by_tenant = self.rules.and_then(|it| it.retries.as_ref()).is_some_and(is_setting);
        kind.charges() && self.programs.is_empty() && (by_tenant || asks_for_retries(properties))
    }
}

impl Start<'_> {
    fn called(&self) -> Called<'_> {
        Called {
            account: self.account.id,
            payment: self.existing.map(|file| file.payment.id),
            payment_key: self.call.payment_key.as_ref(),
            transaction_key: self.call.transaction_key.as_ref(),
            method: self.method.id,
            kind: self.kind,
            amount: self.amount,
            currency: self.currency,
            properties: &self.call.properties,
            is_order: self.paid_for.is_some(),
            retried: self.retried,
        }
    }
}

fn asks_for_retries(properties: &Properties) -> bool {
    let (key, value) = RETRIES;
    properties.iter().any(|it| it.0 == key && it.1 == value)
}

/// The plugins of these names.
fn named(names: &[String]) -> Result<BTreeSet<ControlPlugin>, Rejection> {
    names.iter().map(|name| ControlPlugin::named(name)).collect()
}

/// The transaction that the command made.
fn last_transaction(cx: &Context) -> Transaction {
    let made = cx.written::<Transaction>().next_back();
    made.expect("a controlled call makes a transaction").clone()
}

/// Changes the attempts of the transactions that a command changed, what they count, and their retries.
pub(crate) fn follow(state: &State, cx: &mut Context) {
    let changed: Vec<Transaction> = cx.written().cloned().collect();
    for transaction in &changed {
        let Some(attempt) = state.attempt_of(transaction) else { continue };
        if is_written(attempt, cx) {
            continue;
        }
        let outcome = state_after(attempt.state, transaction.status);
        if outcome == attempt.state {
            continue;
        }
        let after = if outcome == AttemptState::Aborted {
            schedule::after_failure(state, attempt, transaction, cx)
        } else {
            ended(attempt, outcome, cx)
        };
        count_again(state, attempt, after.state, cx);
        if after.state == AttemptState::Success && after.kind.is_initial() {
            cancel_others(state, &after, cx);
        }
        cx.change(PaymentChange::Attempt(after));
    }
}

/// Whether the limits of the account leave room for the next try of a call. It counts already, unless the decline
/// was booked before the call answered: then another payment may have taken its place.
pub(super) fn has_room(state: &State, declined: &Transaction, cx: &Context) -> bool {
    let Some(attempt) = state.attempt_of(declined).filter(|it| !it.state.is_counted()) else {
        return true;
    };
    let velocity = state.payment_velocity(attempt.tenant, attempt.account_id);
    let velocity = velocity.filter(|it| attempt.counted_on == Some(it.day));
    let limits = state.payment_rules(cx.tenant).and_then(|it| it.limits.as_ref());
    let (Some(velocity), Some(limits)) = (velocity, limits) else { return true };
    let sum = velocity.amount(attempt.currency).checked_add(attempt.amount);
    let a_day = limits.amounts.get(&attempt.currency).and_then(|it| it.day);
    limits.payments_per_day.is_none_or(|limit| velocity.count < limit)
        && a_day.is_none_or(|limit| sum.is_some_and(|sum| sum <= limit))
}

/// Makes an attempt go on with the next try of its call: it is one attempt and counts once.
pub(super) fn moved_on(
    state: &State,
    declined: &Transaction,
    next: TransactionId,
    cx: &mut Context,
) {
    let Some(attempt) = state.attempt_of(declined) else { return };
    let after = ended(attempt, AttemptState::Init, cx);
    count_again(state, attempt, after.state, cx);
    cx.change(PaymentChange::Attempt(PaymentAttempt { transaction_id: Some(next), ..after }));
}

/// Whether the command has written an attempt already.
fn is_written(attempt: &PaymentAttempt, cx: &Context) -> bool {
    cx.newest::<PaymentAttempt>(&attempt.key()).is_some()
}

/// The attempt with another outcome than before, which a retry no longer waits for.
fn ended(attempt: &PaymentAttempt, after: AttemptState, cx: &mut Context) -> PaymentAttempt {
    if attempt.state == AttemptState::Scheduled {
        cx.change(TimerChange::Cleared(attempt_rules::key_of(attempt)));
    }
    let revision = attempt.revision.next(cx.seq);
    PaymentAttempt { state: after, due_at: None, revision, ..attempt.clone() }
}

/// Cancels the retries of a payment that has succeeded after all.
fn cancel_others(state: &State, succeeded: &PaymentAttempt, cx: &mut Context) {
    let Some(payment) = succeeded.payment_id else { return };
    for other in state.attempts(succeeded.tenant, payment) {
        if other.id != succeeded.id && other.state == AttemptState::Scheduled {
            attempt_rules::cancel(other, cx);
        }
    }
}

/// Gives back what an attempt counted, or counts it again, while its day's row is there.
fn count_again(state: &State, attempt: &PaymentAttempt, after: AttemptState, cx: &mut Context) {
    if attempt.state.is_counted() == after.is_counted() {
        return;
    }
    let known = state.payment_velocity(attempt.tenant, attempt.account_id);
    let Some(known) = known.filter(|it| attempt.counted_on == Some(it.day)) else { return };
    let mut velocity = known.clone();
    match after.is_counted() {
        true => velocity.add(attempt.amount, attempt.currency),
        false => velocity.give_back(attempt.amount, attempt.currency),
    }
    cx.change(PaymentChange::Velocity(velocity));
}

/// The state of an attempt after its transaction reached a status. One that failed and is to be retried, or was,
/// stays so until its transaction turns out not to have failed.
const fn state_after(before: AttemptState, status: TransactionStatus) -> AttemptState {
    match status {
        TransactionStatus::Success => AttemptState::Success,
        TransactionStatus::InFlight | TransactionStatus::Pending | TransactionStatus::Unknown => {
            AttemptState::Init
        }
        TransactionStatus::PaymentFailure | TransactionStatus::PluginFailure => match before {
            AttemptState::Scheduled | AttemptState::Retried => before,
            AttemptState::Init | AttemptState::Success | AttemptState::Aborted => {
                AttemptState::Aborted
            }
        },
    }
}

fn velocity(state: &State, start: &Start, cx: &Context) -> PaymentVelocity {
    let of_account = (cx.tenant, start.account.id);
    // What this command makes has started nothing yet.
    let is_new = start.account.revision == Revision::first(cx.seq);
    let known = if is_new { None } else { state.payment_velocity(of_account.0, of_account.1) };
    PaymentVelocity::today(known, of_account, cx.now)
}

/// The amount that a payment may begin with.
///
/// # Errors
/// The limit that it would exceed, as text for the client.
fn decide(
    limits: &Limits,
    start: &Start,
    velocity: &PaymentVelocity,
) -> Result<AmountMinor, String> {
    let may_lower = limits.lower_amounts && start.paid_for.is_none();
    let left = if may_lower { left(limits, start, velocity) } else { start.amount };
    // Where nothing is left, what was asked for says what is exceeded.
    let amount = if left > AmountMinor::ZERO { left } else { start.amount };
    exceeded(limits, (start, amount), velocity).map_or(Ok(amount), Err)
}

/// The amount that the limits of amounts leave of a payment.
fn left(limits: &Limits, start: &Start, velocity: &PaymentVelocity) -> AmountMinor {
    let of_currency = limits.amounts.get(&start.currency).copied().unwrap_or_default();
    let of_day =
        of_currency.day.map(|limit| limit.minus_floor_zero(velocity.amount(start.currency)));
    [of_currency.payment, of_day].into_iter().flatten().fold(start.amount, AmountMinor::min)
}

/// The limit that a payment of an amount would exceed, as text; `None` where it exceeds none.
fn exceeded(
    limits: &Limits,
    (start, amount): (&Start, AmountMinor),
    velocity: &PaymentVelocity,
) -> Option<String> {
    let currency = start.currency;
    let decimal = |amount: AmountMinor| format!("{} {currency}", amount.decimal(currency));
    if limits.currencies.as_ref().is_some_and(|it| !it.contains(&currency)) {
        return Some(format!("the currency {currency} is not allowed"));
    }
    let gateway = start.gateway;
    if limits.gateways.as_ref().is_some_and(|it| !it.contains(gateway)) {
        return Some(format!("the gateway {gateway} is not allowed"));
    }
    let of_currency = limits.amounts.get(&currency).copied().unwrap_or_default();
    if let Some(limit) = of_currency.payment.filter(|limit| amount > *limit) {
        let (amount, limit) = (decimal(amount), decimal(limit));
        return Some(format!("{amount} exceeds the limit of {limit} for a payment"));
    }
    if let Some(limit) = limits.payments_per_day.filter(|limit| velocity.count >= *limit) {
        return Some(format!("the account has had {limit} payments this day, the limit"));
    }
    let started = velocity.amount(currency);
    let is_exceeded =
        |limit: &AmountMinor| started.checked_add(amount).is_none_or(|sum| sum > *limit);
    of_currency.day.filter(is_exceeded).map(|limit| {
        let (amount, started, limit) = (decimal(amount), decimal(started), decimal(limit));
        format!("{amount} exceeds the limit of {limit} for a day, of which {started} are used")
    })
}
