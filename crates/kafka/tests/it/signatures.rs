//! A record that no member of the cluster has signed is neither executed as a command nor taken as a reply.

use std::sync::Arc;
use std::time::Duration;

use domain::access::CreateUser;
use domain::command::{AccessCommand, PaymentCommand};
use domain::payment::{GatewayAnswer, GatewayReplied};
use domain::{PaymentId, Request, TransactionId};
use engine::queue::Reply;
use engine::{Answer, Reason};
use kafka::dead_letter::{self, DeadLetterError};
use kafka::signature::SIGNATURE;
use kafka::topics::Class;
use kafka::{Command, ReplyBody, ReplyEnvelope, Role, Settings, SignatureError};
use rdkafka::message::{Headers as _, Message as _, OwnedMessage};
use uuid::Uuid;

use crate::scene::{self, Counting, DONE, Database, TIMEOUT};

const NOW: Duration = Duration::ZERO;

/// The bytes of a command that replies to nobody who waits.
fn command(settings: &Settings, request: Request) -> Vec<u8> {
    scene::command(request, &settings.topics().reply(), 1, TIMEOUT)
}

fn create_user(settings: &Settings) -> Vec<u8> {
    let user = CreateUser {
        username: "mallory".to_owned(),
        password_hash: "hash".to_owned(),
        roles: vec!["root".to_owned()],
    };
    let command = AccessCommand::CreateUser(user).into();
    self::command(settings, Request { command, ..scene::request("k") })
}

fn gateway_answer(settings: &Settings) -> Vec<u8> {
    let replied = GatewayReplied {
        payment: PaymentId::new(Uuid::nil()),
        transaction: TransactionId::new(Uuid::nil()),
        answer: GatewayAnswer::Nothing,
        is_controlled: false,
        tries: None,
    };
    let command = PaymentCommand::GatewayReplied(replied).into();
    self::command(settings, Request { command, ..scene::request("k") })
}

fn signature_of(record: &OwnedMessage) -> Vec<u8> {
    let headers = record.headers().unwrap();
    let header = headers.iter().find(|it| it.key == SIGNATURE).unwrap();
    header.value.unwrap().to_vec()
}

/// Lets a processor read what was written to partition 0 of the payments, and then a good command:
/// that alone is executed. The reasons of the dead letters, by offset.
async fn reasons(settings: &Settings) -> Vec<(i64, String)> {
    let good = scene::request("k");
    let id = good.id;
    let payment = settings.topics().commands(Class::Payment);
    scene::write(settings, &payment, 0, &command(settings, good));
    let database = Arc::new(Database::default());
    let processor = scene::process(settings, Class::Payment, Counting::new(1, &database));
    scene::until("the good one", || !database.executed().is_empty()).await;
    assert_eq!(database.executed(), [id]);
    processor.stop(TIMEOUT).await;
    let dead_letters = dead_letter::list(settings).await.unwrap().waiting;
    assert!(dead_letters.iter().all(|it| it.dead_letter.topic == payment));
    dead_letters.into_iter().map(|it| (it.dead_letter.offset, it.dead_letter.reason)).collect()
}

