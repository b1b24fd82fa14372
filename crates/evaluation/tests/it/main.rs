//! Flags as they are evaluated.

mod vectors;
