//! The mail queue: which mails are sent, when one is tried again, and which are not sent.

use std::path::Path;
use std::sync::Arc;

use domain::command::CustomerCommand;
use domain::customer::operation::{FailOperation, QueueRegistration};
use domain::customer::{
    CustomerStatus, EraseCustomer, NewSecondFactor, TokenPurpose, UpdateCustomer, VerifyEmail,
};
use domain::{OperationId, PartitionNo, Timestamp};
use engine::retention;
use sign_up::operations::OwnsAccount;
use sign_up::unverified;
use store::Share;

use super::mailbox::{Mailbox, Manner};
use super::{DAY_US, Home, PATIENCE, Scene, TENANT, files, into_files, to, token};

const MINUTE_US: i64 = 60 * Timestamp::SECOND_US;

/// The header by which a mail is recognised.
fn message_id(mail: &str) -> &str {
    mail.lines().find(|line| line.starts_with("Message-ID: ")).unwrap()
}

/// Overwrites the first byte of each place where the text stands in the file, as a faulty disk may.
fn damage(file: &Path, text: &[u8]) {
    let mut bytes = std::fs::read(file).unwrap();
    let places: Vec<usize> = bytes
        .windows(text.len())
        .enumerate()
        .filter_map(|(at, found)| (found == text).then_some(at))
        .collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[*at] = b'?');
    std::fs::write(file, bytes).unwrap();
}

