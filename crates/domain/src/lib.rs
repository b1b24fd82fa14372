//! Faregate's rules, as a function: rows and a command in; rows, events and effects out.
//!
//! Nothing here waits, asks the time, draws a random number, logs, or knows SQL, JSON or HTTP.
//! Start at [`execute`]; [`Command`] lists what can be asked and [`Rejection`] why it may be refused.
//!
//! An aggregate is a folder, [`account`] for example: its rows, and in files that are named alike in each its commands,
//! its changes, its part of the [`state`](state::State) with the reads that load it, and its rules.

pub mod access;
pub mod account;
mod asked_amount;
pub mod billing;
pub mod card_data;
pub mod catalog;
pub mod change;
pub mod claim;
pub mod command;
pub mod context;
mod currency;
pub mod customer;
mod effect;
pub mod entitlement;
pub mod entity;
mod event;
mod execute;
pub mod flag;
mod id;
pub mod import;
pub mod ledger;
mod money;
pub mod object;
pub mod partition;
pub mod payment;
mod properties;
pub mod read;
mod rejection;
pub mod reply;
mod revision;
pub mod rows;
pub mod source;
pub mod state;
pub mod tenant;
#[cfg(test)]
mod testing;
mod time;
pub mod timer;

pub use account::payment_method::PaymentMethod;
pub use account::{Account, Person};
pub use asked_amount::{asked_currency, in_use, positive_amount};
pub use command::{Command, Idempotency, Request};
pub use context::{Done, GatewaySettings, Sequences, Settings, Stamp};
pub use currency::{Currency, LIST_PUBLISHED};
pub use effect::{Effect, EffectId, GatewayCall, GatewayReference};
pub use event::{Event, SubscriptionStep, TransactionChange};
pub use execute::{Executed, execute};
pub use id::{
    AccountId, AttemptId, BlockingStateId, BundleId, CatalogVersionId, ChangeRequestId,
    CustomFieldId, CustomerId, DefinitionId, DisputeId, EnvironmentId, GrantId, Id, InvoiceId,
    InvoiceItemId, MailId, OperationId, PaymentId, PaymentMethodId, PurchaseId, RequestId,
    ReservationId, SecretId, SessionId, SubscriptionId, TagDefinitionId, TagId, TenantId, TenantNo,
    TenantValueId, TokenId, TransactionId, WebhookEndpointId, kind, mix,
};
pub use money::{AmountError, AmountMinor};
pub use partition::PartitionNo;
pub use payment::EXTERNAL_PAYMENT;
pub use payment::merchant_account::MerchantAccount;
pub use properties::Properties;
pub use rejection::{
    AccessRejection, AccountRejection, BillingRejection, EntitlementRejection, FlagRejection,
    PaymentRejection, Rejection, TenantRejection,
};
pub use reply::{Accepted, PaymentReply, PaymentResult, Reply};
pub use revision::{Revision, Seq};
pub use time::Timestamp;
