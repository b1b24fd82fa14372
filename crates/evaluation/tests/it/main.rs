//! Tests of the evaluation library.

mod explanations;
mod naive;
mod rollout;
mod snapshots;
mod validation;
mod vectors;
