//! Totals that are kept instead of counted: lengths of lists, and what ledger accounts add up to.
//!
//! A partition's writer has its own in memory; a total of all is the sum over the partitions. A batch collects `Deltas`, writes each touched total as an
//! absolute value, and adds the deltas here only once it is durable.

use std::collections::BTreeMap;

use domain::ledger::{LedgerAccount, Posting};
use domain::{Currency, PartitionNo, TenantNo};
use engine::ports::StoreError;

use crate::codes::code;
use crate::driver::{Cells, Database, Reader, Value};
use crate::tables::{COUNTER, LEDGER_TOTAL};

/// A kind of entity that is counted per tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    Accounts,
    /// Payment methods that are not deleted: all, and by gateway.
    PaymentMethods,
    /// Payments: all, and by the gateway they go through now.
    Payments,
    /// Custom fields that are shown.
    CustomFields,
    /// Tags that were not removed.
    Tags,
    Bundles,
    Invoices,
}

impl Counted {
    /// The name in the table `counter`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accounts => "accounts",
            Self::PaymentMethods => "payment_methods",
            Self::Payments => "payments",
            Self::CustomFields => "custom_fields",
            Self::Tags => "tags",
            Self::Bundles => "bundles",
            Self::Invoices => "invoices",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let all = [
            Self::Accounts,
            Self::PaymentMethods,
            Self::Payments,
            Self::CustomFields,
            Self::Tags,
            Self::Bundles,
            Self::Invoices,
        ];
        all.into_iter().find(|counted| counted.name() == name)
    }
}

/// Debits and credits, in minor units. More than 64 bits: an account sums many amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The sum of debits.
    pub debit: i128,
    /// The sum of credits.
    pub credit: i128,
}

impl Sums {
    pub(crate) const fn add(&mut self, others: Self) {
        self.debit += others.debit;
        self.credit += others.credit;
    }
}

type CounterKey<G> = (TenantNo, Counted, G);
type LedgerKey<G> = (TenantNo, LedgerAccount, G, Currency);

/// The totals as they are committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// By tenant, what, and gateway (empty: all).
    pub counters: BTreeMap<CounterKey<String>, i64>,
    /// By tenant, account of the chart, gateway (empty for those of no gateway), and currency.
    pub ledger: BTreeMap<LedgerKey<String>, Sums>,
}

/// A batch's changes of the totals.
#[derive(Debug, Default)]
pub(crate) struct Deltas<'a> {
    counters: BTreeMap<CounterKey<&'a str>, i64>,
    ledger: BTreeMap<LedgerKey<&'a str>, Sums>,
}

impl Totals {
    /// Reads those of a partition.
    ///
    /// # Errors
    /// [`StoreError`] where they cannot be read.
    pub fn read(reader: &Reader, partition: PartitionNo) -> Result<Self, StoreError> {
        Self::sum(reader, "WHERE partition = ?1", &[partition.number().into()])
    }

    /// Reads those of all partitions, added up.
    ///
    /// # Errors
    /// See [`Totals::read`].
    pub fn read_all(reader: &Reader) -> Result<Self, StoreError> {
        Self::sum(reader, "", &[])
    }

