//! The rows that a command may look at, by their keys.

use crate::TenantNo;
use crate::claim::ClaimKey;
use crate::timer::TimerKey;

pub use crate::access::read::AccessRead;
pub use crate::account::read::{AccountRead, AccountRow};
pub use crate::billing::read::BillingRead;
pub use crate::customer::read::CustomerRead;
pub use crate::entitlement::read::{EntitlementRead, UsageRead};
pub use crate::flag::read::FlagRead;
pub use crate::payment::read::PaymentRead;
pub use crate::tenant::read::{TenantRead, TenantRow};

/// How many scheduled attempts of an account are looked at.
pub const SCHEDULED_MAX: u32 = 1_000;

/// How many payment methods of an account are looked at: more than one look at a gateway finds.
pub const METHODS_LISTED_MAX: u32 = 1_000;

/// A row that a command may look at, in the groups of [`State`](crate::state::State). Loading one loads what belongs to
/// it: an account comes with its person and default payment method, and with whether it is closed; a payment method with
/// its account; a payment with its transactions, their outstanding outcomes and payment methods, its account and its
/// payment method, its purchase and the account's entitlements; a payment's attempts with the velocity of its account; a
/// claim with what its owner is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    Tenant(TenantRead),
    Access(AccessRead),
    Flag(FlagRead),
    Account(AccountRead),
    Customer(CustomerRead),
    Payment(PaymentRead),
    Entitlement(EntitlementRead),
    Billing(BillingRead),
    Claim(ClaimKey),
    Timer(TenantNo, TimerKey),
}

impl From<TenantRead> for Read {
    fn from(read: TenantRead) -> Self {
        Self::Tenant(read)
    }
}

impl From<TenantRow> for Read {
    fn from(row: TenantRow) -> Self {
        Self::Tenant(TenantRead::Row(row))
    }
}

impl From<AccessRead> for Read {
    fn from(read: AccessRead) -> Self {
        Self::Access(read)
    }
}

impl From<FlagRead> for Read {
    fn from(read: FlagRead) -> Self {
        Self::Flag(read)
    }
}

impl From<AccountRead> for Read {
    fn from(read: AccountRead) -> Self {
        Self::Account(read)
    }
}

impl From<AccountRow> for Read {
    fn from(row: AccountRow) -> Self {
        Self::Account(AccountRead::Row(row))
    }
}

impl From<CustomerRead> for Read {
    fn from(read: CustomerRead) -> Self {
        Self::Customer(read)
    }
}

impl From<PaymentRead> for Read {
    fn from(read: PaymentRead) -> Self {
        Self::Payment(read)
    }
}

impl From<EntitlementRead> for Read {
    fn from(read: EntitlementRead) -> Self {
        Self::Entitlement(read)
    }
}

impl From<BillingRead> for Read {
    fn from(read: BillingRead) -> Self {
        Self::Billing(read)
    }
}
