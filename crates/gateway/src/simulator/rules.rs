//! The behaviour of the simulator for a call: it depends on the properties of the call, those of the
//! payment method, or the amount.
//!
//! | property | meaning |
//! |---|---|
//! | `delayMs` | the delay of the answer; 0 by default |
//! | `jitterMs=MIN-MAX` | a range for an addition to `delayMs`, which is constant per transaction |
//! | `chargeAfterMs` | the delay of the charge; 0 by default |
//! | `outcome` | `PROCESSED` (default), `PENDING`, `ERROR`, `CANCELED`, `UNDEFINED`, `EXCEPTION`, `NULL`, `TIMEOUT` |
//! | `truth` | the real outcome, if `outcome` hides it: `PROCESSED`, `PENDING`, `ERROR`, `CANCELED`, `UNDEFINED`, `NONE` |
//! | `lostAnswer=true` | the call is executed, but never answered |
//! | `lateMs` | the delay from the charge to the truth, which is notified |
//! | `reverseAfterMs` | the delay from a success to its reversal, which is notified |
//! | `duplicate=true` | the outcome is also notified twice |
//! | `processedAmount`, `processedCurrency` | the charged amount and currency, instead of the requested ones |
//! | `errorCode`, `errorMessage` | the error of the gateway |
//! | `firstReference`, `secondReference` | the references of the gateway |
//!
//! `EXCEPTION`, `NULL` and `TIMEOUT` charge nothing without `truth`. With `lateMs` and without a
//! final outcome the truth is `PROCESSED` by default.
//!
//! Without any of these properties some amounts have an effect: see [`MAGIC_AMOUNTS`].
//!
//! The outcome of a request about a payment method depends on properties of the method that begin with `attach.`,
//! `detach.` or `find.`, such as `attach.outcome`; those of charges, amounts and references have no such form.
//!
//! The properties of Kill Bill's payment-test plugin are supported: `ACTION_RETURN_PLUGIN_STATUS_PENDING`,
//! `..._ERROR`, `..._CANCELED`, `ACTION_THROW_EXCEPTION`, `RETURN_NIL`, `ACTION_SLEEP`, with `*` or
//! the name of a plugin method as value. As in that plugin, an outcome that they leave unknown stays unknown.

use std::time::Duration;

use domain::account::payment_method::{MethodRequest, MethodTask};
use domain::payment::{GatewayAnswer, GatewayOutcome, GatewayStatus, TransactionType};
use domain::{AmountMinor, Currency, GatewayCall, Properties};
use uuid::Uuid;

/// The maximum of `delayMs` and `chargeAfterMs`.
pub const DELAY_MAX: Duration = Duration::from_secs(600);
/// The maximum of `lateMs` and `reverseAfterMs`.
pub const LATE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Amounts in minor units (66601 is 666.01 USD) with the properties that they stand for. They apply if
/// neither the call nor the payment method has a property of the simulator.
pub const MAGIC_AMOUNTS: &[(i64, &[(&str, &str)])] = &[
    (66_601, &[("outcome", "ERROR"), ("errorMessage", "declined")]),
    (66_602, &[("outcome", "CANCELED")]),
    (66_603, &[("outcome", "PENDING")]),
    (66_604, &[("outcome", "UNDEFINED")]),
    (66_605, &[("outcome", "EXCEPTION")]),
    (66_606, &[("outcome", "NULL")]),
    (66_607, &[("outcome", "TIMEOUT")]),
    (66_608, &[("lostAnswer", "true")]),
    (66_609, &[("outcome", "PENDING"), ("lateMs", "2000")]),
    (66_610, &[("reverseAfterMs", "2000")]),
    (66_611, &[("duplicate", "true")]),
];

/// The behaviour for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// The time from the call to the charge.
    pub charge_after: Duration,
    /// The time from the call to the answer.
    pub answer_after: Duration,
    /// The recorded outcome; `None` if the gateway does not process the request.
    pub truth: Option<GatewayOutcome>,
    /// The response to the call.
    pub response: Response,
    /// A later outcome.
    pub late: Option<Late>,
    /// The time from the charge to the reversal of a success.
    pub reverse_after: Option<Duration>,
    /// The number of notifications of the charge.
    pub notifications: u8,
}

