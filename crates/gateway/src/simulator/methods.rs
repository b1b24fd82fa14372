//! Payment methods of the simulator: each is attached once, and can be charged until it is detached.

use std::sync::Arc;

use domain::GatewayCall;
use domain::account::payment_method::{MethodAnswer, MethodRequest, MethodTask};
use domain::payment::{
    GATEWAY_TEXT_MAX, GatewayAnswer, GatewayOutcome, GatewayStatus, MethodAtGateway,
};
use tokio::time::{Instant, sleep_until};

use super::core::{Core, duration, failed, respond};
use super::record::{MethodRecord, MethodState, Subject};
use super::rules::{self, Behaviour};

impl Core {
    /// Carries out a request about a payment method, and answers it. A repeated one gets the recorded answer.
    pub(super) async fn ask(self: Arc<Self>, request: MethodRequest) -> MethodAnswer {
        let started = Instant::now();
        let behaviour = rules::decide_method(&request);
        let response = (behaviour.answer_after, behaviour.response.clone());
        let carried_out = match request.task {
            MethodTask::Attach => self.attach(&request, behaviour, started).await,
            MethodTask::Detach => self.detach(&request, behaviour, started).await,
            MethodTask::Find => self.find(&request),
        };
        match carried_out {
            Ok(done) => {
                let answer = respond(response, started, duration(request.timeout_us)).await;
                answer_as(answer, done)
            }
            Err(answer) => answer,
        }
    }

    /// Attaches the method of a call that starts a payment, where the simulator does not know it yet.
    ///
    /// # Errors
    /// The answer to the call, because the method cannot be charged.
    pub(super) async fn attach_for(
        self: &Arc<Self>,
        call: &GatewayCall,
    ) -> Result<Option<MethodAtGateway>, GatewayAnswer> {
        if !call.operation.is_initial() {
            return Ok(None);
        }
        let request = MethodRequest {
            tenant: call.tenant,
            account: call.account,
            payment_method: call.payment_method,
            gateway: call.gateway.clone(),
            merchant_account: call.merchant_account.clone(),
            task: MethodTask::Attach,
            external_payment_method_id: call.external_payment_method_id.clone(),
            properties: call.payment_method_properties.clone(),
            timeout_us: call.timeout_us,
        };
        if let Ok(Some(MethodState::Attached { .. })) = self.known(&request) {
            return Ok(None);
        }
        match Arc::clone(self).ask(request).await {
            MethodAnswer::Attached(said) => Ok(Some(said)),
            MethodAnswer::Refused { code, message } => {
                Err(GatewayAnswer::Outcome(GatewayOutcome {
                    error_code: code,
                    error_message: Some(message),
                    ..GatewayOutcome::new(GatewayStatus::Error)
                }))
            }
            MethodAnswer::Unknown { message } | MethodAnswer::NotSent { message, .. } => {
                Err(GatewayAnswer::Failed { message })
            }
            MethodAnswer::Absent => unreachable!("a method that is attached is not absent"),
        }
    }

    async fn attach(
        &self,
        request: &MethodRequest,
        behaviour: Behaviour,
        started: Instant,
    ) -> Result<MethodAnswer, MethodAnswer> {
        let _lock = self.lock(Subject::Method(request.payment_method)).await;
        match self.known(request)? {
            Some(MethodState::Attached { external_id }) => return Err(attached(external_id)),
            Some(MethodState::Refused { code, message }) => {
                return Err(MethodAnswer::Refused { code, message });
            }
            Some(MethodState::Detached) => {
                return Err(refused("METHOD_DETACHED", "the payment method was detached"));
            }
            None => {}
        }
        let external_id = name_of(request);
        if let Some(truth) = &behaviour.truth {
            let state = match truth.status {
                GatewayStatus::Processed => {
                    Some(MethodState::Attached { external_id: external_id.clone() })
                }
                GatewayStatus::Error | GatewayStatus::Canceled => {
                    let (code, message) = reason_of(truth);
                    Some(MethodState::Refused { code, message })
                }
                GatewayStatus::Pending | GatewayStatus::Undefined => None,
            };
            if let Some(state) = state {
                sleep_until(started + behaviour.charge_after).await;
                self.record_method(request, state).await?;
            }
        }
        Ok(attached(external_id))
    }

