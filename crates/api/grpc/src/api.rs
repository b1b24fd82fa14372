//! Messages, services and clients of `faregate.v1`, as the protos generate them.

pub use generated::*;

/// The encoded file descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/faregate.v1.bin");

#[expect(
    clippy::allow_attributes,
    clippy::too_many_lines,
    reason = "written by the generator: examples/generate"
)]
mod generated {
    include!("generated/faregate.v1.rs");
}
