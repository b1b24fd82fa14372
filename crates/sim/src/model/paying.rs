//! The requests that a payment admits, and their expected results.

use super::retrying::{Retry, is_retried};
use super::{Aborted, EXTERNAL, Expected, Method, Model, Moment, Move, Open, Payment, Tenant, Way};
use crate::ask::{
    Code, Completion, Created, Follow, How, Kind, RETIRED, Reason, Said, Start, Status, Uid, When,
    minor,
};

/// One transaction of a payment, and what is asked of its completion.
pub(super) struct Completing<'a> {
    pub(super) payment: Uid,
    pub(super) at: usize,
    pub(super) amount: Option<&'a str>,
    pub(super) currency: Option<Code>,
    pub(super) cancels: bool,
}

/// One transaction of a payment.
pub(super) struct MoveAt {
    pub(super) tenant: u32,
    pub(super) payment: Uid,
    /// Which of the payment's it is.
    pub(super) at: usize,
}

/// A first or a further try, as it is added to its payment.
struct Opening {
    payment: Uid,
    created: Created,
    when: When,
    method: Uid,
    currency: Code,
    asked: i64,
}

impl Model {
    pub(super) fn start(
        &mut self,
        (tenant_no, it): (u32, &Start),
        (when, reply): Moment,
        created: Created,
    ) -> Expected {
        let transactions_max = self.rules.transactions_max;
        let tenant = self.tenant(tenant_no);
        let Some(account) = tenant.accounts.get(&it.account) else {
            return Expected::refused(Reason::NoAccount);
        };
        let by_key = it.payment_key.as_ref().and_then(|key| tenant.payment_of_key(key));
        let target = it.payment.or(by_key);
        let mut no = tenant.key_is_used(it.account, it.key.as_deref(), target);
        if it.payment.is_some() && by_key.is_some() && by_key != it.payment {
            no.push(field("paymentExternalKey"));
        }
        if let Some(id) = target {
            let payment = tenant.payments.get(&id);
            let Some(payment) = payment.filter(|payment| payment.account == it.account) else {
                let others = payment.map(|_| Reason::OthersPayment);
                no.push(others.unwrap_or(Reason::NoPayment));
                return Expected::Refused(no);
            };
            let pending = payment.pending_of(it.key.as_deref()).filter(|_| no.is_empty());
            if let Some(at) = pending {
                if payment.moves[at].kind != it.kind {
                    return Expected::refused(field("transactionType"));
                }
                let completing = tenant.completing(it, (id, at), &payment.moves[at]);
                return self.complete_move(tenant_no, &completing, (when, reply));
            }
            no.extend(payment.cannot_start_again(transactions_max));
        }
        if account.is_closed() {
            no.push(Reason::Closed);
        }
        let method = it.method.or_else(|| tenant.chosen(it)).or(account.default);
        no.extend(tenant.method_is_wrong(it.account, method));
        let currency = it.currency.or(account.currency);
        if currency.is_none_or(|it| it == RETIRED) {
            no.push(field("currency"));
        }
        let own = target.and_then(|id| tenant.payments.get(&id)).map(|payment| payment.currency);
        if own.is_some_and(|own| Some(own) != currency) {
            no.push(field("currency"));
        }
        let minor = positive(it.amount.as_deref(), currency.unwrap_or_default());
        if minor.is_none() {
            no.push(field("amount"));
        }
        let paid = (method.unwrap_or_default(), currency.unwrap_or_default());
        let way = self.way(tenant_no, paid, when).unwrap_or_else(|reason| {
            no.push(reason);
            Way::default()
        });
        if !no.is_empty() {
            return Expected::Refused(no);
        }
        let tenant = self.tenant(tenant_no);
        let counted_on = tenant.day_to_count_in(it, when);
        let mut asked = minor.unwrap_or(0);
        if let Some(day) = counted_on {
            asked = tenant.lowered(it, (asked, paid.1), day);
            if tenant.passes_a_limit(it, (asked, paid.1), day) {
                tenant.control.aborted.push(Aborted { account: it.account, kind: it.kind, minor });
                return Expected::Said(Said::Aborted);
            }
        }
        let payment = target.or(created.payment).unwrap_or_default();
        let (method, currency) = paid;
        let at = tenant.open(it, Opening { payment, created, when, method, currency, asked });
        tenant.count(it.account, (payment, at), counted_on);
        tenant.set_out((payment, at), way);
        self.send(MoveAt { tenant: tenant_no, payment, at }, (when, reply))
    }

