//! Customers: who has which address, what they may do, and what is known of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Account, Expected, Tenant};
use crate::ask::signup::{
    FieldChange, GRACE_US, Join, Letter, Proof, SESSION_US, TOKEN_US, Who, Wish, Word,
};
use crate::ask::{Ask, Created, Reason, Said, Uid, When};

/// How many sessions somebody has.
const SESSIONS_MAX: usize = 20;

/// The tag of a new customer's account: nothing is paid from it by itself.
pub(super) const NOT_PAID_FROM: u8 = 1;

/// The tags of an account that suspend retries of its payments.
pub(super) const SUSPENDING: [u8; 2] = [NOT_PAID_FROM, 5];

/// The tag that is for invoices only.
const FOR_INVOICES: u8 = 4;

/// How many definitions of tags there are.
const TAGS: u8 = 9;

/// Customers of a tenant, and what is to be done for them.
#[derive(Clone, Debug, Default)]
pub struct People {
    /// Customers by id, forgotten ones too.
    pub customers: BTreeMap<Uid, Customer>,
    /// Queued registrations, by the id of the request that queued them.
    pub operations: BTreeMap<Uid, Operation>,
    /// Mails: to whom, what about, with which token, and for which request.
    pub mails: BTreeSet<(Uid, Letter, Option<Uid>, Uid)>,
    /// Tags on accounts, those that were taken off too.
    pub tags: BTreeMap<(Uid, u8), bool>,
    /// Custom fields of accounts and of their payments: name, value, and which request made it as its first.
    pub fields: BTreeMap<(Uid, Option<Uid>), Vec<Field>>,
}

/// A custom field.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub value: String,
    /// The request whose first field it is.
    pub first_of: Option<Uid>,
}

/// A customer who signed up.
#[derive(Clone, Debug)]
pub struct Customer {
    pub account: Uid,
    /// Their address; `None` once they are erased.
    pub address: Option<String>,
    /// Their first name.
    pub name: String,
    /// Whether they may log in.
    pub active: bool,
    /// Whether their address is verified.
    pub verified: bool,
    /// How often their password changed.
    pub version: i64,
    /// The token that verifies their address, and when it ends.
    pub verification: Option<(Uid, i64)>,
    /// The one for another password.
    pub reset: Option<(Uid, i64)>,
    /// When they are erased.
    pub expires: Option<i64>,
    /// When they signed up.
    pub joined: i64,
    pub sessions: Vec<Session>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session {
    /// When it began.
    pub began: i64,
    pub id: Uid,
    /// How often it was renewed.
    pub generation: u32,
    /// When it was last renewed.
    pub renewed: i64,
    /// How long it can be renewed.
    pub until: i64,
}

/// The status of a queued registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is not made yet.
    Waiting,
    /// It made a customer, or notified the one with the address.
    Made(Option<Uid>),
    /// It could not be made.
    Failed,
}

/// A refusal in the code's own word.
fn no(word: &str) -> Expected {
    Expected::refused(Reason::Customer(word.to_owned()))
}

const fn done() -> Expected {
    Expected::Said(Said::Done)
}

/// The circumstances of a request.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    /// The request's id.
    pub(super) request: Uid,
    /// Its domain time in microseconds.
    pub(super) now: i64,
    /// The ids that the journal names for it.
    pub(super) created: Created,
}

impl Stamp {
    pub(super) const fn of(ask: &Ask, when: When, created: Created) -> Self {
        Self { request: ask.id, now: when.domain, created }
    }
}

