//! Tests of the gRPC API.

mod generated;
#[path = "../../examples/generate/generation.rs"]
mod generation;
