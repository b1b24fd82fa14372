//! The stages of billing beside what was recorded of Kill Bill 0.24.19: each invoice of a scenario is computed from the
//! subscriptions' events that were known on its day, and from the invoices before it.
//!
//! Only scenarios whose events follow from the recording are compared: subscriptions that are made, changed,
//! cancelled, paused, resumed and blocked, or have another quantity or bill cycle day, without an override.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use domain::account::calendar::AccountCalendar;
use domain::billing::propose::propose;
use domain::billing::reconcile::{Billed, BilledFixed, BilledPeriod, Repaired, reconcile};
use domain::billing::settle::settle;
use domain::billing::timeline::{
    Basis, BillCycleDays, Blocked, PlanChange, To, Transition, own_day, timeline,
};
use domain::billing::{BillingSettings, Run};
use domain::catalog::period::next_on_day;
use domain::catalog::versions::Versions;
use domain::catalog::{DEFAULT_PRICE_LIST, PhaseType};
use domain::{AmountMinor, Currency, Timestamp};
use jiff::civil::Date;
use serde_json::Value;

use super::compiled;

/// How many scenarios are compared at least.
const COMPARED_MIN: usize = 87;

/// The requests whose events are compared, and the events.
const REQUESTS: [(&str, &str); 5] = [
    ("create", "START_BILLING"),
    ("change", "CHANGE"),
    ("cancel", "STOP_BILLING"),
    ("pause", "PAUSE_BILLING"),
    ("resume", "RESUME_BILLING"),
];

/// Scenarios in which Kill Bill charges a fixed price again, and this does not.
const DIFFERENT: [&str; 4] = [
    "pause-lifetime-fixed",
    "pause-resume-after-setup-fee",
    "pause-resume-inside-paid-trial",
    "qty-change-after-setup-fee",
];

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    fs::read_to_string(root.join("conformance/vectors/subscriptions").join(path)).unwrap()
}

fn json(path: &str) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn date(value: &Value) -> Date {
    text(value)[..10].parse().unwrap()
}

