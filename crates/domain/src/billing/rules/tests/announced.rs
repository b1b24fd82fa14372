//! Invoices that are announced before their day.

use super::*;
use crate::billing::BillingSettings;
use crate::tenant::payment_rules::PaymentRules;
use crate::{Revision, Seq};

const DAY_US: i64 = 86_400 * Timestamp::SECOND_US;

impl World {
    /// An account of a tenant that is told of invoices so many days before.
    fn announcing(days: i64) -> Self {
        let mut world = Self::new();
        let billing = BillingSettings { announced_us: days * DAY_US, ..BillingSettings::DEFAULT };
        world.rows.state.tenant.payment_rules.put(PaymentRules {
            tenant: TENANT,
            retries: None,
            billing,
            limits: None,
            merchant_accounts: [].into(),
            routing: None,
            revision: Revision::first(Seq(0)),
        });
        world
    }

    /// Moves the clock as [`World::until`] does; when each announcement came, of which day, and what would be to pay.
    fn announced_until(&mut self, time: &str) -> Vec<String> {
        let mut announced = vec![];
        for (due, events) in self.events_until(time) {
            for event in events {
                let Event::InvoiceUpcoming { target, balance, .. } = event else { continue };
                let on = jiff::Timestamp::from_microsecond(due.0).unwrap().strftime("%F");
                announced.push(format!("{on}: {target} {}", balance.decimal(usd())));
            }
        }
        announced
    }
}

#[test]
fn an_invoice_is_announced_so_long_before_its_day_also_that_after_a_trial() {
    let mut world = World::announcing(7);
    world.subscribe("pro", |_| {}).unwrap();
    let all = world.announced_until("2026-03-20T08:00");
    assert_eq!(all, ["2026-02-02: 2026-02-09 20.00", "2026-03-02: 2026-03-09 20.00"]);
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-03-20 until 2026-02-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
        3 on 2026-03-20 until 2026-03-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-03-09 > 2026-04-09 20.00
        due at 2026-04-02T08:00:00Z"#]]);
}

#[test]
fn what_should_have_been_announced_by_now_is_not() {
    let mut world = World::announcing(40);
    world.subscribe("solo", |_| {}).unwrap();
    assert!(world.announced_until("2026-03-20T08:00").is_empty());
}

#[test]
fn nothing_is_announced_that_would_not_be_invoiced() {
    let mut world = World::announcing(7);
    world.subscribe("solo", |_| {}).unwrap();
    world.cancel(Policy::EndOfTerm).unwrap();
    assert!(world.announced_until("2026-03-20T08:00").is_empty());
}
