//! Dead letters are listed, retried and dropped.

use std::sync::Arc;

use engine::Reason;
use kafka::dead_letter::{self, DeadLetterError, DeadLetterId};
use kafka::topics::Class;

use crate::scene::{self, Counting, Database, TIMEOUT};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn parked_commands_are_listed_retried_and_dropped() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    assert!(dead_letter::list(&settings).await.unwrap().waiting.is_empty());
    for account in [1, 2] {
        let answer = scene::ask(&front, scene::route(account), scene::request("park")).await;
        assert_eq!(answer, Err(Reason::Bug), "its front receives the reason");
    }
    // The reply is sent only once the dead letter is written.
    let dead_letters = dead_letter::list(&settings).await.unwrap().waiting;
    assert_eq!(dead_letters.len(), 2);
    assert_eq!(
        (dead_letters[0].dead_letter.reason.as_str(), dead_letters[0].dead_letter.attempts),
        ("bug", 1)
    );
    assert!(dead_letters[0].at_ms > 1_700_000_000_000);

    let dropped = dead_letter::discard(&settings, dead_letters[0].id).await.unwrap();
    assert_eq!(dropped, dead_letters[0].dead_letter);
    let retried = dead_letter::retry(&settings, dead_letters[1].id).await.unwrap();
    assert_eq!(retried, dead_letters[1].dead_letter);

    // It fails again, and comes back as another dead letter.
    let mut again = vec![];
    let mut look = tokio::time::interval(std::time::Duration::from_millis(50));
    for _ in 0..200 {
        again = dead_letter::list(&settings).await.unwrap().waiting;
        if !again.is_empty() {
            break;
        }
        look.tick().await;
    }
    let again: Vec<_> = again.into_iter().map(|it| it.dead_letter).collect();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].attempts, &again[0].value), (2, &retried.value));
    assert_eq!((again[0].partition, &again[0].key), (retried.partition, &retried.key));

    for gone in [dead_letters[0].id, dead_letters[1].id, DeadLetterId { partition: 0, offset: 999 }]
    {
        let error = dead_letter::retry(&settings, gone).await.unwrap_err();
        assert!(matches!(error, DeadLetterError::NotFound(id) if id == gone), "{error}");
    }
    processor.stop(TIMEOUT).await;
}
