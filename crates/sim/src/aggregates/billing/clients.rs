//! What clients ask for. The model follows what was accepted.

use domain::account::CreateAccount;
use domain::account::blocking_state::{
    AddBlockingState, Blockable, Blocks, ENTITLEMENT_SERVICE, PAUSED, RESUMED,
};
use domain::account::tag::{AddTags, CONTROL_TAGS, ControlTag, RemoveTags};
use domain::billing::invoice::{Invoice, InvoiceItem, InvoiceStatus, ItemKind, Manual};
use domain::billing::pay::PayInvoice;
use domain::billing::subscription::{
    AddItems, AdjustItem, CancelSubscription, ChangePlan, InvoiceOf, InvoiceUntil, ManualKind,
    NewItem, OfAccount, PlanChoice, SetQuantity, Subscribe, When,
};
use domain::catalog::rules::Policy;
use domain::command::{AccountCommand, BillingCommand};
use domain::payment::Initiate;
use domain::{
    AccountId, BundleId, Command, EXTERNAL_PAYMENT, SubscriptionId, TagDefinitionId, Timestamp,
};

use super::Billing;
use super::catalog::{PLANS, Sold, usd};
use super::days::{Billed, DAY_US, Fact, Zone};
use super::model::Account;
use crate::aggregates::commands;
use crate::disk::Disk;
use crate::workload::CARD;

/// How many subscriptions an account has at most, those that are over among them.
const SUBSCRIPTIONS_MAX: usize = 10;

const POLICIES: [Policy; 2] = [Policy::Immediate, Policy::EndOfTerm];

impl<D: Disk> Billing<D> {
    /// An account with a payment method: of the gateway, or an external one.
    pub(super) fn add_account(&mut self) -> Result<(), String> {
        let random = &mut self.kernel.random;
        let offset_h = *random.pick(&[0, 0, -8, 9]);
        let cycle_day = if random.chance(500) { random.between(1, 31) } else { 0 };
        let is_external = random.chance(150);
        let is_paying_off = random.chance(200);
        let cycle_day = u8::try_from(cycle_day).expect("a day of a month");
        let create = CreateAccount {
            currency: Some(usd()),
            bill_cycle_day_local: cycle_day,
            time_zone: Some(format!("{offset_h:+03}:00")),
            tags: is_paying_off.then_some(ControlTag::AutoPayOff).into_iter().collect(),
            ..CreateAccount::default()
        };
        let create = Command::Account(AccountCommand::Create(Box::new(create)));
        let id: AccountId = self.submit(create)?.committed()?.id.entity(0);
        let gateway = if is_external { EXTERNAL_PAYMENT } else { CARD };
        self.submit(commands::create_method(id, gateway))?.committed()?;
        let zone = Zone::new(offset_h * 3_600_000_000, self.kernel.now);
        let today = zone.day(self.kernel.now);
        let billed = Billed { run_for: today - 1, settled: today - 1, now: self.kernel.now };
        let account = Account { zone, cycle_day, billed, is_invoicing_off: false, is_paying_off };
        self.model.accounts.insert(id, account);
        self.kernel.accounts.push(id);
        Ok(())
    }

    pub(super) fn act(&mut self) -> Result<(), String> {
        let account = self.kernel.any_account();
        match self.kernel.random.below(130) {
            0..=17 => self.subscribe(account),
            18..=32 => self.change(account),
            33..=41 => self.undo_change(account),
            42..=48 => self.cancel(account),
            49..=51 => self.uncancel(account),
            52..=54 => self.change_mind(account),
            55..=58 => self.set_quantity(account),
            59..=69 => self.pause(account),
            70..=81 => self.add_items(account),
            82..=84 => self.adjust(account),
            85..=87 => self.commit_draft(account),
            88..=112 => self.pay(account),
            113..=117 => self.tag_paying(account),
            118..=120 => self.tag_invoicing(account),
            121..=123 => self.invoice(account),
            124..=126 => self.move_partition(account),
            _ => {
                self.kernel.die();
                self.running.clear();
                Ok(())
            }
        }
    }

