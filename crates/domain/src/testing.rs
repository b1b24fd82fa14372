//! Rows in memory that the tests of this crate run commands against, loaded as the engine does.

use std::collections::BTreeSet;
use std::convert::Infallible;

use uuid::Uuid;

use crate::command::AccountCommand;
use crate::context::{GatewaySettings, RoutingSettings, Sequences, Settings, Stamp};
use crate::entity::Entity;
use crate::object::Object;
use crate::payment::attempt::{AttemptState, PaymentAttempt};
use crate::payment::health::Health;
use crate::payment::{Actor, PaymentFile};
use crate::read::{
    AccountRead, CustomerRead, EntitlementRead, PaymentRead, Read, TenantRead, UsageRead,
};
use crate::reply::{AccountReply, Reply};
use crate::rows::{Part, Parts};
use crate::source::Source;
use crate::state::{State, UsageState};
use crate::{
    AccountId, Command, EXTERNAL_PAYMENT, Executed, PaymentId, PaymentMethodId, Rejection, Request,
    RequestId, Seq, TagDefinitionId, TenantNo, Timestamp, TransactionId, execute,
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
        Self { state, settings, health, sequences, seq: 1, now, ahead: 0, user: "u", reason: None }
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
        self.sequences = executed.sequences;
        self.state.apply(TENANT, &executed.done.changes);
        Ok(executed)
    }

    /// Rows that are not there are loaded as absent.
    fn load(&mut self, command: &Command) {
        let state = &mut self.state;
        command.reads(TENANT, &mut |read| match read {
            Read::Tenant(it) => look_for_tenant(state, it),
            Read::Access(it) => state.access.load([&it], &Nothing).unwrap(),
            Read::Flag(it) => state.flag.load([&it], &Nothing).unwrap(),
            Read::Account(it) => look_for_account(state, it),
            Read::Customer(it) => look_for_customer(state, it),
            Read::Payment(it) => look_for_payment(state, it),
            Read::Entitlement(it) => look_for_entitlement(state, it),
            Read::Claim(key) => drop(state.claims.entry(key).or_default()),
            Read::Timer(tenant, key) => state.timers.look_for((tenant, key)),
        });
    }
}

/// Has no row.
struct Nothing;

impl Source for Nothing {
    type Error = Infallible;

    fn rows<T: Entity>(
        &self,
        keys: Vec<T::Key>,
        loaded: &mut crate::rows::Rows<T>,
    ) -> Result<(), Infallible> {
        keys.into_iter().for_each(|key| loaded.look_for(key));
        Ok(())
    }

    fn parts<T: Entity + Part>(
        &self,
        owners: Vec<T::Owner>,
        loaded: &mut Parts<T>,
    ) -> Result<(), Infallible> {
        owners.into_iter().for_each(|owner| loaded.look_for(owner));
        Ok(())
    }
}

fn look_for_tenant(state: &mut State, read: TenantRead) {
    match read {
        TenantRead::Row(row) => state.tenant.load([&row], &Nothing).unwrap(),
        TenantRead::PaymentRules(tenant) => load_rules(state, tenant),
        TenantRead::ValuesBytes(no) => drop(state.tenant.values_bytes.entry(no).or_default()),
    }
}

fn look_for_account(state: &mut State, read: AccountRead) {
    match read {
        AccountRead::Account(tenant, id) => state.account.accounts.look_for((tenant, id)),
        AccountRead::PaymentMethod(no, id) => state.account.payment_methods.look_for((no, id)),
        AccountRead::PaymentMethods(tenant, account) => list_methods(state, (tenant, account)),
        AccountRead::TagDefinitionUse(tenant, id) => load_tag_use(state, (tenant, id)),
        AccountRead::Row(row) => state.account.load([&row], &Nothing).unwrap(),
    }
}

fn look_for_customer(state: &mut State, read: CustomerRead) {
    match read {
        CustomerRead::Customer(tenant, id) => state.customer.customers.look_for((tenant, id)),
        CustomerRead::Operation(no, id) => state.customer.operations.look_for((no, id)),
    }
}

