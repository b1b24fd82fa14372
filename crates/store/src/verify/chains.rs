//! Entities against the journal: the newest image is what the table has, every image is on the
//! chain of one entity, and says what its own row's events say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use domain::change::{
    AccessChange, AccountChange, Change, CustomerChange, EntitlementChange, FlagChange,
    PaymentChange, TenantChange,
};
use domain::change_request::ChangeRequest;
use domain::ledger::LedgerAccount;
use domain::payment::{Amounts, Payment, Transaction};
use domain::{Event, Seq, TenantNo, TransactionId};
use engine::ports::StoreError;
use uuid::Uuid;

use super::{Report, each_row};
use crate::codes::ledger_account_code;
use crate::driver::{Cells, Load, Reader, Value};
use crate::journal;
use crate::load::{BY_KEY, entitlements};
use crate::rows;
use crate::tables::{
    ACCOUNT, ACCOUNT_EMAIL, APP_USER, BLOCKING_STATE, CHANGE_REQUEST, CUSTOM_FIELD, CUSTOMER,
    DEFINITION, DISPUTE, ENTITLEMENTS, ENVIRONMENT, ENVIRONMENT_SECRET, FEATURE, JOURNAL, OFFER,
    OPERATION, PAYMENT, PAYMENT_ATTEMPT, PAYMENT_METHOD, PAYMENT_RULES, PAYMENT_TRANSACTION,
    POSTING, PURCHASE, ROLE, TAG, TAG_DEFINITION, TENANT, TENANT_VALUE, Table,
};

/// The command that brings a payment over from another system.
const IMPORT: &str = "ImportPayment";

static RECORDS: LazyLock<String> = LazyLock::new(|| JOURNAL.select("ORDER BY seq"));
static PAYMENTS: LazyLock<String> = LazyLock::new(|| PAYMENT.select("ORDER BY tenant, id"));
static TRANSACTIONS: LazyLock<String> = LazyLock::new(|| {
    PAYMENT_TRANSACTION
        .select("WHERE tenant = ?1 AND payment_id = ?2 ORDER BY opened_seq, effective_at_us")
});

static POSTED: LazyLock<String> = LazyLock::new(|| {
    // What a dispute took beyond its payment is of no transaction's row.
    let excess = ledger_account_code(LedgerAccount::DisputeExcess);
    let of_payment = "WHERE tenant = ?1 AND payment_id = ?2 AND account_id = ?3";
    format!(
        "SELECT transaction_id, seq FROM {} {of_payment} AND debit <> {excess} AND credit <> {excess}",
        POSTING.name
    )
});

