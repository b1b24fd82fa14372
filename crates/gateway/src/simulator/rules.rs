//! What the simulator does with a call: read from the call's properties, the payment method's, or
//! the amount.
//!
//! | property | meaning |
//! |---|---|
//! | `delayMs` | the answer comes after so long; 0 by default |
//! | `jitterMs=MIN-MAX` | added to `delayMs`, the same for the same transaction |
//! | `chargeAfterMs` | the charge is made so long after the call came; 0 by default |
//! | `outcome` | `PROCESSED` (default), `PENDING`, `ERROR`, `CANCELED`, `UNDEFINED`, `EXCEPTION`, `NULL`, `TIMEOUT` |
//! | `truth` | what really happened, where the outcome hides it: `PROCESSED`, `PENDING`, `ERROR`, `CANCELED`, `UNDEFINED`, `NONE` |
//! | `lostAnswer=true` | the outcome happens, the answer never comes |
//! | `lateMs` | the truth comes so long after the charge, with a notification |
//! | `reverseAfterMs` | a success turns into a failure so long after it, with a notification |
//! | `duplicate=true` | the outcome is also notified, twice |
//! | `processedAmount`, `processedCurrency` | what is charged instead of what was asked for |
//! | `errorCode`, `errorMessage` | the gateway's words |
//! | `firstReference`, `secondReference` | the gateway's references |
//!
//! `EXCEPTION`, `NULL` and `TIMEOUT` charge nothing unless `truth` says so. With `lateMs` and
//! without a final outcome the truth is `PROCESSED` by default.
//!
//! Where no property says anything, these amounts (in minor units) do: see [`MAGIC_AMOUNTS`].
//!
//! Kill Bill's payment-test plugin is understood too: `ACTION_RETURN_PLUGIN_STATUS_PENDING`,
//! `..._ERROR`, `..._CANCELED`, `ACTION_THROW_EXCEPTION`, `RETURN_NIL`, `ACTION_SLEEP`, with `*` or
//! the name of a plugin method as value. What they leave unknown stays unknown, as it does there.

use std::time::Duration;

use domain::payment::{GatewayAnswer, GatewayOutcome, GatewayStatus, TransactionType};
use domain::{AmountMinor, Currency, GatewayCall, Properties};

/// The longest delay of an answer that can be asked for.
pub const DELAY_MAX: Duration = Duration::from_secs(600);
/// The longest time until a late outcome or a reversal.
pub const LATE_MAX: Duration = Duration::from_secs(24 * 3600);

/// What an amount stands for, in minor units (666.01 in a currency with two decimals), where
/// neither the request nor the payment method says what to do.
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

/// What will happen to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// How long after the call the charge is made.
    pub charge_after: Duration,
    /// How long after the call the answer comes.
    pub answer_after: Duration,
    /// What is written at the charge; `None`: the gateway never took the request.
    pub truth: Option<GatewayOutcome>,
    /// What is answered.
    pub answer: Saying,
    /// What the truth becomes later, counted from the charge.
    pub late: Option<Late>,
    /// How long after the charge a success is reversed.
    pub reverse_after: Option<Duration>,
    /// How many notifications the charge itself sends.
    pub notices: u8,
}

/// What the caller hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saying {
    /// This.
    Answer(GatewayAnswer),
    /// Nothing, until the caller gives up.
    Silence,
}

/// Something that happens later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// How long after the charge.
    pub after: Duration,
    /// What it is then; as it was, where it was final already.
    pub outcome: GatewayOutcome,
}

/// Decides what happens to a call. Depends on nothing but the call.
#[must_use]
pub fn decide(call: &GatewayCall) -> Behaviour {
    match read(call) {
        Ok(behaviour) => behaviour,
        Err(invalid) => {
            let outcome = GatewayOutcome {
                error_code: Some("INVALID_PROPERTY".to_owned()),
                error_message: Some(format!("{} {}", invalid.property, invalid.reason)),
                ..outcome(GatewayStatus::Canceled)
            };
            Behaviour { truth: Some(outcome.clone()), ..Behaviour::answering(outcome) }
        }
    }
}

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

impl Behaviour {
    /// Answers this at once; nothing else happens.
    const fn answering(outcome: GatewayOutcome) -> Self {
        Self {
            charge_after: Duration::ZERO,
            answer_after: Duration::ZERO,
            truth: None,
            answer: Saying::Answer(GatewayAnswer::Outcome(outcome)),
            late: None,
            reverse_after: None,
            notices: 0,
        }
    }
}

