//! Pauses and other blocks: what is not billed, and what cannot be changed meanwhile.

use super::*;
use crate::InvoiceId;
use crate::account::blocking_state::{
    AddBlockingState, Blockable, Blocks, CloseAccount, ENTITLEMENT_SERVICE, PAUSED, RESUMED,
};

impl World {
    /// Records a state for what a function chooses. The names of the events that tell of states.
    fn block(
        &mut self,
        of: Blockable,
        (service, name, blocks): (&str, &str, Blocks),
        from: Option<&str>,
    ) -> Vec<String> {
        let it = AddBlockingState {
            account: self.account,
            of,
            service: service.to_owned(),
            name: name.to_owned(),
            blocks,
            effective_at: from.map(at),
        };
        let done = self.rows.run(AccountCommand::AddBlockingState(it).into()).unwrap().done;
        names_of_states(&done.events)
    }

    fn pause(&mut self, from: Option<&str>) -> Vec<String> {
        let bundle = Blockable::Bundle(self.active()[0].bundle_id);
        let blocks = Blocks { change: true, entitlement: true, billing: true };
        self.block(bundle, (ENTITLEMENT_SERVICE, PAUSED, blocks), from)
    }

    fn resume(&mut self, from: Option<&str>) -> Vec<String> {
        let bundle = Blockable::Bundle(self.active()[0].bundle_id);
        self.block(bundle, (ENTITLEMENT_SERVICE, RESUMED, Blocks::default()), from)
    }
}

fn names_of_states(events: &[Event]) -> Vec<String> {
    let name = |it: &Event| {
        let Event::BlockingStateAdded { name, .. } = it else { return None };
        Some(name.clone())
    };
    events.iter().filter_map(name).collect()
}

