//! What the tests of this crate run commands against: rows in memory, loaded as the engine does.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::command::AccountCommand;
use crate::context::{GatewaySettings, RoutingSettings, Sequences, Settings, Stamp};
use crate::health::Health;
use crate::object::Object;
use crate::payment::{Actor, PaymentFile};
use crate::payment_attempt::{AttemptState, PaymentAttempt};
use crate::read::{Read, UsageRead};
use crate::reply::{AccountReply, Reply};
use crate::state::State;
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
            Read::Account(tenant, id) => drop(state.accounts.entry((tenant, id)).or_default()),
            Read::PaymentMethod(tenant, id) => {
                state.payment_methods.entry((tenant, id)).or_default();
            }
            Read::PaymentMethods(tenant, account) => list_methods(state, (tenant, account)),
            Read::Payment(tenant, id) => drop(state.payments.entry((tenant, id)).or_default()),
            Read::Transaction(tenant, id) => load_transaction(state, (tenant, id)),
            Read::Tag(tenant, key) => drop(state.tags.entry((tenant, key)).or_default()),
            Read::AccountEmails(no, id) => drop(state.account_emails.entry((no, id)).or_default()),
            Read::BlockingStates(tenant, id) => {
                state.blocking_states.entry((tenant, id)).or_default();
            }
            Read::TagDefinition(tenant, id) => {
                state.tag_definitions.entry((tenant, id)).or_default();
            }
            Read::TagDefinitionUse(tenant, id) => load_tag_use(state, (tenant, id)),
            Read::CustomFields(tenant, object) => {
                state.custom_fields.entry((tenant, object)).or_default();
            }
            Read::PaymentAttempts(tenant, id) => {
                state.payment_attempts.entry((tenant, id)).or_default();
            }
            Read::PaymentVelocity(tenant, id) => {
                state.payment_velocities.entry((tenant, id)).or_default();
            }
            Read::ScheduledAttempts(tenant, id) => load_scheduled(state, (tenant, id)),
            Read::PaymentRules(tenant) => load_rules(state, tenant),
            Read::RulesForPayment(tenant, account) => {
                load_for_payment(state, (tenant, account));
            }
            Read::Claim(key) => drop(state.claims.entry(key).or_default()),
            Read::Tenant(no) => drop(state.tenants.entry(no).or_default()),
            Read::TenantValue(tenant, key) => {
                state.tenant_values.entry((tenant, key)).or_default();
            }
            Read::TenantValuesBytes(no) => drop(state.tenant_values_bytes.entry(no).or_default()),
            Read::User(name) => drop(state.users.entry(name).or_default()),
            Read::Role(name) => drop(state.roles.entry(name).or_default()),
            Read::Environment(tenant, id) => {
                state.environments.entry((tenant, id)).or_default();
            }
            Read::Secret(tenant, id) => drop(state.secrets.entry((tenant, id)).or_default()),
            Read::Definition(tenant, key) => {
                state.definitions.entry((tenant, key)).or_default();
            }
            Read::ChangeRequest(tenant, id) => {
                state.change_requests.entry((tenant, id)).or_default();
            }
            Read::Customer(tenant, id) => drop(state.customers.entry((tenant, id)).or_default()),
            Read::Operation(tenant, id) => {
                state.operations.entry((tenant, id)).or_default();
            }
            Read::Dispute(tenant, case) => drop(state.disputes.entry((tenant, case)).or_default()),
            Read::DisputeCount(tenant, payment) => count_disputes(state, (tenant, payment)),
            Read::Feature(tenant, key) => drop(state.features.entry((tenant, key)).or_default()),
            Read::Offer(tenant, key) => drop(state.offers.entry((tenant, key)).or_default()),
            Read::OfferForAccount(tenant, key, account) => {
                load_offer(state, (tenant, key), account);
            }
            Read::NewcomersOffer(no) => drop(state.newcomers_offers.entry(no).or_default()),
            Read::CatalogSize(tenant) => drop(state.catalog_sizes.entry(tenant).or_default()),
            Read::Entitlements(tenant, account) => {
                state.entitlements.entry((tenant, account)).or_default();
            }
            Read::AccountUsers(no, id) => drop(state.account_users.entry((no, id)).or_default()),
            Read::Usage(read) => load_usage(state, read),
            Read::Timer(tenant, key) => drop(state.timers.entry((tenant, key)).or_default()),
        });
    }
}

