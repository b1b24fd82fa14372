//! A scripted payment gateway with a book of its own. It loses, delays, doubles, garbles and
//! reverses answers, but it keeps its contract: one transaction id, one charge.

use std::collections::{BTreeMap, BTreeSet};

use crate::ask::{Code, End, Heard, Kind, Known, Outcome, Uid};
use crate::random::Random;

const SECOND_US: i64 = 1_000_000;

/// A call that reaches for the gateway.
#[derive(Clone, Debug)]
pub struct Call {
    /// A running number of calls.
    pub no: u64,
    pub tenant: u32,
    pub payment: Uid,
    /// The transaction: the idempotency key.
    pub transaction: Uid,
    pub kind: Kind,
    pub amount: Option<i64>,
    pub currency: Code,
    /// Real time at which the caller stops waiting.
    pub deadline: i64,
    /// How long after that the gateway may take to find what it took, in microseconds.
    pub settle_after_us: i64,
    /// Whether the transaction has an attempt; the answer repeats it.
    pub is_controlled: bool,
    /// Whether it is to cancel what the gateway has.
    pub cancels: bool,
}

/// When a call and its answer arrive, the form of the answer, and the gateway's act.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    /// Real time of its arrival; `None`: it gets lost.
    pub arrives: Option<i64>,
    /// Real time of the answer's arrival; `None`: it gets lost.
    pub answers: Option<i64>,
    /// The form of the answer.
    pub form: Form,
    /// The gateway's act on the call.
    pub deed: Deed,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It reports what happened.
    Honest,
    /// It says that the gateway does not know.
    Undefined,
    /// It is an error of the gateway's.
    Broken,
    /// It is empty.
    Empty,
    /// It reports another amount.
    WrongAmount,
    /// It reports another currency.
    WrongCurrency,
    /// The request never left.
    NotSent,
}

/// A gateway's act on a call that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Process,
    /// Charges less than the requested amount.
    ProcessLess,
    Decline,
    /// Does not take the call.
    Cancel,
    /// The gateway decides later.
    Wait,
}

/// The status of a line in the gateway's book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// The gateway has not decided yet.
    Pending,
    /// The gateway processed it.
    Done,
    Declined,
    /// The gateway did not take it.
    Canceled,
}

/// A transaction in the gateway's book.
#[derive(Clone, Debug)]
pub struct Line {
    pub tenant: u32,
    pub payment: Uid,
    /// The kind of the first call.
    pub kind: Kind,
    /// How much was processed, or is to be.
    pub amount: Option<i64>,
    pub currency: Code,
    pub stand: Stand,
    /// Real time from which questions find it.
    pub found_from: i64,
    /// Calls that came with its id.
    pub calls: u32,
    /// How often it was charged, less how often that was taken back.
    pub charged: i32,
    /// Whether it does not repeat an amount that is what was asked for.
    pub terse: bool,
    /// Whether it is pending because the customer has to do something first.
    pub acts: bool,
}

/// Something that happens at the gateway later.
#[derive(Clone, Copy, Debug)]
pub enum Later {
    /// The status of a line changes from one to another, if it is still the first.
    Turn(Uid, Stand, Stand),
    /// The gateway sends a notification about a line.
    Notify(Uid),
}

/// The customers of a gateway that asks some of them to confirm what is charged.
#[derive(Debug)]
struct Customers {
    /// Apart from the rest, which goes as it would without them.
    random: Random,
    are_asked: bool,
}

#[derive(Debug)]
pub struct Gateway {
    random: Random,
    /// Apart from the rest, which goes as it would without messages that name another payment.
    misnaming: Random,
    customers: Customers,
    /// Its book, by transaction.
    pub book: BTreeMap<Uid, Line>,
    /// Notifications that the process has not accepted yet.
    pub unheard: BTreeSet<Uid>,
    /// Whether it behaves from now on: nothing gets lost any more.
    pub behaves: bool,
    /// Whether it breaks its contract and does not look at the ids of calls.
    pub forgets_ids: bool,
}