    pub(super) fn follow(
        &mut self,
        (tenant_no, it): (u32, &Follow),
        (when, reply): Moment,
        created: Created,
    ) -> Expected {
        let transactions_max = self.rules.transactions_max;
        let tenant = self.tenant(tenant_no);
        let Some(payment) = tenant.payments.get(&it.payment) else {
            return Expected::refused(Reason::NoPayment);
        };
        let mut no = vec![];
        if payment.moves.len() >= transactions_max {
            no.push(field("paymentId"));
        }
        let asked = if it.kind == Kind::Reversal {
            no.extend(payment.cannot_reverse(it.key.as_deref()));
            it.key.as_deref().map(|key| payment.left_to_reverse(key))
        } else {
            let key = it.key.as_deref();
            no.extend(tenant.key_is_used(payment.account, key, Some(it.payment)));
            let pending = payment.pending_of(key);
            if let Some(at) = pending {
                if payment.moves[at].kind != it.kind {
                    no.extend([field("transactionType"), Reason::InDoubt, Reason::Transition]);
                } else if no.is_empty() {
                    let completing = Completing {
                        payment: it.payment,
                        at,
                        amount: it.amount.as_deref(),
                        currency: it.currency,
                        cancels: false,
                    };
                    return self.complete_move(tenant_no, &completing, (when, reply));
                }
            }
            let account = &tenant.accounts[&payment.account];
            no.extend(payment.cannot_follow(it, account.currency));
            positive(it.amount.as_deref(), payment.currency).filter(|_| it.kind != Kind::Void)
        };
        if !no.is_empty() {
            return Expected::Refused(no);
        }
        let origin = if it.kind == Kind::Reversal {
            let key = it.key.as_deref().unwrap_or_default();
            payment.last_of(|it| it.kind == Kind::Chargeback && it.is_named(key))
        } else {
            payment.origin_for(it.kind, asked)
        };
        let origin = &payment.moves[origin.expect("it would be refused without one")];
        let (gateway, method) = (origin.gateway, origin.method);
        let payment = tenant.payments.get_mut(&it.payment).expect("it was found above");
        if let Some(key) = &it.key {
            tenant.key_owners.insert(key.clone(), it.payment);
        }
        let begun =
            Move::begun((it.kind, it.key.clone()), (gateway, method), asked, payment.currency);
        let id = created.transaction.unwrap_or_default();
        let has_attempt = it.is_controlled;
        let way = Way { first: id, ..Way::default() };
        payment.moves.push(Move { id, begun: when.domain, has_attempt, way, ..begun });
        let at = payment.moves.len() - 1;
        self.send(MoveAt { tenant: tenant_no, payment: it.payment, at }, (when, reply))
    }

    pub(super) fn complete(
        &mut self,
        (tenant_no, it): (u32, &Completion),
        moment: Moment,
    ) -> Expected {
        let Some(payment) = self.payment(tenant_no, it.payment) else {
            return Expected::refused(Reason::NoPayment);
        };
        let fits = |it: &Move| matches!(it.status, Status::Pending | Status::Success);
        let moves = payment.moves.iter();
        let (at, name) = if let Some(id) = it.transaction {
            let at = moves.clone().position(|found| found.id == id && fits(found));
            (at, "transactionId")
        } else if let Some(key) = &it.key {
            let at = moves.clone().rposition(|found| found.is_named(key) && fits(found));
            (at, "transactionExternalKey")
        } else {
            let pending = moves.clone().position(|found| found.status == Status::Pending);
            let last = payment.moves.len() - 1;
            let last = fits(&payment.moves[last]).then_some(last);
            (pending.or(last), "paymentId")
        };
        let of_kind = |at: &usize| it.kind.is_none_or(|kind| payment.moves[*at].kind == kind);
        let Some(at) = at.filter(of_kind) else {
            return Expected::refused(field(name));
        };
        let completing = Completing {
            payment: it.payment,
            at,
            amount: it.amount.as_deref(),
            currency: None,
            cancels: it.cancels,
        };
        self.complete_move(tenant_no, &completing, moment)
    }

