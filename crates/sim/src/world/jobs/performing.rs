//! How calls that were committed leave for their gateways.

use domain::payment::CANCEL;
use domain::{Effect, GatewayCall};
use engine::partition::Performing;

use crate::ask::Kind;
use crate::audit::Wrong;
use crate::disk::Disk;
use crate::gateway::{Call, Fate, Form};
use crate::mutant::Mutant;
use crate::translate;
use crate::workload::WALLET;
use crate::world::owners::{LIVES, OwnerId};
use crate::world::{Event, World};

impl<D: Disk> World<D> {
    /// The calls that were committed leave; those of a process that dies leave or do not.
    pub(in crate::world) fn perform(
        &mut self,
        id: OwnerId,
        calls: Vec<Performing>,
        dies: bool,
    ) -> Result<(), Wrong> {
        for performing in calls {
            let mut performed = match performing.effect {
                Effect::CallGateway(call) => *call,
                // No gateway of the simulation attaches methods.
                Effect::AskAboutMethod(_) => continue,
            };
            if self.is(Mutant::SendsElsewhere) {
                performed.gateway = WALLET.to_owned();
            }
            if self.is(Mutant::ForgetsToCancel) {
                performed.properties.retain(|(name, _)| name != CANCEL);
            }
            self.hold(self.goes_where_the_money_is(&performed))?;
            let name = performed.gateway.as_str();
            let settle_after_us = self.model.rules.gateways[name].settle_after_us;
            let number = self.events.number();
            let call = translate::call(&performed, number, self.real, settle_after_us);
            self.hold(self.is_the_only_one(id, &call))?;
            self.hold(self.no_customer_acts(&call))?;
            if dies && self.random.chance(500) {
                self.note("a call is lost with the process".to_owned());
                continue;
            }
            let fate = self.gateway.plan(&call, self.real);
            self.leave(&call, fate);
            let tries = performed.tries.take().filter(|_| !self.is(Mutant::ForgetsTries));
            let owner = self.owners.get_mut(&id).expect(LIVES);
            // The answer to a completion brings none, whatever the first call had.
            owner.tries.remove(&call.transaction);
            owner.tries.extend(tries.map(|it| (call.transaction, it)));
            owner.running.insert(call.transaction, call);
        }
        Ok(())
    }

    fn leave(&mut self, call: &Call, fate: Fate) {
        self.note(format!("calls: {:x} {fate:?}", call.transaction));
        if let Some(at) = fate.arrives {
            self.events.at(at, Event::Arrive(call.clone(), fate));
            if self.gateway.forgets_ids {
                self.events.at(at + 1, Event::Arrive(call.clone(), fate));
            }
            if self.is(Mutant::ResendsWithNewId) && self.events.last_number().is_multiple_of(9) {
                let transaction = self.workload.mint(self.real);
                let resent = Call { transaction, ..call.clone() };
                self.events.at(at + 1, Event::Arrive(resent, fate));
            }
        }
        if let Some(at) = fate.answers.or(not_sent(&fate, self.real)) {
            self.events.at(at, Event::Answer(call.clone(), fate));
        }
        if !self.is(Mutant::WaitsForEver) {
            self.events.at(call.deadline, Event::Deadline(call.clone()));
        }
    }

    fn goes_where_the_money_is(&self, performed: &GatewayCall) -> Result<(), Wrong> {
        let transaction = performed.transaction.uuid().as_u128();
        let sent_to = performed.gateway.as_str();
        if self.find_move(transaction).is_some_and(|it| it.gateway == sent_to) {
            return Ok(());
        }
        let context = format!("{transaction:x} went to {sent_to}");
        Err(Wrong::new("a call goes where the money is", &context))
    }

    /// Nothing is called again, or canceled, while its owner runs a call for it.
    fn is_the_only_one(&self, id: OwnerId, call: &Call) -> Result<(), Wrong> {
        match self.owners[&id].running.get(&call.transaction) {
            Some(running) => {
                let context = format!("{call:x?} beside {running:x?}");
                Err(Wrong::new("a transaction has one call at a time", &context))
            }
            None => Ok(()),
        }
    }

    /// No further try of a payment begins while the customer of an earlier one may still confirm it; what completes
    /// or cancels one begins none. One that had come to nothing, and that is pending after all, is beside others that
    /// began before.
    fn no_customer_acts(&self, call: &Call) -> Result<(), Wrong> {
        let starts = matches!(call.kind, Kind::Authorize | Kind::Purchase | Kind::Credit);
        let begins = starts && !self.find_move(call.transaction).is_some_and(|it| it.was_pending);
        let payment = self.model.payment(call.tenant, call.payment).filter(|_| begins);
        let tries = payment.into_iter().flat_map(|it| &it.moves).filter(|it| it.starts());
        let mut acting = tries.filter(|it| it.awaits_customer() && !it.was_revived);
        match acting.find(|it| it.id != call.transaction) {
            Some(it) => {
                let context = format!("{call:x?} while {it:x?}");
                Err(Wrong::new("no other try begins while a customer acts", &context))
            }
            None => Ok(()),
        }
    }
}

fn not_sent(fate: &Fate, now: i64) -> Option<i64> {
    (fate.form == Form::NotSent).then_some(now + 1)
}
