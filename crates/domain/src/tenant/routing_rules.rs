//! A tenant's routing rules: which gateways a payment tries, in which order, and after which declines.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::account::tag::DefinitionRef;
use crate::payment::decline::{DeclineClass, DeclineCodes};
use crate::{AccountId, AmountMinor, Currency};

/// The plugin whose payment methods are routed: what each gateway knows the customer by is in their properties.
pub const ROUTER: &str = "faregate-router";

/// How many rules a tenant has at most.
pub const RULES_MAX: usize = 100;

/// How many gateways a payment tries at most.
pub const TRIES_MAX: usize = 4;

/// How many values a condition lists at most.
pub const VALUES_MAX: usize = 100;

/// How many digits a bank identification number has at most; with more it would be part of a card number.
pub const BIN_DIGITS_MAX: u8 = 8;

/// How many digits it has at least.
pub const BIN_DIGITS_MIN: u8 = 6;

/// A tenant's rules, in their order: the first that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingRules {
    /// At most [`RULES_MAX`], each with a name of its own.
    pub rules: Vec<RoutingRule>,
    /// When a declined payment goes on to the next gateway.
    pub cascade: CascadeRules,
}

/// One rule: where all its conditions hold, its gateways are tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingRule {
    pub name: String,
    pub when: Conditions,
    pub to: Targets,
}

/// The conditions that a payment has to meet for a rule to match. An absent condition always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// One of these currencies.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub currencies: BTreeSet<Currency>,
    /// One of these currencies, with an amount in its range.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub amounts: BTreeMap<Currency, AmountRange>,
    /// The account's country is one of these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub countries: BTreeSet<String>,
    /// The method's bank identification number is in one of these ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<BinRange>,
    /// The method's kind is one of these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub kinds: BTreeSet<String>,
    /// The account has one of these tags.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<DefinitionRef>,
    /// The account has each of these custom fields, with this value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// Each of these gateways takes calls.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub healthy: BTreeSet<String>,
}

/// Amounts from `min` to `max`, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmountRange {
    pub min: Option<AmountMinor>,
    pub max: Option<AmountMinor>,
}

impl AmountRange {
    pub(crate) fn has(&self, amount: AmountMinor) -> bool {
        self.min.is_none_or(|min| min <= amount) && self.max.is_none_or(|max| amount <= max)
    }
}

/// Bank identification numbers from `from` to `to`, both included, of so many digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinRange {
    pub digits: u8,
    pub from: u32,
    pub to: u32,
}

impl BinRange {
    /// Whether a number begins with one in the range. A number with fewer digits does not.
    #[must_use]
    pub fn has(&self, bin: &str) -> bool {
        let first = bin.get(..usize::from(self.digits)).and_then(|it| it.parse::<u32>().ok());
        first.is_some_and(|it| (self.from..=self.to).contains(&it))
    }
}

/// The gateways of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Targets {
    /// In their order; at most [`TRIES_MAX`].
    Gateways(Vec<String>),
    /// Shares of the accounts, together 100 %.
    Split(Vec<Share>),
}

/// The gateways of a share of the accounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub percent: u8,
    pub gateways: Vec<String>,
}

impl Targets {
    /// The gateways for an account: always the same share for one account.
    #[must_use]
    pub fn of(&self, account: AccountId) -> &[String] {
        let shares = match self {
            Self::Gateways(gateways) => return gateways,
            Self::Split(shares) => shares,
        };
        let mut left = percentile(account);
        for share in shares {
            match left.checked_sub(share.percent) {
                Some(rest) => left = rest,
                None => return &share.gateways,
            }
        }
        &[]
    }

    pub(crate) fn lists(&self) -> Vec<&Vec<String>> {
        match self {
            Self::Gateways(gateways) => vec![gateways],
            Self::Split(shares) => shares.iter().map(|it| &it.gateways).collect(),
        }
    }
}

/// Which hundredth of all accounts an account is in, from 0 to 99: FNV-1a of its id.
#[must_use]
pub fn percentile(account: AccountId) -> u8 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = account.uuid().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold);
    u8::try_from((hash >> 32) % 100).expect("a remainder of 100")
}

/// When a declined payment goes on to the next gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CascadeRules {
    /// After declines of these classes.
    pub after: BTreeSet<DeclineClass>,
    /// The classes of codes, by gateway; they come before the defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub codes: BTreeMap<String, DeclineCodes>,
    /// Whether a try is refunded that turns out to have succeeded beside a later one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refunds_late_successes: bool,
}

impl Default for CascadeRules {
    fn default() -> Self {
        let after = [DeclineClass::Soft].into();
        Self { after, codes: BTreeMap::new(), refunds_late_successes: false }
    }
}

impl RoutingRules {
    /// The definitions of tags that a condition is about.
    pub fn tags(&self) -> impl Iterator<Item = DefinitionRef> {
        self.rules.iter().flat_map(|rule| &rule.when.tags).copied()
    }

    /// Whether a condition is about custom fields.
    #[must_use]
    pub fn has_fields(&self) -> bool {
        self.rules.iter().any(|rule| !rule.when.fields.is_empty())
    }
}
