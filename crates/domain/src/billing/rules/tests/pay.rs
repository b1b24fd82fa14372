//! Payments of invoices that a client asks for, and those that a tag held up.

use expect_test::{Expect, expect};

use super::*;
use crate::account::tag::AddTags;
use crate::billing::invoice::{InvoiceStatus, ItemKind};
use crate::billing::pay::{PayInvoice, PayUnpaid};
use crate::change::BillingChange;
use crate::command::PaymentCommand;
use crate::payment::{
    GatewayAnswer, GatewayOutcome, GatewayReplied, GatewayStatus, Initiate, Payment,
};
use crate::testing::run_script;
use crate::timer::Timer;
use crate::{Effect, Event, Executed, PaymentMethodId};

/// An account that has an invoice of 20.00, which a tag holds up.
struct Owing {
    world: World,
    /// A method of a gateway that answers later.
    remote: Option<PaymentMethodId>,
    /// The payment and the transaction that a gateway was called for.
    called: Option<Effect>,
}

impl Owing {
    fn new() -> Self {
        let mut world = World::with(&[ControlTag::AutoPayOff]);
        world.subscribe("pro", |it| it.phase = Some(PhaseType::Evergreen)).unwrap();
        Self { world, remote: None, called: None }
    }

    /// The newest invoice.
    fn invoice(&self) -> Invoice {
        let all = self.world.rows.state.billing.invoices.iter();
        all.max_by_key(|it| it.number).unwrap().clone()
    }