impl Gateway {
    /// A gateway with an empty book. Customers have to act in two of three worlds: that changes what else happens.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed, "gateway"),
            misnaming: Random::new(seed, "misnaming"),
            customers: Customers {
                random: Random::new(seed, "customers"),
                are_asked: !seed.is_multiple_of(3),
            },
            book: BTreeMap::new(),
            unheard: BTreeSet::new(),
            behaves: false,
            forgets_ids: false,
        }
    }

    /// Decides what will become of a call that leaves now.
    pub fn plan(&mut self, call: &Call, now: i64) -> Fate {
        let random = &mut self.random;
        let left = (call.deadline - now).max(2);
        let arrives = now + random.between(1, left / 2);
        let answers = arrives + random.between(1, left / 3);
        let deed = random.weighted(&[
            (70, Deed::Process),
            (4, Deed::ProcessLess),
            (11, Deed::Decline),
            (4, Deed::Cancel),
            (11, Deed::Wait),
        ]);
        let prompt =
            Fate { arrives: Some(arrives), answers: Some(answers), form: Form::Honest, deed };
        if self.behaves {
            return prompt;
        }
        // What takes longer than the deadline, by a little or beyond all that was agreed on.
        let late = call.deadline + random.between(1, call.settle_after_us);
        let very_late = call.deadline + call.settle_after_us + random.between(1, 60 * SECOND_US);
        match random.below(100) {
            0..=67 => prompt,
            68..=72 => Fate { arrives: None, answers: None, ..prompt },
            73..=79 => Fate { answers: None, ..prompt },
            80..=83 => Fate { answers: Some(late), ..prompt },
            84..=86 => Fate { form: Form::Undefined, ..prompt },
            87..=89 => Fate { form: Form::Broken, ..prompt },
            90..=92 => Fate { form: Form::Empty, ..prompt },
            93..=94 => Fate { form: Form::WrongAmount, ..prompt },
            95 => Fate { form: Form::WrongCurrency, ..prompt },
            96..=98 => Fate { arrives: None, form: Form::NotSent, ..prompt },
            _ => Fate { arrives: Some(very_late), answers: None, ..prompt },
        }
    }

    /// A call arrives: books it, unless its id is booked already. Gives what follows from it. What came
    /// late is reported, unless somebody still asks about it.
    pub fn arrive(
        &mut self,
        call: &Call,
        (deed, is_awaited): (Deed, bool),
        now: i64,
    ) -> Vec<(i64, Later)> {
        let random = &mut self.random;
        // The contract: what arrived before the deadline is found before "not found" is final.
        let found_by = (call.deadline + call.settle_after_us - now).max(1);
        let found_from = if self.behaves { now } else { now + random.between(0, found_by - 1) };
        let is_new = !self.book.contains_key(&call.transaction);
        let acts = is_new && !self.behaves && self.customers.must_act(call, deed);
        let line = self.book.entry(call.transaction).or_insert_with(|| Line {
            tenant: call.tenant,
            payment: call.payment,
            kind: call.kind,
            amount: call.amount,
            currency: call.currency,
            stand: Stand::Pending,
            found_from,
            calls: 0,
            charged: 0,
            terse: call.transaction.is_multiple_of(2),
            acts,
        });
        line.calls += 1;
        if self.forgets_ids && line.stand == Stand::Done {
            line.charged += 1;
        }
        if line.stand != Stand::Pending {
            return vec![];
        }
        line.amount = call.amount;
        // While the customer may act, nothing else ends it than that it is canceled.
        let deed = match (line.acts, call.cancels) {
            (_, true) => Deed::Cancel,
            (true, false) => Deed::Wait,
            (false, false) => deed,
        };
        match deed {
            Deed::Process => line.turn(Stand::Done),
            Deed::ProcessLess => {
                line.amount = line.amount.map(|amount| (amount / 2).max(1));
                line.turn(Stand::Done);
            }
            Deed::Decline => line.turn(Stand::Declined),
            Deed::Cancel => line.turn(Stand::Canceled),
            Deed::Wait => {}
        }
        let mut later = match (line.acts, is_new) {
            (true, true) => self.customers.acts_later(call.transaction, now),
            (true, false) => vec![],
            (false, _) => self.turns_later(call.transaction, now),
        };
        if !is_awaited || self.random.chance(80) {
            later.push((
                now + self.random.between(1, 30 * SECOND_US),
                Later::Notify(call.transaction),
            ));
        }
        later
    }

    /// The changes of a line after hours, with their real times: a pending line ends, a few ends are reversed.
    fn turns_later(&mut self, transaction: Uid, now: i64) -> Vec<(i64, Later)> {
        let random = &mut self.random;
        let stand = self.book[&transaction].stand;
        let (at, to) = (now + random.between(600, 90_000) * SECOND_US, random.below(100));
        let turned = match stand {
            Stand::Pending if to < 70 => Stand::Done,
            Stand::Pending => Stand::Declined,
            Stand::Done if to < 3 && !self.behaves => Stand::Declined,
            Stand::Declined | Stand::Canceled if to < 8 && !self.behaves => Stand::Done,
            // Somebody looks into it again: it is undecided, and ends another time.
            Stand::Declined | Stand::Canceled if to < 14 && !self.behaves => {
                let later = at + random.between(1, 90_000) * SECOND_US;
                let end = if random.chance(600) { Stand::Done } else { Stand::Declined };
                return vec![
                    (at, Later::Turn(transaction, stand, Stand::Pending)),
                    (at + random.between(1, 600) * SECOND_US, Later::Notify(transaction)),
                    (later, Later::Turn(transaction, Stand::Pending, end)),
                ];
            }
            Stand::Done | Stand::Declined | Stand::Canceled => return vec![],
        };
        let mut later = vec![(at, Later::Turn(transaction, stand, turned))];
        // An outcome that no one expects is reported; one that is awaited need not be.
        if stand != Stand::Pending || random.chance(500) {
            later.push((at + random.between(1, 600) * SECOND_US, Later::Notify(transaction)));
        }
        later
    }

    /// A line turns, unless something else has decided it meanwhile.
    pub fn turn(&mut self, transaction: Uid, from: Stand, to: Stand) {
        let line = self.book.get_mut(&transaction).expect("only booked lines turn");
        if line.stand == from {
            line.turn(to);
        }
    }

    /// Decides what is pending: somebody in the back office did.
    pub fn decide(&mut self, transaction: Uid, worked: bool) {
        if let Some(line) = self.book.get_mut(&transaction)
            && line.stand == Stand::Pending
        {
            line.turn(if worked { Stand::Done } else { Stand::Declined });
        }
    }

    /// A transaction of another payment, for a message that names the wrong payment; mostly `None`.
    pub fn misnamed(&mut self, transaction: Uid) -> Option<Uid> {
        if self.behaves || !self.misnaming.chance(100) {
            return None;
        }
        let payment = self.book[&transaction].payment;
        let others = self.book.iter().filter(|(_, line)| line.payment != payment);
        let others: Vec<Uid> = others.map(|(id, _)| *id).collect();
        (!others.is_empty()).then(|| *self.misnaming.pick(&others))
    }

    /// The answer to a call as it leaves the gateway.
    #[must_use]
    pub fn answer(&self, call: &Call, form: Form) -> Heard {
        let truth = self.book.get(&call.transaction).map(|line| line.outcome_of(call.amount));
        let nothing = Outcome { end: End::Undefined, amount: None, currency: None, acts: false };
        let truth = truth.unwrap_or(nothing);
        match form {
            Form::Honest => Heard::Said(truth),
            Form::Undefined => Heard::Said(nothing),
            Form::Broken => Heard::Broke,
            Form::Empty => Heard::Silence,
            Form::NotSent => Heard::NotSent,
            Form::WrongAmount => {
                let amount = call.amount.map_or(7, |amount| amount + 1);
                Heard::Said(Outcome { amount: Some(amount), ..truth })
            }
            Form::WrongCurrency => {
                let currency = if call.currency == "USD" { "JPY" } else { "USD" };
                Heard::Said(Outcome { currency: Some(currency), ..truth })
            }
        }
    }

    /// The answer to an inquiry; `called` is the amount of the last call, in minor units.
    pub fn inquire(&mut self, transaction: Uid, called: Option<i64>, now: i64) -> Known {
        if !self.behaves && self.random.chance(60) {
            return Known::Unreachable;
        }
        match self.book.get(&transaction) {
            Some(line) if now >= line.found_from => Known::Found(line.outcome_of(called)),
            Some(_) | None => Known::NotFound,
        }
    }

    /// How a line stands, whether it can be found already or not.
    #[must_use]
    pub fn stand(&self, transaction: Uid) -> Option<Stand> {
        self.book.get(&transaction).map(|line| line.stand)
    }
}

