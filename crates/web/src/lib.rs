//! The parts that all HTTP APIs share: request bodies, RFC 9457 problems, credentials and tenants from
//! headers, query parameters, times, and the address of a client.
//!
//! APIs decode and encode; code that two of them need is here, so that it has one behaviour.

pub mod answer_budget;
pub mod body;
pub mod card_data;
pub mod client_address;
mod fingerprint;
pub mod headers;
pub mod network;
pub mod network_permits;
pub mod openapi;
pub mod prefer;
pub mod problem;
pub mod query;
pub mod refusal_log;

pub use answer_budget::{AnswerAccount, AnswerBudget, AnswerPermit};
pub use body::BodyError;
pub use fingerprint::fingerprint;
pub use network::Network;
pub use network_permits::{NetworkPermit, NetworkPermits};
pub use problem::{Problem, WrongField};
pub use query::Query;
