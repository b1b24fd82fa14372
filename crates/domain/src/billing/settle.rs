//! Pays invoices from an account's credit, which Kill Bill calls CBA.

use crate::AmountMinor;

/// The change of the account's credit by which an invoice is settled: what the invoice is below zero is new credit, and
/// what it is above zero is paid from the credit that there is. It is the amount of a `CBA_ADJ` item.
#[must_use]
pub const fn settle(balance: AmountMinor, credit: AmountMinor) -> AmountMinor {
    if balance.0 <= 0 {
        return AmountMinor(balance.0.saturating_neg());
    }
    let used = if credit.0 < balance.0 { credit.0 } else { balance.0 };
    AmountMinor(if used > 0 { -used } else { 0 })
}

/// The part of a credit that each unpaid invoice uses, the first one first.
#[must_use]
pub fn spread(credit: AmountMinor, balances: &[AmountMinor]) -> Vec<AmountMinor> {
    let mut left = credit.0.max(0);
    let used = |balance: &AmountMinor| {
        let used = left.min(balance.0.max(0));
        left -= used;
        AmountMinor(used)
    };
    balances.iter().map(used).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(balance: i64, credit: i64, expected: i64) {
        let change = settle(AmountMinor(balance), AmountMinor(credit));
        assert_eq!(change, AmountMinor(expected), "{balance} with {credit}");
    }

    #[test]
    fn a_negative_invoice_becomes_credit_and_a_positive_one_uses_it() {
        check(-2_129, 0, 2_129);
        check(-2_129, 500, 2_129);
        check(2_999, 500, -500);
        check(2_999, 2_999, -2_999);
        check(2_999, 5_000, -2_999);
        check(2_999, 0, 0);
        check(0, 500, 0);
    }

    #[test]
    fn what_is_left_of_a_credit_pays_the_oldest_invoices_first() {
        let used = spread(AmountMinor(1_000), &[700, 0, 500, 20].map(AmountMinor));
        assert_eq!(used, [700, 0, 300, 0].map(AmountMinor));
        assert_eq!(spread(AmountMinor(-5), &[AmountMinor(7)]), [AmountMinor(0)]);
    }
}
