//! All objects of one account in one mode, and what is due on the clock.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::balance_transaction::BalanceTransaction;
use crate::api::charge::Charge;
use crate::api::checkout_session::CheckoutSession;
use crate::api::customer::Customer;
use crate::api::dispute::Dispute;
use crate::api::event::Event;
use crate::api::payment_intent::PaymentIntent;
use crate::api::payment_method::PaymentMethod;
use crate::api::refund::Refund;
use crate::api::setup_intent::SetupIntent;
use crate::api::webhook_endpoint::WebhookEndpoint;
use crate::collection::{Collection, Object};
use crate::ids::Id;

/// The oldest are dropped first.
const EVENTS_MAX: usize = 20_000;

/// The new state of one object. Everything that changes an account is a row, and the journal's lines
/// are rows, so that a start from the journal makes the same account.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    BalanceTransaction(Rc<BalanceTransaction>),
    Charge(Rc<Charge>),
    CheckoutSession(Rc<CheckoutSession>),
    Customer(Rc<Customer>),
    Dispute(Rc<Dispute>),
    Event(Rc<Event>),
    PaymentIntent(Rc<PaymentIntent>),
    PaymentMethod(Rc<PaymentMethod>),
    Refund(Rc<Refund>),
    SetupIntent(Rc<SetupIntent>),
    WebhookEndpoint(Rc<WebhookEndpoint>),
}

impl Row {
    pub fn id(&self) -> &Id {
        match self {
            Row::BalanceTransaction(it) => &it.id,
            Row::Charge(it) => &it.id,
            Row::CheckoutSession(it) => &it.id,
            Row::Customer(it) => &it.id,
            Row::Dispute(it) => &it.id,
            Row::Event(it) => &it.id,
            Row::PaymentIntent(it) => &it.id,
            Row::PaymentMethod(it) => &it.id,
            Row::Refund(it) => &it.id,
            Row::SetupIntent(it) => &it.id,
            Row::WebhookEndpoint(it) => &it.id,
        }
    }
}

/// Work that an account has to do at an instant of the clock.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    BookCharge(Id),
    SettleRefund(Id),
    OpenDispute(Id),
    ExpireAuthorization(Id),
}

pub struct Account {
    /// `acct_...`
    pub id: Id,
    pub livemode: bool,
    pub created: i64,
    pub balance_transactions: Collection<BalanceTransaction>,
    pub charges: Collection<Charge>,
    pub checkout_sessions: Collection<CheckoutSession>,
    pub customers: Collection<Customer>,
    pub disputes: Collection<Dispute>,
    pub events: VecDeque<Rc<Event>>,
    pub payment_intents: Collection<PaymentIntent>,
    pub payment_methods: Collection<PaymentMethod>,
    pub refunds: Collection<Refund>,
    pub setup_intents: Collection<SetupIntent>,
    pub webhook_endpoints: Collection<WebhookEndpoint>,
    /// By second.
    pub due: BTreeSet<(i64, Due)>,
}

impl Account {
    pub fn new(name: &str, livemode: bool) -> Account {
        Account {
            id: format!("acct_{name}").into(),
            livemode,
            created: 1_700_000_000,
            balance_transactions: Collection::default(),
            charges: Collection::default(),
            checkout_sessions: Collection::default(),
            customers: Collection::default(),
            disputes: Collection::default(),
            events: VecDeque::new(),
            payment_intents: Collection::default(),
            payment_methods: Collection::default(),
            refunds: Collection::default(),
            setup_intents: Collection::default(),
            webhook_endpoints: Collection::default(),
            due: BTreeSet::new(),
        }
    }

