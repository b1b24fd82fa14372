//! Refusals: answers, not errors. Each API has one table from these to its statuses and codes; the
//! texts are here, and an API whose protocol has its own words replaces them.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::account::blocking_state::ClosedTo;
use crate::billing::Unbillable;
use crate::billing::invoice::InvoiceStatus;
use crate::catalog::NoPrice;
use crate::customer::CustomerRejection;
use crate::entitlement::level::Counted;
use crate::flag::change_request::ChangeStatus;
use crate::object::ObjectType;
use crate::payment::{PaymentState, TransactionType};
use crate::{
    AccountId, AmountMinor, BundleId, ChangeRequestId, Currency, CustomFieldId, EnvironmentId,
    GrantId, InvoiceId, InvoiceItemId, PaymentId, PaymentMethodId, PurchaseId, ReservationId,
    SecretId, SubscriptionId, TagDefinitionId,
};

/// Why a command was refused; nothing was written. Durable format: additive only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// About a tenant.
    #[error(transparent)]
    Tenant(#[from] TenantRejection),
    /// About users and roles.
    #[error(transparent)]
    Access(#[from] AccessRejection),
    /// About feature flags.
    #[error(transparent)]
    Flag(#[from] FlagRejection),
    /// About an account, its tags or its payment methods.
    #[error(transparent)]
    Account(#[from] AccountRejection),
    /// About a customer.
    #[error(transparent)]
    Customer(#[from] CustomerRejection),
    /// About a payment.
    #[error(transparent)]
    Payment(#[from] PaymentRejection),
    /// About features, offers and what accounts may do.
    #[error(transparent)]
    Entitlement(#[from] EntitlementRejection),
    /// About subscriptions and invoices.
    #[error(transparent)]
    Billing(#[from] BillingRejection),
    /// A field's value cannot be, in whatever command it is.
    #[error("{field}: {}", reason.trim())]
    InvalidParameter {
        /// The field, in Kill Bill's spelling.
        field: String,
        reason: String,
    },
}

/// Why a command about a tenant is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum TenantRejection {
    /// The API key (or the given id) is taken.
    #[error("there is a tenant {key} already; if its secret is lost, draw another one")]
    AlreadyExists {
        /// The tenant's external key, as Kill Bill names it here.
        key: String,
    },
    /// There is a definition of tags of this name.
    #[error("there is a tag definition {name} already")]
    TagDefinitionExists { name: String },
    /// The name is a control tag's.
    #[error("the name {name} is a control tag's")]
    TagDefinitionReserved { name: String },
    /// Names of definitions are in lower case.
    #[error("the name {name} has to be in lower case")]
    TagDefinitionNotLowercase { name: String },
    /// Something is tagged with it.
    #[error("the tag definition {id} is in use")]
    TagDefinitionInUse { id: TagDefinitionId },
    /// No such definition of the tenant.
    #[error("there is no tag definition {id}")]
    TagDefinitionNotFound { id: TagDefinitionId },
    /// A value was replaced since the caller read it.
    #[error("{key} was changed meanwhile")]
    ValueChanged { key: String },
    /// A version does not go with those that there are.
    #[error("the catalog is refused: {reason}")]
    CatalogRefused { reason: String },
    /// It is incomplete, or says something else than the catalog.
    #[error("the simple plan {plan} is refused: {reason}")]
    SimplePlanRefused { plan: String, reason: String },
}

/// Why a command about subscriptions and invoices is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BillingRejection {
    #[error("there is no catalog")]
    NoCatalog,
    #[error("the catalog has no plan {plan}")]
    NoSuchPlan { plan: String },
    #[error("the catalog has no product {product}")]
    NoSuchProduct { product: String },
    /// No price list that is looked at has one.
    #[error("no plan is offered for {wanted}")]
    NoPlanOffered {
        /// Product, billing period and price list.
        wanted: String,
    },
    #[error("several plans are offered for {wanted}")]
    SeveralPlansOffered {
        /// Product, billing period and price list.
        wanted: String,
    },
    #[error("the plan {plan} has no such phase")]
    NoSuchPhase { plan: String },
    /// The plan is not sold in the account's currency.
    #[error("the plan {plan} has no price in {currency}")]
    NoPrice { plan: String, currency: Currency, why: NoPrice },
    /// The prices of the plan cannot be replaced so.
    #[error("priceOverrides: the prices of the plan {plan} cannot be overridden: {reason}")]
    InvalidPriceOverride { plan: String, reason: String },
    #[error("there is no subscription {subscription}")]
    NoSuchSubscription { subscription: SubscriptionId },
    #[error("there is no bundle {bundle}")]
    NoSuchBundle { bundle: BundleId },
    /// Another bundle has the key, or a base product is in it.
    #[error("the bundle key {key} is in use")]
    BundleKeyInUse { key: String },
    #[error("the bundle {bundle} has a base product already")]
    BaseExists { bundle: BundleId },
    /// An add-on goes with a base product.
    #[error("there is no base product in the bundle")]
    NoBase,
    #[error("the add-on {add_on} is part of {base} already")]
    AddOnIncluded { add_on: String, base: String },
    #[error("the add-on {add_on} is not sold with {base}")]
    AddOnNotAvailable { add_on: String, base: String },
    #[error("a bundle has the plan {plan} {most} times at most")]
    TooManyInBundle { plan: String, most: u32 },
    #[error("the account has too many subscriptions")]
    TooManySubscriptions,
    #[error("the subscription was changed too often")]
    TooManyTransitions,
    /// It has ended.
    #[error("the subscription {subscription} has ended, and cannot be changed")]
    NotChangeable { subscription: SubscriptionId },
    /// By a blocking state of the account, of a bundle or of a subscription.
    #[error(
        "the action Change is blocked by a state of the account {account}, or of its subscription"
    )]
    Blocked { account: AccountId },
    #[error("the subscription {subscription} is cancelled already")]
    AlreadyCancelled { subscription: SubscriptionId },
    #[error("the subscription {subscription} is to be cancelled, and cannot be changed")]
    CancelPending { subscription: SubscriptionId },
    /// There is nothing to take back.
    #[error("no cancellation of the subscription {subscription} is to come")]
    NotCancelled { subscription: SubscriptionId },
    /// There is nothing to take back.
    #[error("no change of the subscription {subscription} is to come")]
    NoChangePending { subscription: SubscriptionId },
    /// The catalog's rules forbid it.
    #[error("the catalog's rules do not allow to change from {plan}")]
    ChangeIllegal { plan: String },
    #[error("requestedDate: is before the last change of the subscription {subscription}")]
    BeforeLastTransition { subscription: SubscriptionId },
    #[error("the subscription {subscription} expires before")]
    ExpiresBefore { subscription: SubscriptionId },
    #[error("targetDate: {target} is more than 36 months ahead")]
    TargetTooFar { target: Date },
    #[error("the account cannot be billed: {reason}")]
    CannotBeBilled { reason: Unbillable },
    #[error("there is nothing to invoice")]
    NothingToInvoice,
    #[error("no invoice could be found for id {invoice}")]
    NoSuchInvoice { invoice: InvoiceId },
    #[error("no item could be found for id {item}")]
    NoSuchItem { item: InvoiceItemId },
    /// What is asked for is not to be changed any more.
    #[error(
        "cannot add credit or external charge for invoice id {invoice} because it is already in COMMITTED status"
    )]
    InvoiceCommitted { invoice: InvoiceId },
    #[error("the invoice {invoice} is void")]
    InvoiceVoid { invoice: InvoiceId },
    #[error("the invoice {invoice} is no draft")]
    NoDraft { invoice: InvoiceId },
    #[error("amount: a charge should be above 0")]
    ChargeNotPositive,
    #[error("amount: a credit should be above 0")]
    CreditNotPositive,
    #[error("amount: an adjustment should be above 0")]
    AdjustmentNotPositive,
    #[error(
        "amount: the adjustment should not be above {left}: the rest of the item is taken back, or a payment may take it"
    )]
    AdjustmentTooLarge {
        /// In the currency's decimals.
        left: String,
    },
    /// It is an adjustment itself.
    #[error("the item {item} charges nothing that can be adjusted")]
    NotAdjustable { item: InvoiceItemId },
    #[error("currency: should be {currency}, which the account has")]
    OtherCurrency { currency: Currency },
    /// A payment of it was taken, or may be.
    #[error("the invoice {invoice} has payments, and cannot be voided")]
    InvoicePaid { invoice: InvoiceId },
    #[error("the invoice {invoice} was repaired by a later one, and cannot be voided")]
    InvoiceRepaired { invoice: InvoiceId },
    #[error("the invoice {invoice} gave back days that were charged again, and cannot be voided")]
    DaysChargedAgain { invoice: InvoiceId },
    #[error("the credit of the invoice {invoice} was used, so that it cannot be taken back")]
    CreditUsed { invoice: InvoiceId },
    /// It follows from other items.
    #[error("the credit of the item {item} follows from other items, and cannot be taken back")]
    SystemCredit { item: InvoiceItemId },
    /// An amount is beyond 64 bits.
    #[error("amount: the invoice would be beyond 64 bits")]
    InvoiceTooLarge,
    #[error("the invoice {invoice} is of another account")]
    InvoiceOfAnotherAccount { invoice: InvoiceId },
    /// Only a committed one is paid.
    #[error("the invoice {invoice} is {}, and cannot be paid", status.name())]
    InvoiceNotPayable { invoice: InvoiceId, status: InvoiceStatus },
    /// What is on its way counts as paid.
    #[error(
        "amount: {} is more than is to be paid of the invoice {invoice}: its balance is {}, of which {} is on its way",
        amount.decimal(*currency), balance.decimal(*currency), in_flight.decimal(*currency)
    )]
    AboveBalance {
        invoice: InvoiceId,
        amount: AmountMinor,
        balance: AmountMinor,
        in_flight: AmountMinor,
        currency: Currency,
    },
    /// An entry of a command that subscribes to several plans.
    #[error("entry {entry} of bundle {bundle}: {why}")]
    OfEntry {
        /// From 1, as the other.
        bundle: usize,
        entry: usize,
        why: Box<Rejection>,
    },
}