/// Reads a row as the journal would have it: without what is kept out of it.
type Journalled = fn(&mut Cells<'_>) -> Result<Change, StoreError>;

/// A table, and how its rows are read.
pub(super) type Entity = (&'static Table, Journalled);

/// Payments and their transactions are beside these: they are looked at together.
pub(super) const ENTITIES: &[Entity] = &[
    (&TENANT, |cells| {
        let mut tenant = rows::tenant(cells)?;
        tenant.secret_hash = String::new();
        if let Some(previous) = &mut tenant.previous_secret {
            previous.hash = String::new();
        }
        Ok(Change::Tenant(TenantChange::Tenant(tenant)))
    }),
    (&TENANT_VALUE, |cells| {
        Ok(Change::Tenant(TenantChange::Value(domain::tenant::TenantValue {
            value: None,
            ..rows::tenant_value(cells)?
        })))
    }),
    (&APP_USER, |cells| {
        let user = rows::user(cells)?;
        Ok(Change::Access(AccessChange::User(domain::access::User {
            password_hash: String::new(),
            ..user
        })))
    }),
    (&ROLE, |cells| Ok(Change::Access(AccessChange::Role(rows::role(cells)?)))),
    (&ENVIRONMENT, |cells| Ok(Change::Flag(FlagChange::Environment(rows::environment(cells)?)))),
    (&ENVIRONMENT_SECRET, |cells| {
        let secret = rows::secret(cells)?;
        Ok(Change::Flag(FlagChange::Secret(domain::environment::Secret {
            sealed: String::new(),
            ..secret
        })))
    }),
    (&DEFINITION, |cells| Ok(Change::Flag(FlagChange::Definition(rows::definition(cells)?)))),
    (&CHANGE_REQUEST, |cells| {
        Ok(Change::Flag(FlagChange::ChangeRequest(ChangeRequest {
            patch: String::new(),
            reason: None,
            comment: None,
            explanation: None,
            ..rows::change_request(cells)?
        })))
    }),
    (&CUSTOMER, |cells| {
        Ok(Change::Customer(CustomerChange::Customer(domain::customer::Customer {
            profile: domain::customer::Profile::default(),
            credentials: domain::customer::Credentials::default(),
            ..rows::customers::customer(cells)?
        })))
    }),
    (&OPERATION, |cells| {
        Ok(Change::Customer(CustomerChange::Operation(domain::operation::Operation {
            sealed: None,
            callback: None,
            notify_at: None,
            notify_attempts: 0,
            ..rows::customers::operation(cells)?
        })))
    }),
    (&ACCOUNT, |cells| {
        Ok(Change::Account(AccountChange::Account(domain::Account {
            external_key: None,
            external_payment_method: None,
            ..rows::account(cells)?
        })))
    }),
    (&TAG, |cells| Ok(Change::Account(AccountChange::Tag(rows::tag(cells)?)))),
    (&TAG_DEFINITION, |cells| {
        Ok(Change::Tenant(TenantChange::TagDefinition(rows::tag_definition(cells)?)))
    }),
    (&ACCOUNT_EMAIL, |cells| {
        Ok(Change::Account(AccountChange::Email(domain::account_email::AccountEmail {
            email: String::new(),
            ..rows::account_email(cells)?
        })))
    }),
    (&BLOCKING_STATE, |cells| {
        Ok(Change::Account(AccountChange::BlockingState(rows::blocking_state(cells)?)))
    }),
    (&CUSTOM_FIELD, |cells| {
        Ok(Change::Account(AccountChange::CustomField(domain::custom_field::CustomField {
            name: String::new(),
            value: String::new(),
            ..rows::custom_field(cells)?
        })))
    }),
    (&PAYMENT_RULES, |cells| {
        Ok(Change::Tenant(TenantChange::PaymentRules(rows::payment_rules(cells)?)))
    }),
    (&PAYMENT_ATTEMPT, |cells| {
        let mut attempt = rows::payment_attempt(cells)?;
        attempt.erase();
        Ok(Change::Payment(PaymentChange::Attempt(attempt)))
    }),
    (&DISPUTE, |cells| {
        let dispute = Box::new(rows::dispute(cells)?);
        Ok(Change::Payment(PaymentChange::Dispute(dispute)))
    }),
    (&FEATURE, |cells| Ok(Change::Entitlement(EntitlementChange::Feature(rows::feature(cells)?)))),
    (&OFFER, |cells| Ok(Change::Entitlement(EntitlementChange::Offer(rows::offer(cells)?)))),
    (&PURCHASE, |cells| {
        let purchase = Box::new(rows::purchase(cells)?);
        Ok(Change::Entitlement(EntitlementChange::Purchase(purchase)))
    }),
    (&ENTITLEMENTS, |cells| {
        let entitlements = Box::new(rows::entitlements(cells)?);
        Ok(Change::Entitlement(EntitlementChange::Entitlements(entitlements)))
    }),
    (&PAYMENT_METHOD, |cells| {
        let mut method = rows::payment_method(cells)?;
        method.erase();
        Ok(Change::Account(AccountChange::PaymentMethod(method)))
    }),
];

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut entities = Entities::prepare(reader)?;
    for entity in ENTITIES {
        each_row(reader, report, (entity.0, &entity.0.select("")), |cells, report| {
            entities.entity(entity, cells, report)
        })?;
    }
    each_row(reader, report, (&PAYMENT, &PAYMENTS), |cells, report| {
        entities.payment(cells, report)
    })?;
    if report.images_written != report.images {
        find_strays(reader, &mut entities.records, report)?;
    }
    Ok(())
}

/// Verifies rows of entities, one after another.
pub(super) struct Entities<'c> {
    records: Records<'c>,
    transactions: Load<'c>,
    posted: Load<'c>,
}

