//! Classes of declines: after which of them another gateway may be tried.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The class of a decline: whether a further try may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclineClass {
    /// It may succeed elsewhere, or later: do not honor, insufficient funds, issuer not available.
    Soft,
    /// It fails anywhere: expired card, closed account. Also what no table has.
    Hard,
    /// The card is reported, or the issuer suspects fraud.
    Fraud,
}

/// The classes of a gateway's codes.
pub type DeclineCodes = BTreeMap<String, DeclineClass>;

impl DeclineClass {
    pub const ALL: [Self; 3] = [Self::Soft, Self::Hard, Self::Fraud];

    /// Its name in rules and explanations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft",
            Self::Hard => "hard",
            Self::Fraud => "fraud",
        }
    }

    /// The class of a gateway's code: the tenant's own, else the default. What no table has is hard.
    #[must_use]
    pub fn of(code: Option<&str>, own: Option<&DeclineCodes>) -> Self {
        let Some(code) = code else { return Self::Hard };
        let own = own.and_then(|it| it.get(code).copied());
        own.unwrap_or_else(|| {
            let known = DEFAULTS.iter().find(|(_, codes)| codes.contains(&code));
            known.map_or(Self::Hard, |(class, _)| *class)
        })
    }
}

/// Response codes of ISO 8583 and Stripe's decline codes. Those that are not here are hard.
pub const DEFAULTS: [(DeclineClass, &[&str]); 2] = [
    (
        DeclineClass::Soft,
        &[
            "05",
            "19",
            "51",
            "61",
            "65",
            "91",
            "96",
            "approve_with_id",
            "call_issuer",
            "card_velocity_exceeded",
            "do_not_honor",
            "generic_decline",
            "insufficient_funds",
            "issuer_not_available",
            "no_action_taken",
            "processing_error",
            "reenter_transaction",
            "service_not_allowed",
            "transaction_not_allowed",
            "try_again_later",
            "withdrawal_count_limit_exceeded",
        ],
    ),
    (
        DeclineClass::Fraud,
        &[
            "04",
            "07",
            "34",
            "41",
            "43",
            "59",
            "63",
            "fraudulent",
            "lost_card",
            "merchant_blacklist",
            "pickup_card",
            "restricted_card",
            "security_violation",
            "stolen_card",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_tenants_class_or_the_default_and_else_is_hard() {
        let own = DeclineCodes::from([
            ("51".to_owned(), DeclineClass::Hard),
            ("x1".to_owned(), DeclineClass::Soft),
        ]);
        for (code, class) in [
            (Some("51"), DeclineClass::Hard),
            (Some("x1"), DeclineClass::Soft),
            (Some("05"), DeclineClass::Soft),
            (Some("stolen_card"), DeclineClass::Fraud),
            (Some("54"), DeclineClass::Hard),
            (None, DeclineClass::Hard),
        ] {
            assert_eq!(DeclineClass::of(code, Some(&own)), class, "{code:?}");
        }
        assert_eq!(DeclineClass::of(Some("51"), None), DeclineClass::Soft);
    }
}
