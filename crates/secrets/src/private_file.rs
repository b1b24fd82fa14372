//! Files that others must neither read nor replace.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The mode's bits that only the owner may have: all of others, and writing of the group. The group may
/// read, because a mounted secret often belongs to root and the group of the process.
const FORBIDDEN: u32 = 0o027;

/// Opens a file of which others know nothing, and that nobody but its owner can have written.
///
/// # Errors
/// Where it cannot be opened, or its mode allows more; the text says how to mend it.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    // Of the file that is open: the path may be replaced meanwhile.
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & FORBIDDEN != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "its mode is {mode:03o}; others may not access it, and only its owner may write it: \
                 chmod g-w,o= {}",
                path.display()
            ),
        ));
    }
    Ok(file)
}

/// Reads such a file, but no more than so many bytes and one.
///
/// # Errors
/// See [`open`].
pub fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_may_read_or_the_group_may_write_is_refused() {
        let path = std::env::temp_dir().join(format!("faregate-private-{}", std::process::id()));
        std::fs::write(&path, b"secret").unwrap();
        let with_mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read(&path, 5)
        };
        for mode in [0o400, 0o600, 0o440, 0o640, 0o750] {
            assert_eq!(
                with_mode(mode).unwrap(),
                b"secret",
                "{mode:o}: one byte more than asked for"
            );
        }
        for mode in [0o644, 0o604, 0o601, 0o602, 0o660, 0o620] {
            let error = with_mode(mode).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
            let advice = format!("its mode is {mode:03o}; ");
            assert!(error.to_string().starts_with(&advice), "{error}");
            assert!(error.to_string().ends_with(&format!("chmod g-w,o= {}", path.display())));
        }
        std::fs::remove_file(path).unwrap();
    }
}
