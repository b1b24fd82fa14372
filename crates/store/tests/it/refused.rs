//! A command that writes what the database refuses is parked alone: its neighbours are committed, and
//! of a queue nothing is passed over and nothing is executed twice. A constraint that only the test
//! has provokes it, the same on either database.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use domain::account::payment_method::CreatePaymentMethod;
use domain::command::{AccountCommand, PaymentCommand};
use domain::payment::{FollowUp, Initiate};
use domain::reply::AccountReply;
use domain::{
    AccountId, Command, EXTERNAL_PAYMENT, PaymentId, Reply, Request, RequestId, Settings, TenantNo,
};
use engine::partition::{Answer, CommitOutcome, Times, Verdict, Work};
use engine::ports::{Batch, Cause, Store, StoreError};
use engine::queue::{QueuePosition, is_settled};
use engine::{Clock, Engine, Parts, Reason, Running, Unavailable};
use futures_util::future::join_all;
use store::verify::verify;
use store::{Options, SqlQueries, SqlStore};
use tokio::runtime::Runtime;

use crate::commits::two_tenants;
use crate::home::Home;
use crate::watched::{Gate, Watched};
use crate::workload::{Workload, create_account, currency, person, rename};

const TENANT: TenantNo = TenantNo(1);
/// How many commands are offered, each for an account of its own but for [`LATER`].
const COUNT: usize = 64;
/// The one whose row is refused.
const POISONED: usize = 20;
/// One whose time is over.
const EXPIRED: usize = 30;
/// Another for the account of [`POISONED`].
const LATER: usize = 40;
/// Where the queue begins.
const FIRST_OFFSET: i64 = 100;

const NAMES_ARE_UNIQUE: &str = "CREATE UNIQUE INDEX only_here ON account_person (name)";

type Answered = Result<Answer, Unavailable>;

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    Committed,
    Refused,
    Failed,
}

/// A commit: what became of it, how far the queue was read, and what was executed.
struct Commit {
    became: Became,
    read_on: Option<i64>,
    executed: Vec<RequestId>,
}

#[derive(Default)]
struct Seen {
    gate: Gate,
    commits: Mutex<Vec<Commit>>,
    /// The error of the first commit after one that was refused.
    trouble: Mutex<Option<StoreError>>,
}

impl Seen {
    fn count(&self, became: Became) -> usize {
        self.commits.lock().unwrap().iter().filter(|it| it.became == became).count()
    }

    fn try_commit(&self, store: &mut SqlStore, batch: &Batch) -> Result<(), StoreError> {
        if self.count(Became::Refused) > 0
            && let Some(trouble) = self.trouble.lock().unwrap().take()
        {
            return Err(trouble);
        }
        store.commit(batch)
    }

    fn commit(&self, store: &mut SqlStore, batch: &Batch) -> Result<(), StoreError> {
        let committed = self.try_commit(store, batch);
        let became = match &committed {
            Ok(()) => Became::Committed,
            Err(StoreError::Refused(_)) => Became::Refused,
            Err(_) => Became::Failed,
        };
        let executed = batch.entries.iter().map(|entry| entry.request).collect();
        let read_on = batch.queue_offset;
        self.commits.lock().unwrap().push(Commit { became, read_on, executed });
        committed
    }
}

/// An engine on a store that refuses one of the commands.
struct Scene {
    home: Home,
    runtime: Runtime,
    engine: Engine,
    running: Running,
    seen: Arc<Seen>,
    requests: Vec<Request>,
}

/// An engine on a store, without gateways.
pub(crate) fn start<S>(store: S, queries: SqlQueries) -> (Runtime, Engine, Running)
where
    S: Store + Send + 'static,
{
    let settings = Settings::without_gateways(1, 1);
    let parts = Parts {
        store,
        queries: Arc::new(queries),
        gateways: BTreeMap::new(),
        clock: Clock::new(false),
        settings,
        options: engine::Options::default(),
    };
    let runtime = Runtime::new().unwrap();
    let inside = runtime.enter();
    let (engine, running) = Engine::start(parts).unwrap();
    drop(inside);
    (runtime, engine, running)
}

