//! Combo payments: the rules for accounts, payment methods and payments, in one command.

use super::initiate::{Origin, start};
use crate::account::payment_method::MethodTask;
use crate::account::rules::account;
use crate::account::rules::method_step;
use crate::account::rules::payment_method;
use crate::change::AccountChange;
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::payment::combo::{ComboAccount, ComboMethod, ExistingAccount, InitiateCombo};
use crate::reply::Outcome;
use crate::state::State;
use crate::{Account, AccountRejection, Event, PaymentMethod, PaymentMethodId, Rejection};

pub(crate) fn initiate_combo(state: &State, it: &InitiateCombo, cx: &mut Context) -> Outcome {
    if !it.kind.is_initial() {
        return Err(Rejection::invalid("transactionType", "starts no payment"));
    }
    let before = match &it.account {
        // The account is the first thing that is minted: its partition executes this.
        ComboAccount::New(new) => account::make(state, new, cx)?,
        ComboAccount::Existing(named) => existing_account(state, named, cx)?.clone(),
    };
    let mut account = before.clone();
    let method = match &it.payment_method {
        Some(wanted) => choose_method(state, &mut account, wanted, cx)?,
        None => Method::Default,
    };
    let is_new_default = account.payment_method_id != before.payment_method_id;
    match &it.account {
        ComboAccount::New(new) => account::write_new(account.clone(), new, cx),
        ComboAccount::Existing(_) if account != before => {
            cx.change(AccountChange::Account(account.clone()));
        }
        ComboAccount::Existing(_) => {}
    }
    if is_new_default {
        cx.event(Event::AccountChanged { account: account.id });
    }
    let (id, made) = match method {
        Method::Default => (None, None),
        Method::Existing(id) => (Some(id), None),
        Method::New(made) => {
            cx.change(AccountChange::PaymentMethod((*made).clone()));
            (Some(made.id), Some(made))
        }
    };
    let initiate = it.initiate(account.id, id);
    let person = match &it.account {
        ComboAccount::New(new) => Some(&new.person),
        ComboAccount::Existing(_) => None,
    };
    let origin = Origin { person, made: made.as_deref(), ..Origin::of(&account) };
    let accepted = start(state, it.kind, &initiate, origin, cx)?.accepted;
    // The call attaches it first; where none is made, it is attached by itself.
    let unattached = made.filter(|it| it.is_attaching() && cx.done.effects.is_empty());
    if let Some(method) = unattached {
        method_step::request(&method, MethodTask::Attach, cx);
    }
    Ok(accepted)
}

/// The payment method that a combo payment is made with.
enum Method {
    /// The account's.
    Default,
    Existing(PaymentMethodId),
    New(Box<PaymentMethod>),
}

fn existing_account<'a>(
    state: &'a State,
    named: &ExistingAccount,
    cx: &Context,
) -> Result<&'a Account, Rejection> {
    let Some(account) = state.account(cx.tenant, named.id) else {
        return Err(AccountRejection::NotFound { id: named.id }.into());
    };
    let own_key = account.external_key.clone().unwrap_or_else(|| account.id.to_string());
    if named.external_key.as_ref().is_some_and(|key| *key != own_key) {
        return Err(Rejection::invalid("account.externalKey", "is not that of the account"));
    }
    if let (Some(asked), Some(own)) = (named.currency, account.currency)
        && asked != own
    {
        let reason = format!("should be {own}, which the account has");
        return Err(Rejection::InvalidParameter { field: "account.currency".to_owned(), reason });
    }
    Ok(account)
}

