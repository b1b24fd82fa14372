//! `faregate bench`: the load generators, a binary that is shipped beside this one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;

/// Becomes `faregate-bench`, from the directory of this binary. Returns only if it cannot.
pub fn exec(arguments: &[OsString]) -> anyhow::Error {
    let beside = match std::env::current_exe().context("this binary's own path is not known") {
        Ok(this) => this.with_file_name("faregate-bench"),
        Err(error) => return error,
    };
    let error = Command::new(&beside).args(arguments).exec();
    anyhow::Error::new(error).context(format!(
        "cannot start {}: packages bring it, and `cargo build --profile dist -p faregate-bench` builds it",
        beside.display()
    ))
}