    pub(super) fn complete_move(
        &mut self,
        tenant_no: u32,
        it: &Completing<'_>,
        moment: Moment,
    ) -> Expected {
        let tenant = self.tenant(tenant_no);
        let payment = tenant.payments.get_mut(&it.payment).expect("the caller found it");
        let in_doubt = payment.is_in_doubt();
        let undone = payment.undone_since(it.at, it.amount);
        let found = &mut payment.moves[it.at];
        // What became needless may still be confirmed by its customer, unless it is canceled.
        let undone = undone.filter(|_| !(it.cancels && found.awaits_customer()));
        if found.status == Status::Success {
            return Expected::Said(Said::Done);
        }
        let mut no = vec![];
        if in_doubt {
            no.push(Reason::InDoubt);
        }
        no.extend(undone);
        let has_currency = found.asked.is_some();
        if has_currency && it.currency.is_some_and(|currency| currency != found.currency) {
            no.push(field("currency"));
        }
        let minor = positive(it.amount, found.currency);
        let too_much = minor.zip(found.asked).is_some_and(|(minor, asked)| minor > asked);
        if has_currency && it.amount.is_some() && (minor.is_none() || too_much) {
            no.push(field("amount"));
        }
        if !no.is_empty() {
            return Expected::Refused(no);
        }
        // A void has no amount, whatever its completion says.
        found.called_before = found.called;
        found.called = minor.filter(|_| has_currency).or(found.asked);
        // What was pending goes on to no other gateway.
        found.way.until = None;
        self.send(MoveAt { tenant: tenant_no, payment: it.payment, at: it.at }, moment)
    }

    /// Hands a transaction to its gateway, or settles it where nobody is to be called.
    pub(super) fn send(
        &mut self,
        MoveAt { tenant, payment: id, at }: MoveAt,
        (when, reply): Moment,
    ) -> Expected {
        let rules = self.rules.clone();
        let payment = self.tenant(tenant).payments.get_mut(&id).expect("the caller found it");
        let it = &mut payment.moves[at];
        let terms = rules.gateways[it.gateway];
        let bank = matches!(it.kind, Kind::Chargeback | Kind::Reversal);
        if terms.at_once || bank {
            let transaction = it.id;
            let processed = it.called.unwrap_or(0);
            payment.settle(at, Status::Success, processed);
            let how = How::Is(Status::Success);
            let paid = Said::Paid { payment: id, transaction, how };
            return Expected::Said(paid);
        }
        it.status = Status::Running;
        let left = it.way.until.map_or(terms.timeout_us, |until| until - when.real);
        let deadline = when.real + terms.timeout_us.min(left);
        // A completion does not take back what the customer has to do.
        let acts = it.open.is_some_and(|open| open.acts);
        it.open = Some(Open { deadline, ask_at: None, asked: 0, reply, acts });
        payment.last = (it.kind, Status::Running);
        Expected::Said(Said::Waits(payment.moves[at].id))
    }
}

