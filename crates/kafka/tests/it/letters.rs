//! Dead letters are listed, retried and dropped.

use std::sync::Arc;

use engine::Reason;
use kafka::dead_letter::{self, DeadLetterError, LetterId};
use kafka::topics::Class;

use crate::scene::{self, Counting, Database, PATIENCE};

#[tokio::test(flavor = "multi_thread")]
async fn parked_commands_are_listed_retried_and_dropped() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, PATIENCE).await;
    assert!(dead_letter::list(&settings).await.unwrap().is_empty());
    for account in [1, 2] {
        let answer = scene::ask(&front, scene::route(account), scene::request("park")).await;
        assert_eq!(answer, Err(Reason::Bug), "its front is told");
    }
    // Told only once the letter is there.
    let letters = dead_letter::list(&settings).await.unwrap();
    assert_eq!(letters.len(), 2);
    assert_eq!((letters[0].letter.reason.as_str(), letters[0].letter.attempts), ("bug", 1));
    assert!(letters[0].at_ms > 1_700_000_000_000);

    let dropped = dead_letter::drop_letter(&settings, letters[0].id).await.unwrap();
    assert_eq!(dropped, letters[0].letter);
    let retried = dead_letter::retry(&settings, letters[1].id).await.unwrap();
    assert_eq!(retried, letters[1].letter);

    // It fails again, and comes back as another letter.
    let mut again = vec![];
    let mut look = tokio::time::interval(std::time::Duration::from_millis(50));
    for _ in 0..200 {
        again = dead_letter::list(&settings).await.unwrap();
        if !again.is_empty() {
            break;
        }
        look.tick().await;
    }
    let again: Vec<_> = again.into_iter().map(|it| it.letter).collect();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].attempts, &again[0].value), (2, &retried.value));
    assert_eq!((again[0].partition, &again[0].key), (retried.partition, &retried.key));

    for gone in [letters[0].id, letters[1].id, LetterId { partition: 0, offset: 999 }] {
        let error = dead_letter::retry(&settings, gone).await.unwrap_err();
        assert!(matches!(error, DeadLetterError::NoLetter(id) if id == gone), "{error}");
    }
    processor.stop(PATIENCE).await;
}
