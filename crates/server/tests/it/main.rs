//! The real binary, driven over HTTP and its command line.

mod bench;
mod client;
mod lifecycle;
mod limits;
mod maintenance;
mod native;
mod operations;
mod process;
mod tls;
