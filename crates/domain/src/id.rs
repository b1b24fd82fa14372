//! Identifiers: typed UUIDs that a retry of the same request makes again.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A UUID that names one kind of thing; ids of different kinds do not mix.
pub struct Id<K>(Uuid, PhantomData<fn() -> K>);

/// The kinds an [`Id`] can have. Never constructed.
pub mod kind {
    pub enum Tenant {}
    /// A customer's billing account.
    pub enum Account {}
    /// A state that a service recorded for an account.
    pub enum BlockingState {}
    /// A means of payment on an account.
    pub enum PaymentMethod {}
    /// A tag on an account.
    pub enum Tag {}
    /// The definition of a tag: its name and its description.
    pub enum TagDefinition {}
    /// A name and a value on an account or on what belongs to it.
    pub enum CustomField {}
    /// A payment: one or more transactions under one key.
    pub enum Payment {}
    /// One operation on a payment.
    pub enum Transaction {}
    /// A controlled call that starts a payment.
    pub enum Attempt {}
    /// A stored value of a tenant, such as its notification callback.
    pub enum TenantValue {}
    /// A version of a tenant's catalog.
    pub enum CatalogVersion {}
    /// An environment of feature flags.
    pub enum Environment {}
    /// A secret of an environment.
    pub enum Secret {}
    /// A feature flag or a segment.
    pub enum Definition {}
    /// A change of a flag or a segment that is kept for later.
    pub enum ChangeRequest {}
    /// Somebody who signed up.
    pub enum Customer {}
    /// A customer who is logged in.
    pub enum Session {}
    /// A token that was mailed.
    pub enum Token {}
    pub enum Mail {}
    /// An asynchronous operation.
    pub enum Operation {}
    /// Where a tenant receives events.
    pub enum WebhookEndpoint {}
    /// Money of a payment that the customer's bank takes back.
    pub enum Dispute {}
    /// An offer that an account bought.
    pub enum Purchase {}
    /// A feature that an account has for a time.
    pub enum Grant {}
    /// A part of a limit that is kept for something.
    pub enum Reservation {}
    /// Subscriptions that belong together.
    pub enum Bundle {}
    /// A plan that an account has.
    pub enum Subscription {}
    pub enum Invoice {}
    /// A line of an invoice.
    pub enum InvoiceItem {}
}

/// Names a tenant to the outside. Inside, rows carry the shorter [`TenantNo`].
pub type TenantId = Id<kind::Tenant>;
/// Names an account.
pub type AccountId = Id<kind::Account>;
/// Names a blocking state.
pub type BlockingStateId = Id<kind::BlockingState>;
/// Names a payment method.
pub type PaymentMethodId = Id<kind::PaymentMethod>;
/// Names a tag.
pub type TagId = Id<kind::Tag>;
/// Names what a tag says.
pub type TagDefinitionId = Id<kind::TagDefinition>;
/// Names a custom field.
pub type CustomFieldId = Id<kind::CustomField>;
/// Names a payment.
pub type PaymentId = Id<kind::Payment>;
/// Names a payment transaction; also the idempotency key towards the gateway.
pub type TransactionId = Id<kind::Transaction>;
/// Names the attempt of a controlled call.
pub type AttemptId = Id<kind::Attempt>;
/// Names one stored value of a tenant.
pub type TenantValueId = Id<kind::TenantValue>;
/// Names a version of a tenant's catalog.
pub type CatalogVersionId = Id<kind::CatalogVersion>;
/// Names an environment; in its secrets, and as FeatBit's `envId`.
pub type EnvironmentId = Id<kind::Environment>;
/// Names a secret of an environment.
pub type SecretId = Id<kind::Secret>;
/// Names a feature flag or a segment.
pub type DefinitionId = Id<kind::Definition>;
/// Names a change that is kept for later.
pub type ChangeRequestId = Id<kind::ChangeRequest>;
/// Names a customer.
pub type CustomerId = Id<kind::Customer>;
/// Names a customer's session.
pub type SessionId = Id<kind::Session>;
/// Names a token that was mailed; the token is derived from it.
pub type TokenId = Id<kind::Token>;
/// Names a mail.
pub type MailId = Id<kind::Mail>;
/// Names an operation.
pub type OperationId = Id<kind::Operation>;
/// Names a webhook endpoint.
pub type WebhookEndpointId = Id<kind::WebhookEndpoint>;
/// Names a dispute.
pub type DisputeId = Id<kind::Dispute>;
/// Names a purchase.
pub type PurchaseId = Id<kind::Purchase>;
/// Names a grant.
pub type GrantId = Id<kind::Grant>;
/// Names a reservation.
pub type ReservationId = Id<kind::Reservation>;
/// Names a bundle.
pub type BundleId = Id<kind::Bundle>;
/// Names a subscription.
pub type SubscriptionId = Id<kind::Subscription>;
/// Names an invoice.
pub type InvoiceId = Id<kind::Invoice>;
/// Names an item of an invoice.
pub type InvoiceItemId = Id<kind::InvoiceItem>;