/// The response to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Send(GatewayAnswer),
    /// No answer until the caller times out.
    Withhold,
}

/// A later outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The time from the charge.
    pub after: Duration,
    /// The outcome, which equals the first one if that was final.
    pub outcome: GatewayOutcome,
}

/// Decides the behaviour for a call. The result depends on the call alone.
#[must_use]
pub fn decide(call: &GatewayCall) -> Behaviour {
    behaviour(&CallProperties::new(call))
}

/// Decides the behaviour for a request about a payment method: a [`GatewayStatus::Processed`] outcome carries it out.
/// The result depends on the request alone.
#[must_use]
pub fn decide_method(request: &MethodRequest) -> Behaviour {
    let prefix = task_prefix(request.task);
    let of_task = |(name, value): &(String, String)| {
        name.strip_prefix(&prefix).map(|name| (name.to_owned(), value.clone()))
    };
    let own: Properties = request.properties.iter().filter_map(of_task).collect();
    behaviour(&CallProperties::of_method(request, &own, &prefix))
}

fn behaviour(properties: &CallProperties<'_>) -> Behaviour {
    match read(properties) {
        Ok(behaviour) => behaviour,
        Err(InvalidProperty { property, reason }) => {
            let outcome = GatewayOutcome {
                error_code: Some("INVALID_PROPERTY".to_owned()),
                error_message: Some(format!("{}{property} {reason}", properties.prefix)),
                ..GatewayOutcome::new(GatewayStatus::Canceled)
            };
            Behaviour { truth: Some(outcome.clone()), ..Behaviour::answering(outcome) }
        }
    }
}

/// The names of [`plugin_method`].
pub(super) const PLUGIN_METHODS: [&str; 7] = [
    "authorizePayment",
    "capturePayment",
    "purchasePayment",
    "refundPayment",
    "creditPayment",
    "voidPayment",
    "chargebackPayment",
];

/// The operation's name in Kill Bill's plugin interface.
#[must_use]
pub const fn plugin_method(operation: TransactionType) -> &'static str {
    match operation {
        TransactionType::Authorize => "authorizePayment",
        TransactionType::Capture => "capturePayment",
        TransactionType::Purchase => "purchasePayment",
        TransactionType::Refund => "refundPayment",
        TransactionType::Credit => "creditPayment",
        TransactionType::Void => "voidPayment",
        TransactionType::Chargeback | TransactionType::ChargebackReversal => "chargebackPayment",
    }
}

/// The names of [`plugin_method_of`].
pub(super) const PLUGIN_METHODS_OF_METHODS: [&str; 3] =
    ["addPaymentMethod", "deletePaymentMethod", "getPaymentMethodDetail"];

/// A task's name in Kill Bill's plugin interface.
pub(super) const fn plugin_method_of(task: MethodTask) -> &'static str {
    let [add, delete, get] = PLUGIN_METHODS_OF_METHODS;
    match task {
        MethodTask::Attach => add,
        MethodTask::Detach => delete,
        MethodTask::Find => get,
    }
}

/// The prefix of the names of a task's properties.
pub(super) fn task_prefix(task: MethodTask) -> String {
    format!("{}.", task.name())
}

impl Behaviour {
    /// Answers immediately and does not charge.
    const fn answering(outcome: GatewayOutcome) -> Self {
        Self {
            charge_after: Duration::ZERO,
            answer_after: Duration::ZERO,
            truth: None,
            response: Response::Send(GatewayAnswer::Outcome(outcome)),
            late: None,
            reverse_after: None,
            notifications: 0,
        }
    }
}

/// The requested outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestedOutcome {
    Status(GatewayStatus),
    Exception(String),
    Null,
    Timeout,
}

/// A property with an invalid value.
struct InvalidProperty {
    property: &'static str,
    reason: &'static str,
}

