//! The start of a payment: authorize, purchase, credit.

use super::complete;
use super::control::{Control, Decision, Start};
use super::outcome::{self, CallOptions};
use super::route::in_doubt;
use super::routing;
use crate::MerchantAccount;
use crate::account::blocking_state::ClosedTo;
use crate::account::rules::closed::refuse_closed;
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::payment::attempt::PaymentAttempt;
use crate::payment::routed::Destination;
use crate::payment::rules::merchant_account::merchant_account;
use crate::payment::{
    Amounts, Complete, Initiate, PaidFor, Payment, PaymentFile, PaymentState, Transaction,
    TransactionStatus, TransactionType,
};
use crate::reply::Outcome;
use crate::rows::Keyed;
use crate::state::State;
use crate::{
    Accepted, Account, AccountRejection, AmountMinor, Currency, PaymentId, PaymentMethod,
    PaymentRejection, Person, Rejection, Revision, TenantNo, asked_currency, positive_amount,
};

pub(crate) fn initiate(
    state: &State,
    kind: TransactionType,
    it: &Initiate,
    cx: &mut Context,
) -> Outcome {
    let Some(account) = state.account(cx.tenant, it.account) else {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    };
    Ok(start(state, kind, it, Origin::of(account), cx)?.accepted)
}

/// The origin of a payment: its account, and the rows that the same command makes or follows on.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) account: &'a Account,
    /// The person of the account, where the command makes the account.
    pub(super) person: Option<&'a Person>,
    /// Its payment method, where that is made by the same command.
    pub(super) made: Option<&'a PaymentMethod>,
    pub(super) paid_for: Option<PaidFor>,
    /// The attempt that it retries.
    pub(super) retried: Option<&'a PaymentAttempt>,
}

impl<'a> Origin<'a> {
    pub(super) const fn of(account: &'a Account) -> Self {
        Self { account, person: None, made: None, paid_for: None, retried: None }
    }
}

/// A payment that was started.
pub(super) struct Started {
    pub(super) accepted: Accepted,
    /// The payment as the command leaves it; `None` if a control plugin aborted it.
    pub(super) payment: Option<Payment>,
}

/// Starts a payment of an account.
pub(super) fn start(
    state: &State,
    kind: TransactionType,
    it: &Initiate,
    origin: Origin<'_>,
    cx: &mut Context,
) -> Result<Started, Rejection> {
    let Origin { account, person, made, paid_for, retried } = origin;
    let control = Control::of(state, it, cx)?;
    let existing = existing_payment(state, it, account, cx)?;
    refuse_other_invoice(existing, origin)?;
    if let Some(key) = &it.transaction_key {
        let target = existing.map(|file| file.payment.id);
        refuse_used_key(state, account, (key, target), cx)?;
    }
    if let Some(file) = existing {
        if let Some(key) = &it.transaction_key {
            refuse_succeeded(file, key)?;
        }
        if let Some(pending) = pending_try(file, it, kind)? {
            // Where rules lower amounts it may have begun with less, and is completed with that at most.
            let may_lower = control.as_ref().is_some_and(Control::may_lower);
            let request = Complete {
                amount: it.amount.clone().filter(|asked| !(may_lower && exceeds(asked, pending))),
                currency: it.currency,
                properties: it.properties.clone(),
                ..Complete::as_requested(file.payment.id, pending.id, kind)
            };
            let accepted = complete::complete(state, &request, cx)?;
            return Ok(Started::of(file.payment.key(), accepted, cx));
        }
        refuse_second_start(file, kind)?;
        if file.transactions.len() >= cx.settings.transactions_per_payment_max {
            return Err(Rejection::invalid("paymentId", "has too many transactions"));
        }
    }
    refuse_closed(state, account.id, ClosedTo::Payment(kind), cx)?;
    let method = match made {
        Some(made) => made,
        None => payment_method(state, it, (account, control.as_ref()), cx)?,
    };
    let currency = asked_currency(it.currency, account.currency)?;
    refuse_other_currency(existing, currency)?;
    let amount = positive_amount(it.amount.as_deref(), currency)?;
    let facts = ((account, person), method, (amount, currency));
    let chosen = routing::choose(state, it, (facts, control.as_ref()), cx)?;
    let gateway = chosen.as_ref().map_or(&method.gateway, |it| &it.gateway).clone();
    let merchant_account = merchant_account(state, &gateway, cx)?;
    let gateway = gateway.as_str();
    let mut start = Start {
        call: it,
        kind,
        amount,
        currency,
        account,
        method,
        gateway,
        existing,
        paid_for,
        retried,
    };
    if let Some(control) = &control {
        match control.prior(state, &start, cx) {
            Decision::Begin(amount) => start.amount = amount,
            Decision::Aborted(accepted) => return Ok(Started { accepted, payment: None }),
        }
    }
    let mut file = open(&start, merchant_account, cx);
    let payment = file.payment.key();
    let tries = chosen.map(|chosen| chosen.take(&mut file, it, cx));
    let is_controlled = control.is_some();
    let asked =
        CallOptions { tries, ..CallOptions::of(Some(start.amount), &it.properties, is_controlled) };
    let accepted = outcome::submit(Some(method), file, asked, cx)?;
    if let Some(control) = &control {
        control.begun(state, &start, cx);
    }
    Ok(Started::of(payment, accepted, cx))
}

