//! Files with a key of 32 bytes: created in the data directory if missing, only read elsewhere.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::{private_file, random};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

pub type Key = [u8; KEY_BYTES];

/// A key could not be read or created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on the file failed.
    #[error("the key {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// The file does not have the length of a key.
    #[error("the key {path}: {KEY_BYTES} bytes were expected")]
    Length { path: PathBuf },
}

/// Reads a key from a private file.
///
/// # Errors
/// [`Error`] where the file cannot be read, is not private, or has another length.
pub fn read(path: &Path) -> Result<Key, Error> {
    let bytes = private_file::read(path, KEY_BYTES)
        .map_err(|source| Error::File { path: path.to_owned(), source })?;
    bytes.try_into().map_err(|_| Error::Length { path: path.to_owned() })
}

/// Reads the key `name` from a data directory, which this process has locked, and creates it if
/// it is missing.
///
/// # Errors
/// See [`read`].
pub fn in_dir(dir: &Path, name: &str) -> Result<Key, Error> {
    let path = dir.join(name);
    let failed = |source| Error::File { path: path.clone(), source };
    if !path.try_exists().map_err(failed)? {
        create(&path, &random::bytes::<KEY_BYTES>()).map_err(failed)?;
    }
    read(&path)
}

/// Creates a file that only its owner can read, under another name first, so that it is never seen
/// incomplete.
pub(crate) fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut options = OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct TempDir(PathBuf);

    impl TempDir {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("faregate-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }
    }

    impl Drop for TempDir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_missing_key_is_created_once_and_readable_by_its_owner_only() {
        let dir = TempDir::new("key-created");
        let key = in_dir(&dir.0, "test.key").unwrap();
        assert_eq!(in_dir(&dir.0, "test.key").unwrap(), key);
        assert_ne!(in_dir(&dir.0, "another.key").unwrap(), key);
        let path = dir.0.join("test.key");
        assert_eq!(read(&path).unwrap(), key);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_of_another_length_is_refused() {
        let dir = TempDir::new("key-length");
        let path = dir.0.join("test.key");
        for length in [0, KEY_BYTES - 1, KEY_BYTES + 1] {
            create(&path, &vec![7; length]).unwrap();
            assert!(matches!(read(&path), Err(Error::Length { .. })), "{length}");
        }
    }

    #[test]
    fn a_missing_file_is_an_error_where_it_is_only_read() {
        let dir = TempDir::new("key-missing");
        let error = read(&dir.0.join("test.key"));
        assert!(matches!(error, Err(Error::File { .. })), "{error:?}");
    }
}
