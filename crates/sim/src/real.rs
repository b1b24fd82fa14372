//! The real store as the simulation's disk: a directory or a server's database of its own, which is
//! removed at the end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use domain::object::ObjectType;
use domain::payment::attempt::PaymentAttempt;
use domain::payment::{Outstanding, PaymentFile};
use domain::timer::Timer;
use domain::{AttemptId, PartitionNo, PaymentId, Seq, TenantNo, Timestamp};
use engine::ports::{Cause, HistoryOf, LedgerFilter, Page, Queries, StoreError, due_outcomes};
use store::tables::{
    ACCOUNT_BILLING, DISPUTE, ENTITLEMENTS, INVOICE, INVOICE_ITEM, OPERATION, PAYMENT_ATTEMPT,
    PAYMENT_VELOCITY, TIMER,
};
use store::{Options, Reader, Server, Share, Source, SqlQueries, SqlStore};

use crate::disk::{Bills, Books, Disk, Image, ROWS_MAX};
use crate::faulty::Cut;

/// Whatever is read from a page of this size fits on it.
const ALL: Page = Page { offset: 0, limit: ROWS_MAX as u64 };

/// The simulation's reads have no faults.
const READS: &str = "a committed database can be read";

/// The real store.
pub struct RealDisk {
    place: Place,
    options: Options,
    partitions: u16,
    queries: OnceLock<SqlQueries>,
}

enum Place {
    /// A data directory.
    Dir(PathBuf),
    /// A database that is ours alone, and the one from which it is made and removed.
    Server { own: Server, beside: Server, name: String },
}

impl RealDisk {
    /// An empty data directory. A simulation checks what is written, not whether the hardware
    /// keeps it: it does not wait for the disk. Runs of claims are so short that each simulation
    /// merges many.
    ///
    /// # Errors
    /// Where a directory of that name cannot be emptied.
    pub fn in_dir(dir: &Path) -> std::io::Result<Self> {
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
        Ok(Self::at(Place::Dir(dir.to_owned()), 1))
    }

    /// An empty database of this name on a server (`host=... port=... user=...`), whose user may
    /// make and remove databases; it will have so many partitions.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn on_server(server: &str, name: &str, partitions: u16) -> Result<Self, store::Error> {
        let database = |name: &str| Server::parse(&format!("{server} dbname={name}"));
        let (own, beside) = (database(name)?, database("postgres")?);
        let name = name.to_owned();
        let place = Place::Server { own, beside, name };
        place
            .remove()
            .and_then(|()| place.make())
            .map_err(|source| store::Error::Database { path: PathBuf::from(server), source })?;
        Ok(Self::at(place, partitions))
    }

    fn at(place: Place, partitions: u16) -> Self {
        let options = Options { is_durable: false, claims_held: 16, ..Options::DEFAULT };
        Self { place, options, partitions, queries: OnceLock::new() }
    }

    fn source(&self) -> Source {
        match &self.place {
            Place::Dir(dir) => Source::File(store::database_path(dir), self.options),
            Place::Server { own, .. } => Source::Server(own.clone()),
        }
    }

    fn queries(&self) -> &dyn Queries {
        self.sql()
    }

    fn sql(&self) -> &SqlQueries {
        self.queries.get_or_init(|| {
            SqlQueries::open_source(self.source(), 2).expect("the database was opened before")
        })
    }

    fn partitions(&self) -> impl Iterator<Item = (PartitionNo, Box<dyn Queries>)> {
        let numbers = (0..self.partitions).filter_map(|no| PartitionNo::new(no.into()));
        numbers.map(|no| (no, Box::new(self.sql().of(no)) as Box<dyn Queries>))
    }

    fn tenants(&self) -> Vec<TenantNo> {
        let count = self.queries().tenant_count().expect(READS);
        (1..=u32::try_from(count).expect("tenants are few")).map(TenantNo).collect()
    }
}

