//! The development transport: each mail is a file in a directory, created atomically. The files are not
//! synced to the disk, so a power failure may lose the last ones.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::error::MailError;

/// Writes the mail and replaces one with the same id. The file is readable by its owner only, because
/// its links grant access to an account.
pub(super) async fn write(directory: PathBuf, mail: Uuid, bytes: Vec<u8>) -> Result<(), MailError> {
    let name = directory.display().to_string();
    let written =
        tokio::task::spawn_blocking(move || write_atomically(&directory, mail, &bytes)).await;
    let failed = |reason: String| MailError::Temporary(format!("{name}: {reason}"));
    match written {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn write_atomically(directory: &Path, mail: Uuid, bytes: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let temporary = directory.join(format!(".{mail}.tmp"));
    let mut file: File =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    drop(file);
    std::fs::rename(temporary, directory.join(format!("{mail}.eml")))
}
