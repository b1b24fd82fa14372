//! Partitions move between processors, and are read again where a database was away: no command is
//! passed over, none is executed twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::RequestId;
use kafka::topics::Class;
use kafka::{Front, Settings};
use tokio::task::JoinSet;

use crate::scene::{self, Counting, DONE, Database, NO_OWNER, TIMEOUT};

/// Sends so many requests and expects each to be done.
async fn send(front: &Arc<Front>, count: u128) -> BTreeSet<RequestId> {
    let mut asking = JoinSet::new();
    let mut sent = BTreeSet::new();
    for account in 0..count {
        let request = scene::request("k");
        sent.insert(request.id);
        let front = Arc::clone(front);
        asking.spawn(async move { scene::ask(&front, scene::route(account), request).await });
    }
    assert!(asking.join_all().await.iter().all(|it| *it == DONE));
    sent
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn partitions_move_without_loss_or_repetition() {
    for group_protocol in scene::PROTOCOLS {
        let settings = Settings { group_protocol, ..scene::scene().await };
        let database = Arc::new(Database::default());
        let first = scene::process(&settings, Class::Payment, Counting::new(1, &database));
        let front = scene::front(&settings, TIMEOUT).await;
        let mut sent = send(&front, 50).await;
        let second = scene::process(&settings, Class::Payment, Counting::new(2, &database));
        // Sent while the group changes.
        sent.append(&mut send(&front, 300).await);
        scene::until("both own partitions", || database.owners().len() == 2).await;
        sent.append(&mut send(&front, 100).await);
        first.stop(TIMEOUT).await;
        sent.append(&mut send(&front, 100).await);
        assert_eq!(database.owners().into_keys().collect::<Vec<_>>(), [2]);
        let executed = database.executed();
        assert_eq!(executed.len(), sent.len(), "{group_protocol:?}: none twice");
        assert_eq!(executed.into_iter().collect::<BTreeSet<_>>(), sent, "{group_protocol:?}");
        second.stop(TIMEOUT).await;
        assert_eq!(database.owners().into_keys().collect::<Vec<_>>(), [NO_OWNER]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn a_partition_is_read_again_after_its_database_was_away() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    let mut sent = send(&front, 30).await;
    let opened = database.opened();
    database.set_away(true);
    let asked = Arc::clone(&front);
    let during = tokio::spawn(async move { send(&asked, 60).await });
    let asked = Arc::clone(&front);
    // They come while it is away.
    tokio::time::timeout(std::time::Duration::from_millis(300), send(&asked, 1)).await.unwrap_err();
    database.set_away(false);
    sent.append(&mut during.await.unwrap());
    sent.append(&mut send(&front, 30).await);
    let executed: BTreeSet<_> = database.executed().into_iter().collect();
    assert!(sent.is_subset(&executed), "none is lost");
    assert_eq!(executed.len(), database.executed().len(), "none comes twice");
    assert!(database.opened() > opened);
    processor.stop(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn a_processor_starts_while_its_database_is_away() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    database.set_away(true);
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    let asked = Arc::clone(&front);
    let sending = tokio::spawn(async move { send(&asked, 20).await });
    tokio::time::timeout(std::time::Duration::from_millis(500), send(&front, 1)).await.unwrap_err();
    database.set_away(false);
    assert_eq!(sending.await.unwrap().len(), 20);
    processor.stop(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn a_partition_that_left_while_it_was_opened_again_is_read_when_it_comes_back() {
    for group_protocol in scene::PROTOCOLS {
        let settings = Settings { group_protocol, ..scene::scene().await };
        let database = Arc::new(Database::default());
        let first = scene::process(&settings, Class::Payment, Counting::new(1, &database));
        let front = scene::front(&settings, TIMEOUT).await;
        let mut sent = send(&front, 30).await;
        database.set_away(true);
        let asked = Arc::clone(&front);
        let during = tokio::spawn(async move { send(&asked, 60).await });
        // Each partition has one that failed, and is paused while it is opened again.
        let asked = Arc::clone(&front);
        let away = std::time::Duration::from_secs(1);
        tokio::time::timeout(away, send(&asked, 1)).await.unwrap_err();
        let second = scene::process(&settings, Class::Payment, Counting::new(2, &database));
        scene::until("one is given up", || database.owners().contains_key(&NO_OWNER)).await;
        database.set_away(false);
        scene::until("both own partitions", || database.owners().keys().eq(&[1, 2])).await;
        second.stop(TIMEOUT).await;
        scene::until("all come back", || database.owners().keys().eq(&[1])).await;
        sent.append(&mut during.await.unwrap());
        sent.append(&mut send(&front, 60).await);
        let executed: BTreeSet<_> = database.executed().into_iter().collect();
        assert!(sent.is_subset(&executed), "{group_protocol:?}: none is lost");
        assert_eq!(executed.len(), database.executed().len(), "{group_protocol:?}: none twice");
        first.stop(TIMEOUT).await;
    }
}
