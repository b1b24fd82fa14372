//! Messages, services and clients of `faregate.v1`, as the protos generate them.

include!("generated/faregate.v1.rs");

/// The encoded file descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/faregate.v1.bin");