    /// Submits a command, and says whether it was accepted and written, whatever was heard of it.
    fn accepted(&mut self, command: impl Into<Command>) -> Result<bool, String> {
        let done = self.submit(command.into())?;
        Ok(done.is_durable && !done.entries.is_empty())
    }

    fn subscribe(&mut self, account: AccountId) -> Result<(), String> {
        let own = self.model.lines.values().filter(|it| it.account == account);
        let bundles: Vec<BundleId> = own.map(|it| it.bundle).collect();
        if bundles.len() >= SUBSCRIPTIONS_MAX {
            return Ok(());
        }
        let random = &mut self.kernel.random;
        let plan = random.pick(&PLANS);
        let bundle = (plan.name == "extra" && !bundles.is_empty()).then(|| *random.pick(&bundles));
        let quantity = random.chance(300).then(|| u32::try_from(random.between(1, 3)).unwrap_or(1));
        let subscribe = Subscribe {
            account,
            bundle,
            bundle_key: None,
            external_key: None,
            plan: PlanChoice::Named(plan.name.to_owned()),
            phase: None,
            bill_cycle_day: None,
            quantity,
            entitled_from: None,
            billed_from: None,
            price_overrides: vec![],
        };
        let command = BillingCommand::Subscribe(Box::new(subscribe));
        let done = self.submit(command.into())?;
        if let Some(it) = self.subscribed(&done) {
            self.kernel.count("subscribed");
            let of = (account, it.bundle_id);
            self.model.subscribe(it.id, of, (plan, quantity), self.kernel.now);
        }
        Ok(())
    }

    /// Any subscription of an account that is not over.
    fn some_line(&mut self, account: AccountId) -> Option<SubscriptionId> {
        let now = self.kernel.now;
        let own = self.model.lines.iter().filter(|(_, it)| it.account == account);
        let own: Vec<_> =
            own.map(|(id, _)| *id).filter(|id| !self.model.is_over(*id, now)).collect();
        (!own.is_empty()).then(|| *self.kernel.random.pick(&own))
    }

    /// Any subscription of which something is to come, mostly.
    fn some_coming(
        &mut self,
        account: AccountId,
        is_it: impl Fn(&Fact) -> bool,
    ) -> Option<(AccountId, SubscriptionId)> {
        let now = self.kernel.now;
        let coming = self.model.lines.iter().filter(|(_, it)| it.awaits(&is_it, now));
        let coming: Vec<_> = coming.map(|(id, it)| (it.account, *id)).collect();
        match coming.is_empty() || self.kernel.random.chance(100) {
            true => self.some_line(account).map(|id| (account, id)),
            false => Some(*self.kernel.random.pick(&coming)),
        }
    }

    fn change(&mut self, account: AccountId) -> Result<(), String> {
        let Some(subscription) = self.some_line(account) else { return Ok(()) };
        let is_add_on = self.model.lines[&subscription].is_add_on;
        let others: Vec<&'static Sold> =
            PLANS.iter().filter(|it| (it.name == "extra") == is_add_on).collect();
        let plan = *self.kernel.random.pick(&others);
        let ends_term = self.kernel.random.chance(600);
        let policy = if ends_term { Policy::EndOfTerm } else { Policy::Immediate };
        let change = ChangePlan {
            account,
            subscription,
            plan: PlanChoice::Named(plan.name.to_owned()),
            phase: None,
            policy: Some(policy),
            requested: None,
            price_overrides: vec![],
        };
        let through = self.issued.through.get(&subscription).copied();
        if self.accepted(BillingCommand::ChangePlan(Box::new(change)))? {
            self.kernel.count("changed");
            self.model.change(subscription, plan, (policy, through), self.kernel.now);
        }
        Ok(())
    }

