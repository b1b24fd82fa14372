//! The rules of customers, each transition and each refusal.

use expect_test::{Expect, expect};

use super::*;
use crate::account::UpdateAccount;
use crate::change::{AccountChange, Change, ClaimChange, CustomerChange, Image};
use crate::claim::Claim;
use crate::command::{AccountCommand, CustomerCommand, EntitlementCommand};
use crate::customer::mail::Mail;
use crate::customer::operation::{FailOperation, QueueRegistration};
use crate::customer::operation::{Operation, OperationStatus};
use crate::customer::{
    Code, CustomerFile, CustomerRejection, OpenSession, RefreshSession, SESSIONS_MAX,
};
use crate::entitlement::GrantSource;
use crate::entitlement::feature::{Combine, FeatureKind, FeatureTerms, FeatureValue, PutFeature};
use crate::entitlement::offer::{Lasts, OfferTerms, PutOffer};
use crate::entitlement::purchase::Purchase;
use crate::entitlement::purchase::PurchaseStatus;
use crate::flag::definition::Expected;
use crate::testing::{Rows, TENANT};
use crate::{Command, Event, Executed, Rejection, Reply};
use crate::{Currency, OperationId, Timestamp, TokenId};

const HOUR_US: i64 = 3600 * Timestamp::SECOND_US;

fn registration(email: &str) -> Register {
    Register {
        profile: Profile {
            email: email.to_owned(),
            email_key: email.to_lowercase(),
            first_name: "Ann".to_owned(),
            last_name: "Lee".to_owned(),
            preferences: String::new(),
        },
        person: Person { company: Some("Acme".to_owned()), ..Person::default() },
        currency: Currency::parse("USD"),
        password_hash: "hash 0".to_owned(),
        taken: Taken::Refuse,
        verification: Verification::Mailed { within_us: 48 * HOUR_US },
        operation: None,
    }
}

fn register(rows: &mut Rows, it: Register) -> Result<Executed, Rejection> {
    rows.run(Command::Customer(CustomerCommand::Register(Box::new(it))))
}

/// A customer who signed up, and perhaps verified their address.
fn signed_up(rows: &mut Rows, is_verified: bool) -> CustomerRef {
    let executed = register(rows, registration("ann@example.com")).unwrap();
    let Some(Reply::Customer(CustomerReply::Registered(customer))) = executed.reply else {
        panic!("{executed:?}");
    };
    if is_verified {
        let token = now(rows, customer).verification.unwrap().id;
        run(rows, CustomerCommand::VerifyEmail(VerifyEmail { customer, token })).unwrap();
    }
    customer
}

fn run(rows: &mut Rows, command: CustomerCommand) -> Result<Executed, Rejection> {
    rows.run(Command::Customer(command))
}

fn file(rows: &Rows, customer: CustomerRef) -> &CustomerFile {
    rows.state.customer(TENANT, customer.id).unwrap()
}

fn now(rows: &Rows, customer: CustomerRef) -> &Customer {
    &file(rows, customer).customer
}

fn mails(executed: &Executed) -> Vec<&Mail> {
    let changes = executed.done.changes.iter();
    changes
        .filter_map(|it| {
            if let Change::Customer(CustomerChange::Mail(mail)) = it { Some(mail) } else { None }
        })
        .collect()
}

fn login(rows: &Rows, customer: CustomerRef) -> OpenSession {
    OpenSession {
        customer,
        password_version: now(rows, customer).password_version,
        rehashed: None,
        code: None,
        lifetime_us: HOUR_US,
        refresh_us: 10 * HOUR_US,
        network: 1,
    }
}

/// Runs a command on a verified customer with one session and shows what came of it.
fn check(make: impl FnOnce(&mut Rows, CustomerRef) -> CustomerCommand, expected: Expect) {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, true);
    let it = login(&rows, customer);
    run(&mut rows, CustomerCommand::OpenSession(it)).unwrap();
    let command = make(&mut rows, customer);
    let shown = match run(&mut rows, command) {
        Ok(executed) => {
            let kinds: Vec<MailKind> = mails(&executed).iter().map(|it| it.kind).collect();
            let sessions = file(&rows, customer).sessions.len();
            let customer = now(&rows, customer);
            format!("{:?} sessions={sessions} mails={kinds:?}", customer.status)
        }
        Err(rejection) => format!("{rejection:?}"),
    };
    expected.assert_eq(&shown);
}

