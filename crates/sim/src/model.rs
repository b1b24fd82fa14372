//! A second, naive telling of what ought to happen. It shares no code and no type with `domain`:
//! it scans lists and adds up plain numbers, and it is slow on purpose.

mod acting;
mod combo;
mod control;
mod disputing;
mod ending;
mod paying;
mod retrying;
mod routing;
mod signing;
mod sums;
mod way;

use std::collections::{BTreeMap, BTreeSet};

use crate::ask::signup::Wish;
use crate::ask::{
    Ask, Code, Combo, Created, Dropped, Kind, Reason, Repeat, Said, Status, Uid, What, When,
};

pub use control::{Aborted, Control, Most};
pub use disputing::Case;
pub use ending::Target;
pub use retrying::{Due, Retry, Timed};
use signing::Stamp;
pub use signing::{Customer, Operation, People};
pub use sums::Sums;
pub use way::Way;

/// The settings of a gateway in the model.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Nobody is called.
    pub at_once: bool,
    /// How long a call may take, in microseconds.
    pub timeout_us: i64,
    /// How long after that "not found" is final, in microseconds.
    pub settle_after_us: i64,
    /// How long a customer is waited for, in microseconds.
    pub action_timeout_us: Option<i64>,
}

/// The settings that the model and the code under test are given alike.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The gateways by name.
    pub gateways: BTreeMap<&'static str, Terms>,
    /// Delays before the questions about what is unknown, in microseconds.
    pub unknown_delays_us: Vec<i64>,
    /// Delays before the questions about what is pending, in microseconds.
    pub pending_delays_us: Vec<i64>,
    /// Transactions per payment.
    pub transactions_max: usize,
    /// How long stored replies are kept, in microseconds.
    pub reply_keep_us: i64,
    /// How long all tries of a routed payment may take, in microseconds.
    pub tries_us: i64,
    /// How much of that has to be left for one more.
    pub next_try_min_us: i64,
}

/// The gateway that settles within the commit.
pub const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";

/// The expected answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A refusal for one of these reasons.
    Refused(Vec<Reason>),
    Said(Said),
}

impl Expected {
    /// Whether this answer is right.
    #[must_use]
    pub fn admits(&self, said: &Said) -> bool {
        match (self, said) {
            (Self::Refused(reasons), Said::Refused(reason)) => reasons.contains(reason),
            (Self::Refused(_), _) => false,
            (Self::Said(expected), said) => expected == said,
        }
    }

    fn refused(reason: Reason) -> Self {
        Self::Refused(vec![reason])
    }
}

/// The expected state of the store.
#[derive(Clone, Debug)]
pub struct Model {
    pub rules: Rules,
    /// Tenants by number.
    pub tenants: BTreeMap<u32, Tenant>,
    /// Stored replies by idempotency key.
    pub replies: BTreeMap<Uid, Kept>,
    /// The gateways that take no calls in the batch.
    pub unready: Unready,
}

/// When a request is judged, and the stored reply that waits for it.
type Moment = (When, Option<Uid>);

/// Gateways that take no calls: those of the tenant, or with `None` all.
pub type Unready = BTreeSet<(Option<u32>, &'static str)>;

#[derive(Clone, Debug, Default)]
pub struct Tenant {
    pub api_key: String,
    pub values: BTreeMap<String, Option<String>>,
    pub accounts: BTreeMap<Uid, Account>,
    /// Payment methods by id, deleted ones too.
    pub methods: BTreeMap<Uid, Method>,
    pub payments: BTreeMap<Uid, Payment>,
    /// Which payment has a transaction key.
    pub key_owners: BTreeMap<String, Uid>,
    pub people: People,
    /// Disputes, by gateway and number.
    pub disputes: BTreeMap<(&'static str, u32), Case>,
    pub control: Control,
}

#[derive(Clone, Debug)]
pub struct Account {
    pub key: Option<String>,
    pub currency: Option<Code>,
    /// The default payment method.
    pub default: Option<Uid>,
    /// The person's name.
    pub name: Option<String>,
    /// When its person was forgotten last, in domain time.
    pub forgotten: Option<i64>,
    /// The states that services recorded, with their services, oldest first.
    pub states: Vec<(&'static str, &'static str)>,
}

impl Account {
    /// Whether nothing new begins on it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.newest_of("account-service") == Some("CLOSE_ACCOUNT")
    }

    fn newest_of(&self, service: &str) -> Option<&'static str> {
        self.states.iter().rev().find(|(own, _)| *own == service).map(|(_, state)| *state)
    }
}

