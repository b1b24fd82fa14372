//! The development transport: each mail is a file in a directory, created atomically. The files are not
//! synced to the disk, so a power failure may lose the last ones. They hold names, addresses and links
//! that grant access to an account: only their owner may read them, and old ones are deleted.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use uuid::Uuid;

use crate::error::MailError;

/// How long a file is kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The interval of deleting old files, while mails are written.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(3_600);

/// A directory of mails. Clones share when it was last cleaned.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    cleaned_at: Arc<Mutex<Option<Instant>>>,
}

impl Directory {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, cleaned_at: Arc::default() }
    }

    /// Writes the mail and replaces one with the same id.
    pub(crate) async fn write(&self, mail: Uuid, bytes: Vec<u8>) -> Result<(), MailError> {
        let (directory, path) = (self.clone(), self.path.clone());
        let written = tokio::task::spawn_blocking(move || {
            write_atomically(&path, mail, &bytes)?;
            if directory.is_cleanup_due() {
                delete_old(&path, SystemTime::now());
            }
            Ok::<(), io::Error>(())
        });
        let failed =
            |reason: String| MailError::Temporary(format!("{}: {reason}", self.path.display()));
        match written.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    fn is_cleanup_due(&self) -> bool {
        let mut cleaned_at = self.cleaned_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = cleaned_at.is_none_or(|at| at.elapsed() >= CLEANUP_INTERVAL);
        if is_due {
            *cleaned_at = Some(Instant::now());
        }
        is_due
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

/// Deletes our files that are older than [`KEPT`], those that a kill left incomplete too. What cannot be
/// deleted is tried again the next time.
fn delete_old(directory: &Path, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_mail(path)) {
        let modified = path.metadata().and_then(|it| it.modified());
        let age = modified.ok().and_then(|at| now.duration_since(at).ok());
        if age.is_some_and(|age| age > KEPT) {
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) => tracing::warn!(error = %error, "failed to delete an old mail file"),
            }
        }
    }
}

/// Whether the name is one of those that [`write_atomically`] gives.
fn is_mail(path: &Path) -> bool {
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let id = match path.extension().and_then(OsStr::to_str) {
        Some("eml") => Some(stem),
        Some("tmp") => stem.strip_prefix('.'),
        Some(_) | None => None,
    };
    id.is_some_and(|id| Uuid::try_parse(id).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn old_mails_are_deleted_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("faregate-mails-{}", Uuid::now_v7()));
        let age = |name: &str, by: Duration| {
            let file = File::create(path.join(name)).unwrap();
            file.set_modified(SystemTime::now() - by).unwrap();
        };
        let (old, fresh) = (KEPT + CLEANUP_INTERVAL, KEPT - CLEANUP_INTERVAL);
        std::fs::create_dir_all(&path).unwrap();
        let [left, kept, unfinished] = [(); 3].map(|()| Uuid::now_v7());
        age(&format!("{left}.eml"), old);
        age(&format!(".{unfinished}.tmp"), old);
        age(&format!("{kept}.eml"), fresh);
        age("notes.eml", old);
        let directory = Directory::new(path.clone());
        let new = Uuid::now_v7();
        directory.write(new, b"mail".to_vec()).await.unwrap();
        let names = || {
            let entries = std::fs::read_dir(&path).unwrap();
            let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
            std::collections::BTreeSet::from_iter(names)
        };
        let expected = [format!("{kept}.eml"), format!("{new}.eml"), "notes.eml".to_owned()];
        assert_eq!(names(), expected.clone().into());
        // Cleaned an hour ago at most.
        age(&format!("{left}.eml"), old);
        directory.write(new, b"mail".to_vec()).await.unwrap();
        assert!(names().contains(&format!("{left}.eml")));
        std::fs::remove_dir_all(path).unwrap();
    }
}
