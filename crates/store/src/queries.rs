//! Reads of committed rows: the engine's port, over a bounded pool of read-only connections.
//!
//! One file per resource below; each function there reads with one [`Reader`].

mod access;
mod accounts;
mod changes;
mod customers;
mod flags;
mod followers;
mod history;
mod ledger;
mod payment_methods;
mod payments;
mod tags;
mod unresolved;
mod window;

use std::path::Path;
use std::sync::Arc;

use domain::access::{Role, User};
use domain::change_request::{ChangeRequest, ChangeStatus};
use domain::customer::{Customer, CustomerFile, Session};
use domain::definition::{Definition, DefinitionKey};
use domain::environment::{Environment, Secret};
use domain::mail::Mail;
use domain::operation::Operation;
use domain::payment::{Outstanding, PaymentFile, PaymentState, ReplyKey};
use domain::state::ClaimKind;
use domain::tag::Tag;
use domain::tenant::{Tenant, TenantValue};
use domain::{
    AccountId, ChangeRequestId, CustomerId, EnvironmentId, MailId, OperationId, PartitionNo,
    PaymentId, PaymentMethodId, Seq, SessionId, TenantId, TenantNo, Timestamp, TransactionId,
};
use engine::insights::{FlagCount, Hours, MetricCount};
use engine::ports::{
    AccountView, Backlog, Delivery, EnvironmentFile, HistoryOf, HistoryRow, JournalRow,
    LedgerEntry, LedgerFilter, LedgerTotal, MethodView, Over, Page, Paged, Queries, StoreError,
    Unresolved, UnresolvedCount,
};

pub(crate) use self::customers::endings;
pub(crate) use self::followers::journal_head;
use self::window::Key;
pub(crate) use self::window::limit_offset;
use crate::claims::{Claims, RecentClaims};
use crate::insights;
use crate::pool::{ReaderPool, Source};
use crate::{Options, Reader, Server};

/// The port's implementation.
pub struct SqlQueries {
    pool: Arc<ReaderPool>,
    claims: Arc<RecentClaims>,
    partition: PartitionNo,
}

impl SqlQueries {
    /// Reads the database at `path` with at most `readers_max` connections. Finding what has a key
    /// is slow; in the process that writes, see [`crate::SqlStore::queries`].
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn open(path: &Path, options: &Options, readers_max: usize) -> Result<Self, StoreError> {
        Self::open_source(Source::File(path.to_owned(), *options), readers_max)
    }

    /// [`SqlQueries::open`] of a database in a file or on a server, where a key is found at once.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn open_source(source: Source, readers_max: usize) -> Result<Self, StoreError> {
        Self::beside(Arc::default(), source, readers_max)
    }

    /// Reads the database of a server with at most `readers_max` connections.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be reached.
    pub fn of_server(server: &Server, readers_max: usize) -> Result<Self, StoreError> {
        // Claims are put into their table at once there.
        let claims = Claims::new(None);
        Self::beside(Arc::clone(claims.recent()), Source::Server(server.clone()), readers_max)
    }

    /// Reads beside the writer, whose recent claims are `claims`.
    pub(crate) fn beside(
        claims: Arc<RecentClaims>,
        source: Source,
        readers_max: usize,
    ) -> Result<Self, StoreError> {
        let pool = Arc::new(ReaderPool::open(source, readers_max)?);
        Ok(Self { pool, claims, partition: PartitionNo::FIRST })
    }

    /// The same, of another partition.
    #[must_use]
    pub fn of(&self, partition: PartitionNo) -> Self {
        let (pool, claims) = (Arc::clone(&self.pool), Arc::clone(&self.claims));
        Self { pool, claims, partition }
    }

    /// Begins to look for what has a key; before the snapshot begins.
    fn seek<'k>(&self, no: TenantNo, kind: ClaimKind, key: &'k str) -> Key<'k> {
        Key::seek(&self.claims, (no, kind), key)
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.pool.read(query)
    }

    /// Several statements that must see the same state of the database.
    fn snapshot<T>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.pool.read(|reader| reader.snapshot(query))
    }
}

impl Queries for SqlQueries {
    fn tenant_by_api_key(&self, api_key: &str) -> Result<Option<Tenant>, StoreError> {
        self.read(|reader| access::tenant_by_api_key(reader, api_key))
    }

    fn tenant_named(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        self.read(|reader| access::tenant_named(reader, name))
    }

