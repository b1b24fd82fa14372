//! Entities against the journal: the newest image is what the table has, and every image is on the
//! chain of one entity.

use std::sync::LazyLock;

use domain::Seq;
use domain::state::Change;
use engine::ports::StoreError;

use super::Report;
use crate::journal::{self, revision};
use crate::rows;
use crate::sqlite::{Cells, Load, Reader};
use crate::tables::{
    ACCOUNT, APP_USER, JOURNAL, PAYMENT, PAYMENT_METHOD, PAYMENT_TRANSACTION, ROLE, TENANT,
    TENANT_VALUE, Table,
};

static RECORD: LazyLock<String> = LazyLock::new(|| JOURNAL.select("WHERE seq = ?1"));
static RECORDS: LazyLock<String> = LazyLock::new(|| JOURNAL.select("ORDER BY seq"));

/// Reads a row as the journal would have it: without what is kept out of it.
type Journalled = fn(&mut Cells<'_>) -> Result<Change, StoreError>;

const ENTITIES: &[(&Table, Journalled)] = &[
    (&TENANT, |cells| {
        Ok(Change::Tenant(domain::tenant::Tenant {
            secret_hash: String::new(),
            ..rows::tenant(cells)?
        }))
    }),
    (&TENANT_VALUE, |cells| Ok(Change::TenantValue(rows::tenant_value(cells)?))),
    (&APP_USER, |cells| {
        let user = rows::user(cells)?;
        Ok(Change::User(domain::access::User { password_hash: String::new(), ..user }))
    }),
    (&ROLE, |cells| Ok(Change::Role(rows::role(cells)?))),
    (&ACCOUNT, |cells| {
        Ok(Change::Account(domain::Account {
            external_key: None,
            external_payment_method: None,
            ..rows::account(cells)?
        }))
    }),
    (&PAYMENT_METHOD, |cells| Ok(Change::PaymentMethod(rows::payment_method(cells)?))),
    (&PAYMENT, |cells| Ok(Change::Payment(rows::payment(cells)?))),
    (&PAYMENT_TRANSACTION, |cells| Ok(Change::Transaction(rows::transaction(cells)?))),
];

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut records = reader.load(&RECORD)?;
    for &(table, journalled) in ENTITIES {
        reader.for_each(&table.select(""), &[], |cells| {
            let newest = journalled(cells)?;
            match walk(&newest, &mut records)? {
                Ok(images) => report.images += images,
                Err(what) => report.problem(table.name, name(&newest), what),
            }
            Ok(())
        })?;
    }
    if report.images_written != report.images {
        find_strays(reader, report)?;
    }
    Ok(())
}

/// Walks the chain of an entity back to its first image. `Ok(Err(_))` tells what is wrong with it.
fn walk(newest: &Change, records: &mut Load<'_>) -> Result<Result<u64, String>, StoreError> {
    let mut next = revision(newest).map(|revision| revision.seq);
    let mut images = 0;
    while let Some(seq) = next {
        let record = records.first(&[seq.into()], journal::record)?;
        let image =
            record.and_then(|it| it.changes.into_iter().find(|image| is_of_one(image, newest)));
        let Some(image) = image else {
            return Ok(Err(format!("journal row {} has no image of it", seq.0)));
        };
        let Some(at) = revision(&image).filter(|revision| revision.seq == seq) else {
            return Ok(Err(format!("its image in journal row {} is of another row", seq.0)));
        };
        if images == 0 && !is_equal(&image, newest) {
            return Ok(Err(format!("it is not what journal row {} says", seq.0)));
        }
        if at.previous.is_some_and(|previous| previous >= seq) {
            return Ok(Err(format!("its image in journal row {} follows on a later one", seq.0)));
        }
        images += 1;
        next = at.previous;
    }
    Ok(Ok(images))
}

