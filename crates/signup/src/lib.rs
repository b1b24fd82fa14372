//! Sign-up: customers' passwords, addresses, tokens and second factors.
//!
//! What is here knows no database and no wire: each module answers one question of whoever
//! registers, logs in or resets a password. Passwords are hashed by a [`passwords::Hasher`], which
//! refuses at once what it cannot do in time.

mod body;
pub mod compat;
pub mod email;
mod headers;
mod invalid;
mod keys;
pub mod limits;
pub mod native;
pub mod operations;
pub mod password_policy;
pub mod passwords;
pub mod preferences;
pub mod probe;
pub mod profile;
pub mod seal;
pub mod service;
pub mod tenant;
pub mod tokens;
pub mod totp;

pub use body::BodyError;
pub use invalid::Invalid;
pub use keys::{KEY_BYTES, RootKey};
pub use service::SignUp;