impl Tenant {
    pub(super) fn wish(&mut self, wish: &Wish, stamp: Stamp) -> Expected {
        let request = stamp.request;
        match wish {
            Wish::Join(it) => self.join(it, stamp),
            Wish::Queue => {
                self.people.operations.insert(request, Operation::Waiting);
                Expected::Said(Said::Customer(Word::Queued(request)))
            }
            Wish::Fail { operation } => match self.people.operations.get_mut(operation) {
                None => no("OperationNotFound"),
                Some(it @ Operation::Waiting) => {
                    *it = Operation::Failed;
                    done()
                }
                Some(Operation::Made(_) | Operation::Failed) => no("OperationSettled"),
            },
            Wish::Tag { account, numbers, off } => self.tag(*account, numbers, *off),
            Wish::Fields { account, payment, change } => {
                self.fields((*account, *payment), change, request)
            }
            Wish::Verify { who, .. }
            | Wish::NewToken { who, .. }
            | Wish::NewPassword { who, .. }
            | Wish::Login { who, .. }
            | Wish::Refresh { who, .. }
            | Wish::Logout { who, .. }
            | Wish::Change { who, .. }
            | Wish::Erase { who, .. } => {
                let there = self.people.customers.get(&who.id);
                let there = there.filter(|it| it.account == who.account && it.address.is_some());
                match there.cloned() {
                    None => no("NotFound"),
                    Some(mut it) => {
                        let said = self.of_customer(wish, (who, &mut it), stamp);
                        // What is refused changes nothing: then it is as it was.
                        self.people.customers.insert(who.id, it);
                        said
                    }
                }
            }
        }
    }

    fn of_customer(
        &mut self,
        wish: &Wish,
        (who, it): (&Who, &mut Customer),
        stamp: Stamp,
    ) -> Expected {
        match wish {
            Wish::Verify { token, .. } => it.verify(*token, stamp.now),
            Wish::NewToken { reset, .. } => self.new_token((who, it), *reset, stamp),
            Wish::NewPassword { proof, .. } => self.new_password((who, it), *proof, stamp),
            Wish::Login { version, .. } => it.login(*version, stamp),
            Wish::Refresh { session, generation, .. } => {
                it.refresh(*session, *generation, stamp.now)
            }
            Wish::Logout { session: None, .. } => {
                it.sessions.clear();
                done()
            }
            Wish::Logout { session: Some(id), .. } => {
                let before = it.sessions.len();
                it.sessions.retain(|own| own.id != *id);
                if it.sessions.len() == before { no("SessionNotFound") } else { done() }
            }
            Wish::Change { name, active, .. } => {
                it.name = name.clone().unwrap_or_else(|| it.name.clone());
                it.active = active.unwrap_or(it.active);
                if !it.active && active.is_some() {
                    it.sessions.clear();
                }
                if name.is_some() {
                    self.named(who.account, Some(&it.name));
                }
                done()
            }
            Wish::Erase { if_expired, .. } => {
                if *if_expired && it.expires.is_none_or(|at| at > stamp.now) {
                    return no("NotExpired");
                }
                self.forget(who, it, stamp.now);
                done()
            }
            Wish::Join(_)
            | Wish::Queue
            | Wish::Fail { .. }
            | Wish::Tag { .. }
            | Wish::Fields { .. } => {
                unreachable!("{wish:?} is not about somebody who is there")
            }
        }
    }

    fn join(&mut self, it: &Join, stamp: Stamp) -> Expected {
        if let Some(operation) = it.operation {
            match self.people.operations.get(&operation) {
                None => return no("OperationNotFound"),
                Some(Operation::Waiting) => {}
                Some(Operation::Made(_) | Operation::Failed) => return no("OperationSettled"),
            }
        }
        let mut customers = self.people.customers.iter();
        let owner = customers.find(|(_, own)| own.address.as_ref() == Some(&it.address));
        let (made, word) = match owner.map(|(id, _)| *id) {
            Some(_) if !it.tell => return no("EmailTaken"),
            Some(owner) => {
                self.people.mails.insert((owner, Letter::Known, None, stamp.request));
                (None, Word::Notified)
            }
            None => {
                let who = self.sign_up(it, stamp);
                (Some(who.id), Word::Joined(who))
            }
        };
        if let Some(operation) = it.operation {
            self.people.operations.insert(operation, Operation::Made(made));
        }
        Expected::Said(Said::Customer(word))
    }

