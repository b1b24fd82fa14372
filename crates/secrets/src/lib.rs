//! Files that only their owner may read, keys and tokens in them, keys derived from one root key, and the
//! sealer for everything that is stored encrypted. Signatures of HTTP messages and documents.

pub mod derive;
pub mod document;
pub mod key_file;
pub mod private_file;
pub mod random;
pub mod sealer;
pub mod token_file;
pub mod webhook;

pub use derive::RootKey;
pub use key_file::{KEY_BYTES, Key};
pub use sealer::{Error, Purpose, Sealer};