impl Started {
    fn of(payment: (TenantNo, PaymentId), accepted: Accepted, cx: &Context) -> Self {
        Self { accepted, payment: cx.newest(&payment).cloned() }
    }
}

/// Whether a call repeats a purchase that is pending, which it completes.
///
/// # Errors
/// The refusal of a key that is used.
pub(crate) fn repeats_pending(
    state: &State,
    account: &Account,
    it: &Initiate,
    cx: &Context,
) -> Result<bool, Rejection> {
    let Some(key) = &it.transaction_key else { return Ok(false) };
    let existing = existing_payment(state, it, account, cx)?;
    refuse_used_key(state, account, (key, existing.map(|file| file.payment.id)), cx)?;
    let Some(file) = existing else { return Ok(false) };
    refuse_succeeded(file, key)?;
    Ok(pending_try(file, it, TransactionType::Purchase)?.is_some())
}

/// A payment of an invoice is tried again for that invoice alone: nothing else looks at what is to be paid of it.
fn refuse_other_invoice(
    existing: Option<&PaymentFile>,
    origin: Origin<'_>,
) -> Result<(), Rejection> {
    let Some(file) = existing.filter(|_| origin.retried.is_none()) else { return Ok(()) };
    let own = file.payment.paid_for.and_then(PaidFor::invoice);
    if own == origin.paid_for.and_then(PaidFor::invoice) {
        return Ok(());
    }
    let reason = match own {
        Some(invoice) => format!("belongs to a payment of the invoice {invoice}"),
        None => "belongs to a payment of no invoice".to_owned(),
    };
    Err(Rejection::InvalidParameter { field: "paymentExternalKey".to_owned(), reason })
}

/// A payment has one currency: an earlier attempt may still turn out to have succeeded.
fn refuse_other_currency(
    existing: Option<&PaymentFile>,
    currency: Currency,
) -> Result<(), Rejection> {
    let Some(own) = existing.map(|file| file.payment.currency) else { return Ok(()) };
    if own == currency {
        return Ok(());
    }
    let reason = format!(" should be {own} to match other existing transactions");
    Err(Rejection::InvalidParameter { field: "currency".to_owned(), reason })
}

