//! The simulator gateway: every outcome that a payment gateway can have, on request, with a
//! journal of its own that says what was charged.
//!
//! [`rules`] decides what happens to a call, [`Simulator`] makes it happen, [`serve`] runs one as
//! a process of its own, and [`Remote`] is the client of such a process.

mod core;
pub mod journal;
pub mod record;
mod remote;
pub mod rules;
mod server;

pub use self::core::{Notification, Options, Simulator};
pub use remote::{Remote, charges};
pub use server::{Bound, bind, serve};

/// The simulator's name as a gateway.
pub const NAME: &str = "faregate-simulator";
/// Its other name: that of Kill Bill's own test plugin, whose properties it understands.
pub const KILL_BILL_NAME: &str = "killbill-payment-test";
