//! Tests of the library as its users have it.

mod descriptions;
mod edits;
mod shown;
mod strict;
mod tables;
#[cfg(feature = "vectors")]
mod vectors;
