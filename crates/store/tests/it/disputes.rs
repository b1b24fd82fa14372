//! Disputes are committed, loaded, read and verified.

use domain::command::PaymentCommand;
use domain::ledger::LedgerAccount;
use domain::payment::dispute::{Dispute, DisputeCase, DisputeSaid, DisputeStatus, RecordDispute};
use domain::payment::{
    GatewayAnswer, GatewayOutcome, GatewayReplied, GatewayStatus, Initiate, TransactionType,
};
use domain::{
    AccountId, AmountMinor, Command, DisputeId, PaymentId, TenantNo, Timestamp, TransactionId,
};
use engine::ports::{DisputeFilter, LedgerFilter, Page, Store};
use store::verify::verify_source;

use crate::workload::{Workload, World, currency};

const TENANT: TenantNo = TenantNo(1);

/// An account with a payment that worked.
fn paid<S: Store>(workload: &mut Workload<S>) -> (AccountId, PaymentId, TransactionId) {
    let account = workload.paying_account(TENANT);
    let purchase = Initiate {
        amount: Some("12".to_owned()),
        currency: Some(currency("USD")),
        ..Initiate::of(account)
    };
    workload.one(TENANT, Command::Payment(PaymentCommand::Purchase(purchase)));
    let call = workload.calls.pop().unwrap();
    let (payment, transaction) = (call.payment, call.transaction);
    let answer = GatewayAnswer::Outcome(GatewayOutcome::new(GatewayStatus::Processed));
    let replied =
        GatewayReplied { payment, transaction, answer, is_controlled: false, tries: None };
    workload.accepted(TENANT, Command::Payment(PaymentCommand::GatewayReplied(replied)));
    (account, payment, transaction)
}

fn record(
    (payment, transaction): (PaymentId, TransactionId),
    (case, status): (&str, DisputeStatus),
    (withdrawn, reinstated): (i64, i64),
) -> Command {
    Command::Payment(PaymentCommand::RecordDispute(Box::new(RecordDispute {
        payment,
        transaction,
        case: DisputeCase::new("alpha", case).unwrap(),
        said: DisputeSaid {
            status,
            reason: Some("fraudulent".to_owned()),
            amount: AmountMinor(withdrawn),
            currency: currency("USD"),
            evidence_due_by: Some(Timestamp(i64::MAX / 2)),
            withdrawn: AmountMinor(withdrawn),
            reinstated: AmountMinor(reinstated),
        },
        asked_at: Timestamp(7),
    })))
}

/// A payment of 12 USD with a dispute that took 20 and gave 9 back, and a warning.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> (AccountId, PaymentId) {
    let (account, payment, transaction) = paid(workload);
    let of = (payment, transaction);
    workload.accepted(TENANT, record(of, ("c-1", DisputeStatus::NeedsResponse), (2_000, 0)));
    workload.accepted(TENANT, record(of, ("c-1", DisputeStatus::Won), (2_000, 900)));
    workload.accepted(TENANT, record(of, ("c-2", DisputeStatus::WarningNeedsResponse), (500, 0)));
    (account, payment)
}

fn all(world: &World, filter: DisputeFilter, page: (u64, u64)) -> Vec<String> {
    let page = Page { offset: page.0, limit: page.1 };
    let found = world.queries.disputes(TENANT, &filter, page).unwrap();
    found.into_iter().map(|it| it.case.case).collect()
}

fn one(world: &World, case: &str) -> Dispute {
    let page = Page { offset: 0, limit: 10 };
    let found = world.queries.disputes(TENANT, &DisputeFilter::default(), page).unwrap();
    found.into_iter().find(|it| it.case.case == case).unwrap()
}