    async fn detach(
        &self,
        request: &MethodRequest,
        behaviour: Behaviour,
        started: Instant,
    ) -> Result<MethodAnswer, MethodAnswer> {
        let _lock = self.lock(Subject::Method(request.payment_method)).await;
        match self.known(request)? {
            Some(MethodState::Attached { .. }) => {}
            Some(MethodState::Refused { .. } | MethodState::Detached) | None => {
                return Err(MethodAnswer::Absent);
            }
        }
        if behaviour.truth.is_some_and(|it| it.status == GatewayStatus::Processed) {
            sleep_until(started + behaviour.charge_after).await;
            self.record_method(request, MethodState::Detached).await?;
        }
        Ok(MethodAnswer::Absent)
    }

    fn find(&self, request: &MethodRequest) -> Result<MethodAnswer, MethodAnswer> {
        Ok(match self.known(request)? {
            Some(MethodState::Attached { external_id }) => attached(external_id),
            Some(MethodState::Refused { .. } | MethodState::Detached) | None => {
                MethodAnswer::Absent
            }
        })
    }

    /// The state of the method in the journal; `None` where it has no record.
    ///
    /// # Errors
    /// The answer, where it is another account's, or the journal cannot be read.
    fn known(&self, request: &MethodRequest) -> Result<Option<MethodState>, MethodAnswer> {
        match self.journal.latest_method(request.payment_method) {
            Ok(None) => Ok(None),
            Ok(Some(it)) if (it.tenant, it.account) == (request.tenant, request.account) => {
                Ok(Some(it.state))
            }
            Ok(Some(_)) => {
                Err(refused("METHOD_OF_ANOTHER", "the payment method is another account's"))
            }
            Err(error) => Err(MethodAnswer::Unknown { message: error.to_string() }),
        }
    }

    async fn record_method(
        &self,
        request: &MethodRequest,
        state: MethodState,
    ) -> Result<(), MethodAnswer> {
        let record = MethodRecord {
            at: self.options.clock.real_now(),
            tenant: request.tenant,
            account: request.account,
            payment_method: request.payment_method,
            state,
        };
        let appended = self.journal.append_method(&record).await;
        appended.map_err(|error| answer_as(failed(&error), MethodAnswer::Absent))
    }
}

/// The simulator's name for a method: the client's own, cut to a length, or one made of its id.
fn name_of(request: &MethodRequest) -> String {
    match &request.external_payment_method_id {
        Some(own) => cut(own),
        None => format!("sim_{}", request.payment_method.uuid().simple()),
    }
}

fn attached(external_id: String) -> MethodAnswer {
    MethodAnswer::Attached(MethodAtGateway { external_id, properties: vec![] })
}

/// The answer in terms of payment methods; `done` where it says that the request was carried out.
fn answer_as(answer: GatewayAnswer, done: MethodAnswer) -> MethodAnswer {
    let unknown = |message: &str| MethodAnswer::Unknown { message: message.to_owned() };
    match answer {
        GatewayAnswer::Outcome(outcome) => match outcome.status {
            GatewayStatus::Processed => done,
            GatewayStatus::Error | GatewayStatus::Canceled => {
                let (code, message) = reason_of(&outcome);
                MethodAnswer::Refused { code, message }
            }
            GatewayStatus::Pending | GatewayStatus::Undefined => unknown("the outcome is open"),
        },
        GatewayAnswer::Failed { message } | GatewayAnswer::NotSent { message, .. } => {
            MethodAnswer::Unknown { message }
        }
        GatewayAnswer::Nothing => unknown("the simulator answered nothing"),
        GatewayAnswer::TimedOut => unknown("the simulator did not answer in time"),
    }
}

fn reason_of(outcome: &GatewayOutcome) -> (Option<String>, String) {
    let message = outcome.error_message.as_deref().unwrap_or("the simulator refuses it");
    (outcome.error_code.as_deref().map(cut), cut(message))
}

fn cut(text: &str) -> String {
    text.chars().take(GATEWAY_TEXT_MAX).collect()
}

fn refused(code: &str, message: &str) -> MethodAnswer {
    MethodAnswer::Refused { code: Some(code.to_owned()), message: message.to_owned() }
}
