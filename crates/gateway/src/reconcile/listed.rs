//! Reconciles what a gateway's program lists with the store, transaction by transaction.

use std::collections::HashMap;

use domain::payment::{GatewayStatus, Transaction, TransactionStatus};
use domain::{AmountMinor, Currency, PaymentId, TenantNo, Timestamp, TransactionId};

use super::{Compared, Difference, DifferenceKind, Window, goes_through_gateways};

/// A transaction as a gateway's program lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub tenant: TenantNo,
    pub payment: PaymentId,
    pub transaction: TransactionId,
    pub status: GatewayStatus,
    /// `None` of a void.
    pub amount: Option<AmountMinor>,
    pub currency: Option<Currency>,
    /// When it was asked for, by the program's clock.
    pub at: Timestamp,
}

/// The transactions that a gateway's program lists, of all tenants that were asked about.
#[derive(Debug, Default)]
pub struct ListedTransactions {
    all: HashMap<(TenantNo, TransactionId), Entry>,
}

#[derive(Debug)]
struct Entry {
    last: Listed,
    /// How often it is listed as processed.
    processed: u32,
    is_known: bool,
}

/// The result of the comparison of one transaction.
enum Verdict {
    Agrees,
    /// An outcome is not known, or money moved just now.
    Open,
    Differs(DifferenceKind),
}

impl ListedTransactions {
    pub fn add(&mut self, it: Listed) {
        let key = (it.tenant, it.transaction);
        let processed = u32::from(it.status == GatewayStatus::Processed);
        match self.all.get_mut(&key) {
            Some(entry) => {
                entry.processed += processed;
                entry.last = it;
            }
            None => {
                self.all.insert(key, Entry { last: it, processed, is_known: false });
            }
        }
    }

    /// Compares with the store, of which `each_transaction` calls its argument for each transaction of the gateway and
    /// of the tenants that were asked about; `report` receives the differences. How many could not be compared yet comes
    /// last.
    ///
    /// # Errors
    /// The error of `each_transaction`.
    pub fn compare<E>(
        mut self,
        window: Window,
        each_transaction: impl FnOnce(&mut dyn FnMut(&Transaction)) -> Result<(), E>,
        mut report: impl FnMut(Difference),
    ) -> Result<(Compared, u64), E> {
        let (mut compared, mut open) = (Compared::default(), 0);
        each_transaction(&mut |transaction| {
            let entry = self.all.get_mut(&(transaction.tenant, transaction.id));
            if !goes_through_gateways(transaction.kind)
                || entry.is_none() && !window.has(transaction.effective_at)
            {
                return;
            }
            compared.booked += u64::from(transaction.status == TransactionStatus::Success);
            match entry.map_or_else(|| unlisted(transaction), |it| it.against(transaction, window))
            {
                Verdict::Agrees => {}
                Verdict::Open => open += 1,
                Verdict::Differs(kind) => {
                    let (tenant, payment) = (transaction.tenant, Some(transaction.payment_id));
                    compared.differences += 1;
                    report(Difference { tenant, payment, transaction: transaction.id, kind });
                }
            }
        })?;
        for Entry { last, processed, is_known } in self.all.into_values() {
            compared.charged += u64::from(processed > 0);
            let lacks = processed > 0 && !is_known;
            if lacks && last.at >= window.until {
                open += 1;
                continue;
            }
            let twice = DifferenceKind::ChargedTwice { times: processed };
            let missing = DifferenceKind::ChargedNotBooked { status: None };
            for (holds, kind) in [(processed > 1, twice), (lacks, missing)] {
                if holds {
                    let (tenant, payment) = (last.tenant, Some(last.payment));
                    compared.differences += 1;
                    report(Difference { tenant, payment, transaction: last.transaction, kind });
                }
            }
        }
        Ok((compared, open))
    }
}

impl Entry {
    fn against(&mut self, transaction: &Transaction, window: Window) -> Verdict {
        self.is_known = true;
        let is_success = transaction.status == TransactionStatus::Success;
        let kind = match (self.last.status, is_success) {
            (GatewayStatus::Processed, true) => match self.amounts_differ(transaction) {
                None => return Verdict::Agrees,
                Some(kind) => kind,
            },
            (GatewayStatus::Processed, false) if transaction.status.is_open() => {
                return Verdict::Open;
            }
            (GatewayStatus::Processed, false) => {
                DifferenceKind::ChargedNotBooked { status: Some(transaction.status) }
            }
            (GatewayStatus::Pending | GatewayStatus::Undefined, true) => return Verdict::Open,
            (GatewayStatus::Error | GatewayStatus::Canceled, true) => {
                DifferenceKind::BookedNotCharged
            }
            (
                GatewayStatus::Pending
                | GatewayStatus::Undefined
                | GatewayStatus::Error
                | GatewayStatus::Canceled,
                false,
            ) => return Verdict::Agrees,
        };
        match self.last.at < window.until && transaction.effective_at < window.until {
            true => Verdict::Differs(kind),
            false => Verdict::Open,
        }
    }

    fn amounts_differ(&self, transaction: &Transaction) -> Option<DifferenceKind> {
        // A void has no amount; the store has none or zero.
        let (charged, booked) = (self.last.amount, transaction.processed_amount);
        if charged.unwrap_or_default() != booked.unwrap_or_default() {
            return Some(DifferenceKind::AmountDiffers { charged, booked });
        }
        let (charged, booked) = (self.last.currency, transaction.processed_currency);
        (self.last.amount.is_some() && charged != booked)
            .then_some(DifferenceKind::CurrencyDiffers { charged, booked })
    }
}

