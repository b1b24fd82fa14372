//! Combo payments: account, method and payment are there, or none of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Verdict;
use crate::crash::http::{Connection, Identity};
use crate::crash::journal::{Combo, Inner, Operation, Reported};

/// Reads what the clients' combo payments made and compares it with what was acknowledged.
pub fn combos(
    (server, identity): (&mut Connection, &Identity),
    journal: &Inner,
    stored: &BTreeMap<String, Value>,
    verdict: &mut Verdict,
) {
    for (operation, reported) in journal.operations.values() {
        let Some(Combo { account_key, method_key }) = &operation.combo else { continue };
        let mut read =
            |target: String| match server.send(&identity.request("GET", target, String::new())) {
                Ok(response) if response.status == 200 => Ok(Some(response.json())),
                Ok(response) if response.status == 404 => Ok(None),
                Ok(response) => Err(format!("reading {}: {}", operation.key, response.status)),
                Err(error) => Err(format!("reading {}: {error}", operation.key)),
            };
        let account = read(format!("/1.0/kb/accounts?externalKey={account_key}"));
        let by_key = format!("externalKey={method_key}&includedDeleted=true");
        let method = read(format!("/1.0/kb/paymentMethods?{by_key}"));
        match (account, method) {
            (Ok(account), Ok(method)) => {
                let payment = stored.get(&operation.payment_key);
                let made = [account.as_ref(), method.as_ref(), payment];
                compare(operation, *reported, made, verdict);
                let id = account.as_ref().and_then(|it| it["accountId"].as_str());
                let Some(id) = id else { continue };
                match read(format!("/1.0/kb/accounts/{id}/payments")) {
                    Ok(payments) => only_one(operation, payments.as_ref(), verdict),
                    Err(problem) => verdict.wrong.push(problem),
                }
            }
            (Err(problem), _) | (_, Err(problem)) => verdict.wrong.push(problem),
        }
    }
}

/// Compares the account, the method and the payment of a combo payment with the answer that a client
/// received.
fn compare(
    operation: &Operation,
    reported: Option<Reported>,
    made: [Option<&Value>; 3],
    verdict: &mut Verdict,
) {
    let key = &operation.key;
    match (made, reported) {
        ([Some(account), Some(method), Some(payment)], _) => {
            verdict.combos += 1;
            let owners = [account, method, payment].map(|it| &it["accountId"]);
            if owners.iter().any(|owner| *owner != owners[0]) {
                verdict.torn.push(format!("{key}: of several accounts: {owners:?}"));
            }
        }
        ([None, None, None], None) => {}
        ([None, None, None], Some(_)) => verdict.lost.push(format!("{key}: nothing is there")),
        (made, _) => {
            let there = made.map(|it| it.is_some());
            verdict.torn.push(format!("{key}: account, method and payment are there: {there:?}"));
        }
    }
}

/// The account of a combo payment pays nothing else.
fn only_one(operation: &Operation, payments: Option<&Value>, verdict: &mut Verdict) {
    let payments = payments.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if payments.len() > 1 {
        let ids: Vec<_> = payments.iter().map(|it| &it["paymentId"]).collect();
        verdict.charged_twice.push(format!("{}: its account has {ids:?}", operation.key));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::crash::verdict::purchase;

    /// How many payments are found lost and torn where these of account, method and payment are there, of
    /// these accounts.
    fn found(reported: Option<Reported>, owners: [Option<&str>; 3]) -> (usize, usize) {
        let made = owners.map(|owner| owner.map(|id| json!({ "accountId": id })));
        let mut verdict = Verdict::default();
        compare(&purchase(), reported, made.each_ref().map(Option::as_ref), &mut verdict);
        (verdict.lost.len(), verdict.torn.len())
    }

    #[test]
    fn a_second_payment_of_the_account_is_found() {
        let check = |payments: Value| {
            let mut verdict = Verdict::default();
            only_one(&purchase(), Some(&payments), &mut verdict);
            verdict.charged_twice.len()
        };
        assert_eq!(check(json!([])), 0);
        assert_eq!(check(json!([{ "paymentId": "a" }])), 0);
        assert_eq!(check(json!([{ "paymentId": "a" }, { "paymentId": "b" }])), 1);
    }

    #[test]
    fn combos_are_whole_or_not_there() {
        let whole = [Some("a"); 3];
        for reported in [None, Some(Reported::Worked), Some(Reported::Failed)] {
            assert_eq!(found(reported, whole), (0, 0), "{reported:?}");
        }
        assert_eq!(found(None, [None; 3]), (0, 0));
    }

    #[test]
    fn lost_and_torn_combos_are_found() {
        for reported in [Reported::Accepted, Reported::Worked, Reported::Failed] {
            assert_eq!(found(Some(reported), [None; 3]), (1, 0), "{reported:?}");
        }
        let torn = [
            [Some("a"), None, None],
            [Some("a"), Some("a"), None],
            [None, Some("a"), Some("a")],
            [Some("a"), Some("b"), Some("a")],
            [Some("a"), Some("a"), Some("b")],
        ];
        for made in torn {
            assert_eq!(found(None, made), (0, 1), "{made:?}");
        }
    }
}