    fn undo_change(&mut self, account: AccountId) -> Result<(), String> {
        let coming = self.some_coming(account, |it| matches!(it, Fact::Plan(_)));
        let Some((account, subscription)) = coming else { return Ok(()) };
        if self.accepted(BillingCommand::UndoChange(OfAccount { account, subscription }))? {
            self.kernel.count("undone");
            self.model.undo_change(subscription, self.kernel.now);
        }
        Ok(())
    }

    fn cancel(&mut self, account: AccountId) -> Result<(), String> {
        let Some(subscription) = self.some_line(account) else { return Ok(()) };
        let random = &mut self.kernel.random;
        let [entitlement, billing] = [(); 2].map(|()| Some(*random.pick(&POLICIES)));
        let rules_decide = random.chance(200);
        let ends_with_term = random.chance(500);
        let end_of_term = (Some(Policy::EndOfTerm), Some(Policy::EndOfTerm));
        let (entitlement, billing) = match (rules_decide, ends_with_term) {
            (true, _) => (None, None),
            (false, true) => end_of_term,
            (false, false) => (entitlement, billing),
        };
        let of = OfAccount { account, subscription };
        let cancel = CancelSubscription { entitlement, billing, ..cancel_at(of, None) };
        let through = self.issued.through.get(&subscription).copied();
        if self.accepted(BillingCommand::Cancel(cancel))? {
            self.kernel.count("cancelled");
            let policies = (entitlement, billing);
            self.model.cancel(subscription, policies, through, self.kernel.now);
        }
        Ok(())
    }

    /// Somebody cancels for a day that is soon, goes on to use what there is, and takes it back on that day.
    fn change_mind(&mut self, account: AccountId) -> Result<(), String> {
        let Some(subscription) = self.some_line(account) else { return Ok(()) };
        let of = OfAccount { account, subscription };
        let end = self.kernel.now + self.kernel.random.between(1, 3 * DAY_US);
        if !self.accepted(BillingCommand::Cancel(cancel_at(of, Some(end))))? {
            return Ok(());
        }
        self.kernel.count("cancelled");
        self.model.end(subscription, (end, end), self.kernel.now);
        self.set_quantity_of(of)?;
        let waits = (end - self.kernel.now) - self.kernel.random.between(0, DAY_US / 2);
        self.advance(self.kernel.now + waits.max(0))?;
        // The account is billed for that day before.
        if let Some(other) = self.some_line(account).filter(|it| *it != subscription) {
            self.set_quantity_of(OfAccount { account, subscription: other })?;
        }
        self.uncancel_of(of)
    }

    fn uncancel(&mut self, account: AccountId) -> Result<(), String> {
        let coming = self.some_coming(account, |it| *it == Fact::End);
        let Some((account, subscription)) = coming else { return Ok(()) };
        self.uncancel_of(OfAccount { account, subscription })
    }

    fn uncancel_of(&mut self, of: OfAccount) -> Result<(), String> {
        if self.accepted(BillingCommand::Uncancel(of))? {
            self.kernel.count("uncancelled");
            self.model.uncancel(of.subscription, self.kernel.now);
        }
        Ok(())
    }

    fn set_quantity(&mut self, account: AccountId) -> Result<(), String> {
        let Some(subscription) = self.some_line(account) else { return Ok(()) };
        self.set_quantity_of(OfAccount { account, subscription })
    }

    fn set_quantity_of(&mut self, of: OfAccount) -> Result<(), String> {
        let OfAccount { account, subscription } = of;
        let quantity = u32::try_from(self.kernel.random.between(1, 4)).unwrap_or(1);
        let (from, forces_past) = (None, false);
        let set = SetQuantity { account, subscription, quantity, from, forces_past };
        if self.accepted(BillingCommand::SetQuantity(set))? {
            self.kernel.count("quantities");
            self.model.set_quantity(subscription, quantity, self.kernel.now);
        }
        Ok(())
    }

