//! Files with a key of 32 bytes: made in the data directory where one is missing, read elsewhere.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// A key.
pub type Key = [u8; KEY_BYTES];

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or made.
    #[error("the key {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("the key {path}: {KEY_BYTES} bytes were expected")]
    Length {
        /// The file.
        path: PathBuf,
    },
}

/// Reads a key from a file.
///
/// # Errors
/// [`Error`] where it cannot be read, or is no key.
pub fn read(path: &Path) -> Result<Key, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mut bytes = Vec::with_capacity(KEY_BYTES + 1);
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    bytes.try_into().map_err(|_| Error::Length { path: path.to_owned() })
}

/// Reads the key of a name in a data directory, and makes it where there is none. The directory is
/// ours alone.
///
/// # Errors
/// See [`read`].
pub fn in_dir(dir: &Path, name: &str) -> Result<Key, Error> {
    let path = dir.join(name);
    let failed = |source| Error::File { path: path.clone(), source };
    if !path.try_exists().map_err(failed)? {
        make(&path).map_err(failed)?;
    }
    read(&path)
}

/// Makes a key's file whole or not at all: under another name first.
fn make(path: &Path) -> io::Result<()> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).expect("the operating system gives random bytes");
    let begun = path.with_extension("key.new");
    let mut options = OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&begun)?;
    file.write_all(&key)?;
    file.sync_all()?;
    std::fs::rename(&begun, path)?;
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::File::open(dir)?.sync_all()
}