/// The account's method that the request names, or a new one, with which the account changes.
fn choose_method(
    state: &State,
    account: &mut Account,
    wanted: &ComboMethod,
    cx: &mut Context,
) -> Result<Method, Rejection> {
    let is_usable = |it: &&PaymentMethod| it.active && it.account_id == account.id;
    let found = match wanted.id {
        Some(id) => {
            let found = state.payment_method(cx.tenant, id).filter(is_usable);
            Some(found.ok_or(AccountRejection::PaymentMethodNotFound { id })?)
        }
        None => method_of_key(state, wanted, cx).filter(is_usable),
    };
    if let Some(found) = found {
        refuse_another(found, wanted)?;
        return Ok(Method::Existing(found.id));
    }
    let Some(gateway) = wanted.gateway.clone() else {
        let reason = "should be specified, because there is no such payment method";
        return Err(Rejection::invalid("paymentMethod.pluginName", reason));
    };
    let create = wanted.create(account, gateway);
    Ok(Method::New(Box::new(payment_method::make(state, account, &create, cx)?)))
}

fn method_of_key<'a>(
    state: &'a State,
    wanted: &ComboMethod,
    cx: &Context,
) -> Option<&'a PaymentMethod> {
    let key = wanted.external_key.as_ref()?;
    match state.claim(&ClaimKey::new(cx.tenant, ClaimKind::PaymentMethod, key)) {
        Some(claim) => state.payment_method(cx.tenant, PaymentMethodId::new(claim.owner)),
        // A method without a key is shown under its id, and clients send back what they see.
        None => {
            let id = PaymentMethodId::new(uuid::Uuid::try_parse(key).ok()?);
            state.payment_method(cx.tenant, id).filter(|it| it.external_key.is_none())
        }
    }
}