impl<'c> Entities<'c> {
    pub(super) fn prepare(reader: &'c Reader) -> Result<Self, StoreError> {
        Ok(Self {
            records: Records::prepare(reader)?,
            transactions: reader.load(&TRANSACTIONS)?,
            posted: reader.load(&POSTED)?,
        })
    }

    /// A row of one of [`ENTITIES`].
    pub(super) fn entity(
        &mut self,
        &(table, journalled): &Entity,
        cells: &mut Cells<'_>,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        follow((table, journalled(cells)?), &mut self.records, report, &mut |_, _| Ok(()))
    }

    /// A row of [`PAYMENT`], with its transactions.
    pub(super) fn payment(
        &mut self,
        cells: &mut Cells<'_>,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let payment = rows::payment(cells)?;
        verify_payment(payment, self, report)
    }
}

/// Follows the chain of an entity, and counts its images or tells what is wrong with it.
fn follow(
    (table, mut newest): (&Table, Change),
    records: &mut Records<'_>,
    report: &mut Report,
    each: &mut dyn FnMut(&Change, &Record) -> Result<(), String>,
) -> Result<(), StoreError> {
    match walk(&mut newest, records, each)? {
        Ok(images) => report.images += images,
        Err(what) => report.problem(table.name, name(&newest), what),
    }
    Ok(())
}

/// Walks the chain of an entity back to its first image. `Ok(Err(_))` tells what is wrong with it.
fn walk(
    newest: &mut Change,
    records: &mut Records<'_>,
    each: &mut dyn FnMut(&Change, &Record) -> Result<(), String>,
) -> Result<Result<u64, String>, StoreError> {
    let mut next = newest.revision().map(|revision| revision.seq);
    let mut images = 0;
    while let Some(seq) = next {
        let record = records.of(seq)?;
        let image =
            record.and_then(|it| Some((it, it.changes.iter().find(|it| is_of_one(it, newest))?)));
        let Some((record, image)) = image else {
            return Ok(Err(format!("journal row {} has no image of it", seq.0)));
        };
        let Some(at) = image.revision().filter(|revision| revision.seq == seq) else {
            return Ok(Err(format!("its image in journal row {} is of another row", seq.0)));
        };
        if images == 0 {
            set_previous(newest, at.previous);
            if image != newest {
                return Ok(Err(format!("it is not what journal row {} says", seq.0)));
            }
        }
        if at.previous.is_some_and(|previous| previous >= seq) {
            return Ok(Err(format!("its image in journal row {} follows on a later one", seq.0)));
        }
        if let Err(what) = each(image, record) {
            return Ok(Err(format!("its image in journal row {} {what}", seq.0)));
        }
        images += 1;
        next = at.previous;
    }
    Ok(Ok(images))
}