#[derive(Clone, Debug)]
pub struct Method {
    pub account: Uid,
    pub key: Option<String>,
    pub gateway: &'static str,
    /// In domain time.
    pub made_at: i64,
    /// Whether it was not deleted.
    pub active: bool,
    /// Whether its person was forgotten: what gateways know them by is gone.
    pub is_bare: bool,
}

#[derive(Clone, Debug)]
pub struct Payment {
    pub account: Uid,
    pub key: Option<String>,
    pub method: Uid,
    pub gateway: &'static str,
    pub currency: Code,
    /// The kind and the status of the transaction that changed last.
    pub last: (Kind, Status),
    /// The kind of the successful transaction that a new one follows on; `None` where none succeeded.
    pub last_success: Option<Kind>,
    /// Its transactions in the order in which they came.
    pub moves: Vec<Move>,
    /// How many things were reported of its transactions.
    pub reports: u64,
    /// Whether something that had ended was reported to have ended otherwise.
    pub contradicted: bool,
    /// Whether that may have put sums wrong: more money for a payment never does.
    pub unbalanced: bool,
}

#[derive(Clone, Debug)]
pub struct Move {
    pub id: Uid,
    pub key: Option<String>,
    pub kind: Kind,
    pub status: Status,
    pub gateway: &'static str,
    /// Its payment method.
    pub method: Uid,
    /// The requested amount in minor units; none for a void.
    pub asked: Option<i64>,
    /// The amount of the last call, in minor units.
    pub called: Option<i64>,
    /// The amount of the call before that one, in minor units.
    pub called_before: Option<i64>,
    pub currency: Code,
    /// The processed amount in minor units.
    pub processed: i64,
    /// That it worked was the so many-th thing reported of its payment; zero where it did not.
    pub reported: u64,
    /// Whether the gateway has had it for some time.
    pub was_pending: bool,
    /// Whether it has an attempt.
    pub has_attempt: bool,
    /// The day that it counts in, where limits were checked for it.
    pub counted_on: Option<i64>,
    /// Whether the tenant had limits when it began.
    pub was_limited: bool,
    /// When it was begun, in domain time.
    pub begun: i64,
    /// Whether it is to be retried where it fails.
    pub asks_for_retries: bool,
    pub retry: Retry,
    /// Where it may go on after a decline.
    pub way: Way,
    /// Whether its status was just written.
    pub changed: bool,
    /// Whether that was the end of a failure: it worked, or may have.
    pub revived: bool,
    /// Whether that ever was so.
    pub was_revived: bool,
    /// Whether it had ended, and was just said to have ended otherwise.
    pub contradicted: bool,
    /// Real time of the question, or the notification, that changed it last.
    pub heard_at: Option<i64>,
    /// The outcome that is waited for, if any.
    pub open: Option<Open>,
    /// When its customer is given up, in domain time.
    pub given_up: Option<i64>,
}

/// An outcome that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Real time of the call's end.
    pub deadline: i64,
    /// Domain time of the next inquiry.
    pub ask_at: Option<i64>,
    /// How many inquiries were sent.
    pub asked: u32,
    /// The stored reply that waits.
    pub reply: Option<Uid>,
    /// Whether the customer has to do something first.
    pub acts: bool,
}

/// A stored reply.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The request's print.
    pub print: Uid,
    /// The reply; `None` while the request runs.
    pub said: Option<Said>,
    /// When it expires, in domain time.
    pub until: i64,
}

impl Model {
    /// An empty world.
    #[must_use]
    pub const fn new(rules: Rules) -> Self {
        Self { rules, tenants: BTreeMap::new(), replies: BTreeMap::new(), unready: BTreeSet::new() }
    }

