//! Customers: committed with their account, read back, and forgotten so that nothing of them is left.

mod erasure;
mod pending;

pub use pending::note;

use domain::account::tag::{ControlTag, NamedDefinition};
use domain::command::CustomerCommand;
use domain::customer::operation::{FailOperation, QueueRegistration};
use domain::customer::{
    CloseSessions, Code, CustomerRef, CustomerRejection, CustomerReply, CustomerStatus,
    EraseCustomer, NewSecondFactor, OpenSession, PasswordProof, Profile, RefreshSession, Register,
    RequestToken, SetPassword, Taken, TokenPurpose, UpdateCustomer, Verification, VerifyEmail,
};
use domain::object::ObjectType;
use domain::{
    Command, OperationId, Person, Rejection, Reply, Request, SessionId, TenantNo, Timestamp,
};
use engine::Reason;
use engine::partition::{Answer, Times, Verdict, Work};
use engine::ports::{Bookkeeping, Page, Queries, Store};
use expect_test::expect;

use crate::flags::damaged;
use crate::workload::{Workload, World, currency};

pub const TENANT: TenantNo = TenantNo(1);
pub const OTHER: TenantNo = TenantNo(2);
pub const HOUR_US: i64 = 3_600 * Timestamp::SECOND_US;
const ALL: Page = Page { offset: 0, limit: 100 };

/// Somebody of that name, whose address is theirs too.
pub fn registration(name: &str) -> Register {
    Register {
        profile: Profile {
            email: format!("{name}@Example.org"),
            email_key: format!("{}@example.org", name.to_lowercase()),
            first_name: name.to_owned(),
            last_name: format!("{name}son"),
            preferences: format!("likes {name}"),
        },
        person: Person { phone: Some(format!("phone of {name}")), ..Person::default() },
        currency: Some(currency("USD")),
        password_hash: format!("hash of {name}"),
        taken: Taken::Refuse,
        verification: Verification::Mailed { within_us: 48 * HOUR_US },
        operation: None,
    }
}

pub fn register(it: Register) -> Command {
    Command::Customer(CustomerCommand::Register(Box::new(it)))
}

/// Signs somebody up.
pub fn sign_up<S: Store>(workload: &mut Workload<S>, tenant: TenantNo, name: &str) -> CustomerRef {
    customer_of(&workload.accepted(tenant, register(registration(name))))
}

pub fn customer_of(reply: &Reply) -> CustomerRef {
    let Reply::Customer(CustomerReply::Registered(customer)) = reply else { panic!("{reply:?}") };
    *customer
}

/// Asks for something that is accepted.
pub fn ask<S: Store>(workload: &mut Workload<S>, it: CustomerCommand) -> Reply {
    // What is made in one millisecond is in no order.
    workload.now = workload.now.plus_us(1_000);
    workload.accepted(TENANT, Command::Customer(it))
}

/// Asks for something that is refused.
pub fn refused<S: Store>(workload: &mut Workload<S>, it: CustomerCommand) -> CustomerRejection {
    refusal(&workload.one(TENANT, Command::Customer(it)))
}

pub fn refusal(verdict: &Verdict) -> CustomerRejection {
    match verdict {
        Verdict::Answered(Answer::Refused(Rejection::Customer(why))) => why.clone(),
        Verdict::Answered(_) | Verdict::Waits(_) | Verdict::Unavailable(_) => {
            panic!("not refused: {verdict:?}")
        }
    }
}

pub const fn erase(customer: CustomerRef) -> CustomerCommand {
    CustomerCommand::Erase(EraseCustomer { customer, if_expired: false })
}

pub const fn login(
    customer: CustomerRef,
    password_version: i64,
    code: Option<Code>,
) -> CustomerCommand {
    CustomerCommand::OpenSession(OpenSession {
        customer,
        password_version,
        rehashed: None,
        code,
        lifetime_us: HOUR_US,
        refresh_us: 10 * HOUR_US,
        network: 0,
    })
}

fn session_of(reply: &Reply) -> (SessionId, u32) {
    let Reply::Customer(CustomerReply::Session { session, generation, .. }) = reply else {
        panic!("{reply:?}")
    };
    (*session, *generation)
}

