//! A tenant's rules for payments and invoices: limits of control plugins, and settings of retries and of billing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::billing::BillingSettings;
use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::tenant::routing_rules::RoutingRules;
use crate::{AmountMinor, Currency, MerchantAccount, Rejection, Revision, TenantNo};

/// How many gateways [`Limits`] name at most.
pub const GATEWAYS_MAX: usize = 100;

/// How many of an account's methods are looked at where rules choose one: the newest.
pub const METHODS_MAX: usize = 100;

/// A tenant's rules. The first partition writes them with the stored values that they come from; every
/// partition reads them with the payments that they are for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentRules {
    pub tenant: TenantNo,
    /// From the tenant's settings; `None` where they have none about retries.
    pub retries: Option<RetrySettings>,
    /// From the tenant's settings.
    #[serde(default, skip_serializing_if = "BillingSettings::are_default")]
    pub billing: BillingSettings,
    /// From the configuration of [`ControlPlugin::FaregateRules`].
    pub limits: Option<Limits>,
    /// The tenant's account at each gateway that needs one, from the gateway's configuration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub merchant_accounts: BTreeMap<String, MerchantAccount>,
    /// From the configuration of [`ROUTER`](crate::tenant::routing_rules::ROUTER); `None` where no payment is routed by rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingRules>,
    pub revision: Revision,
}

impl Keyed for PaymentRules {
    type Key = TenantNo;

    fn key(&self) -> Self::Key {
        self.tenant
    }
}

impl Entity for PaymentRules {
    fn name(&self) -> String {
        format!("payment rules of tenant {}", self.tenant.0)
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// What a tenant's settings say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `None`: nothing about retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<RetrySettings>,
    #[serde(default, skip_serializing_if = "BillingSettings::are_default")]
    pub billing: BillingSettings,
}

/// How failed payments are retried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetrySettings {
    /// After how many days, each counted from the try before; `None`: Kill Bill's default.
    pub days: Option<Vec<u16>>,
    /// Whether payments that a client requests are retried without a property that asks for it.
    pub api: bool,
}

/// The limits of an account's payments. An absent part limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Whether they are checked for every payment, and not only where a call names the plugin.
    pub every_payment: bool,
    /// The currencies that are allowed.
    pub currencies: Option<BTreeSet<Currency>>,
    /// The gateways that are allowed; at most [`GATEWAYS_MAX`].
    pub gateways: Option<BTreeSet<String>>,
    /// Amounts, by currency.
    pub amounts: BTreeMap<Currency, AmountLimits>,
    /// How many payments an account has in a day (UTC) at most.
    pub payments_per_day: Option<u32>,
    /// Whether a payment above `amounts` begins with what they leave, instead of not at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_amounts: bool,
    /// Whose method a payment that names none goes with: the account's newest of the first gateway here that
    /// it has one of; its default where it has none of them. At most [`GATEWAYS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub method_gateways: Vec<String>,
}

/// The largest amounts in a currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmountLimits {
    /// Of one payment.
    pub payment: Option<AmountMinor>,
    /// Of all payments of an account in a day (UTC).
    pub day: Option<AmountMinor>,
}

impl PaymentRules {
    /// A tenant without rules.
    #[must_use]
    pub const fn none_of(tenant: TenantNo, revision: Revision) -> Self {
        Self {
            tenant,
            retries: None,
            billing: BillingSettings::DEFAULT,
            limits: None,
            merchant_accounts: BTreeMap::new(),
            routing: None,
            revision,
        }
    }
}

/// A part of [`PaymentRules`], as it comes with the stored value that it was read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RulesPart {
    Settings(Settings),
    Limits(Limits),
    MerchantAccount(MerchantAccount),
    Routing(RoutingRules),
}

/// A plugin that decides about a call before a gateway gets it, and learns its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControlPlugin {
    /// Checks [`Limits`].
    FaregateRules,
}

impl ControlPlugin {
    /// Its name in requests and in a tenant's stored values.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FaregateRules => "faregate-rules",
        }
    }

    /// The plugin of a name.
    ///
    /// # Errors
    /// The refusal of a name that no plugin has.
    pub fn named(name: &str) -> Result<Self, Rejection> {
        match name == Self::FaregateRules.name() {
            true => Ok(Self::FaregateRules),
            false => {
                Err(Rejection::invalid("controlPluginName", "there is no such control plugin"))
            }
        }
    }
}