    fn tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        self.read(|reader| access::tenant(reader, id))
    }

    fn tenant_by_no(&self, no: TenantNo) -> Result<Option<Tenant>, StoreError> {
        self.read(|reader| access::tenant_by_no(reader, no))
    }

    fn tenant_count(&self) -> Result<i64, StoreError> {
        self.read(access::tenant_count)
    }

    fn is_value_in_use(&self, key: &str) -> Result<bool, StoreError> {
        self.read(|reader| access::is_value_in_use(reader, key))
    }

    fn tenant_value(&self, no: TenantNo, key: &str) -> Result<Option<TenantValue>, StoreError> {
        self.read(|reader| access::tenant_value(reader, no, key))
    }

    fn user(&self, username: &str) -> Result<Option<User>, StoreError> {
        self.read(|reader| access::user(reader, username))
    }

    fn role(&self, name: &str) -> Result<Option<Role>, StoreError> {
        self.read(|reader| access::role(reader, name))
    }

    fn roles(&self) -> Result<Vec<Role>, StoreError> {
        self.read(access::roles)
    }

    fn environments(&self, no: TenantNo) -> Result<Vec<Environment>, StoreError> {
        self.read(|reader| flags::environments(reader, no))
    }

    fn environment_by_key(
        &self,
        no: TenantNo,
        project: &str,
        key: &str,
    ) -> Result<Option<Environment>, StoreError> {
        self.read(|reader| flags::environment_by_key(reader, no, project, key))
    }

    fn secrets(&self, no: TenantNo) -> Result<Vec<Secret>, StoreError> {
        self.read(|reader| flags::secrets(reader, no))
    }

    fn environments_changed(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Environment>, StoreError> {
        self.read(|reader| flags::environments_changed(reader, after, limit))
    }

    fn environment_file(
        &self,
        no: TenantNo,
        id: EnvironmentId,
        newer_than: Option<i64>,
    ) -> Result<Option<EnvironmentFile>, StoreError> {
        self.snapshot(|reader| flags::environment_file(reader, no, id, newer_than))
    }

    fn definitions(
        &self,
        no: TenantNo,
        environment: EnvironmentId,
    ) -> Result<Vec<Definition>, StoreError> {
        self.read(|reader| flags::definitions(reader, no, environment))
    }

    fn definition(
        &self,
        no: TenantNo,
        key: &DefinitionKey,
    ) -> Result<Option<Definition>, StoreError> {
        self.read(|reader| flags::definition(reader, no, key))
    }

    fn definition_history(
        &self,
        no: TenantNo,
        key: &DefinitionKey,
        page: Page,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.snapshot(|reader| history::of_definition(reader, no, key, page))
    }

    fn change_request(
        &self,
        no: TenantNo,
        id: ChangeRequestId,
    ) -> Result<Option<ChangeRequest>, StoreError> {
        self.read(|reader| changes::by_id(reader, no, id))
    }

    fn change_requests(
        &self,
        no: TenantNo,
        environment: EnvironmentId,
        status: Option<ChangeStatus>,
        page: Page,
    ) -> Result<Vec<ChangeRequest>, StoreError> {
        self.read(|reader| changes::of_environment(reader, (no, environment), status, page))
    }

    fn change_requests_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, ChangeRequestId)>,
        limit: usize,
    ) -> Result<Vec<ChangeRequest>, StoreError> {
        self.read(|reader| changes::due(reader, now, after, limit))
    }

    fn flag_insights(
        &self,
        place: (TenantNo, EnvironmentId),
        flag: &str,
        hours: Hours,
        page: Page,
    ) -> Result<Vec<FlagCount>, StoreError> {
        self.read(|reader| insights::of_flag(reader, place, flag, hours, page))
    }

    fn metric_insights(
        &self,
        place: (TenantNo, EnvironmentId),
        event: &str,
        hours: Hours,
        page: Page,
    ) -> Result<Vec<MetricCount>, StoreError> {
        self.read(|reader| insights::of_metric(reader, place, event, hours, page))
    }

    fn customer(&self, no: TenantNo, id: CustomerId) -> Result<Option<Customer>, StoreError> {
        self.read(|reader| customers::by_id(reader, no, id))
    }

    fn customer_by_email(
        &self,
        no: TenantNo,
        email_key: &str,
    ) -> Result<Option<Customer>, StoreError> {
        let key = self.seek(no, ClaimKind::CustomerEmail, email_key);
        self.snapshot(|reader| customers::by_email(reader, &key))
    }

    fn is_email_taken(&self, no: TenantNo, email_key: &str) -> Result<bool, StoreError> {
        let key = self.seek(no, ClaimKind::CustomerEmail, email_key);
        self.snapshot(|reader| customers::is_taken(reader, &key))
    }

    fn customer_file(
        &self,
        no: TenantNo,
        id: CustomerId,
    ) -> Result<Option<CustomerFile>, StoreError> {
        self.snapshot(|reader| customers::file(reader, no, id))
    }

    fn session(
        &self,
        no: TenantNo,
        id: SessionId,
    ) -> Result<Option<(Session, Customer)>, StoreError> {
        self.read(|reader| customers::by_session(reader, no, id))
    }

    fn customers(&self, no: TenantNo, page: Page) -> Result<Vec<Customer>, StoreError> {
        self.read(|reader| customers::page(reader, no, page))
    }

    fn customers_expired(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, CustomerId)>,
        limit: usize,
    ) -> Result<Vec<Customer>, StoreError> {
        self.read(|reader| customers::expired(reader, now, after, limit))
    }

    fn mails_due(&self, now: Timestamp, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.read(|reader| customers::mails_due(reader, now, limit))
    }

    fn mail(&self, no: TenantNo, id: MailId) -> Result<Option<Mail>, StoreError> {
        self.read(|reader| customers::mail(reader, no, id))
    }

    fn mails(&self, no: TenantNo, given_up: bool, page: Page) -> Result<Vec<Mail>, StoreError> {
        self.read(|reader| customers::mails(reader, no, given_up, page))
    }

    fn operation(&self, no: TenantNo, id: OperationId) -> Result<Option<Operation>, StoreError> {
        self.read(|reader| customers::operation(reader, no, id))
    }

    fn operations_waiting(
        &self,
        after: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError> {
        self.read(|reader| customers::waiting(reader, after, limit))
    }

    fn operations_to_notify(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError> {
        self.read(|reader| customers::to_notify(reader, now, limit))
    }

    fn backlog(&self) -> Result<Backlog, StoreError> {
        self.snapshot(customers::backlog)
    }

    fn operations_waiting_count(&self, counted_max: usize) -> Result<usize, StoreError> {
        self.read(|reader| customers::waiting_count(reader, counted_max))
    }

    fn has_reply(&self, key: ReplyKey) -> Result<bool, StoreError> {
        self.read(|reader| customers::has_reply(reader, key))
    }

    fn has_over(&self, over: Over) -> Result<bool, StoreError> {
        self.read(|reader| customers::has_over(reader, over))
    }

    fn account(&self, no: TenantNo, id: AccountId) -> Result<Option<AccountView>, StoreError> {
        self.read(|reader| accounts::by_id(reader, no, id))
    }

    fn account_by_key(&self, no: TenantNo, key: &str) -> Result<Option<AccountView>, StoreError> {
        let key = self.seek(no, ClaimKind::Account, key);
        self.snapshot(|reader| accounts::by_key(reader, &key))
    }

    fn accounts(&self, no: TenantNo, page: Page) -> Result<Paged<AccountView>, StoreError> {
        self.snapshot(|reader| accounts::page(reader, no, page))
    }

    fn search_accounts(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<AccountView>, StoreError> {
        self.snapshot(|reader| accounts::search(reader, no, text, page))
    }

    fn tags_of(&self, no: TenantNo, account: AccountId) -> Result<Vec<Tag>, StoreError> {
        self.read(|reader| tags::of_account(reader, no, account))
    }

    fn payment_method(
        &self,
        no: TenantNo,
        id: PaymentMethodId,
    ) -> Result<Option<MethodView>, StoreError> {
        self.read(|reader| payment_methods::by_id(reader, no, id))
    }

    fn payment_method_by_key(
        &self,
        no: TenantNo,
        key: &str,
    ) -> Result<Option<MethodView>, StoreError> {
        let key = self.seek(no, ClaimKind::PaymentMethod, key);
        self.snapshot(|reader| payment_methods::by_key(reader, &key))
    }

    fn payment_methods_of(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<MethodView>, StoreError> {
        self.read(|reader| payment_methods::of_account(reader, no, account))
    }

    fn payment_methods(
        &self,
        no: TenantNo,
        gateway: Option<&str>,
        page: Page,
    ) -> Result<Paged<MethodView>, StoreError> {
        self.snapshot(|reader| payment_methods::page(reader, no, gateway, page))
    }

    fn search_payment_methods(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<MethodView>, StoreError> {
        self.snapshot(|reader| payment_methods::search(reader, no, text, page))
    }

    fn payment(&self, no: TenantNo, id: PaymentId) -> Result<Option<PaymentFile>, StoreError> {
        self.snapshot(|reader| payments::by_id(reader, no, id))
    }

    fn payment_account(
        &self,
        no: TenantNo,
        id: PaymentId,
    ) -> Result<Option<AccountId>, StoreError> {
        self.read(|reader| ledger::account_of(reader, no, id))
    }

    fn payment_by_key(&self, no: TenantNo, key: &str) -> Result<Option<PaymentFile>, StoreError> {
        let key = self.seek(no, ClaimKind::Payment, key);
        self.snapshot(|reader| payments::by_key(reader, &key))
    }

    fn payment_of_transaction(
        &self,
        no: TenantNo,
        id: TransactionId,
    ) -> Result<Option<PaymentFile>, StoreError> {
        self.snapshot(|reader| payments::of_transaction(reader, no, id))
    }

    fn payment_of_transaction_key(
        &self,
        no: TenantNo,
        key: &str,
    ) -> Result<Option<PaymentFile>, StoreError> {
        let key = self.seek(no, ClaimKind::Transaction, key);
        self.snapshot(|reader| payments::of_transaction_key(reader, &key))
    }

    fn payments_of(
        &self,
        no: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<PaymentFile>, StoreError> {
        self.snapshot(|reader| payments::of_account(reader, no, account, page))
    }

    fn payments(
        &self,
        no: TenantNo,
        gateway: Option<&str>,
        page: Page,
    ) -> Result<Paged<PaymentFile>, StoreError> {
        self.snapshot(|reader| payments::page(reader, no, gateway, page))
    }

    fn search_payments(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<PaymentFile>, StoreError> {
        let key = self.seek(no, ClaimKind::Payment, text);
        self.snapshot(|reader| payments::search(reader, &key, page))
    }

    fn payments_in_state(
        &self,
        no: TenantNo,
        states: &[PaymentState],
        page: Page,
    ) -> Result<Paged<PaymentFile>, StoreError> {
        self.snapshot(|reader| payments::in_state(reader, no, states, page))
    }

    fn history(&self, no: TenantNo, of: HistoryOf) -> Result<Vec<HistoryRow>, StoreError> {
        self.snapshot(|reader| history::of(reader, no, of))
    }

    fn account_histories(
        &self,
        no: TenantNo,
        account: AccountId,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.snapshot(|reader| history::of_all_of_account(reader, no, account, limit))
    }

    fn ledger_entries(
        &self,
        no: TenantNo,
        filter: &LedgerFilter,
        page: Page,
    ) -> Result<Vec<LedgerEntry>, StoreError> {
        self.snapshot(|reader| ledger::entries(reader, no, filter, page))
    }

    fn trial_balance(&self, no: TenantNo) -> Result<Vec<LedgerTotal>, StoreError> {
        self.read(|reader| ledger::trial_balance(reader, no))
    }

    fn balances(
        &self,
        accounts: &[(TenantNo, AccountId)],
    ) -> Result<Vec<Option<Vec<LedgerTotal>>>, StoreError> {
        self.read(|reader| ledger::balances(reader, accounts))
    }

    fn customer_totals(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<LedgerTotal>, StoreError> {
        self.read(|reader| ledger::customer_totals(reader, no, account))
    }

    fn journal_after(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<(Vec<JournalRow>, Seq), StoreError> {
        self.snapshot(|reader| followers::journal_after(reader, after, limit))
    }

    fn journal_row(&self, seq: Seq) -> Result<Option<JournalRow>, StoreError> {
        self.read(|reader| followers::journal_row(reader, seq))
    }

    fn journal_head(&self) -> Result<Seq, StoreError> {
        self.read(|reader| followers::journal_head(reader, self.partition))
    }

    fn followed(&self, follower: &str) -> Result<Seq, StoreError> {
        self.read(|reader| followers::followed(reader, self.partition, follower))
    }

    fn deliveries_due(&self, now: Timestamp, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        self.read(|reader| followers::deliveries_due(reader, self.partition, now, limit))
    }

    fn deliveries_waiting(&self) -> Result<i64, StoreError> {
        self.read(followers::deliveries_waiting)
    }

    fn outstanding_due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| followers::outstanding_due(reader, self.partition, now, limit))
    }

    fn outstanding_after(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| followers::outstanding_after(reader, self.partition, at, limit))
    }

    fn outstanding_orphans(&self) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| followers::outstanding_orphans(reader, self.partition))
    }

    fn outstanding_of(
        &self,
        no: TenantNo,
        payment: PaymentId,
    ) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| followers::outstanding_of(reader, no, payment))
    }

    fn outstanding(&self, limit: usize) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| followers::outstanding(reader, limit))
    }

    fn outstanding_count(&self) -> Result<i64, StoreError> {
        self.read(followers::outstanding_count)
    }

    fn unresolved(&self, no: TenantNo, page: Page) -> Result<Vec<Unresolved>, StoreError> {
        self.read(|reader| unresolved::page(reader, no, page))
    }

    fn unresolved_counts(&self) -> Result<Vec<UnresolvedCount>, StoreError> {
        self.read(unresolved::counts)
    }
}
