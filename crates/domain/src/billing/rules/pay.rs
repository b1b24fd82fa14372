//! Payments of invoices: of a new one, of one that a client asks for, and of those that a tag held up.

use super::features;
use super::follow::{self, note, paid_by};
use crate::account::payment_method::CreatePaymentMethod;
use crate::account::rules::payment_method;
use crate::account::tag::{SUSPENDING_TAGS, TagKey};
use crate::billing::invoice::{Invoice, InvoiceStatus};
use crate::billing::pay::{PayInvoice, PayUnpaid};
use crate::billing::reads::unpaid_timer_of;
use crate::change::{AccountChange, BillingChange};
use crate::context::Context;
use crate::payment::Initiate;
use crate::payment::rules::{pay_as_asked, pay_invoice, repeats_pending};
use crate::reply::Outcome;
use crate::state::State;
use crate::timer::rules as timer;
use crate::{
    Accepted, Account, AccountId, AccountRejection, AmountMinor, BillingRejection as R,
    EXTERNAL_PAYMENT, PaymentMethod, Rejection, Reply, positive_amount,
};

/// Starts the payment of an invoice that its caller writes, with the account's default method. Where there is none, or
/// it is refused, the invoice stays unpaid.
pub(super) fn pay(state: &State, account: &Account, invoice: &mut Invoice, cx: &mut Context) {
    let amount = invoice.payable();
    if amount.is_zero() || is_held_up(state, account.id, cx) {
        return;
    }
    let payment = pay_invoice(state, account, (invoice.id, amount, invoice.currency), cx);
    if let Some(payment) = &payment {
        invoice.payments.insert(payment.id, paid_by(payment, amount));
    }
    note(invoice, payment.as_ref(), cx);
}

/// Whether the account has a tag with which its invoices are not paid unless somebody asks.
fn is_held_up(state: &State, account: AccountId, cx: &Context) -> bool {
    SUSPENDING_TAGS.iter().any(|tag| {
        let key = TagKey::of_account(account, *tag);
        state.tag(cx.tenant, key).is_some_and(|it| it.active)
    })
}

/// Pays an invoice that a client asks to be paid, whatever tags its account has. Where nothing is to be paid, nothing
/// is done.
pub(super) fn pay_asked(state: &State, it: &PayInvoice, cx: &mut Context) -> Outcome {
    let id = it.call.account;
    let account = state.account(cx.tenant, id).ok_or(AccountRejection::NotFound { id })?;
    let known = state.billing.invoices.get(&(cx.tenant, it.invoice));
    let invoice = known.ok_or(R::NoSuchInvoice { invoice: it.invoice })?;
    refuse_unpayable(invoice, &it.call)?;
    // What is on its way is in the invoice already.
    let amount = match repeats_pending(state, account, &it.call, cx)? {
        true => it.call.amount.clone(),
        false => match payable(invoice, &it.call)? {
            Some(amount) => Some(amount.decimal(invoice.currency)),
            None => return Ok(Accepted::now(Reply::Done)),
        },
    };
    let mut call = Initiate { amount, currency: Some(invoice.currency), ..it.call.clone() };
    let mut account = account.clone();
    let mut made = None;
    if it.is_external {
        made = make_external(state, &mut account, &it.call, cx)?;
        call.payment_method = account.external_payment_method;
    }
    let accepted = pay_as_asked(state, (&account, made.as_ref()), (invoice.id, &call), cx)?;
    follow::follow(state, cx);
    Ok(accepted)
}

/// Refuses an invoice that nobody can pay, or not this account.
fn refuse_unpayable(invoice: &Invoice, call: &Initiate) -> Result<(), Rejection> {
    let id = invoice.id;
    if invoice.account_id != call.account {
        return Err(R::InvoiceOfAnotherAccount { invoice: id }.into());
    }
    match invoice.status {
        InvoiceStatus::Committed => {}
        status @ (InvoiceStatus::Draft | InvoiceStatus::Void) => {
            return Err(R::InvoiceNotPayable { invoice: id, status }.into());
        }
    }
    if call.currency.is_some_and(|it| it != invoice.currency) {
        let reason = format!("should be {}, which the invoice has", invoice.currency);
        return Err(Rejection::InvalidParameter { field: "currency".to_owned(), reason });
    }
    Ok(())
}

