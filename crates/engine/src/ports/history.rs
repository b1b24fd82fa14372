//! Reads of the states that entities had.

use domain::change::Change;
use domain::import::AuditKind;
use domain::payment::Actor;
use domain::{
    AccountEmailId, AccountId, AttemptId, BlockingStateId, CustomFieldId, PaymentId,
    PaymentMethodId, Person, Seq, TagDefinitionId, TagId, TenantNo, Timestamp, TransactionId,
};
use uuid::Uuid;

use super::StoreError;

/// Reads of the states that entities had.
pub trait HistoryQueries: Send + Sync {
    /// The history of one entity, oldest first; empty where there is no such entity.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn history(&self, no: TenantNo, of: HistoryOf) -> Result<Vec<HistoryRow>, StoreError>;
    /// The histories of an account and of all that belongs to it, each oldest first: the account,
    /// its payment methods, its payments, their transactions, its attempts; at most `limit` rows.
    fn account_histories(
        &self,
        no: TenantNo,
        account: AccountId,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError>;
}

/// The entity whose history is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryOf {
    Account(AccountId),
    AccountEmail(AccountEmailId),
    BlockingState(BlockingStateId),
    Tag(TagId),
    TagDefinition(TagDefinitionId),
    CustomField(CustomFieldId),
    PaymentMethod(PaymentMethodId),
    Payment(PaymentId),
    Transaction(TransactionId),
    PaymentAttempt(AttemptId),
}

impl HistoryOf {
    /// The entity's id.
    #[must_use]
    pub const fn id(self) -> Uuid {
        match self {
            Self::Account(id) => id.uuid(),
            Self::AccountEmail(id) => id.uuid(),
            Self::BlockingState(id) => id.uuid(),
            Self::Tag(id) => id.uuid(),
            Self::TagDefinition(id) => id.uuid(),
            Self::CustomField(id) => id.uuid(),
            Self::PaymentMethod(id) => id.uuid(),
            Self::Payment(id) => id.uuid(),
            Self::Transaction(id) => id.uuid(),
            Self::PaymentAttempt(id) => id.uuid(),
        }
    }
}

/// One state that an entity had.
#[derive(Clone, Debug)]
pub struct HistoryRow {
    /// The journal row.
    pub seq: Seq,
    pub at: Timestamp,
    pub actor: Actor,
    /// The entity as it was: `Account`, `AccountEmail`, `BlockingState`, `Tag`, `TagDefinition`, `CustomField`, `PaymentMethod`, `Payment`, `Transaction`, `PaymentAttempt` or `Definition`, with the
    /// fields that are kept out of the journal filled in from its table.
    pub image: Change,
    /// For an account: what was known of the person then.
    pub person: Option<Person>,
    /// Set for an entry of another system's audit log. The image is that of the import then.
    pub imported: Option<AuditKind>,
}
