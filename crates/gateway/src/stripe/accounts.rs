//! Tenants' configurations of the gateway, read when they are needed and remembered for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::MerchantAccount;
use domain::TenantNo;
use domain::tenant::PLUGIN_CONFIGURATION;
use engine::ports::{Queries, StoreError};
use secrets::{Purpose, Sealer};
use tokio::time::Instant;
use uuid::Uuid;

use super::configuration::Configuration;
use crate::tenants::Tenants;

/// How long a configuration is remembered: another process may store a new one.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);

/// How many are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// A tenant's account at Stripe.
pub struct Account {
    pub(super) configuration: Configuration,
    pub(super) merchant_account: MerchantAccount,
}

impl Account {
    /// The account that the key is of.
    #[must_use]
    pub const fn merchant_account(&self) -> &MerchantAccount {
        &self.merchant_account
    }
}

/// An account as the database has it.
pub(super) struct Stored {
    merchant_account: MerchantAccount,
    sealed: String,
}

impl Stored {
    /// The account of a tenant's configuration of the gateway `name`.
    pub(super) fn read(
        queries: &dyn Queries,
        tenant: TenantNo,
        name: &str,
    ) -> Result<Option<Self>, StoreError> {
        // Written in one commit, and read one after the other: the key of one account must not be taken for
        // another's.
        let before = queries.payment_rules(tenant)?;
        let value = queries.tenant_value(tenant, &key_of(name))?;
        let after = queries.payment_rules(tenant)?;
        let is_same = before.as_ref().map(|it| it.revision) == after.map(|it| it.revision);
        let account = before.filter(|_| is_same);
        let account = account.and_then(|mut it| it.merchant_accounts.remove(name));
        let sealed = value.and_then(|it| it.value);
        Ok(account.zip(sealed).map(|(merchant_account, sealed)| Self { merchant_account, sealed }))
    }

    /// Opens it; `id` is the tenant's.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn open(self, sealer: &Sealer, (id, name): (Uuid, &str)) -> Result<Account, String> {
        let text = sealer
            .open_named(Purpose::PluginConfiguration, (id, &key_of(name)), &self.sealed)
            .map_err(|_| "the configuration was encrypted with another key".to_owned())?;
        let configuration = Configuration::parse(&text)?;
        Ok(Account { configuration, merchant_account: self.merchant_account })
    }
}

/// The tenant's value that has the configuration of the gateway `name`.
fn key_of(name: &str) -> String {
    format!("{PLUGIN_CONFIGURATION}{name}")
}

/// The accounts of all tenants.
pub(super) struct Accounts {
    tenants: Arc<Tenants>,
    /// `None`: nothing sealed can be stored.
    sealer: Option<Arc<Sealer>>,
    /// The gateway's name, under which the configurations are stored.
    name: String,
    remembered: Mutex<HashMap<TenantNo, Remembered>>,
}

struct Remembered {
    account: Arc<Account>,
    at: Instant,
    generation: i64,
}

impl Accounts {
    pub(super) fn new(tenants: Arc<Tenants>, sealer: Option<Arc<Sealer>>, name: String) -> Self {
        Self { tenants, sealer, name, remembered: Mutex::default() }
    }

    /// The gateway's name.
    pub(super) fn gateway(&self) -> &str {
        &self.name
    }

    /// The account of a tenant.
    ///
    /// # Errors
    /// Why there is none now.
    pub(super) async fn of(&self, tenant: TenantNo) -> Result<Arc<Account>, String> {
        let generation = self.tenants.generation().await.ok_or("the server is starting")?;
        let fresh =
            |it: &&Remembered| it.generation == generation && it.at.elapsed() < REMEMBERED_FOR;
        let remembered = self.lock().get(&tenant).filter(fresh).map(|it| Arc::clone(&it.account));
        if let Some(account) = remembered {
            return Ok(account);
        }
        let account = Arc::new(self.read(tenant).await?);
        let mut all = self.lock();
        if all.len() >= REMEMBERED_MAX {
            all.clear();
        }
        let (at, remembered) = (Instant::now(), Arc::clone(&account));
        all.insert(tenant, Remembered { account: remembered, at, generation });
        Ok(account)
    }

    async fn read(&self, tenant: TenantNo) -> Result<Account, String> {
        let name = self.name.clone();
        let stored = self.tenants.read(move |queries| Stored::read(queries, tenant, &name)).await?;
        let missing = || format!("the tenant has no configuration of {}", self.name);
        let stored = stored.ok_or_else(missing)?;
        let sealer = self.sealer.as_ref().ok_or("there is no key to decrypt configurations")?;
        stored.open(sealer, (self.tenants.id(tenant).await?, &self.name))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantNo, Remembered>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