    /// Pauses a bundle or lets it go on, now or soon.
    fn pause(&mut self, account: AccountId) -> Result<(), String> {
        let Some(line) = self.some_line(account) else { return Ok(()) };
        let bundle = self.model.lines[&line].bundle;
        let is_paused = self.model.course(line).is_paused(self.kernel.now);
        let random = &mut self.kernel.random;
        let pauses = if random.chance(900) { !is_paused } else { is_paused };
        let waits_us = random.chance(300).then(|| random.between(1, 20 * DAY_US));
        let effective_at = waits_us.map(|it| Timestamp(self.kernel.now + it));
        let state = AddBlockingState {
            account,
            of: Blockable::Bundle(bundle),
            service: ENTITLEMENT_SERVICE.to_owned(),
            name: if pauses { PAUSED } else { RESUMED }.to_owned(),
            blocks: Blocks { change: false, entitlement: pauses, billing: pauses },
            effective_at,
        };
        if self.accepted(AccountCommand::AddBlockingState(state))? {
            self.kernel.count("paused");
            let (now, at) = (self.kernel.now, effective_at.map_or(self.kernel.now, |it| it.0));
            self.model.pause((account, bundle), pauses, (at, now));
        }
        Ok(())
    }

    /// Somebody charges, taxes or credits an account.
    fn add_items(&mut self, account: AccountId) -> Result<(), String> {
        let random = &mut self.kernel.random;
        let kinds = [ManualKind::Charge, ManualKind::Tax, ManualKind::Credit, ManualKind::Credit];
        let kind = *random.pick(&kinds);
        let amount = format!("{}.{:02}", random.below(30), random.between(1, 99));
        let item = NewItem {
            invoice: None,
            amount: Some(amount),
            currency: None,
            description: None,
            details: None,
            start: None,
            end: None,
            manual: Manual::default(),
        };
        let commits = random.chance(800);
        let add = AddItems { account, kind, items: vec![item], commits, day: None };
        if self.accepted(BillingCommand::AddItems(Box::new(add)))? {
            self.kernel.count(if kind == ManualKind::Credit { "credited" } else { "charged" });
        }
        Ok(())
    }

    /// Somebody takes a part of a charge back.
    fn adjust(&mut self, account: AccountId) -> Result<(), String> {
        let is_charge = |it: &&InvoiceItem| {
            let is_committed =
                self.issued.invoices[&it.invoice_id].status == InvoiceStatus::Committed;
            it.account_id == account && it.kind == ItemKind::ExternalCharge && is_committed
        };
        let charges: Vec<_> = self.issued.items.values().filter(is_charge).cloned().collect();
        if charges.is_empty() {
            return Ok(());
        }
        let item = self.kernel.random.pick(&charges).clone();
        let most = item.left().0.max(1);
        let amount = domain::AmountMinor(self.kernel.random.between(1, most)).decimal(usd());
        let adjust = AdjustItem {
            account,
            invoice: item.invoice_id,
            item: item.id,
            amount: Some(amount),
            currency: None,
            description: None,
            details: None,
            day: None,
        };
        if self.accepted(BillingCommand::AdjustItem(Box::new(adjust)))? {
            self.kernel.count("adjusted");
        }
        Ok(())
    }

    /// Any invoice of an account that is of a kind.
    fn some_invoice(
        &mut self,
        account: AccountId,
        of: impl Fn(&Invoice) -> bool,
    ) -> Option<Invoice> {
        let own = self.issued.invoices.values().filter(|it| it.account_id == account && of(it));
        let own: Vec<&Invoice> = own.collect();
        (!own.is_empty()).then(|| (*self.kernel.random.pick(&own)).clone())
    }

    fn commit_draft(&mut self, account: AccountId) -> Result<(), String> {
        let draft = self.some_invoice(account, |it| it.status == InvoiceStatus::Draft);
        let Some(Invoice { id: invoice, .. }) = draft else { return Ok(()) };
        self.accepted(BillingCommand::CommitInvoice(InvoiceOf { account, invoice })).map(drop)
    }

