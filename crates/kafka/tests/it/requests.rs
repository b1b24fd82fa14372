//! Requests, questions and echoes find their way and come back.

use std::sync::Arc;
use std::time::Duration;

use domain::{AccountId, PartitionNo, PaymentId, Seq, TenantNo, TransactionId, WebhookEndpointId};
use engine::Reason;
use engine::ports::{Inquiry, Question};
use engine::queue::{Inquired, Message, Queue, Reply, Resend, Route};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use kafka::topics::Class;
use kafka::{Front, FrontOptions, Settings};
use tokio::task::JoinSet;

use crate::scene::{self, Counting, DONE, Database, TIMEOUT};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn requests_are_executed_once_each_and_answered() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    let mut asking = JoinSet::new();
    let mut sent = vec![];
    for account in 0..500 {
        let request = scene::request("k");
        sent.push(request.id);
        let front = Arc::clone(&front);
        asking.spawn(async move { scene::ask(&front, scene::route(account), request).await });
    }
    for answer in asking.join_all().await {
        assert_eq!(answer, DONE);
    }
    let mut executed = database.executed();
    executed.sort();
    sent.sort();
    assert_eq!(executed, sent);
    let refused = scene::ask(&front, scene::route(1), scene::request("full")).await;
    assert_eq!(refused, Err(Reason::GatewayFull), "a settled refusal is an answer");
    assert_eq!(scene::ask(&front, scene::route(1), scene::request("k")).await, DONE);
    assert_eq!(database.opened(), 3, "each partition once");
    processor.stop(TIMEOUT).await;
}

/// Those that gather too.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn concurrent_commands_execute_in_order_of_arrival() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    let requests: Vec<_> = (0..2_000).map(|_| scene::request("k")).collect();
    let sent: Vec<_> = requests.iter().map(|it| it.id).collect();
    let asking = requests.into_iter().map(|it| scene::ask(&front, scene::route(1), it));
    for answer in join_all(asking).await {
        assert_eq!(answer, DONE);
    }
    assert!(database.executed() == sent, "in order");
    processor.stop(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn a_command_whose_caller_has_gone_away_is_not_sent() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let [early, first, given_up, last] = [(); 4].map(|()| scene::request("k"));
    let sent = [early.id, first.id, last.id];
    let front = scene::front(&settings, TIMEOUT).await;
    // Until the group has formed, an answer takes as long as that.
    assert_eq!(scene::ask(&front, scene::route(1), early).await, DONE);
    let gathering = Settings { linger: Duration::from_secs(3), ..settings.clone() };
    let front = scene::front(&gathering, TIMEOUT).await;
    assert_eq!(scene::ask(&front, scene::route(1), first).await, DONE);
    // Its first poll hands the command to the sender; then its caller goes away.
    let giving_up = scene::ask(&front, scene::route(1), given_up);
    assert_eq!(giving_up.now_or_never(), None);
    assert_eq!(scene::ask(&front, scene::route(1), last).await, DONE);
    assert_eq!(database.executed(), sent);
    processor.stop(TIMEOUT).await;
}

