//! The server's parts: the mail loop on a real store with a real mail server, and the documents of its APIs.
#![expect(clippy::unwrap_used, reason = "a test fails where it panics, helpers included")]

mod mail;
mod pages;