fn load_usage(state: &mut State, read: UsageRead) {
    match read {
        UsageRead::Feature(tenant, account, feature) => {
            state.usage.entry((tenant, account, feature)).or_default();
        }
        UsageRead::Reserved(tenant, account) => {
            state.reserved_usage.insert((tenant, account));
        }
        UsageRead::Event(tenant, account, key) => {
            state.usage_events.entry((tenant, account, key)).or_default();
        }
        UsageRead::Reservation(tenant, account, id) => {
            if let Some(it) = state.reservations.entry((tenant, account, id)).or_default() {
                let key = (tenant, account, it.feature.clone());
                state.usage.entry(key).or_default();
            }
        }
    }
}

fn load_transaction(state: &mut State, (tenant, id): (TenantNo, TransactionId)) {
    let has_it = |file: &&PaymentFile| file.transaction(id).is_some();
    let found = state.payments.values().flatten().find(has_it);
    let payment = found.map(|file| file.payment.id);
    state.transactions.insert((tenant, id), payment);
}

fn load_tag_use(state: &mut State, of: (TenantNo, TagDefinitionId)) {
    let own = crate::tag::DefinitionRef::Own(of.1);
    let mut active = state.tags.values().flatten().filter(|it| it.active);
    let is_used = active.any(|it| it.key.definition == own);
    state.tag_definition_uses.insert(of, is_used);
}

/// What an earlier batch changed holds now.
fn load_rules(state: &mut State, tenant: TenantNo) {
    let changed = state.changed_payment_rules.remove(&tenant);
    let known = state.payment_rules.entry(tenant).or_default();
    *known = changed.or(known.take());
}

fn count_disputes(state: &mut State, of: (TenantNo, PaymentId)) {
    let all = state.disputes.values().flatten();
    let count = all.filter(|it| (it.tenant, it.payment_id) == of).count();
    state.dispute_counts.insert(of, count);
}

/// An offer comes with its features, and with the tags of an account that it is for.
fn load_offer(state: &mut State, offer: (TenantNo, String), account: AccountId) {
    let tenant = offer.0;
    let terms = state.offers.entry(offer).or_default().as_ref().map(|it| it.terms.clone());
    for key in terms.iter().flat_map(|it| it.features.keys()) {
        state.features.entry((tenant, key.clone())).or_default();
    }
    for definition in terms.iter().flat_map(|it| &it.buyers.tags) {
        let key = crate::tag::TagKey::new(account, Object::Account(account), *definition);
        state.tags.entry((tenant, key)).or_default();
    }
}

fn load_for_payment(state: &mut State, of: (TenantNo, AccountId)) {
    load_rules(state, of.0);
    state.payment_velocities.entry(of).or_default();
    state.methods_to_choose.insert(of, methods_of(state, of));
    let rules = state.payment_rules[&of.0].as_ref().and_then(|it| it.routing.as_ref());
    for definition in rules.into_iter().flat_map(crate::routing_rules::RoutingRules::tags) {
        let key = crate::tag::TagKey::new(of.1, Object::Account(of.1), definition);
        state.tags.entry((of.0, key)).or_default();
    }
    state.custom_fields.entry((of.0, Object::Account(of.1))).or_default();
}

fn list_methods(state: &mut State, of: (TenantNo, AccountId)) {
    let ids = methods_of(state, of);
    state.methods_listed.insert(of, ids);
}

fn methods_of(state: &State, of: (TenantNo, AccountId)) -> BTreeSet<PaymentMethodId> {
    let methods = state.payment_methods.values().flatten();
    methods.filter(|it| (it.tenant, it.account_id) == of).map(|it| it.id).collect()
}

fn load_scheduled(state: &mut State, of: (TenantNo, AccountId)) {
    let all = state.payment_attempts.values().flatten();
    let own = all.filter(|it| (it.tenant, it.account_id) == of);
    let mut found: Vec<PaymentAttempt> =
        own.filter(|it| it.state == AttemptState::Scheduled).cloned().collect();
    found.sort_by_key(|it| it.due_at);
    state.scheduled_attempts.insert(of, found);
}
