//! Tenants: who shares this installation, and the values that each of them stores.

pub mod catalog;
pub(crate) mod change;
pub(crate) mod command;
mod lookup;
pub mod payment_rules;
pub(crate) mod read;
pub mod routing_rules;
pub(crate) mod rules;
pub mod webhook;

use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::tenant::payment_rules::{ControlPlugin, RulesPart};
use crate::tenant::routing_rules::ROUTER;
use crate::{Revision, TenantId, TenantNo, TenantValueId, Timestamp};

/// The key under which a tenant's push callback is stored (Kill Bill's name for it).
pub const PUSH_CALLBACK: &str = "PUSH_NOTIFICATION_CB";

/// The key under which a tenant's templates for mails are stored.
pub const MAIL_TEMPLATES: &str = "MAIL_TEMPLATES";

/// The key under which a tenant allows keys that are numbers, by [`NUMERIC_KEYS_ALLOWED`]: see
/// [`crate::card_data::NumericKeys`].
pub const NUMERIC_KEYS: &str = "NUMERIC_KEYS";

/// The value of [`NUMERIC_KEYS`] that allows them.
pub const NUMERIC_KEYS_ALLOWED: &str = "allowed";

/// The key under which it is stored how long a program may hold what an account may do: a number of seconds.
pub const ENTITLEMENTS_HELD: &str = "ENTITLEMENTS_HELD";

/// How many seconds that is: by default, at least, and at most.
pub const ENTITLEMENTS_HELD_S_DEFAULT: i64 = 24 * 3600;
pub const ENTITLEMENTS_HELD_S_MIN: i64 = 60;
pub const ENTITLEMENTS_HELD_S_MAX: i64 = 30 * 24 * 3600;

/// The key under which the installation stores the latest request to drop what is remembered of credentials:
/// each process that remembers them follows the revisions of values.
pub const CREDENTIALS_DROPPED: &str = "CREDENTIALS_DROPPED";

/// The key under which a tenant's settings are stored, as a JSON object (Kill Bill's name for it).
pub const SETTINGS: &str = "PER_TENANT_CONFIG";

/// The setting by which a tenant takes only currencies that Kill Bill's clients can read: [`KILLBILL_CURRENCIES_THEIRS`].
pub const KILLBILL_CURRENCIES: &str = "killbill.currencies";
/// The values of [`KILLBILL_CURRENCIES`]: every currency (the default), and those that Kill Bill has.
pub const KILLBILL_CURRENCIES_ALL: &str = "all";
pub const KILLBILL_CURRENCIES_THEIRS: &str = "theirs";

/// The prefix of the key under which the configuration of a plugin is stored, sealed by the API (Kill Bill's name for
/// it). The plugin's name follows.
pub const PLUGIN_CONFIGURATION: &str = "PLUGIN_CONFIG_";

/// The prefix of the key under which the payment state machine of a plugin is stored (Kill Bill's name for it).
pub const PAYMENT_STATE_MACHINE: &str = "PLUGIN_PAYMENT_STATE_MACHINE_";

/// The key under which the versions of a tenant's catalog are stored, in XML (Kill Bill's name for it).
pub const CATALOG: &str = "CATALOG";

/// The key under which a tenant's webhook endpoints are stored, sealed.
pub const WEBHOOK_ENDPOINTS: &str = "WEBHOOK_ENDPOINTS";

/// The prefix of the key under which it is stored which endpoint for a gateway's notifications holds, once one was
/// withdrawn; the gateway's name follows.
pub const NOTIFICATION_ENDPOINT: &str = "NOTIFICATION_ENDPOINT_";

/// A key that Kill Bill keeps for itself, and that no command of this version stores (its `TenantKV.TenantKey`).
pub const OVERDUE_CONFIG: &str = "OVERDUE_CONFIG";

