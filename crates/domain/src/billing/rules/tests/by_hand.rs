//! What somebody does to invoices: charges, credits, adjustments, drafts and voids.

use std::collections::BTreeMap;

use super::*;
use crate::billing::dry_run::{DryRun, DryRunAction, DryRunOf};
use crate::billing::invoice::{InvoiceStatus, ItemKind, Manual};
use crate::billing::subscription::{
    AddItems, AdjustItem, DeleteCredit, InvoiceOf, ManualKind, NewItem,
};
use crate::change::{Change, Image};
use crate::ledger::{LedgerAccount, Posting};
use crate::{AmountMinor, Event, InvoiceId, InvoiceItemId, RequestId};

/// An account without a method, so that its invoices stay unpaid.
fn unpaid() -> World {
    World::with(&[ControlTag::AutoPayOff])
}

pub(super) fn new_item(amount: &str, invoice: Option<InvoiceId>) -> NewItem {
    NewItem {
        invoice,
        amount: Some(amount.to_owned()),
        currency: None,
        description: None,
        details: None,
        start: None,
        end: None,
        manual: Manual::default(),
    }
}

/// Takes back a part of an item, or all that is left of it.
pub(super) fn adjustment(
    account: AccountId,
    (invoice, item): (InvoiceId, InvoiceItemId),
    amount: Option<&str>,
) -> AdjustItem {
    AdjustItem {
        account,
        invoice,
        item,
        amount: amount.map(str::to_owned),
        currency: None,
        description: None,
        details: None,
        day: None,
    }
}

impl World {
    /// What a command wrote: invoices with their items, and the account's credit; or why it was refused.
    pub(super) fn does(&mut self, command: BillingCommand) -> String {
        let done = match self.rows.run(command.into()) {
            Ok(executed) => executed.done,
            Err(why) => return why.to_string(),
        };
        let mut items: BTreeMap<InvoiceItemId, &InvoiceItem> = BTreeMap::new();
        let mut invoices: BTreeMap<i64, &Invoice> = BTreeMap::new();
        for change in &done.changes {
            items.extend(InvoiceItem::of(change).map(|it| (it.id, it)));
            invoices.extend(Invoice::of(change).map(|it| (it.number, it)));
            if let Change::Posting(it) = change {
                self.postings.push(it.clone());
            }
        }
        let mut lines = vec![];
        for (number, invoice) in invoices {
            let (charged, balance) =
                (invoice.charged.decimal(usd()), invoice.balance().decimal(usd()));
            let status = invoice.status.name();
            lines.push(format!("{number} {status}: {charged}, {balance} to pay"));
            let of = items.values().filter(|it| it.invoice_id == invoice.id);
            lines.extend(of.map(|it| {
                let voided = if it.voided { " void" } else { "" };
                format!("  {} {}{voided}", it.kind.name(), it.amount.decimal(usd()))
            }));
        }
        let adjusted = |it: &&Event| matches!(it, Event::InvoiceAdjusted { .. });
        let adjusted = done.events.iter().filter(adjusted).count();
        let billing = self.rows.state.billing.accounts.find(&(TENANT, self.account));
        let credit = billing.map_or(AmountMinor::ZERO, |it| it.credit).decimal(usd());
        lines.push(format!("credit {credit}, {adjusted} adjusted"));
        lines.join("\n")
    }

    /// What was posted since the postings were looked at last.
    fn posted(&mut self) -> Vec<String> {
        let side = |it| match it {
            LedgerAccount::Customer => "customer",
            LedgerAccount::Sales => "sales",
            LedgerAccount::Tax => "tax",
            LedgerAccount::Gateway
            | LedgerAccount::Refunds
            | LedgerAccount::Disputes
            | LedgerAccount::DisputeExcess => "another",
        };
        let of_invoices = self.postings.drain(..).filter(|it| it.gateway().is_empty());
        let line = |it: Posting| {
            format!("{} to {} {}", side(it.debit), side(it.credit), it.amount.decimal(usd()))
        };
        of_invoices.map(line).collect()
    }

    fn add(&mut self, kind: ManualKind, items: Vec<NewItem>, commits: bool) -> String {
        let it = AddItems { account: self.account, kind, items, commits, day: None };
        self.does(BillingCommand::AddItems(Box::new(it)))
    }

    pub(super) fn charge(&mut self, amount: &str) -> String {
        self.add(ManualKind::Charge, vec![new_item(amount, None)], true)
    }

    pub(super) fn credit(&mut self, amount: &str) -> String {
        self.add(ManualKind::Credit, vec![new_item(amount, None)], true)
    }

