//! The development sink: each mail a file in a directory, whole or not there. Nothing is forced to the
//! disk: when the power fails, the last ones are gone.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::MailError;

/// Writes the mail, in place of one with the same id. Whoever can read it can use its links: it is
/// the owner's alone.
pub(super) async fn write(directory: PathBuf, mail: Uuid, bytes: Vec<u8>) -> Result<(), MailError> {
    let shown = directory.display().to_string();
    let written = tokio::task::spawn_blocking(move || write_whole(&directory, mail, &bytes)).await;
    let failed = |reason: String| MailError::Temporary(format!("{shown}: {reason}"));
    match written {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn write_whole(directory: &Path, mail: Uuid, bytes: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let unfinished = directory.join(format!(".{mail}.tmp"));
    let mut file: File =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    drop(file);
    std::fs::rename(unfinished, directory.join(format!("{mail}.eml")))
}