/// Follows a payment and its transactions: each image of a transaction is what its row's event
/// says, and each of the payment what the transactions were then.
fn verify_payment(
    payment: Payment,
    Entities { records, transactions, posted }: &mut Entities<'_>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let key = [payment.tenant.into(), payment.id.into()];
    let of_payment = [payment.tenant.into(), payment.id.into(), payment.account_id.into()];
    // The newest state is compared with the tables' rows elsewhere.
    let mut before: Vec<Payment> = Vec::new();
    let newest_seq = payment.revision.seq;
    let name = payment.id;
    follow(
        (&PAYMENT, Change::Payment(PaymentChange::Payment(payment))),
        records,
        report,
        &mut |image, _| {
            if let Change::Payment(PaymentChange::Payment(it)) = image
                && it.revision.seq != newest_seq
            {
                before.push(it.clone());
            }
            Ok(())
        },
    )?;
    let mut images: Vec<Vec<Transaction>> = Vec::new();
    let mut changed: BTreeSet<(TransactionId, Seq)> = BTreeSet::new();
    transactions.rows(&key, &mut |cells| {
        let (opened_seq, transaction) = rows::opened_transaction(cells)?;
        let (id, mut first) = (transaction.id, opened_seq);
        let transaction = Change::Payment(PaymentChange::Transaction(transaction));
        let mut own = Vec::new();
        follow((&PAYMENT_TRANSACTION, transaction), records, report, &mut |image, record| {
            let Change::Payment(PaymentChange::Transaction(it)) = image else { return Ok(()) };
            first = it.revision.seq;
            changed.insert((it.id, first));
            if !before.is_empty() {
                own.push(it.clone());
            }
            let is_told = record.events.iter().any(|event| is_event_of(event, it));
            let matches = is_told != record.is_import;
            if matches { Ok(()) } else { Err("is not what its event says".to_owned()) }
        })?;
        if first != opened_seq {
            let what = format!("journal row {} made it, not {}", first.0, opened_seq.0);
            report.problem(PAYMENT_TRANSACTION.name, id, what);
        }
        images.push(own);
        Ok(())
    })?;
    posted.rows(&of_payment, &mut |cells| {
        let of = (cells.entity()?, cells.seq()?);
        if !changed.contains(&of) {
            let what =
                format!("is of journal row {}, which did not change its transaction", of.1.0);
            report.problem(POSTING.name, of.0, what);
        }
        Ok(())
    })?;
    for state in before {
        let seq = state.revision.seq;
        // The newest image comes first.
        let then = |own: &Vec<Transaction>| own.iter().find(|it| it.revision.seq <= seq).cloned();
        let then: Vec<Transaction> = images.iter().filter_map(then).collect();
        if state.amounts != Amounts::of(&then) {
            let what = format!("its image in journal row {} adds up to something else", seq.0);
            report.problem(PAYMENT.name, name, what);
        }
    }
    Ok(())
}

/// Whether an event tells of this image of a transaction.
fn is_event_of(event: &Event, image: &Transaction) -> bool {
    let Event::TransactionChanged {
        account,
        payment,
        transaction,
        kind,
        status,
        gateway,
        amount,
        currency,
        effective_at,
        ..
    } = event
    else {
        return false;
    };
    (*account, *payment, *transaction) == (image.account_id, image.payment_id, image.id)
        && (*kind, *status, gateway) == (image.kind, image.status, &image.gateway)
        && (*amount, *currency) == (image.processed_amount.unwrap_or_default(), image.currency)
        && *effective_at == image.effective_at
}

/// Lists the images that are on no entity's chain.
fn find_strays(
    reader: &Reader,
    records: &mut Records<'_>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let mut newest = NewestSeq::prepare(reader)?;
    each_row(reader, report, (&JOURNAL, &RECORDS), |cells, report| {
        let record = journal::record(cells)?;
        for image in &record.changes {
            if !is_on_chain(image, record.seq, &mut newest, records)? {
                let what = format!("{} is on no chain", name(image));
                report.problem(JOURNAL.name, record.seq.0, what);
            }
        }
        Ok(())
    })
}

fn is_on_chain(
    image: &Change,
    seq: Seq,
    newest: &mut NewestSeq<'_>,
    records: &mut Records<'_>,
) -> Result<bool, StoreError> {
    let mut next = newest.of(image)?;
    // An operation is deleted some time after its end; the journal goes on telling of it.
    if next.is_none() && matches!(image, Change::Customer(CustomerChange::Operation(_))) {
        return Ok(true);
    }
    while let Some(at) = next.filter(|at| *at > seq) {
        let record = records.of(at)?;
        let later = record.and_then(|it| it.changes.iter().find(|it| is_of_one(it, image)));
        next = later.and_then(Change::revision).and_then(|revision| revision.previous);
        if next.is_some_and(|previous| previous >= at) {
            return Ok(false);
        }
    }
    Ok(next == Some(seq))
}

/// What a journal row says of entities.
struct Record {
    changes: Vec<Change>,
    events: Vec<Event>,
    /// What is brought over from another system is no event.
    is_import: bool,
}