const fn refresh(customer: CustomerRef, session: SessionId, generation: u32) -> CustomerCommand {
    let (lifetime_us, refresh_us) = (HOUR_US, 10 * HOUR_US);
    CustomerCommand::RefreshSession(RefreshSession {
        customer,
        session,
        generation,
        lifetime_us,
        refresh_us,
        network: 0,
        grace_us: 0,
        session_max_us: 100 * HOUR_US,
    })
}

/// A customer whose address is verified.
pub fn verified<S: Store>(
    workload: &mut Workload<S>,
    queries: &dyn Queries,
    name: &str,
) -> CustomerRef {
    let customer = sign_up(workload, TENANT, name);
    let known = queries.customer(TENANT, customer.id).unwrap().unwrap();
    let token = known.verification.unwrap().id;
    ask(workload, CustomerCommand::VerifyEmail(VerifyEmail { customer, token }));
    customer
}

/// Customers who stand in every way, with what belongs to them; those who are still there.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> Vec<CustomerRef> {
    let customers = ["Ada", "Bob", "Cid", "Dan"].map(|name| sign_up(workload, TENANT, name));
    sign_up(workload, OTHER, "Ada");
    let [_, bob, cid, dan] = customers;
    let given = Register { verification: Verification::Given, ..registration("Eve") };
    let eve = customer_of(&workload.accepted(TENANT, register(given)));
    let (session, generation) = session_of(&ask(workload, login(eve, 0, None)));
    ask(workload, refresh(eve, session, generation));
    ask(workload, login(eve, 0, None));
    let purpose = TokenPurpose::PasswordReset;
    let token = RequestToken { customer: eve, purpose, within_us: HOUR_US };
    ask(workload, CustomerCommand::RequestToken(token));
    let recovery_hashes = vec!["first".to_owned(), "second".to_owned()];
    let proposed = NewSecondFactor::Proposed { sealed: "sealed".to_owned(), recovery_hashes };
    let proposed = UpdateCustomer { second_factor: Some(proposed), ..UpdateCustomer::of(bob) };
    ask(workload, CustomerCommand::Update(Box::new(proposed)));
    let deactivated = UpdateCustomer { is_active: Some(false), ..UpdateCustomer::of(cid) };
    ask(workload, CustomerCommand::Update(Box::new(deactivated)));
    ask(workload, erase(dan));
    for n in 0..3 {
        let operation = queue(workload, n);
        let (explanation, password_hash) = ("too weak".to_owned(), String::new());
        match n {
            0 => drop(ask(
                workload,
                CustomerCommand::FailOperation(FailOperation { operation, explanation }),
            )),
            1 => {
                let it = registration("Fay");
                let it = Register { operation: Some(operation), password_hash, ..it };
                make(workload, operation, it);
            }
            _ => {}
        }
    }
    customers[..3].iter().copied().chain([eve]).collect()
}

/// Keeps a registration for later.
pub fn queue<S: Store>(workload: &mut Workload<S>, n: u8) -> OperationId {
    workload.now = workload.now.plus_us(1_000);
    let mut request = workload.request(TENANT, Command::Customer(erase_nobody()));
    let operation = OperationId::new(request.id.0);
    request.command = Command::Customer(CustomerCommand::QueueRegistration(QueueRegistration {
        operation,
        sealed: format!("sealed {n}"),
        callback: (n < 2).then(|| format!("callback {n}")),
    }));
    let verdict = workload.batch(vec![request]).pop().unwrap();
    let expected = Answer::Replied(Reply::Customer(CustomerReply::Queued(operation)));
    assert!(matches!(&verdict, Verdict::Answered(it) if *it == expected), "{verdict:?}");
    operation
}

/// A command to be replaced: the request's id is wanted first.
const fn erase_nobody() -> CustomerCommand {
    let (id, account) = (domain::Id::new(uuid::Uuid::nil()), domain::Id::new(uuid::Uuid::nil()));
    erase(CustomerRef { id, account })
}

/// Makes the registration that an operation kept: by a request with the operation's id.
pub fn make<S: Store>(workload: &mut Workload<S>, operation: OperationId, it: Register) -> Verdict {
    let mut request = workload.request(TENANT, register(it));
    request.id = domain::RequestId(operation.uuid());
    workload.batch(vec![request]).pop().unwrap()
}

