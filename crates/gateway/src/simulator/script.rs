//! A tenant's script for the simulator: the behaviour for each call that has no properties of its own, in the form
//! of Kill Bill's test plugin (`/plugins/killbill-payment-test/configure`). It is kept in memory until it is cleared.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::account::payment_method::{MethodAnswer, MethodRequest};
use domain::payment::{GatewayAnswer, GatewayKnowledge};
use domain::{GatewayCall, GatewaySettings, PaymentId, Properties, TenantNo, TransactionId};
use engine::Deadline;
use engine::ports::{
    BoxFuture, Gateway, Inquiry, News, Notified, PostedNotification, RequestRefused,
};
use serde::Deserialize;

use crate::dispute::{DisputeAnswer, Said};

use super::rules::{self, Action, DELAY_MAX, PLUGIN_METHODS, PLUGIN_METHODS_OF_METHODS};

/// The method of Kill Bill's plugin interface that is an inquiry.
const INQUIRY: &str = "getPaymentInfo";

/// Stands for every method.
const EVERY_METHOD: &str = "*";

/// A notification of the simulator that clients can post: it names the transaction to inquire about.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hint {
    payment_id: PaymentId,
    transaction_id: TransactionId,
    /// A dispute of the transaction, as it is from now on: the simulator has none of its own.
    dispute: Option<DisputeAnswer>,
}

/// The behaviour in a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The name of an action of the plugin.
    pub action: Option<String>,
    pub delay: Option<Duration>,
    /// The amount that is processed, in the currency's major unit.
    pub amount: Option<String>,
}

/// Why a step cannot be: the field of the request, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    pub field: &'static str,
    pub reason: &'static str,
}

/// The steps of all tenants, by method. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    steps: Arc<Mutex<HashMap<TenantNo, BTreeMap<String, Step>>>>,
    attaches_methods: bool,
}

impl Scripts {
    /// Those of a simulator that attaches payment methods, or does not: then no step is for that.
    #[must_use]
    pub fn new(attaches_methods: bool) -> Self {
        Self { steps: Arc::default(), attaches_methods }
    }

    /// Has a step done in a method from now on, or in every method that has no step of its own. What the step
    /// leaves out stays as it was. The action `ACTION_CLEAR` clears the method, or all.
    ///
    /// # Errors
    /// [`Impossible`], and nothing has changed.
    pub fn configure(
        &self,
        tenant: TenantNo,
        method: Option<&str>,
        step: Step,
    ) -> Result<(), Impossible> {
        let attaching = self.attaches_methods.then_some(PLUGIN_METHODS_OF_METHODS);
        let is_method = |it: &str| {
            let mut all = PLUGIN_METHODS.into_iter().chain(attaching.into_iter().flatten());
            it == INQUIRY || all.any(|own| own == it)
        };
        if method.is_some_and(|it| !is_method(it)) {
            let reason = "is no method of Kill Bill's payment plugins that the simulator has";
            return Err(Impossible { field: "METHODS", reason });
        }
        if step.delay.is_some_and(|it| it > DELAY_MAX) {
            return Err(Impossible { field: "SLEEP_TIME_SEC", reason: "is more than 600 seconds" });
        }
        let action = step.action.as_deref();
        if action == Some("ACTION_CLEAR") {
            self.clear(tenant, method);
            return Ok(());
        }
        if action.is_some_and(|it| Action::named(it).is_none()) {
            return Err(Impossible {
                field: "CONFIGURE_ACTION",
                reason: "is no action of the plugin",
            });
        }
        let mut scripts = self.scripts();
        let own = scripts.entry(tenant).or_default();
        let before = own.entry(method.unwrap_or(EVERY_METHOD).to_owned()).or_default();
        *before = Step {
            action: step.action.or_else(|| before.action.take()),
            delay: step.delay.or(before.delay),
            amount: step.amount.or_else(|| before.amount.take()),
        };
        Ok(())
    }

    fn clear(&self, tenant: TenantNo, method: Option<&str>) {
        let mut scripts = self.scripts();
        match method {
            None => drop(scripts.remove(&tenant)),
            Some(method) => {
                if let Some(own) = scripts.get_mut(&tenant) {
                    own.remove(method);
                }
            }
        }
    }

    fn step(&self, tenant: TenantNo, method: &str) -> Option<Step> {
        let scripts = self.scripts();
        let own = scripts.get(&tenant)?;
        own.get(method).or_else(|| own.get(EVERY_METHOD)).cloned()
    }

    fn scripts(&self) -> MutexGuard<'_, HashMap<TenantNo, BTreeMap<String, Step>>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Step {
    /// The properties of the simulator that say the same.
    fn properties(self) -> Properties {
        // The plugin sleeps for the configured time; the property alone records an unknown outcome.
        let action = self.action.filter(|it| it != "ACTION_SLEEP");
        let action = action.map(|it| (it, EVERY_METHOD.to_owned()));
        let delay = self.delay.map(|it| ("delayMs".to_owned(), it.as_millis().to_string()));
        let amount = self.amount.map(|it| ("processedAmount".to_owned(), it));
        action.into_iter().chain(delay).chain(amount).collect()
    }
}

/// A simulator with the steps that tenants have configured.
pub struct Scripted {
    simulator: Arc<dyn Gateway>,
    scripts: Scripts,
}

impl Scripted {
    #[must_use]
    pub const fn new(simulator: Arc<dyn Gateway>, scripts: Scripts) -> Self {
        Self { simulator, scripts }
    }
}

impl Gateway for Scripted {
    fn settings(&self) -> GatewaySettings {
        self.simulator.settings()
    }