/// `2024-01-11T06:20Z`, or a day, which is 06:00.
fn time(text: &str) -> Timestamp {
    let text = text.trim_end_matches('Z');
    let text = if text.len() == 10 { format!("{text}T06:00") } else { text.to_owned() };
    Timestamp(format!("{text}:00Z").parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

/// A transition or an instant, and the number of the step that asked for it.
struct Known<T> {
    since: usize,
    it: T,
}

/// A subscription of a scenario.
struct Subscribed {
    transitions: Vec<Known<Transition>>,
    blocked: Vec<(Known<Timestamp>, Option<Known<Timestamp>>)>,
    billed: Billed,
}

impl Subscribed {
    /// `None`: its events do not follow from the recording.
    fn read(recorded: &Value, steps: &[Value], versions: &Versions) -> Option<Self> {
        let events = list(&recorded["events"]);
        let mut requests: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let reference = text(&recorded["sub"]);
        let is_own = |it: &Value| it["params"]["ref"].as_str().unwrap_or("base") == reference;
        let made = steps.iter().rfind(|it| text(&it["action"]) == "create" && is_own(it))?;
        for (action, event) in REQUESTS {
            let of_action = |it: &&Value| text(&it["action"]) == action && succeeded(it);
            let all = steps.iter().enumerate().filter(|(_, it)| of_action(it));
            // Who cancels or pauses a base does so to its add-ons.
            let is_alone = matches!(action, "create" | "change");
            let own: Vec<_> =
                all.filter(|(_, it)| !is_alone || is_own(it)).map(|(at, _)| at).collect();
            let happened = events.iter().filter(|it| text(&it[1]) == event).count();
            let is_blocked = steps.iter().any(|it| text(&it["action"]) == "block");
            if !is_blocked && happened > own.len()
                || !is_blocked && action != "cancel" && happened < own.len()
            {
                return None;
            }
            requests.insert(event, own.into_iter().rev().collect());
        }
        let mut it = Self { transitions: vec![], blocked: vec![], billed: Billed::default() };
        let mut since = None;
        for event in events {
            let (kind, at) = (text(&event[1]), time(text(&event[0])));
            let plan = |by| {
                let name = text(&event[4]);
                let (plan, _) = name.rsplit_once('-')?;
                let phase = PhaseType::ALL.into_iter().find(|it| it.of_plan(plan) == name)?;
                // A plan of an override is not in the catalog.
                versions.plan(plan, at, at)?;
                let (plan, price_list) = (plan.to_owned(), DEFAULT_PRICE_LIST.to_owned());
                Some(To::Plan { by, plan, price_list, phase, until: None, overrides: None })
            };
            let at_that_time = |it: &Value| step_time(it, steps) == at;
            let mut asked = || {
                let of_kind = requests.get_mut(kind).and_then(Vec::pop);
                of_kind.or_else(|| steps.iter().position(at_that_time))
            };
            let to = match kind {
                "START_BILLING" => {
                    since = asked();
                    plan(PlanChange::Create)?
                }
                "PHASE" => plan(PlanChange::Phase)?,
                "CHANGE" => {
                    since = asked();
                    plan(PlanChange::Change)?
                }
                "STOP_BILLING" => {
                    since = asked();
                    To::Cancelled { with_base: false }
                }
                "PAUSE_BILLING" => {
                    it.blocked.push((Known { since: asked()?, it: at }, None));
                    continue;
                }
                "RESUME_BILLING" => {
                    it.blocked.last_mut()?.1 = Some(Known { since: asked()?, it: at });
                    continue;
                }
                _ => continue,
            };
            it.transitions.push(Known { since: since?, it: Transition { at, to } });
            let first = kind == "START_BILLING";
            let number = |name: &str| made["params"][name].as_u64().filter(|_| first);
            let quantity = number("qty").and_then(|it| u32::try_from(it).ok()).map(To::Quantity);
            let day = number("bcd").and_then(|it| u8::try_from(it).ok()).map(To::BillCycleDay);
            let more = quantity.into_iter().chain(day).map(|to| Transition { at, to });
            it.transitions.extend(more.map(|it| Known { since: since.unwrap_or_default(), it }));
        }
        Some(it)
    }

    /// What is known of it before a step.
    fn known(&self, steps: usize) -> (Vec<Transition>, Vec<Blocked>) {
        let transitions = self.transitions.iter().filter(|it| it.since < steps);
        let blocked = self.blocked.iter().filter(|(from, _)| from.since < steps);
        let span = |(from, until): &(Known<Timestamp>, Option<Known<Timestamp>>)| Blocked {
            from: from.it,
            until: until.as_ref().filter(|it| it.since < steps).map(|it| it.it),
        };
        (transitions.map(|it| it.it.clone()).collect(), blocked.map(span).collect())
    }
}

/// The time of a step: the first day begins at 06:00, other days have their steps at 06:20.
fn step_time(step: &Value, steps: &[Value]) -> Timestamp {
    let at = text(&step["date"]);
    let is_later = at.len() == 10 && at != text(&steps[0]["date"]);
    time(&if is_later { format!("{at}T06:20") } else { at.to_owned() })
}

fn succeeded(step: &Value) -> bool {
    step["result"]["status"].as_u64() < Some(300)
}

/// An account of a scenario.
struct Account {
    versions: Versions,
    calendar: AccountCalendar,
    currency: Currency,
    days: BillCycleDays,
    settings: BillingSettings,
    credit: AmountMinor,
    subscriptions: Vec<Subscribed>,
    /// The local day of each step, and whether it changes what is billed.
    steps: Vec<(Date, bool)>,
}

impl Account {
    fn read(scenario: &Value, versions: Versions, config: &Value) -> Option<Self> {
        let account = &scenario["account"];
        let zone = account["tz"].as_str().unwrap_or("UTC");
        let steps = list(&scenario["steps"]);
        let known = ["account", "end", "trigger", "dryrun", "balance", "qty", "subbcd", "block"];
        let is_known = |it: &Value| {
            let action = text(&it["action"]);
            known.contains(&action) || REQUESTS.iter().any(|(name, _)| *name == action)
        };
        let recorded = &scenario["result"]["A"];
        let is_paid = matches!(account["pm"].as_str(), None | Some("ext"));
        if !steps.iter().all(is_known) || account.get("ref").is_some() || !is_paid {
            return None;
        }
        let reference = time(text(&steps[0]["date"]));
        let subscriptions = list(&recorded["subscriptions"]);
        let subscriptions = subscriptions.iter().map(|it| Subscribed::read(it, steps, &versions));
        let mut subscriptions = subscriptions.collect::<Option<Vec<_>>>()?;
        let calendar = AccountCalendar::new(zone, reference);
        for (since, step) in steps.iter().enumerate().filter(|(_, it)| succeeded(it)) {
            let params = &step["params"];
            let asked = step_time(step, steps);
            let from = params["date"]
                .as_str()
                .map_or(asked, |it| calendar.instant(it.parse().unwrap()).unwrap());
            let number = |name: &str| u32::try_from(params[name].as_u64().unwrap()).unwrap();
            let (at, to) = match text(&step["action"]) {
                "qty" => (from, To::Quantity(number("qty"))),
                "subbcd" => {
                    let day = u8::try_from(number("bcd")).unwrap();
                    let date = next_on_day(calendar.date(from), day).unwrap();
                    (calendar.instant(date).unwrap(), To::BillCycleDay(day))
                }
                _ => continue,
            };
            let base = &mut subscriptions.first_mut()?.transitions;
            base.push(Known { since, it: Transition { at, to } });
            base.sort_by_key(|it| it.it.at);
        }
        let currency = account["currency"].as_str().unwrap_or("USD");
        let step = |it: &Value| {
            let action = text(&it["action"]);
            let bills = ["qty", "subbcd", "block"].contains(&action)
                || REQUESTS.iter().any(|(name, _)| *name == action);
            (calendar.date(time(text(&it["date"]))), bills && succeeded(it))
        };
        let day = recorded["bcd"].as_u64().and_then(|it| u8::try_from(it).ok());
        Some(Self {
            versions,
            calendar,
            credit: AmountMinor::ZERO,
            settings: BillingSettings {
                greedy: text(&config["org.killbill.invoice.inArrear.mode"]) == "GREEDY",
                fixed_days: text(&config["org.killbill.invoice.proration.fixed.days"])
                    .parse()
                    .unwrap_or_default(),
                ..BillingSettings::DEFAULT
            },
            steps: steps.iter().map(step).collect(),
            currency: Currency::parse(currency)?,
            days: BillCycleDays { account: day.filter(|it| *it > 0), bundle: None },
            subscriptions,
        })
    }

    /// How many steps an invoice knows: where a day has as many requests as invoices, each knows one more.
    fn steps_of(&self, on: Date, (number, of_day): (usize, usize)) -> usize {
        let before = self.steps.iter().filter(|(day, _)| *day < on).count();
        let of_that_day = self.steps[before..].iter().take_while(|(day, _)| *day == on);
        let requests: Vec<_> = of_that_day
            .enumerate()
            .filter(|(_, (_, bills))| *bills)
            .map(|(at, _)| before + at)
            .collect();
        match requests.get(number) {
            Some(at) if requests.len() == of_day => at + 1,
            _ => requests.last().map_or(before, |at| at + 1),
        }
    }

    /// The items of an invoice, a line each, in order; they are billed then.
    fn bill(&mut self, steps: usize, target: Date) -> Vec<String> {
        let settings = self.settings;
        let (horizon, today, currency) = (Date::MIN, Date::MAX, self.currency);
        let run = Run { target, horizon, today, currency, settings };
        let mut lines = vec![];
        let mut balance = 0;
        let mut days = self.days;
        for it in &mut self.subscriptions {
            let (transitions, blocked) = it.known(steps);
            if transitions.is_empty() {
                continue;
            }
            let subscription = Basis {
                transitions: &transitions,
                blocked: &blocked,
                versions: &self.versions,
                calendar: self.calendar,
                currency: self.currency,
                days,
            };
            // The first one is the bundle's base.
            days.bundle = days.bundle.or(own_day(&subscription).ok());
            let events = timeline(&subscription).unwrap();
            let proposal = propose(&events, &run).unwrap();
            let due = reconcile(&it.billed, proposal, &run).unwrap();
            for fixed in due.fixed {
                let until = fixed.end.map_or_else(String::new, |it| it.to_string());
                let amount = fixed.amount.decimal(self.currency);
                lines.push(format!(
                    "FIXED {} {} > {until} {amount}",
                    fixed.terms.phase, fixed.start
                ));
                balance += fixed.amount.0;
                it.billed.fixed.push(BilledFixed { start: fixed.start, amount: fixed.amount });
            }
            for repair in due.repairs {
                let amount = AmountMinor(-repair.amount.0).decimal(self.currency);
                lines.push(format!("REPAIR_ADJ  {} > {} {amount}", repair.start, repair.end));
                let (start, end, amount) = (repair.start, repair.end, repair.amount);
                balance -= amount.0;
                it.billed.periods[repair.of].repairs.push(Repaired { start, end, amount });
            }
            for charge in due.recurring {
                let (phase, start, end) = (&charge.terms.phase, charge.start, charge.end);
                let amount = charge.amount.decimal(self.currency);
                lines.push(format!("RECURRING {phase} {start} > {end} {amount}"));
                balance += charge.amount.0;
                it.billed.periods.push(BilledPeriod {
                    plan: charge.terms.plan.clone(),
                    phase: phase.clone(),
                    start,
                    end,
                    amount: charge.amount,
                    rate: charge.rate,
                    adjusted: AmountMinor::ZERO,
                    repairs: vec![],
                });
            }
        }
        let change = settle(AmountMinor(balance), self.credit);
        if !change.is_zero() {
            lines.push(format!("CBA_ADJ {}", change.decimal(self.currency)));
            self.credit = self.credit.checked_add(change).unwrap();
        }
        lines.sort_unstable();
        lines
    }
}

fn recorded_lines(invoice: &Value, currency: Currency) -> Vec<String> {
    let line = |it: &Value| {
        let amount = AmountMinor::parse(&it["amount"].to_string(), currency).unwrap();
        let (kind, phase) = (text(&it["type"]), text(&it["phase"]));
        let (start, end) = (text(&it["start"]), text(&it["end"]));
        match kind {
            "CBA_ADJ" => format!("{kind} {}", amount.decimal(currency)),
            _ => format!("{kind} {phase} {start} > {end} {}", amount.decimal(currency)),
        }
    };
    let mut lines: Vec<_> = list(&invoice["items"]).iter().map(line).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn invoices_are_those_that_kill_bill_wrote() {
    let setup = json("setup.json");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let scenarios = root.join("conformance/vectors/subscriptions/scenarios");
    let mut names: Vec<_> =
        fs::read_dir(scenarios).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort_unstable();
    let (mut compared, mut wrong) = (0, vec![]);
    for name in names {
        let name = name.into_string().unwrap();
        let scenario = json(&format!("scenarios/{name}"));
        let of_catalog = &setup["catalogs"][text(&scenario["catalog"])];
        if DIFFERENT.contains(&text(&scenario["name"])) || scenario["part"] != 1 {
            continue;
        }
        let files = list(&of_catalog["files"]).iter();
        let versions =
            files.map(|it| Arc::new(compiled(&read(&format!("catalogs/{}", text(it)))).unwrap()));
        let Some(mut account) =
            Account::read(&scenario, Versions::new(versions.collect()), &of_catalog["config"])
        else {
            continue;
        };
        compared += 1;
        let invoices = list(&scenario["result"]["A"]["invoices"]);
        for (index, invoice) in invoices.iter().enumerate() {
            let (on, target) = (date(&invoice["invoiceDate"]), date(&invoice["targetDate"]));
            let of_day = |it: &&Value| date(&it["invoiceDate"]) == on;
            let number = invoices[..index].iter().filter(of_day).count();
            let steps = account.steps_of(on, (number, invoices.iter().filter(of_day).count()));
            let (ours, theirs) =
                (account.bill(steps, target), recorded_lines(invoice, account.currency));
            if ours != theirs {
                wrong.push(format!("{name} {on} {target}\n  ours   {ours:?}\n  theirs {theirs:?}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared >= COMPARED_MIN, "{compared} scenarios are compared");
}