/// Why a command about users and roles is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AccessRejection {
    /// The name is taken.
    #[error("there is a user {username} already")]
    UserAlreadyExists { username: String },
    /// No such user, or deleted.
    #[error("there is no user {username}")]
    UserNotFound { username: String },
    /// The name is taken.
    #[error("there is a role {role} already")]
    RoleAlreadyExists { role: String },
    /// No such role.
    #[error("there is no role {role}")]
    RoleNotFound { role: String },
    /// Not in [`crate::access::PERMISSIONS`].
    #[error("there is no permission {permission}")]
    PermissionInvalid {
        /// As the request spells it.
        permission: String,
    },
}

/// Why a command about an account, its tags or its payment methods is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AccountRejection {
    /// The external key is taken.
    #[error("there is an account with the key {key} already")]
    AlreadyExists { key: String },
    /// No such account of this tenant.
    #[error("there is no account {id}")]
    NotFound { id: AccountId },
    /// An account's external key cannot change.
    #[error("the account's key stays {current}")]
    KeyIsFixed {
        /// The key it keeps.
        current: String,
    },
    /// A field that cannot change was given another value.
    #[error("{field}: cannot change")]
    FieldIsFixed {
        /// The field, in Kill Bill's spelling.
        field: String,
    },
    /// There is no such definition of a tag.
    #[error("there is no tag definition {id}")]
    TagDefinitionNotFound { id: TagDefinitionId },
    /// The object does not have that tag.
    #[error("there is no tag {name}")]
    TagNotFound {
        /// The tag's name.
        name: String,
    },
    /// An object of this type cannot have that tag.
    #[error("an object of the type {} cannot have the tag {name}", on.name())]
    TagNotApplicable {
        /// The tag's name.
        name: String,
        /// The object's type.
        #[serde(default = "ObjectType::account")]
        on: ObjectType,
    },
    /// An account without a default payment method keeps that tag: nothing could be paid.
    #[error(
        "the tag {name} cannot be removed because the account does not have a default payment method"
    )]
    TagNeedsDefaultMethod {
        /// The tag's name.
        name: String,
    },
    /// The object has no such custom field, or none any more.
    #[error("there is no custom field {id}")]
    CustomFieldNotFound { id: CustomFieldId },
    /// A custom field's name cannot change.
    #[error("the custom field {id} keeps its name")]
    CustomFieldNameIsFixed {
        id: CustomFieldId,
        /// The name that was asked for.
        name: String,
    },
    /// The object would have more than [`crate::account::custom_field::FIELDS_PER_OBJECT_MAX`].
    #[error("there are 100 custom fields at most")]
    TooManyCustomFields,
    /// No such payment method on the account, or deleted.
    #[error("there is no payment method {id}")]
    PaymentMethodNotFound { id: PaymentMethodId },
    /// An account has at most one method of [`crate::EXTERNAL_PAYMENT`].
    #[error("the account {account} has a method of external payment already")]
    ExternalPaymentMethodExists { account: AccountId },
    /// The default payment method is deleted only when the request says so.
    #[error("it is the default payment method of the account {account}")]
    DefaultPaymentMethodInUse { account: AccountId },
    /// The account is closed: no payment starts on it, and it gets no payment method.
    #[error("the account {account} is closed to {}", to.name())]
    Closed {
        account: AccountId,
        /// The kind of request that was refused.
        to: ClosedTo,
    },
}

