//! Rows in memory that the tests of this crate run commands against, loaded as the engine does.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use uuid::Uuid;

use crate::billing::invoice::{InvoiceItem, ItemKind};
use crate::change::Image;
use crate::command::AccountCommand;
use crate::context::{GatewaySettings, RoutingSettings, Sequences, Settings, Stamp};
use crate::entitlement::plan_features::PlanFeatures;
use crate::payment::attempt::{AttemptState, PaymentAttempt};
use crate::payment::health::Health;
use crate::payment::{Actor, PaymentFile};
use crate::read::{
    AccountRead, BillingRead, EntitlementRead, PaymentRead, Read, TenantRead, UsageRead,
};
use crate::reply::{AccountReply, Reply};
use crate::rows::{Keyed as _, Part as _, Parts};
use crate::state::{BillingState, EntitlementState, Featured, State, UsageState};
use crate::{
    AccountId, Command, EXTERNAL_PAYMENT, Executed, InvoiceId, InvoiceItemId, PaymentId,
    PaymentMethodId, Rejection, Request, RequestId, Seq, SubscriptionId, TagDefinitionId, TenantNo,
    Timestamp, TransactionId, execute,
};

/// The tenant of all requests.
pub const TENANT: TenantNo = TenantNo(1);

/// Rows, and the time and place of the next command.
pub struct Rows {
    pub state: State,
    pub settings: Settings,
    pub health: Health,
    pub sequences: Sequences,
    pub seq: i64,
    pub now: i64,
    /// How far domain time is ahead of real time.
    pub ahead: i64,
    pub user: &'static str,
    pub reason: Option<&'static str>,
    /// All items of invoices.
    items: BTreeMap<InvoiceItemId, InvoiceItem>,
}

impl Rows {
    pub fn new() -> Self {
        let gateway = |settles_at_once| GatewaySettings {
            settles_at_once,
            needs_merchant_account: false,
            attaches_methods: false,
            action_timeout_us: None,
            timeout_us: 30 * Timestamp::SECOND_US,
            settle_after_us: 5 * Timestamp::SECOND_US,
        };
        let gateways = [(EXTERNAL_PAYMENT, true), ("remote", false), ("other", false)];
        let gateways =
            gateways.map(|(name, settles_at_once)| (name.to_owned(), gateway(settles_at_once)));
        let settings = Settings {
            gateways: gateways.into(),
            unknown_delays_us: vec![2 * Timestamp::SECOND_US, 60 * Timestamp::SECOND_US],
            pending_delays_us: vec![3600 * Timestamp::SECOND_US],
            reply_keep_us: 24 * 3600 * Timestamp::SECOND_US,
            transactions_per_payment_max: 6,
            routing: RoutingSettings::DEFAULT,
        };
        let sequences = Sequences { payment_number: 1, tenant_no: 2 };
        let now = 1_000 * Timestamp::SECOND_US;
        let state = State::default();
        let health = Health::default();
        let items = BTreeMap::new();
        let (seq, ahead, user, reason) = (1, 0, "u", None);
        Self { state, settings, health, sequences, seq, now, ahead, user, reason, items }
    }

