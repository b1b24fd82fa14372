//! Addresses that nothing may be sent to, in every spelling that a resolver or a parser may take.

use outbound::{Base, Reach, validate_callback, validate_request_callback};

/// One in each line.
const HOSTS: &str = include_str!("forbidden_addresses/hosts.txt");

/// The last part of an error, which is the same for all hosts.
const REFUSALS: [&str; 3] =
    ["leads to an address that is not public", "is not a URL", "must have no user or password"];

#[test]
fn no_spelling_is_stored_or_called_by_a_gateway() {
    assert!(HOSTS.lines().count() > 60);
    for host in HOSTS.lines() {
        let url = format!("http://{host}:8080/cb");
        for stored in [
            validate_callback(&url, Reach::Public),
            validate_request_callback(&url.replace("http:", "https:"), Reach::Public),
        ] {
            let error = stored.expect_err(host).to_string();
            assert!(REFUSALS.contains(&error.as_str()), "{host}: {error}");
        }
        assert!(Base::parse(&url, Reach::Public).is_err(), "{host}");
    }
}