/// Why a command about a payment is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum PaymentRejection {
    /// No gateway of that name.
    #[error("there is no gateway {gateway}")]
    GatewayNotRegistered { gateway: String },
    /// No such payment of this tenant.
    #[error("there is no payment {payment}")]
    NotFound {
        /// The id or key.
        payment: String,
    },
    /// No such transaction on the payment.
    #[error("there is no transaction {transaction}")]
    TransactionNotFound {
        /// The id or key.
        transaction: String,
    },
    /// The payment belongs to another account.
    #[error("the payment {payment} is another account's")]
    OfAnotherAccount {
        /// The id or key.
        payment: String,
    },
    /// The transaction key is in use by another account.
    #[error("the transaction {key} is another account's")]
    TransactionOfAnotherAccount { key: String },
    /// A transaction of that key succeeded already.
    #[error("a transaction {key} succeeded already")]
    TransactionKeySucceeded { key: String },
    /// No transaction that the request could apply to.
    #[error("the payment {payment} did not succeed")]
    NoSuchSuccess { payment: PaymentId },
    /// The operation may not follow on where the payment stands.
    #[error("{operation:?} may not follow {}", standing(*from))]
    InvalidTransition {
        operation: TransactionType,
        /// Where the payment stands; `None` before any success.
        from: Option<PaymentState>,
    },
    /// A charge of this payment may or may not have happened: nothing else until that is known.
    #[error("{operation:?} has to wait: it is not known yet what became of a transaction before")]
    InDoubt {
        payment: PaymentId,
        /// The operation that was refused.
        operation: TransactionType,
    },
}

