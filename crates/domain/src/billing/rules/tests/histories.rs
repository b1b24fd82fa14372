//! Histories of random commands: what holds of all invoices, whatever was done.

use std::collections::BTreeMap;

use super::by_hand::{adjustment, new_item};
use super::*;
use crate::account::blocking_state::{
    AddBlockingState, Blockable, Blocks, ENTITLEMENT_SERVICE, PAUSED, RESUMED,
};
use crate::billing::invoice::{InvoiceStatus, ItemKind, booked_on};
use crate::billing::reconcile::Billed;
use crate::billing::subscription::{AddItems, InvoiceOf, ManualKind};
use crate::change::Change;
use crate::ledger::{LedgerAccount, Posting, PostingSource};
use crate::{InvoiceId, InvoiceItemId};

/// How many histories there are: more where tests are optimised.
const HISTORIES: u64 = if cfg!(debug_assertions) { 300 } else { 10_000 };
/// How many commands each has.
const COMMANDS: u64 = 25;

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let bound = u64::try_from(of.len()).unwrap();
        (bound > 0).then(|| of[usize::try_from(self.below(bound)).unwrap()])
    }
}

struct History {
    world: World,
    random: Random,
    invoices: BTreeMap<InvoiceId, Invoice>,
    items: BTreeMap<InvoiceItemId, InvoiceItem>,
    postings: Vec<Posting>,
    /// Whether days pass one by one, not in one jump.
    is_daily: bool,
}

impl History {
    fn new(seed: u64, is_daily: bool) -> Self {
        let tags = if seed.is_multiple_of(3) { vec![ControlTag::AutoPayOff] } else { vec![] };
        let world = World::with(&tags);
        let (invoices, items) = (BTreeMap::new(), BTreeMap::new());
        Self { world, random: Random(seed), invoices, items, postings: vec![], is_daily }
    }

    /// Executes a command. Whether it is taken is not the point here.
    fn submit(&mut self, command: Command) {
        if let Ok(executed) = self.world.rows.run(command) {
            for change in &executed.done.changes {
                use crate::change::Image;
                self.items.extend(InvoiceItem::of(change).map(|it| (it.id, it.clone())));
                self.invoices.extend(Invoice::of(change).map(|it| (it.id, it.clone())));
                if let Change::Posting(it) = change {
                    self.postings.push(it.clone());
                }
            }
        }
    }

    fn step(&mut self) {
        let account = self.world.account;
        let ours: Vec<_> = self.world.active().iter().map(|it| (it.id, it.bundle_id)).collect();
        let some = self.random.one_of(&ours);
        match self.random.below(10) {
            0 | 1 => self.subscribe(),
            2 => self.wait(),
            3 => self.with(some, |it, (subscription, _)| {
                let (plan, policy) = (it.plan(), it.policy());
                let change = change_to(OfAccount { account, subscription }, plan, Some(policy));
                BillingCommand::ChangePlan(Box::new(change)).into()
            }),
            4 => self.with(some, |it, (subscription, _)| {
                let policy = it.policy();
                BillingCommand::Cancel(cancel_by(OfAccount { account, subscription }, policy))
                    .into()
            }),
            5 => self.with(some, |it, (subscription, _)| {
                let quantity = u32::try_from(it.random.below(3) + 1).unwrap();
                let (from, forces_past) = (None, false);
                let it = SetQuantity { account, subscription, quantity, from, forces_past };
                BillingCommand::SetQuantity(it).into()
            }),
            6 => self.with(some, |it, (_, bundle)| it.block(bundle)),
            7 => self.by_hand(),
            8 => self.adjust(),
            _ => {
                let all: Vec<_> = self.invoices.keys().copied().collect();
                let invoice = self.random.one_of(&all);
                self.with(invoice, |_, invoice| {
                    BillingCommand::VoidInvoice(InvoiceOf { account, invoice }).into()
                });
            }
        }
    }

    fn with<T>(&mut self, some: Option<T>, command: impl FnOnce(&mut Self, T) -> Command) {
        if let Some(some) = some {
            let command = command(self, some);
            self.submit(command);
        }
    }