fn expected(labels: &[&str]) -> Vec<(i64, String)> {
    (0..).zip(labels.iter().map(|label| (*label).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn forged_commands_are_not_executed_and_their_partition_goes_on() {
    let settings = scene::scene().await;
    let topic = settings.topics().commands(Class::Payment);
    let place = (topic.as_str(), 0);
    let forged = create_user(&settings);
    scene::write_signed(&settings, place, &forged, None);
    let foreign = Settings { keys: Some(scene::keys(9, None)), ..settings.clone() };
    let signature = scene::sign(&foreign, (Role::Front, NOW), place, &forged);
    scene::write_signed(&settings, place, &forged, Some(&signature));
    let own =
        scene::sign(&settings, (Role::Front, NOW), place, &command(&settings, scene::request("k")));
    scene::write_signed(&settings, place, &forged, Some(&own));
    // Signed, but not by those who say such things.
    let signature = scene::sign(&settings, (Role::Processor, NOW), place, &forged);
    scene::write_signed(&settings, place, &forged, Some(&signature));
    let answer = gateway_answer(&settings);
    scene::write_signed(&settings, place, &answer, None);
    scene::write(&settings, &topic, 0, &answer);
    let labels =
        ["unsigned", "unknown_key", "wrong_signature", "wrong_role", "unsigned", "wrong_role"];
    assert_eq!(reasons(&settings).await, expected(&labels));

    for listed in dead_letter::list(&settings).await.unwrap().waiting {
        let error = dead_letter::retry(&settings, listed.id).await.unwrap_err();
        assert!(matches!(error, DeadLetterError::NotBelieved { .. }), "{error}");
        dead_letter::discard(&settings, listed.id).await.unwrap();
    }
    assert!(dead_letter::list(&settings).await.unwrap().waiting.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn records_that_were_copied_from_elsewhere_or_kept_for_long_are_refused() {
    let settings = scene::scene().await;
    let topics = settings.topics();
    let payment = topics.commands(Class::Payment);
    let request = command(&settings, scene::request("k"));
    for place in [
        (payment.as_str(), 1),
        (topics.commands(Class::Balance).as_str(), 0),
        (topics.reply().as_str(), 0),
    ] {
        let signature = scene::sign(&settings, (Role::Front, NOW), place, &request);
        scene::write_signed(&settings, (&payment, 0), &request, Some(&signature));
    }
    let old = Duration::from_secs(13 * 3_600);
    let signature = scene::sign(&settings, (Role::Front, old), (&payment, 0), &request);
    scene::write_signed(&settings, (&payment, 0), &request, Some(&signature));
    let labels = ["wrong_signature", "wrong_signature", "wrong_signature", "stale"];
    assert_eq!(reasons(&settings).await, expected(&labels));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn while_keys_change_both_are_accepted() {
    let old = scene::scene().await;
    let front = scene::front(&old, TIMEOUT).await;
    let database = Arc::new(Database::default());
    // The processor knows the new key already, which it does not sign with: the front has only the old.
    let first = Settings { keys: Some(scene::keys(7, Some(8))), ..old.clone() };
    let processor = scene::process(&first, Class::Payment, Counting::new(1, &database));
    assert_eq!(scene::ask(&front, scene::route(1), scene::request("k")).await, DONE);
    let new_front = Settings { keys: Some(scene::keys(8, Some(7))), ..old.clone() };
    let new_front = scene::front(&new_front, TIMEOUT).await;
    assert_eq!(scene::ask(&new_front, scene::route(1), scene::request("k")).await, DONE);
    processor.stop(TIMEOUT).await;
    // Once no process signs with the old key, it is given up.
    let last = Settings { keys: Some(scene::keys(8, None)), ..old.clone() };
    let processor = scene::process(&last, Class::Payment, Counting::new(2, &database));
    assert_eq!(scene::ask(&new_front, scene::route(1), scene::request("k")).await, DONE);
    let front = scene::front(&old, Duration::from_secs(2)).await;
    let refused = scene::ask(&front, scene::route(1), scene::request("k")).await;
    assert_eq!(refused, Err(Reason::CommitInDoubt), "no reply");
    processor.stop(TIMEOUT).await;
    assert_eq!(database.executed().len(), 3);
    let listed = dead_letter::list(&last).await.unwrap().waiting;
    let reasons: Vec<_> = listed.iter().map(|it| it.dead_letter.reason.as_str()).collect();
    assert_eq!(reasons, [SignatureError::UnknownKey.label()]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn a_front_ignores_replies_that_no_processor_signed() {
    let settings = scene::scene().await;
    let topics = settings.topics();
    let (payment, reply) = (topics.commands(Class::Payment), topics.reply());
    let front = scene::front(&settings, TIMEOUT).await;
    let asking = {
        let front = Arc::clone(&front);
        tokio::spawn(async move { scene::ask(&front, scene::route(1), scene::request("k")).await })
    };
    let partition = engine::queue::Route::partition(scene::route(1), 3).number();
    let partition = i32::try_from(partition).unwrap();
    let sent = scene::read(&settings, &payment, partition, 1).remove(0);
    let to = Command::decode(sent.payload().unwrap()).unwrap().reply_to;
    let answer =
        |outcome| ReplyEnvelope { front: to.front, correlation: to.correlation, outcome }.encode();
    let refused = answer(ReplyBody::Expired);
    let place = (reply.as_str(), to.partition);
    scene::write_signed(&settings, place, &refused, None);
    let by_a_front = scene::sign(&settings, (Role::Front, NOW), place, &refused);
    scene::write_signed(&settings, place, &refused, Some(&by_a_front));
    scene::write_signed(&settings, place, &refused, Some(&signature_of(&sent)));
    let done = answer(ReplyBody::Reply(Reply::Answer(Answer::Replied(domain::Reply::Done))));
    let genuine = scene::sign(&settings, (Role::Processor, NOW), place, &done);
    scene::write_signed(&settings, place, &done, Some(&genuine));
    assert_eq!(asking.await.unwrap(), DONE);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn of_many_forged_records_few_are_stored() {
    let settings = scene::scene().await;
    let topic = settings.topics().commands(Class::Payment);
    for _ in 0..20 {
        scene::write_signed(&settings, (&topic, 0), &[b'x'; 100_000], None);
    }
    assert_eq!(reasons(&settings).await, expected(&["unsigned"; 16]));
    let listed = dead_letter::list(&settings).await.unwrap().waiting;
    assert!(listed.iter().all(|it| it.dead_letter.value == [b'x'; 4_096]), "the beginning of each");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn forged_dead_letters_are_neither_listed_nor_sent_again() {
    let settings = scene::scene().await;
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    let parked = scene::ask(&front, scene::route(1), scene::request("park")).await;
    assert_eq!(parked, Err(Reason::Bug));
    processor.stop(TIMEOUT).await;
    let topic = settings.topics().dead_letter();
    let [genuine] = scene::read(&settings, &topic, 0, 1).try_into().unwrap();
    // A copy with another command, and one that a front signed.
    let forged = create_user(&settings);
    scene::write_signed(&settings, (&topic, 0), &forged, Some(&signature_of(&genuine)));
    let by_a_front = scene::sign(&settings, (Role::Front, NOW), (&topic, 0), &forged);
    scene::write_signed(&settings, (&topic, 0), &forged, Some(&by_a_front));
    let listing = dead_letter::list(&settings).await.unwrap();
    let listed = listing.waiting;
    assert_eq!((listed.len(), listing.refused), (1, 2));
    assert_eq!(listed[0].dead_letter.value, genuine.payload().unwrap());
    // Sent again it is signed again, for the place that it goes to.
    dead_letter::retry(&settings, listed[0].id).await.unwrap();
    let sent =
        scene::read(&settings, &listed[0].dead_letter.topic, listed[0].dead_letter.partition, 3);
    let [_, _, again] = sent.try_into().unwrap();
    assert_eq!(again.payload(), genuine.payload());
    assert_ne!(signature_of(&again), signature_of(&genuine));
}
