//! What is limited, by whom it is asked, and who is not.

use domain::Timestamp;
use domain::customer::{CustomerRefusal, TokenPurpose};
use domain::mail::MailKind;
use engine::ports::Queries;
use signup::SignUp;
use signup::limits::Settings;
use signup::operations::Manner;
use signup::service::{Asked, Error, How, Login};

use crate::plain::{World, entered, new_customer};

const HERE: &str = "192.0.2.1";
const THERE: &str = "192.0.2.2";
const ANA: &str = "ana@example.com";

/// One of each.
const ONE: Settings = Settings {
    registrations_per_minute: 1,
    logins_per_minute: 1,
    network_logins_per_minute: 1,
    codes_per_hour: 1,
    mails_per_hour: 1,
    network_mails_per_hour: 1,
    tokens_per_minute: 1,
    refreshes_per_minute: 1,
};

fn is_too_many<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::TooMany { .. }))
}

/// What each call says, whether it is limited.
async fn ask_all(world: &World, asked: impl Fn() -> Asked) -> [bool; 6] {
    let sign_up = &world.sign_up;
    let (email, password) = (ANA.to_owned(), "another".to_owned());
    let login = Login { email, password, code: None, remember: false };
    let reset = TokenPurpose::PasswordReset;
    [
        is_too_many(&sign_up.register(&asked(), new_customer(ANA), How::DISCREETLY).await),
        is_too_many(&sign_up.log_in(&asked(), login).await),
        is_too_many(&sign_up.mail_token(&asked(), ANA, reset).await),
        is_too_many(&sign_up.verify_email(&asked(), "none").await),
        is_too_many(&sign_up.reset_password(&asked(), "none", "Zq8,lrvby").await),
        is_too_many(&sign_up.refresh(&asked(), "none").await),
    ]
}

#[tokio::test]
async fn each_call_counts_against_its_limit() {
    let world = World::start(ONE);
    let tenant = world.tenant("test").await;
    let from = |from: &'static str| world.asked(tenant, from, false);
    // Both uses of tokens count as one, and so do a mail to an address and its registration.
    assert_eq!(ask_all(&world, || from(HERE)).await, [false, false, true, false, true, false]);
    assert_eq!(ask_all(&world, || from(HERE)).await, [true; 6]);
    // From elsewhere the mails to this address are used up all the same.
    assert_eq!(ask_all(&world, || from(THERE)).await, [false, false, true, false, true, false]);
    world.stop().await;
}

#[tokio::test]
async fn who_is_exempt_is_never_refused_and_uses_nothing_up() {
    let world = World::start(ONE);
    let tenant = world.tenant("test").await;
    for _ in 0..3 {
        let exempt = || world.asked(tenant, "127.0.0.1", true);
        assert_eq!(ask_all(&world, exempt).await, [false; 6]);
    }
    let here = ask_all(&world, || world.asked(tenant, "127.0.0.1", false)).await;
    assert_eq!(here, [false, false, true, false, true, false]);
    world.stop().await;
}

#[tokio::test]
async fn a_probe_and_what_was_accepted_before_are_not_counted() {
    let world = World::start(ONE);
    let tenant = world.tenant("test").await;
    for n in 0..3 {
        let asked = world.asked(tenant, HERE, false);
        let how = How { is_probe: true, ..How::OPENLY };
        let new = new_customer(&format!("probe-{n}@example.com"));
        world.sign_up.register(&asked, new, how).await.unwrap();
    }
    let asked = world.asked(tenant, HERE, false);
    world.sign_up.register(&asked, new_customer(ANA), How::OPENLY).await.unwrap();
    let again = world.asked(tenant, HERE, false);
    let refused = world.sign_up.register(&again, new_customer("bob@example.com"), How::OPENLY);
    assert!(is_too_many(&refused.await));
    world.stop().await;
}