    fn plan(&mut self) -> &'static str {
        self.random.one_of(&["pro", "max", "solo", "term", "extra"]).unwrap()
    }

    fn policy(&mut self) -> Policy {
        self.random.one_of(&[Policy::Immediate, Policy::EndOfTerm]).unwrap()
    }

    fn subscribe(&mut self) {
        let bundles: Vec<_> = self.world.active().iter().map(|it| it.bundle_id).collect();
        let (plan, bundle) = (self.plan(), self.random.one_of(&bundles));
        let bundle = bundle.filter(|_| plan == "extra");
        let it = Subscribe { bundle, ..subscribe_to(self.world.account, plan) };
        self.submit(BillingCommand::Subscribe(Box::new(it)).into());
    }

    fn block(&mut self, bundle: BundleId) -> Command {
        let pauses = self.random.below(2) == 0;
        let name = if pauses { PAUSED } else { RESUMED };
        let later = Timestamp::SECOND_US * 86_400 * i64::try_from(self.random.below(20)).unwrap();
        let waits = self.random.below(3) == 0;
        AccountCommand::AddBlockingState(AddBlockingState {
            account: self.world.account,
            of: Blockable::Bundle(bundle),
            service: ENTITLEMENT_SERVICE.to_owned(),
            name: name.to_owned(),
            blocks: Blocks { change: false, entitlement: pauses, billing: pauses },
            effective_at: waits.then_some(Timestamp(self.world.rows.now + later)),
        })
        .into()
    }

    fn by_hand(&mut self) {
        let kind = self.random.one_of(&[ManualKind::Charge, ManualKind::Tax, ManualKind::Credit]);
        let amount = format!("{}.{:02}", self.random.below(40), self.random.below(99) + 1);
        let commits = self.random.below(4) > 0;
        let item = new_item(&amount, None);
        let (account, kind) = (self.world.account, kind.unwrap());
        let it = AddItems { account, kind, items: vec![item], commits, day: None };
        self.submit(BillingCommand::AddItems(Box::new(it)).into());
        let drafts = self.invoices.values().filter(|it| it.status == InvoiceStatus::Draft);
        let drafts: Vec<_> = drafts.map(|it| it.id).collect();
        let invoice = self.random.one_of(&drafts);
        self.with(invoice, |_, invoice| {
            BillingCommand::CommitInvoice(InvoiceOf { account, invoice }).into()
        });
    }

    fn adjust(&mut self) {
        let account = self.world.account;
        let charging = self.items.values().filter(|it| it.kind.charges() && it.left().0 > 0);
        let charging: Vec<_> = charging.map(|it| (it.invoice_id, it.id, it.left())).collect();
        let some = self.random.one_of(&charging);
        self.with(some, |it, (invoice, item, left)| {
            let part = i64::try_from(it.random.below(left.0.unsigned_abs() + 1)).unwrap();
            let amount = (part > 0).then(|| crate::AmountMinor(part).decimal(usd()));
            let it = adjustment(account, (invoice, item), amount.as_deref());
            BillingCommand::AdjustItem(Box::new(it)).into()
        });
    }

    /// Lets some days pass, and does what is due.
    fn wait(&mut self) {
        let days = i64::try_from(self.random.below(40) + 1).unwrap();
        let (times, days) = if self.is_daily { (days, 1) } else { (1, days) };
        for _ in 0..times {
            self.world.rows.now += days * 86_400 * Timestamp::SECOND_US;
            self.do_what_is_due();
        }
    }

    fn do_what_is_due(&mut self) {
        let key = TimerKey { kind: TimerKind::Billing, object: self.world.account.uuid() };
        let mut fired = 0;
        while let Some(due) = self.world.rows.state.timers.find(&(TENANT, key)).map(|it| it.due)
            && due.0 <= self.world.rows.now
        {
            let it = ContinueBilling { account: self.world.account, due };
            self.submit(BillingCommand::Continue(it).into());
            fired += 1;
            assert!(fired < 1_000, "it goes on for ever");
        }
    }

    /// What the ledger says of each item, and of the customer.
    fn check_ledger(&self, credit: i64, at: &str) {
        let mut customer = 0;
        let mut moved: BTreeMap<(InvoiceItemId, LedgerAccount), i64> = BTreeMap::new();
        for it in &self.postings {
            for (side, amount) in [(it.credit, it.amount.0), (it.debit, -it.amount.0)] {
                if side == LedgerAccount::Customer {
                    customer += amount;
                } else if let PostingSource::Invoice { item, .. } = it.source {
                    *moved.entry((item, side)).or_default() += amount;
                }
            }
        }
        let mut expected: BTreeMap<(InvoiceItemId, LedgerAccount), i64> = BTreeMap::new();
        let mut unpaid = 0;
        for invoice in self.invoices.values() {
            unpaid += invoice.balance().0;
            let items: Vec<_> =
                self.items.values().filter(|it| it.invoice_id == invoice.id).cloned().collect();
            for it in items.iter().filter(|_| invoice.status == InvoiceStatus::Committed) {
                if let Some(account) = booked_on(it, &items) {
                    expected.insert((it.id, account), it.amount.0);
                }
            }
        }
        moved.retain(|_, amount| *amount != 0);
        expected.retain(|_, amount| *amount != 0);
        assert_eq!(moved, expected, "{at}");
        assert_eq!(customer, credit - unpaid, "{at}: the customer's account");
    }

    /// What holds, whatever was done.
    fn check(&self, at: &str) {
        let mut credit = 0;
        for invoice in self.invoices.values() {
            let of = || self.items.values().filter(|it| it.invoice_id == invoice.id);
            let sum = |is_credit: bool| -> i64 {
                of().filter(|it| (it.kind == ItemKind::CbaAdj) == is_credit)
                    .map(|it| it.amount.0)
                    .sum()
            };
            assert_eq!((sum(false), sum(true)), (invoice.charged.0, invoice.credit.0), "{at}");
            assert!(invoice.balance().0 >= 0, "{at}: {invoice:?}");
            let is_void = invoice.status == InvoiceStatus::Void;
            assert!(of().all(|it| it.voided == is_void), "{at}");
            if invoice.status == InvoiceStatus::Committed {
                credit += invoice.credit.0;
            }
        }
        let billing = self.world.rows.state.billing.accounts.find(&(TENANT, self.world.account));
        assert_eq!(credit, billing.map_or(0, |it| it.credit.0), "{at}: the account's credit");
        assert!(credit >= 0, "{at}");
        self.check_ledger(credit, at);
        assert!(billing.is_none_or(|it| it.parked.is_none()), "{at}: {billing:?}");
        let mut by_subscription: BTreeMap<SubscriptionId, Vec<&InvoiceItem>> = BTreeMap::new();
        for item in self.items.values().filter(|it| !it.voided) {
            assert!(!item.kind.charges() || item.left().0 >= 0, "{at}: {item:?}");
            if let Some(of) = &item.of {
                by_subscription.entry(of.subscription).or_default().push(item);
            }
        }
        for items in by_subscription.values() {
            assert_eq!(Billed::of(items).charged_twice(), None, "{at}: {items:#?}");
        }
    }

    /// Running once more gives nothing, whether what is settled is looked at again or not.
    fn check_again(&mut self, at: &str) {
        self.runs_and_gives_nothing(at);
        for it in self.world.rows.state.billing.subscriptions.iter_mut() {
            it.settled = jiff::civil::Date::MIN;
        }
        self.runs_and_gives_nothing(&format!("{at}, from the beginning"));
    }

    fn runs_and_gives_nothing(&mut self, at: &str) {
        let today = jiff::Timestamp::from_microsecond(self.world.rows.now).unwrap();
        let target = Some(today.to_zoned(jiff::tz::TimeZone::UTC).date());
        let account = self.world.account;
        let run = || BillingCommand::InvoiceUntil(InvoiceUntil { account, target });
        self.submit(run().into());
        let refused = self.world.rows.run(run().into());
        assert!(
            matches!(refused, Err(Rejection::Billing(BillingRejection::NothingToInvoice))),
            "{at}: {refused:?}"
        );
    }
}

#[test]
fn whatever_is_done_invoices_add_up_and_no_day_is_charged_twice() {
    for seed in 0..HISTORIES {
        let mut history = History::new(seed, false);
        for step in 0..COMMANDS {
            history.step();
            history.check(&format!("seed {seed}, step {step}"));
        }
        history.check_again(&format!("seed {seed}"));
        history.check(&format!("seed {seed}, at the end"));
    }
}

#[test]
fn days_that_pass_in_one_jump_are_billed_as_those_that_pass_one_by_one() {
    for seed in 0..HISTORIES {
        let [jump, daily] = [false, true].map(|is_daily| {
            let mut history = History::new(seed, is_daily);
            (0..COMMANDS).for_each(|_| history.step());
            let charged = |it: &InvoiceItem| {
                let target = history.invoices[&it.invoice_id].target_date;
                (target, it.kind, it.start, it.end, it.amount)
            };
            // An account's credit is dated by the day on which it changed.
            let items = history.items.values().filter(|it| it.kind != ItemKind::CbaAdj);
            let mut items: Vec<_> = items.map(charged).collect();
            items.sort();
            items
        });
        assert_eq!(jump, daily, "seed {seed}");
    }
}
