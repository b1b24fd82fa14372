//! Flags as they are evaluated.

mod changes;
mod explained;
mod problems;
mod properties;
mod vectors;
