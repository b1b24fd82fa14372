//! A listener that nothing may connect to, for the tests of all crates that connect to addresses of others.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Listens on all addresses of this machine, and counts connections.
pub struct Listener {
    pub port: u16,
    seen: Arc<AtomicUsize>,
}

impl Listener {
    pub fn start() -> Self {
        let v4 = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = v4.local_addr().unwrap().port();
        let seen = Arc::<AtomicUsize>::default();
        // Not every machine has IPv6.
        let v6 = TcpListener::bind(("::1", port)).ok();
        for listener in [Some(v4), v6].into_iter().flatten() {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                for _ in listener.incoming() {
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { port, seen }
    }

    /// Fails where anything has connected, but for one connection that shows that it is seen.
    pub fn saw_nothing(&self) {
        std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while self.seen.load(Ordering::Relaxed) == 0 && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(self.seen.load(Ordering::Relaxed), 1);
    }
}
