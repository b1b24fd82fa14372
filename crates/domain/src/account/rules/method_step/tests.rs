//! Each step of a payment method at its gateway, and each end of it.

use expect_test::{Expect, expect};

use super::*;
use crate::account::payment_method::{
    CreatePaymentMethod, DeletePaymentMethod, SetDefaultPaymentMethod,
};
use crate::change::Change;
use crate::change::PaymentChange;
use crate::command::{AccountCommand, PaymentCommand};
use crate::payment::combo::{ComboAccount, ComboMethod, ExistingAccount, InitiateCombo};
use crate::payment::{GatewayAnswer, GatewayReplied, Initiate, TransactionType};
use crate::testing::{Rows, TENANT};
use crate::{AccountId, Command, Currency, Executed, Rejection};

const SECOND: i64 = Timestamp::SECOND_US;

/// An account, and a gateway `remote` that attaches methods.
struct World {
    rows: Rows,
    account: AccountId,
}

impl World {
    fn new() -> Self {
        let mut rows = Rows::new();
        let remote = rows.settings.gateways.get_mut("remote").unwrap();
        remote.attaches_methods = true;
        let account = rows.account();
        Self { rows, account }
    }

    fn run(&mut self, command: AccountCommand) -> Result<Executed, Rejection> {
        self.rows.run(Command::Account(command))
    }

    fn create(&mut self, key: Option<&str>) -> Result<PaymentMethodId, Rejection> {
        let it = CreatePaymentMethod {
            external_key: key.map(str::to_owned),
            external_payment_method_id: Some("token".to_owned()),
            ..CreatePaymentMethod::default_of(self.account, "remote".to_owned())
        };
        let executed = self.run(AccountCommand::CreatePaymentMethod(it))?;
        assert_eq!(executed.reply, None, "the answer comes with the outcome");
        Ok(asked(&executed).expect("it is attached").1)
    }

    fn answer(&mut self, id: PaymentMethodId, task: MethodTask, answer: MethodAnswer) -> String {
        let it = MethodAnswered {
            account: self.account,
            payment_method: id,
            task,
            answer,
            asked_at: Timestamp(self.rows.now),
        };
        let executed = self.run(AccountCommand::MethodAnswered(Box::new(it))).unwrap();
        self.shown(id, &executed)
    }

    fn delete(&mut self, id: PaymentMethodId) -> Result<Executed, Rejection> {
        self.run(AccountCommand::DeletePaymentMethod(DeletePaymentMethod {
            payment_method: id,
            even_if_default: true,
            auto_pay_off: None,
        }))
    }

    fn due(&self, id: PaymentMethodId) -> Option<Timestamp> {
        Some(self.rows.state.timers.find(&(TENANT, key_of(id)))?.due)
    }

    /// Waits until the method's timer is due, and fires it.
    fn fire(&mut self, id: PaymentMethodId) -> String {
        let Some(due) = self.due(id) else { return "no timer".to_owned() };
        self.rows.now = self.rows.now.max(due.0);
        let it = ContinueMethod { account: self.account, payment_method: id, due };
        let executed = self.run(AccountCommand::ContinueMethod(it)).unwrap();
        self.shown(id, &executed)
    }

    fn method(&self, id: PaymentMethodId) -> &PaymentMethod {
        self.rows.state.payment_method(TENANT, id).unwrap()
    }

    /// The state of a method after a command, and the task that its gateway is given.
    fn shown(&self, id: PaymentMethodId, executed: &Executed) -> String {
        let method = self.method(id);
        let step = match method.step {
            None if method.active => "active".to_owned(),
            None => "deleted".to_owned(),
            Some(MethodStep::Attach { asked, .. }) => format!("attaching, asked {asked}"),
            Some(MethodStep::Detach { asked, deadline, .. }) => {
                let sent = if deadline.is_some() { "sent" } else { "not sent" };
                format!("detaching, {sent}, asked {asked}")
            }
            Some(MethodStep::Refused) => "refused".to_owned(),
        };
        let account = self.rows.state.account(TENANT, self.account).unwrap();
        let default = if account.payment_method_id == Some(id) { ", default" } else { "" };
        let name = method.external_payment_method_id.as_deref().unwrap_or_default();
        let timer = if self.due(id).is_some() { ", timer" } else { "" };
        let asks = asked(executed).map(|(task, _)| format!(" -> {}", task.name()));
        format!("{step} {name}{default}{timer}{}", asks.unwrap_or_default())
    }
}

/// The task that a gateway is given, and its method.
fn asked(executed: &Executed) -> Option<(MethodTask, PaymentMethodId)> {
    executed.done.effects.iter().find_map(|effect| match effect {
        Effect::AskAboutMethod(it) => Some((it.task, it.payment_method)),
        Effect::CallGateway(_) => None,
    })
}

