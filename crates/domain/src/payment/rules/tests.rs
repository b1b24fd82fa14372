//! Each transition and each refusal of a payment, one line each.

mod action;
mod closed;
mod control;
mod dispute;
mod late;
mod merchant_account;
mod outcomes;
mod references;
mod retry;
mod routing;

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use uuid::Uuid;

use crate::change::{Change, PaymentChange};
use crate::command::PaymentCommand;
use crate::ledger::{LedgerAccount, PostingSource};
use crate::payment::routed::Tries;
use crate::payment::{
    Complete, FixTransaction, FollowUp, GatewayAnswer, GatewayInquired, GatewayKnowledge,
    GatewayOutcome, GatewayReplied, GatewayStatus, Initiate, Outstanding, PaymentFile,
    ResolvePending, TransactionStatus,
};
use crate::testing::{Rows, TENANT, run_script};
use crate::{
    Account, Command, Effect, Executed, GatewayCall, PaymentMethod, PaymentMethodId,
    PaymentRejection, Rejection, Reply, Seq,
};
use crate::{
    AccountId, AmountMinor, EXTERNAL_PAYMENT, PaymentId, Revision, Timestamp, TransactionId,
};

/// Runs the steps, separated by `|`, and shows what the last one came to: the payment and what its
/// steps posted, or the refusal. Steps: `authorize|purchase|credit PAYMENT AMOUNT`,
/// `capture|refund|chargeback PAYMENT AMOUNT`, `void|reverse|complete PAYMENT`, the gateway's
/// `approve|decline|cancel|pend|undefined|timeout|fail|nothing|unsent PAYMENT`, the inquiry's
/// `found-paid|found-declined|found-pending|not-found PAYMENT`, `paid|unpaid PAYMENT` (hearsay on
/// what is pending), `fix PAYMENT STATUS`, `wait SECONDS` (fewer than 0: the clock is set back).
/// Options: `asked=SECONDS` (the inquiry was sent so long ago), `key=` (transaction), `in=` (currency), `external` (settles at once), `other` (goes
/// through another gateway), `control` (names `faregate-rules`), `reason` (the operator gives one), `#N` (not the open or last, but the N-th transaction), `key=@PAYMENT` (the
/// id of that payment's first transaction).
fn check(script: &str, expected: Expect) {
    expected.assert_eq(&run(script));
}

/// The text that [`check`] compares.
fn run(script: &str) -> String {
    let mut world = World::new();
    run_script(script, |step| world.step(step))
}

struct World {
    rows: Rows,
    payments: BTreeMap<String, PaymentId>,
    postings: BTreeMap<PaymentId, Vec<String>>,
    /// The calls that the last step sent to a gateway, if it sent any.
    calls: Vec<String>,
    /// Where calls may go on after a decline.
    tries: BTreeMap<TransactionId, Box<Tries>>,
}

fn account_id() -> AccountId {
    AccountId::new(Uuid::from_u128(1))
}

fn method_id(gateway: &str) -> PaymentMethodId {
    PaymentMethodId::new(Uuid::from_u128(match gateway {
        EXTERNAL_PAYMENT => 2,
        "remote" => 3,
        _ => 4,
    }))
}

/// The call of an effect.
fn called(effect: &Effect) -> &GatewayCall {
    match effect {
        Effect::CallGateway(call) => call,
        Effect::AskAboutMethod(_) => panic!("{effect:?}"),
    }
}