    #[must_use]
    pub fn payment(&self, tenant: u32, id: Uid) -> Option<&Payment> {
        self.tenants.get(&tenant)?.payments.get(&id)
    }

    /// Says what the answer ought to be, and remembers what then is. `created` are the ids that
    /// the journal names for the request: the model cannot make them itself.
    pub fn judge(&mut self, ask: &Ask, when: When, created: Created) -> Expected {
        if let Some(repeat) = ask.repeat
            && let Some(said) = self.repeated(repeat, when)
        {
            return Expected::Said(said);
        }
        let reply = ask.repeat.map(|repeat| repeat.key);
        match &ask.what {
            What::NewTenant { api_key } => self.new_tenant(api_key, created),
            What::SetValue { key, value } => {
                self.tenant(ask.tenant).values.insert(key.clone(), value.clone());
                Expected::Said(Said::Done)
            }
            What::SetLimits { limits } => {
                self.tenant(ask.tenant).control.set(*limits);
                Expected::Said(Said::Done)
            }
            What::SetRouting(orders) => {
                self.tenant(ask.tenant).control.set_routing(*orders);
                Expected::Said(Said::Done)
            }
            What::NewAccount { key, currency } => {
                self.tenant(ask.tenant).new_account(key.as_ref(), *currency, created)
            }
            What::Rename { account, name } => self.tenant(ask.tenant).rename(*account, name),
            What::NewMethod { account, key, gateway, default } => {
                let tenant = self.tenant(ask.tenant);
                let made = (when.domain, created);
                tenant.new_method(*account, key.as_ref(), (gateway, *default), made)
            }
            What::SetDefault { account, method } => {
                self.tenant(ask.tenant).set_default(*account, *method)
            }
            What::DropMethod { method, if_default } => {
                self.tenant(ask.tenant).drop_method(*method, *if_default)
            }
            What::Close { account } => self.tenant(ask.tenant).close(*account),
            What::Record { account, service, state } => {
                self.tenant(ask.tenant).record(*account, (service, state))
            }
            What::Customers(wish) => {
                self.tenant(ask.tenant).wish(wish, Stamp::of(ask, when, created))
            }
            What::Start(it) => self.start((ask.tenant, it), (when, reply), created),
            What::Combo(it) => self.combo((ask.tenant, it), (when, reply), created),
            What::Retry(it) => self.retry((ask.tenant, it), (when, reply), created),
            What::Disputed(it) => self.disputed((ask.tenant, it), when, created),
            What::BookDispute(it) => self.book_dispute((ask.tenant, it), when, created),
            What::WarnOfDispute(it) => self.warn_of_dispute((ask.tenant, it), when),
            What::GiveUp(it) => self.give_up((ask.tenant, it), when),
            What::Follow(it) => self.follow((ask.tenant, it), (when, reply), created),
            What::Complete(it) => self.complete((ask.tenant, it), (when, reply)),
            What::Hearsay { payment, transaction, worked } => {
                self.hearsay(Target::of(ask, payment, transaction), *worked, when)
            }
            What::Fix { payment, transaction, status, has_reason } => {
                self.fix(Target::of(ask, payment, transaction), (*status, *has_reason), when)
            }
            What::Replied { payment, transaction, heard, is_controlled: _ } => {
                let target = Target::of(ask, payment, transaction);
                match self.goes_on_to(target, *heard, when) {
                    Some(gateway) => self.go_on((target, gateway), (when, created)),
                    None => self.replied(target, *heard, when),
                }
            }
            What::Inquired { payment, transaction, known, asked_at } => {
                self.inquired(Target::of(ask, payment, transaction), (*known, *asked_at), when)
            }
        }
    }