const fn outcome(status: GatewayStatus) -> GatewayOutcome {
    GatewayOutcome {
        status,
        amount: None,
        currency: None,
        error_code: None,
        error_message: None,
        first_reference: None,
        second_reference: None,
    }
}

/// What `outcome` can say.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Status(GatewayStatus),
    Exception(String),
    Null,
    Timeout,
}

/// A property that says what cannot be done.
struct Invalid {
    property: &'static str,
    reason: &'static str,
}

fn read(call: &GatewayCall) -> Result<Behaviour, Invalid> {
    let wishes = Wishes::of(call);
    let (asked, stays_unknown) = wishes.outcome(call)?;
    let details = wishes.details(call)?;
    let with = |status| GatewayOutcome { status, ..details.clone() };
    let late_after = wishes.duration("lateMs", LATE_MAX)?;
    let truth_wish = wishes.truth()?;

    let hidden = match &asked {
        Asked::Status(status) => Some(*status),
        Asked::Exception(_) | Asked::Null | Asked::Timeout if stays_unknown => {
            Some(GatewayStatus::Undefined)
        }
        Asked::Exception(_) | Asked::Null | Asked::Timeout => None,
    };
    let is_final = matches!(
        asked,
        Asked::Status(GatewayStatus::Processed | GatewayStatus::Error | GatewayStatus::Canceled)
    );
    let (truth, late) = match late_after {
        Some(after) if is_final => {
            (hidden, hidden.map(|status| Late { after, outcome: with(status) }))
        }
        Some(after) => match truth_wish.unwrap_or(Some(GatewayStatus::Processed)) {
            Some(status) => {
                let now = hidden.unwrap_or(GatewayStatus::Undefined);
                (Some(now), Some(Late { after, outcome: with(status) }))
            }
            None => (hidden, None),
        },
        None => (truth_wish.unwrap_or(hidden), None),
    };
    let answer = match asked {
        _ if wishes.flag("lostAnswer")? => Saying::Silence,
        Asked::Status(status) => Saying::Answer(GatewayAnswer::Outcome(with(status))),
        Asked::Exception(message) => Saying::Answer(GatewayAnswer::Failed { message }),
        Asked::Null => Saying::Answer(GatewayAnswer::Nothing),
        Asked::Timeout => Saying::Silence,
    };
    let charge_after = wishes.duration("chargeAfterMs", DELAY_MAX)?.unwrap_or_default();
    let delay = wishes.duration("delayMs", DELAY_MAX)?.unwrap_or_default();
    Ok(Behaviour {
        charge_after,
        answer_after: delay + wishes.jitter(call)?,
        truth: truth.map(with),
        answer,
        late,
        reverse_after: wishes.duration("reverseAfterMs", LATE_MAX)?,
        notices: if wishes.flag("duplicate")? { 2 } else { 0 },
    })
}

/// The properties that count, the strongest first.
struct Wishes<'a> {
    layers: [&'a Properties; 2],
    magic: &'static [(&'static str, &'static str)],
}