/// The prefixes of other keys of Kill Bill: a locale or the name of a plugin follows. No command stores them.
pub const CATALOG_TRANSLATION: &str = "CATALOG_TRANSLATION_";
pub const INVOICE_MP_TEMPLATE: &str = "INVOICE_MP_TEMPLATE_";
pub const INVOICE_TEMPLATE: &str = "INVOICE_TEMPLATE_";
pub const INVOICE_TRANSLATION: &str = "INVOICE_TRANSLATION_";

const KEY_PREFIXES_OF_KILL_BILL: [&str; 4] =
    [CATALOG_TRANSLATION, INVOICE_MP_TEMPLATE, INVOICE_TEMPLATE, INVOICE_TRANSLATION];

/// How long a program may hold what an account may do, in microseconds, by the value of [`ENTITLEMENTS_HELD`].
#[must_use]
pub fn entitlements_held_us(value: Option<&str>) -> i64 {
    let seconds = value.and_then(|it| it.parse().ok()).unwrap_or(ENTITLEMENTS_HELD_S_DEFAULT);
    seconds.clamp(ENTITLEMENTS_HELD_S_MIN, ENTITLEMENTS_HELD_S_MAX) * Timestamp::SECOND_US
}

/// Whether the key means something here or in Kill Bill, so that a client cannot store what it likes there.
#[must_use]
pub fn is_reserved_key(key: &str) -> bool {
    const KEYS: [&str; 8] = [
        PUSH_CALLBACK,
        MAIL_TEMPLATES,
        NUMERIC_KEYS,
        ENTITLEMENTS_HELD,
        SETTINGS,
        CATALOG,
        WEBHOOK_ENDPOINTS,
        OVERDUE_CONFIG,
    ];
    KEYS.contains(&key)
        || [PLUGIN_CONFIGURATION, PAYMENT_STATE_MACHINE, NOTIFICATION_ENDPOINT]
            .iter()
            .any(|it| key.starts_with(it))
        || KEY_PREFIXES_OF_KILL_BILL.iter().any(|it| key.starts_with(it))
}

/// The stored values that have a part of the tenant's payment rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesSource<'a> {
    /// The tenant's settings.
    Settings,
    /// The configuration of [`ControlPlugin::FaregateRules`].
    FaregateRules,
    /// The configuration of a gateway, by its name: the tenant's account there.
    Gateway(&'a str),
    /// The configuration of [`ROUTER`].
    Router,
}

impl<'a> RulesSource<'a> {
    /// The source of payment rules that a key of a tenant's stored values is; `None` where it is none.
    #[must_use]
    pub fn of(key: &'a str) -> Option<Self> {
        if key == SETTINGS {
            return Some(Self::Settings);
        }
        let plugin = key.strip_prefix(PLUGIN_CONFIGURATION)?;
        Some(if plugin == ControlPlugin::FaregateRules.name() {
            Self::FaregateRules
        } else if plugin == ROUTER {
            Self::Router
        } else {
            Self::Gateway(plugin)
        })
    }
}

/// The separator between the values of a key that has several; no value contains it.
pub const VALUE_SEPARATOR: char = '\u{1e}';

/// How many values a key has at most.
pub const VALUES_PER_KEY_MAX: usize = 100;

/// How long the values of a key are together at most, in bytes.
pub const VALUES_BYTES_MAX: usize = 256 * 1024;

/// How much all values of a tenant are together at most, as [`TenantValue::counted_bytes`] counts: a search
/// answers with many of them.
pub const ALL_VALUES_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The bytes that are counted for a key that has a value, beside the value: so the number of keys counts, too.
const KEY_COUNTED_BYTES: u64 = 1024;