/// Refuses what the request says of the method it names where that is not so: the payment would go
/// another way than the client means.
fn refuse_another(found: &PaymentMethod, wanted: &ComboMethod) -> Result<(), Rejection> {
    if wanted.gateway.as_ref().is_some_and(|gateway| *gateway != found.gateway) {
        let reason = format!("should be {}, which the payment method has", found.gateway);
        let field = "paymentMethod.pluginName".to_owned();
        return Err(Rejection::InvalidParameter { field, reason });
    }
    let own_key = found.external_key.clone().unwrap_or_else(|| found.id.to_string());
    if wanted.external_key.as_ref().is_some_and(|key| *key != own_key) {
        let reason = "is not that of the payment method";
        return Err(Rejection::invalid("paymentMethod.externalKey", reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::account::CreateAccount;
    use crate::change::{Change, Image};
    use crate::command::{PaymentCommand, TenantCommand};
    use crate::payment::Transaction;
    use crate::payment::{
        EXTERNAL_PAYMENT, GatewayAnswer, GatewayOutcome, GatewayReplied, GatewayStatus,
        TransactionType,
    };
    use crate::tenant::payment_rules::{Limits, RulesPart};
    use crate::tenant::{PLUGIN_CONFIGURATION, SetTenantValue};
    use crate::testing::{Rows, TENANT};
    use crate::{
        AccountId, Command, Currency, Effect, Executed, PaymentId, PaymentReply, Person, Reply,
    };

    fn usd() -> Option<Currency> {
        Currency::parse("USD")
    }

    fn new_account(key: Option<&str>) -> ComboAccount {
        ComboAccount::New(Box::new(CreateAccount {
            external_key: key.map(str::to_owned),
            person: Person { name: Some("Ann".to_owned()), ..Person::default() },
            currency: usd(),
            ..CreateAccount::default()
        }))
    }

    fn existing(id: AccountId) -> ComboAccount {
        ComboAccount::Existing(ExistingAccount { id, external_key: None, currency: None })
    }

    fn method(gateway: &str, key: Option<&str>) -> Option<ComboMethod> {
        Some(ComboMethod {
            gateway: Some(gateway.to_owned()),
            external_key: key.map(str::to_owned),
            external_payment_method_id: Some("token".to_owned()),
            ..ComboMethod::default()
        })
    }

    /// A purchase of 5 by a new account with the key `a`, through the gateway `remote`.
    fn purchase() -> InitiateCombo {
        InitiateCombo {
            kind: TransactionType::Purchase,
            account: new_account(Some("a")),
            payment_method: method("remote", Some("m")),
            payment: None,
            payment_key: Some("p".to_owned()),
            transaction_key: Some("t".to_owned()),
            amount: Some("5".to_owned()),
            currency: None,
            properties: vec![],
            control: vec![],
            approved: vec![],
            gateways: vec![],
        }
    }

    fn run(rows: &mut Rows, it: InitiateCombo) -> Result<Executed, Rejection> {
        rows.run(Command::Payment(PaymentCommand::InitiateCombo(Box::new(it))))
    }

    /// The name of what a change changes: the second word of how it is shown.
    fn kind(change: &Change) -> String {
        let shown = format!("{change:?}");
        let mut words = shown.split(|it: char| !it.is_alphanumeric());
        words.nth(1).unwrap_or_default().to_lowercase()
    }

    /// The changes of a command by their kinds, with its events and the number of its gateway calls.
    fn shown(executed: &Executed) -> String {
        let change = |change: &Change| {
            if let Some(it) = Account::of(change) {
                let default = it.payment_method_id.map_or("none", |_| "a method");
                return format!("account with {default} as default");
            }
            Transaction::of(change).map_or_else(|| kind(change), |it| format!("{:?}", it.status))
        };
        let changes: Vec<String> = executed.done.changes.iter().map(change).collect();
        let event = |it: &Event| format!("{it:?}").split([' ', '(']).next().unwrap().to_owned();
        let events: Vec<String> = executed.done.events.iter().map(event).collect();
        let calls = executed.done.effects.len();
        format!("{} / {} / calls: {calls}", changes.join(", "), events.join(", "))
    }

    /// Makes the account `a` with its method `m` and a payment that is declined; gives their ids.
    fn declined(rows: &mut Rows) -> (AccountId, PaymentMethodId, PaymentId) {
        let executed = run(rows, purchase()).unwrap();
        let Some(Effect::CallGateway(call)) = executed.done.effects.first() else { panic!() };
        let reply = rows.run(Command::Payment(PaymentCommand::GatewayReplied(GatewayReplied {
            payment: call.payment,
            transaction: call.transaction,
            answer: GatewayAnswer::Outcome(GatewayOutcome::new(GatewayStatus::Error)),
            is_controlled: false,
            tries: None,
        })));
        let reply = reply.unwrap().reply;
        assert!(matches!(reply, Some(Reply::Payment(PaymentReply { .. }))), "{reply:?}");
        let account = rows.state.account(TENANT, call.account).unwrap();
        (call.account, account.payment_method_id.unwrap(), call.payment)
    }

    #[test]
    fn a_new_account_and_method_are_written_once_with_the_payment() {
        let mut rows = Rows::new();
        let executed = run(&mut rows, purchase()).unwrap();
        expect!["taken, taken, account with a method as default, person, paymentmethod, taken, taken, outstanding, payment, InFlight / AccountCreated, AccountChanged, TransactionChanged / calls: 1"]
            .assert_eq(&shown(&executed));
        assert_eq!(executed.reply, None);
        let Some(Effect::CallGateway(call)) = executed.done.effects.first() else { panic!() };
        assert_eq!(call.external_payment_method_id.as_deref(), Some("token"));

        let external = InitiateCombo {
            payment_method: method(EXTERNAL_PAYMENT, None),
            account: new_account(None),
            payment_key: None,
            transaction_key: None,
            ..purchase()
        };
        let executed = run(&mut rows, external).unwrap();
        expect!["account with a method as default, person, paymentmethod, posting, payment, Success / AccountCreated, AccountChanged, TransactionChanged / calls: 0"]
            .assert_eq(&shown(&executed));
    }

    #[test]
    fn what_exists_is_taken_by_id_and_by_key() {
        let mut rows = Rows::new();
        let (account, id, _) = declined(&mut rows);
        let again = |payment_method| InitiateCombo {
            account: existing(account),
            payment_method,
            payment_key: None,
            transaction_key: None,
            ..purchase()
        };
        let by_id = Some(ComboMethod { id: Some(id), ..ComboMethod::default() });
        let by_key =
            Some(ComboMethod { external_key: Some("m".to_owned()), ..ComboMethod::default() });
        for taken in [by_id, by_key, method("remote", Some("m")), None] {
            let executed = run(&mut rows, again(taken)).unwrap();
            expect!["outstanding, payment, InFlight / TransactionChanged / calls: 1"]
                .assert_eq(&shown(&executed));
        }
        // A method without a key is shown under its id.
        let executed = run(&mut rows, again(method("other", None))).unwrap();
        expect!["paymentmethod, outstanding, payment, InFlight / TransactionChanged / calls: 1"]
            .assert_eq(&shown(&executed));
        let Some(Effect::CallGateway(call)) = executed.done.effects.first() else { panic!() };
        let file = rows.state.payment(TENANT, call.payment).unwrap();
        let shown_key = file.payment.payment_method_id.to_string();
        let executed = run(&mut rows, again(method("other", Some(&shown_key)))).unwrap();
        expect!["outstanding, payment, InFlight / TransactionChanged / calls: 1"]
            .assert_eq(&shown(&executed));
    }

    #[test]
    fn a_decline_leaves_account_and_method_and_the_payment_is_tried_again() {
        let mut rows = Rows::new();
        let (account, id, payment) = declined(&mut rows);
        let again = InitiateCombo {
            account: existing(account),
            payment_method: method("other", Some("n")),
            ..purchase()
        };
        let executed = run(&mut rows, again).unwrap();
        expect![
            "taken, paymentmethod, taken, outstanding, payment, InFlight / TransactionChanged / calls: 1"
        ]
        .assert_eq(&shown(&executed));
        let account = rows.state.account(TENANT, account).unwrap();
        assert_eq!(account.payment_method_id, Some(id), "the default stays");
        assert_eq!(rows.state.payment(TENANT, payment).unwrap().transactions.len(), 2);
    }

    /// Changes a purchase by the account `a`, which has the method `m`, and shows why it is refused.
    fn check(
        change: impl FnOnce(&mut InitiateCombo, (AccountId, PaymentMethodId)),
        expected: Expect,
    ) {
        let mut rows = Rows::new();
        let (account, id, payment) = declined(&mut rows);
        let mut it = InitiateCombo {
            account: existing(account),
            payment_key: None,
            transaction_key: None,
            ..purchase()
        };
        change(&mut it, (account, id));
        let refused = run(&mut rows, it).map(|executed| shown(&executed));
        let refused = format!("{:?}", refused.unwrap_err());
        let refused = refused.replace(&account.to_string(), "ACCOUNT");
        let refused = refused.replace(&id.to_string(), "METHOD");
        expected.assert_eq(&refused.replace(&payment.to_string(), "PAYMENT"));
    }

    fn named(it: &mut InitiateCombo, id: AccountId, key: Option<&str>, currency: Option<Currency>) {
        let external_key = key.map(str::to_owned);
        it.account = ComboAccount::Existing(ExistingAccount { id, external_key, currency });
    }

    #[test]
    fn accounts_that_do_not_fit_are_refused() {
        check(
            |it, _| it.account = new_account(Some("a")),
            expect![[r#"Account(AlreadyExists { key: "a" })"#]],
        );
        check(
            |it, _| it.account = existing(AccountId::new(uuid::Uuid::nil())),
            expect!["Account(NotFound { id: 00000000-0000-0000-0000-000000000000 })"],
        );
        check(
            |it, (id, _)| named(it, id, Some("b"), None),
            expect![[
                r#"InvalidParameter { field: "account.externalKey", reason: "is not that of the account" }"#
            ]],
        );
        check(
            |it, (id, _)| named(it, id, Some("a"), Currency::parse("EUR")),
            expect![[
                r#"InvalidParameter { field: "account.currency", reason: "should be USD, which the account has" }"#
            ]],
        );
        check(
            |it, _| {
                it.account = new_account(None);
                it.payment_method = None;
            },
            expect![[
                r#"InvalidParameter { field: "paymentMethodId", reason: "should not be null" }"#
            ]],
        );
    }

    #[test]
    fn payment_methods_that_do_not_fit_are_refused() {
        let of_id = |id| Some(ComboMethod { id: Some(id), ..ComboMethod::default() });
        check(
            |it, _| it.payment_method = of_id(PaymentMethodId::new(uuid::Uuid::nil())),
            expect!["Account(PaymentMethodNotFound { id: 00000000-0000-0000-0000-000000000000 })"],
        );
        check(
            |it, (_, id)| {
                it.account = new_account(None);
                it.payment_method = of_id(id);
            },
            expect!["Account(PaymentMethodNotFound { id: METHOD })"],
        );
        check(
            |it, _| {
                it.account = new_account(None);
                it.payment_method = method("remote", Some("m"));
            },
            expect![[
                r#"InvalidParameter { field: "externalKey", reason: "m is taken by another payment method" }"#
            ]],
        );
        check(
            |it, _| it.payment_method = method("nope", None),
            expect![[r#"Payment(GatewayNotRegistered { gateway: "nope" })"#]],
        );
        check(
            |it, _| it.payment_method = method("other", Some("m")),
            expect![[
                r#"InvalidParameter { field: "paymentMethod.pluginName", reason: "should be remote, which the payment method has" }"#
            ]],
        );
        check(
            |it, _| it.payment_method = Some(ComboMethod::default()),
            expect![[
                r#"InvalidParameter { field: "paymentMethod.pluginName", reason: "should be specified, because there is no such payment method" }"#
            ]],
        );
        check(
            |it, (_, id)| {
                let external_key = Some("n".to_owned());
                let named = ComboMethod { id: Some(id), external_key, ..ComboMethod::default() };
                it.payment_method = Some(named);
            },
            expect![[
                r#"InvalidParameter { field: "paymentMethod.externalKey", reason: "is not that of the payment method" }"#
            ]],
        );
    }

    #[test]
    fn payments_that_the_rules_refuse_make_nothing() {
        check(
            |it, _| it.amount = None,
            expect![[r#"InvalidParameter { field: "amount", reason: "needs to be set" }"#]],
        );
        check(
            |it, _| it.kind = TransactionType::Capture,
            expect![[
                r#"InvalidParameter { field: "transactionType", reason: "starts no payment" }"#
            ]],
        );
        check(
            |it, _| {
                it.account = new_account(None);
                it.payment_method = method("remote", None);
                it.payment_key = Some("p".to_owned());
            },
            expect![[r#"Payment(OfAnotherAccount { payment: "p" })"#]],
        );
        check(
            |it, _| {
                it.account = new_account(None);
                it.payment_method = method("remote", None);
                it.transaction_key = Some("t".to_owned());
            },
            expect![[r#"Payment(TransactionOfAnotherAccount { key: "t" })"#]],
        );
    }

    #[test]
    fn an_aborted_combo_payment_leaves_its_account_and_its_method() {
        let mut rows = Rows::new();
        let limits = Limits { payments_per_day: Some(1), every_payment: true, ..Limits::default() };
        let key = format!("{PLUGIN_CONFIGURATION}faregate-rules");
        let rules = Some(RulesPart::Limits(limits));
        let set = SetTenantValue { key, value: Some("sealed".to_owned()), rules };
        rows.run(Command::Tenant(TenantCommand::SetValue(set))).unwrap();
        let first = run(&mut rows, purchase()).unwrap();
        let account = first.done.changes.iter().find_map(|it| {
            let Change::Account(AccountChange::Account(it)) = it else { return None };
            Some(it.id)
        });
        let existing = ExistingAccount { id: account.unwrap(), external_key: None, currency: None };
        let again = InitiateCombo {
            account: ComboAccount::Existing(existing),
            payment_method: method("remote", Some("n")),
            payment_key: None,
            transaction_key: None,
            ..purchase()
        };
        let aborted = run(&mut rows, again).unwrap();
        assert!(matches!(aborted.reply, Some(Reply::PaymentAborted(_))), "{:?}", aborted.reply);
        let changes: Vec<String> = aborted.done.changes.iter().map(kind).collect();
        expect!["taken paymentmethod attempt"].assert_eq(&changes.join(" "));
    }
}
