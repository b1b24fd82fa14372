//! Addresses that nothing may be delivered to, in every spelling that a resolver or a parser may take, with a listener
//! that must see nothing.

use outbound::Reach;
use tempfile::tempdir;

use crate::listener::Listener;
use crate::push::World;

/// One in each line.
const HOSTS: &str = include_str!("../../../outbound/tests/forbidden_addresses/hosts.txt");

/// The last part of what an error says, which is the same for all hosts.
const REFUSALS: [&str; 4] = [
    "leads to an address that is not public",
    "the host has no address, or none that may be called",
    "is not a URL",
    "must have no user or password",
];

fn is_refusal(error: &str) -> bool {
    REFUSALS.iter().any(|it| error.ends_with(it))
}

/// Each try checks the address again, because the URL may have been stored before, or by another program.
#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_is_delivered_to() {
    let listener = Listener::start();
    let dir = tempdir().unwrap();
    let world = World::start(dir.path(), Reach::Public);
    let mut tenants = vec![];
    for (number, host) in HOSTS.lines().enumerate() {
        let url = format!("http://{host}:{}/cb", listener.port);
        tenants.push(world.tenant(&format!("t{number}"), &url).await);
    }
    let waiting = world.postponed(HOSTS.lines().count()).await;
    for delivery in &waiting {
        assert!(is_refusal(&delivery.error), "{}", delivery.error);
    }
    world.forward(webhooks::RETRY_DELAYS[0]);
    world.quiet().await;
    for tenant in tenants {
        // Once the retry is not in progress any more.
        let is_sent = async |world: &World| world.resend(tenant).await.done.await == Ok(1);
        world.until(async |world| is_sent(world).await.then_some(())).await;
    }
    for delivery in &world.postponed(HOSTS.lines().count()).await {
        assert!(is_refusal(&delivery.error), "{}", delivery.error);
        assert_eq!(delivery.attempts, 1, "sent again");
    }
    listener.saw_nothing();
    world.stop().await;
}
