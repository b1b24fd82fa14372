//! What commands look at: the rows that a batch loaded, with what its commands changed since.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::access::{Role, User};
use crate::account::{Account, Person};
use crate::change_request::ChangeRequest;
use crate::customer::{Customer, CustomerFile, Session};
use crate::definition::{Definition, DefinitionKey};
use crate::environment::{Environment, Secret};
use crate::ledger::Posting;
use crate::mail::Mail;
use crate::operation::Operation;
use crate::payment::{Outstanding, Payment, PaymentFile, ReplyKey, Transaction};
use crate::payment_method::PaymentMethod;
use crate::tag::{Tag, TagKey};
use crate::tenant::{Tenant, TenantValue};
use crate::{
    AccountId, ChangeRequestId, CustomerId, EnvironmentId, OperationId, PaymentId, PaymentMethodId,
    Reply, SecretId, SessionId, TenantNo, Timestamp, TransactionId,
};

/// What a claimed key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ClaimKind {
    /// A tenant's API key.
    TenantApiKey,
    /// A tenant's id.
    TenantId,
    /// An account's external key.
    Account,
    /// A payment method's external key.
    PaymentMethod,
    /// A payment's external key.
    Payment,
    /// A transaction's external key; its owner is the payment.
    Transaction,
    /// An environment's name: its project's key, a slash, its own key.
    Environment,
    /// A customer's e-mail address.
    CustomerEmail,
}

/// A name that at most one thing of a tenant may have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimKey {
    /// Whose.
    pub tenant: TenantNo,
    /// Among which things.
    pub kind: ClaimKind,
    /// The name.
    pub key: String,
}

impl ClaimKey {
    /// The claim on `key` among the tenant's things of this kind.
    #[must_use]
    pub fn new(tenant: TenantNo, kind: ClaimKind, key: &str) -> Self {
        Self { tenant, kind, key: key.to_owned() }
    }
}

/// Who has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The thing's id; for a transaction key, its payment's.
    pub owner: Uuid,
    /// The account it belongs to.
    pub account: Option<AccountId>,
}

/// One row written. Most rows are after-images: the whole entity as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A tenant.
    Tenant(Tenant),
    /// A tenant's stored value.
    TenantValue(TenantValue),
    /// A user.
    User(User),
    /// A role.
    Role(Role),
    /// An environment of feature flags.
    Environment(Environment),
    /// A secret of an environment.
    Secret(Secret),
    /// A feature flag or a segment.
    Definition(Definition),
    /// A change of one that is kept for later.
    ChangeRequest(ChangeRequest),
    /// An account.
    Account(Account),
    /// Personal data, from this revision of the account on.
    Person {
        /// Whose.
        account: AccountId,
        /// What is known now.
        person: Box<Person>,
    },
    /// Somebody who signed up.
    Customer(Customer),
    /// Nothing is known of a person any more, nor ever was: all revisions of what their account said
    /// of them, and their mails, are deleted.
    PersonForgotten {
        /// Whose account.
        account: AccountId,
        /// Who.
        customer: CustomerId,
    },
    /// A customer is logged in, or their session's tokens were renewed.
    Session(Session),
    /// A session has ended.
    SessionEnded {
        /// Which.
        session: SessionId,
        /// Whose.
        customer: CustomerId,
    },
    /// A mail to be sent.
    Mail(Mail),
    /// What a client is told the end of later.
    Operation(Operation),
    /// A tag on an account.
    Tag(Tag),
    /// A payment method.
    PaymentMethod(PaymentMethod),
    /// A payment.
    Payment(Payment),
    /// A transaction.
    Transaction(Transaction),
    /// A posting; only ever added.
    Posting(Posting),
    /// A key taken, or handed to a new owner.
    Claim {
        /// The key.
        key: ClaimKey,
        /// Its owner.
        claim: Claim,
    },
    /// A key that nobody has any more.
    ClaimReleased {
        /// The key.
        key: ClaimKey,
    },
    /// An outcome to wait for.
    Outstanding(Outstanding),
    /// An outcome no longer waited for.
    OutstandingClosed {
        /// The transaction.
        transaction: TransactionId,
    },
    /// The final reply to an earlier request.
    ReplySettled {
        /// Which request.
        key: ReplyKey,
        /// The reply.
        reply: Reply,
        /// When it may be forgotten: the time that it is kept starts when it is known.
        expires_at: Timestamp,
    },
}

