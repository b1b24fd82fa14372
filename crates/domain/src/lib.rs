//! Faregate's rules, as a function: rows and a command in; rows, events and effects out.
//!
//! Nothing here waits, asks the time, draws a random number, logs, or knows SQL, JSON or HTTP.
//! Start at [`execute`]; [`Command`] lists what can be asked and [`Rejection`] why it may be refused.

pub mod access;
pub mod account;
pub mod account_email;
pub mod account_user;
mod asked_amount;
pub mod blocking_state;
pub mod card_data;
pub mod change;
pub mod change_request;
pub mod claim;
pub mod combo;
pub mod command;
pub mod context;
mod currency;
pub mod custom_field;
pub mod customer;
pub mod decline;
pub mod definition;
pub mod dispute;
mod effect;
pub mod entitlement;
pub mod entity;
pub mod environment;
mod event;
mod execute;
pub mod feature;
pub mod health;
mod id;
pub mod import;
pub mod ledger;
pub mod level;
pub mod mail;
mod merchant_account;
mod money;
pub mod object;
pub mod offer;
pub mod operation;
pub mod partition;
pub mod payment;
pub mod payment_attempt;
pub mod payment_method;
pub mod payment_rules;
pub mod period;
mod properties;
pub mod purchase;
pub mod read;
mod rejection;
pub mod reply;
mod revision;
pub mod routed;
pub mod routing;
pub mod routing_rules;
pub mod rows;
mod rules;
pub mod state;
pub mod tag;
pub mod tenant;
#[cfg(test)]
mod testing;
mod time;
pub mod timer;
pub mod usage;
pub mod webhook;

pub use account::{Account, Person};
pub use asked_amount::{asked_currency, in_use, positive_amount};
pub use command::{Command, Idempotency, Request};
pub use context::{Done, GatewaySettings, Sequences, Settings, Stamp};
pub use currency::{Currency, LIST_PUBLISHED};
pub use effect::{Effect, EffectId, GatewayCall, GatewayReference};
pub use event::Event;
pub use execute::{Executed, execute};
pub use id::{
    AccountEmailId, AccountId, AttemptId, BlockingStateId, ChangeRequestId, CustomFieldId,
    CustomerId, DefinitionId, DisputeId, EnvironmentId, GrantId, Id, MailId, OperationId,
    PaymentId, PaymentMethodId, PurchaseId, RequestId, ReservationId, SecretId, SessionId,
    TagDefinitionId, TagId, TenantId, TenantNo, TenantValueId, TokenId, TransactionId,
    WebhookEndpointId, kind, mix,
};
pub use merchant_account::MerchantAccount;
pub use money::{AmountError, AmountMinor};
pub use partition::PartitionNo;
pub use payment::EXTERNAL_PAYMENT;
pub use payment_method::PaymentMethod;
pub use properties::Properties;
pub use rejection::{
    AccessRejection, AccountRejection, EntitlementRejection, FlagRejection, PaymentRejection,
    Rejection, TenantRejection,
};
pub use reply::{Accepted, PaymentReply, PaymentResult, Reply};
pub use revision::{Revision, Seq};
pub use time::Timestamp;