fn read(properties: &CallProperties<'_>) -> Result<Behaviour, InvalidProperty> {
    properties.refuse_those_of_payments()?;
    let (requested, stays_unknown) = properties.outcome()?;
    let details = properties.details()?;
    let with = |status| GatewayOutcome { status, ..details.clone() };
    let late_after = properties.duration("lateMs", LATE_MAX)?;
    let requested_truth = properties.truth()?;

    let hidden = match &requested {
        RequestedOutcome::Status(status) => Some(*status),
        RequestedOutcome::Exception(_) | RequestedOutcome::Null | RequestedOutcome::Timeout
            if stays_unknown =>
        {
            Some(GatewayStatus::Undefined)
        }
        RequestedOutcome::Exception(_) | RequestedOutcome::Null | RequestedOutcome::Timeout => None,
    };
    let is_final = matches!(
        requested,
        RequestedOutcome::Status(
            GatewayStatus::Processed | GatewayStatus::Error | GatewayStatus::Canceled
        )
    );
    let (truth, late) = match late_after {
        Some(after) if is_final => {
            (hidden, hidden.map(|status| Late { after, outcome: with(status) }))
        }
        Some(after) => match requested_truth.unwrap_or(Some(GatewayStatus::Processed)) {
            Some(status) => {
                let now = hidden.unwrap_or(GatewayStatus::Undefined);
                (Some(now), Some(Late { after, outcome: with(status) }))
            }
            None => (hidden, None),
        },
        None => (requested_truth.unwrap_or(hidden), None),
    };
    let response = match requested {
        _ if properties.flag("lostAnswer")? => Response::Withhold,
        RequestedOutcome::Status(status) => Response::Send(GatewayAnswer::Outcome(with(status))),
        RequestedOutcome::Exception(message) => Response::Send(GatewayAnswer::Failed { message }),
        RequestedOutcome::Null => Response::Send(GatewayAnswer::Nothing),
        RequestedOutcome::Timeout => Response::Withhold,
    };
    let charge_after = properties.duration("chargeAfterMs", DELAY_MAX)?.unwrap_or_default();
    let delay = properties.duration("delayMs", DELAY_MAX)?.unwrap_or_default();
    Ok(Behaviour {
        charge_after,
        answer_after: delay + properties.jitter()?,
        truth: truth.map(with),
        response,
        late,
        reverse_after: properties.duration("reverseAfterMs", LATE_MAX)?,
        notifications: if properties.flag("duplicate")? { 2 } else { 0 },
    })
}

/// The properties of a call, or of a request about a payment method.
struct CallProperties<'a> {
    /// Those of the call, then those of the payment method, which have lower precedence.
    layers: [&'a Properties; 2],
    magic: &'static [(&'static str, &'static str)],
    /// The name of what is asked for, in Kill Bill's plugin interface.
    plugin_method: &'static str,
    /// The amount, if the operation has one, and the currency; `None` where it is about a payment method.
    money: Option<(Option<AmountMinor>, Currency)>,
    /// Its idempotency key.
    key: Uuid,
    /// The prefix of the properties' names, as their owner wrote them.
    prefix: &'a str,
}

static NO_PROPERTIES: Properties = Properties::new();

/// The properties that only payments have.
const PAYMENT_PROPERTY_NAMES: [&str; 7] = [
    "lateMs",
    "reverseAfterMs",
    "duplicate",
    "processedAmount",
    "processedCurrency",
    "firstReference",
    "secondReference",
];

/// The properties that disable magic amounts.
const PROPERTY_NAMES: &[&str] = &[
    "delayMs",
    "jitterMs",
    "chargeAfterMs",
    "outcome",
    "truth",
    "lostAnswer",
    "lateMs",
    "reverseAfterMs",
    "duplicate",
    "processedAmount",
    "processedCurrency",
    "errorCode",
    "errorMessage",
    "firstReference",
    "secondReference",
];

impl<'a> CallProperties<'a> {
    fn new(call: &'a GatewayCall) -> Self {
        let layers = [&call.properties, &call.payment_method_properties];
        let mut properties = layers.iter().flat_map(|layer| layer.iter());
        let has_property = properties.any(|(name, _)| {
            PROPERTY_NAMES.contains(&name.as_str()) || Action::named(name).is_some()
        });
        let minor = call.amount.map_or(0, |amount| amount.0);
        let magic = MAGIC_AMOUNTS.iter().find(|(amount, _)| *amount == minor && !has_property);
        Self {
            layers,
            magic: magic.map_or(&[], |(_, properties)| *properties),
            plugin_method: plugin_method(call.operation),
            money: Some((call.amount, call.currency)),
            key: call.transaction.uuid(),
            prefix: "",
        }
    }

