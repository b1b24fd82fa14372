//! Loads what control of payments looks at: tenants' rules, attempts and velocities.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use domain::object::Object;
use domain::payment_rules::METHODS_MAX;
use domain::read::{METHODS_LISTED_MAX, SCHEDULED_MAX};
use domain::state::State;
use domain::tag::TagKey;
use domain::{AccountId, PaymentId, PaymentMethodId, TenantNo};
use engine::ports::StoreError;

use super::values;
use crate::driver::Reader;
use crate::rows;
use crate::stored;
use crate::tables::PAYMENT_ATTEMPT;

/// The attempts of a payment that have a transaction, by the payment's index alone.
pub(crate) const ATTEMPTS_WITH_TRANSACTION: &str =
    "WHERE payment_id = ?2 AND tenant + 0 = ?1 AND transaction_id IS NOT NULL";

/// The newest methods of an account: ids are in the order in which they are minted. Imported ones are in none.
const NEWEST_METHODS: &str = "SELECT id FROM payment_method \
     WHERE tenant = ?1 AND account_id = ?2 AND active = 1 ORDER BY id DESC LIMIT ?3";

static SELECT_ATTEMPTS: LazyLock<String> =
    LazyLock::new(|| PAYMENT_ATTEMPT.select(ATTEMPTS_WITH_TRANSACTION));
static SELECT_SCHEDULED: LazyLock<String> = LazyLock::new(|| {
    PAYMENT_ATTEMPT.select(
        "WHERE tenant = ?1 AND account_id = ?2 AND due_at_us IS NOT NULL \
         ORDER BY due_at_us, id LIMIT ?3",
    )
});

/// Keys of rows of tenants.
type Keys<T> = Vec<(TenantNo, T)>;

/// The keys of payment control that a batch loads.
#[derive(Default)]
pub(super) struct ControlPlan {
    rules: BTreeSet<TenantNo>,
    /// Accounts of payments that start: the tenant's rules say what is wanted of them.
    started: Vec<(TenantNo, AccountId)>,
    velocities: BTreeSet<(TenantNo, AccountId)>,
    attempts: Vec<(TenantNo, PaymentId)>,
    /// Accounts whose newest methods are wanted.
    listed: Vec<(TenantNo, AccountId)>,
    /// Accounts whose scheduled attempts are wanted.
    scheduled: Vec<(TenantNo, AccountId)>,
}

impl ControlPlan {
    pub(super) fn add_rules(&mut self, tenant: TenantNo) {
        self.rules.insert(tenant);
    }

    pub(super) fn add_start(&mut self, tenant: TenantNo, account: AccountId) {
        self.rules.insert(tenant);
        self.started.push((tenant, account));
    }

    pub(super) fn add_methods(&mut self, tenant: TenantNo, account: AccountId) {
        self.listed.push((tenant, account));
    }

    pub(super) fn add_velocity(&mut self, tenant: TenantNo, account: AccountId) {
        self.velocities.insert((tenant, account));
    }

    pub(super) fn add_attempts(&mut self, tenant: TenantNo, payment: PaymentId) {
        self.attempts.push((tenant, payment));
    }

    pub(super) fn add_scheduled(&mut self, tenant: TenantNo, account: AccountId) {
        self.scheduled.push((tenant, account));
    }

    /// Loads the rules, which say what else is looked at: velocities, methods to choose from, and the tags and
    /// fields that payments are routed by.
    pub(super) fn load_rules(
        &mut self,
        reader: &Reader,
        methods: &mut BTreeSet<(TenantNo, PaymentMethodId)>,
        (tags, fields): (&mut Keys<TagKey>, &mut Keys<Object>),
        state: &mut State,
    ) -> Result<(), StoreError> {
        let rules = std::mem::take(&mut self.rules);
        stored::PAYMENT_RULES.load(reader, rules, &mut state.tenant.payment_rules)?;
        for &(tenant, account) in &self.started {
            let rules = state.tenant.payment_rules.find(&tenant);
            if let Some(routing) = rules.and_then(|it| it.routing.as_ref()) {
                let object = Object::Account(account);
                let key = |definition| (tenant, TagKey::new(account, object, definition));
                tags.extend(routing.tags().map(key));
                fields.extend(routing.has_fields().then_some((tenant, object)));
            }
            let Some(limits) = rules.and_then(|it| it.limits.as_ref()) else { continue };
            if limits.every_payment {
                self.velocities.insert((tenant, account));
            }
            if !limits.method_gateways.is_empty() {
                let most = i64::try_from(METHODS_MAX).unwrap_or(i64::MAX);
                let ids = newest_methods(reader, (tenant, account), most)?;
                methods.extend(ids.iter().map(|id| (tenant, *id)));
                state.account.methods_to_choose.insert((tenant, account), ids);
            }
        }
        for &(tenant, account) in &self.listed {
            let ids = newest_methods(reader, (tenant, account), METHODS_LISTED_MAX.into())?;
            methods.extend(ids.iter().map(|id| (tenant, *id)));
            state.account.methods_listed.insert((tenant, account), ids);
        }
        Ok(())
    }

    /// Loads what the rules do not say.
    pub(super) fn load(mut self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        for &(tenant, account) in &self.scheduled {
            let key = [tenant.into(), account.into(), i64::from(SCHEDULED_MAX).into()];
            let found = reader.query(&SELECT_SCHEDULED, &key, rows::payment_attempt)?;
            state.payment.scheduled_attempts.insert((tenant, account), found);
        }
        state.payment.attempts.extend(self.attempts.iter().map(|key| (*key, vec![])));
        reader.for_keys(&SELECT_ATTEMPTS, &values(&self.attempts), |at, cells| {
            let it = rows::payment_attempt(cells)?;
            self.velocities.insert((it.tenant, it.account_id));
            state.payment.attempts.entry(self.attempts[at]).or_default().push(it);
            Ok(())
        })?;
        stored::VELOCITIES.load(reader, self.velocities, &mut state.payment.velocities)
    }
}

fn newest_methods(
    reader: &Reader,
    (tenant, account): (TenantNo, AccountId),
    most: i64,
) -> Result<BTreeSet<PaymentMethodId>, StoreError> {
    let key = [tenant.into(), account.into(), most.into()];
    let ids = reader.query(NEWEST_METHODS, &key, |cells| cells.entity())?;
    Ok(ids.into_iter().collect())
}