    /// Remembers what was said to a request that can come twice.
    pub fn keep(&mut self, ask: &Ask, said: &Said, when: When) {
        let Some(repeat) = ask.repeat else { return };
        let kept = match said {
            Said::Unavailable(_) | Said::StillRunning | Said::AnotherRequest => return,
            Said::Refused(Reason::InDoubt) => return,
            // It names the account's key, which erasure would not find in what is stored.
            Said::Refused(Reason::Taken)
                if matches!(ask.what, What::NewAccount { .. } | What::Combo(_)) =>
            {
                return;
            }
            Said::Refused(_) if self.looks_at_what_is_open(ask) => return,
            Said::Waits(_) => None,
            Said::Done
            | Said::Made(_)
            | Said::Paid { .. }
            | Said::Aborted
            | Said::Customer(_)
            | Said::Refused(_) => Some(said.clone()),
        };
        let until = when.domain.saturating_add(self.rules.reply_keep_us);
        let alive = |old: &Kept| old.said.is_none() || old.until > when.domain;
        if !self.replies.get(&repeat.key).is_some_and(alive) {
            self.replies.insert(repeat.key, Kept { print: repeat.print, said: kept, until });
        }
    }

    /// Whether a payment that the request is about has a transaction whose outcome is to come: what
    /// is refused then may be accepted later.
    fn looks_at_what_is_open(&self, ask: &Ask) -> bool {
        let Some(tenant) = self.tenants.get(&ask.tenant) else { return false };
        let owner = |key: &Option<String>| tenant.key_owners.get(key.as_ref()?).copied();
        // A request that names no key goes by an id; the payment of that id is then looked at.
        let by_id = |key: &Option<String>| {
            let id = uuid::Uuid::try_parse(key.as_ref()?).ok()?.as_u128();
            let mut payments = tenant.payments.iter();
            payments.find(|(_, it)| it.moves.iter().any(|it| it.id == id)).map(|(id, _)| *id)
        };
        let payments = match &ask.what {
            What::Start(it) | What::Combo(Combo { start: it, .. }) => {
                let by_key = it.payment_key.as_ref().and_then(|key| tenant.payment_of_key(key));
                // A key may be an id; the payment is then looked at, whatever its own key is.
                let meant = it.payment_key.as_ref().and_then(|key| uuid::Uuid::try_parse(key).ok());
                let meant = meant.map(|id| id.as_u128());
                vec![it.payment, by_key, meant, owner(&it.key), by_id(&it.key)]
            }
            What::Follow(it) => vec![Some(it.payment), owner(&it.key), by_id(&it.key)],
            What::Complete(it) => vec![Some(it.payment)],
            What::Hearsay { payment, .. }
            | What::Fix { payment, .. }
            | What::Replied { payment, .. }
            | What::Inquired { payment, .. } => vec![Some(*payment)],
            What::Retry(it) => vec![Some(it.payment)],
            What::Disputed(it) => vec![Some(it.payment)],
            What::BookDispute(it) | What::WarnOfDispute(it) => vec![Some(it.payment)],
            What::GiveUp(it) => vec![Some(it.payment)],
            What::Customers(Wish::Fields { payment, .. }) => vec![*payment],
            What::NewTenant { .. }
            | What::SetValue { .. }
            | What::SetLimits { .. }
            | What::SetRouting(_)
            | What::NewAccount { .. }
            | What::Rename { .. }
            | What::NewMethod { .. }
            | What::SetDefault { .. }
            | What::DropMethod { .. }
            | What::Close { .. }
            | What::Record { .. }
            | What::Customers(_) => vec![],
        };
        let found = payments.iter().flatten().filter_map(|id| tenant.payments.get(id));
        found.flat_map(|payment| &payment.moves).any(|it| it.status.is_open())
    }

    /// The stored answer to a request that came before.
    #[must_use]
    pub fn repeated(&self, repeat: Repeat, when: When) -> Option<Said> {
        let kept = self.replies.get(&repeat.key)?;
        if kept.said.is_some() && kept.until <= when.domain {
            return None;
        }
        if kept.print != repeat.print {
            return Some(Said::AnotherRequest);
        }
        Some(kept.said.clone().unwrap_or(Said::StillRunning))
    }