/// Why a command about feature flags is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FlagRejection {
    /// The project has an environment of that key.
    #[error("there is an environment {key} already")]
    EnvironmentAlreadyExists { key: String },
    /// No such environment of this tenant.
    #[error("there is no environment {id}")]
    EnvironmentNotFound { id: EnvironmentId },
    /// No such secret of this tenant.
    #[error("there is no secret {id}")]
    SecretNotFound { id: SecretId },
    /// A flag or segment, or the environment as a whole, is not in the version that was expected.
    #[error("{}", current_version(key, *version))]
    DefinitionChanged {
        key: String,
        /// The version that it has; `None` where there is none of that key.
        version: Option<i64>,
    },
    /// Flags and segments of the environment change only by changes that another user has approved.
    #[error("changes of the environment {environment} need another user's approval")]
    ApprovalNeeded {
        /// The environment's key.
        environment: String,
    },
    /// No such change of this tenant.
    #[error("there is no change {id}")]
    ChangeNotFound { id: ChangeRequestId },
    /// A change does not wait for that any more.
    #[error("the change {id} is {}", status.name())]
    ChangeNotWaiting { id: ChangeRequestId, status: ChangeStatus },
    /// A change is approved by another user than its author.
    #[error("the change {id} needs the approval of another user than its author")]
    ApprovalByAuthor { id: ChangeRequestId },
    /// A change is withdrawn by its author.
    #[error("the change {id} is withdrawn by its author only")]
    WithdrawalByAnother { id: ChangeRequestId },
}

