//! The simulation itself, and proof that each of its checks can fail.

mod metering;
mod methods;
mod mutants;
mod purchases;
mod seeds;
