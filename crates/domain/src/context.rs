//! The context of a command: the time, the caller and the settings, besides the state. It also collects the command's
//! changes, events and effects.

use std::collections::BTreeMap;

use crate::change::{Change, ClaimChange, Image, SettledReply};
use crate::claim::{Claim, ClaimKey};
use crate::payment::health::Health;
use crate::payment::{Actor, ReplyKey};
use crate::{AccountId, Effect, Event, Id, Reply, RequestId, Seq, TenantNo, Timestamp};

/// How the domain is set up; the same for every command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The gateways there are, by name.
    pub gateways: BTreeMap<String, GatewaySettings>,
    /// When to inquire about an unknown transaction: the delay before each inquiry.
    pub unknown_delays_us: Vec<i64>,
    /// When to inquire about a pending transaction: the delay before each inquiry.
    pub pending_delays_us: Vec<i64>,
    /// How long a stored reply is kept, in microseconds of domain time.
    pub reply_keep_us: i64,
    /// How many transactions a payment may have.
    pub transactions_per_payment_max: usize,
    pub routing: RoutingSettings,
}

/// How long the tries of a routed payment may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingSettings {
    /// From its first commit on, in microseconds of real time: all tries have to end within.
    pub deadline_us: i64,
    /// How much of that has to be left for one more try, in microseconds.
    pub next_try_min_us: i64,
}

impl RoutingSettings {
    pub const DEFAULT: Self =
        Self { deadline_us: 30 * Timestamp::SECOND_US, next_try_min_us: 5 * Timestamp::SECOND_US };
}

impl Settings {
    /// The settings of a core that calls no gateway.
    #[must_use]
    pub const fn without_gateways(reply_keep_us: i64, transactions_per_payment_max: usize) -> Self {
        Self {
            gateways: BTreeMap::new(),
            unknown_delays_us: vec![],
            pending_delays_us: vec![],
            reply_keep_us,
            transactions_per_payment_max,
            routing: RoutingSettings::DEFAULT,
        }
    }

    /// A gateway's settings, where there is such a gateway.
    #[must_use]
    pub fn gateway(&self, name: &str) -> Option<&GatewaySettings> {
        self.gateways.get(name)
    }

    /// The longest time between two inquiries about a transaction, in microseconds of domain time.
    #[must_use]
    pub fn longest_delay_us(&self) -> i64 {
        let delays = self.unknown_delays_us.iter().chain(&self.pending_delays_us);
        delays.copied().max().unwrap_or(0)
    }
}

/// The settings of a gateway that the domain needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Settles within the commit; no gateway is called.
    pub settles_at_once: bool,
    /// Whether it is called for a tenant's account there ([`PaymentRules::merchant_accounts`]) and for no other.
    ///
    /// [`PaymentRules::merchant_accounts`]: crate::tenant::payment_rules::PaymentRules::merchant_accounts
    pub needs_merchant_account: bool,
    /// Whether a new payment method is attached there before it is active, and a deleted one detached.
    pub attaches_methods: bool,
    /// How long a call may take, in microseconds of real time.
    pub timeout_us: i64,
    /// How long a customer is waited for who has something to do, in microseconds of domain time; then the
    /// transaction is given up. `None`: for ever, or the gateway asks no customer.
    pub action_timeout_us: Option<i64>,
    /// How long after a call's deadline "not found" becomes final, in microseconds of real time.
    pub settle_after_us: i64,
}

impl GatewaySettings {
    /// Of external payments, which were made elsewhere: they settle in their commit, and nothing is called.
    pub const EXTERNAL: Self = Self {
        settles_at_once: true,
        needs_merchant_account: false,
        attaches_methods: false,
        timeout_us: 0,
        action_timeout_us: None,
        settle_after_us: 0,
    };
}

/// Numbers that a partition hands out. Payment numbers begin after [`crate::PartitionNo::start`], so
/// that no two partitions hand out one; tenants' numbers come from the first partition alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// The next payment number.
    pub payment_number: i64,
    /// The next tenant's number.
    pub tenant_no: u32,
}

