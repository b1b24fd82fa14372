//! Tests of the library as its users have it.

mod vectors;