    fn invoice(&self, number: i64) -> InvoiceOf {
        let invoices = self.rows.state.billing.invoices.iter();
        let invoice = invoices.filter(|it| it.number == number).map(|it| it.id).next().unwrap();
        InvoiceOf { account: self.account, invoice }
    }

    /// The first item of a kind on an invoice.
    fn item(&self, number: i64, kind: ItemKind) -> (InvoiceId, InvoiceItemId) {
        let id = self.invoice(number).invoice;
        let items = self.rows.items_of(id);
        (id, items.iter().find(|it| it.kind == kind).unwrap().id)
    }

    pub(super) fn adjust(
        &mut self,
        (number, kind): (i64, ItemKind),
        amount: Option<&str>,
    ) -> String {
        let (invoice, item) = self.item(number, kind);
        let it = adjustment(self.account, (invoice, item), amount);
        self.does(BillingCommand::AdjustItem(Box::new(it)))
    }

    pub(super) fn void(&mut self, number: i64) -> String {
        self.does(BillingCommand::VoidInvoice(self.invoice(number)))
    }
}

#[test]
fn a_credit_pays_what_is_unpaid_and_what_comes() {
    let mut world = unpaid();
    expect![[r#"
        1 COMMITTED: 33.00, 33.00 to pay
          EXTERNAL_CHARGE 33.00
        credit 0.00, 0 adjusted"#]]
    .assert_eq(&world.charge("33"));
    expect![[r#"
        1 COMMITTED: 33.00, 0.00 to pay
          CBA_ADJ -33.00
        2 COMMITTED: -40.00, 0.00 to pay
          CREDIT_ADJ -40.00
          CBA_ADJ 40.00
        credit 7.00, 1 adjusted"#]]
    .assert_eq(&world.credit("40"));
    expect![[r#"
        3 COMMITTED: 10.00, 3.00 to pay
          EXTERNAL_CHARGE 10.00
          CBA_ADJ -7.00
        credit 0.00, 0 adjusted"#]]
    .assert_eq(&world.charge("10"));
    expect!["the credit of the invoice ID was used, so that it cannot be taken back"]
        .assert_eq(&masked(&world.void(2)));
}

fn masked(text: &str) -> String {
    let is_id = |it: &str| uuid::Uuid::parse_str(it).is_ok();
    text.split(' ').map(|it| if is_id(it) { "ID" } else { it }).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_draft_counts_once_it_is_asked_for() {
    let mut world = World::new();
    expect![[r#"
        1 DRAFT: 12.00, 0.00 to pay
          EXTERNAL_CHARGE 12.00
        credit 0.00, 0 adjusted"#]]
    .assert_eq(&world.add(ManualKind::Charge, vec![new_item("12", None)], false));
    let draft = world.invoice(1);
    let more = vec![new_item("13", Some(draft.invoice))];
    expect![[r#"
        1 DRAFT: 25.00, 0.00 to pay
          TAX 13.00
        credit 0.00, 0 adjusted"#]]
    .assert_eq(&world.add(ManualKind::Tax, more.clone(), false));
    expect![[r#"
        1 COMMITTED: 25.00, 0.00 to pay
        credit 0.00, 0 adjusted"#]]
    .assert_eq(&world.does(BillingCommand::CommitInvoice(draft)));
    expect!["the invoice ID is no draft"]
        .assert_eq(&masked(&world.does(BillingCommand::CommitInvoice(draft))));
    expect!["cannot add credit or external charge for invoice id ID because it is already in COMMITTED status"]
        .assert_eq(&masked(&world.add(ManualKind::Tax, more, false)));
}

#[test]
fn the_credit_of_a_draft_counts_once_it_is_asked_for() {
    let mut world = World::new();
    expect![[r#"
        1 DRAFT: -10.00, 0.00 to pay
          CBA_ADJ 10.00
          CREDIT_ADJ -10.00
        credit 0.00, 0 adjusted"#]]
    .assert_eq(&world.add(ManualKind::Credit, vec![new_item("10", None)], false));
    expect![[r#"
        1 COMMITTED: -10.00, 0.00 to pay
        credit 10.00, 0 adjusted"#]]
    .assert_eq(&world.does(BillingCommand::CommitInvoice(world.invoice(1))));
}

#[test]
fn an_adjustment_of_what_was_paid_becomes_credit_and_is_at_most_what_is_left() {
    let mut world = World::new();
    world.charge("50");
    expect![[r#"
        1 COMMITTED: 35.00, 0.00 to pay
          CBA_ADJ 15.00
          EXTERNAL_CHARGE 50.00
          ITEM_ADJ -15.00
        credit 15.00, 1 adjusted"#]]
    .assert_eq(&world.adjust((1, ItemKind::ExternalCharge), Some("15.00")));
    let refused = [Some("35.01"), Some("0"), Some("1.001")];
    expect![[r#"
        amount: the adjustment should not be above 35.00: the rest of the item is taken back, or a payment may take it
        amount: an adjustment should be above 0
        amount: 1.001: more decimals than the currency has (2)"#]]
    .assert_eq(&refused.map(|it| world.adjust((1, ItemKind::ExternalCharge), it)).join("\n"));
    expect!["the item ID charges nothing that can be adjusted"]
        .assert_eq(&masked(&world.adjust((1, ItemKind::CbaAdj), None)));
    expect![[r#"
        1 COMMITTED: 0.00, 0.00 to pay
          CBA_ADJ 35.00
          EXTERNAL_CHARGE 50.00
          ITEM_ADJ -35.00
        credit 50.00, 1 adjusted"#]]
    .assert_eq(&world.adjust((1, ItemKind::ExternalCharge), None));
}

#[test]
fn the_days_of_a_void_invoice_are_charged_again() {
    let mut world = unpaid();
    world.subscribe("solo", |_| {}).unwrap();
    expect![[r#"
        1 VOID: 5.00, 0.00 to pay
          RECURRING 5.00 void
        credit 0.00, 1 adjusted"#]]
    .assert_eq(&world.void(1));
    expect!["the invoice ID is void"].assert_eq(&masked(&world.void(1)));
    world.invoice_until("2026-01-10").unwrap();
    world.invoice_until("2026-01-10").unwrap_err();
    let again = world.invoice(2);
    assert_eq!(world.rows.items_of(again.invoice).len(), 1);
    let paid = World::new();
    let mut world = paid;
    world.subscribe("solo", |_| {}).unwrap();
    expect!["the invoice ID has payments, and cannot be voided"].assert_eq(&masked(&world.void(1)));
}

#[test]
fn what_a_void_invoice_repaired_is_repaired_again() {
    let mut world = unpaid();
    world.subscribe("solo", |_| {}).unwrap();
    world.rows.now = at("2026-01-20T08:00").0;
    world.set_quantity(2).unwrap();
    expect!["the invoice ID was repaired by a later one, and cannot be voided"]
        .assert_eq(&masked(&world.void(1)));
    let before = world.rows.items_of(world.invoice(2).invoice).len();
    world.void(2);
    assert_eq!(world.rows.items_of(world.invoice(1).invoice)[0].repaired, AmountMinor::ZERO);
    world.invoice_until("2026-01-20").unwrap();
    let items = world.rows.items_of(world.invoice(3).invoice);
    assert_eq!(items.len(), before);
    assert!(items.iter().any(|it| it.kind == ItemKind::RepairAdj));
}

#[test]
fn drafts_of_runs_are_one_with_both_tags() {
    let mut world = World::with(&[ControlTag::AutoInvoicingDraft]);
    world.subscribe("solo", |_| {}).unwrap();
    world.until("2026-02-11T08:00");
    let state = |world: &World| {
        let mut all: Vec<_> = world.rows.state.billing.invoices.iter().collect();
        all.sort_by_key(|it| it.number);
        let shown = |it: &&Invoice| format!("{} {}", it.status.name(), it.charged.decimal(usd()));
        all.iter().map(shown).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(state(&world), "DRAFT 5.00, DRAFT 5.00");
    assert_eq!(world.active()[0].charged_through, None);
    world.does(BillingCommand::CommitInvoice(world.invoice(1)));
    assert_eq!(world.active()[0].charged_through, Some("2026-02-10".parse().unwrap()));
    let tags = [ControlTag::AutoInvoicingDraft, ControlTag::AutoInvoicingReuseDraft];
    let mut world = World::with(&tags);
    world.subscribe("solo", |_| {}).unwrap();
    world.until("2026-02-11T08:00");
    assert_eq!(state(&world), "DRAFT 10.00");
}

#[test]
fn a_credit_can_be_taken_back_unless_a_run_made_it() {
    let mut world = unpaid();
    world.credit("20");
    let (invoice, item) = world.item(1, ItemKind::CbaAdj);
    let delete = |account| BillingCommand::DeleteCredit(DeleteCredit { account, invoice, item });
    let account = world.account;
    expect![[r#"
        1 COMMITTED: 0.00, 0.00 to pay
          CBA_ADJ 0.00
          CREDIT_ADJ 0.00
        credit 0.00, 0 adjusted"#]]
    .assert_eq(&world.does(delete(account)));
    let mut world = World::new();
    world.charge("50");
    world.adjust((1, ItemKind::ExternalCharge), None);
    let (invoice, item) = world.item(1, ItemKind::CbaAdj);
    let account = world.account;
    let delete = BillingCommand::DeleteCredit(DeleteCredit { account, invoice, item });
    expect!["the credit of the item ID follows from other items, and cannot be taken back"]
        .assert_eq(&masked(&world.does(delete)));
}

#[test]
fn an_item_is_in_the_ledger_as_long_as_it_counts() {
    let mut world = unpaid();
    world.charge("33");
    assert_eq!(world.posted(), ["customer to sales 33.00"]);
    world.add(ManualKind::Tax, vec![new_item("5", None), new_item("2", None)], false);
    assert_eq!(world.posted(), [""; 0], "a draft moves nothing");
    world.adjust((2, ItemKind::Tax), Some("1"));
    assert_eq!(world.posted(), [""; 0]);
    world.does(BillingCommand::CommitInvoice(world.invoice(2)));
    let mut posted = world.posted();
    posted.sort();
    assert_eq!(posted, ["customer to tax 2.00", "customer to tax 5.00", "tax to customer 1.00"]);
    world.adjust((2, ItemKind::Tax), Some("0.50"));
    assert_eq!(world.posted(), ["tax to customer 0.50"]);
    world.adjust((1, ItemKind::ExternalCharge), Some("3"));
    assert_eq!(world.posted(), ["sales to customer 3.00"]);
    world.void(1);
    let mut posted = world.posted();
    posted.sort();
    assert_eq!(posted, ["customer to sales 3.00", "sales to customer 33.00"]);
    world.credit("4");
    assert_eq!(world.posted(), ["sales to customer 4.00"], "its use as credit moves nothing");
}

#[test]
fn wrong_items_are_refused() {
    let mut world = World::new();
    let mut refused = |kind, it| masked(&world.add(kind, it, true));
    let charge = |amount| vec![new_item(amount, None)];
    let eur = NewItem { currency: Currency::parse("EUR"), ..new_item("1", None) };
    let backwards = NewItem {
        start: Some("2026-02-01".parse().unwrap()),
        end: Some("2026-01-31".parse().unwrap()),
        ..new_item("1", None)
    };
    let foreign = new_item("1", Some(InvoiceId::new(uuid::Uuid::nil())));
    let lines = [
        refused(ManualKind::Charge, charge("0")),
        refused(ManualKind::Credit, charge("-1")),
        refused(ManualKind::Tax, charge("1.001")),
        refused(ManualKind::Charge, vec![eur]),
        refused(ManualKind::Charge, vec![backwards]),
        refused(ManualKind::Charge, vec![foreign]),
        refused(ManualKind::Charge, vec![]),
        refused(ManualKind::Charge, vec![new_item("92233720368547758.07", None); 2]),
    ];
    expect![[r#"
        amount: a charge should be above 0
        amount: a credit should be above 0
        amount: 1.001: more decimals than the currency has (2)
        currency: should be USD, which the account has
        endDate: should not be before startDate
        no invoice could be found for id ID
        items: should be from 1 to 1000
        amount: the invoice would be beyond 64 bits"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn a_dry_run_shows_what_would_be_invoiced_and_writes_nothing() {
    let mut world = World::new();
    world.subscribe("solo", |_| {}).unwrap();
    world.rows.now = at("2026-01-20T08:00").0;
    let before = world.rows.state.clone();
    let subscription = world.subscription.unwrap();
    let upcoming = DryRunOf::Upcoming { bundle: None, subscription: None };
    let of = OfAccount { account: world.account, subscription };
    let change = change_to(of, "max", Some(Policy::Immediate));
    let change = DryRunOf::After(Box::new(DryRunAction::Change(change)), None);
    let mut shown = vec![];
    for of in [DryRunOf::Target(None), upcoming, change] {
        let it = DryRun { account: world.account, of };
        let now = Timestamp(world.rows.now);
        let id = RequestId(uuid::Uuid::from_u128(7));
        let state = world.rows.loaded(&it.reads(TENANT));
        let found = it.run(&state, (TENANT, now, id)).unwrap();
        shown.push(found.map_or("nothing".to_owned(), |it| {
            assert_eq!(it.invoice.status, InvoiceStatus::Committed);
            let amounts = [it.invoice.charged, it.invoice.balance()].map(|it| it.decimal(usd()));
            format!("{} items: {}, {} to pay", it.items.len(), amounts[0], amounts[1])
        }));
    }
    expect![[r#"
        nothing
        1 items: 5.00, 5.00 to pay
        2 items: 16.93, 16.93 to pay"#]]
    .assert_eq(&shown.join("\n"));
    assert_eq!(format!("{before:?}"), format!("{:?}", world.rows.state));
}