    fn new_tenant(&mut self, api_key: &str, created: Created) -> Expected {
        if self.tenants.values().any(|tenant| tenant.api_key == api_key) {
            return Expected::refused(Reason::Taken);
        }
        let no = created.tenant.unwrap_or_default();
        self.tenants.insert(no, Tenant { api_key: api_key.to_owned(), ..Tenant::default() });
        Expected::Said(Said::Done)
    }

    fn tenant(&mut self, no: u32) -> &mut Tenant {
        self.tenants.entry(no).or_default()
    }
}

impl Tenant {
    fn new_account(
        &mut self,
        key: Option<&String>,
        currency: Option<Code>,
        created: Created,
    ) -> Expected {
        if key.is_some() && self.accounts.values().any(|account| account.key.as_ref() == key) {
            return Expected::refused(Reason::Taken);
        }
        let id = created.account.unwrap_or_default();
        let account = Account {
            key: key.cloned(),
            currency,
            default: None,
            name: None,
            states: vec![],
            forgotten: None,
        };
        self.accounts.insert(id, account);
        Expected::Said(Said::Made(id))
    }

    fn rename(&mut self, account: Uid, name: &str) -> Expected {
        let Some(account) = self.accounts.get_mut(&account) else {
            return Expected::refused(Reason::NoAccount);
        };
        account.name = Some(name.to_owned());
        Expected::Said(Said::Done)
    }

    fn new_method(
        &mut self,
        account: Uid,
        key: Option<&String>,
        (gateway, default): (&'static str, bool),
        (made_at, created): (i64, Created),
    ) -> Expected {
        let Some(owner) = self.accounts.get_mut(&account) else {
            return Expected::refused(Reason::NoAccount);
        };
        let mut no = vec![];
        if owner.is_closed() {
            no.push(Reason::Closed);
        }
        let mut methods = self.methods.values();
        if gateway == EXTERNAL
            && methods.any(|it| it.account == account && it.active && it.gateway == EXTERNAL)
        {
            no.push(Reason::SecondExternal);
        }
        if key.is_some() && self.methods.values().any(|method| method.key.as_ref() == key) {
            no.push(Reason::Field("externalKey".to_owned()));
        }
        if !no.is_empty() {
            return Expected::Refused(no);
        }
        let id = created.method.unwrap_or_default();
        if default {
            owner.default = Some(id);
        }
        let key = key.cloned();
        self.methods
            .insert(id, Method { account, key, gateway, made_at, active: true, is_bare: false });
        Expected::Said(Said::Made(id))
    }

    /// A state that the service is in already is not recorded again.
    fn record(&mut self, account: Uid, new: (&'static str, &'static str)) -> Expected {
        let Some(account) = self.accounts.get_mut(&account) else {
            return Expected::refused(Reason::NoAccount);
        };
        if account.newest_of(new.0) != Some(new.1) {
            account.states.push(new);
        }
        Expected::Said(Said::Done)
    }

    fn set_default(&mut self, account: Uid, method: Uid) -> Expected {
        let Some(owner) = self.accounts.get_mut(&account) else {
            return Expected::refused(Reason::NoAccount);
        };
        let own = self.methods.get(&method).is_some_and(|it| it.active && it.account == account);
        if !own {
            return Expected::refused(Reason::NoMethod);
        }
        owner.default = Some(method);
        Expected::Said(Said::Done)
    }

    fn drop_method(&mut self, method: Uid, if_default: Dropped) -> Expected {
        let Some(found) = self.methods.get_mut(&method).filter(|it| it.active) else {
            return Expected::refused(Reason::NoMethod);
        };
        if matches!(if_default, Dropped::Suspending(account) if account != found.account) {
            return Expected::refused(Reason::NoMethod);
        }
        let owner = self.accounts.get_mut(&found.account).expect("its account is there");
        if owner.default == Some(method) {
            if if_default == Dropped::Not {
                return Expected::refused(Reason::DefaultInUse);
            }
            owner.default = None;
            if let Dropped::Suspending(account) = if_default {
                self.people.tags.insert((account, signing::NOT_PAID_FROM), true);
            }
        }
        found.active = false;
        Expected::Said(Said::Done)
    }
}
