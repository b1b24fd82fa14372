//! Tests of webhook endpoints against what resolvers may answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outbound::{Reach, Resolver};
use tempfile::tempdir;

use crate::callback_stub::CallbackStub;
use crate::push::World;

/// The first look-up gives a public address, the next ones this machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_rebound_to_this_machine_is_not_connected_to() {
    let mut receiver = CallbackStub::start().await;
    let port = receiver.url[7..].split(['/', ':']).nth(1).unwrap().to_owned();
    let looked_up = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&looked_up);
    let public = SocketAddr::from((Ipv4Addr::new(192, 31, 196, 1), 9));
    // The address that is checked is the one that is connected to: the first delivery goes where nobody answers.
    let resolve = move |_: &str, port: u16| match count.fetch_add(1, Ordering::Relaxed) {
        0 => vec![public],
        _ => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))],
    };
    let dir = tempdir().unwrap();
    let options = webhooks::Options {
        resolver: Resolver::Function(Arc::new(resolve)),
        timeout: Duration::from_millis(500),
        ..webhooks::Options::new(Reach::Public)
    };
    let world = World::start_with(dir.path(), options);
    let url = format!("http://rebound.example:{port}/cb");
    for number in 1..=3 {
        world.tenant(&format!("tenant {number}"), &url).await;
        let waiting = world.postponed(number).await;
        let error = &waiting.iter().max_by_key(|it| it.id.seq).unwrap().error;
        match number {
            1 => assert_ne!(error, "the host has no address, or none that may be called"),
            _ => assert_eq!(error, "the host has no address, or none that may be called"),
        }
    }
    assert_eq!(looked_up.load(Ordering::Relaxed), 3, "each delivery looks the name up");
    assert_eq!(receiver.rest(), [""; 0]);
    world.stop().await;
}