fn attached(name: &str) -> MethodAnswer {
    MethodAnswer::Attached(MethodAtGateway { external_id: name.to_owned(), properties: vec![] })
}

fn unknown() -> MethodAnswer {
    MethodAnswer::Unknown { message: "lost".to_owned() }
}

fn declined() -> MethodAnswer {
    MethodAnswer::Refused { code: Some("declined".to_owned()), message: "no".to_owned() }
}

fn check(shown: &str, expected: Expect) {
    expected.assert_eq(shown);
}

#[test]
fn a_method_is_active_and_the_default_once_it_is_attached() {
    let mut world = World::new();
    let id = world.create(None).unwrap();
    assert!(!world.method(id).active);
    assert_eq!(world.rows.state.account(TENANT, world.account).unwrap().payment_method_id, None);
    let not_yet = AccountRejection::PaymentMethodNotFound { id };
    let it = SetDefaultPaymentMethod { account: world.account, payment_method: id };
    let refused = world.run(AccountCommand::SetDefaultPaymentMethod(it));
    assert_eq!(refused, Err(not_yet.clone().into()), "it is no default");
    assert_eq!(world.delete(id), Err(not_yet.into()), "it is not deleted");
    check(&world.answer(id, MethodTask::Attach, attached("pm_1")), expect!["active pm_1, default"]);
    // The answer comes again, after a commit in doubt.
    check(&world.answer(id, MethodTask::Attach, attached("pm_1")), expect!["active pm_1, default"]);
}

#[test]
fn a_refused_method_leaves_its_key() {
    let mut world = World::new();
    let id = world.create(Some("k")).unwrap();
    assert!(world.create(Some("k")).is_err(), "it may still be attached");
    check(&world.answer(id, MethodTask::Attach, declined()), expect!["refused token"]);
    check(&world.fire(id), expect!["no timer"]);
    let again = world.create(Some("k")).unwrap();
    check(
        &world.answer(again, MethodTask::Attach, attached("pm_2")),
        expect!["active pm_2, default"],
    );
    world.delete(again).unwrap();
    assert!(world.create(Some("k")).is_err(), "the key of a deleted method is not free");
}

#[test]
fn a_lost_answer_is_asked_about_and_nothing_is_sent_again() {
    let mut world = World::new();
    let id = world.create(None).unwrap();
    check(
        &world.answer(id, MethodTask::Attach, unknown()),
        expect!["attaching, asked 0 token, timer"],
    );
    check(&world.fire(id), expect!["attaching, asked 1 token, timer -> find"]);
    // The request may still be on its way.
    let early = world.answer(id, MethodTask::Find, MethodAnswer::Absent);
    check(&early, expect!["attaching, asked 1 token, timer"]);
    check(&world.answer(id, MethodTask::Find, attached("pm_1")), expect!["active pm_1, default"]);

    let id = world.create(None).unwrap();
    world.answer(id, MethodTask::Attach, unknown());
    world.fire(id);
    world.rows.now += 5 * SECOND;
    let last = world.answer(id, MethodTask::Find, MethodAnswer::Absent);
    check(&last, expect!["refused token"]);
    // It was attached after all: it is not left there.
    let late = world.answer(id, MethodTask::Attach, attached("pm_2"));
    check(&late, expect!["detaching, not sent, asked 0 pm_2, timer"]);
    check(&world.fire(id), expect!["detaching, sent, asked 0 pm_2, timer -> detach"]);
    let gone = world.answer(id, MethodTask::Detach, MethodAnswer::Absent);
    check(&gone, expect!["refused pm_2"]);
}

#[test]
fn a_process_that_died_asks_and_gives_up_in_the_end() {
    let mut world = World::new();
    let id = world.create(None).unwrap();
    // No answer comes at all.
    check(&world.fire(id), expect!["attaching, asked 1 token, timer -> find"]);
    check(&world.fire(id), expect!["attaching, asked 2 token, timer -> find"]);
    check(&world.fire(id), expect!["refused token"]);
}

#[test]
fn a_deleted_method_is_detached() {
    let mut world = World::new();
    let id = world.create(None).unwrap();
    world.answer(id, MethodTask::Attach, attached("pm_1"));
    let executed = world.delete(id).unwrap();
    check(&world.shown(id, &executed), expect!["detaching, not sent, asked 0 pm_1, timer"]);
    check(&world.fire(id), expect!["detaching, sent, asked 0 pm_1, timer -> detach"]);
    let lost = world.answer(id, MethodTask::Detach, unknown());
    check(&lost, expect!["detaching, sent, asked 0 pm_1, timer"]);
    check(&world.fire(id), expect!["detaching, sent, asked 1 pm_1, timer -> find"]);
    let still = world.answer(id, MethodTask::Find, attached("pm_1"));
    check(&still, expect!["detaching, sent, asked 1 pm_1, timer -> detach"]);
    check(&world.answer(id, MethodTask::Detach, MethodAnswer::Absent), expect!["deleted pm_1"]);
    check(&world.fire(id), expect!["no timer"]);

    let id = world.create(None).unwrap();
    world.answer(id, MethodTask::Attach, attached("pm_1"));
    world.delete(id).unwrap();
    world.fire(id);
    check(&world.answer(id, MethodTask::Detach, declined()), expect!["deleted pm_1"]);
}

