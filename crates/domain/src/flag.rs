//! Feature flags: environments with their secrets, flags and segments, and changes that are kept for later.

pub(crate) mod change;
pub mod change_request;
pub(crate) mod command;
pub mod definition;
pub mod environment;
mod lookup;
pub(crate) mod read;
pub(crate) mod rules;