/// Makes the tenant's offer for newcomers: a trial of a switch for 30 days.
fn offer_to_newcomers(rows: &mut Rows, change: impl FnOnce(&mut OfferTerms)) {
    let mut terms = OfferTerms {
        lasts: Lasts::Days(30),
        is_trial: true,
        for_newcomers: true,
        ..OfferTerms::free("Trial", &[("pro", FeatureValue::On)])
    };
    change(&mut terms);
    let put = PutFeature {
        key: "pro".to_owned(),
        name: "Pro".to_owned(),
        terms: FeatureTerms { kind: FeatureKind::Switch, combine: Combine::Latest },
        archived: false,
        expected: Expected::Anything,
    };
    let put = EntitlementCommand::PutFeature(Box::new(put));
    rows.run(Command::Entitlement(put)).unwrap();
    let put = PutOffer { key: "trial".to_owned(), terms, expected: Expected::Anything };
    let put = EntitlementCommand::PutOffer(Box::new(put));
    rows.run(Command::Entitlement(put)).unwrap();
}

#[test]
fn a_newcomer_gets_the_offer_for_newcomers_in_the_same_commit() {
    let mut rows = Rows::new();
    offer_to_newcomers(&mut rows, |_| {});
    let executed = register(&mut rows, registration("ann@example.com")).unwrap();
    let Some(Reply::Customer(CustomerReply::Registered(customer))) = executed.reply else {
        panic!("{executed:?}");
    };
    let bought = executed.done.changes.iter().find_map(Purchase::of).unwrap();
    assert_eq!((bought.account_id, bought.payment_id), (customer.account, None));
    assert_eq!(bought.status, PurchaseStatus::Active);
    let entitled = rows.state.entitlements(TENANT, customer.account).unwrap();
    let pro = entitled.feature_at("pro", Timestamp(rows.now)).unwrap();
    assert_eq!(pro.until, Some(Timestamp(rows.now).plus_us(30 * Timestamp::DAY_US)));
    let GrantSource::Offer { is_trial, purchase, .. } = &pro.grants[0].source else { panic!() };
    assert_eq!((*is_trial, *purchase), (true, bought.id));
    assert_eq!((entitled.version, entitled.due), (1, pro.until));
    let is_granted = |it: &Event| matches!(it, Event::EntitlementsGranted { .. });
    assert!(executed.done.events.iter().any(is_granted));
    assert!(executed.done.changes.iter().any(|it| matches!(it, Change::Timer(_))));
}

#[test]
fn an_offer_that_is_not_for_newcomers_is_not_granted_to_them() {
    let granted = |change: fn(&mut OfferTerms)| {
        let mut rows = Rows::new();
        offer_to_newcomers(&mut rows, change);
        let executed = register(&mut rows, registration("ann@example.com")).unwrap();
        executed.done.changes.iter().filter_map(Purchase::of).count()
    };
    assert_eq!(granted(|_| {}), 1);
    assert_eq!(granted(|it| it.for_newcomers = false), 0);
    assert_eq!(granted(|it| it.withdrawn = true), 0);
    assert_eq!(
        granted(|it| it.buyers.currencies = Currency::parse("EUR").into_iter().collect()),
        0
    );
    assert_eq!(
        granted(|it| it.buyers.currencies = Currency::parse("USD").into_iter().collect()),
        1
    );
    // Who has an account already gets nothing.
    let mut rows = Rows::new();
    offer_to_newcomers(&mut rows, |_| {});
    signed_up(&mut rows, false);
    let again = Register { taken: Taken::NotifyByMail, ..registration("ann@example.com") };
    let executed = register(&mut rows, again).unwrap();
    assert_eq!(executed.done.changes.iter().filter_map(Purchase::of).count(), 0);
}

