//! Invoices and their items.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::catalog::price::Price;
use crate::entity::{Entity, Facts};
use crate::ledger::LedgerAccount;
use crate::rows::{Keyed, Part};
use crate::{
    AccountId, AmountMinor, BundleId, Currency, InvoiceId, InvoiceItemId, PaymentId, Revision,
    SubscriptionId, TenantNo, Timestamp,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InvoiceStatus {
    /// It is not to be paid yet, and may change.
    Draft,
    Committed,
    /// It counts no more.
    Void,
}

impl InvoiceStatus {
    /// Kill Bill's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "DRAFT",
            Self::Committed => "COMMITTED",
            Self::Void => "VOID",
        }
    }
}

/// An invoice. Its sums are those of its items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoice {
    pub tenant: TenantNo,
    pub id: InvoiceId,
    pub account_id: AccountId,
    /// From 1 in each tenant, in the order of commits.
    pub number: i64,
    pub status: InvoiceStatus,
    pub currency: Currency,
    /// The account's day on which it was made.
    pub invoice_date: Date,
    /// The day until which it charges what was due; `None`: it was not made by a run.
    pub target_date: Option<Date>,
    /// The sum of its charges, less repairs and adjustments.
    pub charged: AmountMinor,
    /// The change of the account's credit: negative where credit was used.
    pub credit: AmountMinor,
    /// The payments that are for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub payments: BTreeMap<PaymentId, InvoicePayment>,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// A payment that is for an invoice, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoicePayment {
    /// What was taken, less what went back.
    pub paid: AmountMinor,
    /// What may still be taken: its outcome is to come. It counts as paid until that is known.
    #[serde(default, skip_serializing_if = "AmountMinor::is_zero")]
    pub in_flight: AmountMinor,
}

impl Keyed for Invoice {
    type Key = (TenantNo, InvoiceId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for Invoice {
    fn facts(&self) -> Facts {
        Facts::new("invoice", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

impl Invoice {
    /// What was paid of it.
    #[must_use]
    pub fn paid(&self) -> AmountMinor {
        AmountMinor(self.payments.values().map(|it| it.paid.0).sum())
    }

    /// What is still to be paid; below zero, what the account gets back. A draft and what counts no more have none.
    #[must_use]
    pub fn balance(&self) -> AmountMinor {
        match self.status {
            InvoiceStatus::Draft | InvoiceStatus::Void => AmountMinor::ZERO,
            InvoiceStatus::Committed => AmountMinor(self.charged.0 + self.credit.0 - self.paid().0),
        }
    }

    /// What may be charged now: what is neither paid nor on its way.
    #[must_use]
    pub fn payable(&self) -> AmountMinor {
        let in_flight: i64 = self.payments.values().map(|it| it.in_flight.0).sum();
        AmountMinor((self.balance().0 - in_flight).max(0))
    }

    /// Whether a payment or a credit may still change it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status == InvoiceStatus::Draft || !self.balance().is_zero()
    }
}

/// The kind of an item. The names are Kill Bill's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ItemKind {
    /// A price that is charged once.
    Fixed,
    /// A period of a subscription.
    Recurring,
    /// Credit for days of an earlier item.
    RepairAdj,
    /// The change of the account's credit.
    CbaAdj,
    /// What somebody charged.
    ExternalCharge,
    Tax,
    /// What somebody credited.
    CreditAdj,
    /// What somebody took back of another item.
    ItemAdj,
}

impl ItemKind {
    pub const ALL: [Self; 8] = [
        Self::Fixed,
        Self::Recurring,
        Self::RepairAdj,
        Self::CbaAdj,
        Self::ExternalCharge,
        Self::Tax,
        Self::CreditAdj,
        Self::ItemAdj,
    ];

    /// Whether an item charges something, of which somebody may take back a part.
    #[must_use]
    pub const fn charges(self) -> bool {
        match self {
            Self::Fixed | Self::Recurring | Self::ExternalCharge | Self::Tax => true,
            Self::RepairAdj | Self::CbaAdj | Self::CreditAdj | Self::ItemAdj => false,
        }
    }

    /// Whether an item is of the account's credit: what made it, or its change.
    #[must_use]
    pub const fn credits(self) -> bool {
        matches!(self, Self::CreditAdj | Self::CbaAdj)
    }

    /// The account of the ledger that an item is booked on; `None`: it moves nothing, as credit is what the customer has
    /// left. What is taken back of an item is booked as the item is.
    #[must_use]
    pub const fn booked_on(self) -> Option<LedgerAccount> {
        match self {
            Self::Tax => Some(LedgerAccount::Tax),
            Self::CbaAdj => None,
            Self::Fixed
            | Self::Recurring
            | Self::RepairAdj
            | Self::ExternalCharge
            | Self::CreditAdj
            | Self::ItemAdj => Some(LedgerAccount::Sales),
        }
    }

    /// Kill Bill's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "FIXED",
            Self::Recurring => "RECURRING",
            Self::RepairAdj => "REPAIR_ADJ",
            Self::CbaAdj => "CBA_ADJ",
            Self::ExternalCharge => "EXTERNAL_CHARGE",
            Self::Tax => "TAX",
            Self::CreditAdj => "CREDIT_ADJ",
            Self::ItemAdj => "ITEM_ADJ",
        }
    }
}

/// An item of an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceItem {
    pub tenant: TenantNo,
    pub id: InvoiceItemId,
    pub invoice_id: InvoiceId,
    pub account_id: AccountId,
    pub kind: ItemKind,
    /// Below zero where the account gets something back.
    pub amount: AmountMinor,
    pub currency: Currency,
    pub start: Date,
    /// The first day that it is not for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Date>,
    /// Until when runs look at it: what is settled by a later day needs it no more.
    pub last_day: Date,
    /// The subscription that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<OfSubscription>,
    /// The data of an item that a client made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<Box<Manual>>,
    /// Somebody's words for it; `None`: Kill Bill's. Never journalled.
    #[serde(skip)]
    pub description: Option<String>,
    /// Whatever else somebody keeps with it. Never journalled.
    #[serde(skip)]
    pub details: Option<String>,
    /// The item that it repairs or adjusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<InvoiceItemId>,
    /// How much of it somebody took back.
    #[serde(default, skip_serializing_if = "AmountMinor::is_zero")]
    pub adjusted: AmountMinor,
    /// How much of it was credited for days that are charged no more.
    #[serde(default, skip_serializing_if = "AmountMinor::is_zero")]
    pub repaired: AmountMinor,
    /// Whether its invoice counts no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub voided: bool,
    pub created_at: Timestamp,
    pub revision: Revision,
}