    /// Somebody pays an invoice by hand: what is unpaid, or paid already, or on its way; all of it, a part, or more.
    fn pay(&mut self, account: AccountId) -> Result<(), String> {
        let any = self.kernel.random.chance(50);
        let is_unpaid = |it: &Invoice| any || it.balance().0 > 0;
        let Some(invoice) = self.some_invoice(account, is_unpaid) else { return Ok(()) };
        let random = &mut self.kernel.random;
        let balance = invoice.balance().0.max(1);
        let amount = random.chance(300).then(|| random.between(1, balance + balance / 4 + 1));
        let amount = amount.map(|it| domain::AmountMinor(it).decimal(usd()));
        let is_external = random.chance(200);
        let call = Initiate { amount, ..Initiate::of(account) };
        let pay = PayInvoice { invoice: invoice.id, is_external, call };
        if self.accepted(BillingCommand::Pay(Box::new(pay)))? {
            self.kernel.count("paid by hand");
        }
        Ok(())
    }

    fn tag(&mut self, account: AccountId, tag: ControlTag, adds: bool) -> Result<bool, String> {
        let definition = CONTROL_TAGS.iter().find(|it| it.tag == tag).map(|it| it.id());
        let definitions: Vec<TagDefinitionId> = definition.into_iter().collect();
        self.accepted(match adds {
            true => AccountCommand::AddTags(AddTags { account, part: None, definitions }),
            false => AccountCommand::RemoveTags(RemoveTags { account, part: None, definitions }),
        })
    }

    fn tag_paying(&mut self, account: AccountId) -> Result<(), String> {
        let adds = !self.model.accounts[&account].is_paying_off;
        if self.tag(account, ControlTag::AutoPayOff, adds)? {
            self.kernel.count("tagged");
            self.model.accounts.entry(account).and_modify(|it| it.is_paying_off = adds);
        }
        Ok(())
    }

    fn tag_invoicing(&mut self, account: AccountId) -> Result<(), String> {
        let it = &self.model.accounts[&account];
        let adds = !it.is_invoicing_off;
        // Its first invoice gives an account its day.
        if it.cycle_day > 0 && self.tag(account, ControlTag::AutoInvoicingOff, adds)? {
            self.kernel.count("invoicing off");
            self.model.accounts.entry(account).and_modify(|it| it.is_invoicing_off = adds);
        }
        Ok(())
    }

    /// Somebody asks for an invoice. There is one only of a day that the account was not billed for.
    fn invoice(&mut self, account: AccountId) -> Result<(), String> {
        let now = self.kernel.now;
        self.model.settle(now);
        let it = &self.model.accounts[&account];
        if it.is_invoicing_off {
            return Ok(());
        }
        let is_billed =
            it.billed.run_for >= it.zone.day(now) && !self.model.may_be_billed_again(account, now);
        let invoice = InvoiceUntil { account, target: None };
        let done = self.submit(BillingCommand::InvoiceUntil(invoice).into())?;
        if !done.is_durable {
            return Ok(());
        }
        if is_billed {
            super::audit::gives_nothing(account, &done.entries)?;
        }
        if !done.entries.is_empty() {
            self.model.ran(account, now);
        }
        Ok(())
    }

    /// Another process takes the partition over. The one before goes on to run, and writes nothing any more.
    fn move_partition(&mut self, account: AccountId) -> Result<(), String> {
        if !self.moves {
            return Ok(());
        }
        let command = commands::grant(account, super::SEATS, 1, None, "for-nobody");
        let late = self.kernel.take_over(command);
        self.running.clear();
        self.kernel.count("moves");
        match late.is_committed {
            true => {
                let context = format!("{:?}", late.verdict);
                Err(format!("who does not own the partition any more writes nothing: {context}"))
            }
            false => Ok(()),
        }
    }
}

/// Cancels a subscription: at an instant, or at once and billed as the catalog's rules say.
fn cancel_at(of: OfAccount, at: Option<i64>) -> CancelSubscription {
    CancelSubscription {
        account: of.account,
        subscription: of.subscription,
        entitlement: None,
        billing: None,
        requested: at.map(|at| When::At(Timestamp(at))),
        bills_until_requested: at.is_some(),
    }
}
