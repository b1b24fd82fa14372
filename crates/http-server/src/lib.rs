//! The HTTP listener: sockets, TLS, admission, timers, bodies. What is said over it is the APIs'
//! business.

mod admission;
mod answer;
mod api;
mod body;
mod certificate_watch;
mod client_stream;
mod connection_timer;
mod front;
mod head;
pub mod listener;
mod metrics;
mod sorter;
pub mod tls;

pub use admission::Admission;
pub use api::Api;
pub use body::Bodies;
pub use certificate_watch::CertificateWatch;
pub use connection_timer::Timeouts;
pub use front::{Front, with_route_labels};
pub use metrics::Requests;
pub use sorter::{AcceptedConnection, Sorter, accepted, is_flag_path};

#[cfg(test)]
mod tests;