    fn sum(reader: &Reader, which: &str, parameters: &[Value<'_>]) -> Result<Self, StoreError> {
        let mut totals = Self::default();
        reader.for_each(&COUNTER.select(which), parameters, |cells| {
            cells.of(&COUNTER);
            let tenant = cells.tenant()?;
            let counted = Counted::parse(cells.text()?);
            let counted = counted.ok_or_else(|| cells.corrupt("is an unknown name"))?;
            let gateway = cells.string()?;
            cells.skip(1);
            *totals.counters.entry((tenant, counted, gateway)).or_default() += cells.int()?;
            Ok(())
        })?;
        reader.for_each(&LEDGER_TOTAL.select(which), parameters, |cells| {
            let (key, sums) = ledger_total(cells)?;
            totals.ledger.entry(key).or_default().add(sums);
            Ok(())
        })?;
        Ok(totals)
    }

    /// Makes durable changes known.
    pub(crate) fn add(&mut self, deltas: &Deltas<'_>) {
        for (&(tenant, counted, gateway), delta) in &deltas.counters {
            *self.counters.entry((tenant, counted, gateway.to_owned())).or_default() += delta;
        }
        for (&(tenant, account, gateway, currency), delta) in &deltas.ledger {
            let key = (tenant, account, gateway.to_owned(), currency);
            self.ledger.entry(key).or_default().add(*delta);
        }
    }
}

/// Reads a row of [`LEDGER_TOTAL`].
///
/// # Errors
/// [`StoreError::Corrupt`] where it is none.
pub fn ledger_total(cells: &mut Cells<'_>) -> Result<(LedgerKey<String>, Sums), StoreError> {
    cells.of(&LEDGER_TOTAL);
    let (tenant, account) = (cells.tenant()?, cells.code()?);
    let (gateway, currency) = (cells.string()?, cells.currency()?);
    cells.skip(1);
    let sums = Sums { debit: decimal(cells)?, credit: decimal(cells)? };
    Ok(((tenant, account, gateway, currency), sums))
}

pub(crate) fn decimal(cells: &mut Cells<'_>) -> Result<i128, StoreError> {
    let parsed = cells.text()?.parse();
    parsed.map_err(|_| cells.corrupt("is no whole number"))
}

impl<'a> Deltas<'a> {
    /// One more, or one less, of what is counted without regard to gateways.
    pub(crate) fn count(&mut self, tenant: TenantNo, counted: Counted, delta: i64) {
        *self.counters.entry((tenant, counted, "")).or_default() += delta;
    }

    /// One more, or one less, of what goes through a gateway.
    pub(crate) fn count_of_gateway(
        &mut self,
        tenant: TenantNo,
        counted: Counted,
        gateway: &'a str,
        delta: i64,
    ) {
        *self.counters.entry((tenant, counted, gateway)).or_default() += delta;
    }

    pub(crate) fn post(&mut self, posting: &'a Posting) {
        let amount = i128::from(posting.amount.0);
        self.sums(posting, posting.debit).debit += amount;
        self.sums(posting, posting.credit).credit += amount;
    }

    fn sums(&mut self, posting: &'a Posting, account: LedgerAccount) -> &mut Sums {
        let gateway = gateway_of(account, posting.gateway());
        self.ledger.entry((posting.tenant, account, gateway, posting.currency)).or_default()
    }

    /// Writes what these deltas make of a partition's totals.
    pub(crate) fn write(
        &self,
        totals: &Totals,
        db: &Database,
        partition: PartitionNo,
    ) -> Result<(), StoreError> {
        let partition = Value::Int(partition.number());
        if !self.counters.is_empty() {
            let mut put = db.upsert(&COUNTER)?;
            for (&(tenant, counted, gateway), delta) in &self.counters {
                let known = totals.counters.get(&(tenant, counted, gateway.to_owned()));
                let value = known.copied().unwrap_or_default() + delta;
                let name = counted.name().into();
                put.row(&[tenant.into(), name, gateway.into(), partition, value.into()])?;
            }
        }
        if !self.ledger.is_empty() {
            let mut put = db.upsert(&LEDGER_TOTAL)?;
            for (&(tenant, account, gateway, currency), delta) in &self.ledger {
                let known = totals.ledger.get(&(tenant, account, gateway.to_owned(), currency));
                let known = known.copied().unwrap_or_default();
                let debit = (known.debit + delta.debit).to_string();
                let credit = (known.credit + delta.credit).to_string();
                let account = Value::Int(code(account));
                let (debit, credit) = ((&debit).into(), (&credit).into());
                put.row(&[
                    tenant.into(),
                    account,
                    gateway.into(),
                    (&currency).into(),
                    partition,
                    debit,
                    credit,
                ])?;
            }
        }
        Ok(())
    }
}

/// The gateway in the key of an account's total; empty: it is no gateway's.
pub(crate) const fn gateway_of(account: LedgerAccount, gateway: &str) -> &str {
    match account {
        LedgerAccount::Customer | LedgerAccount::Sales | LedgerAccount::Tax => "",
        LedgerAccount::Gateway
        | LedgerAccount::Refunds
        | LedgerAccount::Disputes
        | LedgerAccount::DisputeExcess => gateway,
    }
}