/// Journal rows by number. Those read last are kept: what changed together is asked for together.
struct Records<'c> {
    load: Load<'c>,
    kept: Vec<Option<(Seq, Record)>>,
}

impl<'c> Records<'c> {
    /// How many are kept: each number has one place.
    const KEPT: usize = 64;

    fn prepare(reader: &'c Reader) -> Result<Self, StoreError> {
        let load = reader.load("SELECT changes, events, command FROM journal WHERE seq = ?1")?;
        Ok(Self { load, kept: std::iter::repeat_with(|| None).take(Self::KEPT).collect() })
    }

    fn of(&mut self, seq: Seq) -> Result<Option<&Record>, StoreError> {
        let place = usize::try_from(seq.0).unwrap_or_default() % Self::KEPT;
        let kept = &mut self.kept[place];
        if kept.as_ref().is_none_or(|(at, _)| *at != seq) {
            let read = self.load.first(&[seq.into()], |cells| {
                cells.of(&JOURNAL);
                let changes = cells.opt_json()?.unwrap_or_default();
                let events = cells.opt_json()?.unwrap_or_default();
                Ok(Record { changes, events, is_import: cells.string()? == IMPORT })
            })?;
            *kept = read.map(|record| (seq, record));
        }
        Ok(kept.as_ref().map(|(_, record)| record))
    }
}

/// The journal row that an entity's own row names, by table.
struct NewestSeq<'c>(BTreeMap<&'static str, Load<'c>>);

impl<'c> NewestSeq<'c> {
    fn prepare(reader: &'c Reader) -> Result<Self, StoreError> {
        let by_id = "WHERE tenant = ?1 AND id = ?2";
        let keys = [
            (&TENANT, "WHERE no = ?1"),
            (&TENANT_VALUE, "WHERE tenant = ?1 AND name = ?2"),
            (&APP_USER, "WHERE username = ?1"),
            (&ROLE, "WHERE name = ?1"),
            (&ENVIRONMENT, by_id),
            (&ENVIRONMENT_SECRET, by_id),
            (&DEFINITION, BY_KEY),
            (&CHANGE_REQUEST, by_id),
            (&CUSTOMER, by_id),
            (&OPERATION, by_id),
            (&ACCOUNT, by_id),
            (&TAG, by_id),
            (&TAG_DEFINITION, by_id),
            (&ACCOUNT_EMAIL, by_id),
            (&BLOCKING_STATE, by_id),
            (&CUSTOM_FIELD, by_id),
            (&PAYMENT_METHOD, by_id),
            (&PAYMENT_RULES, "WHERE tenant = ?1"),
            (&PAYMENT_ATTEMPT, by_id),
            (&DISPUTE, by_id),
            (&FEATURE, entitlements::BY_KEY),
            (&OFFER, entitlements::BY_KEY),
            (&PURCHASE, by_id),
            (&ENTITLEMENTS, "WHERE tenant = ?1 AND account_id = ?2"),
            (&PAYMENT, by_id),
            (&PAYMENT_TRANSACTION, by_id),
        ];
        let loads = keys.into_iter().map(|(table, by_key)| {
            let load = reader.load(&format!("SELECT seq FROM {} {by_key}", table.name))?;
            Ok((table.name, load))
        });
        loads.collect::<Result<_, StoreError>>().map(Self)
    }

    fn of(&mut self, image: &Change) -> Result<Option<Seq>, StoreError> {
        let Some((table, key)) = row_of(image) else { return Ok(None) };
        let load = self.0.get_mut(table).expect("every table of an image is prepared");
        load.first(&key, |cells| cells.seq())
    }
}

