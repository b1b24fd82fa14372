//! Accounts: a tenant's customers. Personal data is a row of its own, so that a person can be erased.

pub mod blocking_state;
pub mod calendar;
pub(crate) mod change;
pub(crate) mod command;
pub mod custom_field;
pub mod email;
mod lookup;
pub mod payment_method;
pub(crate) mod read;
pub(crate) mod rules;
pub mod tag;

use serde::{Deserialize, Serialize};

use crate::account::tag::ControlTag;
use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::{AccountId, Currency, PaymentMethodId, Revision, TenantNo, Timestamp};

/// A customer's billing account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub tenant: TenantNo,
    pub id: AccountId,
    /// The client's name for it, unique per tenant; `None` reads as the id. Kept out of the
    /// journal: clients put addresses into it. It changes only where it is erased, and stays taken.
    #[serde(skip)]
    pub external_key: Option<String>,
    /// The currency to charge in when a request names none.
    pub currency: Option<Currency>,
    /// Day of the month, 1-31, 0 while there is none.
    pub bill_cycle_day_local: u8,
    /// The parent in a hierarchy.
    pub parent_account_id: Option<AccountId>,
    /// Whether the parent pays.
    pub is_payment_delegated_to_parent: bool,
    /// The default payment method.
    pub payment_method_id: Option<PaymentMethodId>,
    /// The account's one method of [`crate::EXTERNAL_PAYMENT`]; bookkeeping, not part of its history.
    #[serde(skip)]
    pub external_payment_method: Option<PaymentMethodId>,
    /// The time that the fixed offset of `time_zone` refers to.
    pub reference_time: Timestamp,
    /// IANA name or fixed offset.
    pub time_zone: String,
    /// Set by migrations.
    pub is_migrated: Option<bool>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When personal data was erased last.
    pub erased_at: Option<Timestamp>,
    pub revision: Revision,
}

impl Keyed for Account {
    type Key = (TenantNo, AccountId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for Account {
    fn facts(&self) -> Facts {
        Facts::new("account", self.id, self.revision).of(self.id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn journalled(self) -> Self {
        Self { external_key: None, external_payment_method: None, ..self }
    }
}

/// The personal data of the person behind an account. One row per revision; erasing a person deletes all their rows
/// and touches nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// First and last name.
    pub name: Option<String>,
    /// How many characters of `name` are the first name.
    pub first_name_length: Option<i32>,
    pub email: Option<String>,
    /// First address line.
    pub address1: Option<String>,
    /// Second address line.
    pub address2: Option<String>,
    pub postal_code: Option<String>,
    pub company: Option<String>,
    pub city: Option<String>,
    /// State or province.
    pub state: Option<String>,
    pub country: Option<String>,
    /// Locale, such as `en_US`.
    pub locale: Option<String>,
    pub phone: Option<String>,
    pub notes: Option<String>,
}

/// Creates an account. The API has checked lengths, days, time zones and currencies. The default sets
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateAccount {
    /// The client's name for it, unique per tenant; `None` reads as the id.
    pub external_key: Option<String>,
    pub person: Person,
    /// The currency to charge in when a request names none.
    pub currency: Option<Currency>,
    /// Day of the month, 1-31; 0 for none.
    pub bill_cycle_day_local: u8,
    pub parent_account_id: Option<AccountId>,
    pub is_payment_delegated_to_parent: bool,
    /// `None`: the time of creation.
    pub reference_time: Option<Timestamp>,
    /// `None`: UTC.
    pub time_zone: Option<String>,
    /// Set by migrations.
    pub is_migrated: Option<bool>,
    /// The tags that it has from the beginning: they are written in the same commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<ControlTag>,
}

/// Changes an account: `None` keeps, unless `reset` says that it clears. What may never change
/// (key, currency, time zone, reference time, a day once set) must be absent or equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateAccount {
    pub account: AccountId,
    /// Kill Bill's `treatNullAsReset`.
    pub reset: bool,
    /// New personal data.
    pub person: Person,
    /// Must be equal.
    pub external_key: Option<String>,
    /// May be set once.
    pub currency: Option<Currency>,
    /// May be set once.
    pub bill_cycle_day_local: Option<u8>,
    pub parent_account_id: Option<AccountId>,
    pub is_payment_delegated_to_parent: Option<bool>,
    /// New default payment method.
    pub payment_method_id: Option<PaymentMethodId>,
    /// Must be equal.
    pub reference_time: Option<Timestamp>,
    /// Must be equal.
    pub time_zone: Option<String>,
    pub is_migrated: Option<bool>,
}

/// Erases what is known of the person behind an account. Payments, postings and histories stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EraseAccount {
    pub account: AccountId,
}

/// Puts an account back into service whose commands are refused since one of them broke an invariant, or
/// wrote what the database refuses. Says in the journal who did it, and changes no row of the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseAccount {
    pub account: AccountId,
}

impl UpdateAccount {
    /// Keeps every field of `account`.
    #[must_use]
    pub fn unchanged(account: AccountId) -> Self {
        Self {
            account,
            reset: false,
            person: Person::default(),
            external_key: None,
            currency: None,
            bill_cycle_day_local: None,
            parent_account_id: None,
            is_payment_delegated_to_parent: None,
            payment_method_id: None,
            reference_time: None,
            time_zone: None,
            is_migrated: None,
        }
    }
}