/// The account of the ledger that an item is booked on, of which `all` are the items of its invoice.
#[must_use]
pub fn booked_on(it: &InvoiceItem, all: &[InvoiceItem]) -> Option<LedgerAccount> {
    let adjusted = it.linked.filter(|_| it.kind == ItemKind::ItemAdj);
    let adjusted = adjusted.and_then(|id| all.iter().find(|it| it.id == id));
    adjusted.unwrap_or(it).kind.booked_on()
}

/// The data of an item that a client made. Nothing is computed from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manual {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<SubscriptionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<Price>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Price>,
}

impl InvoiceItem {
    /// What is left of it after all that was taken back.
    #[must_use]
    pub const fn left(&self) -> AmountMinor {
        AmountMinor(self.amount.0 - self.adjusted.0 - self.repaired.0)
    }
}

/// The subscription of an item, and what decided on its amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfSubscription {
    pub subscription: SubscriptionId,
    pub bundle: BundleId,
    pub product: String,
    pub plan: String,
    pub phase: String,
    /// The price of a whole period; `None` where it is charged once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Price>,
    /// Of the version of the catalog that decided.
    pub catalog_effective_at: Timestamp,
}

impl Keyed for InvoiceItem {
    type Key = (TenantNo, InvoiceItemId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Part for InvoiceItem {
    type Owner = (TenantNo, SubscriptionId);

    fn owner(&self) -> Self::Owner {
        let none = || SubscriptionId::new(uuid::Uuid::nil());
        (self.tenant, self.of.as_ref().map_or_else(none, |it| it.subscription))
    }

    fn is_active(&self) -> bool {
        true
    }
}

impl Entity for InvoiceItem {
    fn facts(&self) -> Facts {
        Facts::new("invoice item", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn erase(&mut self) {
        (self.description, self.details) = (None, None);
    }
}
