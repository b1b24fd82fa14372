//! The rows that a command may look at, by their keys.

use crate::claim::ClaimKey;
use crate::definition::DefinitionKey;
use crate::dispute::DisputeCase;
use crate::object::Object;
use crate::tag::TagKey;
use crate::timer::TimerKey;
use crate::usage::EventKey;
use crate::{
    AccountId, ChangeRequestId, CustomerId, EnvironmentId, OperationId, PaymentId, PaymentMethodId,
    ReservationId, SecretId, TagDefinitionId, TenantNo, TransactionId,
};

/// How many scheduled attempts of an account are looked at.
pub const SCHEDULED_MAX: u32 = 1_000;

/// How many payment methods of an account are looked at: more than one look at a gateway finds.
pub const METHODS_LISTED_MAX: u32 = 1_000;

/// A row that a command may look at. Loading one loads what belongs to it: an account comes with
/// its person and default payment method, and with whether it is closed; a payment method with its
/// account; a payment with its transactions, their outstanding outcomes and payment methods, its account
/// and its payment method, its purchase and the account's entitlements; a payment's attempts with the
/// velocity of its account; a claim with what its owner is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    Account(TenantNo, AccountId),
    /// The further e-mail addresses that an account has.
    AccountEmails(TenantNo, AccountId),
    /// The active blocking states of an account.
    BlockingStates(TenantNo, AccountId),
    PaymentMethod(TenantNo, PaymentMethodId),
    /// The newest active payment methods of an account; at most [`METHODS_LISTED_MAX`].
    PaymentMethods(TenantNo, AccountId),
    Tag(TenantNo, TagKey),
    TagDefinition(TenantNo, TagDefinitionId),
    /// Whether anything is tagged with a definition.
    TagDefinitionUse(TenantNo, TagDefinitionId),
    /// All custom fields that an object has.
    CustomFields(TenantNo, Object),
    Payment(TenantNo, PaymentId),
    /// A transaction by id; it comes with its payment.
    Transaction(TenantNo, TransactionId),
    /// The attempts of a payment that have a transaction.
    PaymentAttempts(TenantNo, PaymentId),
    /// The attempts of an account whose retries are due some day; at most [`SCHEDULED_MAX`].
    ScheduledAttempts(TenantNo, AccountId),
    /// The number and the sums of the payments that an account started in a day.
    PaymentVelocity(TenantNo, AccountId),
    /// A tenant's rules for payments.
    PaymentRules(TenantNo),
    /// A tenant's rules for a payment of an account: with its velocity, where they are for every payment, and
    /// with its methods, where they choose one.
    RulesForPayment(TenantNo, AccountId),
    Claim(ClaimKey),
    Tenant(TenantNo),
    TenantValue(TenantNo, String),
    /// How many bytes are counted of a tenant's values.
    TenantValuesBytes(TenantNo),
    User(String),
    Role(String),
    Environment(TenantNo, EnvironmentId),
    Secret(TenantNo, SecretId),
    Definition(TenantNo, DefinitionKey),
    ChangeRequest(TenantNo, ChangeRequestId),
    /// By id; with their sessions.
    Customer(TenantNo, CustomerId),
    Operation(TenantNo, OperationId),
    Timer(TenantNo, TimerKey),
    /// The dispute of a gateway's case.
    Dispute(TenantNo, DisputeCase),
    /// How many disputes a payment has.
    DisputeCount(TenantNo, PaymentId),
    Feature(TenantNo, String),
    /// The newest version of an offer.
    Offer(TenantNo, String),
    /// The newest version of an offer with its features, for an account: with the tags that it is for.
    OfferForAccount(TenantNo, String, AccountId),
    /// The free offer that newcomers get, with its features.
    NewcomersOffer(TenantNo),
    /// How many features and offers a tenant has.
    CatalogSize(TenantNo),
    Entitlements(TenantNo, AccountId),
    /// The users that are mapped to an account.
    AccountUsers(TenantNo, AccountId),
    /// The usage of an account.
    Usage(UsageRead),
}

/// A row of what an account used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageRead {
    /// The usage of a feature in its newest periods; at most [`PERIODS_MAX`](crate::usage::PERIODS_MAX).
    Feature(TenantNo, AccountId, String),
    /// The usage in the periods in which something is reserved.
    Reserved(TenantNo, AccountId),
    /// An event that was counted.
    Event(TenantNo, AccountId, EventKey),
    /// A reservation; it comes with what its account used in its period.
    Reservation(TenantNo, AccountId, ReservationId),
}