#[test]
fn registered_customers_are_read() {
    let mut world = World::new(101);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let ada = sign_up(workload, TENANT, "Ada");
    let customer = queries.customer(TENANT, ada.id).unwrap().unwrap();
    assert_eq!(customer.reference(), ada);
    assert_eq!(customer.profile, registration("Ada").profile);
    assert_eq!(customer.credentials.password_hash, "hash of Ada");
    assert_eq!((customer.status, customer.is_verified), (CustomerStatus::Active, false));
    assert_eq!(customer.expires_at, Some(workload.now.plus_us(48 * HOUR_US)));
    assert_eq!(customer.expires_at, customer.verification.map(|it| it.expires_at));
    let by_email = |no, key| queries.customer_by_email(no, key).unwrap().map(|it| it.id);
    assert_eq!(by_email(TENANT, "ada@example.org"), Some(ada.id));
    assert_eq!(by_email(TENANT, "Ada@Example.org"), None);
    assert_eq!(by_email(OTHER, "ada@example.org"), None);
    assert_eq!(queries.customer(OTHER, ada.id).unwrap(), None);
    let account = queries.account(TENANT, ada.account).unwrap().unwrap();
    assert_eq!(account.account.external_key, Some(ada.id.to_string()));
    assert_eq!(account.person.name.as_deref(), Some("Ada Adason"));
    assert_eq!(account.person.email.as_deref(), Some("Ada@Example.org"));
    assert_eq!(account.person.phone.as_deref(), Some("phone of Ada"));
    let tags = queries.tags_of_account(TENANT, ada.account, (&ObjectType::ALL, true)).unwrap();
    let tags: Vec<_> = tags.iter().map(|it| (it.definition.clone(), it.tag.active)).collect();
    assert_eq!(tags, [(NamedDefinition::Control(ControlTag::AutoPayOff), true)]);

    let bob = verified(workload, queries, "Bob");
    let there = sign_up(workload, OTHER, "Ada");
    let ids = |no, page| -> Vec<_> {
        queries.customers(no, page).unwrap().iter().map(|it| it.id).collect()
    };
    assert_eq!(ids(TENANT, ALL), [ada.id, bob.id]);
    assert_eq!(ids(TENANT, Page { offset: 1, limit: 1 }), [bob.id]);
    assert_eq!(ids(OTHER, ALL), [there.id]);
    let expired = |at: Timestamp| -> Vec<_> {
        queries.customers_expired(at, None, 10).unwrap().iter().map(|it| it.id).collect()
    };
    let end = customer.expires_at.unwrap();
    assert_eq!(expired(end.plus_us(-1)), []);
    assert_eq!(expired(end), [ada.id]);
    assert_eq!(expired(end.plus_us(HOUR_US)), [ada.id, there.id]);
    let all = queries.customers_expired(end.plus_us(HOUR_US), None, 10).unwrap();
    let mut after = None;
    for it in &all {
        let next = queries.customers_expired(end.plus_us(HOUR_US), after, 1).unwrap();
        assert_eq!(next.as_slice(), std::slice::from_ref(it));
        after = Some((it.expires_at.unwrap(), it.id));
    }
    assert_eq!(queries.customers_expired(end.plus_us(HOUR_US), after, 1).unwrap(), []);
}

