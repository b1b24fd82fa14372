//! Feature flags without a protocol: the node's cache of environments, its subscribers, the rules of
//! definitions, changes for later, and the counts of evaluations.
//!
//! [`FlagFeed`] puts what the store committed into the [`FlagCache`]; APIs read it from there without
//! locks. A [`subscribers::Subscriber`] is woken by a change and asks its environment's state what
//! is newer than what it sent; messages are encoded once, and all connections share them.
//! [`writer`] is the way of a change from an API into the core.

#![forbid(unsafe_code)]

pub mod account_lookup;
pub mod accounts;
pub mod cache;
pub mod cached_environment;
pub mod close;
pub mod definition;
pub mod document;
pub mod entitled_keys;
pub mod entitled_user;
pub mod environment_state;
pub mod error;
pub mod feed;
mod found_within;
pub mod frame;
pub mod gate;
pub mod import;
pub mod insights;
mod insights_flusher;
pub mod key_ledger;
pub mod key_lookup;
pub mod message;
pub mod patch;
pub mod profile;
pub mod rate_limit;
pub mod scheduled;
pub mod secret;
pub mod server_reader;
pub mod shard;
pub mod subscribers;
pub mod subscription;
pub mod time;
pub mod validate;
pub mod watch;
pub mod write_locks;
pub mod writer;

pub use accounts::{Account, Accounts};
pub use cache::{Environment, FlagCache, Grant};
pub use cached_environment::CachedEnvironment;
pub use entitled_keys::EntitledKeys;
pub use entitled_user::EntitledUser;
pub use error::{Error, WrongField};
pub use feed::{EnvironmentContents, FlagFeed, documents};
pub use insights::{FlagCount, Insights, MetricCount};
pub use insights_flusher::InsightsFlusher;
pub use key_ledger::KeyLedger;
pub use rate_limit::{RateLimits, RequestKind};
pub use secret::{SDK, Secret, SecretKind};
pub use server_reader::ServerReader;
pub use watch::{FlagReader, FlagUpdate, ReadError, Watch, WatchLimits};
pub use write_locks::{EnvironmentName, WriteLocks};
pub use writer::{Author, FlagWriter};