    fn add_method(&mut self, gateway: &str) -> PaymentMethodId {
        let method = CreatePaymentMethod {
            is_default: false,
            ..CreatePaymentMethod::default_of(self.world.account, gateway.to_owned())
        };
        let command = AccountCommand::CreatePaymentMethod(method);
        match self.world.rows.run(command.into()).unwrap().reply {
            Some(Reply::Account(AccountReply::PaymentMethodCreated(id))) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Takes a step: `pay`, `start` without an invoice, or an answer of the gateway.
    fn step(&mut self, step: &str) -> String {
        let mut words = step.split_whitespace();
        let verb = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        let command: Command = match verb {
            "pay" => BillingCommand::Pay(Box::new(self.pay(&words))).into(),
            "start" => PaymentCommand::Purchase(self.call(&words)).into(),
            "succeeds" => self.answer(GatewayStatus::Processed),
            "fails" => self.answer(GatewayStatus::Error),
            "pends" => self.answer(GatewayStatus::Pending),
            "draft" => return self.put(|it| it.status = InvoiceStatus::Draft),
            "void" => return self.put(|it| it.status = InvoiceStatus::Void),
            "another's" => return self.put(|it| it.account_id = AccountId::new(uuid::Uuid::nil())),
            other => panic!("{other}"),
        };
        let result = self.world.rows.run(command);
        self.shown(result)
    }

    fn put(&mut self, change: impl FnOnce(&mut Invoice)) -> String {
        let mut invoice = self.invoice();
        change(&mut invoice);
        let change = BillingChange::Invoice(Box::new(invoice));
        self.world.rows.state.apply(TENANT, &[change.into()]);
        String::new()
    }

    fn pay(&mut self, words: &[&str]) -> PayInvoice {
        let is_external = words.contains(&"external");
        PayInvoice { invoice: self.invoice().id, is_external, call: self.call(words) }
    }

    fn call(&mut self, words: &[&str]) -> Initiate {
        if words.contains(&"remote") && self.remote.is_none() {
            self.remote = Some(self.add_method("remote"));
        }
        let named = |name: &str| {
            let found = words.iter().find_map(|it| it.strip_prefix(name));
            found.map(str::to_owned)
        };
        Initiate {
            payment_method: self.remote.filter(|_| words.contains(&"remote")),
            amount: words.iter().find(|it| it.parse::<u32>().is_ok()).map(|it| (*it).to_owned()),
            currency: named("in=").and_then(|it| Currency::parse(&it)),
            payment_key: named("key="),
            transaction_key: named("tx="),
            ..Initiate::of(self.world.account)
        }
    }

    fn answer(&self, status: GatewayStatus) -> Command {
        let Some(Effect::CallGateway(call)) = &self.called else { panic!("no gateway was called") };
        Command::Payment(PaymentCommand::GatewayReplied(GatewayReplied {
            payment: call.payment,
            transaction: call.transaction,
            answer: GatewayAnswer::Outcome(GatewayOutcome::new(status)),
            is_controlled: false,
            tries: None,
        }))
    }

    /// The answer of a command, its events, and the newest invoice.
    fn shown(&mut self, result: Result<Executed, Rejection>) -> String {
        let (id, of) = (self.invoice().id.to_string(), self.world.account.to_string());
        let executed = match result {
            Ok(executed) => executed,
            Err(refused) => return refused.to_string().replace(&id, "I").replace(&of, "A"),
        };
        self.called = executed.done.effects.first().cloned().or(self.called.take());
        let events = executed.done.events.iter().filter_map(|it| {
            let Event::InvoicePaid { is_paid, amount, .. } = it else { return None };
            let name = if *is_paid { "paid" } else { "failed" };
            Some(format!("{name} {}", amount.decimal(usd())))
        });
        let events: Vec<String> = events.collect();
        let invoice = self.invoice();
        let (paid, in_flight) = (invoice.paid(), invoice.balance().0 - invoice.payable().0);
        let in_flight = crate::AmountMinor(in_flight);
        format!(
            "[{}] {} paid, {} on its way",
            events.join(", "),
            paid.decimal(usd()),
            in_flight.decimal(usd())
        )
    }
}

/// Takes steps with an invoice of 20.00; compares what the last one shows.
fn check(script: &str, expected: Expect) {
    let mut owing = Owing::new();
    expected.assert_eq(&run_script(script, |step| owing.step(step)));
}

#[test]
fn an_invoice_is_paid_wholly_or_in_part_whatever_tag_there_is() {
    check("pay", expect!["[paid 20.00] 20.00 paid, 0.00 on its way"]);
    check("pay 5", expect!["[paid 5.00] 5.00 paid, 0.00 on its way"]);
    check("pay 5 | pay 6", expect!["[paid 6.00] 11.00 paid, 0.00 on its way"]);
    check("pay 5 | pay", expect!["[paid 15.00] 20.00 paid, 0.00 on its way"]);
    check("pay 20", expect!["[paid 20.00] 20.00 paid, 0.00 on its way"]);
    check("pay external", expect!["[paid 20.00] 20.00 paid, 0.00 on its way"]);
    check("pay in=USD", expect!["[paid 20.00] 20.00 paid, 0.00 on its way"]);
}

#[test]
fn what_is_paid_already_is_not_paid_again() {
    check("pay | pay", expect!["[] 20.00 paid, 0.00 on its way"]);
    check("pay | pay 5", expect!["[] 20.00 paid, 0.00 on its way"]);
}

#[test]
fn what_cannot_be_paid_is_refused() {
    check(
        "pay 21",
        expect![
            "amount: 21.00 is more than is to be paid of the invoice I: its balance is 20.00, of which 0.00 is on its way"
        ],
    );
    check(
        "pay 5 | pay 16",
        expect![
            "amount: 16.00 is more than is to be paid of the invoice I: its balance is 15.00, of which 0.00 is on its way"
        ],
    );
    check("pay 0", expect!["amount: 0: should be greater than 0"]);
    check("pay in=EUR", expect!["currency: should be USD, which the invoice has"]);
    check("draft | pay", expect!["the invoice I is DRAFT, and cannot be paid"]);
    check("void | pay", expect!["the invoice I is VOID, and cannot be paid"]);
    check("another's | pay", expect!["the invoice I is of another account"]);
    check("pay external remote", expect!["paymentMethodId: an external payment takes none"]);
}

#[test]
fn what_is_on_its_way_counts_as_paid() {
    check("pay remote", expect!["[] 0.00 paid, 20.00 on its way"]);
    check(
        "pay remote | pay",
        expect![
            "amount: 20.00 is more than is to be paid of the invoice I: its balance is 20.00, of which 20.00 is on its way"
        ],
    );
    check(
        "pay 15 remote | pay 6",
        expect![
            "amount: 6.00 is more than is to be paid of the invoice I: its balance is 20.00, of which 15.00 is on its way"
        ],
    );
    check("pay 15 remote | pay", expect!["[paid 5.00] 5.00 paid, 15.00 on its way"]);
    check(
        "pay remote | pends | pay 1",
        expect![
            "amount: 1.00 is more than is to be paid of the invoice I: its balance is 20.00, of which 20.00 is on its way"
        ],
    );
    check("pay remote | succeeds", expect!["[paid 20.00] 20.00 paid, 0.00 on its way"]);
    check("pay remote | fails", expect!["[failed 0.00] 0.00 paid, 0.00 on its way"]);
    check("pay remote | fails | pay", expect!["[paid 20.00] 20.00 paid, 0.00 on its way"]);
}

#[test]
fn what_is_on_its_way_is_neither_taken_back_nor_paid_from_credit() {
    let mut owing = Owing::new();
    owing.step("pay 15 remote");
    // Of an invoice of its own; nothing of it goes to the one with the payment.
    let number = owing.invoice().number;
    owing.world.credit("10");
    let first = |owing: &Owing| {
        let invoices = owing.world.rows.state.billing.invoices.iter();
        let invoice = invoices.into_iter().find(|it| it.number == number).unwrap().clone();
        [invoice.balance(), invoice.payable()].map(|it| it.decimal(usd()))
    };
    assert_eq!(first(&owing), ["20.00", "5.00"]);
    let refused = owing.world.adjust((number, ItemKind::Recurring), Some("5.01"));
    expect!["amount: the adjustment should not be above 5.00: the rest of the item is taken back, or a payment may take it"]
        .assert_eq(&refused);
    owing.world.adjust((number, ItemKind::Recurring), Some("2"));
    // The credit pays what no payment may take.
    assert_eq!(first(&owing), ["15.00", "0.00"]);
    owing.step("succeeds");
    assert_eq!(first(&owing), ["0.00", "0.00"]);
}

#[test]
fn a_clients_keys_are_kept_and_a_repetition_is_answered_as_of_other_payments() {
    let mut owing = Owing::new();
    owing.step("pay 5 key=p tx=t");
    let file = owing.world.rows.state.payment.payments.iter().next().unwrap();
    assert_eq!(file.payment.external_key.as_deref(), Some("p"));
    assert_eq!(file.transactions[0].external_key.as_deref(), Some("t"));
    check("pay tx=t | pay tx=t", expect!["a transaction t succeeded already"]);
    check(
        "pay 5 key=p | pay key=p",
        expect!["Purchase may not follow where the payment stands at Purchase Success"],
    );
    check(
        "pay remote tx=t | pay tx=t",
        expect!["Purchase has to wait: it is not known yet what became of a transaction before"],
    );
    check(
        "pay remote key=p tx=t | pends | pay key=p tx=t",
        expect!["[] 0.00 paid, 20.00 on its way"],
    );
    check(
        "pay remote key=p tx=t | pends | pay key=p tx=t | succeeds",
        expect!["[paid 20.00] 20.00 paid, 0.00 on its way"],
    );
    check(
        "pay remote key=p tx=t | fails | pay remote key=p tx=t",
        expect!["[] 0.00 paid, 20.00 on its way"],
    );
    check(
        "pay remote key=p tx=t | fails | pay remote key=p tx=t | pay",
        expect![
            "amount: 20.00 is more than is to be paid of the invoice I: its balance is 20.00, of which 20.00 is on its way"
        ],
    );
}

#[test]
fn a_payment_of_an_invoice_is_tried_again_for_it_alone() {
    check(
        "pay remote key=p | fails | start 30 key=p",
        expect!["paymentExternalKey: belongs to a payment of the invoice I"],
    );
    check(
        "start 30 key=p remote | fails | pay key=p",
        expect!["paymentExternalKey: belongs to a payment of no invoice"],
    );
}

#[test]
fn an_external_payment_makes_the_accounts_method_once() {
    let mut owing = Owing::new();
    let account = owing.world.account;
    let row = |owing: &Owing| owing.world.rows.state.account(TENANT, account).unwrap().clone();
    let method = row(&owing).external_payment_method.unwrap();
    let delete = crate::account::payment_method::DeletePaymentMethod {
        payment_method: method,
        even_if_default: true,
        auto_pay_off: None,
    };
    owing.world.rows.run(AccountCommand::DeletePaymentMethod(delete).into()).unwrap();
    assert_eq!(row(&owing).external_payment_method, None);
    assert!(owing.step("pay 5").contains("paymentMethodId"), "there is no method");
    owing.step("pay 5 external");
    let made = row(&owing).external_payment_method.unwrap();
    assert_ne!(made, method);
    assert_eq!(row(&owing).payment_method_id, None, "it is not the default");
    owing.step("pay 5 external");
    assert_eq!(row(&owing).external_payment_method, Some(made));
    let of: Vec<&Payment> =
        owing.world.rows.state.payment.payments.iter().map(|it| &it.payment).collect();
    assert!(of.iter().all(|it| it.payment_method_id == made));
    assert_eq!(owing.invoice().paid().decimal(usd()), "10.00");
}

fn definitions(tag: ControlTag) -> Vec<crate::TagDefinitionId> {
    CONTROL_TAGS.iter().filter(|it| it.tag == tag).map(|it| it.id()).collect()
}

pub(super) fn untag(world: &mut World, tag: ControlTag) {
    let (account, definitions) = (world.account, definitions(tag));
    let it = RemoveTags { account, part: None, definitions };
    world.rows.run(AccountCommand::RemoveTags(it).into()).unwrap();
}

/// Fires the timers of payments until there is none; how often one fired.
pub(super) fn fire(world: &mut World) -> usize {
    let mut fired = 0;
    loop {
        let is_it = |it: &&Timer| it.key.kind == TimerKind::InvoicePayment;
        let timer = world.rows.state.timers.iter().find(is_it).cloned();
        let Some(timer) = timer else { return fired };
        let invoice = crate::InvoiceId::new(timer.key.object);
        let it = PayUnpaid { account: timer.account, invoice, due: timer.due };
        world.rows.run(BillingCommand::PayUnpaid(it).into()).unwrap();
        // The same firing comes again.
        let again = world.rows.run(BillingCommand::PayUnpaid(it).into()).unwrap();
        assert!(again.done.changes.is_empty(), "{:?}", again.done.changes);
        fired += 1;
    }
}

/// An account with three invoices that a tag held up; the second one is paid in part.
fn held_up(tag: ControlTag) -> World {
    let mut world = World::with(&[tag]);
    world.subscribe("pro", |it| it.phase = Some(PhaseType::Evergreen)).unwrap();
    world.until("2026-02-10T08:00");
    let invoice = world.rows.state.billing.invoices.iter().max_by_key(|it| it.number).unwrap().id;
    let call = Initiate { amount: Some("5".to_owned()), ..Initiate::of(world.account) };
    let it = PayInvoice { invoice, is_external: true, call };
    world.rows.run(BillingCommand::Pay(Box::new(it)).into()).unwrap();
    world.until("2026-03-10T08:00");
    world
}

/// What is to be paid of each invoice, and the amounts of the payments in their order.
fn standing(world: &World) -> String {
    let mut invoices: Vec<&Invoice> = world.rows.state.billing.invoices.iter().collect();
    invoices.sort_by_key(|it| it.number);
    let mut payments: Vec<&Payment> =
        world.rows.state.payment.payments.iter().map(|it| &it.payment).collect();
    payments.sort_by_key(|it| it.number);
    let left: Vec<String> = invoices.iter().map(|it| it.balance().decimal(usd())).collect();
    let paid: Vec<String> = payments.iter().map(|it| it.amounts.purchased.decimal(usd())).collect();
    format!("left {}; paid {}", left.join(" "), paid.join(" "))
}

#[test]
fn what_a_tag_held_up_is_paid_once_it_is_gone() {
    let mut world = held_up(ControlTag::AutoPayOff);
    expect!["left 20.00 15.00 20.00; paid 5.00"].assert_eq(&standing(&world));
    untag(&mut world, ControlTag::AutoPayOff);
    assert_eq!(fire(&mut world), 3);
    expect!["left 0.00 0.00 0.00; paid 5.00 20.00 15.00 20.00"].assert_eq(&standing(&world));
    // Nothing is left to be paid.
    let mut world = World::with(&[ControlTag::AutoPayOff]);
    untag(&mut world, ControlTag::AutoPayOff);
    assert_eq!(fire(&mut world), 0);
}

#[test]
fn another_tag_that_holds_payments_up_counts_on() {
    let mut world = held_up(ControlTag::AutoPayOff);
    let (account, definitions) = (world.account, definitions(ControlTag::ManualPay));
    let it = AddTags { account, part: None, definitions };
    world.rows.run(AccountCommand::AddTags(it).into()).unwrap();
    untag(&mut world, ControlTag::AutoPayOff);
    assert_eq!(fire(&mut world), 1, "the first one finds the other tag");
    expect!["left 20.00 15.00 20.00; paid 5.00"].assert_eq(&standing(&world));
    // Without it nothing begins: invoices that somebody pays by hand wait for that.
    untag(&mut world, ControlTag::ManualPay);
    assert_eq!(fire(&mut world), 0);
}