/// Why a command about features, offers and what accounts may do is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum EntitlementRejection {
    /// No such feature of this tenant, or archived.
    #[error("there is no feature {key}")]
    FeatureNotFound { key: String },
    /// No such offer of this tenant, or withdrawn.
    #[error("there is no offer {key}")]
    OfferNotFound { key: String },
    /// A feature or an offer is not in the version that was expected.
    #[error("the {what} {}", current_version(key, *version))]
    Changed {
        /// `feature` or `offer`.
        what: String,
        key: String,
        /// The version that it has; `None` where there is none of that key.
        version: Option<i64>,
    },
    /// Another offer is for newcomers.
    #[error("the offer {offer} is for newcomers already")]
    NewcomersHaveOffer { offer: String },
    /// The offer has another version than the buyer saw.
    #[error("the offer {offer} has the version {version}")]
    OfferChanged { offer: String, version: i64 },
    /// The offer has another price than the buyer saw.
    #[error("the offer {offer} costs {price}")]
    PriceChanged {
        offer: String,
        /// The amount and the currency, or `nothing`.
        price: String,
    },
    /// The account buys the offer already, and the outcome is to come.
    #[error("the account buys the offer {offer} already, by the purchase {purchase}")]
    PurchasePending { offer: String, purchase: PurchaseId },
    /// The account has the offer, or had it once.
    #[error(
        "the account has the offer {offer} by the purchase {purchase}, and cannot buy it again"
    )]
    AlreadyBought { offer: String, purchase: PurchaseId },
    /// The offer is for other accounts.
    #[error("the offer {offer} is not for this account: {reason}")]
    NotForAccount { offer: String, reason: String },
    /// The account has as much as an account may have.
    #[error("the account has {most} {what} already")]
    TooMany {
        /// The counted things, in the plural, such as `grants`.
        what: String,
        most: usize,
    },
    /// No such grant of the account, or over.
    #[error("there is no grant {id}")]
    GrantNotFound { id: GrantId },
    /// A purchase's grants end with it.
    #[error("the grant {id} comes from the purchase {purchase}, and ends with it")]
    GrantOfPurchase { id: GrantId, purchase: PurchaseId },
    /// A subscription's grants end with it.
    #[error("the grant {id} comes from the subscription {subscription}, and ends with it")]
    GrantOfSubscription { id: GrantId, subscription: SubscriptionId },
    /// A user's key, which no text quotes, is another account's.
    #[error("{field} is the id, the external key or a user of another account")]
    UserTaken {
        /// Such as `users[7]`.
        field: String,
    },
    /// The account has nothing of the feature.
    #[error("the account has nothing of the feature {feature}")]
    NotEntitled { feature: String },
    /// The account would use more of the feature than it has.
    #[error("the account has {} of the feature {} left", .0.level.left(), .0.feature)]
    LimitReached(Box<Counted>),
    /// The event was counted before.
    #[error("the event was counted before")]
    EventCounted(Box<Counted>),
    /// No such reservation of the account, or forgotten.
    #[error("there is no reservation {id}")]
    ReservationNotFound { id: ReservationId },
    /// The reservation was confirmed or released, or it is over.
    #[error("the reservation {id} is {status}")]
    ReservationEnded {
        id: ReservationId,
        /// `confirmed`, `released` or `expired`.
        status: String,
    },
}

