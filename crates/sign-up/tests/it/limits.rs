//! Rate limits: which calls count, by what, and which are exempt.

use domain::Timestamp;
use domain::customer::mail::MailKind;
use domain::customer::{CustomerRejection, TokenPurpose};
use engine::ports::Queries;
use sign_up::SignUp;
use sign_up::limits::Settings;
use sign_up::operations::Disclosure;
use sign_up::service::{Error, Login, RegistrationOptions, RequestContext};

use crate::world::{World, form, new_customer};

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
    matches!(result, Err(Error::TooManyRequests { .. }))
}

/// Whether each call is refused by a limit.
async fn call_all(world: &World, context: impl Fn() -> RequestContext) -> [bool; 6] {
    let sign_up = &world.sign_up;
    let (email, password) = (ANA.to_owned(), "another".to_owned());
    let login = Login { email, password, code: None, remember: false };
    let reset = TokenPurpose::PasswordReset;
    [
        is_too_many(
            &sign_up.register(&context(), new_customer(ANA), RegistrationOptions::DISCREET).await,
        ),
        is_too_many(&sign_up.log_in(&context(), login).await),
        is_too_many(&sign_up.mail_token(&context(), ANA, reset).await),
        is_too_many(&sign_up.verify_email(&context(), "none").await),
        is_too_many(&sign_up.reset_password(&context(), "none", "Zq8,lrvby").await),
        is_too_many(&sign_up.refresh(&context(), "none").await),
    ]
}

#[tokio::test]
async fn each_call_counts_against_its_limit() {
    let world = World::start(ONE);
    let tenant = world.tenant("test").await;
    let from = |from: &'static str| world.context(tenant, from, false);
    // Both uses of tokens count as one, and so do a mail to an address and its registration.
    assert_eq!(call_all(&world, || from(HERE)).await, [false, false, true, false, true, false]);
    assert_eq!(call_all(&world, || from(HERE)).await, [true; 6]);
    // Mails to an address are counted across networks.
    assert_eq!(call_all(&world, || from(THERE)).await, [false, false, true, false, true, false]);
    world.stop().await;
}

#[tokio::test]
async fn exempt_requests_are_never_limited_and_count_for_nothing() {
    let world = World::start(ONE);
    let tenant = world.tenant("test").await;
    for _ in 0..3 {
        let exempt = || world.context(tenant, "127.0.0.1", true);
        assert_eq!(call_all(&world, exempt).await, [false; 6]);
    }
    let here = call_all(&world, || world.context(tenant, "127.0.0.1", false)).await;
    assert_eq!(here, [false, false, true, false, true, false]);
    world.stop().await;
}

#[tokio::test]
async fn probes_do_not_count_as_registrations() {
    let world = World::start(ONE);
    let tenant = world.tenant("test").await;
    for n in 0..3 {
        let context = world.context(tenant, HERE, false);
        let options = RegistrationOptions { is_probe: true, ..RegistrationOptions::OPEN };
        let new = new_customer(&format!("probe-{n}@example.com"));
        world.sign_up.register(&context, new, options).await.unwrap();
    }
    let context = world.context(tenant, HERE, false);
    world.sign_up.register(&context, new_customer(ANA), RegistrationOptions::OPEN).await.unwrap();
    let again = world.context(tenant, HERE, false);
    let refused =
        world.sign_up.register(&again, new_customer("bob@example.com"), RegistrationOptions::OPEN);
    assert!(is_too_many(&refused.await));
    world.stop().await;
}

/// Repeated registrations of an address neither fill a mailbox nor prevent other registrations.
#[tokio::test]
async fn notices_about_repeated_registrations_are_limited() {
    const FREE: &str = "bob@example.com";
    let world = World::start(Settings { mails_per_hour: 2, ..Settings::OFF });
    let tenant = world.tenant("test").await;
    let context = || world.context(tenant, HERE, false);
    let options = RegistrationOptions { is_probe: true, ..RegistrationOptions::OPEN };
    world.sign_up.register(&context(), new_customer(ANA), options).await.unwrap();
    for _ in 0..5 {
        let repeated = world
            .sign_up
            .register(&context(), new_customer(ANA), RegistrationOptions::DISCREET)
            .await;
        assert_eq!(repeated.unwrap().customer, None);
    }
    let mailed = async |kind: MailKind| {
        let due = |queries: &dyn Queries| queries.mails_due(Timestamp(i64::MAX), 100);
        let mails = world.sign_up.engine().read(due).await.unwrap();
        mails.iter().filter(|mail| mail.kind == kind).count()
    };
    assert_eq!(mailed(MailKind::AlreadyRegistered).await, 2);

    for _ in 0..3 {
        drop(world.sign_up.mail_token(&context(), FREE, TokenPurpose::PasswordReset).await);
    }
    let free =
        world.sign_up.register(&context(), new_customer(FREE), RegistrationOptions::DISCREET).await;
    assert!(free.unwrap().customer.is_some());
    assert_eq!(mailed(MailKind::Verification).await, 1);
    world.stop().await;
}

