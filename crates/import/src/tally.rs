//! Counts and sums of transactions, to compare both sides.

use std::collections::BTreeMap;

use domain::import::ImportedTransaction;
use domain::payment::{Transaction, TransactionStatus, TransactionType};
use domain::{AmountMinor, Currency};

/// How many transactions, and what they processed, in minor units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub count: u64,
    pub minor: i128,
}

/// Transactions by currency, type and status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(BTreeMap<(Currency, TransactionType, &'static str), Sum>);

impl Sums {
    /// Counts one of the source.
    pub fn expect(&mut self, it: &ImportedTransaction) {
        let processed = match (it.kind, it.status) {
            (TransactionType::Void, _) => None,
            (_, TransactionStatus::Success) => it.processed_amount.or(it.amount),
            (_, _) => it.processed_amount,
        };
        self.add(it.currency, it.kind, it.status, processed);
    }

    /// Counts one that is here; `currency` is its payment's.
    pub fn find(&mut self, it: &Transaction, currency: Currency) {
        let processed = it.processed_amount.filter(|_| it.kind != TransactionType::Void);
        self.add(currency, it.kind, it.status, processed);
    }

    fn add(
        &mut self,
        currency: Currency,
        kind: TransactionType,
        status: TransactionStatus,
        processed: Option<AmountMinor>,
    ) {
        let key = (currency, kind, status.name());
        let sum = self.0.entry(key).or_default();
        sum.count += 1;
        sum.minor += i128::from(processed.unwrap_or_default().0);
    }

    /// By currency, type and status.
    pub fn rows(&self) -> impl Iterator<Item = (Currency, TransactionType, &'static str, Sum)> {
        self.0.iter().map(|((currency, kind, status), sum)| (*currency, *kind, *status, *sum))
    }
}

impl Sums {
    /// Adds those of another part.
    pub fn extend(&mut self, other: &Self) {
        for (key, sum) in &other.0 {
            let own = self.0.entry(*key).or_default();
            own.count += sum.count;
            own.minor += sum.minor;
        }
    }
}