    fn of_method(request: &MethodRequest, own: &'a Properties, prefix: &'a str) -> Self {
        Self {
            layers: [own, &NO_PROPERTIES],
            magic: &[],
            plugin_method: plugin_method_of(request.task),
            money: None,
            key: request.payment_method.uuid(),
            prefix,
        }
    }

    fn refuse_those_of_payments(&self) -> Result<(), InvalidProperty> {
        let mut names = PAYMENT_PROPERTY_NAMES.into_iter();
        match names.find(|name| self.money.is_none() && self.text(name).is_some()) {
            Some(property) => Err(InvalidProperty { property, reason: "is only of payments" }),
            None => Ok(()),
        }
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        let layer = |layer: &&'a Properties| {
            layer.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
        };
        let magic = || self.magic.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        self.layers.iter().find_map(layer).or_else(magic)
    }

    /// The requested outcome, and whether an outcome that it leaves unknown stays unknown.
    fn outcome(&self) -> Result<(RequestedOutcome, bool), InvalidProperty> {
        let method = self.plugin_method;
        for layer in self.layers {
            if let Some((_, text)) = layer.iter().find(|(name, _)| name == "outcome") {
                return Ok((self.named_outcome(text, method)?, false));
            }
            if let Some(action) = layer.iter().find_map(|(name, value)| {
                Action::named(name).filter(|_| value == "*" || value == "true" || value == method)
            }) {
                return Ok((action.outcome(method), true));
            }
        }
        let requested = match self.text("outcome") {
            Some(text) => self.named_outcome(text, method)?,
            None => RequestedOutcome::Status(GatewayStatus::Processed),
        };
        Ok((requested, false))
    }

    fn named_outcome(&self, text: &str, method: &str) -> Result<RequestedOutcome, InvalidProperty> {
        Ok(match text {
            "EXCEPTION" => {
                let own = self.text("errorMessage").map(str::to_owned);
                RequestedOutcome::Exception(own.unwrap_or_else(|| format!("EXCEPTION for {method}")))
            }
            "NULL" => RequestedOutcome::Null,
            "TIMEOUT" => RequestedOutcome::Timeout,
            other => RequestedOutcome::Status(status_named(other).ok_or(InvalidProperty {
                property: "outcome",
                reason: "must be PROCESSED, PENDING, ERROR, CANCELED, UNDEFINED, EXCEPTION, NULL or TIMEOUT",
            })?),
        })
    }

    /// `Some(None)`: the gateway does not process the request.
    fn truth(&self) -> Result<Option<Option<GatewayStatus>>, InvalidProperty> {
        let reason = "must be PROCESSED, PENDING, ERROR, CANCELED, UNDEFINED or NONE";
        match self.text("truth") {
            None => Ok(None),
            Some("NONE") => Ok(Some(None)),
            Some(text) => match status_named(text) {
                Some(status) => Ok(Some(Some(status))),
                None => Err(InvalidProperty { property: "truth", reason }),
            },
        }
    }

    /// The fields of the outcome except its status.
    fn details(&self) -> Result<GatewayOutcome, InvalidProperty> {
        let money = match self.money {
            Some((amount, currency)) => self.processed(amount, currency)?,
            None => None,
        };
        let owned = |name| self.text(name).map(str::to_owned);
        Ok(GatewayOutcome {
            amount: money.map(|it| it.0),
            currency: money.map(|it| it.1),
            error_code: owned("errorCode"),
            error_message: owned("errorMessage"),
            first_reference: owned("firstReference"),
            second_reference: owned("secondReference"),
            ..GatewayOutcome::new(GatewayStatus::Processed)
        })
    }

    /// The amount that is processed, in its currency; `None` where there is none.
    fn processed(
        &self,
        amount: Option<AmountMinor>,
        currency: Currency,
    ) -> Result<Option<(AmountMinor, Currency)>, InvalidProperty> {
        let currency = match self.text("processedCurrency") {
            None => currency,
            Some(code) => Currency::parse(code).ok_or(InvalidProperty {
                property: "processedCurrency",
                reason: "must be an ISO 4217 code",
            })?,
        };
        let amount = match self.text("processedAmount") {
            None => amount,
            Some(text) => {
                Some(AmountMinor::parse(text, currency).map_err(|_| InvalidProperty {
                    property: "processedAmount",
                    reason: "must be an amount of the currency",
                })?)
            }
        };
        Ok(amount.map(|it| (it, currency)))
    }

    fn flag(&self, name: &'static str) -> Result<bool, InvalidProperty> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(InvalidProperty { property: name, reason: "must be true or false" }),
        }
    }

    fn duration(
        &self,
        name: &'static str,
        max: Duration,
    ) -> Result<Option<Duration>, InvalidProperty> {
        self.text(name).map(|text| milliseconds(text, name, max)).transpose()
    }

    /// A value of the range that depends on the idempotency key, so that a repeated run has the same
    /// delays.
    fn jitter(&self) -> Result<Duration, InvalidProperty> {
        const NAME: &str = "jitterMs";
        let Some(text) = self.text(NAME) else { return Ok(Duration::ZERO) };
        let invalid = InvalidProperty { property: NAME, reason: "must be MIN-MAX in milliseconds" };
        let Some((min, max)) = text.split_once('-') else { return Err(invalid) };
        let min = milliseconds(min, NAME, DELAY_MAX)?;
        let max = milliseconds(max, NAME, DELAY_MAX)?;
        if max < min {
            return Err(invalid);
        }
        let (_, low) = self.key.as_u64_pair();
        let range_us = u64::try_from((max - min).as_micros()).unwrap_or(u64::MAX);
        Ok(min + Duration::from_micros(low % range_us.saturating_add(1)))
    }
}