/// A row that a command may look at. Loading one loads what belongs to it: an account comes with
/// its person and default payment method; a payment method with its account; a payment with its
/// transactions, their outstanding outcomes and payment methods, its account and its payment method; a
/// claim with what its owner is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// By id.
    Account(TenantNo, AccountId),
    /// By id.
    PaymentMethod(TenantNo, PaymentMethodId),
    /// By key.
    Tag(TenantNo, TagKey),
    /// By id.
    Payment(TenantNo, PaymentId),
    /// A transaction by id; it comes with its payment.
    Transaction(TenantNo, TransactionId),
    /// By key.
    Claim(ClaimKey),
    /// By key.
    TenantValue(TenantNo, String),
    /// By name.
    User(String),
    /// By name.
    Role(String),
    /// By id.
    Environment(TenantNo, EnvironmentId),
    /// By id.
    Secret(TenantNo, SecretId),
    /// By key.
    Definition(TenantNo, DefinitionKey),
    /// By id.
    ChangeRequest(TenantNo, ChangeRequestId),
    /// By id; with their sessions.
    Customer(TenantNo, CustomerId),
    /// By id.
    Operation(TenantNo, OperationId),
}

/// The rows of a batch. A row that was looked for and is not there is present as `None`; a look at
/// a row that nobody loaded is a bug and panics.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Accounts by id.
    pub accounts: BTreeMap<(TenantNo, AccountId), Option<Account>>,
    /// Personal data by account.
    pub people: BTreeMap<(TenantNo, AccountId), Person>,
    /// Payment methods by id.
    pub payment_methods: BTreeMap<(TenantNo, PaymentMethodId), Option<PaymentMethod>>,
    /// Tags on accounts by key.
    pub tags: BTreeMap<(TenantNo, TagKey), Option<Tag>>,
    /// Payments by id.
    pub payments: BTreeMap<(TenantNo, PaymentId), Option<PaymentFile>>,
    /// The payments of transactions that were looked for by id.
    pub transactions: BTreeMap<(TenantNo, TransactionId), Option<PaymentId>>,
    /// Outcomes waited for, of the payments here.
    pub outstanding: BTreeMap<(TenantNo, TransactionId), Outstanding>,
    /// Claims by key.
    pub claims: BTreeMap<ClaimKey, Option<Claim>>,
    /// Tenants' values by key.
    pub tenant_values: BTreeMap<(TenantNo, String), Option<TenantValue>>,
    /// Users by name.
    pub users: BTreeMap<String, Option<User>>,
    /// Roles by name.
    pub roles: BTreeMap<String, Option<Role>>,
    /// Environments by id.
    pub environments: BTreeMap<(TenantNo, EnvironmentId), Option<Environment>>,
    /// Secrets of environments by id.
    pub secrets: BTreeMap<(TenantNo, SecretId), Option<Secret>>,
    /// Flags and segments by key.
    pub definitions: BTreeMap<(TenantNo, DefinitionKey), Option<Definition>>,
    /// Changes that are kept for later, by id.
    pub change_requests: BTreeMap<(TenantNo, ChangeRequestId), Option<ChangeRequest>>,
    /// Customers by id, with their sessions.
    pub customers: BTreeMap<(TenantNo, CustomerId), Option<CustomerFile>>,
    /// Operations by id.
    pub operations: BTreeMap<(TenantNo, OperationId), Option<Operation>>,
}

const LOADED: &str = "a command's reads are loaded before it is executed";