impl Place {
    fn make(&self) -> Result<(), StoreError> {
        match self {
            Self::Dir(_) => Ok(()),
            Self::Server { beside, name, .. } => run(beside, &format!("CREATE DATABASE {name}")),
        }
    }

    fn remove(&self) -> Result<(), StoreError> {
        match self {
            Self::Dir(dir) => {
                // What cannot be removed stays in the temporary directory.
                drop(std::fs::remove_dir_all(dir));
                Ok(())
            }
            Self::Server { beside, name, .. } => {
                run(beside, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            }
        }
    }
}

fn run(server: &Server, sql: &str) -> Result<(), StoreError> {
    Reader::connect(server)?.for_each(sql, &[], |_| Ok(()))
}

/// Ends all connections to a database, and waits until the server is done with them.
fn end_connections(beside: &Server, name: &str) {
    let sql = format!(
        "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = '{name}'"
    );
    run(beside, &sql).expect("the server itself stays");
}

impl Drop for RealDisk {
    fn drop(&mut self) {
        // Readers are closed before what they read goes.
        self.queries.take();
        drop(self.place.remove());
    }
}

impl Disk for RealDisk {
    type Store = SqlStore;

    fn connect(&self, share: Share) -> SqlStore {
        match &self.place {
            Place::Dir(dir) => {
                assert_eq!(share, Share::WHOLE, "a directory has one partition");
                store::open_dir(dir, &self.options).expect("nobody else has the directory open")
            }
            Place::Server { own, beside, name } => {
                if share == Share::WHOLE {
                    // A process that died left connections that the server has not missed yet.
                    end_connections(beside, name);
                }
                let opened = store::open_share(own, share, &self.options);
                opened.expect("the database has so many partitions, and nobody has all of it")
            }
        }
    }

    fn cut(&self) -> Option<Cut> {
        match &self.place {
            Place::Dir(_) => None,
            // Other users of the database lose the connection too, as when the server restarts.
            Place::Server { beside, name, .. } => {
                let (beside, name) = (beside.clone(), name.clone());
                Some(Arc::new(move || end_connections(&beside, &name)))
            }
        }
    }

    fn due(&self, now: Timestamp) -> Vec<Outstanding> {
        let due = |(_, it): (_, Box<dyn Queries>)| due_outcomes(&*it, now, ROWS_MAX).expect(READS);
        let mut due: Vec<Outstanding> = self.partitions().flat_map(due).collect();
        due.sort_by_key(|it| it.ask_at);
        due
    }

    fn orphans(&self) -> Vec<Outstanding> {
        self.partitions().flat_map(|(_, it)| it.outstanding_orphans().expect(READS)).collect()
    }

    fn outstanding_of(&self, tenant: TenantNo, payment: PaymentId) -> Vec<Outstanding> {
        self.queries().outstanding_of(tenant, payment).expect(READS)
    }

    fn timers_due(&self, now: Timestamp) -> Vec<Timer> {
        let due = |(_, it): (_, Box<dyn Queries>)| it.timers_due(now, None, ROWS_MAX).expect(READS);
        let mut due: Vec<Timer> = self.partitions().flat_map(due).collect();
        due.sort_by_key(|it| (it.due, it.tenant, it.key));
        due
    }

    fn attempt(&self, tenant: TenantNo, id: AttemptId) -> Option<PaymentAttempt> {
        self.queries().payment_attempt(tenant, id).expect(READS)
    }

    fn payment(&self, tenant: TenantNo, payment: PaymentId) -> Option<PaymentFile> {
        self.queries().payment(tenant, payment).expect(READS)
    }

    fn history(&self, tenant: TenantNo, of: HistoryOf) -> Vec<Image> {
        let rows = self.queries().history(tenant, of).expect(READS);
        rows.into_iter().map(|row| Image { seq: row.seq.0, image: row.image }).collect()
    }

    fn books(&self) -> Books {
        self.read().expect(READS)
    }

    fn bills(&self) -> Bills {
        self.read_bills().expect(READS)
    }

