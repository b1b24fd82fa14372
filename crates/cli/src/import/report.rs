//! The report of an import: counts and sums of both sides, and what differs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use domain::Currency;
use domain::payment::TransactionType;
use import::{Sum, Sums};
use serde_json::{Value, json};

use super::outcome::Outcome;

/// How many lines of a kind are kept; more are counted.
const LINES_MAX: usize = 10_000;

/// A tenant's report.
pub(super) struct Report {
    tenant: String,
    is_dry: bool,
    pub(super) users: usize,
    accounts: Counts,
    payments: Counts,
    expected: Sums,
    found: Sums,
    differences: Lines,
    left_out: Lines,
    open: Lines,
}

/// Of the source, and what of them is new here.
#[derive(Default)]
struct Counts {
    source: u64,
    new: u64,
    refused: u64,
}

#[derive(Default)]
struct Lines {
    kept: Vec<String>,
    more: usize,
}

impl Lines {
    fn extend(&mut self, lines: Vec<String>) {
        for line in lines {
            match self.kept.len() < LINES_MAX {
                true => self.kept.push(line),
                false => self.more += 1,
            }
        }
    }

    const fn len(&self) -> usize {
        self.kept.len() + self.more
    }

    fn write(&self, title: &str, text: &mut String) {
        if self.kept.is_empty() {
            return;
        }
        writeln!(text, "{title}: {}", self.len()).expect("a String takes everything");
        for line in &self.kept {
            writeln!(text, "  {line}").expect("a String takes everything");
        }
    }
}

impl Report {
    pub(super) fn new(tenant: &str, is_dry: bool) -> Self {
        Self {
            tenant: tenant.to_owned(),
            is_dry,
            users: 0,
            accounts: Counts::default(),
            payments: Counts::default(),
            expected: Sums::default(),
            found: Sums::default(),
            differences: Lines::default(),
            left_out: Lines::default(),
            open: Lines::default(),
        }
    }

    /// Whether all of the source is here.
    pub(super) fn is_equal(&self) -> bool {
        self.differences.len() + self.left_out.len() == 0
    }

    pub(super) fn leave_out(&mut self, what: String) {
        self.left_out.extend(vec![what]);
    }

    pub(super) fn take_orphans(&mut self, orphans: Vec<String>) {
        self.left_out.extend(orphans);
    }

    pub(super) fn take(&mut self, it: Outcome) {
        self.accounts.source += 1;
        self.accounts.new += u64::from(it.is_new);
        self.accounts.refused += u64::from(it.is_refused);
        self.payments.source += it.payments;
        self.payments.new += it.new_payments;
        self.expected.extend(&it.expected);
        self.found.extend(&it.found);
        self.differences.extend(it.differences);
        self.left_out.extend(it.left_out);
        self.open.extend(it.open);
    }

    /// Both sides' sums by currency, type and status: the source's, and what is here.
    fn sums(&self) -> BTreeMap<(Currency, TransactionType, &'static str), (Sum, Sum)> {
        let mut both: BTreeMap<_, (Sum, Sum)> = BTreeMap::new();
        for (currency, kind, status, sum) in self.expected.rows() {
            both.entry((currency, kind, status)).or_default().0 = sum;
        }
        for (currency, kind, status, sum) in self.found.rows() {
            both.entry((currency, kind, status)).or_default().1 = sum;
        }
        both
    }

    pub(super) fn json(&self) -> Value {
        let sums = self.sums().into_iter().map(|((currency, kind, status), (source, here))| {
            json!({
                "currency": currency.code(),
                "type": kind.name(),
                "status": status,
                "count": source.count,
                "amount": currency.decimal(source.minor),
                "countHere": here.count,
                "amountHere": currency.decimal(here.minor),
            })
        });
        let counts =
            |it: &Counts| json!({ "source": it.source, "new": it.new, "refused": it.refused });
        json!({
            "tenant": self.tenant,
            "dryRun": self.is_dry,
            "equal": self.is_equal(),
            "users": self.users,
            "accounts": counts(&self.accounts),
            "payments": counts(&self.payments),
            "sums": sums.collect::<Vec<_>>(),
            "differences": self.differences.kept,
            "leftOut": self.left_out.kept,
            "open": self.open.kept,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let verb = if self.is_dry { "would be imported" } else { "imported" };
        let (accounts, payments) = (&self.accounts, &self.payments);
        writeln!(
            text,
            "tenant {}: {} accounts ({} new, {} refused) and {} payments ({} new) {verb}",
            self.tenant,
            accounts.source,
            accounts.new,
            accounts.refused,
            payments.source,
            payments.new
        )
        .expect("a String takes everything");
        for ((currency, kind, status), (source, here)) in self.sums() {
            let verdict = if source == here { "equal" } else { "different" };
            writeln!(
                text,
                "  {currency} {} {status}: {} of {}, here {} of {}: {verdict}",
                kind.name(),
                source.count,
                currency.decimal(source.minor),
                here.count,
                currency.decimal(here.minor)
            )
            .expect("a String takes everything");
        }
        self.differences.write("differences", &mut text);
        self.left_out.write("left out", &mut text);
        self.open.write("without an outcome, and no gateway to ask", &mut text);
        if self.is_equal() {
            text.push_str("all is equal\n");
        }
        text
    }
}