impl EntitlementRejection {
    /// The field of a request that is refused, in the spelling of `/v1`.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::FeatureNotFound { .. } | Self::NotEntitled { .. } => Some("feature"),
            Self::LimitReached(_) => Some("quantity"),
            Self::EventCounted(_) => Some("eventId"),
            Self::UserTaken { field } => Some(field),
            Self::OfferNotFound { .. }
            | Self::Changed { .. }
            | Self::NewcomersHaveOffer { .. }
            | Self::OfferChanged { .. }
            | Self::PriceChanged { .. }
            | Self::PurchasePending { .. }
            | Self::AlreadyBought { .. }
            | Self::NotForAccount { .. }
            | Self::TooMany { .. }
            | Self::GrantNotFound { .. }
            | Self::GrantOfPurchase { .. }
            | Self::GrantOfSubscription { .. }
            | Self::ReservationNotFound { .. }
            | Self::ReservationEnded { .. } => None,
        }
    }
}

impl AccountRejection {
    /// Whether its text has an account's key or a field's name, which may say something of a person.
    const fn is_personal(&self) -> bool {
        match self {
            Self::AlreadyExists { .. }
            | Self::KeyIsFixed { .. }
            | Self::CustomFieldNameIsFixed { .. } => true,
            Self::NotFound { .. }
            | Self::FieldIsFixed { .. }
            | Self::TagDefinitionNotFound { .. }
            | Self::TagNotFound { .. }
            | Self::TagNotApplicable { .. }
            | Self::TagNeedsDefaultMethod { .. }
            | Self::CustomFieldNotFound { .. }
            | Self::TooManyCustomFields
            | Self::PaymentMethodNotFound { .. }
            | Self::ExternalPaymentMethodExists { .. }
            | Self::DefaultPaymentMethodInUse { .. }
            | Self::Closed { .. } => false,
        }
    }
}

impl Rejection {
    /// Whether its text may say something of a person. It is not stored, where erasure would not reach it:
    /// an account's key stays taken and does not change, so that the command is refused again as well.
    #[must_use]
    pub fn is_personal(&self) -> bool {
        match self {
            Self::Account(it) => it.is_personal(),
            Self::Billing(BillingRejection::BundleKeyInUse { .. }) => true,
            Self::Billing(BillingRejection::OfEntry { why, .. }) => why.is_personal(),
            Self::Billing(_)
            | Self::Tenant(_)
            | Self::Access(_)
            | Self::Flag(_)
            | Self::Customer(_)
            | Self::Payment(_)
            | Self::Entitlement(_)
            | Self::InvalidParameter { .. } => false,
        }
    }

    /// [`Rejection::InvalidParameter`] with a fixed reason.
    #[must_use]
    pub fn invalid(field: &str, reason: &str) -> Self {
        Self::InvalidParameter { field: field.to_owned(), reason: reason.to_owned() }
    }
}

/// Where a payment stands, as a refusal of its next operation says it.
fn standing(from: Option<PaymentState>) -> String {
    match from {
        Some(PaymentState { operation, status }) => {
            format!("where the payment stands at {operation:?} {status:?}")
        }
        None => "on a payment that has no success".to_owned(),
    }
}

fn current_version(key: &str, version: Option<i64>) -> String {
    match version {
        Some(version) => format!("{key} is in the version {version}"),
        None => format!("there is no {key}"),
    }
}