    fn problems(&self) -> Vec<String> {
        match store::verify::verify_source(&self.source()) {
            Ok(report) => report.problems.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        }
    }
}

impl RealDisk {
    fn read_bills(&self) -> Result<Bills, StoreError> {
        let queries = self.queries();
        let reader =
            self.source().read().map_err(|error| StoreError::Database(Cause::new(error)))?;
        let billing = ACCOUNT_BILLING.select("");
        let mut bills = Bills {
            invoices: reader.query(&INVOICE.select(""), &[], |cells| INVOICE.row(cells))?,
            items: reader.query(&INVOICE_ITEM.select(""), &[], |cells| INVOICE_ITEM.row(cells))?,
            accounts: reader.query(&billing, &[], |cells| ACCOUNT_BILLING.row(cells))?,
            timers: reader.query(&TIMER.select(""), &[], |cells| TIMER.row(cells))?,
            ..Bills::default()
        };
        let entitlements = ENTITLEMENTS.select("");
        bills.entitlements = reader.query(&entitlements, &[], |cells| ENTITLEMENTS.row(cells))?;
        for no in self.tenants() {
            bills.payments.extend(queries.payments(no, ALL.of_gateway(None))?.items);
            let entries = queries.ledger_entries(no, &LedgerFilter::default(), ALL)?;
            bills.postings.extend(entries.into_iter().map(|it| it.posting));
        }
        Ok(bills)
    }

    fn read(&self) -> Result<Books, StoreError> {
        let queries = self.queries();
        let mut books = Books { outstanding: queries.outstanding(ROWS_MAX)?, ..Books::default() };
        for (no, queries) in self.partitions() {
            let head = queries.journal_head()?;
            books.heads.insert(no, head.0);
            for row in no.start().0 + 1..=head.0 {
                books.journal.extend(queries.journal_row(Seq(row))?.map(|row| row.seq.0));
            }
            let followed = queries.followed(crate::world::FOLLOWER)?.0;
            books.followed.extend((followed > no.start().0).then_some((no, followed)));
        }
        let reader =
            self.source().read().map_err(|error| StoreError::Database(Cause::new(error)))?;
        let operations = OPERATION.select("ORDER BY tenant, id");
        books.operations = reader.query(&operations, &[], |cells| OPERATION.row(cells))?;
        let attempts = PAYMENT_ATTEMPT.select("ORDER BY tenant, id");
        books.attempts = reader.query(&attempts, &[], |cells| PAYMENT_ATTEMPT.row(cells))?;
        books.disputes = reader.query(&DISPUTE.select(""), &[], |cells| DISPUTE.row(cells))?;
        books.timers = reader.query(&TIMER.select(""), &[], |cells| TIMER.row(cells))?;
        let velocities = PAYMENT_VELOCITY.select("ORDER BY tenant, account_id");
        books.velocities = reader.query(&velocities, &[], |cells| PAYMENT_VELOCITY.row(cells))?;
        for no in self.tenants() {
            for it in queries.customers(no, ALL)? {
                books.customers.extend(queries.customer_file(no, it.id)?);
            }
            books.mails.extend(queries.mails(no, false, ALL)?);
            for view in queries.accounts(no, ALL)?.items {
                let methods = queries.payment_methods_of(no, view.account.id)?;
                books.methods.extend(methods.into_iter().map(|view| view.method));
                let tags =
                    queries.tags_of_account(no, view.account.id, (&ObjectType::ALL, true))?;
                books.tags.extend(tags.into_iter().map(|it| it.tag));
                books.blocking_states.extend(queries.blocking_states(no, view.account.id)?);
                books.accounts.push((view.account, view.person));
            }
            books.custom_fields.extend(queries.custom_fields(no, ALL)?.items);
            books.payments.extend(queries.payments(no, ALL.of_gateway(None))?.items);
            let entries = queries.ledger_entries(no, &LedgerFilter::default(), ALL)?;
            books.entries.extend(entries.into_iter().map(|entry| (no, entry)));
        }
        Ok(books)
    }
}