impl Scene {
    fn new(trouble: Option<StoreError>) -> Self {
        let home = Home::new();
        let mut workload = two_tenants(home.open(&Options::DEFAULT), 7);
        let accounts: Vec<AccountId> = (0..COUNT)
            .map(|n| {
                let made = create_account(None, person(&format!("Account {n}")));
                let Reply::Account(AccountReply::Created(id)) = workload.accepted(TENANT, made)
                else {
                    panic!("it is made")
                };
                id
            })
            .collect();
        let requests = (0..COUNT).map(|n| {
            let account = accounts[if n == LATER { POISONED } else { n }];
            let name = if n == POISONED { "Account 1".to_owned() } else { format!("Renamed {n}") };
            workload.request(TENANT, rename(account, person(&name)))
        });
        let requests = requests.collect();
        drop(workload);
        home.damage(NAMES_ARE_UNIQUE);

        let store = home.open(&Options::DEFAULT);
        let queries = store.queries(2).unwrap();
        let seen = Arc::new(Seen { trouble: Mutex::new(trouble), ..Seen::default() });
        let watching = Arc::clone(&seen);
        let store = Watched::new(store, Arc::clone(&seen.gate), move |store, batch| {
            watching.commit(store, batch)
        });
        let (runtime, engine, running) = start(store, queries);
        Self { home, runtime, engine, running, seen, requests }
    }

    /// Offers all of them before the first is begun: they come to lie in two batches at most.
    fn offer<F: Future<Output = Answered>>(
        &self,
        offer: impl Fn(Engine, usize, Request) -> F,
    ) -> Vec<Answered> {
        let gate = self.seen.gate.lock().unwrap();
        let offered = self.requests.iter().enumerate().map(|(n, request)| {
            let mut offered = Box::pin(offer(self.engine.clone(), n, request.clone()));
            let polled = offered.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            offered
        });
        let offered: Vec<_> = offered.collect();
        drop(gate);
        self.runtime.block_on(join_all(offered))
    }

    fn offer_queued(&self) -> Vec<Answered> {
        let began = Instant::now();
        self.offer(|engine, n, request| {
            let offset = FIRST_OFFSET + i64::try_from(n).unwrap();
            let expires_at = (n == EXPIRED).then_some(began);
            engine.submit_queued(QueuePosition { offset, expires_at }, request)
        })
    }

    /// The committed requests, in order, and how far the queue was read then. Asserts that no
    /// request was passed over or executed twice.
    fn assert_in_order(&self) -> (Vec<RequestId>, Option<i64>) {
        let left_out = [POISONED, EXPIRED, LATER].map(|n| self.requests[n].id);
        let (mut executed, mut read_on) = (vec![], None);
        let commits = self.seen.commits.lock().unwrap();
        for commit in commits.iter().filter(|it| it.became == Became::Committed) {
            executed.extend(&commit.executed);
            read_on = read_on.max(commit.read_on);
            let next = commit.read_on.expect("it has a place");
            let passed = usize::try_from(next - FIRST_OFFSET).unwrap();
            let passed = self.requests[..passed].iter().map(|it| it.id);
            let passed: Vec<_> = passed.filter(|id| !left_out.contains(id)).collect();
            assert_eq!(executed, passed);
        }
        (executed, read_on)
    }

    /// Stops it, and looks at what was written.
    fn stop(self) -> Option<i64> {
        let Self { home, runtime, engine, running, .. } = self;
        runtime.block_on(running.stop(Duration::ZERO));
        drop(engine);
        let mut store = home.open(&Options::DEFAULT);
        let opened = store.open().unwrap();
        let report = verify(store.database().reader()).unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
        opened.queue_offset
    }
}

fn reason(answered: &Answered) -> Option<Reason> {
    answered.as_ref().err().map(|it| it.reason)
}

fn expected(n: usize, is_queued: bool) -> Option<Reason> {
    match n {
        POISONED => Some(Reason::Bug),
        EXPIRED if is_queued => Some(Reason::Expired),
        LATER => Some(Reason::Quarantined),
        _ => None,
    }
}

#[test]
fn of_a_queue_one_command_is_parked_and_all_others_are_committed() {
    // A connection that is lost meanwhile changes nothing.
    for trouble in [None, Some(StoreError::ConnectionLost(Cause::new("planned")))] {
        let scene = Scene::new(trouble);
        for (n, answered) in scene.offer_queued().iter().enumerate() {
            assert_eq!(reason(answered), expected(n, true), "{n}: {answered:?}");
        }
        let (executed, read_on) = scene.assert_in_order();
        assert_eq!(executed.len(), COUNT - 3);
        let refused = scene.seen.count(Became::Refused);
        assert!((2..10).contains(&refused), "by halves: {refused}");
        let end = Some(FIRST_OFFSET + i64::try_from(COUNT).unwrap());
        assert_eq!(read_on, end);
        assert_eq!(scene.stop(), end);
    }
}

