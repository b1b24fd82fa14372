//! Files with a key of 32 bytes: created in the data directory if missing, only read elsewhere.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::random;

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
    /// Every user of the machine can access the file.
    #[error(
        "the key {path}: its mode is {mode:03o}; nobody but owner and group may access it: chmod o= {path}"
    )]
    Mode { path: PathBuf, mode: u32 },
}

/// Reads a key from a file.
///
/// # Errors
/// [`Error`] where the file cannot be read or has another length.
pub fn read(path: &Path) -> Result<Key, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mut bytes = Vec::with_capacity(KEY_BYTES + 1);
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    bytes.try_into().map_err(|_| Error::Length { path: path.to_owned() })
}

/// As [`read`], from a file that only its owner and group may access.
///
/// # Errors
/// [`Error`]; [`Error::Mode`] where others may access it.
pub fn read_private(path: &Path) -> Result<Key, Error> {
    const OTHERS: u32 = 0o007;
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(Error::Mode { path: path.to_owned(), mode });
    }
    read(path)
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
            std::fs::write(&path, vec![7; length]).unwrap();
            assert!(matches!(read(&path), Err(Error::Length { .. })), "{length}");
        }
    }

    #[test]
    fn a_file_that_others_may_access_is_refused_where_it_is_private() {
        let dir = TempDir::new("key-mode");
        let path = dir.0.join("test.key");
        std::fs::write(&path, [7; KEY_BYTES]).unwrap();
        for (mode, is_private) in [(0o600, true), (0o440, true), (0o644, false), (0o601, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_private(&path).is_ok(), is_private, "{mode:o}");
        }
        let error = read_private(&path).unwrap_err().to_string();
        assert!(error.contains("its mode is 601"), "{error}");
    }

    #[test]
    fn a_missing_file_is_an_error_where_it_is_only_read() {
        let dir = TempDir::new("key-missing");
        let error = read(&dir.0.join("test.key"));
        assert!(matches!(error, Err(Error::File { .. })), "{error:?}");
    }
}