/// The amount to pay; `None`: nothing is to be paid. What is on its way counts as paid, so that it is not paid twice.
fn payable(invoice: &Invoice, call: &Initiate) -> Result<Option<AmountMinor>, Rejection> {
    let (balance, payable, currency) = (invoice.balance(), invoice.payable(), invoice.currency);
    let asked = match &call.amount {
        Some(amount) => positive_amount(Some(amount), currency)?,
        None => payable,
    };
    if balance <= AmountMinor::ZERO {
        return Ok(None);
    }
    if asked.is_zero() || asked > payable {
        let amount = if asked.is_zero() { balance } else { asked };
        let in_flight = AmountMinor(balance.0 - payable.0);
        return Err(
            R::AboveBalance { invoice: invoice.id, amount, balance, in_flight, currency }.into()
        );
    }
    Ok(Some(asked))
}

/// Makes the external method of an account that has none.
fn make_external(
    state: &State,
    account: &mut Account,
    call: &Initiate,
    cx: &mut Context,
) -> Result<Option<PaymentMethod>, Rejection> {
    if call.payment_method.is_some() {
        return Err(Rejection::invalid("paymentMethodId", "an external payment takes none"));
    }
    if account.external_payment_method.is_some() {
        return Ok(None);
    }
    let create = CreatePaymentMethod {
        is_default: false,
        ..CreatePaymentMethod::default_of(account.id, EXTERNAL_PAYMENT.to_owned())
    };
    let made = payment_method::make(state, account, &create, cx)?;
    cx.change(AccountChange::Account(account.clone()));
    cx.change(AccountChange::PaymentMethod(made.clone()));
    Ok(Some(made))
}

/// Has the unpaid invoices of an account paid, one after the other: the oldest first.
pub(crate) fn resume_payments(state: &State, account: AccountId, cx: &mut Context) {
    set_next(state, account, None, cx);
}

/// Pays an invoice that a tag held up, and sets the timer of the next one: each is a command of its own, which calls
/// one gateway.
pub(super) fn pay_unpaid(state: &State, it: &PayUnpaid, cx: &mut Context) -> Outcome {
    let done = Ok(Accepted::now(Reply::Done));
    if !timer::take(state, (unpaid_timer_of(it.invoice), it.due), cx) {
        return done;
    }
    let account = state.account(cx.tenant, it.account);
    let known = state.billing.invoices.get(&(cx.tenant, it.invoice));
    let (Some(account), Some(known)) = (account, known) else { return done };
    if is_held_up(state, account.id, cx) {
        return done;
    }
    let mut invoice = Invoice { revision: known.revision.next(cx.seq), ..known.clone() };
    pay(state, account, &mut invoice, cx);
    if invoice.payments != known.payments {
        cx.change(BillingChange::Invoice(Box::new(invoice)));
        features::follow(state, cx);
    }
    set_next(state, account.id, Some(known), cx);
    done
}

/// Sets the timer of the oldest invoice of an account that can be paid, behind one.
fn set_next(state: &State, account: AccountId, behind: Option<&Invoice>, cx: &mut Context) {
    let order = |it: &Invoice| (it.invoice_date, it.number);
    let open = state.billing.open_invoices.get(&(cx.tenant, account));
    let open = open.into_iter().flatten();
    let open = open.filter_map(|id| state.billing.invoices.find(&(cx.tenant, *id)));
    let open = open.filter(|it| behind.is_none_or(|behind| order(it) > order(behind)));
    let next = open.filter(|it| !it.payable().is_zero()).min_by_key(|it| order(it));
    if let Some(next) = next {
        let now = cx.now;
        timer::set((unpaid_timer_of(next.id), account), now, cx);
    }
}
