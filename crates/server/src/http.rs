//! HTTP as such: sockets, limits, admission; what is said over it is the doors' business.

mod admission;
mod body;
pub mod client;
mod door;
mod front;
pub mod listener;
mod pulse;

pub use admission::Admission;
pub use body::Bodies;
pub use door::Door;
pub use front::Front;
pub use pulse::Patience;

#[cfg(test)]
mod tests;
