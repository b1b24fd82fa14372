//! Retries: one for each step of the schedule, none while an earlier try is in doubt or has succeeded.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Verdict, of_operation};
use crate::crash::journal::{Inner, Operation};

/// After how many days a decline is retried: the setting of the clients' tenant.
pub const RETRY_DAYS: &str = "1,1,2";

/// How many retries follow on declines.
const OF_DECLINES: usize = 3;

/// How many follow on calls that the gateway did not take.
const OF_FAILURES: usize = 8;

/// Whether a retry of a payment should have been made by that time.
pub fn is_overdue(payment: &Value, now: &str) -> bool {
    attempts(payment).any(|it| {
        it["stateName"] == "SCHEDULED" && it["effectiveDate"].as_str().is_some_and(|due| due < now)
    })
}

/// Counts the retries of each payment and compares them with its failures.
pub fn retries(journal: &Inner, stored: &BTreeMap<String, Value>, verdict: &mut Verdict) {
    let retried = journal.operations.values().filter(|(operation, _)| operation.is_retried);
    for (operation, _) in retried {
        if let Some(payment) = stored.get(&operation.payment_key) {
            let sent = journal.sent.get(&operation.key).copied().unwrap_or(0);
            count(operation, (payment, sent), verdict);
        }
    }
}

/// Each failure but those beyond the schedule has one retry; all other tries are those that a client sent.
fn count(operation: &Operation, (payment, sent): (&Value, usize), verdict: &mut Verdict) {
    let with_status =
        |status: &str| of_operation(payment, operation).filter(|it| it["status"] == status).count();
    let in_state = |state: &str| {
        let of_key =
            attempts(payment).filter(|it| it["transactionExternalKey"] == operation.key.as_str());
        of_key.filter(|it| it["stateName"] == state).count()
    };
    let declines = with_status("PAYMENT_FAILURE").min(OF_DECLINES);
    let expected = declines + with_status("PLUGIN_FAILURE").min(OF_FAILURES);
    // What is scheduled is shown as retried, and behind it the retry that is still to come.
    let scheduled = in_state("RETRIED");
    let made = scheduled.saturating_sub(in_state("SCHEDULED"));
    verdict.retries += made;
    let tries = of_operation(payment, operation).count();
    let key = &operation.key;
    if scheduled > expected || tries > made + sent {
        let found = format!("{tries} tries, {made} retries of {expected}, {sent} requests");
        verdict.repeated.push(format!("{key}: {found}: {payment}"));
    }
    // A success ends the schedule.
    if tries <= made || (scheduled < expected && with_status("SUCCESS") == 0) {
        verdict.forgotten.push(format!("{key}: {scheduled} retries of {expected}: {payment}"));
    }
}

fn attempts(payment: &Value) -> impl Iterator<Item = &Value> {
    payment["paymentAttempts"].as_array().into_iter().flatten()
}

/// The tries to start each payment that reached the gateway, added in the order of its journal.
#[derive(Debug, Default)]
pub struct Tries {
    payments: BTreeMap<String, BTreeMap<String, Standing>>,
}

/// The status of a try so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Failed,
    /// Money may still move.
    Open,
    Charged,
}