/// The payment that the request names by id or key, if there is one.
fn existing_payment<'a>(
    state: &'a State,
    it: &Initiate,
    account: &Account,
    cx: &Context,
) -> Result<Option<&'a PaymentFile>, Rejection> {
    let by_key = it.payment_key.as_ref().and_then(|key| {
        match state.claim(&ClaimKey::new(cx.tenant, ClaimKind::Payment, key)) {
            Some(claim) => Some((PaymentId::new(claim.owner), claim.account)),
            // A payment without a key is shown under its id, and clients send back what they see.
            None => state.defaulted_payment(cx.tenant, key),
        }
    });
    let id = match (it.payment, by_key) {
        (Some(id), Some((owner, _))) if owner != id => {
            return Err(Rejection::invalid("paymentExternalKey", "belongs to another payment"));
        }
        (Some(id), _) => id,
        (None, Some((_, owner_account))) if owner_account != Some(account.id) => {
            let key = it.payment_key.clone().unwrap_or_default();
            return Err(PaymentRejection::OfAnotherAccount { payment: key }.into());
        }
        (None, Some((owner, _))) => owner,
        (None, None) => return Ok(None),
    };
    let Some(file) = state.payment(cx.tenant, id) else {
        return Err(PaymentRejection::NotFound { payment: id.to_string() }.into());
    };
    if file.payment.account_id != account.id {
        return Err(PaymentRejection::OfAnotherAccount { payment: id.to_string() }.into());
    }
    Ok(Some(file))
}

/// Refuses a transaction key under which something succeeded already, on any payment, or still may.
/// A pending transaction of the payment that is meant (`target`) is for the caller to complete.
pub(super) fn refuse_used_key(
    state: &State,
    account: &Account,
    (key, target): (&str, Option<PaymentId>),
    cx: &Context,
) -> Result<(), Rejection> {
    let claim = state.claim(&ClaimKey::new(cx.tenant, ClaimKind::Transaction, key));
    let claimed = claim.and_then(|it| state.payment(cx.tenant, PaymentId::new(it.owner)));
    // A transaction without a key is shown under its id, and clients send back what they see. It
    // needs no claim: nobody can have named something after an id that was not minted yet.
    let defaulted = state.defaulted_transaction(cx.tenant, key);
    for file in [claimed, defaulted].into_iter().flatten() {
        if file.payment.account_id != account.id {
            return Err(
                PaymentRejection::TransactionOfAnotherAccount { key: key.to_owned() }.into()
            );
        }
        refuse_succeeded(file, key)?;
        let elsewhere = target != Some(file.payment.id);
        let blocks = |status: TransactionStatus| {
            status.is_in_doubt() || (elsewhere && status == TransactionStatus::Pending)
        };
        if let Some(doubt) = file.named(key).find(|it| blocks(it.status)) {
            return Err(in_doubt(file, doubt.kind));
        }
    }
    Ok(())
}

/// Refuses a transaction key, or the id of a transaction that has none, that succeeded here. Also one
/// whose failure was overruled by its gateway, whatever came after: a client that saw the failure may
/// have used the key elsewhere, and it has one owner only.
pub(super) fn refuse_succeeded(file: &PaymentFile, key: &str) -> Result<(), Rejection> {
    if file.named(key).any(|it| it.status == TransactionStatus::Success) {
        return Err(PaymentRejection::TransactionKeySucceeded { key: key.to_owned() }.into());
    }
    if file.named(key).any(|it| it.overruled && !it.status.is_in_doubt()) {
        let reason = "was in doubt again after it had failed: another key is needed";
        return Err(Rejection::invalid("transactionExternalKey", reason));
    }
    Ok(())
}

/// The pending transaction that this request repeats, to be completed instead of doubled.
fn pending_try<'f>(
    file: &'f PaymentFile,
    it: &'f Initiate,
    kind: TransactionType,
) -> Result<Option<&'f Transaction>, Rejection> {
    let Some(key) = &it.transaction_key else { return Ok(None) };
    let mut named = file.named(key);
    let Some(pending) = named.find(|tx| tx.status == TransactionStatus::Pending) else {
        return Ok(None);
    };
    if pending.kind == kind {
        Ok(Some(pending))
    } else {
        Err(Rejection::invalid("transactionType", "differs from the pending transaction's"))
    }
}

/// Whether an amount is more than a transaction's.
fn exceeds(amount: &str, pending: &Transaction) -> bool {
    let own = pending.currency.zip(pending.amount);
    own.is_some_and(|(currency, own)| {
        AmountMinor::parse(amount, currency).is_ok_and(|amount| amount > own)
    })
}

