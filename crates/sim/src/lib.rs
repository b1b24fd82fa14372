//! Development only: a seeded simulation of Faregate's core, a naive model that checks it, and
//! crash tests of the real binary. See `docs/explanation/simulation.md`.

pub mod aggregates;
pub mod ask;
pub mod audit;
pub mod crash;
pub mod disk;
pub mod faulty;
pub mod gateway;
pub mod kernel;
pub mod memory;
pub mod model;
pub mod mutant;
pub mod random;
pub mod real;
pub mod run;
pub mod schedule;
pub mod translate;
pub mod workload;
pub mod world;
