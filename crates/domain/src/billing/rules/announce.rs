//! Invoices are announced some time before their day, where the tenant's settings ask for that.

use std::collections::BTreeSet;

use jiff::civil::Date;

use super::books::Books;
use super::run;
use crate::billing::BillingSettings;
use crate::billing::invoice::Invoice;
use crate::context::Context;
use crate::{Event, Timestamp};

impl Books<'_> {
    /// What the tenant's settings say.
    pub(super) fn settings(&self, cx: &Context) -> BillingSettings {
        self.state.payment_rules(cx.tenant).map(|it| it.billing).unwrap_or_default()
    }

    /// When the next invoice is announced. What should have been by now is not any more.
    pub(super) fn next_announcement(&self, cx: &Context) -> Option<Timestamp> {
        self.announcements(cx).into_iter().map(|(at, _)| at).filter(|at| *at > self.until).min()
    }

    /// When the next invoice for each subscription is announced, and the day that it is for.
    fn announcements(&self, cx: &Context) -> BTreeSet<(Timestamp, Date)> {
        let before = self.settings(cx).announced_us;
        if before == 0 {
            return BTreeSet::new();
        }
        let days = self.subscriptions.iter().flat_map(|it| {
            let period = it.next_due.and_then(|day| Some((self.calendar.instant(day).ok()?, day)));
            let transition = it.pending().map(|it| (it.at, self.calendar.date(it.at)));
            [period, transition]
        });
        let days = days.flatten();
        days.filter_map(|(at, day)| Some((Timestamp(at.0.checked_sub(before)?), day))).collect()
    }
}

/// Announces the invoice for a day for which it is time: what there would be of it, as things are.
pub(super) fn upcoming(books: &Books<'_>, cx: &mut Context) {
    let announced = books.announcements(cx).into_iter();
    for (_, target) in announced.filter(|(at, _)| *at == books.until) {
        let (mut aside, mut tried) = (cx.aside(), Books { is_dry: true, ..books.clone() });
        // Nothing is said of what cannot be billed: that it cannot is told on its day.
        let Ok(Some(id)) = run::invoice(&mut tried, target, &mut aside) else { continue };
        let Some(it) = aside.newest::<Invoice>(&(cx.tenant, id)) else { continue };
        let (charged, balance, currency) = (it.charged, it.balance(), it.currency);
        let account = books.account.id;
        cx.event(Event::InvoiceUpcoming { account, target, charged, balance, currency });
    }
}
