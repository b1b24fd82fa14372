//! Files beside the database in a data directory that refer to its rows: where they refer to rows that the
//! database does not have, committed rows were lost, with the write-ahead log for example.

use std::collections::BTreeSet;

use config::Config;
use domain::{Seq, TransactionId};
use engine::ports::AnalyticsQueries as _;
use gateway::simulator::journal;
use gateway::simulator::record::Effect;
use server::{gateways, node};
use store::Options;
use store::analytics::{SqliteAnalyticsQueries, analytics_path};
use store::verify::{Problem, Report};

use super::Error;

/// The rows that these files refer to. To be read before the database: a server may write meanwhile.
#[derive(Default)]
pub(super) struct Beside {
    /// The last journal row that analytics contain.
    analytics: Seq,
    /// The transactions that the simulator in the server's process charged.
    charged: BTreeSet<TransactionId>,
}

/// Looks at the files of a data directory. One that cannot be read says nothing: analytics are made anew
/// from the journal, and a crash may cut the simulator's last records.
pub(super) fn look(config: &Config) -> Beside {
    let mut found = Beside::default();
    let analytics = analytics_path(&config.data_dir);
    if analytics.exists() {
        let opened = SqliteAnalyticsQueries::open(&analytics, &Options::default(), 1);
        found.analytics = opened.and_then(|it| it.cursor()).unwrap_or_default();
    }
    let charges = gateways::simulator_dir(&config.data_dir).join(journal::FILE);
    let records = journal::read(&charges, u64::MAX).ok().into_iter().flatten();
    let charged = records.map_while(Result::ok).filter(|it| it.effect == Effect::Charged);
    found.charged.extend(charged.map(|record| record.transaction));
    found
}

impl Beside {
    /// Adds what the database has not to the report about it.
    ///
    /// # Errors
    /// [`Error`] where it cannot be read.
    pub(super) fn compare(mut self, config: &Config, report: &mut Report) -> Result<(), Error> {
        let source = node::source(config)?;
        let ends = store::verify::anchors(&source)?;
        let end = ends.iter().map(|anchor| anchor.seq).max().unwrap_or_default();
        if self.analytics > end {
            report.add(Problem {
                table: "journal",
                row: format!("after {}", end.0),
                what: format!("rows are lost: analytics contain them up to {}", self.analytics.0),
            });
        }
        if self.charged.is_empty() {
            return Ok(());
        }
        store::each_transaction(&source, |transaction| {
            self.charged.remove(&transaction.id);
        })?;
        for transaction in self.charged {
            report.add(Problem {
                table: "payment_transaction",
                row: transaction.to_string(),
                what: "is lost: the simulated gateway charged it".to_owned(),
            });
        }
        Ok(())
    }
}
