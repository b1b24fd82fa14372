//! The real store as the simulation's disk, in a directory of its own that is removed at the end.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use domain::payment::{Outstanding, PaymentFile};
use domain::{PaymentId, Seq, TenantNo, Timestamp};
use engine::ports::{HistoryOf, LedgerFilter, Page, Queries, StoreError};
use store::{Options, SqlQueries, SqlStore};

use crate::disk::{Books, Disk, Image, ROWS_MAX};

/// Whatever is read from a page of this size fits on it.
const ALL: Page = Page { offset: 0, limit: ROWS_MAX as u64 };

/// A data directory.
pub struct SqliteDisk {
    dir: PathBuf,
    options: Options,
    queries: OnceLock<SqlQueries>,
}

impl SqliteDisk {
    /// An empty data directory. A simulation checks what is written, not whether the hardware
    /// keeps it: it does not wait for the disk. Runs of claims are so short that each simulation
    /// merges many.
    ///
    /// # Errors
    /// Where a directory of that name cannot be emptied.
    pub fn new(dir: &Path) -> std::io::Result<Self> {
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
        let options = Options { is_durable: false, claims_held: 16, ..Options::DEFAULT };
        Ok(Self { dir: dir.to_owned(), options, queries: OnceLock::new() })
    }

    fn queries(&self) -> &SqlQueries {
        self.queries.get_or_init(|| {
            let path = store::database_path(&self.dir);
            SqlQueries::open(&path, &self.options, 2).expect("the database was opened before")
        })
    }

    fn tenants(&self) -> Vec<TenantNo> {
        let count = self.queries().tenant_count().expect(READS);
        (1..=u32::try_from(count).expect("tenants are few")).map(TenantNo).collect()
    }
}

/// The simulation's reads have no faults.
const READS: &str = "a committed database can be read";

impl Drop for SqliteDisk {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the temporary directory.
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

impl Disk for SqliteDisk {
    type Store = SqlStore;

    fn connect(&self) -> SqlStore {
        store::open_dir(&self.dir, &self.options).expect("nobody else has the directory open")
    }

    fn due(&self, now: Timestamp) -> Vec<Outstanding> {
        self.queries().outstanding_due(now, ROWS_MAX).expect(READS)
    }

    fn orphans(&self) -> Vec<Outstanding> {
        self.queries().outstanding_orphans().expect(READS)
    }

    fn outstanding_of(&self, tenant: TenantNo, payment: PaymentId) -> Vec<Outstanding> {
        self.queries().outstanding_of(tenant, payment).expect(READS)
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

    fn problems(&self) -> Vec<String> {
        match store::verify::verify_dir(&self.dir) {
            Ok(report) => report.problems.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        }
    }
}

impl SqliteDisk {
    fn read(&self) -> Result<Books, StoreError> {
        let queries = self.queries();
        let mut books = Books {
            head: queries.journal_head()?.0,
            outstanding: queries.outstanding(ROWS_MAX)?,
            followed: queries.followed(crate::world::FOLLOWER)?.0,
            ..Books::default()
        };
        for row in 1..=books.head {
            books.journal.extend(queries.journal_row(Seq(row))?.map(|row| row.seq.0));
        }
        for no in self.tenants() {
            for view in queries.accounts(no, ALL)?.items {
                let methods = queries.payment_methods_of(no, view.account.id)?;
                books.methods.extend(methods.into_iter().map(|view| view.method));
                books.accounts.push((view.account, view.person));
            }
            books.payments.extend(queries.payments(no, None, ALL)?.items);
            let entries = queries.ledger_entries(no, &LedgerFilter::default(), ALL)?;
            books.entries.extend(entries.into_iter().map(|entry| (no, entry)));
        }
        Ok(books)
    }
}