impl World {
    fn new() -> Self {
        let mut rows = Rows::new();
        let account = Account {
            tenant: TENANT,
            id: account_id(),
            external_key: None,
            currency: crate::Currency::parse("USD"),
            bill_cycle_day_local: 0,
            parent_account_id: None,
            is_payment_delegated_to_parent: false,
            payment_method_id: Some(method_id("remote")),
            external_payment_method: Some(method_id(EXTERNAL_PAYMENT)),
            reference_time: Timestamp(0),
            time_zone: "UTC".to_owned(),
            is_migrated: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            erased_at: None,
            revision: Revision::first(Seq(1)),
        };
        rows.state.account.accounts.put(account);
        for gateway in [EXTERNAL_PAYMENT, "remote", "other"] {
            let method = PaymentMethod {
                tenant: TENANT,
                id: method_id(gateway),
                account_id: account_id(),
                external_key: None,
                gateway: gateway.to_owned(),
                external_payment_method_id: Some(format!("at {gateway}")),
                properties: vec![],
                active: true,
                merchant_account: None,
                step: None,
                created_at: Timestamp(0),
                updated_at: Timestamp(0),
                revision: Revision::first(Seq(1)),
            };
            rows.state.account.payment_methods.put(method);
        }
        rows.seq = 2;
        let (payments, postings) = (BTreeMap::new(), BTreeMap::new());
        Self { rows, payments, postings, calls: vec![], tries: BTreeMap::new() }
    }

    fn step(&mut self, step: &str) -> String {
        let mut words = step.split_whitespace();
        let verb = words.next().unwrap();
        let name = words.next().unwrap_or_default();
        if verb == "wait" {
            self.rows.now += name.parse::<i64>().unwrap() * Timestamp::SECOND_US;
            return String::new();
        }
        let options: Vec<&str> = words.collect();
        self.rows.reason = options.contains(&"reason").then_some("settlement file");
        let command = self.command(verb, name, &options);
        self.run(name, command)
    }

    fn run(&mut self, name: &str, command: Command) -> String {
        match self.rows.run(command) {
            Ok(Executed { reply: Some(Reply::PaymentAborted(it)), .. }) => {
                format!("{} aborted: {}", it.plugin, it.reason)
            }
            Ok(Executed { reply, done, .. }) => {
                let calls: Vec<_> = done.effects.iter().map(called).collect();
                let show = |call: &&GatewayCall| {
                    let method = call.external_payment_method_id.as_deref().unwrap_or_default();
                    format!("{} {method}", call.gateway)
                };
                self.calls = calls.iter().map(show).collect();
                for call in calls {
                    self.tries.extend(call.tries.clone().map(|it| (call.transaction, it)));
                }
                for change in &done.changes {
                    self.note(name, change);
                }
                self.show(name, outcomes::how(reply.as_ref()))
            }
            Err(rejection) => refused(&rejection),
        }
    }

    fn note(&mut self, name: &str, change: &Change) {
        if let Change::Payment(PaymentChange::Payment(payment)) = change {
            self.payments.insert(name.to_owned(), payment.id);
        }
        if let Change::Posting(posting) = change {
            let side = |account| match account {
                LedgerAccount::Customer => "customer",
                LedgerAccount::Gateway => "gateway",
                LedgerAccount::Refunds => "refunds",
                LedgerAccount::Disputes => "disputes",
                LedgerAccount::DisputeExcess => "excess",
                LedgerAccount::Sales => "sales",
                LedgerAccount::Tax => "tax",
            };
            let (from, to) = (side(posting.debit), side(posting.credit));
            let line = format!("{from}>{to} {}", posting.amount.0);
            if let PostingSource::Payment { payment, .. } = posting.source {
                self.postings.entry(payment).or_default().push(line);
            }
        }
    }

    fn file(&self, id: PaymentId) -> &PaymentFile {
        self.rows.state.payment.payments.find(&(TENANT, id)).unwrap()
    }