impl State {
    pub(crate) fn account(&self, tenant: TenantNo, id: AccountId) -> Option<&Account> {
        self.accounts.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    /// The account whose id is `key`, where it has no other key.
    pub(crate) fn defaulted_account(&self, tenant: TenantNo, key: &str) -> Option<&Account> {
        let id = AccountId::new(Uuid::try_parse(key).ok()?);
        self.account(tenant, id).filter(|account| account.external_key.is_none())
    }

    pub(crate) fn person(&self, tenant: TenantNo, id: AccountId) -> Person {
        self.people.get(&(tenant, id)).cloned().unwrap_or_default()
    }

    pub(crate) fn payment_method(
        &self,
        tenant: TenantNo,
        id: PaymentMethodId,
    ) -> Option<&PaymentMethod> {
        self.payment_methods.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn tag(&self, tenant: TenantNo, key: TagKey) -> Option<&Tag> {
        self.tags.get(&(tenant, key)).expect(LOADED).as_ref()
    }

    pub(crate) fn payment(&self, tenant: TenantNo, id: PaymentId) -> Option<&PaymentFile> {
        self.payments.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    /// The payment whose id is `key`, where it has no other key, and its account.
    pub(crate) fn defaulted_payment(
        &self,
        tenant: TenantNo,
        key: &str,
    ) -> Option<(PaymentId, Option<AccountId>)> {
        let id = PaymentId::new(Uuid::try_parse(key).ok()?);
        let payment = &self.payment(tenant, id)?.payment;
        payment.external_key.is_none().then_some((id, Some(payment.account_id)))
    }

    /// The payment with the transaction whose id is `key`, where that has no other key.
    pub(crate) fn defaulted_transaction(
        &self,
        tenant: TenantNo,
        key: &str,
    ) -> Option<&PaymentFile> {
        let id = TransactionId::minted(key)?;
        let payment = self.transactions.get(&(tenant, id)).expect(LOADED);
        let file = self.payment(tenant, (*payment)?)?;
        file.transaction(id).filter(|it| it.external_key.is_none()).map(|_| file)
    }

    pub(crate) fn outstanding(&self, tenant: TenantNo, id: TransactionId) -> Option<&Outstanding> {
        self.outstanding.get(&(tenant, id))
    }

    pub(crate) fn claim(&self, key: &ClaimKey) -> Option<&Claim> {
        self.claims.get(key).expect(LOADED).as_ref()
    }

    pub(crate) fn tenant_value(&self, tenant: TenantNo, key: &str) -> Option<&TenantValue> {
        self.tenant_values.get(&(tenant, key.to_owned())).expect(LOADED).as_ref()
    }

    pub(crate) fn user(&self, username: &str) -> Option<&User> {
        self.users.get(username).expect(LOADED).as_ref()
    }

    pub(crate) fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name).expect(LOADED).as_ref()
    }

    pub(crate) fn environment(&self, tenant: TenantNo, id: EnvironmentId) -> Option<&Environment> {
        self.environments.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn secret(&self, tenant: TenantNo, id: SecretId) -> Option<&Secret> {
        self.secrets.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn definition(&self, tenant: TenantNo, key: &DefinitionKey) -> Option<&Definition> {
        self.definitions.get(&(tenant, key.clone())).expect(LOADED).as_ref()
    }

    pub(crate) fn change_request(
        &self,
        tenant: TenantNo,
        id: ChangeRequestId,
    ) -> Option<&ChangeRequest> {
        self.change_requests.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn customer(&self, tenant: TenantNo, id: CustomerId) -> Option<&CustomerFile> {
        self.customers.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn operation(&self, tenant: TenantNo, id: OperationId) -> Option<&Operation> {
        self.operations.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    /// Makes a command's changes visible to the commands after it in the batch.
    pub fn apply(&mut self, tenant: TenantNo, changes: &[Change]) {
        for change in changes {
            match change {
                Change::TenantValue(it) => {
                    self.tenant_values.insert((it.tenant, it.key.clone()), Some(it.clone()));
                }
                Change::User(it) => {
                    self.users.insert(it.username.clone(), Some(it.clone()));
                }
                Change::Role(it) => {
                    self.roles.insert(it.name.clone(), Some(it.clone()));
                }
                Change::Environment(it) => {
                    self.environments.insert((it.tenant, it.id), Some(it.clone()));
                }
                Change::Secret(it) => {
                    self.secrets.insert((it.tenant, it.id), Some(it.clone()));
                }
                Change::Definition(it) => {
                    self.definitions.insert((it.tenant, it.key.clone()), Some(it.clone()));
                }
                Change::ChangeRequest(it) => {
                    self.change_requests.insert((it.tenant, it.id), Some(it.clone()));
                }
                Change::Account(it) => {
                    self.accounts.insert((it.tenant, it.id), Some(it.clone()));
                }
                Change::Person { account, person } => {
                    self.people.insert((tenant, *account), (**person).clone());
                }
                Change::Customer(it) => self.apply_customer(it),
                Change::PersonForgotten { account, .. } => {
                    self.people.remove(&(tenant, *account));
                }
                Change::Session(it) => self.apply_session(it),
                Change::SessionEnded { session, customer } => {
                    if let Some(Some(file)) = self.customers.get_mut(&(tenant, *customer)) {
                        file.sessions.retain(|own| own.id != *session);
                    }
                }
                Change::Operation(it) => {
                    self.operations.insert((it.tenant, it.id), Some(it.clone()));
                }
                Change::PaymentMethod(it) => {
                    self.payment_methods.insert((it.tenant, it.id), Some(it.clone()));
                }
                Change::Tag(it) => {
                    self.tags.insert((it.tenant, it.key), Some(it.clone()));
                }
                Change::Payment(it) => self.apply_payment(it),
                Change::Transaction(it) => self.apply_transaction(it),
                Change::Claim { key, claim } => {
                    self.claims.insert(key.clone(), Some(*claim));
                }
                Change::ClaimReleased { key } => {
                    self.claims.insert(key.clone(), None);
                }
                Change::Outstanding(it) => {
                    self.outstanding.insert((it.tenant, it.transaction_id), it.clone());
                }
                Change::OutstandingClosed { transaction } => {
                    self.outstanding.remove(&(tenant, *transaction));
                }
                Change::Tenant(_)
                | Change::Mail(_)
                | Change::Posting(_)
                | Change::ReplySettled { .. } => {}
            }
        }
    }

    fn apply_customer(&mut self, customer: &Customer) {
        let slot = self.customers.entry((customer.tenant, customer.id)).or_default();
        match slot {
            Some(file) => file.customer = customer.clone(),
            None => *slot = Some(CustomerFile { customer: customer.clone(), sessions: vec![] }),
        }
    }

    fn apply_session(&mut self, session: &Session) {
        let key = (session.tenant, session.customer);
        let slot = self.customers.get_mut(&key).and_then(Option::as_mut);
        let file = slot.expect("a session is changed with its customer");
        match file.sessions.iter_mut().find(|own| own.id == session.id) {
            Some(known) => *known = session.clone(),
            None => file.sessions.push(session.clone()),
        }
    }

    fn apply_payment(&mut self, payment: &Payment) {
        let slot = self.payments.entry((payment.tenant, payment.id)).or_default();
        match slot {
            Some(file) => file.payment = payment.clone(),
            None => *slot = Some(PaymentFile { payment: payment.clone(), transactions: vec![] }),
        }
    }

    fn apply_transaction(&mut self, transaction: &Transaction) {
        let key = (transaction.tenant, transaction.payment_id);
        let slot = self.payments.get_mut(&key).and_then(Option::as_mut);
        let file = slot.expect("a transaction is changed with its payment");
        match file.transactions.iter_mut().find(|it| it.id == transaction.id) {
            Some(known) => *known = transaction.clone(),
            None => file.transactions.push(transaction.clone()),
        }
    }
}
