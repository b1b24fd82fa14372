//! Payments that are brought over from another system.

use std::collections::BTreeSet;

use super::route::{last_success, set_route_of_payment};
use crate::account::rules::import;
use crate::change::PaymentChange;
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::import::{ImportPayment, ImportedTransaction};
use crate::object::Object;
use crate::payment::routed::Destination;
use crate::payment::rules::gateway_text::gateway_text;
use crate::payment::rules::ledger;
use crate::payment::{
    Amounts, Outstanding, Payment, PaymentFile, PaymentState, Transaction, TransactionStatus,
    TransactionType,
};
use crate::reply::Outcome;
use crate::state::State;
use crate::{
    Accepted, AccountRejection, AmountMinor, Currency, PaymentId, PaymentMethod, Rejection, Reply,
    Revision,
};

/// Brings a payment with its transactions and their postings. Nobody is notified, and no gateway is called;
/// what is open is asked about where its gateway is here.
pub(crate) fn import(state: &State, it: &ImportPayment, cx: &mut Context) -> Outcome {
    if import::is_here(state, it.id.uuid(), cx) {
        return Ok(Accepted::now(Reply::Imported { is_new: false }));
    }
    import::refuse_too_many(it.len())?;
    let Some(account) = state.account(cx.tenant, it.account) else {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    };
    // Its tags, fields and audit would be back.
    if account.erased_at.is_some() {
        return Err(Rejection::invalid("accountId", "is of a person who was erased here"));
    }
    import::claim_ids(state, (it.account, it.ids()), cx)?;
    let key = (&Some(it.external_key.clone()), it.id.uuid());
    import::claim_key(state, (ClaimKind::Payment, it.account), key, cx)?;
    let file = file(state, it, cx)?;
    refuse_sums(&file)?;
    let mut keys = BTreeSet::new();
    for transaction in &file.transactions {
        if keys.insert(&transaction.external_key) {
            let has_it = |it: &&Transaction| it.external_key == transaction.external_key;
            let mut working = file.transactions.iter().filter(|it| !it.status.is_failed());
            claim_transaction_key(state, it, working.find(has_it).unwrap_or(transaction), cx)?;
        }
        if transaction.status == TransactionStatus::Success {
            ledger::post(&file.payment, transaction, cx);
        }
        if transaction.status.is_open() {
            wait(transaction, cx);
        }
    }
    let PaymentFile { payment, transactions } = file;
    let of_payment = |it: &Transaction| Object::Transaction { payment: it.payment_id, id: it.id };
    let mut objects: BTreeSet<_> = transactions.iter().map(of_payment).collect();
    objects.insert(Object::Payment(payment.id));
    cx.change(PaymentChange::Payment(payment));
    for transaction in transactions {
        cx.change(PaymentChange::Transaction(transaction));
    }
    import::write_belongings(state, (it.account, &objects), &it.belongings, cx)?;
    Ok(Accepted::now(Reply::Imported { is_new: true }))
}

/// The payment as its transactions make it.
fn file(state: &State, it: &ImportPayment, cx: &mut Context) -> Result<PaymentFile, Rejection> {
    let first = it.transactions.first();
    let first = first
        .filter(|it| it.kind.is_initial())
        .ok_or_else(|| Rejection::invalid("transactionType", "the first should start a payment"))?;
    let currency = first.currency;
    let mut transactions = vec![];
    for new in &it.transactions {
        if transactions
            .last()
            .is_some_and(|last: &Transaction| last.effective_at >= new.effective_at)
        {
            return Err(Rejection::invalid("effectiveDate", "should be after the one before"));
        }
        transactions.push(transaction(state, (it, currency), new, cx)?);
    }
    let last = it.transactions.last().expect("there is a first one");
    let method = method(state, it, first, cx)?;
    let payment = Payment {
        tenant: cx.tenant,
        id: it.id,
        account_id: it.account,
        payment_method_id: method.id,
        number: cx.next_payment_number(),
        external_key: Some(it.external_key.clone()),
        currency,
        gateway: method.gateway.clone(),
        paid_for: None,
        state: PaymentState { operation: last.kind, status: last.status },
        last_success: last_success(&transactions),
        amounts: Amounts::of(&transactions),
        created_at: it.dates.created_at,
        updated_at: it.dates.updated_at,
        revision: Revision::first(cx.seq),
    };
    let mut file = PaymentFile { payment, transactions };
    set_route_of_payment(&mut file);
    Ok(file)
}

