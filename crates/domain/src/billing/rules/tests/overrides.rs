//! Price overrides: until when they hold, and which are refused.

use expect_test::expect;

use super::*;
use crate::billing::overrides::{OverriddenPhase, PriceOverride};

/// `TRIAL fixed 3` or `pro-evergreen recurring 15`, with commas between them.
fn overrides(text: &str) -> Vec<PriceOverride> {
    let one = |text: &str| {
        let words: Vec<_> = text.split_whitespace().collect();
        let phase = PhaseType::ALL.into_iter().find(|it| it.name() == words[0]);
        let named = || OverriddenPhase::Named(words[0].to_owned());
        let price = |name| {
            let at = words.iter().position(|it| *it == name)?;
            Price::parse(words[at + 1])
        };
        let phase = phase.map_or_else(named, OverriddenPhase::OfType);
        PriceOverride { phase, fixed: price("fixed"), recurring: price("recurring") }
    };
    text.split(", ").map(one).collect()
}

impl World {
    fn change_with(&mut self, plan: &str, prices: &str) -> Result<(), Rejection> {
        self.run(|of| {
            let change = change_to(of, plan, Some(Policy::Immediate));
            let price_overrides = overrides(prices);
            BillingCommand::ChangePlan(Box::new(ChangePlan { price_overrides, ..change }))
        })
    }
}

