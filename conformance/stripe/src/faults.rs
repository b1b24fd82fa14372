//! Faults that a test asks for: what goes wrong, with which requests or events, how often.

use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::ids::Ids;
use crate::params::Params;

const RULES_MAX: usize = 100;

/// One rule. A rule with `event` is about events, any other about requests.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(default, rename = "match")]
    pub matches: Match,
    pub fault: Fault,
    /// Of 1.
    #[serde(default = "always")]
    pub probability: f64,
    /// How often it strikes; without end if absent.
    #[serde(default)]
    pub count: Option<u64>,
    /// How many matches it leaves alone first.
    #[serde(default)]
    pub skip: u64,
    /// Of `delay` and `delay_event`; a delayed event waits on the fake's clock, a request in real time.
    #[serde(default)]
    pub delay_ms: u64,
    /// Of `delay` and the errors.
    #[serde(default)]
    pub when: When,
}

fn always() -> f64 {
    1.0
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    pub method: Option<String>,
    /// A prefix by segments; `*` is any segment, a `$` at the end makes it the whole path.
    pub path: Option<String>,
    /// `metadata[key]` of the request.
    pub metadata: std::collections::BTreeMap<String, String>,
    /// A prefix of the event's type.
    pub event: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Does the work and cuts the connection.
    LoseAnswer,
    /// Cuts the connection and does nothing.
    CutBefore,
    /// Does the work and cuts the connection in the middle of the answer.
    CutInAnswer,
    /// Does the work and answers 200 with a text that is no JSON.
    AnswerGarbage,
    Delay,
    /// 409 `idempotency_key_in_use`.
    KeyInUse,
    /// 409 without a code.
    Conflict,
    /// 429 `rate_limit`.
    RateLimit,
    /// 429 `lock_timeout`.
    LockTimeout,
    /// 500 `api_error`; after the work it is stored under the key, as at Stripe.
    ServerError,
    DoubleEvent,
    DropEvent,
    DelayEvent,
}

/// Before or after the work.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    #[default]
    Before,
    After,
}

impl Fault {
    fn is_of_events(self) -> bool {
        matches!(self, Fault::DoubleEvent | Fault::DropEvent | Fault::DelayEvent)
    }

    /// The error of a fault that is one.
    fn error(self) -> Option<ApiError> {
        match self {
            Fault::KeyInUse => Some(ApiError::key_in_use("of a fault")),
            Fault::Conflict => Some(ApiError::conflict()),
            Fault::RateLimit => Some(ApiError::rate_limit("rate_limit")),
            Fault::LockTimeout => Some(ApiError::rate_limit("lock_timeout")),
            Fault::ServerError => Some(ApiError::server()),
            Fault::LoseAnswer
            | Fault::CutBefore
            | Fault::CutInAnswer
            | Fault::AnswerGarbage
            | Fault::Delay
            | Fault::DoubleEvent
            | Fault::DropEvent
            | Fault::DelayEvent => None,
        }
    }
}

/// What goes wrong with one request.
#[derive(Default)]
pub struct Plan {
    pub delay_before_ms: u64,
    pub delay_after_ms: u64,
    pub cut_before: bool,
    pub error_before: Option<ApiError>,
    pub error_after: Option<ApiError>,
    pub lose_answer: bool,
    pub cut_in_answer: bool,
    pub answer_garbage: bool,
}

/// When an event is sent, in ms from now; empty if it is not.
pub type Sendings = Vec<u64>;

struct Active {
    rule: Rule,
    matched: u64,
    struck: u64,
}

pub struct Faults {
    rules: Vec<Active>,
    random: Ids,
    /// Of all rules there ever were.
    pub struck: u64,
}

impl Faults {
    pub fn new(seed: u64) -> Faults {
        Faults { rules: Vec::new(), random: Ids::new(seed), struck: 0 }
    }