fn look_for_payment(state: &mut State, read: PaymentRead) {
    match read {
        PaymentRead::Payment(tenant, id) => state.payment.payments.look_for((tenant, id)),
        PaymentRead::Transaction(tenant, id) => load_transaction(state, (tenant, id)),
        PaymentRead::Attempts(tenant, id) => {
            state.payment.attempts.entry((tenant, id)).or_default();
        }
        PaymentRead::Velocity(no, id) => state.payment.velocities.look_for((no, id)),
        PaymentRead::ScheduledAttempts(tenant, id) => load_scheduled(state, (tenant, id)),
        PaymentRead::Rules(tenant, account) => {
            load_for_payment(state, (tenant, account));
        }
        PaymentRead::Dispute(tenant, case) => state.payment.disputes.look_for((tenant, case)),
        PaymentRead::DisputeCount(tenant, payment) => count_disputes(state, (tenant, payment)),
    }
}

fn look_for_entitlement(state: &mut State, read: EntitlementRead) {
    match read {
        EntitlementRead::Feature(tenant, key) => state.entitlement.features.look_for((tenant, key)),
        EntitlementRead::Offer(tenant, key) => state.entitlement.offers.look_for((tenant, key)),
        EntitlementRead::OfferForAccount(tenant, key, account) => {
            load_offer(state, (tenant, key), account);
        }
        EntitlementRead::NewcomersOffer(no) => {
            state.entitlement.newcomers_offers.entry(no).or_default();
        }
        EntitlementRead::CatalogSize(no) => {
            state.entitlement.catalog_sizes.entry(no).or_default();
        }
        EntitlementRead::Entitlements(no, account) => {
            state.entitlement.entitlements.look_for((no, account))
        }
        EntitlementRead::Users(no, id) => {
            state.entitlement.account_users.entry((no, id)).or_default();
        }
        EntitlementRead::Usage(read) => load_usage(state, read),
    }
}

fn load_usage(state: &mut State, read: UsageRead) {
    match read {
        UsageRead::Feature(tenant, account, feature) => {
            state.entitlement.usage.counts.entry((tenant, account, feature)).or_default();
        }
        UsageRead::Reserved(tenant, account) => {
            state.entitlement.usage.reserved.insert((tenant, account));
        }
        UsageRead::Event(tenant, account, key) => {
            state.entitlement.usage.events.look_for((tenant, account, key));
        }
        UsageRead::Reservation(tenant, account, id) => {
            let UsageState { counts, reservations, .. } = &mut state.entitlement.usage;
            reservations.look_for((tenant, account, id));
            if let Some(it) = reservations.get(&(tenant, account, id)) {
                counts.entry((tenant, account, it.feature.clone())).or_default();
            }
        }
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
    state.tenant.payment_rules.look_for(tenant);
    if let Some(changed) = state.tenant.changed_payment_rules.remove(&tenant) {
        state.tenant.payment_rules.put(changed);
    }
}

fn count_disputes(state: &mut State, of: (TenantNo, PaymentId)) {
    let all = state.payment.disputes.iter();
    let count = all.filter(|it| (it.tenant, it.payment_id) == of).count();
    state.payment.dispute_counts.insert(of, count);
}

/// An offer comes with its features, and with the tags of an account that it is for.
fn load_offer(state: &mut State, offer: (TenantNo, String), account: AccountId) {
    let tenant = offer.0;
    state.entitlement.offers.look_for(offer.clone());
    let terms = state.entitlement.offers.find(&offer).map(|it| it.terms.clone());
    for key in terms.iter().flat_map(|it| it.features.keys()) {
        state.entitlement.features.look_for((tenant, key.clone()));
    }
    for definition in terms.iter().flat_map(|it| &it.buyers.tags) {
        let key = crate::account::tag::TagKey::new(account, Object::Account(account), *definition);
        state.account.tags.look_for((tenant, key));
    }
}

fn load_for_payment(state: &mut State, of: (TenantNo, AccountId)) {
    load_rules(state, of.0);
    state.payment.velocities.look_for(of);
    state.account.methods_to_choose.insert(of, methods_of(state, of));
    let rules = state.tenant.payment_rules.find(&of.0).and_then(|it| it.routing.as_ref());
    for definition in rules.into_iter().flat_map(crate::tenant::routing_rules::RoutingRules::tags) {
        let key = crate::account::tag::TagKey::new(of.1, Object::Account(of.1), definition);
        state.account.tags.look_for((of.0, key));
    }
    state.account.custom_fields.look_for((of.0, Object::Account(of.1)));
}

fn list_methods(state: &mut State, of: (TenantNo, AccountId)) {
    let ids = methods_of(state, of);
    state.account.methods_listed.insert(of, ids);
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