#[test]
fn sessions_are_read_and_end() {
    let mut world = World::new(102);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let bob = verified(workload, queries, "Bob");
    let sessions = || -> Vec<(SessionId, u32)> {
        let file = queries.customer_file(TENANT, bob.id).unwrap().unwrap();
        file.sessions.iter().map(|it| (it.id, it.generation)).collect()
    };
    let (first, _) = session_of(&ask(workload, login(bob, 0, None)));
    let (second, _) = session_of(&ask(workload, login(bob, 0, None)));
    assert_eq!(session_of(&ask(workload, refresh(bob, first, 0))), (first, 1));
    assert_eq!(session_of(&ask(workload, refresh(bob, first, 1))), (first, 2));
    assert_eq!(sessions(), [(first, 2), (second, 0)]);
    let (session, whose) = queries.session(TENANT, first).unwrap().unwrap();
    assert_eq!((session.generation, whose.reference()), (2, bob));
    assert_eq!(session.renewed_at, workload.now);
    assert_eq!(session.refresh_until, workload.now.plus_us(10 * HOUR_US));
    assert_eq!(queries.session(OTHER, first).unwrap(), None);
    // Somebody has a token who should not.
    let revoked = Reply::Customer(CustomerReply::SessionRevoked);
    assert_eq!(ask(workload, refresh(bob, first, 1)), revoked);
    assert_eq!(sessions(), [(second, 0)]);
    assert_eq!(refused(workload, refresh(bob, first, 2)), CustomerRejection::SessionNotFound);
    let close = |session| CustomerCommand::CloseSessions(CloseSessions { customer: bob, session });
    ask(workload, close(Some(second)));
    assert_eq!(sessions(), []);
    // Within one batch: opened, closed, and another one opened.
    let requests: Vec<Request> = [login(bob, 0, None), close(None), login(bob, 0, None)]
        .map(|it| workload.request(TENANT, Command::Customer(it)))
        .into();
    let verdicts = workload.batch(requests);
    let Verdict::Answered(Answer::Replied(last)) = &verdicts[2] else { panic!("{verdicts:?}") };
    assert_eq!(sessions(), [session_of(last)]);
    // Another password ends them all.
    let by = PasswordProof::Password { version: 0 };
    let password_hash = "another hash".to_owned();
    ask(workload, CustomerCommand::SetPassword(SetPassword { customer: bob, password_hash, by }));
    assert_eq!(sessions(), []);
    let customer = queries.customer(TENANT, bob.id).unwrap().unwrap();
    assert_eq!(customer.credentials.password_hash, "another hash");
    assert_eq!(refused(workload, login(bob, 0, None)), CustomerRejection::PasswordChanged);
    ask(workload, login(bob, 1, None));
}

/// A second factor, which one text of the customer's row stores, is read as it was written, and
/// each code is taken once.
#[test]
fn second_factors_are_read() {
    let mut world = World::new(103);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let bob = verified(workload, queries, "Bob");
    let change = |workload: &mut _, second_factor| {
        let it = UpdateCustomer { second_factor: Some(second_factor), ..UpdateCustomer::of(bob) };
        ask(workload, CustomerCommand::Update(Box::new(it)));
    };
    let recovery_hashes = vec!["first".to_owned(), "second".to_owned()];
    let sealed = "sealed \u{1f511}".to_owned();
    change(workload, NewSecondFactor::Proposed { sealed, recovery_hashes });
    change(workload, NewSecondFactor::Confirmed { step: 7 });
    let step = |step| login(bob, 0, Some(Code::Step(step)));
    let recovery = |hash: &str| login(bob, 0, Some(Code::Recovery(hash.to_owned())));
    assert_eq!(refused(workload, step(7)), CustomerRejection::CodeInvalid);
    ask(workload, step(8));
    ask(workload, recovery("first"));
    assert_eq!(refused(workload, recovery("first")), CustomerRejection::CodeInvalid);
    let known = || queries.customer(TENANT, bob.id).unwrap().unwrap().credentials.second_factor;
    let factor = known().unwrap();
    assert_eq!((factor.sealed.as_str(), factor.last_step), ("sealed \u{1f511}", 8));
    assert_eq!(factor.recovery_hashes, ["second"]);
    change(workload, NewSecondFactor::Removed);
    assert_eq!(known(), None);
}

#[test]
fn a_change_of_a_customer_is_one_of_their_account() {
    let mut world = World::new(104);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let bob = verified(workload, queries, "Bob");
    let it = UpdateCustomer {
        first_name: Some("Robert".to_owned()),
        preferences: Some(String::new()),
        preferences_before: Some("likes Bob".to_owned()),
        person: Person { city: Some("Lyon".to_owned()), ..Person::default() },
        ..UpdateCustomer::of(bob)
    };
    ask(workload, CustomerCommand::Update(Box::new(it)));
    let customer = queries.customer(TENANT, bob.id).unwrap().unwrap();
    assert_eq!(customer.profile.first_name, "Robert");
    assert_eq!(customer.profile.last_name, "Bobson");
    assert_eq!(customer.profile.preferences, "");
    let view = queries.account(TENANT, bob.account).unwrap().unwrap();
    assert_eq!(view.person.name.as_deref(), Some("Robert Bobson"));
    assert_eq!(view.person.city.as_deref(), Some("Lyon"));
    assert_eq!(view.person.phone.as_deref(), Some("phone of Bob"));
    assert_eq!(customer.revision, view.account.revision);
}