fn is_verification(mail: &str) -> bool {
    mail.contains("Subject: Confirm your address")
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_up_sends_two_mails_and_a_link_that_verifies() {
    let mut scene = Scene::new();
    scene.send(&into_files());
    let customer = scene.register("ann@example.com").await;
    scene.sent().await;
    let mails = files(&scene.directory());
    assert_eq!(mails.len(), 2, "{mails:?}");
    assert!(mails.iter().any(|mail| mail.contains("Subject: Welcome to Faregate")), "{mails:?}");
    assert!(mails.iter().all(|mail| mail.contains("<ann@example.com>")), "{mails:?}");
    let mail = mails.iter().find(|mail| is_verification(mail)).unwrap();
    assert!(mail.contains("24 hours"), "{mail}");
    let token = token(mail, "http://localhost:8080/verify-email").unwrap();
    assert!(scene.holds(customer, TokenPurpose::Verification, &token).await);
    let issued = scene.customer(customer).await.verification.unwrap();
    let verify = VerifyEmail { customer, token: issued.id };
    scene.accepted(CustomerCommand::VerifyEmail(verify)).await;

    // A second registration of the address gets the same answer; its owner is notified.
    scene.request(customer, TokenPurpose::PasswordReset).await;
    scene.sent().await;
    let mails = files(&scene.directory());
    let mail = mails.iter().find(|mail| mail.contains("/reset-password")).unwrap();
    let token = super::token(mail, "http://localhost:8080/reset-password").unwrap();
    assert!(scene.holds(customer, TokenPurpose::PasswordReset, &token).await);
    assert_eq!(mails.len(), 3);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_that_does_not_go_out_is_tried_again_and_then_given_up() {
    let mailbox = Mailbox::start(Manner::Postpones).await;
    let mut scene = Scene::new();
    scene.send(&to(&mailbox));
    scene.register("ann@example.com").await;
    for (attempts, delay) in [(1, 1), (2, 5)] {
        let mails = scene.queue("both are postponed", |mails| {
            mails.len() == 2 && mails.iter().all(|mail| mail.attempts == attempts)
        });
        for mail in mails.await {
            let due_in_us = mail.due_at.unwrap().0 - scene.engine.clock().now().0;
            assert!((0..=delay * MINUTE_US).contains(&due_in_us), "{mail:?}");
            assert!(due_in_us > (delay - 1) * MINUTE_US, "{mail:?}");
            let error = mail.error.unwrap();
            assert!(error.contains("451") && error.contains("(address)"), "{error}");
            assert!(!error.contains("example"), "{error}");
        }
        assert_eq!(mailbox.asked(), 2 * usize::try_from(attempts).unwrap());
        scene.wait(delay * MINUTE_US);
    }
    scene.sent().await;
    let dead = scene.mails(true).await;
    assert!(dead.iter().all(|mail| mail.attempts == 3 && mail.due_at.is_none()), "{dead:?}");
    assert_eq!((dead.len(), mailbox.asked()), (2, 6));
    scene.wait(30 * DAY_US);
    mailbox.becomes(|_| Manner::Takes);
    scene.register("bob@example.com").await;
    scene.sent().await;
    assert_eq!((mailbox.mails().len(), scene.mails(true).await), (2, dead));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permanently_refused_mail_is_given_up_at_once() {
    let mailbox = Mailbox::start(Manner::Refuses).await;
    let mut scene = Scene::new();
    scene.send(&to(&mailbox));
    scene.register("ann@example.com").await;
    scene.sent().await;
    let dead = scene.mails(true).await;
    assert_eq!((dead.len(), mailbox.asked()), (2, 2));
    let error = dead[0].error.as_deref().unwrap();
    assert!(error.contains("550") && !error.contains("example"), "{error}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_last_of_several_tokens_is_sent() {
    let mailbox = Mailbox::start(Manner::Postpones).await;
    let mut scene = Scene::new();
    scene.send(&to(&mailbox));
    let customer = scene.register("ann@example.com").await;
    for _ in 0..3 {
        scene.request(customer, TokenPurpose::Verification).await;
        scene.request(customer, TokenPurpose::PasswordReset).await;
    }
    scene.queue("each was tried or closed", |mails| mails.iter().all(|it| it.attempts == 1)).await;
    mailbox.becomes(|_| Manner::Takes);
    scene.wait(MINUTE_US);
    scene.sent().await;
    let mails = mailbox.mails();
    let tokens = |page| mails.iter().filter_map(|mail| token(mail, page)).collect::<Vec<_>>();
    let [verification] = tokens("/verify-email").try_into().unwrap();
    assert!(scene.holds(customer, TokenPurpose::Verification, &verification).await);
    let [reset] = tokens("/reset-password").try_into().unwrap();
    assert!(scene.holds(customer, TokenPurpose::PasswordReset, &reset).await);
    assert_eq!((mails.len(), scene.mails(true).await.len()), (3, 0), "{mails:?}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_used_or_has_ended_is_not_sent() {
    let mailbox = Mailbox::start(Manner::Takes).await;
    let mut scene = Scene::new();
    let verified = scene.register("ann@example.com").await;
    let issued = scene.customer(verified).await.verification.unwrap();
    let verify = VerifyEmail { customer: verified, token: issued.id };
    scene.accepted(CustomerCommand::VerifyEmail(verify)).await;
    scene.register("bob@example.com").await;
    scene.wait(DAY_US);
    scene.send(&to(&mailbox));
    scene.sent().await;
    let mails = mailbox.mails();
    assert_eq!(mails.len(), 2, "{mails:?}");
    assert!(!mails.iter().any(|mail| is_verification(mail)), "{mails:?}");
    assert_eq!(scene.mails(true).await, []);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_who_is_forgotten() {
    let mailbox = Mailbox::start(Manner::Postpones).await;
    let mut scene = Scene::new();
    scene.send(&to(&mailbox));
    let ann = scene.register("ann@example.com").await;
    let bob = scene.register("bob@example.com").await;
    let both = |mails: &[domain::customer::mail::Mail]| mails.iter().all(|mail| mail.attempts == 1);
    scene.queue("all are postponed", both).await;
    let erase = EraseCustomer { customer: ann, if_expired: false };
    scene.accepted(CustomerCommand::Erase(erase)).await;
    let left = scene.mails(false).await;
    assert!(left.len() == 2 && left.iter().all(|mail| mail.customer == bob.id), "{left:?}");
    mailbox.becomes(|_| Manner::Takes);
    scene.wait(MINUTE_US);
    scene.sent().await;
    let mails = mailbox.mails();
    assert_eq!(mails.len(), 2);
    assert!(mails.iter().all(|mail| mail.contains("bob@example.com")), "{mails:?}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_holds_up_its_mails_and_no_other() {
    let mailbox = Mailbox::start(Manner::Takes).await;
    mailbox.becomes(|to| match to.starts_with("slow") {
        true => Manner::Swallows,
        false => Manner::Takes,
    });
    let mut scene = Scene::new();
    scene.send(&to(&mailbox));
    scene.register("slow@example.com").await;
    mailbox.has(2).await;
    for person in ["ann", "bob", "eve"] {
        scene.register(&format!("{person}@example.com")).await;
    }
    assert_eq!(mailbox.has(8).await.len(), 8);
    let underway = scene.queue("two are on their way", |mails| mails.len() == 2).await;
    assert!(underway.iter().all(|mail| mail.attempts == 0), "{underway:?}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_behind_a_slow_server_is_checked_again_and_sent_once() {
    let mailbox = Mailbox::start(Manner::Takes).await;
    let hold = mailbox.holds();
    let mut scene = Scene::new();
    let mut people = vec![];
    for person in 0..40 {
        people.push(scene.register(&format!("p{person}@example.com")).await);
    }
    scene.send(&to(&mailbox));
    mailbox.has(1).await;
    // The first look found these mails, which wait for a place.
    let (replaced, forgotten) = (people[20], people[21]);
    scene.request(replaced, TokenPurpose::Verification).await;
    let erase = EraseCustomer { customer: forgotten, if_expired: false };
    scene.accepted(CustomerCommand::Erase(erase)).await;
    drop(hold);
    scene.sent().await;
    let mails = mailbox.mails();
    let mut ids: Vec<&str> = mails.iter().map(|mail| message_id(mail)).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((mails.len(), ids.len()), (78, 78));
    assert!(!mails.iter().any(|mail| mail.contains("<p21@example.com>")));
    let of_replaced = mails.iter().filter(|mail| mail.contains("<p20@example.com>"));
    let tokens: Vec<String> = of_replaced.filter_map(|it| token(it, "/verify-email")).collect();
    let [last] = tokens.try_into().unwrap();
    assert!(scene.holds(replaced, TokenPurpose::Verification, &last).await);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customer_who_cannot_be_read_keeps_no_others_mail() {
    let scene = Scene::new();
    let broken = scene.register("ann@example.com").await;
    scene.register("bob@example.com").await;
    let proposed =
        NewSecondFactor::Proposed { sealed: "legible".to_owned(), recovery_hashes: vec![] };
    let update = UpdateCustomer { second_factor: Some(proposed), ..UpdateCustomer::of(broken) };
    scene.accepted(CustomerCommand::Update(Box::new(update))).await;
    let (copy, home) = (Home::new(), Home::new());
    std::fs::create_dir(&copy.0).unwrap();
    let backup = copy.0.join("backup");
    store::backup(&scene.home.0, &backup).unwrap();
    scene.end().await;
    damage(&backup, br#"{"sealed":"legible""#);
    store::restore(&backup, &home.0).unwrap();
    let mut scene = Scene::at(home);
    scene.send(&into_files());
    let is_tried = |mails: &[domain::customer::mail::Mail]| {
        mails.len() == 2
            && mails.iter().all(|mail| mail.customer == broken.id && mail.attempts == 1)
    };
    for mail in scene.queue("the others are sent", is_tried).await {
        assert_eq!(mail.error.as_deref(), Some("its customer cannot be read"));
    }
    let mails = files(&scene.directory());
    assert!(mails.len() == 2 && mails.iter().all(|mail| mail.contains("<bob@example.com>")));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_sent_but_not_recorded_is_sent_again_with_the_same_id() {
    let mailbox = Mailbox::start(Manner::Swallows).await;
    let mut scene = Scene::new();
    scene.send(&to(&mailbox));
    let customer = scene.register("ann@example.com").await;
    mailbox.has(2).await;
    scene.hold().await;
    assert_eq!(scene.mails(false).await.len(), 2);
    mailbox.becomes(|_| Manner::Takes);
    scene.send(&to(&mailbox));
    scene.sent().await;
    let mails = mailbox.mails();
    let mut ids: Vec<&str> = mails.iter().map(|mail| message_id(mail)).collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), 4);
    assert_eq!((ids[0], ids[2]), (ids[1], ids[3]));
    let tokens: Vec<String> =
        mails.iter().filter_map(|mail| token(mail, "/verify-email")).collect();
    assert_eq!(tokens.len(), 2);
    assert_eq!(tokens[0], tokens[1]);
    assert!(scene.holds(customer, TokenPurpose::Verification, &tokens[0]).await);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_tells_of_its_mails() {
    let scene = Scene::new();
    let mut queued = scene.engine.mails_queued();
    scene.register("ann@example.com").await;
    let changed = tokio::time::timeout(PATIENCE, queued.changed()).await;
    changed.unwrap().unwrap();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_deleted_a_week_after_its_end() {
    let scene = Scene::new();
    let operation = OperationId::new(scene.engine.mint().0);
    let sealed = "sealed".to_owned();
    let kept = QueueRegistration { operation, sealed, callback: None };
    scene.accepted(CustomerCommand::QueueRegistration(kept)).await;
    let is_there = async || {
        retention::pass(&scene.engine).await.unwrap();
        let read = scene.engine.read(move |queries| queries.operation(TENANT, operation));
        read.await.unwrap().is_some()
    };
    scene.wait(30 * DAY_US);
    assert!(is_there().await, "it is not over");
    let failed = FailOperation { operation, explanation: String::new() };
    scene.accepted(CustomerCommand::FailOperation(failed)).await;
    scene.wait(7 * DAY_US - 10 * MINUTE_US);
    assert!(is_there().await);
    scene.wait(11 * MINUTE_US);
    assert!(!is_there().await);
    scene.end().await;
}

fn owned_by(share: Share) -> OwnsAccount {
    Arc::new(move |tenant, account| share.has(tenant, account))
}

#[tokio::test(flavor = "multi_thread")]
async fn customer_not_verified_in_time_is_erased() {
    let scene = Scene::new();
    let mut all = vec![];
    for person in 0..70 {
        all.push(scene.register(&format!("p{person}@example.com")).await);
    }
    let issued = scene.customer(all[0]).await.verification.unwrap();
    let verify = VerifyEmail { customer: all[0], token: issued.id };
    scene.accepted(CustomerCommand::VerifyEmail(verify)).await;
    scene.request(all[1], TokenPurpose::PasswordReset).await;
    assert_eq!(unverified::pass(&scene.engine, &owned_by(Share::WHOLE)).await.unwrap(), 0);
    scene.wait(DAY_US);
    let late = scene.register("late@example.com").await;
    // Each owner forgets those of its own partition, and all of them together everybody.
    let mut forgotten = 0;
    for partition in 0..3 {
        let partition = PartitionNo::new(partition).unwrap();
        let share = Share { partition, partitions: 3 };
        let some = unverified::pass(&scene.engine, &owned_by(share)).await.unwrap();
        assert!(some > 0 && some < 69, "{some}");
        forgotten += some;
    }
    assert_eq!(forgotten, 69);
    for (customer, status) in [
        (all[0], CustomerStatus::Active),
        (all[1], CustomerStatus::Erased),
        (all[69], CustomerStatus::Erased),
        (late, CustomerStatus::Active),
    ] {
        assert_eq!(scene.customer(customer).await.status, status, "{customer:?}");
    }
    let left = scene.mails(false).await;
    let is_left =
        |mail: &domain::customer::mail::Mail| [all[0].id, late.id].contains(&mail.customer);
    assert!(left.len() == 4 && left.iter().all(is_left), "{left:?}");
    scene.end().await;
}