/// Every property that makes a magic amount an ordinary one.
const UNDERSTOOD: &[&str] = &[
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

impl<'a> Wishes<'a> {
    fn of(call: &'a GatewayCall) -> Self {
        let layers = [&call.properties, &call.payment_method_properties];
        let mut given = layers.iter().flat_map(|layer| layer.iter());
        let says_something = given
            .any(|(name, _)| UNDERSTOOD.contains(&name.as_str()) || Action::named(name).is_some());
        let minor = call.amount.map_or(0, |amount| amount.0);
        let magic = MAGIC_AMOUNTS.iter().find(|(amount, _)| *amount == minor && !says_something);
        Self { layers, magic: magic.map_or(&[], |(_, properties)| *properties) }
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        let layer = |layer: &&'a Properties| {
            layer.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
        };
        let magic = || self.magic.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        self.layers.iter().find_map(layer).or_else(magic)
    }

    /// What is asked for, and whether what it leaves unknown stays so for good.
    fn outcome(&self, call: &GatewayCall) -> Result<(Asked, bool), Invalid> {
        let method = plugin_method(call.operation);
        for layer in self.layers {
            if let Some((_, text)) = layer.iter().find(|(name, _)| name == "outcome") {
                return Ok((self.named_outcome(text, method)?, false));
            }
            if let Some(action) = layer.iter().find_map(|(name, value)| {
                Action::named(name).filter(|_| value == "*" || value == "true" || value == method)
            }) {
                return Ok((action.asked(method), true));
            }
        }
        let asked = match self.text("outcome") {
            Some(text) => self.named_outcome(text, method)?,
            None => Asked::Status(GatewayStatus::Processed),
        };
        Ok((asked, false))
    }

    fn named_outcome(&self, text: &str, method: &str) -> Result<Asked, Invalid> {
        Ok(match text {
            "EXCEPTION" => {
                let own = self.text("errorMessage").map(str::to_owned);
                Asked::Exception(own.unwrap_or_else(|| format!("EXCEPTION for {method}")))
            }
            "NULL" => Asked::Null,
            "TIMEOUT" => Asked::Timeout,
            other => Asked::Status(status_named(other).ok_or(Invalid {
                property: "outcome",
                reason: "must be PROCESSED, PENDING, ERROR, CANCELED, UNDEFINED, EXCEPTION, NULL or TIMEOUT",
            })?),
        })
    }

    /// `Some(None)`: the gateway never took the request.
    fn truth(&self) -> Result<Option<Option<GatewayStatus>>, Invalid> {
        let reason = "must be PROCESSED, PENDING, ERROR, CANCELED, UNDEFINED or NONE";
        match self.text("truth") {
            None => Ok(None),
            Some("NONE") => Ok(Some(None)),
            Some(text) => match status_named(text) {
                Some(status) => Ok(Some(Some(status))),
                None => Err(Invalid { property: "truth", reason }),
            },
        }
    }

    /// Everything of an outcome but its status.
    fn details(&self, call: &GatewayCall) -> Result<GatewayOutcome, Invalid> {
        let currency = match self.text("processedCurrency") {
            None => call.currency,
            Some(code) => Currency::parse(code).ok_or(Invalid {
                property: "processedCurrency",
                reason: "must be an ISO 4217 code",
            })?,
        };
        let amount = match self.text("processedAmount") {
            None => call.amount,
            Some(text) => Some(AmountMinor::parse(text, currency).map_err(|_| Invalid {
                property: "processedAmount",
                reason: "must be an amount of the currency",
            })?),
        };
        let owned = |name| self.text(name).map(str::to_owned);
        Ok(GatewayOutcome {
            amount,
            currency: amount.map(|_| currency),
            error_code: owned("errorCode"),
            error_message: owned("errorMessage"),
            first_reference: owned("firstReference"),
            second_reference: owned("secondReference"),
            ..outcome(GatewayStatus::Processed)
        })
    }

    fn flag(&self, name: &'static str) -> Result<bool, Invalid> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Invalid { property: name, reason: "must be true or false" }),
        }
    }

    fn duration(&self, name: &'static str, max: Duration) -> Result<Option<Duration>, Invalid> {
        self.text(name).map(|text| milliseconds(text, name, max)).transpose()
    }

    /// Between the two ends, by the transaction's id: a repeated run has the same delays.
    fn jitter(&self, call: &GatewayCall) -> Result<Duration, Invalid> {
        const NAME: &str = "jitterMs";
        let Some(text) = self.text(NAME) else { return Ok(Duration::ZERO) };
        let invalid = Invalid { property: NAME, reason: "must be MIN-MAX in milliseconds" };
        let Some((min, max)) = text.split_once('-') else { return Err(invalid) };
        let min = milliseconds(min, NAME, DELAY_MAX)?;
        let max = milliseconds(max, NAME, DELAY_MAX)?;
        if max < min {
            return Err(invalid);
        }
        let (_, low) = call.transaction.uuid().as_u64_pair();
        let spread_us = u64::try_from((max - min).as_micros()).unwrap_or(u64::MAX);
        Ok(min + Duration::from_micros(low % spread_us.saturating_add(1)))
    }
}

fn milliseconds(text: &str, property: &'static str, max: Duration) -> Result<Duration, Invalid> {
    let reason = "must be a whole number of milliseconds within bounds";
    let given = text.parse().map(Duration::from_millis);
    given.ok().filter(|given| *given <= max).ok_or(Invalid { property, reason })
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
enum Action {
    Pending,
    Error,
    Canceled,
    Throw,
    Nil,
    Sleep,
}

impl Action {
    fn named(name: &str) -> Option<Self> {
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

    fn asked(self, method: &str) -> Asked {
        match self {
            Self::Pending => Asked::Status(GatewayStatus::Pending),
            Self::Error => Asked::Status(GatewayStatus::Error),
            Self::Canceled => Asked::Status(GatewayStatus::Canceled),
            Self::Throw => Asked::Exception(format!("ACTION_THROW_EXCEPTION for {method}")),
            Self::Nil => Asked::Null,
            // Recorded as an unknown outcome that comes at once, whatever its name says.
            Self::Sleep => Asked::Status(GatewayStatus::Undefined),
        }
    }
}

#[cfg(test)]
mod tests;