#[test]
fn an_address_has_one_customer() {
    let mut world = World::new(105);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let ada = sign_up(workload, TENANT, "Ada");
    let again = |workload: &mut Workload<_>, name: &str| {
        refusal(&workload.one(TENANT, register(registration(name))))
    };
    assert_eq!(again(workload, "ADA"), CustomerRejection::EmailTaken);
    assert_ne!(sign_up(workload, OTHER, "Ada"), ada);
    // Within one batch the first has it.
    let requests: Vec<Request> = ["bob", "Bob", "BOB"]
        .map(|name| workload.request(TENANT, register(registration(name))))
        .into();
    let verdicts = workload.batch(requests);
    let Verdict::Answered(Answer::Replied(first)) = &verdicts[0] else { panic!("{verdicts:?}") };
    let bob = customer_of(first);
    assert!(verdicts[1..].iter().all(|it| refusal(it) == CustomerRejection::EmailTaken));
    let owner = |key: &str| queries.customer_by_email(TENANT, key).unwrap().map(|it| it.id);
    assert_eq!(owner("ada@example.org"), Some(ada.id));
    assert_eq!(owner("bob@example.org"), Some(bob.id));
    let taken = |key: &str| queries.is_email_taken(TENANT, key).unwrap();
    assert!(taken("bob@example.org") && !taken("cid@example.org"));
    let registration_of_taken = Register { taken: Taken::NotifyByMail, ..registration("Ada") };
    let reply = workload.accepted(TENANT, register(registration_of_taken));
    assert_eq!(reply, Reply::Customer(CustomerReply::Notified));
    assert_eq!(owner("ada@example.org"), Some(ada.id));
}