    fn show(&self, name: &str, suffix: &str) -> String {
        let id = self.payments[name];
        let file = self.file(id);
        let (payment, sums) = (&file.payment, &file.payment.amounts);
        let sums = [
            ("authorized", sums.authorized),
            ("captured", sums.captured),
            ("purchased", sums.purchased),
            ("refunded", sums.refunded),
            ("credited", sums.credited),
            ("charged back", sums.charged_back),
        ];
        let sums: String = sums
            .iter()
            .filter(|(_, amount)| amount.0 != 0)
            .map(|(what, amount)| format!(", {what} {}", amount.0))
            .collect();
        // What has ended, and is asked about once more, is not open.
        use TransactionStatus as S;
        let status = |it: &Outstanding| file.transaction(it.transaction_id).unwrap().status;
        let has_ended = |it: &&Outstanding| [S::Success, S::PaymentFailure].contains(&status(it));
        let own = self.rows.state.payment.outstanding.values().filter(|it| it.payment_id == id);
        let own = own.filter(|it| !has_ended(it));
        let asks = own.clone().count();
        let forgotten = |it: &&Outstanding| it.ask_at.is_none() && status(it) != S::InFlight;
        let open = match own.clone().find(forgotten) {
            Some(_) => ", open and not asked about",
            None if asks > 0 => ", open",
            None => "",
        };
        let postings = self.postings.get(&id).map(|it| it.join(", ")).unwrap_or_default();
        let state = payment.state;
        format!("{:?} {:?}{sums}{open}; {postings}{suffix}", state.operation, state.status)
    }

    fn meant_transaction(&self, payment: PaymentId, options: &[&str]) -> TransactionId {
        let file = self.file(payment);
        if let Some(number) = options.iter().find_map(|it| it.strip_prefix('#')) {
            return file.transactions[number.parse::<usize>().unwrap() - 1].id;
        }
        let open = file.transactions.iter().find(|tx| tx.status.is_open());
        open.or(file.transactions.last()).unwrap().id
    }