/// One command's surroundings and what it did so far.
pub struct Context<'a> {
    /// The tenant that the request named.
    pub tenant: TenantNo,
    pub actor: &'a Actor,
    /// The stored reply that waits for this command, if its request can come twice.
    pub reply_key: Option<ReplyKey>,
    /// Domain time, stamped once per batch.
    pub now: Timestamp,
    /// Real time, for deadlines.
    pub real_now: Timestamp,
    /// The journal row this command will have, if it is accepted.
    pub seq: Seq,
    pub settings: &'a Settings,
    /// Which gateways take no calls, stamped once per batch.
    pub health: &'a Health,
    sequences: Sequences,
    request: RequestId,
    minted: u32,
    pub(crate) done: Done,
}

/// The changes, events and effects of a command: all of them are committed, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows written, in order.
    pub changes: Vec<Change>,
    /// Facts for the followers of the journal.
    pub events: Vec<Event>,
    /// Gateway calls to perform after the commit.
    pub effects: Vec<Effect>,
}

/// The inputs of `Context::new` besides the request.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// Domain time, the same for the whole batch.
    pub now: Timestamp,
    /// Real time, for deadlines.
    pub real_now: Timestamp,
    /// The journal row that the command will have, if it is accepted.
    pub seq: Seq,
    pub settings: &'a Settings,
    /// Which gateways take no calls.
    pub health: &'a Health,
    /// The numbers to hand out next.
    pub sequences: Sequences,
}

impl<'a> Context<'a> {
    pub(crate) fn new(request: &'a crate::Request, stamp: Stamp<'a>) -> Self {
        Self {
            tenant: request.tenant,
            actor: &request.actor,
            reply_key: request.idempotency.as_ref().map(|it| it.key),
            now: stamp.now,
            real_now: stamp.real_now,
            seq: stamp.seq,
            settings: stamp.settings,
            health: stamp.health,
            sequences: stamp.sequences,
            request: request.id,
            minted: 0,
            done: Done::default(),
        }
    }

    /// The surroundings of what is tried aside: nothing of it is committed.
    pub(crate) fn aside(&self) -> Context<'a> {
        Self { done: Done::default(), ..*self }
    }

    /// The id of the next thing that this request creates.
    pub(crate) fn mint<K>(&mut self) -> Id<K> {
        let id = self.request.entity(self.minted);
        self.minted = self.minted.checked_add(1).expect("a command creates fewer things");
        id
    }

    /// Whether an answer to a question of `asked_at`, in real time, is older than what was heard by one of
    /// `heard_at`. A time that is still to come is that of a clock that has been set back since, and says nothing.
    pub(crate) fn is_outdated(&self, asked_at: Timestamp, heard_at: Timestamp) -> bool {
        asked_at < heard_at && heard_at <= self.real_now
    }

    /// The earliest time that the clock may be set back to, in domain time: what has ended by then is over for good.
    pub(crate) fn earliest(&self) -> Timestamp {
        self.now.min(self.real_now)
    }

    pub(crate) fn next_payment_number(&mut self) -> i64 {
        let number = self.sequences.payment_number;
        self.sequences.payment_number += 1;
        number
    }

    pub(crate) fn next_tenant_no(&mut self) -> TenantNo {
        let no = TenantNo(self.sequences.tenant_no);
        self.sequences.tenant_no += 1;
        no
    }

    pub(crate) fn change(&mut self, change: impl Into<Change>) {
        self.done.changes.push(change.into());
    }

    pub(crate) fn claim(&mut self, key: ClaimKey, owner: uuid::Uuid, account: Option<AccountId>) {
        self.change(ClaimChange::Taken { key, claim: Claim { owner, account } });
    }

    /// The images of a kind that the command has written, the oldest first.
    pub(crate) fn written<T: Image>(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.done.changes.iter().filter_map(T::of)
    }

    /// The newest image of an entity that the command has written.
    pub(crate) fn newest<T: Image>(&self, key: &T::Key) -> Option<&T> {
        self.written::<T>().rfind(|it| it.key() == *key)
    }

    /// Settles the reply to an earlier request, which is kept for the whole retention from now on.
    pub(crate) fn settle_reply(&mut self, key: ReplyKey, reply: Reply) {
        let expires_at = self.now.plus_us(self.settings.reply_keep_us);
        self.change(SettledReply { key, reply, expires_at });
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.done.events.push(event);
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.done.effects.push(effect);
    }

    pub(crate) const fn sequences(&self) -> Sequences {
        self.sequences
    }
}
