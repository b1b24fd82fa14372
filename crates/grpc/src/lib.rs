//! Faregate's gRPC door: the services of `proto/faregate/v1`.

pub mod api;