impl Tenant {
    /// The completion that a start requests of the pending transaction that its key names.
    fn completing<'a>(
        &self,
        it: &'a Start,
        (payment, at): (Uid, usize),
        pending: &Move,
    ) -> Completing<'a> {
        let asked = positive(it.amount.as_deref(), pending.currency);
        let is_more = asked > pending.asked && self.is_lowered(it);
        let amount = it.amount.as_deref().filter(|_| !is_more);
        Completing { payment, at, amount, currency: it.currency, cancels: false }
    }

    /// Adds a first or a further try to a payment; gives its place.
    fn open(
        &mut self,
        it: &Start,
        Opening { payment, created, when, method, currency, asked }: Opening,
    ) -> usize {
        let gateway = self.methods[&method].gateway;
        let opened = self.payments.entry(payment).or_insert_with(|| Payment {
            account: it.account,
            key: it.payment_key.clone(),
            method,
            gateway,
            currency,
            last: (it.kind, Status::Running),
            last_success: None,
            moves: vec![],
            reports: 0,
            contradicted: false,
            unbalanced: false,
        });
        (opened.method, opened.gateway, opened.currency) = (method, gateway, currency);
        if let Some(key) = &it.key {
            self.key_owners.insert(key.clone(), payment);
        }
        let begun =
            Move::begun((it.kind, it.key.clone()), (gateway, method), Some(asked), currency);
        opened.moves.push(Move {
            id: created.transaction.unwrap_or_default(),
            begun: when.domain,
            asks_for_retries: it.asks_for_retries && is_retried(it.kind),
            ..begun
        });
        opened.moves.len() - 1
    }

    pub(super) fn payment_of_key(&self, key: &str) -> Option<Uid> {
        let named = |(id, payment): &(&Uid, &Payment)| match &payment.key {
            Some(own) => own == key,
            None => uuid::Uuid::from_u128(**id).to_string() == key,
        };
        self.payments.iter().find(named).map(|(id, _)| *id)
    }

    /// Why a transaction key cannot be used for one more transaction, if it cannot.
    pub(super) fn key_is_used(
        &self,
        account: Uid,
        key: Option<&str>,
        target: Option<Uid>,
    ) -> Vec<Reason> {
        let mut no = vec![];
        let Some(key) = key else { return no };
        for (id, payment) in &self.payments {
            for it in &payment.moves {
                if !it.is_named(key) {
                    continue;
                }
                if payment.account != account {
                    no.push(Reason::OthersTransaction);
                }
                match it.status {
                    Status::Success => no.push(Reason::KeySucceeded),
                    Status::Running | Status::Unknown => no.push(Reason::InDoubt),
                    Status::Pending if Some(*id) != target => no.extend([
                        Reason::InDoubt,
                        Reason::Transition,
                        field("transactionExternalKey"),
                    ]),
                    // Its key may have been used since it failed for the first time.
                    Status::Pending | Status::Declined | Status::Failed if it.was_revived => {
                        no.push(field("transactionExternalKey"));
                    }
                    Status::Pending | Status::Declined | Status::Failed => {}
                }
            }
        }
        no
    }

    pub(super) fn method_is_wrong(&self, account: Uid, method: Option<Uid>) -> Option<Reason> {
        let Some(id) = method else { return Some(field("paymentMethodId")) };
        let own = |it: &&Method| it.active && it.account == account;
        self.methods.get(&id).filter(own).is_none().then_some(Reason::NoMethod)
    }
}

impl Move {
    /// A transaction that is about to be sent.
    pub(super) fn begun(
        (kind, key): (Kind, Option<String>),
        (gateway, method): (&'static str, Uid),
        asked: Option<i64>,
        currency: Code,
    ) -> Self {
        Self {
            id: 0,
            key,
            kind,
            status: Status::Running,
            gateway,
            method,
            asked,
            called: asked,
            called_before: asked,
            currency,
            processed: 0,
            reported: 0,
            was_pending: false,
            changed: false,
            revived: false,
            was_revived: false,
            contradicted: false,
            heard_at: None,
            has_attempt: false,
            counted_on: None,
            was_limited: false,
            begun: 0,
            asks_for_retries: false,
            retry: Retry::None,
            way: Way::default(),
            open: None,
            given_up: None,
        }
    }
}

impl Payment {
    pub(super) fn is_in_doubt(&self) -> bool {
        self.moves.iter().any(|it| it.status.is_doubtful())
    }

    fn pending_of(&self, key: Option<&str>) -> Option<usize> {
        let key = key?;
        self.moves.iter().position(|it| it.status == Status::Pending && it.is_named(key))
    }

    fn cannot_start_again(&self, transactions_max: usize) -> Vec<Reason> {
        let mut no = vec![];
        if self.is_in_doubt() {
            no.push(Reason::InDoubt);
        }
        let pending = self.moves.iter().any(|it| it.status == Status::Pending);
        if self.last_success.is_some() || pending {
            no.push(Reason::Transition);
        }
        if self.moves.len() >= transactions_max {
            no.push(field("paymentId"));
        }
        no
    }