/// The table of an image's entity and the key of its row; `None` for what has no history.
fn row_of(image: &Change) -> Option<(&'static str, Vec<Value<'_>>)> {
    match image {
        Change::Tenant(TenantChange::Tenant(it)) => Some((TENANT.name, vec![it.no.into()])),
        Change::Tenant(TenantChange::Value(it)) => {
            Some((TENANT_VALUE.name, vec![it.tenant.into(), (&it.key).into()]))
        }
        Change::Access(AccessChange::User(it)) => {
            Some((APP_USER.name, vec![(&it.username).into()]))
        }
        Change::Access(AccessChange::Role(it)) => Some((ROLE.name, vec![(&it.name).into()])),
        Change::Flag(FlagChange::Environment(it)) => by_id(&ENVIRONMENT, it.tenant, it.id.uuid()),
        Change::Flag(FlagChange::Secret(it)) => by_id(&ENVIRONMENT_SECRET, it.tenant, it.id.uuid()),
        Change::Flag(FlagChange::Definition(it)) => {
            Some((DEFINITION.name, rows::definition_key(it.tenant, &it.key).to_vec()))
        }
        Change::Flag(FlagChange::ChangeRequest(it)) => {
            by_id(&CHANGE_REQUEST, it.tenant, it.id.uuid())
        }
        Change::Customer(CustomerChange::Customer(it)) => by_id(&CUSTOMER, it.tenant, it.id.uuid()),
        Change::Customer(CustomerChange::Operation(it)) => {
            by_id(&OPERATION, it.tenant, it.id.uuid())
        }
        Change::Account(AccountChange::Account(it)) => by_id(&ACCOUNT, it.tenant, it.id.uuid()),
        Change::Account(AccountChange::Tag(it)) => by_id(&TAG, it.tenant, it.id.uuid()),
        Change::Tenant(TenantChange::TagDefinition(it)) => {
            by_id(&TAG_DEFINITION, it.tenant, it.id.uuid())
        }
        Change::Account(AccountChange::Email(it)) => by_id(&ACCOUNT_EMAIL, it.tenant, it.id.uuid()),
        Change::Account(AccountChange::BlockingState(it)) => {
            by_id(&BLOCKING_STATE, it.tenant, it.id.uuid())
        }
        Change::Account(AccountChange::CustomField(it)) => {
            by_id(&CUSTOM_FIELD, it.tenant, it.id.uuid())
        }
        Change::Account(AccountChange::PaymentMethod(it)) => {
            by_id(&PAYMENT_METHOD, it.tenant, it.id.uuid())
        }
        Change::Tenant(TenantChange::PaymentRules(it)) => {
            Some((PAYMENT_RULES.name, vec![it.tenant.into()]))
        }
        Change::Payment(it) => row_of_payment(it),
        Change::Entitlement(it) => row_of_entitlement(it),
        Change::Account(
            AccountChange::Person { .. }
            | AccountChange::PersonErased { .. }
            | AccountChange::AuditImported(_),
        )
        | Change::Customer(
            CustomerChange::MailsErased { .. }
            | CustomerChange::Session(_)
            | CustomerChange::SessionEnded { .. }
            | CustomerChange::Mail(_),
        )
        | Change::Claim(_)
        | Change::Timer(_)
        | Change::ReplySettled { .. } => None,
    }
}

fn row_of_entitlement(image: &EntitlementChange) -> Option<(&'static str, Vec<Value<'_>>)> {
    match image {
        EntitlementChange::Feature(it) => {
            Some((FEATURE.name, vec![it.tenant.into(), (&it.key).into()]))
        }
        EntitlementChange::Offer(it) => {
            Some((OFFER.name, vec![it.tenant.into(), (&it.key).into()]))
        }
        EntitlementChange::Purchase(it) => by_id(&PURCHASE, it.tenant, it.id.uuid()),
        EntitlementChange::Entitlements(it) => {
            by_id(&ENTITLEMENTS, it.tenant, it.account_id.uuid())
        }
        EntitlementChange::Users(_)
        | EntitlementChange::Usage(_)
        | EntitlementChange::UsageEvent(_)
        | EntitlementChange::Reservation(_) => None,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "not every image has a row")]
fn by_id(
    table: &'static Table,
    tenant: TenantNo,
    id: Uuid,
) -> Option<(&'static str, Vec<Value<'static>>)> {
    Some((table.name, vec![tenant.into(), id.into()]))
}

