//! Files with a bearer token, one line of text: created in the data directory if missing, only read
//! elsewhere.

use std::io;
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq as _;

use crate::{key_file, private_file, random};

/// Bytes of a token at least: a shorter one can be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Bytes of a token at most.
pub const TOKEN_BYTES_MAX: usize = 1_024;

/// A token could not be read or created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on the file failed.
    #[error("the token {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// The file holds something else.
    #[error(
        "the token {path}: one line of {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible ASCII \
         characters was expected"
    )]
    NoToken { path: PathBuf },
}

/// A bearer token (RFC 6750).
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Whether a caller gave this token. The time that it takes does not depend on where they differ.
    #[must_use]
    pub fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Reads a token from a private file; white space around it is ignored.
///
/// # Errors
/// [`Error`] where the file cannot be read or holds no token.
pub fn read(path: &Path) -> Result<Token, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let no_token = || Error::NoToken { path: path.to_owned() };
    // The line's end, of either kind, is no part of the token.
    let bytes = private_file::read(path, TOKEN_BYTES_MAX + 2).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|_| no_token())?;
    let token = text.trim();
    let is_token = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_token.then(|| Token(token.to_owned())).ok_or_else(no_token)
}

/// Reads the token `name` from a data directory, which this process has locked, and creates it,
/// readable by its owner only, if it is missing.
///
/// # Errors
/// See [`read`].
pub fn in_dir(dir: &Path, name: &str) -> Result<Token, Error> {
    let path = dir.join(name);
    let failed = |source| Error::File { path: path.clone(), source };
    if !path.try_exists().map_err(failed)? {
        let line = format!("{}\n", random::secret());
        key_file::create(&path, line.as_bytes()).map_err(failed)?;
    }
    read(&path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A file of this test alone.
    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("faregate-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_missing_token_is_created_once_and_readable_by_its_owner_only() {
        let dir = path("token-created");
        std::fs::create_dir_all(&dir).unwrap();
        let token = in_dir(&dir, "test.token").unwrap();
        let file = dir.join("test.token");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(token.is(text.trim_end()) && !token.is(&text) && !token.is(""));
        assert!(in_dir(&dir, "test.token").unwrap().is(text.trim_end()));
        assert!(!in_dir(&dir, "another.token").unwrap().is(text.trim_end()));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(format!("{token:?}"), "Token(…)");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let file = path("token-none");
        let check = |content: &[u8], is_token: bool| {
            key_file::create(&file, content).unwrap();
            assert_eq!(read(&file).is_ok(), is_token, "{}", String::from_utf8_lossy(content));
        };
        let longest = [b'x'; TOKEN_BYTES_MAX];
        check(b"0123456789abcdef", true);
        check(b"0123456789abcdef\r\n", true);
        check(&[&longest[..], b"\r\n"].concat(), true);
        check(b"", false);
        check(b"\n", false);
        check(b"0123456789abcde\n", false);
        check(b"0123456789abcdef\n0123456789abcdef\n", false);
        check("0123456789abcdeé".as_bytes(), false);
        check(b"0123456789abcde\xff", false);
        check(&[b'x'; TOKEN_BYTES_MAX + 1], false);
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(read(&file), Err(Error::File { .. })));
    }
}