#[test]
fn an_override_holds_over_a_phase_and_until_the_next_change() {
    let mut world = World::new();
    world
        .subscribe("pro", |it| {
            it.price_overrides = overrides("TRIAL fixed 3, EVERGREEN recurring 15.5");
        })
        .unwrap();
    world.until("2026-03-20T09:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 3.00, 0.00 to pay
          FIXED pro-4-trial 2026-01-10 > 2026-02-09 3.00
        2 on 2026-03-20 until 2026-02-09: 15.50, 0.00 to pay
          RECURRING pro-4-evergreen 2026-02-09 > 2026-03-09 15.50
        3 on 2026-03-20 until 2026-03-09: 15.50, 0.00 to pay
          RECURRING pro-4-evergreen 2026-03-09 > 2026-04-09 15.50
        due at 2026-04-09T08:00:00Z"#]]);
    world.change("pro", Some(Policy::Immediate)).unwrap();
    world.until("2026-04-10T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 3.00, 0.00 to pay
          FIXED pro-4-trial 2026-01-10 > 2026-02-09 3.00
        2 on 2026-03-20 until 2026-02-09: 15.50, 0.00 to pay
          RECURRING pro-4-evergreen 2026-02-09 > 2026-03-09 15.50
        3 on 2026-03-20 until 2026-03-09: 15.50, 0.00 to pay
          RECURRING pro-4-evergreen 2026-03-09 > 2026-04-09 15.50
        4 on 2026-03-20 until 2026-03-20: 2.90, 0.00 to pay
          REPAIR_ADJ pro-4-evergreen 2026-03-20 > 2026-04-09 -10.00
          RECURRING pro-evergreen 2026-03-20 > 2026-04-09 12.90
        5 on 2026-04-10 until 2026-04-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-04-09 > 2026-05-09 20.00
        due at 2026-05-09T08:00:00Z"#]]);
}

#[test]
fn a_phase_without_an_override_keeps_its_price() {
    let mut world = World::new();
    world.subscribe("pro", |it| it.price_overrides = overrides("pro-trial fixed 3")).unwrap();
    world.until("2026-02-10T09:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 3.00, 0.00 to pay
          FIXED pro-4-trial 2026-01-10 > 2026-02-09 3.00
        2 on 2026-02-10 until 2026-02-09: 20.00, 0.00 to pay
          RECURRING pro-4-evergreen 2026-02-09 > 2026-03-09 20.00
        due at 2026-03-09T08:00:00Z"#]]);
}

#[test]
fn a_change_may_bring_an_override_of_its_own() {
    let mut world = World::new();
    world.subscribe("max", |_| {}).unwrap();
    world.until("2026-01-20T09:00");
    world.change_with("max", "EVERGREEN recurring 0").unwrap();
    world.until("2026-02-10T09:00");
    world.change_with("max", "EVERGREEN recurring 0.001").unwrap();
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 30.00, 0.00 to pay
          RECURRING max-evergreen 2026-01-10 > 2026-02-10 30.00
        2 on 2026-01-20 until 2026-01-20: -20.32, 0.00 to pay
          CBA_ADJ  2026-01-20 > 2026-01-20 20.32
          RECURRING max-5-evergreen 2026-01-20 > 2026-02-10 0.00
          REPAIR_ADJ max-evergreen 2026-01-20 > 2026-02-10 -20.32
        3 on 2026-02-10 until 2026-02-10: 0.00, 0.00 to pay
          RECURRING max-5-evergreen 2026-02-10 > 2026-03-10 0.00
        4 on 2026-02-10 until 2026-02-10: 0.00, 0.00 to pay
          RECURRING max-7-evergreen 2026-02-10 > 2026-03-10 0.00
        due at 2026-03-10T08:00:00Z"#]]);
}

#[test]
fn a_later_version_is_not_for_a_plan_with_overrides() {
    let mut world = World::new();
    let with = |it: &mut Subscribe| it.price_overrides = overrides("EVERGREEN recurring 25");
    world.subscribe("max", with).unwrap();
    world.subscribe("max", |_| {}).unwrap();
    let mut later = catalog();
    later.effective_at = at("2026-01-15T00:00");
    for plan in &mut later.plans {
        plan.effective_for_existing_at = Some(at("2026-02-10T00:00"));
        plan.phases.last_mut().unwrap().recurring.as_mut().unwrap().prices = price("99.00");
    }
    let upload = UploadCatalog { text: String::new(), catalog: Box::new(later) };
    world.rows.run(Command::Tenant(TenantCommand::UploadCatalog(upload))).unwrap();
    world.until("2026-03-11T09:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 25.00, 0.00 to pay
          RECURRING max-4-evergreen 2026-01-10 > 2026-02-10 25.00
        2 on 2026-01-10 until 2026-01-10: 30.00, 0.00 to pay
          RECURRING max-evergreen 2026-01-10 > 2026-02-10 30.00
        3 on 2026-03-11 until 2026-02-10: 124.00, 0.00 to pay
          RECURRING max-evergreen 2026-02-10 > 2026-03-10 99.00
          RECURRING max-4-evergreen 2026-02-10 > 2026-03-10 25.00
        4 on 2026-03-11 until 2026-03-10: 124.00, 0.00 to pay
          RECURRING max-evergreen 2026-03-10 > 2026-04-10 99.00
          RECURRING max-4-evergreen 2026-03-10 > 2026-04-10 25.00
        due at 2026-04-10T08:00:00Z"#]]);
}

#[test]
fn a_free_phase_moves_the_bill_cycle_day() {
    use crate::catalog::rules::{BillingAlignment, Case, Criteria};
    let decides = BillingAlignment::Subscription;
    let mut own = catalog();
    own.effective_at = at("2025-02-01T00:00");
    own.rules.billing_alignment = vec![Case { phase: None, plan: Criteria::default(), decides }];
    let monthly = |days| phase(PhaseType::Discount, Some(days), None, "10.00");
    own.plans[0].phases.insert(1, monthly(5));
    let upload = || UploadCatalog { text: String::new(), catalog: Box::new(own.clone()) };
    let charged_from = |prices: &str| {
        let mut world = World::new();
        world.rows.run(Command::Tenant(TenantCommand::UploadCatalog(upload()))).unwrap();
        world.subscribe("pro", |it| it.price_overrides = overrides(prices)).unwrap();
        world.until("2026-02-20T09:00");
        world.active()[0].charged_through.unwrap().to_string()
    };
    // The discount begins on February 9, and the last phase on February 14.
    assert_eq!(charged_from("TRIAL fixed 1"), "2026-03-09");
    assert_eq!(charged_from("DISCOUNT recurring 0"), "2026-03-14");
}

#[test]
fn what_cannot_be_overridden_is_refused_and_writes_nothing() {
    let mut world = World::new();
    let mut refused = |plan: &str, prices: &str| {
        let with = |it: &mut Subscribe| it.price_overrides = overrides(prices);
        let refused = world.subscribe(plan, with).unwrap_err().to_string();
        let (_, reason) = refused.split_once("cannot be overridden: ").unwrap();
        reason.to_owned()
    };
    let all = [
        refused("max", "TRIAL fixed 1"),
        refused("max", "pro-evergreen recurring 1"),
        refused("max", "EVERGREEN fixed 1"),
        refused("pro", "TRIAL recurring 1"),
        refused("pro", "TRIAL fixed 1, pro-trial fixed 2"),
    ];
    assert_eq!(
        all,
        [
            "it has no phase TRIAL",
            "it has no phase pro-evergreen",
            "its phase EVERGREEN has no fixed price",
            "its phase TRIAL has no recurring price",
            "it names the phase pro-trial twice",
        ]
    );
    assert!(world.active().is_empty());
    // One that names no price replaces nothing.
    world.subscribe("max", |it| it.price_overrides = overrides("EVERGREEN")).unwrap();
    assert_eq!(world.active()[0].current().unwrap().overrides, None);
    world.change_with("pro", "EVERGREEN fixed 1").unwrap_err();
}