/// Whoever registers an address again and again fills no mailbox, and keeps nobody from registering.
#[tokio::test]
async fn registering_an_address_again_is_mailed_so_often_and_no_more() {
    const FREE: &str = "bob@example.com";
    let world = World::start(Settings { mails_per_hour: 2, ..Settings::OFF });
    let tenant = world.tenant("test").await;
    let asked = || world.asked(tenant, HERE, false);
    let how = How { is_probe: true, ..How::OPENLY };
    world.sign_up.register(&asked(), new_customer(ANA), how).await.unwrap();
    for _ in 0..5 {
        let told = world.sign_up.register(&asked(), new_customer(ANA), How::DISCREETLY).await;
        assert_eq!(told.unwrap().customer, None);
    }
    let told = async |kind: MailKind| {
        let due = |queries: &dyn Queries| queries.mails_due(Timestamp(i64::MAX), 100);
        let mails = world.sign_up.engine().read(due).await.unwrap();
        mails.iter().filter(|mail| mail.kind == kind).count()
    };
    assert_eq!(told(MailKind::AlreadyRegistered).await, 2);

    for _ in 0..3 {
        drop(world.sign_up.mail_token(&asked(), FREE, TokenPurpose::PasswordReset).await);
    }
    let free = world.sign_up.register(&asked(), new_customer(FREE), How::DISCREETLY).await;
    assert!(free.unwrap().customer.is_some());
    assert_eq!(told(MailKind::Verification).await, 1);
    world.stop().await;
}

/// What one door answered is not what the other one answers again.
#[tokio::test]
async fn a_key_is_another_one_at_the_other_door() {
    let world = World::start(Settings::OFF);
    let tenant = world.tenant("test").await;
    let keyed = |key: &str| {
        let idempotency_key = Some(key.to_owned());
        Asked { idempotency_key, ..world.asked(tenant, HERE, false) }
    };
    let register =
        async |key: &str, how| world.sign_up.register(&keyed(key), new_customer(ANA), how).await;
    let first = register("one", How::OPENLY).await.unwrap();
    assert!(first.customer.is_some());
    let again = register("one", How::OPENLY).await.unwrap();
    assert_eq!(again, first);
    assert_eq!(register("one", How::DISCREETLY).await.unwrap().customer, None);
    assert_eq!(register("two", How::DISCREETLY).await.unwrap().customer, None);
    let told = register("two", How::OPENLY).await;
    assert!(matches!(told, Err(Error::Refused(CustomerRefusal::EmailTaken))), "{told:?}");

    let entered = entered("bob@example.com");
    let queue = async |manner| world.sign_up.queue(&keyed("one"), &entered, manner, None).await;
    let open = queue(Manner::Open).await.unwrap().operation;
    assert_eq!(queue(Manner::Open).await.unwrap().operation, open);
    assert_ne!(queue(Manner::Discreet).await.unwrap().operation, open);
    world.stop().await;
}

/// Nobody keeps the threads that hash busy with an address that is taken, by a new key each time.
#[tokio::test]
async fn a_taken_address_costs_no_hash_with_a_key_either() {
    let world = World::start(Settings::OFF);
    let tenant = world.tenant("test").await;
    let without = world.without_hashes();
    let register = async |sign_up: &SignUp, key: &str| {
        let idempotency_key = Some(key.to_owned());
        let asked = Asked { idempotency_key, ..world.asked(tenant, HERE, false) };
        sign_up.register(&asked, new_customer(ANA), How::OPENLY).await
    };
    let first = register(&world.sign_up, "one").await.unwrap();
    let again = register(&without, "one").await.unwrap();
    assert_eq!(again, first);
    let refused = register(&without, "two").await;
    assert!(matches!(refused, Err(Error::Refused(CustomerRefusal::EmailTaken))), "{refused:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_password_is_guessed_no_faster_by_who_is_logged_in() {
    let world = World::start(Settings { logins_per_minute: 3, ..Settings::OFF });
    let tenant = world.tenant("test").await;
    let asked = || world.asked(tenant, HERE, false);
    let how = How { is_probe: true, ..How::OPENLY };
    world.sign_up.register(&asked(), new_customer(ANA), how).await.unwrap();
    let (email, password) = (ANA.to_owned(), "Zq8,lrvbx".to_owned());
    let login = Login { email, password, code: None, remember: false };
    let logged_in = world.sign_up.log_in(&asked(), login).await.unwrap();
    let who = world.sign_up.who(tenant, &logged_in.access_token).await.unwrap();
    let wrong = ("Zq8,lrvbz", "Zq8,lrvby");
    for _ in 0..2 {
        let refused = world.sign_up.change_password(&asked(), &who, wrong).await;
        assert!(matches!(refused, Err(Error::Credentials)), "{refused:?}");
    }
    assert!(is_too_many(&world.sign_up.change_password(&asked(), &who, wrong).await));
    assert!(is_too_many(
        &world.sign_up.remove_second_factor(&asked(), &who, (wrong.0, None)).await
    ));
    world.stop().await;
}
