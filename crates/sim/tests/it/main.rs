//! The simulation itself, and proof that each of its checks can fail.

mod aggregates;
mod mutants;
mod seeds;