#[test]
fn signing_up_is_one_commit() {
    let mut rows = Rows::new();
    let executed = register(&mut rows, registration("Ann@Example.com")).unwrap();
    let changes = &executed.done.changes;
    let account = changes.iter().find_map(|it| {
        if let Change::Account(AccountChange::Account(it)) = it { Some(it) } else { None }
    });
    let customer = changes.iter().find_map(|it| {
        if let Change::Customer(CustomerChange::Customer(it)) = it { Some(it) } else { None }
    });
    let (account, customer) = (account.unwrap(), customer.unwrap());
    assert_eq!(account.external_key, Some(customer.id.to_string()));
    assert_eq!(customer.account, account.id);
    assert!(!customer.is_verified);
    let person = rows.state.person(TENANT, account.id);
    assert_eq!(person.name.as_deref(), Some("Ann Lee"));
    assert_eq!(person.email.as_deref(), Some("Ann@Example.com"));
    assert_eq!(person.company.as_deref(), Some("Acme"));
    let is_tagged = changes.iter().any(
        |change| matches!(change, Change::Account(AccountChange::Tag(tag)) if tag.key.account == account.id && tag.active),
    );
    assert!(is_tagged);
    let mails = mails(&executed);
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0].kind, MailKind::Welcome);
    assert_eq!(
        (mails[1].kind, mails[1].token),
        (MailKind::Verification, customer.verification.map(|it| it.id),)
    );
    let (customer, account) = (customer.id, account.id);
    assert!(executed.done.events.contains(&Event::CustomerRegistered { customer, account }));
    // However the address is written, it has one customer.
    let again = register(&mut rows, registration("ANN@example.com"));
    assert_eq!(again, Err(Rejection::Customer(CustomerRejection::EmailTaken)));
    // Nobody is made whose password was not hashed.
    let unhashed = Register { password_hash: String::new(), ..registration("bob@example.com") };
    let refused = register(&mut rows, unhashed);
    assert_eq!(refused, Err(Rejection::Customer(CustomerRejection::EmailTaken)));
}

#[test]
fn taken_address_can_get_a_mail_instead_of_a_refusal() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, true);
    let second = Register { taken: Taken::NotifyByMail, ..registration("ann@example.com") };
    let executed = register(&mut rows, second).unwrap();
    assert_eq!(executed.reply, Some(Reply::Customer(CustomerReply::Notified)));
    let notices = mails(&executed);
    assert_eq!(notices.len(), 1);
    assert_eq!((notices[0].kind, notices[0].customer), (MailKind::AlreadyRegistered, customer.id));
    // The address is theirs when it is committed: the commit tells where it was freed meanwhile.
    let key = email_claim(TENANT, "ann@example.com");
    let claim = Claim { owner: customer.id.uuid(), account: Some(customer.account) };
    assert_eq!(
        executed.done.changes[0],
        Change::Claim(ClaimChange::Taken { key: key.clone(), claim })
    );
    assert_eq!(executed.done.changes.len(), 2);
    // Where their mailbox has had enough, all else is the same.
    let third = Register { taken: Taken::Silent, ..registration("ann@example.com") };
    let executed = register(&mut rows, third).unwrap();
    assert_eq!(executed.reply, Some(Reply::Customer(CustomerReply::Notified)));
    assert_eq!(executed.done.changes, [Change::Claim(ClaimChange::Taken { key, claim })]);
}

#[test]
fn a_token_holds_once_and_only_the_newest() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, false);
    let first = now(&rows, customer).verification.unwrap().id;
    let purpose = TokenPurpose::Verification;
    let again = RequestToken { customer, purpose, within_us: HOUR_US };
    let executed = run(&mut rows, CustomerCommand::RequestToken(again.clone())).unwrap();
    let second = now(&rows, customer).verification.unwrap().id;
    assert_eq!(mails(&executed)[0].token, Some(second));
    let verify = |token| CustomerCommand::VerifyEmail(VerifyEmail { customer, token });
    let invalid = Err(Rejection::Customer(CustomerRejection::TokenInvalid));
    assert_eq!(run(&mut rows, verify(first)), invalid);
    rows.now += HOUR_US;
    assert_eq!(run(&mut rows, verify(second)), invalid, "its time is over");
    rows.now -= 1;
    run(&mut rows, verify(second)).unwrap();
    assert!(now(&rows, customer).is_verified);
    assert_eq!(now(&rows, customer).expires_at, None);
    assert_eq!(run(&mut rows, verify(second)), invalid, "it was used");
    let verified = Err(Rejection::Customer(CustomerRejection::AlreadyVerified));
    assert_eq!(run(&mut rows, CustomerCommand::RequestToken(again)), verified);
}

