//! The real binary, driven over HTTP and its command line.
#![expect(clippy::unwrap_used, reason = "a test fails where it panics, helpers included")]

mod access;
mod bench;
mod bench_signup;
mod callbacks;
mod client;
mod faults;
mod flags;
mod flags_changes;
mod flags_commands;
mod flags_copy;
mod flags_evaluate;
mod flags_insights;
mod flags_races;
mod flags_relays;
mod flags_streams;
mod flags_vectors;
mod flags_workers;
mod grpc;
mod iso8583;
mod killbill_bad_input;
mod killbill_requests;
mod killbill_tags;
mod lifecycle;
mod limits;
mod logs;
mod mails;
mod maintenance;
mod native;
mod operations;
mod postgres;
mod process;
mod signup;
mod signup_key;
mod signup_later;
mod tls;