impl<K> Id<K> {
    /// Takes a UUID as it is, for ids that come from a client or from storage.
    #[must_use]
    pub const fn new(uuid: Uuid) -> Self {
        Self(uuid, PhantomData)
    }

    /// The id that a text is, where it is one that was minted here: a UUID of version 7.
    pub(crate) fn minted(text: &str) -> Option<Self> {
        let uuid = Uuid::try_parse(text).ok().filter(|uuid| uuid.get_version_num() == 7)?;
        Some(Self::new(uuid))
    }

    /// The UUID behind the id.
    #[must_use]
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Id<K> {}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}
impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<K> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
impl<K> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
impl<'de, K> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Uuid::deserialize(deserializer).map(Self::new)
    }
}

/// A tenant's number on this installation: small, so that every row can carry it first in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantNo(pub u32);

impl TenantNo {
    /// The number on rows of the installation itself: users, roles, the tenants' own rows.
    pub const SYSTEM: Self = Self(0);
}

/// Names one request. Minted by the API as UUID v7; what the request creates is named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub Uuid);

impl RequestId {
    /// The id of the `ordinal`-th thing that this request creates: the request's 48 bits of time,
    /// then a hash of (request id, ordinal). A retry makes the same ids, and keys stay nearly
    /// sequential in storage (RFC 9562, version 7, for the layout).
    #[must_use]
    pub fn entity<K>(self, ordinal: u32) -> Id<K> {
        let (high, low) = self.0.as_u64_pair();
        let mixed_low = mix(low ^ mix(u64::from(ordinal) + 1));
        let mixed_high = mix(high ^ mixed_low);
        let time_and_version = (high & 0xffff_ffff_ffff_0000) | 0x7000 | (mixed_high & 0x0fff);
        let variant_and_rest = 0x8000_0000_0000_0000 | (mixed_low >> 2);
        Id::new(Uuid::from_u64_pair(time_and_version, variant_and_rest))
    }
}

/// The finalizer of splitmix64: every output bit depends on every input bit, and no two inputs meet.
#[must_use]
pub const fn mix(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_ids_repeat_for_a_retry_and_keep_the_time() {
        let request = RequestId(Uuid::from_u128(0x0192_aabb_ccdd_7123_9456_789a_bcde_f012));
        let first: PaymentId = request.entity(0);
        assert_eq!(first, request.entity(0));
        assert_ne!(first, request.entity(1));
        assert_eq!(first.uuid().as_u128() >> 80, 0x0192_aabb_ccdd);
        assert_eq!(first.uuid().get_version_num(), 7);
    }

    /// Stored ids follow from requests, so that these may not change.
    #[test]
    fn entity_ids_are_those_of_earlier_builds() {
        let request = RequestId(Uuid::from_u128(0x0192_aabb_ccdd_7123_9456_789a_bcde_f012));
        let id = |ordinal| request.entity::<kind::Payment>(ordinal).uuid().as_u128();
        assert_eq!(id(0), 0x0192_aabb_ccdd_7361_bf33_ead4_081d_b20e);
        assert_eq!(id(255), 0x0192_aabb_ccdd_7917_87dc_a960_b951_1374);
        assert_eq!(id(256), 0x0192_aabb_ccdd_743a_b6a4_2315_2dd1_93c0);
    }
}
