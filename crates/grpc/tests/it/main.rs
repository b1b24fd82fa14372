//! Tests of the gRPC door.

mod generated;
#[path = "../../examples/generate/generation.rs"]
mod generation;