    fn in_flight_max(&self) -> Option<usize> {
        self.simulator.in_flight_max()
    }

    fn call(&self, mut call: GatewayCall, deadline: Deadline) -> BoxFuture<'_, GatewayAnswer> {
        if let Some(step) = self.scripts.step(call.tenant, rules::plugin_method(call.operation)) {
            // Of two properties of a name the first counts: the call's own.
            call.properties.extend(step.properties());
        }
        self.simulator.call(call, deadline)
    }

    fn method(
        &self,
        mut request: MethodRequest,
        deadline: Deadline,
    ) -> BoxFuture<'_, MethodAnswer> {
        if let Some(step) = self.scripts.step(request.tenant, rules::plugin_method_of(request.task))
        {
            let prefix = rules::task_prefix(request.task);
            let properties = Step { amount: None, ..step }.properties();
            let of_task = properties.into_iter().map(|(name, it)| (format!("{prefix}{name}"), it));
            request.properties.extend(of_task);
        }
        self.simulator.method(request, deadline)
    }

    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
        let step = self.scripts.step(inquiry.tenant, INQUIRY).unwrap_or_default();
        let answers = match step.action.as_deref().and_then(Action::named) {
            Some(Action::Throw | Action::Nil) => false,
            Some(Action::Pending | Action::Error | Action::Canceled | Action::Sleep) | None => true,
        };
        Box::pin(async move {
            if let Some(delay) = step.delay {
                tokio::time::sleep(delay).await;
            }
            match answers {
                true => self.simulator.inquire(inquiry).await,
                false => GatewayKnowledge::Unreachable,
            }
        })
    }

    fn notification(
        &self,
        posted: PostedNotification,
    ) -> BoxFuture<'_, Result<Option<Notified>, RequestRefused>> {
        Box::pin(async move {
            let hint = serde_json::from_slice(&posted.body).map_err(|_| {
                let reason = "the body is no object with paymentId and transactionId";
                RequestRefused::Invalid(reason.to_owned())
            });
            let Hint { payment_id: payment, transaction_id: transaction, dispute } = hint?;
            let said = dispute.map(DisputeAnswer::said).transpose();
            let said = said.map_err(RequestRefused::Invalid)?;
            let inquiry = Inquiry { tenant: posted.tenant, payment, transaction };
            match self.inquire(inquiry).await {
                GatewayKnowledge::NotFound => Ok(None),
                GatewayKnowledge::Unreachable => {
                    let reason = "the simulator cannot be reached".to_owned();
                    Err(RequestRefused::Unavailable(reason))
                }
                GatewayKnowledge::Found(_) if said.is_some() => {
                    let said = said.filter(|it| it.transaction == transaction);
                    Ok(said.map(|Said { case, dispute, .. }| Notified {
                        payment,
                        transaction,
                        news: News::Dispute { case, said: Box::new(dispute) },
                    }))
                }
                knowledge @ GatewayKnowledge::Found(_) => {
                    Ok(Some(Notified { payment, transaction, news: News::Outcome(knowledge) }))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantNo = TenantNo(1);

    fn acting(action: &str) -> Step {
        Step { action: Some(action.to_owned()), ..Step::default() }
    }

    #[test]
    fn a_method_has_its_own_step_or_that_of_every_method() {
        let scripts = Scripts::default();
        scripts.configure(TENANT, None, acting("RETURN_NIL")).unwrap();
        let slow = Step { delay: Some(Duration::from_secs(2)), ..acting("ACTION_SLEEP") };
        scripts.configure(TENANT, Some("purchasePayment"), slow).unwrap();
        let amount = Step { amount: Some("7".to_owned()), ..Step::default() };
        scripts.configure(TENANT, Some("purchasePayment"), amount).unwrap();
        let properties = |tenant, method| {
            let step = scripts.step(tenant, method).map(Step::properties).unwrap_or_default();
            step.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let own = ["delayMs=2000", "processedAmount=7"];
        assert_eq!(properties(TENANT, "purchasePayment"), own);
        assert_eq!(properties(TENANT, "refundPayment"), ["RETURN_NIL=*"]);
        assert!(properties(TenantNo(2), "refundPayment").is_empty(), "another tenant's");
        scripts.configure(TENANT, Some("purchasePayment"), acting("ACTION_CLEAR")).unwrap();
        assert_eq!(properties(TENANT, "purchasePayment"), ["RETURN_NIL=*"]);
        scripts.configure(TENANT, None, acting("ACTION_CLEAR")).unwrap();
        assert!(properties(TENANT, "refundPayment").is_empty());
    }

    #[test]
    fn a_step_that_cannot_be_is_refused_by_its_field() {
        let scripts = Scripts::default();
        let field = |method, step| scripts.configure(TENANT, method, step).unwrap_err().field;
        assert_eq!(field(Some("hashCode"), acting("RETURN_NIL")), "METHODS");
        assert_eq!(field(Some("addPaymentMethod"), acting("RETURN_NIL")), "METHODS");
        let attaching = Scripts::new(true);
        attaching.configure(TENANT, Some("addPaymentMethod"), acting("RETURN_NIL")).unwrap();
        assert_eq!(field(None, acting("ACTION_DANCE")), "CONFIGURE_ACTION");
        let delay = Some(DELAY_MAX + Duration::from_secs(1));
        assert_eq!(field(None, Step { delay, ..Step::default() }), "SLEEP_TIME_SEC");
        assert!(scripts.step(TENANT, "purchasePayment").is_none());
    }
}