#[test]
fn passwords_are_set_with_the_token_or_the_old_password() {
    let set = |customer, by| {
        let password_hash = "hash 1".to_owned();
        CustomerCommand::SetPassword(SetPassword { customer, password_hash, by })
    };
    check(
        |_, customer| set(customer, PasswordProof::Password { version: 0 }),
        expect!["Active sessions=0 mails=[PasswordChanged]"],
    );
    check(
        |_, customer| set(customer, PasswordProof::Password { version: 1 }),
        expect!["Customer(PasswordChanged)"],
    );
    check(
        |rows, customer| {
            let purpose = TokenPurpose::PasswordReset;
            let ask = RequestToken { customer, purpose, within_us: HOUR_US };
            run(rows, CustomerCommand::RequestToken(ask)).unwrap();
            let token = now(rows, customer).reset.unwrap().id;
            set(customer, PasswordProof::Token(token))
        },
        expect!["Active sessions=0 mails=[PasswordChanged]"],
    );
    check(
        |_, customer| set(customer, PasswordProof::Token(TokenId::new(uuid::Uuid::nil()))),
        expect!["Customer(TokenInvalid)"],
    );
}

#[test]
fn logging_in() {
    let open = |rows: &mut Rows, customer, change: &dyn Fn(&mut OpenSession)| {
        let mut it = login(rows, customer);
        change(&mut it);
        CustomerCommand::OpenSession(it)
    };
    check(|rows, it| open(rows, it, &|_| {}), expect!["Active sessions=2 mails=[]"]);
    check(
        |rows, it| open(rows, it, &|it| it.password_version = 7),
        expect!["Customer(PasswordChanged)"],
    );
    check(
        |rows, customer| {
            run(rows, update(customer, |it| it.is_active = Some(false))).unwrap();
            assert!(file(rows, customer).sessions.is_empty());
            open(rows, customer, &|_| {})
        },
        expect!["Customer(Deactivated)"],
    );
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, false);
    let it = CustomerCommand::OpenSession(login(&rows, customer));
    assert_eq!(run(&mut rows, it), Err(Rejection::Customer(CustomerRejection::NotVerified)));
}

fn update(customer: CustomerRef, change: impl FnOnce(&mut UpdateCustomer)) -> CustomerCommand {
    let mut it = UpdateCustomer::of(customer);
    change(&mut it);
    CustomerCommand::Update(Box::new(it))
}

#[test]
fn preferences_take_the_place_of_those_that_were_read() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, true);
    let known = |rows: &Rows| file(rows, customer).customer.profile.preferences.clone();
    let before = known(&rows);
    let put = |before: &str, after: &str| {
        update(customer, |it| {
            it.preferences = Some(after.to_owned());
            it.preferences_before = Some(before.to_owned());
        })
    };
    run(&mut rows, put(&before, "one")).unwrap();
    let changed = Err(Rejection::Customer(CustomerRejection::PreferencesChanged));
    assert_eq!(run(&mut rows, put(&before, "another")), changed);
    assert_eq!(known(&rows), "one");
    run(&mut rows, put("one", "another")).unwrap();
    assert_eq!(known(&rows), "another");
    run(&mut rows, update(customer, |it| it.preferences = Some("a third".to_owned()))).unwrap();
    assert_eq!(known(&rows), "a third", "a caller that does not say what it read replaces it");
}

#[test]
fn one_more_session_ends_the_oldest() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, true);
    for _ in 0..=SESSIONS_MAX {
        let it = login(&rows, customer);
        run(&mut rows, CustomerCommand::OpenSession(it)).unwrap();
    }
    let sessions = &file(&rows, customer).sessions;
    assert_eq!(sessions.len(), SESSIONS_MAX);
    let oldest = sessions[0].id;
    rows.now += 10 * HOUR_US;
    let it = login(&rows, customer);
    run(&mut rows, CustomerCommand::OpenSession(it)).unwrap();
    let sessions = &file(&rows, customer).sessions;
    assert_eq!(sessions.len(), 1, "what has ended by itself goes");
    assert_ne!(sessions[0].id, oldest);
}