/// Another process takes the partition over in the middle of the search.
#[test]
fn owner_that_loses_the_partition_executes_nothing_more() {
    let scene = Scene::new(Some(StoreError::NotOwner));
    let answered = scene.offer_queued();
    let (executed, read_on) = scene.assert_in_order();
    // All before it, where the first batch ended there.
    assert!(executed.len() <= POISONED, "{executed:?}");
    let done = answered.iter().take_while(|it| it.is_ok()).count();
    assert_eq!(done, executed.len());
    let rest = answered[done..].iter().map(|it| reason(it).expect("it is not done"));
    assert!(rest.clone().all(|reason| !is_settled(reason)), "{:?}", rest.collect::<Vec<_>>());
    assert_eq!(scene.stop(), read_on);
}

#[test]
fn in_memory_a_refused_command_fails_alone() {
    let scene = Scene::new(None);
    let answered = scene.offer(|engine, _, request| async move { engine.submit(request).await });
    for (n, answered) in answered.iter().enumerate() {
        assert_eq!(reason(answered), expected(n, false), "{n}: {answered:?}");
    }
    assert_eq!(scene.stop(), None);
}

/// A way of paying that settles at once.
fn method(account: AccountId) -> Command {
    let method = CreatePaymentMethod::default_of(account, EXTERNAL_PAYMENT.to_owned());
    Command::Account(AccountCommand::CreatePaymentMethod(method))
}

fn purchase(account: AccountId) -> Command {
    Command::Payment(PaymentCommand::Purchase(Initiate {
        amount: Some("10".to_owned()),
        ..Initiate::of(account)
    }))
}

fn refund(payment: PaymentId) -> Command {
    Command::Payment(PaymentCommand::Refund(FollowUp {
        amount: Some("10".to_owned()),
        currency: Some(currency("USD")),
        ..FollowUp::of(payment)
    }))
}

/// Also where the command names a payment only.
#[test]
fn the_account_of_a_refused_command_is_out_of_service() {
    let home = Home::new();
    let mut workload = two_tenants(home.open(&Options::DEFAULT), 7);
    let [account, other] = ["A", "B"].map(|name| {
        let made = workload.accepted(TENANT, create_account(None, person(name)));
        let Reply::Account(AccountReply::Created(id)) = made else { panic!("it is made") };
        id
    });
    workload.accepted(TENANT, method(account));
    let Reply::Payment(paid) = workload.accepted(TENANT, purchase(account)) else {
        panic!("it is paid")
    };
    home.damage("CREATE UNIQUE INDEX only_here ON payment_transaction (amount_minor)");
    let refund = refund(paid.payment);
    let works = |workload: &mut Workload<SqlStore>, commands: Vec<Command>| {
        let works = commands.into_iter().map(|command| {
            let request = workload.request(TENANT, command);
            Work::Request(Box::new(request))
        });
        works.collect::<Vec<_>>()
    };
    let times = Times { now: workload.now, real_now: workload.now };
    let mut refunding = works(&mut workload, vec![refund]);
    refunding.push(Work::ReadOn(7));
    let processed = workload.partition.process(&refunding, times, &mut |_, _| Ok(()));
    assert!(processed.is_committed());
    assert!(matches!(processed.verdicts[0], Verdict::Unavailable(Reason::Bug)), "{processed:?}");
    assert_eq!(processed.head, workload.head(), "nothing of it was written");
    let later = vec![rename(account, person("C")), rename(other, person("D"))];
    let later = works(&mut workload, later);
    let processed = workload.partition.process(&later, times, &mut |_, _| Ok(()));
    assert!(
        matches!(
            processed.verdicts[..],
            [
                Verdict::Unavailable(Reason::Quarantined),
                Verdict::Answered(Answer::Replied(Reply::Done))
            ]
        ),
        "{processed:?}"
    );
    assert_eq!(workload.partition.store().open().unwrap().queue_offset, Some(7));
}