fn transaction(
    state: &State,
    (of, currency): (&ImportPayment, Currency),
    it: &ImportedTransaction,
    cx: &Context,
) -> Result<Transaction, Rejection> {
    if it.currency != currency {
        let reason = format!("{}: the payment is in {currency}", it.currency);
        return Err(Rejection::InvalidParameter { field: "currency".to_owned(), reason });
    }
    if it.status == TransactionStatus::InFlight {
        return Err(Rejection::invalid("status", "a call is in progress"));
    }
    let moves = it.kind != TransactionType::Void;
    let negative = |amount: Option<AmountMinor>| amount.is_some_and(|it| it < AmountMinor::ZERO);
    if negative(it.amount) || negative(it.processed_amount) {
        return Err(Rejection::invalid("amount", "should not be negative"));
    }
    let is_zero = |amount: Option<AmountMinor>| amount.unwrap_or_default() == AmountMinor::ZERO;
    let succeeded = it.status == TransactionStatus::Success;
    let counts = moves && !it.status.is_failed();
    if counts && (is_zero(it.amount) || (succeeded && is_zero(it.processed_amount.or(it.amount)))) {
        return Err(Rejection::invalid("amount", "should be greater than 0"));
    }
    let method = method(state, of, it, cx)?;
    let processed = match (succeeded, moves) {
        (_, false) => AmountMinor::ZERO,
        (true, true) => it.processed_amount.or(it.amount).unwrap_or_default(),
        (false, true) => it.processed_amount.unwrap_or_default(),
    };
    let text = |text: &Option<String>| text.as_deref().map(gateway_text);
    let destination = Destination {
        gateway: method.gateway.clone(),
        merchant_account: None,
        payment_method: method.id,
    };
    Ok(Transaction {
        external_key: Some(it.external_key.clone()),
        status: it.status,
        amount: it.amount.filter(|_| moves),
        currency: Some(currency).filter(|_| moves),
        processed_amount: Some(processed),
        processed_currency: Some(currency).filter(|_| moves),
        gateway_error_code: text(&it.error_code),
        gateway_error_message: text(&it.error_message),
        first_reference: text(&it.first_reference),
        second_reference: text(&it.second_reference),
        ..Transaction::in_flight(
            (cx.tenant, it.id),
            (of.id, of.account),
            (it.kind, destination),
            (it.effective_at, cx.seq),
        )
    })
}

/// The payment method of a transaction: one of the account, which may be deleted.
fn method<'s>(
    state: &'s State,
    of: &ImportPayment,
    it: &ImportedTransaction,
    cx: &Context,
) -> Result<&'s PaymentMethod, Rejection> {
    let method = state.payment_method(cx.tenant, it.payment_method);
    let own = method.filter(|method| method.account_id == of.account);
    let missing = || AccountRejection::PaymentMethodNotFound { id: it.payment_method };
    own.ok_or_else(|| missing().into())
}

/// Refuses a payment whose captures exceed its authorizations, whose refunds and chargebacks exceed the amount that
/// was taken, whose reversals exceed its chargebacks, or whose sums do not fit an amount.
fn refuse_sums(file: &PaymentFile) -> Result<(), Rejection> {
    let succeeded = |it: &&Transaction| it.status == TransactionStatus::Success;
    let sum = |kind| {
        let of_kind = file.transactions.iter().filter(succeeded).filter(|it| it.kind == kind);
        let amounts = of_kind.filter_map(|it| it.processed_amount);
        amounts.fold(0_i128, |sum, it| sum + i128::from(it.0))
    };
    use TransactionType as T;
    let taken = sum(T::Capture) + sum(T::Purchase);
    let charged_back = sum(T::Chargeback) - sum(T::ChargebackReversal);
    let fits = sum(T::Capture) <= sum(T::Authorize)
        && sum(T::Refund) + charged_back <= taken
        && charged_back >= 0
        && [T::Authorize, T::Capture, T::Purchase, T::Refund, T::Credit, T::Chargeback]
            .into_iter()
            .all(|kind| i64::try_from(sum(kind)).is_ok());
    match fits {
        true => Ok(()),
        false => Err(Rejection::invalid("amount", "the sums of the transactions do not fit")),
    }
}

/// A key is of what succeeded or still may, and of what failed only where nothing else has it.
fn claim_transaction_key(
    state: &State,
    of: &ImportPayment,
    it: &Transaction,
    cx: &mut Context,
) -> Result<(), Rejection> {
    let Some(key) = &it.external_key else { return Ok(()) };
    let claim = ClaimKey::new(cx.tenant, ClaimKind::Transaction, key);
    if let Some(taken) = state.claim(&claim) {
        let holder = state.payment(cx.tenant, PaymentId::new(taken.owner));
        let works = |it: &Transaction| !it.status.is_failed();
        if it.status.is_failed() {
            return Ok(());
        }
        if holder.is_none_or(|holder| holder.named(key).any(works)) {
            let reason = format!("{key} is taken");
            let field = "transactionExternalKey".to_owned();
            return Err(Rejection::InvalidParameter { field, reason });
        }
    }
    cx.claim(claim, of.id.uuid(), Some(of.account));
    Ok(())
}

