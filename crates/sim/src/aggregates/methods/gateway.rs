//! The gateway at which methods are attached, and the way to it, on which requests and answers are late or lost.

use domain::account::payment_method::{MethodAnswer, MethodAnswered, MethodRequest, MethodTask};
use domain::command::AccountCommand;
use domain::payment::{GatewayAnswer, GatewayOutcome, GatewayStatus, MethodAtGateway};
use domain::{Command, GatewayCall, PaymentMethodId, Timestamp};

use super::{MethodMutant, Methods, SECOND_US, SETTLE_AFTER_US, TIMEOUT_US};
use crate::aggregates::commands::replied;
use crate::schedule::Place;

/// An event that is scheduled for later.
pub(super) enum Event {
    /// A request about a method reaches the gateway, and its answer comes back after a while or never.
    Arrive { request: MethodRequest, is_refused: bool, answers: Option<i64> },
    /// A call reaches the gateway that attaches its method first.
    Charge { call: Box<GatewayCall>, is_refused: bool, answers: Option<i64> },
    /// An answer reaches the process that waits for it.
    Answer { life: u64, command: Command },
}

impl Methods {
    /// A call leaves. A method that it does not attach itself is attached by now.
    pub(super) fn call(&mut self, call: Box<GatewayCall>, attaches: bool) -> Result<(), String> {
        self.kernel.count("charged");
        if !attaches && !self.model.is_attached(call.payment_method) {
            return Err(format!("a method that is charged is attached: {}", call.payment_method));
        }
        let (arrives, answers) = self.way();
        let is_refused = attaches && self.kernel.random.chance(200);
        let deadline = self.deadline(replied(&call, GatewayAnswer::TimedOut));
        if let Some(at) = arrives {
            let answers = self.answers_in_time(answers, deadline);
            self.kernel.events.at(at, Event::Charge { call, is_refused, answers });
        }
        Ok(())
    }

    /// A request about a method leaves.
    pub(super) fn ask(&mut self, request: MethodRequest) {
        if request.task == MethodTask::Find {
            return self.find(&request);
        }
        let (arrives, answers) = self.way();
        let is_refused = request.task == MethodTask::Attach && self.kernel.random.chance(200);
        let in_doubt = match self.mutant {
            Some(MethodMutant::TakesLostForRefused) => refusal(),
            Some(_) | None => lost(),
        };
        let asked_at = Timestamp(self.kernel.now);
        let deadline = self.deadline(answer_to(&request, in_doubt, asked_at));
        if request.task == MethodTask::Detach && self.mutant == Some(MethodMutant::SendsNoDetach) {
            let command = answer_to(&request, MethodAnswer::Absent, asked_at);
            self.answer_at(self.kernel.now + 1, command);
            return;
        }
        if let Some(at) = arrives {
            let answers = self.answers_in_time(answers, deadline);
            self.kernel.events.at(at, Event::Arrive { request, is_refused, answers });
        }
    }

    /// Asks whether a method is attached.
    fn find(&mut self, request: &MethodRequest) {
        self.kernel.count("asked");
        let is_unreachable = self.is_lossy && self.kernel.random.chance(200);
        let answer = match self.model.is_attached(request.payment_method) {
            _ if is_unreachable => lost(),
            true => attached(request.payment_method),
            false => MethodAnswer::Absent,
        };
        let command = answer_to(request, answer, self.asked_at());
        let at = self.kernel.now + self.kernel.random.between(0, SECOND_US);
        self.answer_at(at, command);
    }

    /// When the gateway was asked, as the engine says.
    fn asked_at(&self) -> Timestamp {
        let ahead_us = match self.mutant {
            Some(MethodMutant::AsksTooEarly) => TIMEOUT_US + SETTLE_AFTER_US,
            Some(_) | None => 0,
        };
        Timestamp(self.kernel.now + ahead_us)
    }