impl Tries {
    /// Adds a record of the gateway's journal. A try that comes while an earlier one may charge, or has charged,
    /// is wrong.
    pub fn add(&mut self, record: &Value, verdict: &mut Verdict) {
        let starts = matches!(record["operation"].as_str(), Some("Purchase" | "Authorize"));
        let ids = record["payment"].as_str().zip(record["transaction"].as_str());
        let Some((payment, transaction)) = ids.filter(|_| starts) else { return };
        let standing = match (record["effect"].as_str(), record["outcome"]["status"].as_str()) {
            (Some("charged"), _) => Standing::Charged,
            (Some("reversed"), _) => Standing::Failed,
            (_, Some("Pending" | "Undefined")) => Standing::Open,
            (_, _) => Standing::Failed,
        };
        let tries = self.payments.entry(payment.to_owned()).or_default();
        let earlier = tries.iter().find(|(_, standing)| **standing != Standing::Failed);
        if let Some((earlier, standing)) = earlier.filter(|_| !tries.contains_key(transaction)) {
            let found = format!("{transaction} came while {earlier} was {standing:?}");
            verdict.in_doubt.push(format!("{payment}: {found}"));
        }
        tries.insert(transaction.to_owned(), standing);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::crash::verdict::purchase;

    /// Whether retries are found made too often, and whether forgotten, where the transactions of a payment have
    /// these statuses and its attempts these states.
    fn found(sent: usize, statuses: &[&str], states: &[&str]) -> (bool, bool) {
        let operation = Operation { is_retried: true, ..purchase() };
        let transaction = |status: &&str| {
            json!({
                "transactionExternalKey": "t-1", "transactionType": "PURCHASE", "status": status,
            })
        };
        let attempt = |state: &&str| {
            json!({
                "transactionExternalKey": "t-1", "stateName": state,
                "effectiveDate": "2026-11-27T10:00:00.000Z",
            })
        };
        let transactions: Vec<Value> = statuses.iter().map(transaction).collect();
        let attempts: Vec<Value> = states.iter().map(attempt).collect();
        let payment = json!({ "transactions": transactions, "paymentAttempts": attempts });
        let mut verdict = Verdict::default();
        count(&operation, (&payment, sent), &mut verdict);
        (!verdict.repeated.is_empty(), !verdict.forgotten.is_empty())
    }

    const DECLINED: &str = "PAYMENT_FAILURE";

    #[test]
    fn one_retry_for_each_step_is_sound() {
        let sound = (false, false);
        assert_eq!(found(1, &[DECLINED], &["RETRIED", "SCHEDULED"]), sound);
        assert_eq!(found(1, &[DECLINED, "SUCCESS"], &["RETRIED", "SUCCESS"]), sound);
        let states = ["RETRIED", "RETRIED", "RETRIED", "ABORTED"];
        assert_eq!(found(1, &[DECLINED; 4], &states), sound);
        // The client sent it again; the first answer was lost.
        let states = ["RETRIED", "RETRIED", "RETRIED", "ABORTED", "ABORTED"];
        assert_eq!(found(2, &[DECLINED; 5], &states), sound);
        let statuses = [DECLINED, "PLUGIN_FAILURE"];
        assert_eq!(found(1, &statuses, &["RETRIED", "RETRIED", "SCHEDULED"]), sound);
    }

    #[test]
    fn retries_that_are_repeated_or_forgotten_are_found() {
        // Two retries of one attempt.
        assert!(found(1, &[DECLINED; 3], &["RETRIED", "ABORTED", "ABORTED"]).0);
        // More than the schedule has.
        assert!(found(1, &[DECLINED; 5], &["RETRIED"; 4]).0);
        // A success that was retried.
        assert!(found(1, &["SUCCESS", "SUCCESS"], &["RETRIED", "SUCCESS"]).0);
        assert_eq!(found(1, &[DECLINED], &["ABORTED"]), (false, true));
        assert_eq!(found(1, &[DECLINED; 2], &["RETRIED", "ABORTED"]), (false, true));
        // A retry that has no transaction.
        assert_eq!(found(1, &[DECLINED], &["RETRIED"]), (false, true));
    }

    #[test]
    fn a_retry_that_was_due_is_overdue() {
        let attempt = |state: &str| json!({ "stateName": state, "effectiveDate": "2026-11-27T10:00:00.000Z" });
        let of = |state: &str, now: &str| {
            is_overdue(&json!({ "paymentAttempts": [attempt(state)] }), now)
        };
        assert!(of("SCHEDULED", "2026-11-27T10:00:01.000Z"));
        assert!(!of("SCHEDULED", "2026-11-27T09:59:59.000Z"));
        assert!(!of("RETRIED", "2026-11-27T10:00:01.000Z"));
    }

    #[test]
    fn a_try_while_another_may_charge_is_found() {
        let check = |records: &[(&str, &str, &str)]| {
            let (mut tries, mut verdict) = (Tries::default(), Verdict::default());
            for (transaction, effect, status) in records {
                let record = json!({
                    "payment": "p", "transaction": transaction, "operation": "Purchase",
                    "effect": effect, "outcome": { "status": status },
                });
                tries.add(&record, &mut verdict);
            }
            verdict.in_doubt.len()
        };
        let declined = ("1", "nothing", "Error");
        assert_eq!(check(&[declined, ("2", "charged", "Processed")]), 0);
        assert_eq!(check(&[("1", "nothing", "Undefined"), declined, ("2", "nothing", "Error")]), 0);
        assert_eq!(check(&[("1", "nothing", "Pending"), ("1", "charged", "Processed")]), 0);
        assert_eq!(check(&[("1", "nothing", "Undefined"), ("2", "nothing", "Error"), declined]), 1);
        assert_eq!(check(&[("1", "nothing", "Pending"), ("2", "nothing", "Error")]), 1);
        assert_eq!(check(&[("1", "charged", "Processed"), ("2", "nothing", "Error")]), 1);
    }
}