#[test]
fn disputes_are_read_by_account_payment_and_status() {
    let mut world = World::new(103);
    let (account, payment) = fill(&mut world.workload);
    let (other, other_payment, transaction) = paid(&mut world.workload);
    let of = (other_payment, transaction);
    let another = record(of, ("c-3", DisputeStatus::Won), (100, 100));
    world.workload.accepted(TENANT, another);
    let none = DisputeFilter::default();
    let of_account = DisputeFilter { account: Some(account), ..none };
    let of_payment = DisputeFilter { payment: Some(payment), ..none };
    let won = DisputeFilter { status: Some(DisputeStatus::Won), ..none };
    let check = |filter: DisputeFilter, expected: &[&str]| {
        let mut found = all(&world, filter, (0, 10));
        found.sort();
        assert_eq!(found, expected, "{filter:?}");
    };
    check(none, &["c-1", "c-2", "c-3"]);
    check(of_account, &["c-1", "c-2"]);
    check(DisputeFilter { status: Some(DisputeStatus::Won), ..of_account }, &["c-1"]);
    check(of_payment, &["c-1", "c-2"]);
    check(DisputeFilter { status: Some(DisputeStatus::Won), ..of_payment }, &["c-1"]);
    check(DisputeFilter { account: Some(other), ..of_payment }, &[]);
    check(won, &["c-1", "c-3"]);
    check(DisputeFilter { status: Some(DisputeStatus::Lost), ..none }, &[]);
    let pages: Vec<String> = (0..3).flat_map(|at| all(&world, none, (at, 1))).collect();
    assert_eq!(pages, all(&world, none, (0, 10)), "one by one");
    let found = one(&world, "c-1");
    assert_eq!(world.queries.dispute(TENANT, found.id).unwrap(), Some(found.clone()));
    assert_eq!(world.queries.dispute(TenantNo(2), found.id).unwrap(), None);
    assert_eq!(world.queries.dispute(TENANT, DisputeId::new(payment.uuid())).unwrap(), None);
    let page = Page { offset: 0, limit: 10 };
    assert_eq!(world.queries.disputes(TenantNo(2), &none, page).unwrap(), []);
    assert_eq!(world.queries.disputes(TenantNo(2), &of_payment, page).unwrap(), []);
}

#[test]
fn what_is_booked_is_in_the_ledger_and_verified() {
    let mut world = World::new(104);
    let (_, payment) = fill(&mut world.workload);
    let dispute = one(&world, "c-1");
    let booked = dispute.booked;
    // 12 were left; of 20 the rest is excess, which ends first.
    assert_eq!((booked.charged_back.0, booked.reversed.0), (1_200, 100));
    assert_eq!((booked.excess.0, booked.excess_returned.0), (800, 800));
    let filter = LedgerFilter { payment: Some(payment), ..LedgerFilter::default() };
    let entries = world.queries.ledger_entries(TENANT, &filter, Page { offset: 0, limit: 10 });
    let excess = |it: &domain::ledger::Posting| {
        [it.debit, it.credit].contains(&LedgerAccount::DisputeExcess)
    };
    let entries = entries.unwrap();
    let excess: Vec<i64> = entries
        .iter()
        .map(|it| &it.posting)
        .filter(|it| excess(it))
        .map(|it| it.amount.0)
        .collect();
    assert_eq!(excess, [800, 800]);
    let file = world.queries.payment(TENANT, payment).unwrap().unwrap();
    let last = file.transactions.last().unwrap();
    assert_eq!(last.kind, TransactionType::ChargebackReversal);
    assert_eq!(last.external_key.as_deref(), Some("alpha/c-1"));
    assert_eq!(one(&world, "c-2").booked.withdrawn(), AmountMinor::ZERO);
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn one_commit_may_book_both_and_their_order_is_stored() {
    let mut world = World::new(105);
    let (_, payment, transaction) = paid(&mut world.workload);
    let both = record((payment, transaction), ("c-1", DisputeStatus::Won), (1_200, 1_200));
    world.workload.accepted(TENANT, both);
    let file = world.queries.payment(TENANT, payment).unwrap().unwrap();
    let kinds: Vec<TransactionType> = file.transactions.iter().map(|it| it.kind).collect();
    use TransactionType as T;
    assert_eq!(kinds, [T::Purchase, T::Chargeback, T::ChargebackReversal]);
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}
