//! Tests of the public interface of the library.

mod built_in;
mod descriptions;
mod edits;
mod errors;
mod frames;
mod hex;
mod jpos_classes;
mod jpos_files;
mod leaks;
mod lenient;
mod other_padding;
mod quirks;
mod random_tables;
mod read_back;
mod schema;
mod shown;
mod strict;
mod tables;
#[cfg(feature = "vectors")]
mod vectors;
mod xml_messages;
