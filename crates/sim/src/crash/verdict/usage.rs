//! Usage: no acknowledged event or confirmation is lost or counted twice, no limit is passed, and what was reserved
//! comes back.

use serde_json::Value;

use super::{Verdict, read_json};
use crate::crash::http::{Connection, Identity};
use crate::crash::journal::{Inner, Meter, Used};

/// How many periods are read at once.
const PAGE: usize = 100;

/// Reads how much of each limit was used, and compares it with what was acknowledged. No client uses them any more,
/// and every reservation is over.
pub fn usage(
    (server, identity): (&mut Connection, &Identity),
    journal: &Inner,
    verdict: &mut Verdict,
) {
    verdict.passed.extend(journal.passed.iter().cloned());
    verdict.dead = journal.dead;
    for (meter, used) in &journal.meters {
        let Meter { account, feature, .. } = meter;
        let mut read = |target| read_json((server, identity), target);
        let mut periods: Vec<Value> = vec![];
        let listed = loop {
            let page = format!("feature={feature}&limit={PAGE}&offset={}", periods.len());
            match read(format!("/v1/accounts/{account}/usage?{page}")) {
                Ok(listed) => match listed["usage"].as_array().filter(|it| !it.is_empty()) {
                    Some(more) => periods.extend(more.iter().cloned()),
                    None => break Ok(()),
                },
                Err(problem) => break Err(problem),
            }
        };
        let checked = read(format!("/v1/accounts/{account}/entitlements/{feature}"));
        match (listed, checked) {
            (Ok(()), Ok(checked)) => {
                compare((meter, used), &periods, &checked["usage"], verdict);
            }
            (Err(problem), _) | (_, Err(problem)) => verdict.wrong.push(problem),
        }
    }
}

/// Compares what was acknowledged with the counts of all periods, and with what is left now.
fn compare(
    (meter, used): (&Meter, &Used),
    periods: &[Value],
    level: &Value,
    verdict: &mut Verdict,
) {
    let Meter { account, feature, limit } = meter;
    let number = |it: &Value, name: &str| it[name].as_i64().unwrap_or(i64::MAX / 1_000_000);
    verdict.events += used.events.len();
    verdict.confirmed += used.confirmed.values().filter(|it| **it > 0).count();
    let acknowledged: i64 = used.events.values().chain(used.confirmed.values()).sum();
    let counted: i64 = periods.iter().map(|it| number(it, "used")).sum();
    if counted != acknowledged {
        let found = format!("{account} {feature}: {counted} are counted, {acknowledged} were");
        verdict.miscounted.push(format!("{found} acknowledged: {used:?}"));
    }
    for period in periods {
        if number(period, "used") > *limit {
            verdict.passed.push(format!("{account} {feature}: {limit}: {period}"));
        }
        if number(period, "reserved") != 0 {
            verdict.held.push(format!("{account} {feature}: {period}"));
        }
    }
    if level["reserved"] != 0 {
        verdict.held.push(format!("{account} {feature}: {level}"));
    }
    if !meter.allows(level) {
        verdict.passed.push(format!("{account} {feature}: {limit}: {level}"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::crash::shop::CALLS;

    fn meter() -> Meter {
        Meter { account: "a".to_owned(), feature: CALLS, limit: 10 }
    }

    fn level(used: i64, reserved: i64, left: i64) -> Value {
        json!({ "limit": 10, "used": used, "reserved": reserved, "left": left })
    }

    /// How many limits are found miscounted, passed, and held where events of 3 and 4 and a reservation of 2 were
    /// acknowledged, and the store has these counts of periods and this level.
    fn found(periods: &[(i64, i64)], level: &Value) -> [usize; 3] {
        let named = |it: &[(&str, i64)]| -> BTreeMap<String, i64> {
            it.iter().map(|(name, quantity)| ((*name).to_owned(), *quantity)).collect()
        };
        let used = Used { events: named(&[("e", 3), ("f", 4)]), confirmed: named(&[("r", 2)]) };
        let period = |(used, reserved): &(i64, i64)| json!({ "used": used, "reserved": reserved });
        let periods: Vec<Value> = periods.iter().map(period).collect();
        let mut verdict = Verdict::default();
        compare((&meter(), &used), &periods, level, &mut verdict);
        assert_eq!((verdict.events, verdict.confirmed), (2, 1));
        [verdict.miscounted.len(), verdict.passed.len(), verdict.held.len()]
    }

    #[test]
    fn equal_counts_are_sound() {
        assert_eq!(found(&[(9, 0)], &level(9, 0, 1)), [0; 3]);
        assert_eq!(found(&[(0, 0), (2, 0), (7, 0)], &level(0, 0, 10)), [0; 3]);
    }

    #[test]
    fn lost_and_repeated_events_are_found() {
        assert_eq!(found(&[(8, 0)], &level(8, 0, 2)), [1, 0, 0]);
        assert_eq!(found(&[(10, 0)], &level(10, 0, 0)), [1, 0, 0]);
        assert_eq!(found(&[], &level(0, 0, 10)), [1, 0, 0]);
    }

    #[test]
    fn passed_limits_are_found() {
        assert_eq!(found(&[(11, 0)], &level(11, 0, -1)), [1, 2, 0]);
        assert_eq!(found(&[(9, 0)], &level(9, 0, 2)), [0, 1, 0]);
        let more = json!({ "limit": 11, "used": 9, "reserved": 0, "left": 2 });
        assert_eq!(found(&[(9, 0)], &more), [0, 1, 0]);
    }

    #[test]
    fn what_does_not_come_back_is_found() {
        assert_eq!(found(&[(9, 1)], &level(9, 0, 1)), [0, 0, 1]);
        assert_eq!(found(&[(9, 0)], &level(9, 1, 0)), [0, 0, 1]);
    }
}
