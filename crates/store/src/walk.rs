//! Walks over all rows of a kind, for commands that look at everything. Streams: memory does not
//! grow with the data.

use std::path::Path;

use domain::payment::Transaction;

use crate::Error;
use crate::directory::{database_path, read_dir};
use crate::rows;
use crate::sqlite::Options;
use crate::tables::PAYMENT_TRANSACTION;

/// Shows every payment transaction of a data directory, in use or not, as they are at one commit.
///
/// # Errors
/// [`Error`] where they cannot be read.
pub fn each_transaction(dir: &Path, mut each: impl FnMut(&Transaction)) -> Result<(), Error> {
    let reader = read_dir(dir, &Options::default())?;
    let sql = PAYMENT_TRANSACTION.select("");
    let walked = reader.for_each(&sql, &[], |cells| {
        each(&rows::transaction(cells)?);
        Ok(())
    });
    walked.map_err(Error::database(&database_path(dir)))
}