#[test]
fn a_pause_gives_the_rest_of_the_month_back_and_a_resumption_charges_it() {
    let mut world = World::new();
    world.subscribe("extra", |_| {}).unwrap_err();
    world.subscribe("solo", |it| it.bill_cycle_day = Some(10)).unwrap();
    world.rows.now = at("2026-01-20T08:00").0;
    assert_eq!(world.pause(None), [PAUSED]);
    assert!(world.pause(None).is_empty());
    assert!(matches!(
        world.change("max", Some(Policy::Immediate)),
        Err(Rejection::Billing(BillingRejection::Blocked { .. }))
    ));
    world.until("2026-01-30T08:00");
    assert_eq!(world.resume(None), [RESUMED]);
    world.until("2026-02-11T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 5.00, 0.00 to pay
          RECURRING solo-evergreen 2026-01-10 > 2026-02-10 5.00
        2 on 2026-01-20 until 2026-01-20: -3.39, 0.00 to pay
          CBA_ADJ  2026-01-20 > 2026-01-20 3.39
          REPAIR_ADJ solo-evergreen 2026-01-20 > 2026-02-10 -3.39
        3 on 2026-01-30 until 2026-01-30: 1.77, 0.00 to pay
          CBA_ADJ  2026-01-30 > 2026-01-30 -1.77
          RECURRING solo-evergreen 2026-01-30 > 2026-02-10 1.77
        4 on 2026-02-11 until 2026-02-10: 5.00, 0.00 to pay
          CBA_ADJ  2026-02-11 > 2026-02-11 -1.62
          RECURRING solo-evergreen 2026-02-10 > 2026-03-10 5.00
        due at 2026-03-10T08:00:00Z"#]]);
}

#[test]
fn a_pause_to_come_is_told_of_and_takes_effect_at_its_time() {
    let mut world = World::new();
    world.subscribe("solo", |_| {}).unwrap();
    assert!(world.pause(Some("2026-01-15T08:00")).is_empty());
    assert!(world.resume(Some("2026-01-25T08:00")).is_empty());
    let key = TimerKey { kind: TimerKind::Billing, object: world.account.uuid() };
    let due = world.rows.state.timers.find(&(TENANT, key)).unwrap().due;
    assert_eq!(due, at("2026-01-15T08:00"));
    world.rows.now = at("2026-02-01T08:00").0;
    let it = ContinueBilling { account: world.account, due };
    let done = world.rows.run(BillingCommand::Continue(it).into()).unwrap().done;
    assert_eq!(names_of_states(&done.events), [PAUSED]);
    // A server that was down works it through in order.
    assert_eq!(world.until("2026-02-01T08:00"), 1);
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 5.00, 0.00 to pay
          RECURRING solo-evergreen 2026-01-10 > 2026-02-10 5.00
        2 on 2026-02-01 until 2026-01-15: -4.19, 0.00 to pay
          CBA_ADJ  2026-02-01 > 2026-02-01 4.19
          REPAIR_ADJ solo-evergreen 2026-01-15 > 2026-02-10 -4.19
        3 on 2026-02-01 until 2026-01-25: 2.58, 0.00 to pay
          CBA_ADJ  2026-02-01 > 2026-02-01 -2.58
          RECURRING solo-evergreen 2026-01-25 > 2026-02-10 2.58
        due at 2026-02-10T08:00:00Z"#]]);
}

#[test]
fn an_account_that_is_blocked_subscribes_to_nothing() {
    let mut world = World::new();
    let blocks = Blocks { change: true, ..Blocks::default() };
    assert_eq!(world.block(Blockable::Account, ("s", "A", blocks), None), ["A"]);
    assert!(matches!(
        world.subscribe("solo", |_| {}),
        Err(Rejection::Billing(BillingRejection::Blocked { .. }))
    ));
    world.block(Blockable::Account, ("s", "B", Blocks::default()), None);
    world.subscribe("solo", |_| {}).unwrap();
}

#[test]
fn states_are_of_what_the_account_has() {
    let mut world = World::new();
    world.subscribe("solo", |_| {}).unwrap();
    let mut add = |of, service: &str| {
        let it = AddBlockingState {
            account: world.account,
            of,
            service: service.to_owned(),
            name: "A".to_owned(),
            blocks: Blocks::default(),
            effective_at: None,
        };
        let refused = world.rows.run(AccountCommand::AddBlockingState(it).into());
        refused.map(|_| ()).unwrap_err().to_string()
    };
    let nobody = uuid::Uuid::nil();
    let _of_no_invoice: InvoiceId = InvoiceId::new(nobody);
    let lines = [
        add(Blockable::Bundle(BundleId::new(nobody)), "s"),
        add(Blockable::Subscription(SubscriptionId::new(nobody)), "s"),
        add(Blockable::Bundle(BundleId::new(nobody)), "account-service"),
    ];
    expect![[r#"
        there is no bundle 00000000-0000-0000-0000-000000000000
        the subscription 00000000-0000-0000-0000-000000000000 has ended, and cannot be changed
        service: account-service has states of accounts only"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn closing_an_account_ends_its_subscriptions_where_that_is_asked() {
    let close = |cancel_subscriptions| {
        let mut world = World::new();
        world.subscribe("solo", |_| {}).unwrap();
        world.rows.now = at("2026-01-20T08:00").0;
        let (account, remove_future_notifications) = (world.account, true);
        let it = CloseAccount { account, remove_future_notifications, cancel_subscriptions };
        world.rows.run(AccountCommand::Close(it).into()).unwrap();
        world
    };
    assert_eq!(close(false).active().len(), 1);
    close(true).check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 5.00, 0.00 to pay
          RECURRING solo-evergreen 2026-01-10 > 2026-02-10 5.00
        2 on 2026-01-20 until 2026-01-20: -3.39, 0.00 to pay
          CBA_ADJ  2026-01-20 > 2026-01-20 3.39
          REPAIR_ADJ solo-evergreen 2026-01-20 > 2026-02-10 -3.39
        nothing is due"#]]);
}

#[test]
fn an_invoice_is_not_voided_whose_days_were_charged_again() {
    let mut world = World::with(&[ControlTag::AutoPayOff]);
    world.subscribe("solo", |it| it.bill_cycle_day = Some(10)).unwrap();
    world.rows.now = at("2026-01-20T08:00").0;
    world.pause(None);
    world.until("2026-01-30T08:00");
    world.resume(None);
    let refused = world.void(2);
    assert!(refused.ends_with("gave back days that were charged again, and cannot be voided"));
    assert!(world.void(3).starts_with("3 VOID"), "the days are not charged again any more");
    assert!(world.void(2).contains("was used"), "the first invoice has its credit");
}