/// A queue delivers at least once. What a delivery made is not made again, and nobody's account goes
/// out of service for it.
#[test]
fn a_command_that_comes_twice_is_carried_out_once() {
    let mut world = World::new(106);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let bob = verified(workload, queries, "Bob");
    let token =
        RequestToken { customer: bob, purpose: TokenPurpose::PasswordReset, within_us: HOUR_US };
    let registration_of_taken = Register { taken: Taken::NotifyByMail, ..registration("Ada") };
    let (session, _) = session_of(&ask(workload, login(bob, 0, None)));
    let queued = |operation| {
        let sealed = "sealed".to_owned();
        CustomerCommand::QueueRegistration(QueueRegistration { operation, sealed, callback: None })
    };
    for in_one_batch in [false, true] {
        for n in 0..4 {
            let mut request = workload.request(TENANT, Command::Customer(erase_nobody()));
            let operation = OperationId::new(request.id.0);
            request.command = Command::Customer(match n {
                0 => CustomerCommand::Register(Box::new(Register {
                    profile: registration(if in_one_batch { "Cid" } else { "Ada" }).profile,
                    ..registration_of_taken.clone()
                })),
                1 => login(bob, 0, None),
                2 => CustomerCommand::RequestToken(token.clone()),
                _ => queued(operation),
            });
            let works = [request.clone(), request].map(|it| Work::Request(Box::new(it)));
            let times = Times { now: workload.now, real_now: workload.now };
            let mut verdicts = vec![];
            let batches = if in_one_batch { vec![&works[..]] } else { works.chunks(1).collect() };
            for batch in batches {
                let processed = workload.partition.process(batch, times, &mut |_, _| Ok(()));
                assert!(processed.is_committed());
                verdicts.extend(processed.verdicts);
            }
            assert!(matches!(verdicts[0], Verdict::Answered(Answer::Replied(_))), "{verdicts:?}");
            let repeated = matches!(verdicts[1], Verdict::Unavailable(Reason::Repeated));
            assert!(repeated, "{n} in one batch {in_one_batch}: {verdicts:?}");
        }
    }
    assert_eq!(session_of(&ask(workload, refresh(bob, session, 0))), (session, 1));
    let report = store::verify::verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

/// A command that is delivered again is not executed again after other commands have followed on it: its session is
/// not treated as stolen, the customer is not logged in again, and no old token is valid again.
#[test]
fn a_command_that_comes_late_again_is_not_carried_out_on_what_followed() {
    let mut world = World::new(108);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let bob = verified(workload, queries, "Bob");
    let deliver = |workload: &mut Workload<_>, request: &Request| {
        let times = Times { now: workload.now, real_now: workload.now };
        let works = [Work::Request(Box::new(request.clone()))];
        let verdict =
            workload.partition.process(&works, times, &mut |_, _| Ok(())).verdicts.remove(0);
        match verdict {
            Verdict::Answered(Answer::Replied(reply)) => Some(reply),
            Verdict::Unavailable(Reason::Repeated) => None,
            other @ (Verdict::Answered(_) | Verdict::Waits(_) | Verdict::Unavailable(_)) => {
                panic!("{other:?}")
            }
        }
    };
    let request =
        |workload: &mut Workload<_>, command| workload.request(TENANT, Command::Customer(command));
    let opening = request(workload, login(bob, 0, None));
    let (session, _) = session_of(&deliver(workload, &opening).unwrap());
    let renewal = request(workload, refresh(bob, session, 0));
    assert!(deliver(workload, &renewal).is_some());
    assert_eq!(deliver(workload, &renewal), None);
    assert_eq!(session_of(&ask(workload, refresh(bob, session, 1))), (session, 2));
    assert_eq!(deliver(workload, &renewal), None);
    let close = CloseSessions { customer: bob, session: None };
    ask(workload, CustomerCommand::CloseSessions(close));
    assert_eq!(deliver(workload, &opening), None);
    assert_eq!(queries.customer_file(TENANT, bob.id).unwrap().unwrap().sessions, []);
    let (purpose, within_us) = (TokenPurpose::PasswordReset, HOUR_US);
    let token = RequestToken { customer: bob, purpose, within_us };
    let token = CustomerCommand::RequestToken(token);
    let [first, second] = [(); 2].map(|()| request(workload, token.clone()));
    for request in [&first, &second] {
        assert!(deliver(workload, request).is_some());
        for mail in queries.mails_due(workload.now, 10).unwrap() {
            let sent = Bookkeeping::MailClosed { tenant: mail.tenant, id: mail.id };
            pending::note(workload, vec![sent]);
        }
    }
    let held = queries.customer(TENANT, bob.id).unwrap().unwrap().reset;
    assert_eq!(deliver(workload, &first), None);
    assert_eq!(queries.customer(TENANT, bob.id).unwrap().unwrap().reset, held);
}

/// A token whose mail is still to be sent and that another one has replaced: the rows themselves say
/// that it came twice.
#[test]
fn a_mail_that_is_there_is_not_asked_for_again() {
    let mut world = World::new(107);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let bob = verified(workload, queries, "Bob");
    let purpose = TokenPurpose::PasswordReset;
    let token = RequestToken { customer: bob, purpose, within_us: HOUR_US };
    let token = Command::Customer(CustomerCommand::RequestToken(token));
    let [first, second] = [(); 2].map(|()| workload.request(TENANT, token.clone()));
    for request in [first.clone(), second] {
        let verdicts = workload.batch(vec![request]);
        assert!(matches!(verdicts[0], Verdict::Answered(Answer::Replied(_))), "{verdicts:?}");
    }
    let times = Times { now: workload.now, real_now: workload.now };
    let works = [Work::Request(Box::new(first))];
    let processed = workload.partition.process(&works, times, &mut |_, _| Ok(()));
    let repeated = matches!(processed.verdicts[..], [Verdict::Unavailable(Reason::Repeated)]);
    assert!(repeated && processed.is_committed(), "{processed:?}");
    ask(workload, login(bob, 0, None));
}

#[test]
fn damage_is_found() {
    for (damage, expected) in [
        (
            "UPDATE customer SET is_verified = 1 - is_verified WHERE status = 1",
            expect![[r#"
                customer is not what was written
                customer it is not what journal row N says"#]],
        ),
        (
            "UPDATE customer SET email_key = 'x' WHERE email_key LIKE 'bob%'",
            expect![[r#"
                claim CustomerEmail 018df974-d500-7d86-a17a-ce5decfd8aab does not have this key
                customer is not what was written
                customer its key is not claimed for it"#]],
        ),
        (
            "UPDATE operation SET settled_at_us = 1 WHERE status <> 1",
            expect![[r#"
                operation is not what was written
                operation it is not what journal row N says"#]],
        ),
    ] {
        expected.assert_eq(&damaged(damage));
    }
    let lost = damaged("DELETE FROM customer WHERE email_key LIKE 'bob%'");
    assert!(lost.contains("is on no chain"), "{lost}");
}
