//! The server's parts on a real store: the mail loop with a real mail server.
#![expect(clippy::unwrap_used, reason = "a test fails where it panics, helpers included")]

mod mail;
