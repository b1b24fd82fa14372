//! The simulation itself, and proof that each of its checks can fail.

mod methods;
mod mutants;
mod purchases;
mod seeds;