    fn cannot_follow(&self, it: &Follow, account_currency: Option<Code>) -> Vec<Reason> {
        let mut no = vec![];
        if it.kind != Kind::Chargeback && self.is_in_doubt() {
            no.push(Reason::InDoubt);
        }
        if self.origins(it.kind).is_empty() {
            no.push(Reason::Transition);
        }
        if it.kind == Kind::Void {
            return no;
        }
        if it.currency.or(account_currency).unwrap_or(self.currency) != self.currency {
            no.push(field("currency"));
        }
        let minor = positive(it.amount.as_deref(), self.currency);
        if minor.is_none() || self.origin_for(it.kind, minor).is_none() {
            no.push(field("amount"));
        }
        no
    }

    fn cannot_reverse(&self, key: Option<&str>) -> Vec<Reason> {
        let Some(key) = key else { return vec![field("transactionExternalKey")] };
        let mut no = vec![];
        if self.total_named(key, Kind::Chargeback) == 0 {
            no.push(Reason::NoSuccess);
        }
        if self.left_to_reverse(key) <= 0 {
            no.push(Reason::Transition);
        }
        no
    }

    pub(super) fn left_to_reverse(&self, key: &str) -> i64 {
        self.total_named(key, Kind::Chargeback) - self.total_named(key, Kind::Reversal)
    }

    fn total_named(&self, key: &str, kind: Kind) -> i64 {
        let worked = self.moves.iter().filter(|it| it.status == Status::Success);
        let named = worked.filter(|it| it.kind == kind && it.is_named(key));
        named.map(|it| it.asked.unwrap_or(0)).sum()
    }

    /// The places in `moves` of the transactions that a new one of kind `next` may follow on, latest
    /// first: for each gateway and method where one succeeded, the last that did. Captures are for one
    /// order: they have one gateway and method.
    fn origins(&self, next: Kind) -> Vec<usize> {
        let mut seen: Vec<(&str, Uid)> = vec![];
        let mut found = vec![];
        for (at, it) in self.moves.iter().enumerate().rev() {
            let place = (it.gateway, it.method);
            if it.status == Status::Success && !seen.contains(&place) {
                seen.push(place);
                found.push(at);
            }
        }
        if next == Kind::Capture {
            // Not from another try's money, once some of this one's was taken or may have been.
            let taken = |at: &usize| self.beside(*at).used(Kind::Capture) > 0;
            if found.iter().any(taken) {
                found.retain(taken);
            }
        }
        found.retain(|at| {
            let part = self.beside(*at);
            // A void and anything else cannot both be true of the same money.
            let awaits =
                |kind| part.moves.iter().any(|it| it.kind == kind && it.status == Status::Pending);
            let excluded = awaits(Kind::Void) || (next == Kind::Void && awaits(Kind::Capture));
            !excluded && part.leads().is_some_and(|kind| may_follow(kind, next))
        });
        if next == Kind::Capture {
            found.truncate(1);
        }
        found
    }

    /// The first of them where so much is left; a void needs nothing.
    fn origin_for(&self, next: Kind, amount: Option<i64>) -> Option<usize> {
        let enough = |at: &usize| {
            next == Kind::Void || amount.is_none_or(|amount| amount <= self.left_beside(*at, next))
        };
        self.origins(next).into_iter().find(enough)
    }

    /// The kind of transaction that a new one has to follow on: of the successful ones, the kind of the one
    /// that was reported last. Where money was taken or given back, reservations and their ends do not
    /// count, whenever they were reported; a credit counts where there is nothing else.
    pub(super) fn leads(&self) -> Option<Kind> {
        let about_taken_money =
            [Kind::Purchase, Kind::Capture, Kind::Refund, Kind::Chargeback, Kind::Reversal];
        let kinds: [&[Kind]; 3] =
            [&about_taken_money, &[Kind::Authorize, Kind::Void], &[Kind::Credit]];
        kinds.into_iter().find_map(|kinds| {
            let worked = self.moves.iter().filter(|it| it.status == Status::Success);
            let last = worked.filter(|it| kinds.contains(&it.kind)).max_by_key(|it| it.reported);
            last.map(|it| it.kind)
        })
    }