    pub fn add(&mut self, rules: Vec<Rule>) -> Result<(), ApiError> {
        if self.rules.len() + rules.len() > RULES_MAX {
            return Err(ApiError::request(format!(
                "There are at most {RULES_MAX} rules of faults"
            )));
        }
        if let Some(rule) =
            rules.iter().find(|it| it.fault.is_of_events() != it.matches.event.is_some())
        {
            let fault = serde_json::to_string(&rule.fault).expect("a fault is a word");
            return Err(ApiError::request(format!(
                "{fault}: `match.event` is for faults of events, and only for them"
            )));
        }
        self.rules.extend(rules.into_iter().map(|rule| Active { rule, matched: 0, struck: 0 }));
        Ok(())
    }

    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Each rule with how often it struck.
    pub fn list(&self) -> serde_json::Value {
        let render = |it: &Active| serde_json::json!({ "rule": it.rule, "matched": it.matched, "struck": it.struck });
        self.rules.iter().map(render).collect()
    }

    pub fn plan(&mut self, method: &str, path: &str, params: &Params) -> Plan {
        let mut plan = Plan::default();
        for fault in
            self.strike(|it| it.event.is_none() && matches_request(it, method, path, params))
        {
            match fault.fault {
                Fault::LoseAnswer => plan.lose_answer = true,
                Fault::CutBefore => plan.cut_before = true,
                Fault::CutInAnswer => plan.cut_in_answer = true,
                Fault::AnswerGarbage => plan.answer_garbage = true,
                Fault::Delay if fault.when == When::Before => {
                    plan.delay_before_ms += fault.delay_ms
                }
                Fault::Delay => plan.delay_after_ms += fault.delay_ms,
                Fault::KeyInUse
                | Fault::Conflict
                | Fault::RateLimit
                | Fault::LockTimeout
                | Fault::ServerError => {
                    let slot = match fault.when {
                        When::Before => &mut plan.error_before,
                        When::After => &mut plan.error_after,
                    };
                    *slot = fault.fault.error();
                }
                Fault::DoubleEvent | Fault::DropEvent | Fault::DelayEvent => {}
            }
        }
        plan
    }

    pub fn sendings(&mut self, event: &str) -> Sendings {
        let mut sendings = vec![0];
        for fault in
            self.strike(|it| it.event.as_deref().is_some_and(|prefix| event.starts_with(prefix)))
        {
            match fault.fault {
                Fault::DoubleEvent => sendings.push(sendings.first().copied().unwrap_or_default()),
                Fault::DropEvent => sendings.clear(),
                Fault::DelayEvent => sendings.iter_mut().for_each(|it| *it += fault.delay_ms),
                Fault::LoseAnswer
                | Fault::CutBefore
                | Fault::CutInAnswer
                | Fault::AnswerGarbage
                | Fault::Delay
                | Fault::KeyInUse
                | Fault::Conflict
                | Fault::RateLimit
                | Fault::LockTimeout
                | Fault::ServerError => {}
            }
        }
        sendings
    }

    fn strike(&mut self, matches: impl Fn(&Match) -> bool) -> Vec<Rule> {
        let mut struck = Vec::new();
        for active in self.rules.iter_mut().filter(|it| matches(&it.rule.matches)) {
            active.matched += 1;
            let is_over = active.rule.count.is_some_and(|it| active.struck >= it);
            if is_over || active.matched <= active.rule.skip {
                continue;
            }
            let drawn = (self.random.number() >> 11) as f64 / (1u64 << 53) as f64;
            if drawn < active.rule.probability {
                active.struck += 1;
                struck.push(active.rule.clone());
            }
        }
        self.struck += struck.len() as u64;
        struck
    }
}

fn matches_request(wanted: &Match, method: &str, path: &str, params: &Params) -> bool {
    let of_metadata =
        |(key, value): (&String, &String)| params.text(&format!("metadata[{key}]")) == Some(value);
    wanted.method.as_deref().is_none_or(|it| it == method)
        && wanted.path.as_deref().is_none_or(|it| matches_path(it, path))
        && wanted.metadata.iter().all(of_metadata)
}

fn matches_path(pattern: &str, path: &str) -> bool {
    let (pattern, is_whole) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let (wanted, found): (Vec<&str>, Vec<&str>) =
        (pattern.split('/').collect(), path.split('/').collect());
    let fits = wanted.len() == found.len() || (!is_whole && wanted.len() < found.len());
    fits && wanted.iter().zip(&found).all(|(wanted, found)| *wanted == "*" || wanted == found)
}