/// Waits for the outcome of what is open. The first question is planned where its gateway is here, and where it is
/// known for whose account it was called: the gateway would find nothing of another's.
fn wait(it: &Transaction, cx: &mut Context) {
    let gateway = cx.settings.gateway(&it.gateway);
    let asks = gateway.is_some_and(|it| !it.settles_at_once && !it.needs_merchant_account);
    let delays = match it.status == TransactionStatus::Pending {
        true => &cx.settings.pending_delays_us,
        false => &cx.settings.unknown_delays_us,
    };
    let delay_us = delays.first().filter(|_| asks);
    let ask_at = delay_us.map(|delay_us| cx.now.plus_us(*delay_us));
    cx.change(PaymentChange::Outstanding(Outstanding {
        next_action: None,
        tenant: cx.tenant,
        transaction_id: it.id,
        payment_id: it.payment_id,
        account_id: it.account_id,
        gateway: it.gateway.clone(),
        deadline: cx.real_now,
        ask_at,
        asked: 1,
        reply: None,
        actor: cx.actor.clone(),
    }));
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use super::*;
    use crate::account::payment_method::CreatePaymentMethod;
    use crate::account::{CreateAccount, EraseAccount};
    use crate::change::Change;
    use crate::command::{AccountCommand, PaymentCommand};
    use crate::import::{Belongings, Dates, ImportAccount, ImportedMethod};
    use crate::testing::{Rows, TENANT};
    use crate::{AccountId, Command, Executed, PaymentMethodId, Timestamp, TransactionId};

    const ACCOUNT: AccountId = AccountId::new(Uuid::from_u128(0xa));
    const PAYMENT: PaymentId = PaymentId::new(Uuid::from_u128(0xc));
    /// A method of a gateway that is here, and one of a gateway that is not.
    const METHODS: [PaymentMethodId; 2] =
        [PaymentMethodId::new(Uuid::from_u128(0xb0)), PaymentMethodId::new(Uuid::from_u128(0xb1))];
    const DATES: Dates = Dates { created_at: Timestamp(5), updated_at: Timestamp(6) };

    fn rows() -> Rows {
        let mut rows = Rows::new();
        let method = |at: usize, gateway: &str| ImportedMethod {
            id: METHODS[at],
            method: CreatePaymentMethod::default_of(ACCOUNT, gateway.to_owned()),
            active: true,
            dates: DATES,
        };
        let it = ImportAccount {
            id: ACCOUNT,
            account: CreateAccount::default(),
            dates: DATES,
            payment_method: None,
            methods: vec![method(0, "remote"), method(1, "elsewhere")],
            emails: vec![],
            belongings: Belongings::default(),
        };
        rows.run(Command::Account(AccountCommand::Import(Box::new(it)))).unwrap();
        rows
    }

    /// A transaction from `TYPE STATUS AMOUNT`.
    fn transaction(n: u128, text: &str) -> ImportedTransaction {
        let [kind, status, amount] = text.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        let currency = Currency::parse("USD").unwrap();
        let amount = AmountMinor::parse(amount, currency).unwrap();
        ImportedTransaction {
            id: TransactionId::new(Uuid::from_u128(0xd0 + n)),
            external_key: format!("key-{n}"),
            payment_method: METHODS[0],
            kind: serde_json::from_str(&format!("\"{kind}\"")).unwrap(),
            status: serde_json::from_str(&format!("\"{status}\"")).unwrap(),
            amount: Some(amount),
            processed_amount: None,
            currency,
            effective_at: Timestamp(i64::try_from(10 + n).unwrap()),
            error_code: None,
            error_message: None,
            first_reference: None,
            second_reference: None,
        }
    }

    fn payment(transactions: &str) -> ImportPayment {
        let transactions = transactions.split(", ");
        ImportPayment {
            account: ACCOUNT,
            id: PAYMENT,
            external_key: "order".to_owned(),
            dates: DATES,
            transactions: (0..).zip(transactions).map(|(n, it)| transaction(n, it)).collect(),
            belongings: Belongings::default(),
        }
    }

    fn run(rows: &mut Rows, it: &ImportPayment) -> Result<Executed, Rejection> {
        rows.run(Command::Payment(PaymentCommand::Import(Box::new(it.clone()))))
    }

    fn postings(executed: &Executed) -> Vec<i64> {
        let changes = executed.done.changes.iter();
        let posting = |it: &Change| {
            let Change::Posting(it) = it else { return None };
            Some(it.amount.0)
        };
        changes.filter_map(posting).collect()
    }

    #[test]
    fn a_payment_is_brought_once_with_its_postings_and_nobody_is_notified() {
        let mut rows = rows();
        let it = payment(
            "Authorize Success 100, Capture PaymentFailure 40, Capture Success 40, Refund Success 10.25",
        );
        let made = run(&mut rows, &it).unwrap();
        assert_eq!(made.reply, Some(Reply::Imported { is_new: true }));
        assert_eq!(postings(&made), [4_000, 1_025]);
        assert_eq!((made.done.events, made.done.effects), (vec![], vec![]));
        let file = rows.state.payment(TENANT, PAYMENT).unwrap();
        assert_eq!(file.payment.amounts.captured, AmountMinor(4_000));
        assert_eq!(file.payment.amounts.refunded, AmountMinor(1_025));
        let again = run(&mut rows, &it).unwrap();
        assert_eq!(again.reply, Some(Reply::Imported { is_new: false }));
        assert_eq!(again.done.changes, []);
    }

    #[test]
    fn what_is_open_is_asked_about_where_its_gateway_is_here() {
        for (method, is_asked) in METHODS.into_iter().zip([true, false]) {
            let mut it = payment("Purchase Unknown 5");
            it.transactions[0].payment_method = method;
            let mut rows = rows();
            run(&mut rows, &it).unwrap();
            let open = rows.state.outstanding(TENANT, it.transactions[0].id).unwrap();
            assert_eq!(open.ask_at.is_some(), is_asked, "{method}");
        }
    }

    fn check(it: &ImportPayment, expected: Expect) {
        let refused = run(&mut rows(), it).unwrap_err();
        expected.assert_eq(&refused.to_string());
    }

    #[test]
    fn sums_that_do_not_fit_are_refused() {
        for text in [
            "Authorize Success 10, Capture Success 10.01",
            "Purchase Success 10, Refund Success 10.01",
            "Purchase Success 10, Refund Success 6, Chargeback Success 5",
            "Purchase Success 10, ChargebackReversal Success 1",
            "Purchase Success 90000000000000000, Purchase Success 90000000000000000",
        ] {
            check(&payment(text), expect!["amount: the sums of the transactions do not fit"]);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        check(
            &payment("Capture Success 5"),
            expect!["transactionType: the first should start a payment"],
        );
        check(&payment("Purchase Success 0"), expect!["amount: should be greater than 0"]);
        check(&payment("Purchase InFlight 5"), expect!["status: a call is in progress"]);
        let mut it = payment("Authorize Success 5, Capture Success 5");
        it.transactions[1].effective_at = it.transactions[0].effective_at;
        check(&it, expect!["effectiveDate: should be after the one before"]);
        let mut it = payment("Authorize Success 5, Capture Success 5");
        it.transactions[1].currency = Currency::parse("EUR").unwrap();
        check(&it, expect!["currency: EUR: the payment is in USD"]);
        let mut it = payment("Purchase Success 5");
        it.transactions[0].amount = Some(AmountMinor(-5));
        check(&it, expect!["amount: should not be negative"]);
        it.transactions[0].amount = Some(AmountMinor(5));
        it.transactions[0].payment_method = PaymentMethodId::new(Uuid::from_u128(1));
        check(&it, expect!["there is no payment method 00000000-0000-0000-0000-000000000001"]);
        let it = ImportPayment {
            account: AccountId::new(Uuid::from_u128(1)),
            ..payment("Purchase Success 5")
        };
        check(&it, expect!["there is no account 00000000-0000-0000-0000-000000000001"]);
    }

    #[test]
    fn an_erased_person_gets_no_payments() {
        let mut rows = rows();
        let erase = AccountCommand::Erase(EraseAccount { account: ACCOUNT });
        rows.run(Command::Account(erase)).unwrap();
        let refused = run(&mut rows, &payment("Purchase Success 5")).unwrap_err();
        expect!["accountId: is of a person who was erased here"].assert_eq(&refused.to_string());
    }

    #[test]
    fn a_key_is_of_what_succeeded() {
        let mut rows = rows();
        run(&mut rows, &payment("Purchase PaymentFailure 5")).unwrap();
        let second = |n: u128| {
            let mut it = payment("Purchase Success 5");
            it.id = PaymentId::new(Uuid::from_u128(0xe0 + n));
            it.external_key = format!("order-{n}");
            it.transactions[0].id = TransactionId::new(Uuid::from_u128(0xf0 + n));
            it
        };
        run(&mut rows, &second(1)).unwrap();
        let refused = run(&mut rows, &second(2)).unwrap_err();
        expect!["transactionExternalKey: key-0 is taken"].assert_eq(&refused.to_string());
    }
}