fn refuse_second_start(file: &PaymentFile, kind: TransactionType) -> Result<(), Rejection> {
    if file.is_in_doubt() {
        return Err(in_doubt(file, kind));
    }
    let open = file.transactions.iter().find(|tx| tx.status == TransactionStatus::Pending);
    let from = file
        .payment
        .last_success
        .or(open.map(|tx| PaymentState { operation: tx.kind, status: TransactionStatus::Pending }));
    match from {
        Some(from) => {
            Err(PaymentRejection::InvalidTransition { operation: kind, from: Some(from) }.into())
        }
        None => Ok(()),
    }
}

fn payment_method<'a>(
    state: &'a State,
    it: &Initiate,
    (account, control): (&Account, Option<&Control>),
    cx: &Context,
) -> Result<&'a PaymentMethod, Rejection> {
    if it.payment_method.is_none()
        && let Some(set) = control.and_then(|control| control.method(state, account))
    {
        return Ok(set);
    }
    let Some(id) = it.payment_method.or(account.payment_method_id) else {
        return Err(Rejection::invalid("paymentMethodId", "should not be null"));
    };
    let method = state.payment_method(cx.tenant, id);
    let own = method.filter(|method| method.active && method.account_id == account.id);
    own.ok_or(Rejection::Account(AccountRejection::PaymentMethodNotFound { id }))
}

/// The payment with one more transaction, last in its list, in flight.
fn open(start: &Start, merchant_account: Option<MerchantAccount>, cx: &mut Context) -> PaymentFile {
    let Start { call: it, kind, amount, currency, account, method, gateway, existing, .. } = *start;
    let paid_for = start.paid_for;
    let state = PaymentState { operation: kind, status: TransactionStatus::InFlight };
    let mut file = if let Some(existing) = existing {
        let mut file = existing.clone();
        file.payment.payment_method_id = method.id;
        file.payment.gateway = gateway.to_owned();
        file.payment.currency = currency;
        file
    } else {
        let id: PaymentId = cx.mint();
        if let Some(key) = &it.payment_key {
            let claim = ClaimKey::new(cx.tenant, ClaimKind::Payment, key);
            cx.claim(claim, id.uuid(), Some(account.id));
        }
        let payment = Payment {
            tenant: cx.tenant,
            id,
            account_id: account.id,
            payment_method_id: method.id,
            number: cx.next_payment_number(),
            external_key: it.payment_key.clone(),
            currency,
            gateway: gateway.to_owned(),
            paid_for,
            state,
            last_success: None,
            amounts: Amounts::default(),
            created_at: cx.now,
            updated_at: cx.now,
            revision: Revision::first(cx.seq),
        };
        PaymentFile { payment, transactions: Vec::with_capacity(1) }
    };
    let destination =
        Destination { gateway: gateway.to_owned(), merchant_account, payment_method: method.id };
    append(
        &mut file,
        (kind, it.transaction_key.clone()),
        destination,
        Some((amount, currency)),
        cx,
    );
    file
}

/// Adds a transaction in flight and claims its key for the payment.
pub(super) fn append(
    file: &mut PaymentFile,
    (kind, key): (TransactionType, Option<String>),
    destination: Destination,
    amount: Option<(AmountMinor, Currency)>,
    cx: &mut Context,
) {
    let payment = &mut file.payment;
    if let Some(key) = &key {
        let claim = ClaimKey::new(cx.tenant, ClaimKind::Transaction, key);
        cx.claim(claim, payment.id.uuid(), Some(payment.account_id));
    }
    payment.state = PaymentState { operation: kind, status: TransactionStatus::InFlight };
    payment.updated_at = cx.now;
    payment.revision = payment.revision.next(cx.seq);
    let of = (payment.id, payment.account_id);
    let id = cx.mint();
    file.transactions.push(Transaction {
        external_key: key,
        amount: amount.map(|(amount, _)| amount),
        currency: amount.map(|(_, currency)| currency),
        ..Transaction::in_flight((cx.tenant, id), of, (kind, destination), (cx.now, cx.seq))
    });
}