    fn sign_up(&mut self, it: &Join, Stamp { request, now, created }: Stamp) -> Who {
        let (id, account) =
            (created.customer.unwrap_or_default(), created.account.unwrap_or_default());
        let key = Some(uuid::Uuid::from_u128(id).to_string());
        let (currency, default) = (it.currency, None);
        self.accounts.insert(
            account,
            Account { key, currency, default, name: None, states: vec![], forgotten: None },
        );
        self.named(account, Some(&it.name));
        self.people.tags.insert((account, NOT_PAID_FROM), true);
        let until = now + TOKEN_US;
        let token = created.token.unwrap_or_default();
        if !it.given {
            let mails = &mut self.people.mails;
            mails.insert((id, Letter::Welcome, None, request));
            mails.insert((id, Letter::Verify, Some(token), request));
        }
        let customer = Customer {
            account,
            address: Some(it.address.clone()),
            name: it.name.clone(),
            active: true,
            verified: it.given,
            version: 0,
            verification: (!it.given).then_some((token, until)),
            reset: None,
            expires: (!it.given).then_some(until),
            joined: now,
            sessions: vec![],
        };
        self.people.customers.insert(id, customer);
        Who { id, account }
    }

    /// Sets the name of an account after its customer's first name; `None` clears it.
    fn named(&mut self, account: Uid, name: Option<&String>) {
        let account = self.accounts.get_mut(&account).expect("an account is never deleted");
        account.name = name.map(|name| format!("{name} Doe"));
    }

    fn new_token(
        &mut self,
        (who, it): (&Who, &mut Customer),
        reset: bool,
        Stamp { request, now, created }: Stamp,
    ) -> Expected {
        let token = created.token.unwrap_or_default();
        let held = Some((token, now + TOKEN_US));
        let letter = if reset {
            if !it.active {
                return no("Deactivated");
            }
            it.reset = held;
            Letter::Reset
        } else {
            if it.verified {
                return no("AlreadyVerified");
            }
            // Nobody is kept for longer than seven times as long.
            let end = (now + TOKEN_US).min(it.joined + 7 * TOKEN_US);
            it.verification = Some((token, end));
            it.expires = Some(end);
            Letter::Verify
        };
        self.people.mails.insert((who.id, letter, Some(token), request));
        done()
    }

    fn new_password(
        &mut self,
        (who, it): (&Who, &mut Customer),
        proof: Proof,
        Stamp { request, now, .. }: Stamp,
    ) -> Expected {
        match proof {
            Proof::Token(token) => {
                if it.reset.is_none_or(|(own, until)| own != token || until <= now) {
                    return no("TokenInvalid");
                }
                if !it.verified {
                    it.is_theirs();
                }
            }
            Proof::Version(version) if version == it.version => {}
            Proof::Version(_) => return no("PasswordChanged"),
        }
        it.version += 1;
        it.reset = None;
        it.sessions.clear();
        self.people.mails.insert((who.id, Letter::Changed, None, request));
        done()
    }

    fn forget(&mut self, who: &Who, it: &mut Customer, now: i64) {
        it.address = None;
        it.name = String::new();
        it.verification = None;
        it.reset = None;
        it.expires = None;
        it.sessions.clear();
        self.people.mails.retain(|(to, ..)| *to != who.id);
        self.people.fields.retain(|(account, _), _| *account != who.account);
        self.named(who.account, None);
        let account = self.accounts.get_mut(&who.account).expect("an account is never deleted");
        account.forgotten = Some(now);
        let own = self.methods.values_mut().filter(|it| it.account == who.account);
        own.for_each(|it| it.is_bare = true);
    }

    fn fields(
        &mut self,
        object: (Uid, Option<Uid>),
        change: &FieldChange,
        request: Uid,
    ) -> Expected {
        let (account, payment) = object;
        if !self.accounts.contains_key(&account) {
            return Expected::refused(Reason::NoAccount);
        }
        let is_there = |id| self.payments.get(&id).is_some_and(|it| it.account == account);
        if payment.is_some_and(|id| !is_there(id)) {
            return Expected::refused(Reason::NoPayment);
        }
        let fields = self.people.fields.entry(object).or_default();
        match change {
            FieldChange::Add(new) => {
                let made = new.iter().enumerate().map(|(at, (name, value))| Field {
                    name: name.clone(),
                    value: value.clone(),
                    first_of: (at == 0).then_some(request),
                });
                fields.extend(made);
            }
            FieldChange::Set { made_by, value } => {
                let of_request = |it: &&mut Field| it.first_of == Some(*made_by);
                match fields.iter_mut().find(of_request) {
                    Some(field) => field.value.clone_from(value),
                    None => return Expected::refused(Reason::NoField),
                }
            }
            FieldChange::Clear => fields.clear(),
        }
        done()
    }