    /// When a request arrives, and its answer; `None`: it gets lost. It may arrive after its deadline, but not much.
    fn way(&mut self) -> (Option<i64>, Option<i64>) {
        let (now, random) = (self.kernel.now, &mut self.kernel.random);
        if !self.is_lossy {
            return (Some(now + 1), Some(now + 2));
        }
        let latest = if random.chance(100) { TIMEOUT_US + SETTLE_AFTER_US / 2 } else { SECOND_US };
        let arrives = now + random.between(1, latest);
        let answers = arrives + random.between(1, SECOND_US);
        let arrives = (!random.chance(150)).then_some(arrives);
        (arrives, (!random.chance(200)).then_some(answers))
    }

    /// Schedules the end of the waiting for an answer.
    fn deadline(&mut self, lost: Command) -> Place {
        self.answer_at(self.kernel.now + TIMEOUT_US, lost)
    }

    /// An answer that comes before the deadline takes the place of the lost one; after it none is taken.
    fn answers_in_time(&mut self, answers: Option<i64>, deadline: Place) -> Option<i64> {
        let answers = answers.filter(|at| *at < deadline.0)?;
        self.kernel.events.cancel(deadline);
        Some(answers)
    }

    fn answer_at(&mut self, at: i64, command: Command) -> Place {
        let life = self.kernel.life();
        self.kernel.events.at(at, Event::Answer { life, command })
    }

    pub(super) fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrive { request, is_refused, answers } => {
                let id = request.payment_method;
                let answer = match request.task {
                    _ if is_refused => refusal(),
                    MethodTask::Attach => {
                        self.model.attach(id);
                        attached(id)
                    }
                    MethodTask::Detach | MethodTask::Find => {
                        self.model.detach(id);
                        MethodAnswer::Absent
                    }
                };
                let asked_at = Timestamp(self.kernel.now);
                self.answer(answers, answer_to(&request, answer, asked_at));
            }
            Event::Charge { call, is_refused, answers } => {
                let id = call.payment_method;
                let outcome = match is_refused {
                    true => GatewayOutcome::new(GatewayStatus::Error),
                    false => {
                        // What is attached stays so; a charge of a method that was detached since attaches nothing.
                        if self.is_attaching(id) {
                            self.model.attach(id);
                        }
                        GatewayOutcome {
                            payment_method: Some(named(id)),
                            ..GatewayOutcome::new(GatewayStatus::Processed)
                        }
                    }
                };
                self.answer(answers, replied(&call, GatewayAnswer::Outcome(outcome)));
            }
            Event::Answer { life, command } if life == self.kernel.life() => {
                self.submit(command)?;
            }
            // The process that waited for it is dead.
            Event::Answer { .. } => {}
        }
        Ok(())
    }

    fn is_attaching(&self, id: PaymentMethodId) -> bool {
        self.methods().iter().any(|it| it.id == id && it.is_attaching())
    }

    fn answer(&mut self, at: Option<i64>, command: Command) {
        if let Some(at) = at {
            self.answer_at(at.max(self.kernel.now), command);
        }
    }
}

fn named(id: PaymentMethodId) -> MethodAtGateway {
    MethodAtGateway { external_id: format!("at vault {id}"), properties: vec![] }
}

fn attached(id: PaymentMethodId) -> MethodAnswer {
    MethodAnswer::Attached(named(id))
}

fn refusal() -> MethodAnswer {
    MethodAnswer::Refused { code: None, message: "no".to_owned() }
}

fn lost() -> MethodAnswer {
    MethodAnswer::Unknown { message: "lost".to_owned() }
}

fn answer_to(request: &MethodRequest, answer: MethodAnswer, asked_at: Timestamp) -> Command {
    Command::Account(AccountCommand::MethodAnswered(Box::new(MethodAnswered {
        account: request.account,
        payment_method: request.payment_method,
        task: request.task,
        answer,
        asked_at,
    })))
}
