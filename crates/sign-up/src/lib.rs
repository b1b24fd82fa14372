//! Sign-up without a protocol: customers' passwords, e-mail addresses, tokens, second factors,
//! sessions and stored registrations.
//!
//! The [`service`] checks a request, has passwords hashed by a [`passwords::Hasher`] and submits
//! commands to the engine. APIs decode requests into calls of [`SignUp`] and encode what it
//! returns.

pub mod email;
mod invalid;
pub mod key_check;
pub mod limits;
pub mod operations;
pub mod password_policy;
pub mod passwords;
pub mod preferences;
pub mod probe;
pub mod profile;
pub mod service;
pub mod tenants;
pub mod tokens;
pub mod totp;
pub mod unverified;

pub use invalid::Invalid;
pub use service::{Error, SignUp};
pub use tenants::{TenantCredentials, TenantError, Tenants};