/// A combo payment of the account with a new method.
fn combo(world: &mut World) -> (Executed, PaymentMethodId) {
    let it = InitiateCombo {
        kind: TransactionType::Purchase,
        account: ComboAccount::Existing(ExistingAccount {
            id: world.account,
            external_key: None,
            currency: None,
        }),
        payment_method: Some(ComboMethod {
            gateway: Some("remote".to_owned()),
            external_payment_method_id: Some("token".to_owned()),
            ..ComboMethod::default()
        }),
        payment: None,
        payment_key: None,
        transaction_key: None,
        amount: Some("5".to_owned()),
        currency: Currency::parse("USD"),
        properties: vec![],
        control: vec![],
        approved: vec![],
        gateways: vec![],
    };
    let executed = world.rows.run(Command::Payment(PaymentCommand::InitiateCombo(Box::new(it))));
    let executed = executed.unwrap();
    let Some(Effect::CallGateway(call)) = executed.done.effects.first() else { panic!() };
    let id = call.payment_method;
    (executed, id)
}

fn reply(world: &mut World, begun: &Executed, answer: GatewayAnswer) -> Executed {
    let Some(Effect::CallGateway(call)) = begun.done.effects.first() else { panic!() };
    let it = GatewayReplied {
        payment: call.payment,
        transaction: call.transaction,
        answer,
        is_controlled: false,
        tries: None,
    };
    world.rows.run(Command::Payment(PaymentCommand::GatewayReplied(it))).unwrap()
}

#[test]
fn the_call_of_a_combo_payment_attaches_its_method() {
    let named = |status| {
        GatewayAnswer::Outcome(GatewayOutcome {
            payment_method: Some(MethodAtGateway {
                external_id: "pm_1".to_owned(),
                properties: vec![],
            }),
            ..GatewayOutcome::new(status)
        })
    };
    let unnamed = |status| GatewayAnswer::Outcome(GatewayOutcome::new(status));
    let cases = [
        (named(GatewayStatus::Processed), expect!["active pm_1, default"]),
        (named(GatewayStatus::Error), expect!["active pm_1, default"]),
        (unnamed(GatewayStatus::Processed), expect!["active token, default"]),
        (unnamed(GatewayStatus::Error), expect!["refused token"]),
        (GatewayAnswer::TimedOut, expect!["attaching, asked 0 token, timer"]),
    ];
    for (answer, expected) in cases {
        let mut world = World::new();
        let (begun, id) = combo(&mut world);
        check(&world.shown(id, &begun), expect!["attaching, asked 0 token, timer"]);
        let executed = reply(&mut world, &begun, answer);
        check(&world.shown(id, &executed), expected);
    }
}

#[test]
fn a_method_that_is_not_attached_is_not_charged() {
    let mut world = World::new();
    let id = world.create(None).unwrap();
    let it = Initiate {
        payment_method: Some(id),
        amount: Some("5".to_owned()),
        currency: Currency::parse("USD"),
        ..Initiate::of(world.account)
    };
    let purchase = PaymentCommand::Purchase(it);
    let refused = world.rows.run(Command::Payment(purchase.clone()));
    assert_eq!(refused, Err(AccountRejection::PaymentMethodNotFound { id }.into()));
    world.answer(id, MethodTask::Attach, attached("pm_1"));
    let executed = world.rows.run(Command::Payment(purchase)).unwrap();
    let has_payment = |it: &Change| matches!(it, Change::Payment(PaymentChange::Payment(_)));
    assert!(executed.done.changes.iter().any(has_payment));
}

#[test]
fn what_the_gateway_has_already_is_added_once_and_not_attached() {
    let mut world = World::new();
    let add = |world: &mut World| {
        let it = CreatePaymentMethod {
            external_payment_method_id: Some("pm_1".to_owned()),
            is_default: false,
            is_attached: true,
            ..CreatePaymentMethod::default_of(world.account, "remote".to_owned())
        };
        let executed = world.run(AccountCommand::CreatePaymentMethod(it)).unwrap();
        match executed.reply {
            Some(Reply::Account(AccountReply::PaymentMethodCreated(id))) => id,
            other => panic!("{other:?}"),
        }
    };
    let first = add(&mut world);
    assert!(world.method(first).active);
    assert_eq!(add(&mut world), first, "two that look at once add it once");
    world.delete(first).unwrap();
    assert_ne!(add(&mut world), first, "it was deleted here");
}
