//! Tests of the library as its users have it.

mod descriptions;
mod edits;
mod errors;
mod frames;
mod hex;
mod schema;
mod shown;
mod strict;
mod tables;
mod vectors;