/// Lists the images that are on no entity's chain.
fn find_strays(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut records = reader.load(&RECORD)?;
    let mut newest = NewestSeq::prepare(reader)?;
    reader.for_each(&RECORDS, &[], |cells| {
        let record = journal::record(cells)?;
        for image in &record.changes {
            if !is_on_chain(image, record.seq, &mut newest, &mut records)? {
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
    records: &mut Load<'_>,
) -> Result<bool, StoreError> {
    let mut next = newest.of(image)?;
    while let Some(at) = next.filter(|at| *at > seq) {
        let record = records.first(&[at.into()], journal::record)?;
        let later = record.and_then(|it| it.changes.into_iter().find(|it| is_of_one(it, image)));
        next = later.as_ref().and_then(revision).and_then(|revision| revision.previous);
        if next.is_some_and(|previous| previous >= at) {
            return Ok(false);
        }
    }
    Ok(next == Some(seq))
}

/// The journal row that an entity's own row names.
struct NewestSeq<'c> {
    tenants: Load<'c>,
    values: Load<'c>,
    users: Load<'c>,
    roles: Load<'c>,
    accounts: Load<'c>,
    methods: Load<'c>,
    payments: Load<'c>,
    transactions: Load<'c>,
}

impl<'c> NewestSeq<'c> {
    fn prepare(reader: &'c Reader) -> Result<Self, StoreError> {
        let by = |table: &Table, key: &str| {
            reader.load(&format!("SELECT seq FROM {} WHERE {key}", table.name))
        };
        let by_id = "tenant = ?1 AND id = ?2";
        Ok(Self {
            tenants: by(&TENANT, "no = ?1")?,
            values: by(&TENANT_VALUE, "tenant = ?1 AND name = ?2")?,
            users: by(&APP_USER, "username = ?1")?,
            roles: by(&ROLE, "name = ?1")?,
            accounts: by(&ACCOUNT, by_id)?,
            methods: by(&PAYMENT_METHOD, by_id)?,
            payments: by(&PAYMENT, by_id)?,
            transactions: by(&PAYMENT_TRANSACTION, by_id)?,
        })
    }

    fn of(&mut self, image: &Change) -> Result<Option<Seq>, StoreError> {
        let seq = |cells: &mut Cells<'_>| cells.seq();
        match image {
            Change::Tenant(it) => self.tenants.first(&[it.no.into()], seq),
            Change::TenantValue(it) => {
                self.values.first(&[it.tenant.into(), (&it.key).into()], seq)
            }
            Change::User(it) => self.users.first(&[(&it.username).into()], seq),
            Change::Role(it) => self.roles.first(&[(&it.name).into()], seq),
            Change::Account(it) => self.accounts.first(&[it.tenant.into(), it.id.into()], seq),
            Change::PaymentMethod(it) => self.methods.first(&[it.tenant.into(), it.id.into()], seq),
            Change::Payment(it) => self.payments.first(&[it.tenant.into(), it.id.into()], seq),
            Change::Transaction(it) => {
                self.transactions.first(&[it.tenant.into(), it.id.into()], seq)
            }
            Change::Person { .. }
            | Change::Posting(_)
            | Change::Claim { .. }
            | Change::Outstanding(_)
            | Change::OutstandingClosed { .. }
            | Change::ReplySettled { .. } => Ok(None),
        }
    }
}

/// Whether two images are of the same entity.
fn is_of_one(a: &Change, b: &Change) -> bool {
    match (a, b) {
        (Change::Tenant(a), Change::Tenant(b)) => a.no == b.no,
        (Change::TenantValue(a), Change::TenantValue(b)) => {
            (a.tenant, &a.key) == (b.tenant, &b.key)
        }
        (Change::User(a), Change::User(b)) => a.username == b.username,
        (Change::Role(a), Change::Role(b)) => a.name == b.name,
        (Change::Account(a), Change::Account(b)) => (a.tenant, a.id) == (b.tenant, b.id),
        (Change::PaymentMethod(a), Change::PaymentMethod(b)) => {
            (a.tenant, a.id) == (b.tenant, b.id)
        }
        (Change::Payment(a), Change::Payment(b)) => (a.tenant, a.id) == (b.tenant, b.id),
        (Change::Transaction(a), Change::Transaction(b)) => (a.tenant, a.id) == (b.tenant, b.id),
        (
            Change::Tenant(_)
            | Change::TenantValue(_)
            | Change::User(_)
            | Change::Role(_)
            | Change::Account(_)
            | Change::PaymentMethod(_)
            | Change::Payment(_)
            | Change::Transaction(_)
            | Change::Person { .. }
            | Change::Posting(_)
            | Change::Claim { .. }
            | Change::Outstanding(_)
            | Change::OutstandingClosed { .. }
            | Change::ReplySettled { .. },
            _,
        ) => false,
    }
}

/// Whether an image is what the table has, which does not know the revision before.
fn is_equal(image: &Change, row: &Change) -> bool {
    let mut image = image.clone();
    let at = match &mut image {
        Change::Tenant(it) => &mut it.revision,
        Change::TenantValue(it) => &mut it.revision,
        Change::User(it) => &mut it.revision,
        Change::Role(it) => &mut it.revision,
        Change::Account(it) => &mut it.revision,
        Change::PaymentMethod(it) => &mut it.revision,
        Change::Payment(it) => &mut it.revision,
        Change::Transaction(it) => &mut it.revision,
        Change::Person { .. }
        | Change::Posting(_)
        | Change::Claim { .. }
        | Change::Outstanding(_)
        | Change::OutstandingClosed { .. }
        | Change::ReplySettled { .. } => return false,
    };
    at.previous = None;
    image == *row
}

fn name(change: &Change) -> String {
    match change {
        Change::Tenant(it) => format!("tenant {}", it.no.0),
        Change::TenantValue(it) => format!("value {} of tenant {}", it.key, it.tenant.0),
        Change::User(it) => format!("user {}", it.username),
        Change::Role(it) => format!("role {}", it.name),
        Change::Account(it) => format!("account {}", it.id),
        Change::PaymentMethod(it) => format!("payment method {}", it.id),
        Change::Payment(it) => format!("payment {}", it.id),
        Change::Transaction(it) => format!("transaction {}", it.id),
        Change::Person { .. }
        | Change::Posting(_)
        | Change::Claim { .. }
        | Change::Outstanding(_)
        | Change::OutstandingClosed { .. }
        | Change::ReplySettled { .. } => "what has no history".to_owned(),
    }
}
