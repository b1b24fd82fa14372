//! Work that is still to be done for customers: mails until they are sent, operations until they have ended.

use domain::customer::RequestToken;
use std::collections::BTreeSet;
use std::slice::from_ref;

use domain::command::CustomerCommand;
use domain::customer::mail::{Mail, MailKind};
use domain::customer::operation::{FailOperation, Operation, OperationStatus};
use domain::customer::{CustomerRejection, CustomerReply, Register, Taken, TokenPurpose};
use domain::payment::ReplyKey;
use domain::{Idempotency, Reply, Timestamp};
use engine::partition::{Answer, Times, Verdict, Work};
use engine::ports::{Batch, Bookkeeping, ExpiryCutoffs, Page, Store, StoredReply};

use super::{
    HOUR_US, OTHER, TENANT, ask, customer_of, erase, make, queue, refusal, refused, register,
    registration, sign_up,
};
use crate::workload::{Workload, World, create_account, person};

const ALL: Page = Page { offset: 0, limit: 100 };
const LATE: Timestamp = Timestamp(i64::MAX);

pub fn note<S: Store>(workload: &mut Workload<S>, rows: Vec<Bookkeeping>) {
    let times = Times { now: workload.now, real_now: workload.now };
    let processed =
        workload.partition.process(&[Work::Bookkeeping(rows)], times, &mut |_, _| Ok(()));
    assert!(processed.is_committed(), "{processed:?}");
}

/// The kinds of mails, those of one moment in no order.
fn kinds(mails: &[Mail]) -> Vec<MailKind> {
    let mut kinds: Vec<(Timestamp, MailKind)> =
        mails.iter().map(|it| (it.created_at, it.kind)).collect();
    kinds.sort();
    kinds.into_iter().map(|it| it.1).collect()
}

#[test]
fn mails_are_due_postponed_given_up_and_closed() {
    let mut world = World::new(121);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let ada = sign_up(workload, TENANT, "Ada");
    workload.now = workload.now.plus_us(HOUR_US);
    let again = Register { taken: Taken::NotifyByMail, ..registration("Ada") };
    workload.accepted(TENANT, register(again));
    let due = |at: Timestamp| queries.mails_due(at, 10).unwrap();
    let mut all = due(workload.now);
    assert_eq!(queries.mails_due(workload.now, 1).unwrap(), all[..1]);
    all.sort_by_key(|it| (it.created_at, it.kind));
    let expected = [MailKind::Welcome, MailKind::Verification, MailKind::AlreadyRegistered];
    assert_eq!(kinds(&all), expected);
    assert!(all.iter().all(|it| it.customer == ada.id && it.attempts == 0));
    let token = queries.customer(TENANT, ada.id).unwrap().unwrap().verification.unwrap().id;
    assert_eq!(all[1].token, Some(token));
    assert_eq!(kinds(&due(workload.now.plus_us(-1))), &expected[..2]);
    assert_eq!(queries.mail(TENANT, all[0].id).unwrap().as_ref(), Some(&all[0]));
    assert_eq!(queries.mail(OTHER, all[0].id).unwrap(), None);

    let later = Some(workload.now.plus_us(HOUR_US));
    let error = Some("no route".to_owned());
    let postponed = Mail { due_at: later, attempts: 1, error: error.clone(), ..all[0].clone() };
    let given_up = Mail { due_at: None, attempts: 9, error, ..all[1].clone() };
    note(
        workload,
        vec![
            Bookkeeping::MailPostponed(postponed.clone()),
            Bookkeeping::MailPostponed(given_up.clone()),
            Bookkeeping::MailClosed { tenant: TENANT, id: all[2].id },
        ],
    );
    assert_eq!(due(workload.now), []);
    assert_eq!(due(LATE), from_ref(&postponed));
    assert_eq!(queries.mails(TENANT, false, ALL).unwrap(), from_ref(&postponed));
    assert_eq!(queries.mails(TENANT, true, ALL).unwrap(), [given_up]);
    assert_eq!(queries.mails(OTHER, true, ALL).unwrap(), []);
    let backlog = queries.backlog(LATE).unwrap();
    // A mail that is tried again is late from then on, however long ago it was asked for.
    assert_eq!((backlog.mails, backlog.mail_due_at), (1, later));
    assert_eq!((backlog.operations, backlog.oldest_operation_at), (0, None));
}

/// The mail sender may learn of a failure only after the customer is erased.
#[test]
fn a_mail_that_was_deleted_with_its_customer_stays_so() {
    let mut world = World::new(122);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let ada = sign_up(workload, TENANT, "Ada");
    let bob = sign_up(workload, TENANT, "Bob");
    let mails = queries.mails_due(LATE, 10).unwrap();
    let (of_ada, of_bob): (Vec<Mail>, Vec<Mail>) =
        mails.into_iter().partition(|it| it.customer == ada.id);
    ask(workload, erase(ada));
    assert_eq!(queries.mails_due(LATE, 10).unwrap(), of_bob);
    let late = |it: &Mail| Bookkeeping::MailPostponed(Mail { attempts: 1, ..it.clone() });
    note(workload, of_ada.iter().map(late).collect());
    assert_eq!(queries.mails_due(LATE, 10).unwrap(), of_bob);
    // In one commit with what forgets them too.
    let request = workload.request(TENANT, domain::Command::Customer(erase(bob)));
    let works =
        [Work::Request(Box::new(request)), Work::Bookkeeping(of_bob.iter().map(late).collect())];
    let times = Times { now: workload.now, real_now: workload.now };
    assert!(workload.partition.process(&works, times, &mut |_, _| Ok(())).is_committed());
    assert_eq!(queries.mails_due(LATE, 10).unwrap(), []);
}

