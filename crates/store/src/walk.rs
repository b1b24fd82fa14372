//! Walks over all rows of a kind, for commands that look at everything. Streams: memory does not
//! grow with the data.

use domain::payment::Transaction;
use domain::payment::dispute::Dispute;

use crate::Error;
use crate::pool::Source;
use crate::tables::{self, DISPUTE, PAYMENT_TRANSACTION};

/// Shows every payment transaction of a database, in use or not, as they are at one commit.
///
/// # Errors
/// [`Error`] where they cannot be read.
pub fn each_transaction(source: &Source, mut each: impl FnMut(&Transaction)) -> Result<(), Error> {
    let reader = source.read()?;
    let sql = PAYMENT_TRANSACTION.select("");
    let walked = reader.walk(&sql, &[], |cells| {
        each(&tables::PAYMENT_TRANSACTION.row(cells)?);
        Ok(())
    });
    walked.map_err(source.failed())
}

/// Shows every dispute of a database, as they are at one commit.
///
/// # Errors
/// [`Error`] where they cannot be read.
pub fn each_dispute(source: &Source, mut each: impl FnMut(&Dispute)) -> Result<(), Error> {
    let reader = source.read()?;
    let walked = reader.walk(&DISPUTE.select(""), &[], |cells| {
        each(&tables::DISPUTE.row(cells)?);
        Ok(())
    });
    walked.map_err(source.failed())
}
