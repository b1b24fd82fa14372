//! Key files, keys derived from one root key, the sealer for everything that is stored encrypted, and
//! token files.

pub mod derive;
pub mod key_file;
pub mod random;
pub mod sealer;
pub mod token_file;

pub use derive::RootKey;
pub use key_file::{KEY_BYTES, Key};
pub use sealer::{Error, Purpose, Sealer};
