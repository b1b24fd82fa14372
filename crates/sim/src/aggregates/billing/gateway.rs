//! Calls on their way to the gateway, their answers, and the questions about those that nobody heard of again.

use domain::command::PaymentCommand;
use domain::payment::{GatewayInquired, GatewayReplied, Outstanding, TransactionStatus};
use domain::{Command, GatewayCall, PaymentId, Timestamp, TransactionId};

use super::Billing;
use crate::ask::{Heard, Known, Uid};
use crate::disk::Disk;
use crate::gateway::{Call, Fate, Form, Later};
use crate::kernel::TENANT;
use crate::translate;

/// An event that is scheduled for later.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A call reaches the gateway.
    Arrive(Call, Fate),
    /// The gateway's answer reaches the process that called, by its number.
    Answer(u64, Call, Fate),
    /// That process stops waiting.
    Deadline(u64, Call),
    /// Something happens at the gateway.
    Gateway(Later),
}

impl<D: Disk> Billing<D> {
    /// A call that was committed leaves.
    pub(super) fn call(&mut self, call: &GatewayCall) {
        let number = self.kernel.mint();
        let (now, settle_after_us) = (self.kernel.now, super::SETTLE_AFTER_US);
        let call = translate::call(call, number, now, settle_after_us);
        let fate = self.gateway.plan(&call, now);
        self.note(&format!("calls {:x} for {:?}: {fate:?}", call.transaction, call.amount));
        self.kernel.count("calls");
        let life = self.kernel.life();
        if let Some(at) = fate.arrives {
            self.kernel.events.at(at, Event::Arrive(call.clone(), fate));
        }
        let not_sent = (fate.form == Form::NotSent).then_some(now + 1);
        if let Some(at) = fate.answers.or(not_sent) {
            self.kernel.events.at(at, Event::Answer(life, call.clone(), fate));
        }
        self.kernel.events.at(call.deadline, Event::Deadline(life, call.clone()));
        self.running.insert(call.transaction, call);
    }

    pub(super) fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrive(call, fate) => {
                let now = self.kernel.now;
                let is_awaited =
                    now <= call.deadline || self.is_open(call.payment, call.transaction);
                for (at, later) in self.gateway.arrive(&call, (fate.deed, is_awaited), now) {
                    self.kernel.events.at(at, Event::Gateway(later));
                }
                Ok(())
            }
            Event::Answer(life, call, fate) => {
                let heard = self.gateway.answer(&call, fate.form);
                self.ended(life, &call, heard)
            }
            Event::Deadline(life, call) => self.ended(life, &call, Heard::TooLate),
            Event::Gateway(Later::Turn(transaction, from, to)) => {
                self.note(&format!("{transaction:x} turns from {from:?} to {to:?}"));
                self.gateway.turn(transaction, from, to);
                Ok(())
            }
            Event::Gateway(Later::Notify(transaction)) => self.notify(transaction),
        }
    }

    /// A call ended. Nobody waits for it any more where its process is dead, or heard of it before.
    fn ended(&mut self, life: u64, call: &Call, heard: Heard) -> Result<(), String> {
        let is_running = self.running.get(&call.transaction).is_some_and(|it| it.no == call.no);
        if life != self.kernel.life() || !is_running {
            return Ok(());
        }
        self.running.remove(&call.transaction);
        self.note(&format!("hears of {:x}: {heard:?}", call.transaction));
        let replied = GatewayReplied {
            payment: translate::id(call.payment),
            transaction: translate::id(call.transaction),
            answer: translate::answer_of(heard),
            is_controlled: call.is_controlled,
            tries: None,
        };
        self.submit(Command::Payment(PaymentCommand::GatewayReplied(replied))).map(drop)
    }

    /// The gateway reports how a transaction stands.
    fn notify(&mut self, transaction: Uid) -> Result<(), String> {
        let payment = translate::id(self.gateway.book[&transaction].payment);
        let asked = self.transaction(payment, translate::id(transaction));
        let asked = asked.and_then(|(_, amount)| amount);
        let known = Known::Found(self.gateway.book[&transaction].outcome_of(asked));
        self.inquired(payment, translate::id(transaction), known)
    }

    /// Asks the gateway about an outcome that is waited for.
    pub(super) fn ask(&mut self, it: &Outstanding) -> Result<(), String> {
        self.kernel.count("asked");
        let transaction = it.transaction_id.uuid().as_u128();
        let asked = self.transaction(it.payment_id, it.transaction_id);
        let asked = asked.and_then(|(_, amount)| amount);
        let known = self.gateway.inquire(transaction, asked, self.kernel.now);
        self.inquired(it.payment_id, it.transaction_id, known)
    }

    /// What was found out reaches the process.
    fn inquired(
        &mut self,
        payment: PaymentId,
        transaction: TransactionId,
        known: Known,
    ) -> Result<(), String> {
        self.note(&format!("learns of {}: {known:?}", transaction.uuid()));
        let (knowledge, asked_at) = (translate::knowledge_of(known), Timestamp(self.kernel.now));
        let it = GatewayInquired { payment, transaction, knowledge, asked_at };
        // What is not committed is said again until it is: nobody else may know.
        while !self
            .submit(Command::Payment(PaymentCommand::GatewayInquired(it.clone())))?
            .is_durable
        {}
        Ok(())
    }

    /// When the gateway is to be asked next, and about what.
    pub(super) fn next_question(&self) -> Option<(i64, Outstanding)> {
        let is_running =
            |it: &Outstanding| self.running.contains_key(&it.transaction_id.uuid().as_u128());
        let disk = &self.kernel.disk;
        let orphan = disk.orphans().into_iter().find(|it| !is_running(it));
        let orphan = orphan.map(|it| (self.kernel.now + Timestamp::SECOND_US, it));
        let due = disk.due(Timestamp(i64::MAX)).into_iter().find(|it| !is_running(it));
        let due = due.and_then(|it| Some((it.ask_at?.0, it)));
        orphan.into_iter().chain(due).min_by_key(|(at, _)| *at)
    }

    fn is_open(&self, payment: Uid, transaction: Uid) -> bool {
        let found = self.transaction(translate::id(payment), translate::id(transaction));
        found.is_some_and(|(status, _)| status.is_open())
    }

    /// How a transaction is stored, and over how much.
    fn transaction(
        &self,
        payment: PaymentId,
        transaction: TransactionId,
    ) -> Option<(TransactionStatus, Option<i64>)> {
        let file = self.kernel.disk.payment(TENANT, payment)?;
        let found = file.transaction(transaction)?;
        Some((found.status, found.amount.map(|it| it.0)))
    }
}