fn notified<S: Store>(workload: &mut Workload<S>, it: &Operation, again_at: Option<Timestamp>) {
    let (tenant, id, attempts) = (it.tenant, it.id, it.notify_attempts + 1);
    note(workload, vec![Bookkeeping::OperationNotified { tenant, id, again_at, attempts }]);
}

#[test]
fn operations_wait_execute_and_notify() {
    let mut world = World::new(123);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    // The first two want to be called.
    let ids = [0, 1, 2].map(|n| queue(workload, n));
    let waiting = |after| -> Vec<_> {
        queries.operations_waiting(after, 10).unwrap().iter().map(|it| it.id).collect()
    };
    let mut sorted = ids.to_vec();
    sorted.sort();
    assert_eq!(waiting(None), sorted);
    assert_eq!(waiting(Some(sorted[0])), sorted[1..]);
    assert_eq!(queries.operations_waiting(None, 1).unwrap().len(), 1);
    let operation = |id| queries.operation(TENANT, id).unwrap().unwrap();
    assert_eq!(operation(ids[0]).sealed.as_deref(), Some("sealed 0"));
    assert_eq!(queries.operation(OTHER, ids[0]).unwrap(), None);
    assert_eq!(queries.backlog(LATE).unwrap().operations, 3);

    let registered = |operation| Register { operation: Some(operation), ..registration("Ada") };
    let verdict = make(workload, ids[0], registered(ids[0]));
    let Verdict::Answered(Answer::Replied(reply)) = &verdict else { panic!("{verdict:?}") };
    let ada = customer_of(reply);
    assert_eq!(ada.account, domain::RequestId(ids[0].uuid()).entity(0));
    let made = operation(ids[0]);
    assert_eq!(made.status, OperationStatus::Succeeded(Some(ada.id)));
    assert_eq!((made.sealed.as_ref(), made.notify_at), (None, Some(workload.now)));
    // The address has a customer: the operation is not over before somebody says so.
    let verdict = make(workload, ids[1], registered(ids[1]));
    assert_eq!(refusal(&verdict), CustomerRejection::EmailTaken);
    let fail = |operation| {
        let explanation = "the address is taken".to_owned();
        CustomerCommand::FailOperation(FailOperation { operation, explanation })
    };
    assert_eq!(operation(ids[1]).status, OperationStatus::Waiting);
    ask(workload, fail(ids[1]));
    assert_eq!(refused(workload, fail(ids[1])), CustomerRejection::OperationSettled);
    let tell = Register { taken: Taken::NotifyByMail, ..registered(ids[2]) };
    let verdict = make(workload, ids[2], tell);
    let expected = Answer::Replied(Reply::Customer(CustomerReply::Notified));
    assert!(matches!(&verdict, Verdict::Answered(it) if *it == expected), "{verdict:?}");
    assert_eq!(operation(ids[2]).status, OperationStatus::Succeeded(None));
    assert_eq!((operation(ids[2]).sealed, operation(ids[2]).notify_at), (None, None));
    assert_eq!(waiting(None), []);
    assert_eq!(queries.backlog(LATE).unwrap().operations, 0);

    let to_tell = |at: Timestamp| -> Vec<_> {
        queries.operations_to_notify(at, None, 10).unwrap().iter().map(|it| it.id).collect()
    };
    assert_eq!(to_tell(workload.now), ids[..2]);
    notified(workload, &operation(ids[0]), None);
    let later = workload.now.plus_us(HOUR_US);
    notified(workload, &operation(ids[1]), Some(later));
    assert_eq!((to_tell(workload.now), to_tell(later)), (vec![], vec![ids[1]]));
    assert_eq!(operation(ids[1]).notify_attempts, 1);
    // Its secret is kept for as long as somebody is to be called.
    let callbacks = ids.map(|id| operation(id).callback);
    assert_eq!(callbacks, [None, Some("callback 1".to_owned()), None]);
    let report = store::verify::verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn expired_operations_are_deleted_and_the_journal_stays_valid() {
    let mut world = World::new(125);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let ids = [0, 1, 2].map(|n| queue(workload, n));
    let fail = |operation| {
        CustomerCommand::FailOperation(FailOperation { operation, explanation: String::new() })
    };
    ask(workload, fail(ids[0]));
    let settled = workload.now;
    let ada = super::verified(workload, queries, "Ada");
    ask(workload, super::login(ada, 0, None));
    let mails = queries.mails_due(LATE, 10).unwrap();
    let dead = Mail { due_at: None, ..mails[0].clone() };
    note(workload, vec![Bookkeeping::MailPostponed(dead)]);
    workload.now = workload.now.plus_us(HOUR_US);
    ask(workload, fail(ids[1]));
    ask(workload, super::login(ada, 0, None));
    let sessions = || queries.customer_file(TENANT, ada.id).unwrap().unwrap().sessions;
    let first = sessions().iter().map(|it| it.refresh_until).min().unwrap();
    let before = |us| ExpiryCutoffs {
        operations_settled: settled.plus_us(us),
        mails_given_up: mails[0].created_at.plus_us(us),
        sessions_ended: first.plus_us(us),
        replies_expired: Timestamp(0),
        usage_forgotten: Timestamp(0),
    };
    assert!(!queries.has_expired(before(0)).unwrap());
    note(workload, vec![Bookkeeping::Expired(before(0))]);
    let there = || ids.map(|id| queries.operation(TENANT, id).unwrap().is_some());
    assert_eq!((there(), sessions().len()), ([true; 3], 2));
    assert!(queries.has_expired(before(1)).unwrap());
    note(workload, vec![Bookkeeping::Expired(before(1))]);
    assert!(!queries.has_expired(before(1)).unwrap());
    assert_eq!((there(), sessions().len()), ([false, true, true], 1));
    assert_eq!(queries.mails(TENANT, true, ALL).unwrap(), []);
    assert_eq!(queries.mails_due(LATE, 10).unwrap().len(), mails.len() - 1);
    let report = store::verify::verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

/// A commit that stores replies forgets expired ones; the retention does where nothing is committed.
#[test]
fn expired_replies_are_deleted_while_nothing_is_stored() {
    let mut world = World::new(126);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let mut request = workload.request(TENANT, create_account(None, person("Ada")));
    let (key, fingerprint) = (ReplyKey(request.id.0), request.id.0);
    request.idempotency = Some(Idempotency { key, fingerprint });
    let verdicts = workload.batch(vec![request]);
    assert!(matches!(verdicts[..], [Verdict::Answered(Answer::Replied(_))]), "{verdicts:?}");
    let none = Timestamp(0);
    let before = |replies_expired| ExpiryCutoffs {
        operations_settled: none,
        mails_given_up: none,
        sessions_ended: none,
        replies_expired,
        usage_forgotten: Timestamp(0),
    };
    assert!(!queries.has_expired(before(workload.now)).unwrap());
    assert!(queries.has_expired(before(LATE)).unwrap());
    note(workload, vec![Bookkeeping::Expired(before(workload.now))]);
    assert!(queries.has_expired(before(LATE)).unwrap(), "it has not expired");
    note(workload, vec![Bookkeeping::Expired(before(LATE))]);
    assert!(!queries.has_expired(before(LATE)).unwrap());
}

/// While the outcome of a payment is in doubt, its key keeps a second charge away: however long.
#[test]
fn a_reply_without_an_answer_never_expires() {
    let mut world = World::new(127);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let key = ReplyKey(uuid::Uuid::from_u128(7));
    let running = StoredReply { key, fingerprint: key.0, answer: None, expires_at: workload.now };
    let store = workload.partition.store();
    store.load(&BTreeSet::new(), &BTreeSet::from([key])).unwrap();
    store.commit(&Batch { replies: vec![running], ..Batch::default() }).unwrap();
    let none = Timestamp(0);
    let before = ExpiryCutoffs {
        operations_settled: none,
        mails_given_up: none,
        sessions_ended: none,
        replies_expired: LATE,
        usage_forgotten: Timestamp(0),
    };
    note(workload, vec![Bookkeeping::Expired(before)]);
    assert!(queries.has_reply(key, LATE).unwrap());
}

/// Only the last of the tokens that were mailed holds; the mails stay until they are sent or closed.
#[test]
fn a_new_token_takes_the_place_of_the_one_before() {
    let mut world = World::new(124);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let ada = sign_up(workload, TENANT, "Ada");
    let held = || queries.customer(TENANT, ada.id).unwrap().unwrap().verification.unwrap();
    let first = held();
    let purpose = TokenPurpose::Verification;
    let request = RequestToken { customer: ada, purpose, within_us: HOUR_US };
    ask(workload, CustomerCommand::RequestToken(request));
    assert_ne!(held().id, first.id);
    assert_eq!(held().expires_at, workload.now.plus_us(HOUR_US));
    let verify = |token| {
        CustomerCommand::VerifyEmail(domain::customer::VerifyEmail { customer: ada, token })
    };
    assert_eq!(refused(workload, verify(first.id)), CustomerRejection::TokenInvalid);
    ask(workload, verify(held().id));
    let known = queries.customer(TENANT, ada.id).unwrap().unwrap();
    assert_eq!((known.is_verified, known.verification, known.expires_at), (true, None, None));
    let mails = queries.mails_due(LATE, 10).unwrap();
    let expected = [MailKind::Welcome, MailKind::Verification, MailKind::Verification];
    assert_eq!(kinds(&mails), expected);
}