/// One company on this installation. All its data carries `no` first in its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// The number that rows carry.
    pub no: TenantNo,
    /// The id that clients see.
    pub id: TenantId,
    /// The client's own name for it; not unique, as in Kill Bill.
    pub external_key: Option<String>,
    /// Sent as `X-Killbill-ApiKey`; unique.
    pub api_key: String,
    /// argon2id hash (PHC string) of what is sent as `X-Killbill-ApiSecret`. Never journalled.
    #[serde(skip)]
    pub secret_hash: String,
    /// The secret before this one, as long as both are taken.
    pub previous_secret: Option<PreviousSecret>,
    /// Whether requests with its credentials are served.
    pub is_active: bool,
    /// When it was created.
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for Tenant {
    type Key = TenantNo;

    fn key(&self) -> Self::Key {
        self.no
    }
}

impl Entity for Tenant {
    fn name(&self) -> String {
        format!("tenant {}", self.no.0)
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn journalled(self) -> Self {
        let previous_secret =
            self.previous_secret.map(|it| PreviousSecret { hash: String::new(), ..it });
        Self { secret_hash: String::new(), previous_secret, ..self }
    }
}

/// A secret that was replaced and is still taken for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// argon2id hash (PHC string). Never journalled.
    #[serde(skip)]
    pub hash: String,
    /// From here on it is refused.
    pub until: Timestamp,
}

/// A value that a tenant stored under a key, such as its push callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantValue {
    pub tenant: TenantNo,
    /// Its id: the object of its `TENANT_CONFIG_CHANGE` event.
    pub id: TenantValueId,
    /// The key that it is stored under.
    pub key: String,
    /// The value, or several with [`VALUE_SEPARATOR`] between them; `None` once it was deleted. Never
    /// journalled.
    #[serde(skip)]
    pub value: Option<String>,
    pub revision: Revision,
}

impl Keyed for TenantValue {
    type Key = (TenantNo, String);

    fn key(&self) -> Self::Key {
        (self.tenant, self.key.clone())
    }
}

impl Entity for TenantValue {
    fn name(&self) -> String {
        format!("value {} of tenant {}", self.key, self.tenant.0)
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn journalled(self) -> Self {
        Self { value: None, ..self }
    }
}

impl TenantValue {
    /// Its values, the oldest first.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.value.iter().flat_map(|it| it.split(VALUE_SEPARATOR))
    }

    /// The bytes of it that count towards [`ALL_VALUES_BYTES_MAX`]; 0 once it was deleted.
    #[must_use]
    pub fn counted_bytes(&self) -> u64 {
        self.value.as_ref().map_or(0, |value| KEY_COUNTED_BYTES + value.len() as u64)
    }
}

/// The API key of the tenant that sign-up is probed in, and the name of the user who makes it. Both are
/// reserved: in a tenant of another's the probe would register its customers.
pub const PROBE: &str = "faregate-probe";

/// Creates a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateTenant {
    /// Given by the client, else minted from the request.
    pub id: Option<TenantId>,
    /// The client's own name for it; not unique, as in Kill Bill.
    pub external_key: Option<String>,
    /// Sent as `X-Killbill-ApiKey`; unique.
    pub api_key: String,
    /// argon2id hash (PHC string) of what is sent as `X-Killbill-ApiSecret`.
    pub secret_hash: String,
}

/// Replaces the secret of the request's tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotateTenantSecret {
    /// argon2id hash (PHC string) of the new secret.
    pub secret_hash: String,
    /// How long the replaced secret is still taken, in microseconds; 0: no longer. One that was
    /// replaced earlier is refused at once.
    pub overlap_us: i64,
}

/// Stores a value under a key of the request's tenant, in place of the one before; `None` deletes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTenantValue {
    pub key: String,
    pub value: Option<String>,
    /// The part of the tenant's payment rules that the value says, where its key has one; `None` removes
    /// that part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesPart>,
}

impl SetTenantValue {
    /// Stores a value that says nothing of payment rules.
    #[must_use]
    pub const fn new(key: String, value: Option<String>) -> Self {
        Self { key, value, rules: None }
    }
}

/// Stores a value under a key of the request's tenant, after those that are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppendTenantValue {
    pub key: String,
    pub value: String,
}