fn row_of_payment(image: &PaymentChange) -> Option<(&'static str, Vec<Value<'_>>)> {
    match image {
        PaymentChange::Attempt(it) => by_id(&PAYMENT_ATTEMPT, it.tenant, it.id.uuid()),
        PaymentChange::Dispute(it) => by_id(&DISPUTE, it.tenant, it.id.uuid()),
        PaymentChange::Payment(it) => by_id(&PAYMENT, it.tenant, it.id.uuid()),
        PaymentChange::Transaction(it) => by_id(&PAYMENT_TRANSACTION, it.tenant, it.id.uuid()),
        PaymentChange::Velocity(_)
        | PaymentChange::Posting(_)
        | PaymentChange::Outstanding(_)
        | PaymentChange::OutstandingClosed { .. } => None,
    }
}

/// Whether two images are of the same entity.
fn is_of_one(a: &Change, b: &Change) -> bool {
    row_of(a).is_some_and(|row| row_of(b) == Some(row))
}

/// Sets what only the journal knows of a table's row: the revision before.
const fn set_previous(row: &mut Change, previous: Option<Seq>) {
    if let Some(revision) = row.revision_mut() {
        revision.previous = previous;
    }
}

fn name(change: &Change) -> String {
    match change {
        Change::Tenant(TenantChange::Tenant(it)) => format!("tenant {}", it.no.0),
        Change::Tenant(TenantChange::Value(it)) => {
            format!("value {} of tenant {}", it.key, it.tenant.0)
        }
        Change::Tenant(TenantChange::TagDefinition(it)) => format!("tag definition {}", it.id),
        Change::Tenant(TenantChange::PaymentRules(it)) => {
            format!("payment rules of tenant {}", it.tenant.0)
        }
        Change::Access(AccessChange::User(it)) => format!("user {}", it.username),
        Change::Access(AccessChange::Role(it)) => format!("role {}", it.name),
        Change::Flag(FlagChange::Environment(it)) => format!("environment {}", it.id),
        Change::Flag(FlagChange::Secret(it)) => format!("secret {}", it.id),
        Change::Flag(FlagChange::Definition(it)) => {
            format!("{:?} {} of environment {}", it.key.kind, it.key.key, it.key.environment)
        }
        Change::Flag(FlagChange::ChangeRequest(it)) => format!("change {}", it.id),
        Change::Customer(CustomerChange::Customer(it)) => format!("customer {}", it.id),
        Change::Customer(CustomerChange::Operation(it)) => format!("operation {}", it.id),
        Change::Account(AccountChange::Account(it)) => format!("account {}", it.id),
        Change::Account(AccountChange::Tag(it)) => format!("tag {}", it.id),
        Change::Account(AccountChange::Email(it)) => format!("address {}", it.id),
        Change::Account(AccountChange::BlockingState(it)) => format!("blocking state {}", it.id),
        Change::Account(AccountChange::CustomField(it)) => format!("custom field {}", it.id),
        Change::Account(AccountChange::PaymentMethod(it)) => format!("payment method {}", it.id),
        Change::Payment(PaymentChange::Attempt(it)) => format!("attempt {}", it.id),
        Change::Payment(PaymentChange::Dispute(it)) => format!("dispute {}", it.id),
        Change::Payment(PaymentChange::Payment(it)) => format!("payment {}", it.id),
        Change::Payment(PaymentChange::Transaction(it)) => format!("transaction {}", it.id),
        Change::Entitlement(EntitlementChange::Feature(it)) => {
            format!("feature {} of tenant {}", it.key, it.tenant.0)
        }
        Change::Entitlement(EntitlementChange::Offer(it)) => {
            format!("offer {} of tenant {}", it.key, it.tenant.0)
        }
        Change::Entitlement(EntitlementChange::Purchase(it)) => format!("purchase {}", it.id),
        Change::Entitlement(EntitlementChange::Entitlements(it)) => {
            format!("entitlements of account {}", it.account_id)
        }
        // `row_of` lists these.
        Change::Entitlement(_)
        | Change::Account(_)
        | Change::Customer(_)
        | Change::Payment(_)
        | Change::Claim(_)
        | Change::Timer(_)
        | Change::ReplySettled { .. } => "what has no history".to_owned(),
    }
}
