//! A dispute as programs of others, and tests of the simulator, say it in JSON.

use domain::payment::dispute::{DisputeCase, DisputeSaid, DisputeStatus};
use domain::{AmountMinor, Currency, Timestamp, TransactionId};
use serde::Deserialize;
use uuid::Uuid;

/// The JSON of a dispute. Amounts are decimals in the currency's major unit.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DisputeAnswer {
    /// The charge that is disputed.
    transaction_id: Uuid,
    /// The gateway's id of the case.
    dispute_id: String,
    status: String,
    reason: Option<String>,
    amount: String,
    currency: String,
    /// RFC 3339.
    evidence_due_by: Option<String>,
    /// In all; nothing where it is missing.
    withdrawn: Option<String>,
    /// In all; nothing where it is missing.
    reinstated: Option<String>,
}

/// A dispute of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) transaction: TransactionId,
    pub(crate) case: String,
    pub(crate) dispute: DisputeSaid,
}

impl DisputeAnswer {
    /// # Errors
    /// The field that is wrong, and why.
    pub(crate) fn said(self) -> Result<Said, String> {
        if DisputeCase::new("", &self.dispute_id).is_none() {
            return Err("disputeId: is no visible ASCII of 1 to 128 characters".to_owned());
        }
        let status = DisputeStatus::named(&self.status);
        let currency = Currency::parse(&self.currency);
        let currency = currency.ok_or("currency: is no alphabetic code of ISO 4217")?;
        let amount = |field: &str, text: &str| match AmountMinor::parse(text, currency) {
            Ok(amount) if amount >= AmountMinor::ZERO => Ok(amount),
            Ok(_) => Err(format!("{field}: is below zero")),
            Err(error) => Err(format!("{field}: {error}")),
        };
        let moved = |field, text: Option<&String>| {
            text.map_or(Ok(AmountMinor::ZERO), |text| amount(field, text))
        };
        let due_by = self.evidence_due_by.map(|text| text.parse::<jiff::Timestamp>());
        let due_by = due_by.transpose().map_err(|_| "evidenceDueBy: is no time of RFC 3339")?;
        Ok(Said {
            transaction: TransactionId::new(self.transaction_id),
            case: self.dispute_id,
            dispute: DisputeSaid {
                status: status.ok_or("status: is not that of a dispute")?,
                reason: self.reason,
                amount: amount("amount", &self.amount)?,
                currency,
                evidence_due_by: due_by.map(|it| Timestamp(it.as_microsecond())),
                withdrawn: moved("withdrawn", self.withdrawn.as_ref())?,
                reinstated: moved("reinstated", self.reinstated.as_ref())?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(changes: &Value, expected: &str) {
        let mut said = json!({
            "transactionId": "0192aabb-ccdd-7000-8000-000000000001", "disputeId": "c-1",
            "status": "NEEDS_RESPONSE", "amount": "10.00", "currency": "USD", "withdrawn": "10",
            "evidenceDueBy": "2026-12-01T00:00:00Z",
        });
        for (name, value) in changes.as_object().unwrap() {
            said[name] = value.clone();
        }
        let answer: DisputeAnswer = serde_json::from_value(said).unwrap();
        let shown = match answer.said() {
            Ok(Said { dispute: it, .. }) => {
                format!("{} -{} +{}", it.amount.0, it.withdrawn.0, it.reinstated.0)
            }
            Err(reason) => reason,
        };
        assert_eq!(shown, expected, "{changes}");
    }

    #[test]
    fn each_field_is_checked() {
        check(&json!({}), "1000 -1000 +0");
        check(&json!({ "reinstated": "2.50", "withdrawn": null }), "1000 -0 +250");
        let case = "disputeId: is no visible ASCII of 1 to 128 characters";
        for wrong in ["", "a b", "4111111111111111", &"c".repeat(129)] {
            check(&json!({ "disputeId": wrong }), case);
        }
        check(&json!({ "status": "won" }), "status: is not that of a dispute");
        check(&json!({ "currency": "dollar" }), "currency: is no alphabetic code of ISO 4217");
        check(&json!({ "amount": "-1" }), "amount: is below zero");
        check(&json!({ "withdrawn": "-0.01" }), "withdrawn: is below zero");
        check(
            &json!({ "reinstated": "1.005" }),
            "reinstated: more decimals than the currency has (2)",
        );
        check(&json!({ "evidenceDueBy": "tomorrow" }), "evidenceDueBy: is no time of RFC 3339");
    }
}
