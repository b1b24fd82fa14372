//! The command line of `faregate-bench`. What it measures is tested in `crates/faregate/tests/it/bench*.rs`,
//! through `faregate bench` and against the real server.

use std::process::Command;

/// The standard error of a command that is refused.
fn refused(arguments: &[&str]) -> String {
    let bench = env!("CARGO_BIN_EXE_faregate-bench");
    let output = Command::new(bench).args(arguments).output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).expect("errors are UTF-8")
}

#[test]
fn a_server_with_tls_is_refused_before_the_load() {
    let said = refused(&["payments", "--url", "https://127.0.0.1:1"]);
    assert!(said.starts_with("faregate-bench: ") && said.contains("only http is spoken"), "{said}");
}

/// One secret in 64 begins with a hyphen.
#[test]
fn a_secret_that_begins_with_a_hyphen_is_no_option() {
    for command in ["storm", "push"] {
        let said = refused(&["flags", command, "--secret", "-8Zi9wtJBXDl4", "--nothing"]);
        assert!(said.contains("unexpected argument '--nothing'"), "{command}: {said}");
    }
}
