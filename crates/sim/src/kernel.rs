//! The kernel of the simulations of aggregates: one process on a store, in memory unless one is named, which dies and
//! loses commits and its partitions, a clock, and events and timers in their order, all of it from one seed.
//!
//! A [`Workload`] drives it: it submits commands, performs their effects, and compares what is stored with its model.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use domain::command::Subject;
use domain::payment::Actor;
use domain::timer::Timer;
use domain::{
    AccountId, Command, Effect, GatewaySettings, PartitionNo, Request, RequestId, Settings,
    TenantNo, Timestamp,
};
use engine::partition::{Partition, Times, Verdict, Work};
use engine::ports::Entry;
use store::Share;
use uuid::Uuid;

use crate::disk::Disk;
use crate::faulty::{Faulty, Spy, StoreBug, Trouble};
use crate::memory::MemoryDisk;
use crate::random::Random;
use crate::schedule::Schedule;

/// The tenant of all accounts.
pub const TENANT: TenantNo = TenantNo(1);

/// A gateway that is called, and has ten seconds to answer.
pub const GATEWAY: GatewaySettings = GatewaySettings {
    settles_at_once: false,
    needs_merchant_account: false,
    attaches_methods: false,
    timeout_us: 10 * Timestamp::SECOND_US,
    action_timeout_us: None,
    settle_after_us: Timestamp::SECOND_US,
};

/// The workload of an aggregate's simulation, with its model and its checks.
pub trait Workload: Sized {
    /// A bug that can be planted.
    type Mutant: Copy + Debug + 'static;

    const NAME: &'static str;

    /// How many steps a run has.
    const STEPS: usize;

    /// The counts of a run. All of it happens often in 80 seeds.
    const COUNTS: &'static [&'static str];

    /// Every planted bug, with the check that finds it.
    const MUTANTS: &'static [(Self::Mutant, &'static str)];

    fn new(seed: u64, mutant: Option<Self::Mutant>) -> Self;

    /// Makes what the first step needs.
    ///
    /// # Errors
    /// The check that failed, as text; also those of the other functions.
    fn furnish(&mut self) -> Result<(), String>;

    /// Time passes, a client does something or something fails, and what is stored is compared with the model.
    ///
    /// # Errors
    /// As [`Self::furnish`].
    fn step(&mut self) -> Result<(), String>;

    /// Brings the run to its end, and checks everything.
    ///
    /// # Errors
    /// As [`Self::furnish`].
    fn finish(self) -> Result<Tally, String>;
}

/// Runs a seed.
///
/// # Errors
/// The check that failed, as text.
pub fn run<W: Workload>(seed: u64, mutant: Option<W::Mutant>) -> Result<Tally, String> {
    let mut workload = W::new(seed, mutant);
    workload.furnish()?;
    for _ in 0..W::STEPS {
        workload.step()?;
    }
    workload.finish()
}

/// How often things happened.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<&'static str, usize>);

impl Tally {
    /// Counts what happened so many times.
    pub fn add(&mut self, what: &'static str, times: usize) {
        *self.0.entry(what).or_default() += times;
    }

    /// Adds the counts of another run.
    pub fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| self.add(what, *times));
    }

    /// How often something happened.
    #[must_use]
    pub fn of(&self, what: &str) -> usize {
        self.0.get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.0.iter().map(|(what, it)| format!("{it} {what}")).collect();
        f.write_str(&counts.join(", "))
    }
}

/// The settings of a kernel.
pub struct Setup<B> {
    pub settings: Arc<Settings>,
    pub share: Share,
    /// Domain time at the beginning, in microseconds.
    pub begins_at: i64,
    /// Planted at the store of every process.
    pub bug: Option<B>,
}

/// The next work that is due.
pub enum Due<E> {
    Event(E),
    Timer(Timer),
}

/// The end of a command.
#[derive(Debug)]
pub struct Done {
    pub id: RequestId,
    /// The command's name.
    pub command: &'static str,
    pub verdict: Verdict,
    pub is_committed: bool,
    /// Whether the store has written it, also where nobody could say so.
    pub is_durable: bool,
    /// The effects to perform.
    pub effects: Vec<Effect>,
    /// The journal rows that the store was given.
    pub entries: Vec<Entry>,
}