/// A repeated request gets no response that discloses more.
#[tokio::test]
async fn idempotency_keys_are_separate_for_each_disclosure() {
    let world = World::start(Settings::OFF);
    let tenant = world.tenant("test").await;
    let keyed = |key: &str| {
        let idempotency_key = Some(key.to_owned());
        RequestContext { idempotency_key, ..world.context(tenant, HERE, false) }
    };
    let register = async |key: &str, options| {
        world.sign_up.register(&keyed(key), new_customer(ANA), options).await
    };
    let first = register("one", RegistrationOptions::OPEN).await.unwrap();
    assert!(first.customer.is_some());
    let again = register("one", RegistrationOptions::OPEN).await.unwrap();
    assert_eq!(again, first);
    assert_eq!(register("one", RegistrationOptions::DISCREET).await.unwrap().customer, None);
    assert_eq!(register("two", RegistrationOptions::DISCREET).await.unwrap().customer, None);
    let refused = register("two", RegistrationOptions::OPEN).await;
    assert!(matches!(refused, Err(Error::Refused(CustomerRejection::EmailTaken))), "{refused:?}");

    let form = form("bob@example.com");
    let queue =
        async |disclosure| world.sign_up.queue(&keyed("one"), &form, disclosure, None).await;
    let open = queue(Disclosure::Open).await.unwrap().operation;
    assert_eq!(queue(Disclosure::Open).await.unwrap().operation, open);
    assert_ne!(queue(Disclosure::Discreet).await.unwrap().operation, open);
    world.stop().await;
}

/// New keys for a taken address do not keep the password threads busy.
#[tokio::test]
async fn registering_a_taken_address_with_a_new_key_hashes_no_password() {
    let world = World::start(Settings::OFF);
    let tenant = world.tenant("test").await;
    let without = world.without_hashes();
    let register = async |sign_up: &SignUp, key: &str| {
        let idempotency_key = Some(key.to_owned());
        let context = RequestContext { idempotency_key, ..world.context(tenant, HERE, false) };
        sign_up.register(&context, new_customer(ANA), RegistrationOptions::OPEN).await
    };
    let first = register(&world.sign_up, "one").await.unwrap();
    let again = register(&without, "one").await.unwrap();
    assert_eq!(again, first);
    let refused = register(&without, "two").await;
    assert!(matches!(refused, Err(Error::Refused(CustomerRejection::EmailTaken))), "{refused:?}");
    world.stop().await;
}

#[tokio::test]
async fn password_checks_of_a_logged_in_customer_count_as_logins() {
    let world = World::start(Settings { logins_per_minute: 3, ..Settings::OFF });
    let tenant = world.tenant("test").await;
    let context = || world.context(tenant, HERE, false);
    let options = RegistrationOptions { is_probe: true, ..RegistrationOptions::OPEN };
    world.sign_up.register(&context(), new_customer(ANA), options).await.unwrap();
    let (email, password) = (ANA.to_owned(), "Zq8,lrvbx".to_owned());
    let login = Login { email, password, code: None, remember: false };
    let logged_in = world.sign_up.log_in(&context(), login).await.unwrap();
    let caller = world.sign_up.authenticate(tenant, &logged_in.access_token).await.unwrap();
    let wrong = ("Zq8,lrvbz", "Zq8,lrvby");
    for _ in 0..2 {
        let refused = world.sign_up.change_password(&context(), &caller, wrong).await;
        assert!(matches!(refused, Err(Error::Credentials)), "{refused:?}");
    }
    assert!(is_too_many(&world.sign_up.change_password(&context(), &caller, wrong).await));
    assert!(is_too_many(
        &world.sign_up.remove_second_factor(&context(), &caller, (wrong.0, None)).await
    ));
    world.stop().await;
}