/// The first delivery sends the reply.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn the_second_of_two_deliveries_is_skipped_without_a_reply() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let patient = scene::front(&settings, TIMEOUT).await;
    assert_eq!(scene::ask(&patient, scene::route(1), scene::request("k")).await, DONE);
    let front = scene::front(&settings, Duration::from_secs(5)).await;
    let again = scene::ask(&front, scene::route(1), scene::request("again")).await;
    assert_eq!(again, Err(Reason::CommitInDoubt), "no reply was sent");
    assert_eq!(scene::ask(&patient, scene::route(1), scene::request("k")).await, DONE);
    assert_eq!(database.opened(), 3, "no partition was read again");
    processor.stop(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn questions_and_echoes_are_answered() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Balance, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    let account = AccountId::new(uuid::Uuid::from_u128(7));
    for (tenant, expected) in [(1, None), (2, Some(vec![]))] {
        let tenant = TenantNo(tenant);
        let reply =
            front.ask(scene::route(7), Message::Balance { tenant, account, work: None }).await;
        assert_eq!(reply.map_err(|it| it.reason), Ok(Reply::Balance(expected)));
    }
    let echo = front.echo(Class::Balance, 2, b"echo".to_vec()).await;
    assert_eq!(echo.map_err(|it| it.reason), Ok(b"echo".to_vec()));
    let floors = kafka::floor::measure(&settings, Class::Balance, &[1, 200]).await.unwrap();
    assert_eq!(floors.iter().map(|it| it.answered).collect::<Vec<_>>(), [1, 200]);
    processor.stop(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn inquiries_are_answered_by_the_partition_and_pass_their_offset() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    let transaction = TransactionId::new(uuid::Uuid::from_u128(8));
    for (tenant, expected) in
        [(1, Ok(Inquired::NoTransaction)), (2, Ok(Inquired::Final)), (3, Err(Reason::Stopping))]
    {
        let payment = PaymentId::new(uuid::Uuid::from_u128(7));
        let inquiry = Inquiry { tenant: TenantNo(tenant), payment, transaction };
        let reply = front.ask(scene::route(7), Message::Inquire(Question::Outcome(inquiry))).await;
        assert_eq!(reply.map_err(|it| it.reason), expected.map(Reply::Inquired), "{tenant}");
    }
    assert_eq!(database.inquired(), [transaction; 3]);
    assert_eq!(database.skipped().len(), 3);
    let partition = PartitionNo::new(2).unwrap();
    let endpoints = vec![WebhookEndpointId::new(uuid::Uuid::from_u128(9))];
    let seq = Seq(partition.start().0 + 7);
    let resend = Resend { tenant: TenantNo(2), seq, ordinal: 1, endpoints };
    let reply = front.ask(Route::Partition(partition), Message::Resend(resend.clone())).await;
    assert_eq!(reply.map_err(|it| it.reason), Ok(Reply::Resent));
    assert_eq!(database.resent(), [(2, resend)]);
    assert_eq!(scene::ask(&front, scene::route(7), scene::request("k")).await, DONE);
    assert_eq!(database.opened(), 3, "no partition was read again");
    processor.stop(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn fronts_with_the_same_number_do_not_steal_replies() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Balance, Counting::new(1, &database));
    let (one, other) =
        (scene::front(&settings, TIMEOUT).await, scene::front(&settings, TIMEOUT).await);
    for turn in 0..50 {
        // Their requests have the same numbers.
        let (from_one, from_other) = tokio::join!(
            one.echo(Class::Balance, turn % 3, b"one".to_vec()),
            other.echo(Class::Balance, turn % 3, b"other".to_vec()),
        );
        assert_eq!(from_one.map_err(|it| it.reason), Ok(b"one".to_vec()));
        assert_eq!(from_other.map_err(|it| it.reason), Ok(b"other".to_vec()));
    }
    processor.stop(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn commands_above_the_bound_are_refused_at_once() {
    let settings = scene::scene().await;
    let options = FrontOptions {
        waiting_max: 1,
        time_to_live: Duration::from_millis(100),
        ..FrontOptions::new(&settings.topics(), 1)
    };
    let front = Front::start(&settings, options).unwrap();
    let mut available = front.availability();
    tokio::time::timeout(TIMEOUT, available.wait_for(|it| *it)).await.unwrap().unwrap();
    let mut large = scene::request("k");
    large.actor.comments = Some("x".repeat(2_000_000));
    assert_eq!(
        scene::ask(&front, scene::route(1), large).await,
        Err(Reason::MessageTooLarge),
        "2 MB"
    );
    // There is no processor: the first lies in Kafka, and there is no room for the second.
    let (first, second) = tokio::join!(
        scene::ask(&front, scene::route(1), scene::request("k")),
        scene::ask(&front, scene::route(1), scene::request("k")),
    );
    assert_eq!((first, second), (Err(Reason::CommitInDoubt), Err(Reason::QueueFull)));
    let tenant = TenantNo(2);
    let account = AccountId::new(uuid::Uuid::nil());
    let asked = front.ask(scene::route(1), Message::Balance { tenant, account, work: None }).await;
    assert_eq!(asked.unwrap_err().reason, Reason::QueueAway, "a question has no outcome");
}