impl Done {
    /// The same, where the command was committed.
    ///
    /// # Errors
    /// It was not.
    pub fn committed(self) -> Result<Self, String> {
        match self.is_committed {
            true => Ok(self),
            false => Err(format!("{} is committed: {:?}", self.command, self.verdict)),
        }
    }
}

/// A simulated process and its surroundings, with events `E`, bugs `B` at its store, and that store's data `D`.
pub struct Kernel<B, E, D: Disk = MemoryDisk> {
    pub random: Random,
    pub disk: D,
    /// Domain time, in microseconds.
    pub now: i64,
    /// How far domain time is ahead of real time, in microseconds.
    pub ahead: i64,
    pub events: Schedule<E>,
    /// The accounts that were made.
    pub accounts: Vec<AccountId>,
    pub tally: Tally,
    setup: Setup<B>,
    /// One for each partition, in their order.
    owners: Vec<Owner<D::Store, B>>,
    /// The number of the process.
    life: u64,
    minted: u64,
}

/// Who writes to a partition.
struct Owner<S, B> {
    share: Share,
    spy: Spy,
    /// `None` only while another one is opened in its place.
    partition: Option<Partition<Faulty<S, B>>>,
}

/// A partition that is there has an owner.
const OWNED: &str = "somebody owns the partition";

impl<B: StoreBug + Clone, E> Kernel<B, E> {
    /// A process that starts on an empty store in memory. `purpose` separates the random numbers of workloads.
    pub fn new(seed: u64, purpose: &str, setup: Setup<B>) -> Self {
        let shares = vec![setup.share];
        Self::on(MemoryDisk::new(None), shares, Random::new(seed, purpose), setup)
    }
}

impl<B: StoreBug + Clone, E, D: Disk> Kernel<B, E, D> {
    /// A process that starts on an empty store and owns these shares of it.
    pub fn on(disk: D, shares: Vec<Share>, random: Random, setup: Setup<B>) -> Self {
        let owner = |share| Owner { share, spy: Spy::default(), partition: None };
        let mut kernel = Self {
            random,
            now: setup.begins_at,
            ahead: 0,
            events: Schedule::default(),
            accounts: vec![],
            tally: Tally::default(),
            owners: shares.into_iter().map(owner).collect(),
            disk,
            setup,
            life: 0,
            minted: 0,
        };
        kernel.open_all();
        kernel
    }

    /// Counts something that happened.
    pub fn count(&mut self, what: &'static str) {
        self.tally.add(what, 1);
    }

    /// Any of the accounts.
    pub fn any_account(&mut self) -> AccountId {
        *self.random.pick(&self.accounts)
    }

    /// A number that was not drawn before.
    pub const fn mint(&mut self) -> u64 {
        self.minted += 1;
        self.minted
    }

    /// The number that was drawn last.
    pub const fn minted(&self) -> u64 {
        self.minted
    }

    /// The number of the process: what an earlier one waited for comes to nobody.
    pub const fn life(&self) -> u64 {
        self.life
    }

    /// Has a command carried out, and its batch committed.
    pub fn submit(&mut self, command: Command) -> Done {
        let (at, request) = self.request(command);
        self.process(at, request, Trouble::None)
    }

    /// The commit of a command fails, and the process dies.
    pub fn lose_commit(&mut self, command: Command) -> Done {
        self.submit_in(Trouble::CommitFails, command)
    }

    /// Something goes wrong with the batch of a command, and the process dies.
    pub fn submit_in(&mut self, trouble: Trouble, command: Command) -> Done {
        let (at, request) = self.request(command);
        let done = self.process(at, request, trouble);
        self.restart();
        done
    }

    /// Another process takes the partition of a command over. The one before still has the command carried out.
    pub fn take_over(&mut self, command: Command) -> Done {
        let (at, request) = self.request(command);
        let new = self.opened(at);
        let done = self.process(at, request, Trouble::None);
        self.owners[at].partition = Some(new);
        self.life += 1;
        done
    }