/// A verified customer who has a session, and the command that renews it.
fn logged_in() -> (Rows, CustomerRef, impl Fn(u32) -> RefreshSession) {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, true);
    let it = login(&rows, customer);
    run(&mut rows, CustomerCommand::OpenSession(it)).unwrap();
    let session = file(&rows, customer).sessions[0].id;
    let refresh = move |generation| RefreshSession {
        customer,
        session,
        generation,
        lifetime_us: HOUR_US,
        refresh_us: 10 * HOUR_US,
        network: 1,
        grace_us: 0,
        session_max_us: 25 * HOUR_US,
    };
    (rows, customer, refresh)
}

#[test]
fn two_tabs_that_renew_at_once_get_the_same_tokens() {
    const SECOND: i64 = Timestamp::SECOND_US;
    let check = |later_us: i64, network: i64, generation: u32, expected: Expect| {
        let (mut rows, _, refresh) = logged_in();
        for generation in 0..2 {
            run(&mut rows, CustomerCommand::RefreshSession(refresh(generation))).unwrap();
        }
        rows.now += later_us;
        let it = RefreshSession { network, grace_us: 10 * SECOND, ..refresh(generation) };
        let reply = run(&mut rows, CustomerCommand::RefreshSession(it)).unwrap().reply;
        let Some(Reply::Customer(reply)) = reply else { panic!("{reply:?}") };
        let renewed = if let CustomerReply::Session { generation, .. } = reply {
            format!("generation {generation}")
        } else {
            format!("{reply:?}")
        };
        expected.assert_eq(&renewed);
    };
    check(9 * SECOND, 1, 1, expect!["generation 2"]);
    check(10 * SECOND, 1, 1, expect!["SessionRevoked"]);
    check(-9 * SECOND, 1, 1, expect!["generation 2"]);
    check(-10 * SECOND, 1, 1, expect!["SessionRevoked"]);
    check(9 * SECOND, 2, 1, expect!["SessionRevoked"]);
    check(9 * SECOND, 1, 0, expect!["SessionRevoked"]);
}

#[test]
fn a_session_ends_however_often_it_is_renewed() {
    let (mut rows, customer, refresh) = logged_in();
    let ends_at = Timestamp(rows.now + 25 * HOUR_US);
    for generation in 0..3 {
        rows.now += 8 * HOUR_US;
        run(&mut rows, CustomerCommand::RefreshSession(refresh(generation))).unwrap();
    }
    let session = &file(&rows, customer).sessions[0];
    assert_eq!((session.expires_at, session.refresh_until), (ends_at, ends_at));
    // The setting was lowered.
    let shorter = RefreshSession { session_max_us: 24 * HOUR_US, ..refresh(3) };
    let refused = run(&mut rows, CustomerCommand::RefreshSession(shorter));
    assert_eq!(refused, Err(Rejection::Customer(CustomerRejection::SessionNotFound)));
    rows.now = ends_at.0;
    let none = Err(Rejection::Customer(CustomerRejection::SessionNotFound));
    assert_eq!(run(&mut rows, CustomerCommand::RefreshSession(refresh(3))), none);
}

#[test]
fn a_refresh_token_is_used_once() {
    let (mut rows, _, refresh) = logged_in();
    let refresh = |generation| CustomerCommand::RefreshSession(refresh(generation));
    let none = Err(Rejection::Customer(CustomerRejection::SessionNotFound));
    assert_eq!(run(&mut rows, refresh(1)), none, "nobody was given that one");
    let renewed = run(&mut rows, refresh(0)).unwrap().reply;
    let Some(Reply::Customer(CustomerReply::Session { generation: 1, .. })) = renewed else {
        panic!("{renewed:?}");
    };
    // Somebody shows the first one again: either of the two has stolen it.
    let reply = run(&mut rows, refresh(0)).unwrap().reply;
    assert_eq!(reply, Some(Reply::Customer(CustomerReply::SessionRevoked)));
    assert_eq!(run(&mut rows, refresh(1)), none);
}