    pub fn apply(&mut self, row: &Row) {
        match row {
            Row::BalanceTransaction(it) => self.balance_transactions.put(it.clone()),
            Row::Charge(it) => {
                let before = self
                    .charges
                    .get(&it.id)
                    .map_or((None, None), |it| (it.booked_at, it.disputed_at));
                self.schedule(before.0, it.booked_at, Due::BookCharge(it.id.clone()));
                self.schedule(before.1, it.disputed_at, Due::OpenDispute(it.id.clone()));
                self.charges.put(it.clone());
            }
            Row::CheckoutSession(it) => self.checkout_sessions.put(it.clone()),
            Row::Customer(it) => self.customers.put(it.clone()),
            Row::Dispute(it) => self.disputes.put(it.clone()),
            Row::Event(it) => {
                if self.events.len() == EVENTS_MAX {
                    self.events.pop_front();
                }
                self.events.push_back(it.clone());
            }
            Row::PaymentIntent(it) => {
                let before = self.payment_intents.get(&it.id).and_then(|it| it.expires_at);
                self.schedule(before, it.expires_at, Due::ExpireAuthorization(it.id.clone()));
                self.payment_intents.put(it.clone());
            }
            Row::PaymentMethod(it) => self.payment_methods.put(it.clone()),
            Row::Refund(it) => {
                let before = self.refunds.get(&it.id).and_then(|it| it.settles_at);
                self.schedule(before, it.settles_at, Due::SettleRefund(it.id.clone()));
                self.refunds.put(it.clone());
            }
            Row::SetupIntent(it) => self.setup_intents.put(it.clone()),
            Row::WebhookEndpoint(it) => self.webhook_endpoints.put(it.clone()),
        }
    }

    /// An object's row says when something is due; once it was done, the row says that nothing is.
    fn schedule(&mut self, before: Option<i64>, at: Option<i64>, due: Due) {
        if let Some(before) = before {
            self.due.remove(&(before, due.clone()));
        }
        if let Some(at) = at {
            self.due.insert((at, due));
        }
    }

    pub fn render(&self, row: &Row) -> Value {
        match row {
            Row::BalanceTransaction(it) => it.render(),
            Row::Charge(it) => it.render(self),
            Row::CheckoutSession(it) => it.render(self),
            Row::Customer(it) => it.render(self),
            Row::Dispute(it) => it.render(self),
            Row::Event(it) => it.render(self),
            Row::PaymentIntent(it) => it.render(self),
            Row::PaymentMethod(it) => it.render(self),
            Row::Refund(it) => it.render(),
            Row::SetupIntent(it) => it.render(self),
            Row::WebhookEndpoint(it) => it.render(self),
        }
    }

    /// A row of the journal: an event gets back its object, as the rows before have left it.
    pub fn restored(&self, row: Row) -> Row {
        match row {
            Row::Event(it) => {
                let object = self.find(&it.object_id);
                Row::Event(Rc::new(Event { object, ..(*it).clone() }))
            }
            row @ (Row::BalanceTransaction(_)
            | Row::Charge(_)
            | Row::CheckoutSession(_)
            | Row::Customer(_)
            | Row::Dispute(_)
            | Row::PaymentIntent(_)
            | Row::PaymentMethod(_)
            | Row::Refund(_)
            | Row::SetupIntent(_)
            | Row::WebhookEndpoint(_)) => row,
        }
    }

    /// The object of an id, whatever its kind.
    pub fn find(&self, id: &str) -> Option<Row> {
        fn row<T: Object>(from: &Collection<T>, id: &str, make: fn(Rc<T>) -> Row) -> Option<Row> {
            from.get(id).cloned().map(make)
        }
        match id.split_once('_')?.0 {
            "ch" => row(&self.charges, id, Row::Charge),
            "cs" => row(&self.checkout_sessions, id, Row::CheckoutSession),
            "cus" => row(&self.customers, id, Row::Customer),
            "du" => row(&self.disputes, id, Row::Dispute),
            "pi" => row(&self.payment_intents, id, Row::PaymentIntent),
            "pm" => row(&self.payment_methods, id, Row::PaymentMethod),
            "re" => row(&self.refunds, id, Row::Refund),
            "seti" => row(&self.setup_intents, id, Row::SetupIntent),
            "txn" => row(&self.balance_transactions, id, Row::BalanceTransaction),
            _ => None,
        }
    }
}