impl Customers {
    /// Whether a call that would charge waits for its customer first.
    fn must_act(&mut self, call: &Call, deed: Deed) -> bool {
        let charges = matches!(call.kind, Kind::Authorize | Kind::Purchase);
        let may_wait = matches!(deed, Deed::Process | Deed::Wait) && !call.cancels;
        self.are_asked && charges && may_wait && self.random.chance(200)
    }

    /// A customer's acts, with their real times: they fail, which leaves the transaction pending, and then succeed
    /// or do nothing any more.
    fn acts_later(&mut self, transaction: Uid, now: i64) -> Vec<(i64, Later)> {
        let mut later = vec![];
        let mut at = now;
        for _ in 0..self.random.below(3) {
            at += self.random.between(10, 3_600) * SECOND_US;
            later.push((at, Later::Notify(transaction)));
        }
        if self.random.chance(500) {
            at += self.random.between(10, 100_000) * SECOND_US;
            later.push((at, Later::Turn(transaction, Stand::Pending, Stand::Done)));
            later.push((at + self.random.between(1, 600) * SECOND_US, Later::Notify(transaction)));
        }
        later
    }
}

impl Line {
    fn turn(&mut self, to: Stand) {
        match (self.stand, to) {
            (Stand::Done, Stand::Done) => {}
            (_, Stand::Done) => self.charged += 1,
            (Stand::Done, _) => self.charged -= 1,
            (_, _) => {}
        }
        self.stand = to;
        self.acts = false;
    }

    /// The gateway's answer to a request for this amount, in minor units.
    #[must_use]
    pub fn outcome_of(&self, asked: Option<i64>) -> Outcome {
        let end = match self.stand {
            Stand::Pending => End::Pending,
            Stand::Done => End::Processed,
            Stand::Declined => End::Error,
            Stand::Canceled => End::Canceled,
        };
        let currency = self.amount.map(|_| self.currency);
        let amount = self.amount.filter(|_| !(self.terse && self.amount == asked));
        Outcome { end, amount, currency, acts: self.acts }
    }
}