    /// The process dies, and another one starts.
    pub fn die(&mut self) {
        self.count("deaths");
        self.restart();
    }

    fn restart(&mut self) {
        // Whoever has all of a database leaves it before another one opens it.
        self.owners.iter_mut().for_each(|it| it.partition = None);
        self.open_all();
        self.life += 1;
    }

    fn open_all(&mut self) {
        for at in 0..self.owners.len() {
            self.owners[at].partition = Some(self.opened(at));
        }
    }

    /// An owner of a partition that starts on what is there.
    fn opened(&self, at: usize) -> Partition<Faulty<D::Store, B>> {
        let (Owner { share, spy, .. }, setup) = (&self.owners[at], &self.setup);
        let store = self.disk.connect(*share);
        let store = Faulty::new(store, spy.clone(), self.disk.cut(), setup.bug.clone());
        Partition::open(store, Arc::clone(&setup.settings)).expect("the data is always there")
    }

    /// A request, and the partition that carries it out.
    fn request(&mut self, command: Command) -> (usize, Request) {
        let id =
            RequestId(Uuid::from_u128((0x0192_0000_0000_7000 << 64) | u128::from(self.mint())));
        let at = self.place_of(id, &command);
        let actor = Actor::new("client", "client", id.0);
        (at, Request { id, tenant: TENANT, actor, idempotency: None, command })
    }

    fn place_of(&self, id: RequestId, command: &Command) -> usize {
        let count = u16::try_from(self.owners.len()).expect("they are few");
        let account = match command.subject(id) {
            _ if count == 1 => return 0,
            Subject::Account(id) => Some(id),
            Subject::Payment(id) => self.disk.payment(TENANT, id).map(|it| it.payment.account_id),
            Subject::System | Subject::PaymentMethod(_) => None,
        };
        let of_account = |id| PartitionNo::of(TENANT, id, count);
        let no = account.map_or(PartitionNo::FIRST, of_account);
        self.owners.iter().position(|it| it.share.partition == no).expect(OWNED)
    }

    fn process(&mut self, at: usize, request: Request, trouble: Trouble) -> Done {
        let (id, name) = (request.id, request.command.name());
        let (now, real_now) = (Timestamp(self.now), Timestamp(self.now - self.ahead));
        let Owner { spy, partition, .. } = &mut self.owners[at];
        spy.arm(trouble);
        let works = [Work::Request(Box::new(request))];
        let (times, partition) = (Times { now, real_now }, partition.as_mut().expect(OWNED));
        let processed = partition.process(&works, times, &mut |_, _| Ok(()));
        let is_committed = processed.is_committed();
        let mut verdicts = processed.verdicts;
        let seen = spy.take();
        Done {
            id,
            command: name,
            verdict: verdicts.pop().expect("one for each piece of work"),
            is_committed,
            is_durable: seen.durable,
            effects: processed.calls.into_iter().map(|it| it.effect).collect(),
            entries: seen.entries,
        }
    }

    /// The work that is due next until then, an event before a timer of the same time. Time passes to it, or to `until`.
    pub fn next(&mut self, until: i64) -> Option<Due<E>> {
        let timer = self.timers().into_iter().next();
        let timer = timer.filter(|it| it.due.0 <= until);
        let first = timer.as_ref().map_or(until, |it| it.due.0);
        if let Some((at, event)) = self.events.take(first) {
            self.now = self.now.max(at);
            return Some(Due::Event(event));
        }
        self.now = self.now.max(first);
        timer.map(Due::Timer)
    }

    /// All timers that are set, those that are due first at the front.
    pub fn timers(&self) -> Vec<Timer> {
        self.disk.timers_due(Timestamp(i64::MAX))
    }

    /// Whether nothing is scheduled, and no timer is set.
    pub fn is_idle(&self) -> bool {
        self.events.first().is_none() && self.timers().is_empty()
    }
}