    fn tag(&mut self, account: Uid, numbers: &[u8], off: bool) -> Expected {
        let Some(of_account) = self.accounts.get(&account) else {
            return Expected::refused(Reason::NoAccount);
        };
        let can_pay = of_account.default.is_some();
        let tags = &mut self.people.tags;
        let has = |number: &u8| tags.get(&(account, *number)).copied().unwrap_or_default();
        let mut refused = vec![];
        if numbers.iter().any(|number| !(1..=TAGS).contains(number)) {
            refused.push(Reason::NoTagDefinition);
        }
        if off && numbers.iter().any(|number| !has(number)) {
            refused.push(Reason::NoTag);
        }
        if off && !can_pay && numbers.contains(&NOT_PAID_FROM) {
            refused.push(Reason::NothingToPayWith);
        }
        if !off && numbers.contains(&FOR_INVOICES) {
            refused.push(Reason::UnfitTag);
        }
        if !refused.is_empty() {
            return Expected::Refused(refused);
        }
        tags.extend(numbers.iter().map(|number| ((account, *number), !off)));
        if off && numbers.iter().any(|number| SUSPENDING.contains(number)) {
            self.resume_retries(account);
        }
        done()
    }
}

impl Customer {
    fn verify(&mut self, token: Uid, now: i64) -> Expected {
        if self.verification.is_none_or(|(own, until)| own != token || until <= now) {
            return no("TokenInvalid");
        }
        self.is_theirs();
        done()
    }

    fn is_theirs(&mut self) {
        self.verified = true;
        self.verification = None;
        self.expires = None;
    }

    fn login(&mut self, version: i64, Stamp { now, created, .. }: Stamp) -> Expected {
        let mut refused = vec![];
        for (is_so, word) in [
            (!self.active, "Deactivated"),
            (!self.verified, "NotVerified"),
            (self.version != version, "PasswordChanged"),
        ] {
            if is_so {
                refused.push(Reason::Customer(word.to_owned()));
            }
        }
        if !refused.is_empty() {
            return Expected::Refused(refused);
        }
        self.sessions.retain(|own| own.until > now);
        self.sessions.sort();
        while self.sessions.len() >= SESSIONS_MAX {
            self.sessions.remove(0);
        }
        let id = created.session.unwrap_or_default();
        self.sessions.push(Session {
            began: now,
            id,
            generation: 0,
            renewed: now,
            until: now + SESSION_US[1],
        });
        session_reply(id, 0, now)
    }

    fn refresh(&mut self, session: Uid, generation: u32, now: i64) -> Expected {
        let mut own = self.sessions.iter_mut();
        let found = own.find(|own| own.id == session && own.until > now);
        match found.filter(|own| own.generation >= generation) {
            None => no("SessionNotFound"),
            Some(own) if own.generation == generation => {
                own.generation += 1;
                own.renewed = now;
                own.until = now + SESSION_US[1];
                session_reply(session, generation + 1, now)
            }
            Some(own)
                if own.generation == generation + 1
                    && (now - GRACE_US + 1..now + GRACE_US).contains(&own.renewed) =>
            {
                session_reply(session, own.generation, own.renewed)
            }
            Some(_) => {
                self.sessions.retain(|own| own.id != session);
                Expected::Said(Said::Customer(Word::Revoked))
            }
        }
    }
}

const fn session_reply(session: Uid, generation: u32, now: i64) -> Expected {
    Expected::Said(Said::Customer(Word::Session {
        session,
        generation,
        until: now + SESSION_US[0],
    }))
}