#[test]
fn a_second_factor_is_asked_for_once_it_was_confirmed() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, true);
    let recovery_hashes = vec!["r1".to_owned(), "r2".to_owned()];
    let proposed = NewSecondFactor::Proposed { sealed: "sealed".to_owned(), recovery_hashes };
    let again = proposed.clone();
    let change = |new| update(customer, |it| it.second_factor = Some(new));
    let absent = Err(Rejection::Customer(CustomerRejection::NoSecondFactor));
    assert_eq!(run(&mut rows, change(NewSecondFactor::Confirmed { step: 9 })), absent);
    run(&mut rows, change(proposed)).unwrap();
    let with = |rows: &Rows, code| {
        CustomerCommand::OpenSession(OpenSession { code, ..login(rows, customer) })
    };
    let command = with(&rows, None);
    run(&mut rows, command).unwrap();
    run(&mut rows, change(NewSecondFactor::Confirmed { step: 9 })).unwrap();
    assert!(now(&rows, customer).needs_code());
    let wrong = Err(Rejection::Customer(CustomerRejection::CodeInvalid));
    let recovery = Some(Code::Recovery("r1".to_owned()));
    for (code, is_right) in [
        (None, false),
        (Some(Code::Step(9)), false),
        (Some(Code::Step(10)), true),
        (Some(Code::Step(10)), false),
        (recovery.clone(), true),
        (recovery, false),
    ] {
        let command = with(&rows, code.clone());
        let done = run(&mut rows, command);
        assert_eq!(done.is_ok(), is_right, "{code:?}");
        if !is_right {
            assert_eq!(done, wrong);
        }
    }
    // Nothing takes its place without a code.
    assert_eq!(run(&mut rows, change(again)), wrong);
    run(&mut rows, change(NewSecondFactor::Removed)).unwrap();
    assert!(!now(&rows, customer).needs_code());
}

#[test]
fn a_second_factor_holds_until_the_next_one_is_confirmed() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, true);
    let change = |new| update(customer, |it| it.second_factor = Some(new));
    let (sealed, recovery_hashes) = ("first".to_owned(), vec![]);
    run(&mut rows, change(NewSecondFactor::Proposed { sealed, recovery_hashes })).unwrap();
    run(&mut rows, change(NewSecondFactor::Confirmed { step: 9 })).unwrap();
    let next = |code| NewSecondFactor::Replaced {
        sealed: "next".to_owned(),
        recovery_hashes: vec!["n1".to_owned()],
        code,
    };
    let wrong = Err(Rejection::Customer(CustomerRejection::CodeInvalid));
    assert_eq!(run(&mut rows, change(next(Code::Step(9)))), wrong, "it was used");
    run(&mut rows, change(next(Code::Step(10)))).unwrap();
    let factor = |rows: &Rows| now(rows, customer).credentials.second_factor.clone();
    let holds = factor(&rows).unwrap();
    assert_eq!(
        (&*holds.sealed, holds.is_confirmed, holds.waiting()),
        ("first", true, Some("next"))
    );
    assert_eq!(run(&mut rows, change(next(Code::Step(10)))), wrong, "each code once");
    run(&mut rows, change(NewSecondFactor::Confirmed { step: 11 })).unwrap();
    let holds = factor(&rows).unwrap();
    assert_eq!((&*holds.sealed, holds.last_step, holds.waiting()), ("next", 11, None));
    let absent = Err(Rejection::Customer(CustomerRejection::NoSecondFactor));
    assert_eq!(run(&mut rows, change(NewSecondFactor::Confirmed { step: 12 })), absent);
    let give_up = |code| change(NewSecondFactor::GivenUp { code });
    assert_eq!(run(&mut rows, give_up(None)), wrong);
    run(&mut rows, give_up(Some(Code::Recovery("n1".to_owned())))).unwrap();
    assert_eq!(factor(&rows), None);
    run(&mut rows, give_up(None)).unwrap();
    assert_eq!(run(&mut rows, change(next(Code::Step(12)))), absent);
}