fn milliseconds(
    text: &str,
    property: &'static str,
    max: Duration,
) -> Result<Duration, InvalidProperty> {
    let reason = "must be a whole number of milliseconds within bounds";
    let parsed = text.parse().map(Duration::from_millis);
    parsed.ok().filter(|it| *it <= max).ok_or(InvalidProperty { property, reason })
}

fn status_named(name: &str) -> Option<GatewayStatus> {
    match name {
        "PROCESSED" => Some(GatewayStatus::Processed),
        "PENDING" => Some(GatewayStatus::Pending),
        "ERROR" => Some(GatewayStatus::Error),
        "CANCELED" => Some(GatewayStatus::Canceled),
        "UNDEFINED" => Some(GatewayStatus::Undefined),
        _ => None,
    }
}

/// The actions of Kill Bill's payment-test plugin.
#[derive(Clone, Copy)]
pub(super) enum Action {
    Pending,
    Error,
    Canceled,
    Throw,
    Nil,
    Sleep,
}

impl Action {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "ACTION_RETURN_PLUGIN_STATUS_PENDING" => Some(Self::Pending),
            "ACTION_RETURN_PLUGIN_STATUS_ERROR" => Some(Self::Error),
            "ACTION_RETURN_PLUGIN_STATUS_CANCELED" => Some(Self::Canceled),
            "ACTION_THROW_EXCEPTION" => Some(Self::Throw),
            "RETURN_NIL" | "ACTION_RETURN_NIL" => Some(Self::Nil),
            "ACTION_SLEEP" => Some(Self::Sleep),
            _ => None,
        }
    }

    fn outcome(self, method: &str) -> RequestedOutcome {
        match self {
            Self::Pending => RequestedOutcome::Status(GatewayStatus::Pending),
            Self::Error => RequestedOutcome::Status(GatewayStatus::Error),
            Self::Canceled => RequestedOutcome::Status(GatewayStatus::Canceled),
            Self::Throw => {
                RequestedOutcome::Exception(format!("ACTION_THROW_EXCEPTION for {method}"))
            }
            Self::Nil => RequestedOutcome::Null,
            // Kill Bill records an unknown outcome for it, without a delay.
            Self::Sleep => RequestedOutcome::Status(GatewayStatus::Undefined),
        }
    }
}

#[cfg(test)]
mod tests;