    /// How much of a kind may still be taken where a transaction went.
    fn left_beside(&self, at: usize, kind: Kind) -> i64 {
        let part = self.beside(at);
        if kind != Kind::Capture {
            return part.left_to_return();
        }
        let is_void = |it: &Move| it.kind == Kind::Void && it.status == Status::Success;
        if part.moves.iter().any(is_void) {
            return 0;
        }
        // Two reservations are for one order. So whatever is captured of the payment counts.
        let reserved = part.moves.iter().filter(|it| it.kind == Kind::Authorize);
        let worked = reserved.filter(|it| it.status == Status::Success).map(|it| it.processed);
        worked.max().unwrap_or(0) - self.used(Kind::Capture)
    }

    /// Why what is pending is not to be sent again, whatever becomes of what was sent: what has
    /// worked meanwhile made it needless.
    fn undone_since(&self, at: usize, amount: Option<&str>) -> Option<Reason> {
        let it = &self.moves[at];
        let amount = positive(amount, it.currency).or(it.asked).unwrap_or(0);
        let mut without = self.clone();
        without.moves[at].status = Status::Declined;
        match it.kind {
            Kind::Authorize | Kind::Purchase | Kind::Credit => {
                without.leads().map(|_| Reason::Transition)
            }
            Kind::Void => {
                let lead = without.beside(at).leads();
                let holds = lead.is_some_and(|kind| may_follow(kind, Kind::Void));
                (!holds).then_some(Reason::Transition)
            }
            Kind::Capture | Kind::Refund | Kind::Chargeback | Kind::Reversal => {
                let left = without.left_beside(at, it.kind);
                (amount > left).then(|| field("amount"))
            }
        }
    }

    /// The payment with nothing but what went the way of one transaction.
    pub(super) fn beside(&self, at: usize) -> Self {
        let way = (self.moves[at].gateway, self.moves[at].method);
        let mut part = self.clone();
        part.moves.retain(|it| (it.gateway, it.method) == way);
        part
    }

    /// The last transaction of which this is true and that worked.
    pub(super) fn last_of(&self, is: impl Fn(&Move) -> bool) -> Option<usize> {
        self.moves.iter().rposition(|it| it.status == Status::Success && is(it))
    }
}

/// The links between operations.
fn may_follow(last: Kind, next: Kind) -> bool {
    let links: &[(Kind, &[Kind])] = &[
        (Kind::Authorize, &[Kind::Capture, Kind::Void]),
        (Kind::Capture, &[Kind::Capture, Kind::Refund, Kind::Chargeback]),
        (Kind::Purchase, &[Kind::Refund, Kind::Chargeback]),
        (Kind::Refund, &[Kind::Refund, Kind::Chargeback]),
        (Kind::Chargeback, &[Kind::Chargeback]),
        (Kind::Reversal, &[Kind::Refund, Kind::Chargeback]),
    ];
    links.iter().any(|(from, to)| *from == last && to.contains(&next))
}

impl Move {
    /// Whether the client's name for it is this; what has no name goes by its id.
    pub(super) fn is_named(&self, key: &str) -> bool {
        match &self.key {
            Some(own) => own == key,
            None => uuid::Uuid::from_u128(self.id).to_string() == key,
        }
    }

    /// Whether a payment starts with it.
    #[must_use]
    pub const fn starts(&self) -> bool {
        matches!(self.kind, Kind::Authorize | Kind::Purchase | Kind::Credit)
    }

    /// Whether a gateway is called for it.
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.gateway != EXTERNAL && !matches!(self.kind, Kind::Chargeback | Kind::Reversal)
    }
}

fn positive(amount: Option<&str>, currency: Code) -> Option<i64> {
    minor(amount?, currency).filter(|minor| *minor > 0)
}

pub(super) fn field(name: &str) -> Reason {
    Reason::Field(name.to_owned())
}