/// A delivery that comes again after the first was committed does nothing, and nobody suffers from it.
#[test]
fn a_command_that_comes_twice_is_carried_out_once() {
    let home = Home::new();
    let mut workload = two_tenants(home.open(&Options::DEFAULT), 7);
    let made = workload.accepted(TENANT, create_account(None, person("A")));
    let Reply::Account(AccountReply::Created(account)) = made else { panic!("it is made") };
    workload.accepted(TENANT, method(account));
    let times = Times { now: workload.now, real_now: workload.now };
    let twice = workload.request(TENANT, purchase(account));
    let once = workload.request(TENANT, purchase(account));
    let work = |request: &Request| Work::Request(Box::new(request.clone()));
    let first =
        workload.partition.process(&[work(&twice), Work::ReadOn(5)], times, &mut |_, _| Ok(()));
    assert!(matches!(first.verdicts[0], Verdict::Answered(Answer::Replied(_))), "{first:?}");
    let both = [work(&twice), work(&once), Work::ReadOn(7)];
    let both = workload.partition.process(&both, times, &mut |_, _| Ok(()));
    assert_eq!(both.commit, CommitOutcome::RowRefused, "{both:?}");
    let again =
        workload.partition.process(&[work(&twice), Work::ReadOn(6)], times, &mut |_, _| Ok(()));
    assert!(matches!(again.verdicts[0], Verdict::Unavailable(Reason::Repeated)), "{again:?}");
    assert!(again.is_committed() && is_settled(Reason::Repeated) && !Reason::Repeated.is_parked());
    assert_eq!(again.head, first.head, "nothing of it was written");
    let other =
        workload.partition.process(&[work(&once), Work::ReadOn(7)], times, &mut |_, _| Ok(()));
    assert!(matches!(other.verdicts[0], Verdict::Answered(Answer::Replied(_))), "{other:?}");
    assert_eq!(workload.partition.store().open().unwrap().queue_offset, Some(7));
    let report = verify(workload.partition.store().database().reader()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

/// Also where the database does not tell, because the batch changes the row that it would make anyway,
/// or makes it: then its neighbours are committed with it.
#[test]
fn a_command_that_comes_twice_does_nothing_beside_what_it_made() {
    let home = Home::new();
    let mut workload = two_tenants(home.open(&Options::DEFAULT), 7);
    let times = Times { now: workload.now, real_now: workload.now };
    let check = |workload: &mut Workload<SqlStore>, requests: &[&Request], made: &[bool]| {
        let head = workload.head();
        let works = requests.iter().map(|it| Work::Request(Box::new((*it).clone())));
        let works: Vec<Work> = works.collect();
        let processed = workload.partition.process(&works, times, &mut |_, _| Ok(()));
        let is_made = |verdict: &Verdict| {
            let is_repeated = matches!(verdict, Verdict::Unavailable(Reason::Repeated));
            let is_made = matches!(verdict, Verdict::Answered(Answer::Replied(_)));
            assert!(is_made != is_repeated, "{verdict:?}");
            is_made
        };
        let verdicts: Vec<bool> = processed.verdicts.iter().map(is_made).collect();
        assert!(processed.is_committed() && verdicts == made, "{verdicts:?}, not {made:?}");
        let rows = i64::try_from(made.iter().filter(|made| **made).count()).unwrap();
        assert_eq!(workload.head().0, head.0 + rows, "a journal row for each that was carried out");
        let Verdict::Answered(Answer::Replied(reply)) = processed.verdicts[0].clone() else {
            return Reply::Done;
        };
        reply
    };
    let made = workload.request(TENANT, create_account(None, person("A")));
    let Reply::Account(AccountReply::Created(account)) =
        check(&mut workload, &[&made, &made], &[true, false])
    else {
        panic!("it is made")
    };
    let renamed = workload.request(TENANT, rename(account, person("B")));
    check(&mut workload, &[&renamed, &made], &[true, false]);
    let method = workload.request(TENANT, method(account));
    check(&mut workload, &[&method, &method], &[true, false]);
    let bought = workload.request(TENANT, purchase(account));
    let reply = check(&mut workload, &[&bought, &bought], &[true, false]);
    let Reply::Payment(paid) = reply else { panic!("it is paid") };
    let refunded = workload.request(TENANT, refund(paid.payment));
    check(&mut workload, &[&refunded, &refunded, &bought], &[true, false, false]);
    check(&mut workload, &[&refunded], &[false]);
    let report = verify(workload.partition.store().database().reader()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}
