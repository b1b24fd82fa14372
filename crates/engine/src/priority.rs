//! Threads whose work may wait for requests: scans, and hashes of passwords.

/// Their niceness: the rest of the process answers requests meanwhile.
pub const NICENESS: i32 = 10;

/// Lowers the priority of the calling thread. Its work is done without that, too. `thread` names it in the log.
#[cfg(target_os = "linux")]
pub fn lower(thread: &'static str) {
    // On Linux `None` means the calling thread.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, thread, "failed to lower a thread's priority; it keeps its priority");
    }
}

/// Elsewhere a priority belongs to the whole process.
#[cfg(not(target_os = "linux"))]
pub const fn lower(_thread: &'static str) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_lowers_its_priority() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let of_the_thread = std::thread::spawn(move || {
            lower("test");
            priority()
        });
        assert_eq!(of_the_thread.join().unwrap(), NICENESS.max(before));
        assert_eq!(priority(), before);
    }
}