    /// Makes an account.
    pub fn account(&mut self) -> AccountId {
        let create = AccountCommand::Create(Box::default());
        match self.run(Command::Account(create)).unwrap().reply {
            Some(Reply::Account(AccountReply::Created(id))) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Executes a command; where it is accepted, its changes are applied.
    pub fn run(&mut self, command: Command) -> Result<Executed, Rejection> {
        self.load(&command);
        let actor = Actor {
            user: self.user.to_owned(),
            created_by: "t".to_owned(),
            reason: self.reason.map(str::to_owned),
            comments: None,
            token: Uuid::nil(),
        };
        let id = (0x0192_0000_0000_7000_u128 << 64) | u128::from(self.seq.unsigned_abs());
        let id = RequestId(Uuid::from_u128(id));
        let request = Request { id, tenant: TENANT, actor, idempotency: None, command };
        let stamp = Stamp {
            now: Timestamp(self.now),
            real_now: Timestamp(self.now - self.ahead),
            seq: Seq(self.seq),
            settings: &self.settings,
            health: &self.health,
            sequences: self.sequences,
        };
        let executed = execute(&self.state, &request, stamp)?;
        self.seq += 1;
        let items = executed.done.changes.iter().filter_map(InvoiceItem::of);
        self.items.extend(items.map(|it| (it.id, it.clone())));
        self.sequences = executed.sequences;
        self.state.apply(TENANT, &executed.done.changes);
        Ok(executed)
    }

    /// The items of an invoice, in the order of their ids.
    pub fn items_of(&self, invoice: InvoiceId) -> Vec<&InvoiceItem> {
        self.items.values().filter(|it| it.invoice_id == invoice).collect()
    }

    /// The rows with more of them loaded.
    pub fn loaded(&self, reads: &BTreeSet<Read>) -> State {
        let mut state = self.state.clone();
        for read in reads {
            state.look_for(read);
            load_counted(&mut state, read);
            load_items(&mut state, &self.items, read);
        }
        load_unsettled(&mut state.billing, &self.items);
        load_featured(&mut state);
        state.look_for_of_subscriptions();
        state
    }

    fn load(&mut self, command: &Command) {
        let state = &mut self.state;
        state.billing.items_since.clear();
        state.billing.invoice_items.clear();
        command.reads(TENANT, &mut |read| {
            state.look_for(&read);
            load_counted(state, &read);
            load_items(state, &self.items, &read);
        });
        state.look_for_of_payments();
        state.look_for_by_rules();
        state.look_for_by_offers();
        load_unsettled(&mut state.billing, &self.items);
        load_featured(state);
        state.look_for_of_paid();
        state.look_for_of_subscriptions();
        state.look_for_of_plans();
        for it in state.payment.attempts.values().flatten() {
            state.payment.velocities.look_for((it.tenant, it.account_id));
        }
        let listed: Vec<_> = state.account.methods_listed.keys().copied().collect();
        for of in listed {
            state.account.methods_listed.insert(of, methods_of(state, of));
        }
        let to_choose: Vec<_> = state.account.methods_to_choose.keys().copied().collect();
        for of in to_choose {
            state.account.methods_to_choose.insert(of, methods_of(state, of));
        }
    }
}

/// Takes the steps of a script, which `|` separates; what the last one shows.
pub fn run_script(script: &str, mut step: impl FnMut(&str) -> String) -> String {
    script.split('|').fold(String::new(), |_, it| step(it.trim()))
}

/// Loads the items of an invoice, and those that they repair.
fn load_items(state: &mut State, all: &BTreeMap<InvoiceItemId, InvoiceItem>, read: &Read) {
    let Read::Billing(BillingRead::ItemsOf(no, account, invoice)) = *read else { return };
    let of = || all.values().filter(|it| it.invoice_id == invoice);
    let linked = of().filter_map(|it| it.linked).filter_map(|id| all.get(&id));
    let found = of().chain(linked).map(|it| (it.id, it.clone())).collect();
    state.billing.invoice_items.insert((no, account, invoice), found);
}

/// Loads the items that runs look at, and no others: those of each subscription that are not settled, all of
/// them where a day is looked at that is, and those for the days that an invoice which is looked for gave back.
fn load_unsettled(state: &mut BillingState, all: &BTreeMap<InvoiceItemId, InvoiceItem>) {
    state.items = Parts::default();
    let mut since: Vec<((TenantNo, SubscriptionId), Date)> = vec![];
    for account in state.subscriptions.owners() {
        for it in state.subscriptions.of(account).values() {
            state.items.look_for(it.key());
            since.push((it.key(), state.items_from(it)));
        }
    }
    let found = state.invoice_items.values().flat_map(BTreeMap::values);
    let repairs = found.filter(|it| it.kind == ItemKind::RepairAdj);
    since.extend(repairs.map(|it| (it.owner(), it.start)));
    for item in all.values().filter(|it| !it.voided) {
        if since.iter().any(|(of, day)| item.owner() == *of && item.last_day >= *day) {
            state.items.put(item.clone());
        }
    }
}

/// Loads whether tenants have features of plans.
fn load_featured(state: &mut State) {
    let EntitlementState { featured, plan_features, .. } = &mut state.entitlement;
    for (tenant, it) in featured {
        let own = || plan_features.iter().filter(|it| it.tenant == *tenant);
        let on_payment = own().any(PlanFeatures::waits_for_payment);
        *it = Featured { any: own().next().is_some(), on_payment };
    }
}

/// Loads what is counted of the rows that are there.
fn load_counted(state: &mut State, read: &Read) {
    match *read {
        Read::Tenant(TenantRead::PaymentRules(tenant))
        | Read::Payment(PaymentRead::Rules(tenant, _)) => load_rules(state, tenant),
        Read::Account(AccountRead::TagDefinitionUse(no, id)) => load_tag_use(state, (no, id)),
        Read::Payment(PaymentRead::Transaction(no, id)) => load_transaction(state, (no, id)),
        Read::Payment(PaymentRead::ScheduledAttempts(no, id)) => load_scheduled(state, (no, id)),
        Read::Payment(PaymentRead::DisputeCount(no, id)) => count_disputes(state, (no, id)),
        Read::Entitlement(EntitlementRead::Usage(UsageRead::Reservation(no, account, id))) => {
            let UsageState { counts, reservations, .. } = &mut state.entitlement.usage;
            if let Some(it) = reservations.get(&(no, account, id)) {
                counts.entry((no, account, it.feature.clone())).or_default();
            }
        }
        Read::Tenant(_)
        | Read::Access(_)
        | Read::Flag(_)
        | Read::Account(_)
        | Read::Customer(_)
        | Read::Payment(_)
        | Read::Entitlement(_)
        | Read::Billing(_)
        | Read::Claim(_)
        | Read::Timer(..) => {}
    }
}

fn load_transaction(state: &mut State, (tenant, id): (TenantNo, TransactionId)) {
    let has_it = |file: &&PaymentFile| file.transaction(id).is_some();
    let found = state.payment.payments.iter().find(has_it);
    let payment = found.map(|file| file.payment.id);
    state.payment.transactions.insert((tenant, id), payment);
}

fn load_tag_use(state: &mut State, of: (TenantNo, TagDefinitionId)) {
    let own = crate::account::tag::DefinitionRef::Own(of.1);
    let mut active = state.account.tags.iter().filter(|it| it.active);
    let is_used = active.any(|it| it.key.definition == own);
    state.account.tag_definition_uses.insert(of, is_used);
}

/// The rules that an earlier batch changed hold from now on.
fn load_rules(state: &mut State, tenant: TenantNo) {
    if let Some(changed) = state.tenant.changed_payment_rules.remove(&tenant) {
        state.tenant.payment_rules.put(changed);
    }
}

fn count_disputes(state: &mut State, of: (TenantNo, PaymentId)) {
    let all = state.payment.disputes.iter();
    let count = all.filter(|it| (it.tenant, it.payment_id) == of).count();
    state.payment.dispute_counts.insert(of, count);
}

fn methods_of(state: &State, of: (TenantNo, AccountId)) -> BTreeSet<PaymentMethodId> {
    let methods = state.account.payment_methods.iter();
    methods.filter(|it| (it.tenant, it.account_id) == of).map(|it| it.id).collect()
}

fn load_scheduled(state: &mut State, of: (TenantNo, AccountId)) {
    let all = state.payment.attempts.values().flatten();
    let own = all.filter(|it| (it.tenant, it.account_id) == of);
    let mut found: Vec<PaymentAttempt> =
        own.filter(|it| it.state == AttemptState::Scheduled).cloned().collect();
    found.sort_by_key(|it| it.due_at);
    state.payment.scheduled_attempts.insert(of, found);
}
