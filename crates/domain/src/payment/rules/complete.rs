//! Pending transactions: completed through the gateway, resolved by what a client reports, or fixed by an operator.

use super::outcome::{self, CallOptions, Evidence, Settled};
use super::route::{in_doubt, refuse_superseded};
use crate::context::Context;
use crate::payment::{
    CANCEL, Complete, FixTransaction, PaymentFile, ResolvePending, Transaction, TransactionStatus,
};
use crate::reply::Outcome;
use crate::state::State;
use crate::{Accepted, PaymentRejection, Rejection, Reply, positive_amount};

impl Complete {
    /// Whether the gateway is to cancel the transaction.
    fn cancels(&self) -> bool {
        self.properties.iter().any(|(name, value)| name == CANCEL && value == "true")
    }

    /// The transaction that the request means; one that succeeded already is a retry of the request.
    ///
    /// # Errors
    /// The refusal of a request that names none of the payment.
    pub fn chosen<'a>(&'a self, file: &'a PaymentFile) -> Result<&'a Transaction, Rejection> {
        let completable = |tx: &&Transaction| {
            let status = tx.status;
            status == TransactionStatus::Pending || status == TransactionStatus::Success
        };
        let (found, field, given) = if let Some(id) = self.transaction {
            let found = file.transaction(id).filter(completable);
            (found, "transactionId", id.to_string())
        } else if let Some(key) = &self.transaction_key {
            let found = file.named(key).filter(completable).last();
            (found, "transactionExternalKey", key.clone())
        } else {
            let pending =
                file.transactions.iter().find(|tx| tx.status == TransactionStatus::Pending);
            let found = pending.or_else(|| file.transactions.last().filter(completable));
            (found, "paymentId", self.payment.to_string())
        };
        let found = found.filter(|tx| self.kind.is_none_or(|kind| kind == tx.kind));
        found.ok_or_else(|| Rejection::InvalidParameter { field: field.to_owned(), reason: given })
    }
}

pub(crate) fn complete(state: &State, it: &Complete, cx: &mut Context) -> Outcome {
    let Some(file) = state.payment(cx.tenant, it.payment) else {
        return Err(PaymentRejection::NotFound { payment: it.payment.to_string() }.into());
    };
    let transaction = it.chosen(file)?;
    if transaction.status == TransactionStatus::Success {
        return Ok(Accepted::now(Reply::Done));
    }
    if file.is_in_doubt() {
        return Err(in_doubt(file, transaction.kind));
    }
    if let Some(currency) = it.currency
        && transaction.currency.is_some_and(|own| own != currency)
    {
        let reason = format!(" should be {} to match the transaction", file.payment.currency);
        return Err(Rejection::InvalidParameter { field: "currency".to_owned(), reason });
    }
    let amount = match (&it.amount, transaction.amount) {
        (Some(text), Some(_)) => Some(positive_amount(Some(text), file.payment.currency)?),
        // A void has no amount, whatever its completion says.
        (Some(_), None) | (None, _) => transaction.amount,
    };
    if let (Some(new), Some(asked)) = (amount, transaction.amount)
        && new > asked
    {
        let reason = "exceeds what was asked for".to_owned();
        return Err(Rejection::InvalidParameter { field: "amount".to_owned(), reason });
    }
    let id = transaction.id;
    let next_action = state.outstanding(cx.tenant, id).and_then(|it| it.next_action.clone());
    let mut file = file.clone();
    let at = file.transactions.iter().position(|tx| tx.id == id).expect("it was found there");
    let mut transaction = file.transactions.remove(at);
    // What another success superseded is not sent again, and is canceled: its customer could still confirm it.
    if next_action.is_none() || !it.cancels() {
        refuse_superseded(&file, &transaction, amount)?;
    }
    transaction.status = TransactionStatus::InFlight;
    // What this call asks for; its answer is compared with it.
    transaction.processed_amount = Some(amount.unwrap_or_default());
    transaction.revision = transaction.revision.next(cx.seq);
    file.payment.state.operation = transaction.kind;
    file.payment.state.status = TransactionStatus::InFlight;
    file.payment.updated_at = cx.now;
    file.payment.revision = file.payment.revision.next(cx.seq);
    file.transactions.push(transaction);
    // The attempts are not loaded on each way here: the reply looks for one.
    let asked = CallOptions { next_action, ..CallOptions::of(amount, &it.properties, true) };
    outcome::submit(outcome::method_of(state, &file, cx), file, asked, cx)
}

pub(crate) fn resolve_pending(state: &State, it: &ResolvePending, cx: &mut Context) -> Outcome {
    let (file, transaction) = outcome::transaction_of(state, (it.payment, it.transaction), cx)?;
    if transaction.status != TransactionStatus::Pending {
        return Err(PaymentRejection::NoSuchSuccess { payment: it.payment }.into());
    }
    let reply = outcome::payment_reply(file, transaction);
    let settled = match it.success {
        None => return Ok(Accepted::now(reply)),
        Some(true) => Settled::success(transaction),
        Some(false) => Settled::failed(TransactionStatus::PaymentFailure),
    };
    Ok(resolve(state, file.clone(), transaction.id, settled, cx))
}

pub(crate) fn fix(state: &State, it: &FixTransaction, cx: &mut Context) -> Outcome {
    let (file, transaction) = outcome::transaction_of(state, (it.payment, it.transaction), cx)?;
    // While a call runs its answer will come, or its deadline: nobody decides before.
    if transaction.status == TransactionStatus::InFlight {
        return Err(in_doubt(file, transaction.kind));
    }
    if transaction.status == it.status {
        return Ok(Accepted::now(Reply::Done));
    }
    let is_open =
        matches!(transaction.status, TransactionStatus::Pending | TransactionStatus::Unknown);
    let settled = match it.status {
        // Against the gateway's report: the history says why.
        TransactionStatus::Success
        | TransactionStatus::PaymentFailure
        | TransactionStatus::PluginFailure
            if !is_open && cx.actor.reason.as_deref().is_none_or(|it| it.trim().is_empty()) =>
        {
            let reason = "needs to be set: the transaction has an outcome, and this changes it";
            return Err(Rejection::invalid("X-Killbill-Reason", reason));
        }
        TransactionStatus::Success => Settled::success(transaction),
        TransactionStatus::PaymentFailure | TransactionStatus::PluginFailure => {
            Settled::failed(it.status)
        }
        // An operator ends doubt; nobody can bring it back, because nobody would ask about it.
        TransactionStatus::InFlight | TransactionStatus::Pending | TransactionStatus::Unknown => {
            let reason = "should be SUCCESS, PAYMENT_FAILURE or PLUGIN_FAILURE";
            return Err(Rejection::invalid("transactionStatus", reason));
        }
    };
    let mut accepted = resolve(state, file.clone(), transaction.id, settled, cx);
    accepted.reply = Some(Reply::Done);
    Ok(accepted)
}

fn resolve(
    state: &State,
    mut file: PaymentFile,
    id: crate::TransactionId,
    settled: Settled,
    cx: &mut Context,
) -> Accepted {
    let outstanding = state.outstanding(cx.tenant, id).cloned();
    outcome::settle(&mut file, id, settled, cx);
    let transaction = file.transaction(id).expect("it was settled there").clone();
    let reply = outcome::payment_reply(&file, &transaction);
    outcome::close_or_ask(&transaction, (outstanding, Evidence::Outcome), &reply, cx);
    outcome::write(file, id, cx);
    Accepted::now(reply)
}
