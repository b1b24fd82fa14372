//! Faregate's core loop: requests in, batches committed, effects performed, replies out.

pub mod ports;
