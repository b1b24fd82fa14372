//! What is billed on after it was cut, or was not invoiced for a time.

use super::*;

#[test]
fn the_next_period_is_due_once_a_change_is_undone() {
    let mut world = World::new();
    world.subscribe("solo", |it| it.bill_cycle_day = Some(10)).unwrap();
    world.change("max", Some(Policy::EndOfTerm)).unwrap();
    // A run that knows of the change finds nothing due behind it.
    world.set_quantity(2).unwrap();
    world.run(BillingCommand::UndoChange).unwrap();
    assert_eq!(world.until("2026-02-10T08:00"), 1);
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 5.00, 0.00 to pay
          RECURRING solo-evergreen 2026-01-10 > 2026-02-10 5.00
        2 on 2026-01-10 until 2026-01-10: 5.00, 0.00 to pay
          RECURRING solo-evergreen 2026-01-10 > 2026-02-10 10.00
          REPAIR_ADJ solo-evergreen 2026-01-10 > 2026-02-10 -5.00
        3 on 2026-02-10 until 2026-02-10: 10.00, 0.00 to pay
          RECURRING solo-evergreen 2026-02-10 > 2026-03-10 10.00
        due at 2026-03-10T08:00:00Z"#]]);
}

#[test]
fn what_ended_without_invoices_is_invoiced_once_the_tag_is_gone() {
    let mut world = World::with(&[ControlTag::AutoInvoicingOff]);
    world.subscribe("solo", |it| it.bill_cycle_day = Some(10)).unwrap();
    world.rows.now = at("2026-01-20T08:00").0;
    world.cancel(Policy::Immediate).unwrap();
    world.rows.now = at("2026-01-21T08:00").0;
    world.subscribe("solo", |it| it.bill_cycle_day = Some(10)).unwrap();
    world.rows.now = at("2026-01-22T08:00").0;
    pay::untag(&mut world, ControlTag::AutoInvoicingOff);
    world.until("2026-01-22T08:00");
    world.check(expect![[r#"
        1 on 2026-01-22 until 2026-01-22: 4.84, 0.00 to pay
          RECURRING solo-evergreen 2026-01-21 > 2026-02-10 3.23
          RECURRING solo-evergreen 2026-01-10 > 2026-01-20 1.61
        due at 2026-02-10T08:00:00Z"#]]);
}