#[test]
fn forgetting_leaves_the_account_and_frees_the_address() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, true);
    let it = login(&rows, customer);
    run(&mut rows, CustomerCommand::OpenSession(it)).unwrap();
    let erase = |if_expired| CustomerCommand::Erase(EraseCustomer { customer, if_expired });
    let early = Err(Rejection::Customer(CustomerRejection::NotExpired));
    assert_eq!(run(&mut rows, erase(true)), early, "a verified customer does not expire");
    run(&mut rows, erase(false)).unwrap();
    let left = now(&rows, customer);
    assert_eq!(left.status, CustomerStatus::Erased);
    assert_eq!((&left.profile, &left.credentials), (&Profile::default(), &Credentials::default()));
    assert!(file(&rows, customer).sessions.is_empty());
    assert_eq!(rows.state.person(TENANT, customer.account), Person::default());
    assert!(rows.state.account.accounts.knows(&(TENANT, customer.account)));
    let gone = Err(Rejection::Customer(CustomerRejection::NotFound));
    assert_eq!(run(&mut rows, erase(false)), gone);
    register(&mut rows, registration("ann@example.com")).unwrap();
}

#[test]
fn unverified_customer_is_erased_after_the_time() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, false);
    let erase = CustomerCommand::Erase(EraseCustomer { customer, if_expired: true });
    let early = Err(Rejection::Customer(CustomerRejection::NotExpired));
    rows.now += 48 * HOUR_US - 1;
    assert_eq!(run(&mut rows, erase.clone()), early);
    rows.now += 1;
    run(&mut rows, erase).unwrap();
    assert_eq!(now(&rows, customer).status, CustomerStatus::Erased);
}

#[test]
fn no_token_puts_off_the_end_for_ever() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, false);
    let end = now(&rows, customer).created_at.plus_us(7 * 48 * HOUR_US);
    let (purpose, within_us) = (TokenPurpose::Verification, 48 * HOUR_US);
    for _ in 0..9 {
        rows.now += 40 * HOUR_US;
        let token = RequestToken { customer, purpose, within_us };
        run(&mut rows, CustomerCommand::RequestToken(token)).unwrap();
        let it = now(&rows, customer);
        let expected = Timestamp(rows.now).plus_us(within_us).min(end);
        assert_eq!(it.expires_at, Some(expected));
        assert_eq!(
            it.verification.map(|it| it.expires_at),
            Some(expected),
            "the token ends with it"
        );
    }
    let erase = CustomerCommand::Erase(EraseCustomer { customer, if_expired: true });
    run(&mut rows, erase).unwrap();
}

#[test]
fn account_fields_of_operators_stay_unless_the_name_changes() {
    let mut rows = Rows::new();
    let customer = signed_up(&mut rows, true);
    let person = Person { name: Some("Acme, A. Lee".to_owned()), ..Person::default() };
    let rename = UpdateAccount { person, ..UpdateAccount::unchanged(customer.account) };
    rows.run(Command::Account(AccountCommand::Update(Box::new(rename)))).unwrap();
    let name = |rows: &Rows| rows.state.person(TENANT, customer.account).name;
    run(&mut rows, update(customer, |it| it.person.phone = Some("+12".to_owned()))).unwrap();
    assert_eq!(name(&rows).as_deref(), Some("Acme, A. Lee"));
    run(&mut rows, update(customer, |it| it.last_name = Some("Li".to_owned()))).unwrap();
    assert_eq!(name(&rows).as_deref(), Some("Ann Li"));
}

#[test]
fn a_registration_that_was_kept_is_made_once() {
    let mut rows = Rows::new();
    let operation = OperationId::new(uuid::Uuid::from_u128(7));
    let kept = QueueRegistration {
        operation,
        sealed: "sealed".to_owned(),
        callback: Some("call".to_owned()),
    };
    run(&mut rows, CustomerCommand::QueueRegistration(kept)).unwrap();
    let it = Register { operation: Some(operation), ..registration("ann@example.com") };
    let executed = register(&mut rows, it.clone()).unwrap();
    let settled = rows.state.operation(TENANT, operation).unwrap();
    assert!(matches!(settled.status, OperationStatus::Succeeded(Some(_))), "{settled:?}");
    let Operation { sealed: None, notify_at: Some(_), .. } = settled else {
        panic!("{settled:?}");
    };
    assert_eq!(mails(&executed).len(), 2);
    let settled = Err(Rejection::Customer(CustomerRejection::OperationSettled));
    assert_eq!(register(&mut rows, it), settled);
    let explanation = "it".to_owned();
    let fail = CustomerCommand::FailOperation(FailOperation { operation, explanation });
    assert_eq!(run(&mut rows, fail), settled);
}
