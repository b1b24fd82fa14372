//! The simulator gateway: it produces every outcome of a payment gateway on request, and records its
//! charges in a journal of its own.
//!
//! [`rules`] decides the outcome of a call, [`Simulator`] executes it, [`serve`] runs a simulator as a
//! process of its own, and [`Remote`] is the client of such a process.

mod core;
pub mod journal;
mod methods;
mod notifications;
pub mod pages;
mod protocol;
pub mod record;
mod remote;
pub mod rules;
pub mod script;
mod server;

pub use self::core::{Notification, Options, Simulator};
pub use notifications::take_notifications;
pub use remote::{Remote, charges};
pub use server::{Bound, bind, serve};

/// The simulator's name as a gateway.
pub const NAME: &str = "faregate-simulator";
/// The name of Kill Bill's test plugin, whose properties the simulator understands.
pub const KILL_BILL_NAME: &str = "killbill-payment-test";
