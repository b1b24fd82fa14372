//! Flags as they are evaluated.

mod changes;
mod explained;
mod naive;
mod problems;
mod properties;
mod vectors;
