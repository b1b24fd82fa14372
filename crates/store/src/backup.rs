//! Backups: a copy of the database as it was at one commit, made while others go on writing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::directory::{self, database_path};
use crate::driver::Database;
use crate::sqlite::Options;

/// Writes the rows of a data directory's database, in use or not, into a new one: nothing of what was
/// erased is in it. The writer is not held up, though its log grows until this is done.
///
/// # Errors
/// [`Error`] where the file exists, or either cannot be read or written.
pub fn backup(dir: &Path, to: &Path) -> Result<(), Error> {
    refuse_existing(to)?;
    let reader = directory::read_dir(dir, &Options::default())?;
    // A reader that sees the file under its name sees all of it.
    let unfinished = unfinished(to);
    directory::make_private(&unfinished)?;
    let sqlite = reader.sqlite().expect("a data directory has a file");
    let written = sqlite.vacuum_into(&unfinished).map_err(Error::database(to));
    let done = written.and_then(|()| publish(&unfinished, to));
    if done.is_err() {
        // What went wrong is worth more than what is left of it.
        drop(fs::remove_file(&unfinished));
    }
    done
}

/// Writes the database of a data directory anew in its place, without what erasures leave in unused parts
/// of its pages and without free pages. Meanwhile it needs as much room as the database has in the directory,
/// and once more where temporary files are.
///
/// # Errors
/// [`Error`] where there is none, a server uses it, or it cannot be read or written.
pub fn vacuum(dir: &Path) -> Result<(), Error> {
    drop(directory::read_dir(dir, &Options::default())?);
    let _lock = directory::lock(dir)?;
    let path = database_path(dir);
    let db = Database::open(&path, &Options::default(), &[]).map_err(Error::database(&path))?;
    let sqlite = db.reader().sqlite().expect("a data directory has a file");
    sqlite.vacuum().map_err(Error::database(&path))
}

/// Makes a data directory from a backup. The directory must be empty or not there: what is left of
/// another history, such as read models or a write-ahead log, would be taken for this one's.
///
/// # Errors
/// [`Error`] where it is not empty, or the file is no backup that this version can read.
pub fn restore(from: &Path, dir: &Path) -> Result<(), Error> {
    restore_with(from, dir, |_| Ok(()))
}

/// [`restore`], without the customers' sessions that the backup has: some may have been ended by their
/// customers since it was made. Returns how many there were.
///
/// # Errors
/// See [`restore`].
pub fn restore_without_sessions(from: &Path, dir: &Path) -> Result<u64, Error> {
    restore_with(from, dir, |file| {
        let deleted = Database::open(file, &Options::default(), &[]).and_then(|db| {
            db.begin()?;
            let deleted = db.exec("DELETE FROM customer_session", &[])?;
            db.commit()?;
            Ok(deleted)
        });
        deleted.map_err(Error::database(file))
    })
}

/// Restores a backup; `change` sees the copy before it is taken for the database.
fn restore_with<T>(
    from: &Path,
    dir: &Path,
    change: impl FnOnce(&Path) -> Result<T, Error>,
) -> Result<T, Error> {
    drop(directory::read_file(from, &Options::default())?);
    directory::make(dir)?;
    if let Some(present) = fs::read_dir(dir).map_err(Error::io("read", dir))?.next() {
        let present = present.map_err(Error::io("read", dir))?;
        return Err(Error::Exists { path: present.path() });
    }
    let _lock = directory::lock(dir)?;
    let to = database_path(dir);
    let unfinished = unfinished(&to);
    directory::make_private(&unfinished)?;
    // The mode stays that of the new file: only its owner can read it.
    let copied = File::open(from).and_then(|mut source| {
        let mut target = File::options().write(true).open(&unfinished)?;
        std::io::copy(&mut source, &mut target)
    });
    copied.map_err(Error::io("copy", from))?;
    let changed = change(&unfinished)?;
    publish(&unfinished, &to)?;
    Ok(changed)
}

/// Makes a finished file durable, and then known by its name.
fn publish(unfinished: &Path, to: &Path) -> Result<(), Error> {
    let synced = File::open(unfinished).and_then(|file| file.sync_all());
    synced.map_err(Error::io("sync", unfinished))?;
    fs::rename(unfinished, to).map_err(Error::io("rename", unfinished))?;
    let parent = match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", parent))
}

fn refuse_existing(path: &Path) -> Result<(), Error> {
    match path.try_exists().map_err(Error::io("look for", path))? {
        true => Err(Error::Exists { path: path.to_owned() }),
        false => Ok(()),
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    path.with_file_name(name)
}
