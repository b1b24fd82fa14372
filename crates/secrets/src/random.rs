//! Secrets and bytes that nobody can guess.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

/// How many random bytes a drawn secret has.
const SECRET_BYTES: usize = 24;

/// Random bytes of the operating system.
///
/// # Panics
/// Where it gives none.
#[must_use]
pub fn bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// A secret of 192 random bits, as text that needs no escaping in a header, a URL or a shell.
///
/// # Panics
/// See [`bytes`].
#[must_use]
pub fn secret() -> String {
    BASE64.encode(bytes::<SECRET_BYTES>())
}