    fn command(&self, verb: &str, name: &str, options: &[&str]) -> Command {
        let option =
            |key: &str| options.iter().find_map(|it| it.strip_prefix(key)).map(str::to_owned);
        let amount =
            options.first().filter(|it| it.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
        let amount = amount.map(|it| (*it).to_owned());
        let currency = option("in=").map(|code| crate::Currency::parse(&code).unwrap());
        let key = option("key=").map(|key| match key.strip_prefix('@') {
            Some(name) => self.file(self.payments[name]).transactions[0].id.to_string(),
            None => key,
        });
        let gateways = [("external", EXTERNAL_PAYMENT), ("other", "other")];
        let mut gateways = gateways.iter().filter(|(option, _)| options.contains(option));
        let asks_for_retries = options.contains(&"retries");
        let is_named = asks_for_retries || options.contains(&"control");
        let control = is_named.then(|| "faregate-rules".to_owned()).into_iter().collect();
        if matches!(verb, "authorize" | "purchase" | "credit") {
            let retries = ("IPCD_RETRIES".to_owned(), "true".to_owned());
            let initiate = Initiate {
                payment_method: gateways.next().map(|(_, gateway)| method_id(gateway)),
                payment_key: Some(name.to_owned()),
                transaction_key: key,
                amount,
                currency,
                properties: asks_for_retries.then_some(retries).into_iter().collect(),
                control,
                ..Initiate::of(account_id())
            };
            return match verb {
                "authorize" => Command::Payment(PaymentCommand::Authorize(initiate)),
                "purchase" => Command::Payment(PaymentCommand::Purchase(initiate)),
                _ => Command::Payment(PaymentCommand::Credit(initiate)),
            };
        }
        let payment = self.payments[name];
        let follow_up = FollowUp {
            transaction_key: key,
            amount: amount.clone(),
            currency,
            control,
            ..FollowUp::of(payment)
        };
        match verb {
            "capture" => Command::Payment(PaymentCommand::Capture(follow_up)),
            "refund" => Command::Payment(PaymentCommand::Refund(follow_up)),
            "void" => Command::Payment(PaymentCommand::Void(follow_up)),
            "chargeback" => Command::Payment(PaymentCommand::Chargeback(follow_up)),
            "reverse" => Command::Payment(PaymentCommand::ReverseChargeback(follow_up)),
            "complete" => Command::Payment(PaymentCommand::Complete(Complete {
                payment,
                transaction: None,
                transaction_key: None,
                kind: None,
                amount,
                currency: None,
                properties: vec![],
            })),
            _ => self.outside(verb, payment, options),
        }
    }

    /// The command of a step for the gateway, for hearsay or for an operator.
    fn outside(&self, verb: &str, payment: PaymentId, options: &[&str]) -> Command {
        let transaction = self.meant_transaction(payment, options);
        let replied = |answer| {
            Command::Payment(PaymentCommand::GatewayReplied(GatewayReplied {
                payment,
                transaction,
                answer,
                is_controlled: true,
                tries: self.tries.get(&transaction).cloned(),
            }))
        };
        let inquired = |knowledge| {
            let ago = options.iter().find_map(|it| it.strip_prefix("asked="));
            let ago_us = ago.map_or(0, |it| it.parse::<i64>().unwrap() * Timestamp::SECOND_US);
            let asked_at = Timestamp(self.rows.now - ago_us);
            Command::Payment(PaymentCommand::GatewayInquired(GatewayInquired {
                payment,
                transaction,
                knowledge,
                asked_at,
            }))
        };
        let named =
            |name: &str| options.iter().find_map(|it| it.strip_prefix(name)).map(str::to_owned);
        let amount = options.first().and_then(|it| it.parse::<i64>().ok());
        let outcome = |status| GatewayOutcome {
            amount: amount.map(|it| AmountMinor(it * 100)),
            first_reference: named("ref="),
            next_action: named("action="),
            error_code: named("code="),
            ..GatewayOutcome::new(status)
        };
        let said = |status| replied(GatewayAnswer::Outcome(outcome(status)));
        let found = |status| inquired(GatewayKnowledge::Found(outcome(status)));
        match verb {
            "approve" => said(GatewayStatus::Processed),
            "decline" => said(GatewayStatus::Error),
            "cancel" => said(GatewayStatus::Canceled),
            "pend" => said(GatewayStatus::Pending),
            "undefined" => said(GatewayStatus::Undefined),
            "timeout" => replied(GatewayAnswer::TimedOut),
            "fail" => replied(GatewayAnswer::Failed { message: "boom".to_owned() }),
            "nothing" => replied(GatewayAnswer::Nothing),
            "unsent" => replied(GatewayAnswer::not_reached("refused".to_owned())),
            "found-paid" => found(GatewayStatus::Processed),
            "found-declined" => found(GatewayStatus::Error),
            "found-undecided" => found(GatewayStatus::Undefined),
            "found-pending" => found(GatewayStatus::Pending),
            "not-found" => inquired(GatewayKnowledge::NotFound),
            "unreachable" => inquired(GatewayKnowledge::Unreachable),
            "paid" | "unpaid" => Command::Payment(PaymentCommand::ResolvePending(ResolvePending {
                payment,
                transaction,
                success: Some(verb == "paid"),
            })),
            "fix" => Command::Payment(PaymentCommand::FixTransaction(FixTransaction {
                payment,
                transaction,
                status: match options[0] {
                    "success" => TransactionStatus::Success,
                    "failure" => TransactionStatus::PaymentFailure,
                    "unknown" => TransactionStatus::Unknown,
                    other => panic!("{other}"),
                },
            })),
            other => panic!("no step {other}"),
        }
    }
}

fn refused(rejection: &Rejection) -> String {
    if let Rejection::Payment(PaymentRejection::InvalidTransition { operation, from }) = rejection {
        let from = from.map(|it| format!("{:?} {:?}", it.operation, it.status));
        return format!("refused: {operation:?} from {}", from.unwrap_or("nothing".to_owned()));
    }
    if let Rejection::InvalidParameter { field, reason } = rejection {
        return format!("refused: {field}: {reason}");
    }
    let debug = format!("{rejection:?}");
    format!("refused: {}", debug.split([' ', '{']).next().unwrap())
}

#[test]
fn external_payments_settle_in_one_commit() {
    check(
        "purchase p 10 external",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        "authorize p 10 external | capture p 4 | capture p 6",
        expect![
            "Capture Success, authorized 1000, captured 1000; gateway>customer 400, gateway>customer 600"
        ],
    );
    check("credit p 10 external", expect!["Credit Success, credited 1000; customer>refunds 1000"]);
    check("authorize p 10 external | void p", expect!["Void Success; "]);
}

#[test]
fn gateway_outcomes() {
    check("purchase p 10", expect!["Purchase InFlight, open; "]);
    check(
        "purchase p 10 | approve p",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check("purchase p 10 | decline p", expect!["Purchase PaymentFailure; "]);
    check("purchase p 10 | cancel p", expect!["Purchase PluginFailure; "]);
    check("purchase p 10 | pend p", expect!["Purchase Pending, open; "]);
    check("purchase p 10 | undefined p", expect!["Purchase Unknown, open;  (in doubt)"]);
    check("purchase p 10 | timeout p", expect!["Purchase Unknown, open;  (in doubt)"]);
    check("purchase p 10 | fail p", expect!["Purchase Unknown, open;  (in doubt)"]);
    check("purchase p 10 | nothing p", expect!["Purchase Unknown, open;  (in doubt)"]);
    check("purchase p 10 | unsent p", expect!["Purchase PluginFailure; "]);
    check("purchase p 10 | approve p 11", expect!["Purchase Unknown, open;  (in doubt)"]);
    check("purchase p 10 | approve p 9", expect!["Purchase Unknown, open;  (in doubt)"]);
    check(
        "purchase p 10 | approve p | approve p",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
}

#[test]
fn amounts_are_limited_by_what_is_left() {
    check(
        "authorize p 10 external | capture p 10.01",
        expect!["refused: amount: 10.01 exceeds the 10.00 left"],
    );
    check(
        "authorize p 10 | approve p | capture p 6 | pend p | capture p 5",
        expect!["refused: amount: 5.00 exceeds the 4.00 left"],
    );
    check(
        "authorize p 10 | approve p | capture p 6 | pend p | capture p 4",
        expect!["Capture InFlight, authorized 1000, open; "],
    );
    check(
        "purchase p 10 external | refund p 4 | refund p 6.01",
        expect!["refused: amount: 6.01 exceeds the 6.00 left"],
    );
    check(
        "purchase p 10 external | refund p 4 | refund p 6",
        expect![
            "Refund Success, purchased 1000, refunded 1000; gateway>customer 1000, customer>refunds 400, customer>refunds 600"
        ],
    );
    check(
        "purchase p 10 external | refund p 4 | chargeback p 7",
        expect!["refused: amount: 7.00 exceeds the 6.00 left"],
    );
    check(
        "purchase p 10 external | chargeback p 4 | chargeback p 6",
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 400, customer>disputes 600"
        ],
    );
    check("purchase p 0 external", expect!["refused: amount: 0: should be greater than 0"]);
    check("purchase p -5 external", expect!["refused: amount: -5: should be greater than 0"]);
    check(
        "purchase p 1.234 external",
        expect!["refused: amount: 1.234: more decimals than the currency has (2)"],
    );
    check("purchase p external", expect!["refused: amount: needs to be set"]);
    check(
        "purchase p 100.5 in=JPY external",
        expect!["refused: amount: 100.5: more decimals than the currency has (0)"],
    );
    check(
        "purchase p 10 in=EUR external | refund p 1",
        expect!["refused: currency:  should be EUR to match other existing transactions"],
    );
    check(
        "purchase p 10 in=EUR external | refund p 1 in=EUR",
        expect![
            "Refund Success, purchased 1000, refunded 100; gateway>customer 1000, customer>refunds 100"
        ],
    );
}

#[test]
fn transitions() {
    check(
        "purchase p 10 external | purchase p 10 external",
        expect!["refused: Purchase from Purchase Success"],
    );
    check(
        "purchase p 10 external | capture p 1",
        expect!["refused: Capture from Purchase Success"],
    );
    check("purchase p 10 external | void p", expect!["refused: Void from Purchase Success"]);
    check(
        "authorize p 10 external | refund p 1",
        expect!["refused: Refund from Authorize Success"],
    );
    check(
        "authorize p 10 external | chargeback p 1",
        expect!["refused: Chargeback from Authorize Success"],
    );
    check(
        "authorize p 10 external | capture p 1 | void p",
        expect!["refused: Void from Capture Success"],
    );
    check(
        "authorize p 10 external | capture p 9 | refund p 9 | capture p 1",
        expect!["refused: Capture from Refund Success"],
    );
    check("credit p 10 external | refund p 1", expect!["refused: Refund from Credit Success"]);
    check(
        "purchase p 10 external | chargeback p 1 | refund p 1",
        expect!["refused: Refund from Chargeback Success"],
    );
    check(
        "purchase p 10 external | refund p 1 | refund p 1 | refund p 1 | refund p 1 | refund p 1 | refund p 1",
        expect!["refused: paymentId: has too many transactions"],
    );
}

#[test]
fn chargebacks_and_reversals() {
    let charged = "purchase p 10 external | chargeback p 4 key=c";
    check(
        charged,
        expect![
            "Chargeback Success, purchased 1000, charged back 400; gateway>customer 1000, customer>disputes 400"
        ],
    );
    check(
        &format!("{charged} | chargeback p 4 key=c"),
        expect!["refused: Payment(TransactionKeySucceeded"],
    );
    check(
        &format!("{charged} | reverse p"),
        expect!["refused: transactionExternalKey: needs to be set"],
    );
    check(&format!("{charged} | reverse p key=other"), expect!["refused: Payment(NoSuchSuccess"]);
    check(
        &format!("{charged} | reverse p key=c"),
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 400, disputes>customer 400"
        ],
    );
    check(
        &format!("{charged} | reverse p key=c | reverse p key=c"),
        expect!["refused: Chargeback from ChargebackReversal Success"],
    );
    check(
        &format!("{charged} | reverse p key=c | refund p 10"),
        expect![
            "Refund Success, purchased 1000, refunded 1000; gateway>customer 1000, customer>disputes 400, disputes>customer 400, customer>refunds 1000"
        ],
    );
    check(
        &format!("{charged} | reverse p key=c | chargeback p 1"),
        expect![
            "Chargeback Success, purchased 1000, charged back 100; gateway>customer 1000, customer>disputes 400, disputes>customer 400, customer>disputes 100"
        ],
    );
}

#[test]
fn keys_are_charged_once() {
    check(
        "purchase p 10 key=t external | purchase q 10 key=t external",
        expect!["refused: Payment(TransactionKeySucceeded"],
    );
    check("purchase p 10 key=t | purchase q 10 key=t", expect!["refused: Payment(InDoubt"]);
    check("purchase p 10 key=t | purchase p 10 key=t", expect!["refused: Payment(InDoubt"]);
    check(
        "purchase p 10 key=t | timeout p | purchase p 10 key=t",
        expect!["refused: Payment(InDoubt"],
    );
    check(
        "purchase p 10 key=t | timeout p | purchase p 10 key=u",
        expect!["refused: Payment(InDoubt"],
    );
    check(
        "purchase p 10 key=t | decline p | purchase p 10 key=t | approve p",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        "purchase p 10 key=t | decline p | purchase q 10 key=t | approve q",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        "purchase p 10 key=t | pend p | purchase p 10 key=u",
        expect!["refused: Purchase from Purchase Pending"],
    );
    check(
        "purchase p 10 key=t | pend p | purchase p 10 key=t | approve p",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        "purchase p 10 key=t | pend p | authorize p 10 key=t",
        expect!["refused: transactionType: differs from the pending transaction's"],
    );
}

#[test]
fn pending_transactions() {
    let pending = "purchase p 10 key=t | pend p";
    check(
        &format!("{pending} | complete p | approve p"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        &format!("{pending} | complete p 3 | approve p 3"),
        expect!["Purchase Success, purchased 300; gateway>customer 300"],
    );
    check(
        &format!("{pending} | complete p 11"),
        expect!["refused: amount: exceeds what was asked for"],
    );
    check(&format!("{pending} | complete p | decline p"), expect!["Purchase PaymentFailure; "]);
    check(
        &format!("{pending} | complete p | approve p | complete p"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        &format!("{pending} | complete p | decline p | complete p"),
        expect!["refused: paymentId: 01920000-0000-75cb-bbcc-2c070a5d2bba"],
    );
    check(&format!("{pending} | refund p 1"), expect!["refused: Refund from nothing"]);
    check(
        &format!("{pending} | paid p"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(&format!("{pending} | unpaid p"), expect!["Purchase PaymentFailure; "]);
    check(&format!("{pending} | paid p | paid p"), expect!["refused: Payment(NoSuchSuccess"]);
}

#[test]
fn unknown_outcomes() {
    let unknown = "purchase p 10 | timeout p";
    check(&format!("{unknown} | refund p 1"), expect!["refused: Payment(InDoubt"]);
    check(
        &format!("{unknown} | found-paid p"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(&format!("{unknown} | found-declined p"), expect!["Purchase PaymentFailure; "]);
    check(&format!("{unknown} | found-pending p"), expect!["Purchase Pending, open; "]);
    check(&format!("{unknown} | not-found p"), expect!["Purchase Unknown, open;  (in doubt)"]);
    check(&format!("{unknown} | wait 36 | not-found p"), expect!["Purchase PluginFailure, open; "]);
    check(
        &format!("{unknown} | wait 36 | unreachable p"),
        expect!["Purchase Unknown, open;  (in doubt)"],
    );
    check(
        &format!("{unknown} | approve p"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        &format!("{unknown} | fix p success"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(&format!("{unknown} | fix p failure"), expect!["Purchase PaymentFailure; "]);
    check("purchase p 10 | fix p success", expect!["refused: Payment(InDoubt"]);
}

#[test]
fn what_a_gateway_has_no_record_of_is_asked_about_until_the_schedule_ends() {
    let lost = "purchase p 10 | timeout p | wait 36 | not-found p";
    check(
        &format!("{lost} | wait 2 | found-paid p"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(&format!("{lost} | wait 2 | found-declined p"), expect!["Purchase PluginFailure; "]);
    check(
        &format!("{lost} | wait 2 | found-pending p"),
        expect!["Purchase Unknown, open;  (in doubt)"],
    );
    // Whether the gateway can be reached does not matter, nor that it has a record without an end.
    for again in ["not-found", "unreachable", "found-undecided"] {
        let once = format!("{lost} | wait 2 | {again} p");
        check(&once, expect!["Purchase PluginFailure, open; "]);
        let early = format!("{once} | wait 59 | {again} p | {again} p");
        check(&early, expect!["Purchase PluginFailure, open; "]);
        check(&format!("{once} | wait 60 | {again} p"), expect!["Purchase PluginFailure; "]);
    }
    check(
        &format!("{lost} | fix p success"),
        expect![
            "refused: X-Killbill-Reason: needs to be set: the transaction has an outcome, and this changes it"
        ],
    );
    check(
        &format!("{lost} | fix p success reason"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    // The payment may be attempted again meanwhile.
    check(
        &format!("{lost} | purchase p 10 | approve p"),
        expect!["Purchase Success, purchased 1000, open; gateway>customer 1000"],
    );
}

#[test]
fn a_call_that_ends_late_may_have_left_late() {
    let late = "purchase p 10 | wait 600 | timeout p";
    check(&format!("{late} | not-found p"), expect!["Purchase Unknown, open;  (in doubt)"]);
    check(
        &format!("{late} | wait 4 | not-found p"),
        expect!["Purchase Unknown, open;  (in doubt)"],
    );
    check(&format!("{late} | wait 5 | not-found p"), expect!["Purchase PluginFailure, open; "]);
}

#[test]
fn a_clock_that_was_set_back_delays_no_answer() {
    for begun in ["purchase p 10", "purchase p 10 | timeout p"] {
        let asked = format!("{begun} | wait -86400 | unreachable p");
        check(
            &format!("{asked} | wait 31 | not-found p"),
            expect!["Purchase Unknown, open;  (in doubt)"],
        );
        check(
            &format!("{asked} | wait 36 | not-found p"),
            expect!["Purchase PluginFailure, open; "],
        );
    }
}

#[test]
fn amounts_of_gateways_are_compared() {
    check("purchase p 10 | approve p 9", expect!["Purchase Unknown, open;  (in doubt)"]);
    check("purchase p 10 | approve p 0", expect!["Purchase Unknown, open;  (in doubt)"]);
    check("authorize p 10 | approve p | void p | approve p 10", expect!["Void Success; "]);
    check(
        "purchase p 10 | pend p | complete p 5 | approve p",
        expect!["Purchase Success, purchased 500; gateway>customer 500"],
    );
    check(
        "purchase p 10 | pend p | complete p 5 | approve p 10",
        expect!["Purchase Unknown, open;  (in doubt)"],
    );
    check(
        "purchase p 10 | timeout p | found-paid p 11",
        expect!["Purchase Unknown, open;  (in doubt)"],
    );
}

#[test]
fn a_void_and_a_capture_exclude_each_other() {
    let authorized = "authorize p 10 | approve p";
    check(
        &format!("{authorized} | void p | pend p | capture p 10"),
        expect!["refused: Capture from Void Pending"],
    );
    check(
        &format!("{authorized} | capture p 4 | pend p | void p"),
        expect!["refused: Void from Capture Pending"],
    );
}

#[test]
fn a_chargeback_can_be_reversed_whatever_settled_since() {
    let taken = "purchase p 10 | approve p | refund p 2 | chargeback p 3 key=c | approve p";
    check(
        &format!("{taken} | reverse p key=c"),
        expect![
            "ChargebackReversal Success, purchased 1000, refunded 200; gateway>customer 1000, customer>disputes 300, customer>refunds 200, disputes>customer 300"
        ],
    );
}

#[test]
fn operator_fixes_are_restricted() {
    check(
        "purchase p 10 external | fix p success",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        "purchase p 10 external | fix p failure",
        expect![
            "refused: X-Killbill-Reason: needs to be set: the transaction has an outcome, and this changes it"
        ],
    );
    check(
        "purchase p 10 | decline p | fix p success",
        expect![
            "refused: X-Killbill-Reason: needs to be set: the transaction has an outcome, and this changes it"
        ],
    );
    check("purchase p 10 | pend p | fix p failure", expect!["Purchase PaymentFailure; "]);
    check(
        "purchase p 10 external | fix p failure reason",
        expect!["Purchase PaymentFailure; gateway>customer 1000, customer>gateway 1000"],
    );
    check(
        "purchase p 10 external | fix p unknown",
        expect!["refused: transactionStatus: should be SUCCESS, PAYMENT_FAILURE or PLUGIN_FAILURE"],
    );
}

#[test]
fn a_retry_keeps_the_currency() {
    check(
        "purchase p 10 in=JPY | decline p | purchase p 10",
        expect!["refused: currency:  should be JPY to match other existing transactions"],
    );
}