/// A transaction of the window that the program does not list.
fn unlisted(transaction: &Transaction) -> Verdict {
    match transaction.status {
        TransactionStatus::Success => Verdict::Differs(DifferenceKind::BookedNotCharged),
        TransactionStatus::InFlight | TransactionStatus::Pending | TransactionStatus::Unknown => {
            Verdict::Open
        }
        TransactionStatus::PaymentFailure | TransactionStatus::PluginFailure => Verdict::Agrees,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use domain::payment::TransactionType;
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use super::*;
    use crate::reconcile::balance::tests::transaction;

    const NOW: i64 = 100;

    fn listed(number: u128, status: GatewayStatus, amount: i64) -> Listed {
        Listed {
            tenant: TenantNo(3),
            payment: PaymentId::new(Uuid::from_u128(number)),
            transaction: TransactionId::new(Uuid::from_u128(number + 100)),
            status,
            amount: Some(AmountMinor(amount)),
            currency: Currency::parse("EUR"),
            at: Timestamp(5),
        }
    }

    fn booked(number: u128, status: TransactionStatus, amount: i64) -> Transaction {
        let it = transaction(number, TransactionType::Purchase, ("", amount));
        Transaction { status, effective_at: Timestamp(5), ..it }
    }

    fn check(all: Vec<Listed>, books: &[Transaction], expected: Expect) {
        let mut listed = ListedTransactions::default();
        all.into_iter().for_each(|it| listed.add(it));
        let window = Window { since: Timestamp(3), until: Timestamp(NOW) };
        let mut lines = vec![];
        let each = |each: &mut dyn FnMut(&Transaction)| -> Result<(), Infallible> {
            books.iter().for_each(each);
            Ok(())
        };
        let compared = listed.compare(window, each, |it| lines.push(it.to_string()));
        let Ok((compared, open)) = compared;
        lines.sort();
        lines.insert(0, format!("{compared:?}, open: {open}"));
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn what_agrees_is_counted() {
        use GatewayStatus::{Canceled, Error, Pending, Processed};
        use TransactionStatus::{PaymentFailure, PluginFailure, Success};
        check(
            vec![listed(1, Processed, 10), listed(2, Error, 10), listed(3, Canceled, 10)],
            &[booked(1, Success, 10), booked(2, PaymentFailure, 0), booked(3, PluginFailure, 0)],
            expect!["Compared { charged: 1, booked: 1, differences: 0 }, open: 0"],
        );
        // Before the window; not listed, and never charged; settled while both sides are read.
        let before = Transaction { effective_at: Timestamp(2), ..booked(4, Success, 10) };
        check(
            vec![listed(6, Pending, 10)],
            &[before, booked(5, PluginFailure, 0), booked(6, Success, 10)],
            expect!["Compared { charged: 0, booked: 1, differences: 0 }, open: 1"],
        );
    }

    #[test]
    fn what_differs_is_named() {
        use GatewayStatus::{Error, Processed};
        use TransactionStatus::{PaymentFailure, Success};
        let twice = || listed(6, Processed, 10);
        check(
            vec![
                listed(1, Processed, 10),
                listed(2, Processed, 10),
                listed(3, Processed, 10),
                listed(4, Error, 10),
                twice(),
                twice(),
            ],
            &[
                booked(2, PaymentFailure, 0),
                booked(3, Success, 11),
                booked(4, Success, 10),
                booked(5, Success, 10),
                booked(6, Success, 10),
            ],
            expect![[r#"
                Compared { charged: 4, booked: 4, differences: 6 }, open: 0
                tenant 3 transaction 00000000-0000-0000-0000-000000000065 of payment 00000000-0000-0000-0000-000000000001: charged, but not in the store
                tenant 3 transaction 00000000-0000-0000-0000-000000000066 of payment 00000000-0000-0000-0000-000000000002: charged, but PaymentFailure in the store
                tenant 3 transaction 00000000-0000-0000-0000-000000000067 of payment 00000000-0000-0000-0000-000000000003: charged 10 minor units, booked 11
                tenant 3 transaction 00000000-0000-0000-0000-000000000068 of payment 00000000-0000-0000-0000-000000000004: Success in the store, but not charged
                tenant 3 transaction 00000000-0000-0000-0000-000000000069 of payment 00000000-0000-0000-0000-000000000005: Success in the store, but not charged
                tenant 3 transaction 00000000-0000-0000-0000-00000000006a of payment 00000000-0000-0000-0000-000000000006: charged 2 times"#]],
        );
    }

    #[test]
    fn what_is_in_flight_or_too_recent_is_open() {
        use GatewayStatus::Processed;
        use TransactionStatus::{PaymentFailure, Unknown};
        let recent = |number| Listed { at: Timestamp(NOW), ..listed(number, Processed, 10) };
        check(
            vec![listed(1, Processed, 10), recent(2), recent(3)],
            &[booked(1, Unknown, 10), booked(2, PaymentFailure, 0)],
            expect!["Compared { charged: 3, booked: 0, differences: 0 }, open: 3"],
        );
    }
}
