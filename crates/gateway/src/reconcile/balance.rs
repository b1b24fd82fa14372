//! Reconciles a gateway's balance with the store, charge by charge and refund by refund: a gateway that says which
//! money moved, and not what it was called for.

use std::collections::BTreeMap;
use std::fmt;

use domain::payment::dispute::Dispute;
use domain::payment::{Transaction, TransactionStatus, TransactionType};
use domain::{AmountMinor, Currency, MerchantAccount, PaymentId, TenantNo, Timestamp};
use uuid::Uuid;

use super::Compared;

/// The kind of a movement of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Captured, or purchased.
    Charge,
    /// Nothing where it failed.
    Refund,
    /// Withdrawn, less what was reinstated.
    Dispute,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Charge, Self::Refund, Self::Dispute];

    const fn name(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Refund => "refund",
            Self::Dispute => "dispute",
        }
    }
}

/// Money, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub amount: AmountMinor,
    /// `None`: several, or one that the store does not know.
    pub currency: Option<Currency>,
}

/// The gateway's fee for a charge, refund or dispute, in the balance's smallest unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fee {
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
}

/// The money that moved for a charge, refund or dispute, by the gateway's balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub kind: Kind,
    /// The gateway's name for it.
    pub name: String,
    pub sum: Sum,
    pub fee: Fee,
    /// When money moved last, by the gateway's clock.
    pub at: Timestamp,
}

/// The money that moved for a tenant's payments, by the gateway's balance.
#[derive(Debug, Default)]
pub struct Statement {
    pub payments: BTreeMap<PaymentId, Vec<Moved>>,
    /// The sum of the fees by ISO 4217 code, in the currency's smallest unit.
    pub fees: BTreeMap<String, i64>,
    /// Movements of no payment of the tenant's: made elsewhere, payouts.
    pub others: u64,
}

/// The payments of a gateway as they are booked.
#[derive(Debug, Default)]
pub struct Books {
    payments: BTreeMap<(TenantNo, PaymentId), Booked>,
}

#[derive(Debug)]
struct Booked {
    objects: Vec<BookedObject>,
    begun: Timestamp,
    merchant_account: Option<MerchantAccount>,
    is_open: bool,
}

/// The booked sum of a charge, refund or dispute, or of all of a kind without a name.
#[derive(Debug)]
struct BookedObject {
    kind: Kind,
    /// The gateway's name for it; `None` where the books do not have it.
    name: Option<Box<str>>,
    sum: Sum,
}

/// Which payments are compared: those that began in it, and whose money moved before its end.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub since: Timestamp,
    /// Before the books were read: what moves while both sides are read would differ, and clocks do.
    pub until: Timestamp,
}

impl Window {
    /// Whether a time is in it.
    #[must_use]
    pub fn has(&self, at: Timestamp) -> bool {
        self.since <= at && at < self.until
    }
}

/// A charge, refund or dispute that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub tenant: TenantNo,
    pub payment: PaymentId,
    pub difference: Difference,
}

/// The sums of a charge, refund or dispute that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub kind: Kind,
    /// The gateway's name for it; `None`: those of the payment that the books do not name, together.
    pub name: Option<String>,
    pub moved: Sum,
    pub booked: Sum,
    /// `None` where the gateway has none of this name.
    pub fee: Option<Fee>,
}

impl Sum {
    fn add(&mut self, amount: AmountMinor, currency: Option<Currency>) {
        if amount.is_zero() {
            return;
        }
        let is_first = *self == Self::default();
        let is_same = |own: &Currency| currency == Some(*own);
        self.currency = if is_first { currency } else { self.currency.filter(is_same) };
        self.amount.0 += amount.0;
    }

    /// Nothing is the same in every currency.
    fn is_same(&self, other: &Self) -> bool {
        let both_zero = self.amount.is_zero() && other.amount.is_zero();
        both_zero || (self == other && self.currency.is_some())
    }
}

impl Books {
    /// Adds one transaction of the gateway; `name` is the gateway's name for its charge or refund.
    pub fn add(&mut self, it: &Transaction, name: Option<&str>) {
        let key = (it.tenant, it.payment_id);
        let booked = self.payments.entry(key).or_insert_with(|| Booked {
            objects: vec![],
            begun: it.effective_at,
            merchant_account: None,
            is_open: false,
        });
        booked.begun = booked.begun.min(it.effective_at);
        booked.is_open |= it.status.is_open();
        if it.status != TransactionStatus::Success {
            return;
        }
        if it.merchant_account.is_some() {
            booked.merchant_account.clone_from(&it.merchant_account);
        }
        let (kind, sign) = match it.kind {
            TransactionType::Purchase | TransactionType::Capture => (Kind::Charge, 1),
            TransactionType::Refund => (Kind::Refund, 1),
            TransactionType::Chargeback => (Kind::Dispute, 1),
            TransactionType::ChargebackReversal => (Kind::Dispute, -1),
            // They move nothing of the balance.
            TransactionType::Authorize | TransactionType::Credit | TransactionType::Void => return,
        };
        let amount = AmountMinor(sign * it.processed_amount.unwrap_or_default().0);
        booked.sum(kind, name).add(amount, it.processed_currency);
    }

    /// Adds what disputes moved beyond the chargebacks of their payments.
    pub fn add_excess(&mut self, of: &Dispute) {
        if let Some(booked) = self.payments.get_mut(&(of.tenant, of.payment_id)) {
            let excess = of.booked.excess.0 - of.booked.excess_returned.0;
            booked.sum(Kind::Dispute, None).add(AmountMinor(excess), Some(of.currency));
            booked.is_open |= of.booking_at.is_some();
        }
    }

    /// Compares a tenant's payments with what the gateway says of its account; how many could not be compared yet,
    /// because an outcome is not known or money moved just now, comes last.
    pub fn compare(
        &self,
        (tenant, account): (TenantNo, &MerchantAccount),
        statement: &Statement,
        window: Window,
        mut report: impl FnMut(Mismatch),
    ) -> (Compared, u64) {
        let (mut compared, mut open) = (Compared::default(), 0);
        let mut add = |compared: &mut Compared, payment, difference| {
            compared.differences += 1;
            report(Mismatch { tenant, payment, difference });
        };
        let is_recent = |at: Timestamp| at >= window.until;
        let is_own = |it: &Booked| it.merchant_account.as_ref().is_none_or(|it| it == account);
        let first = (tenant, PaymentId::new(Uuid::nil()));
        let own = self.payments.range(first..).take_while(|((no, _), _)| *no == tenant);
        for ((_, id), booked) in own {
            let moved = statement.payments.get(id).map_or(&[][..], |it| it);
            if booked.begun < window.since || !is_own(booked) {
                continue;
            }
            let moves = moved.iter().any(|it| is_recent(it.at));
            if booked.is_open || is_recent(booked.begun) || moves {
                open += 1;
                continue;
            }
            compared.booked += u64::from(booked.is_charged());
            compared.charged += u64::from(!moved.is_empty());
            differences(&booked.objects, moved, |it| add(&mut compared, *id, it));
        }
        for (id, moved) in &statement.payments {
            if self.payments.contains_key(&(tenant, *id)) {
                continue;
            }
            if moved.iter().any(|it| is_recent(it.at)) {
                open += 1;
                continue;
            }
            compared.charged += 1;
            differences(&[], moved, |it| add(&mut compared, *id, it));
        }
        (compared, open)
    }
}

impl Booked {
    /// The booked sum under a name, or without one; zero where there was none.
    fn sum(&mut self, kind: Kind, name: Option<&str>) -> &mut Sum {
        let is_it = |it: &BookedObject| it.kind == kind && it.name.as_deref() == name;
        let at = self.objects.iter().position(is_it).unwrap_or_else(|| {
            self.objects.push(BookedObject {
                kind,
                name: name.map(Into::into),
                sum: Sum::default(),
            });
            self.objects.len() - 1
        });
        &mut self.objects[at].sum
    }

    fn is_charged(&self) -> bool {
        self.objects.iter().any(|it| it.kind == Kind::Charge && it.sum.amount > AmountMinor::ZERO)
    }
}

/// Compares what is booked of a payment with what moved for it.
fn differences(booked: &[BookedObject], moved: &[Moved], mut report: impl FnMut(Difference)) {
    for kind in Kind::ALL {
        let own = || booked.iter().filter(|it| it.kind == kind);
        let mut rest: Vec<&Moved> = moved.iter().filter(|it| it.kind == kind).collect();
        for it in own() {
            let Some(name) = &it.name else { continue };
            let found = rest.iter().position(|moved| *moved.name == **name);
            let found = found.map(|at| rest.remove(at));
            let moved = found.map(|it| it.sum).unwrap_or_default();
            if !moved.is_same(&it.sum) {
                let (name, fee) = (Some(name.to_string()), found.map(|it| it.fee.clone()));
                report(Difference { kind, name, moved, booked: it.sum, fee });
            }
        }
        let nothing = Sum::default();
        match own().find(|it| it.name.is_none()) {
            Some(unnamed) => {
                let mut moved = nothing;
                rest.iter().for_each(|it| moved.add(it.sum.amount, it.sum.currency));
                if !moved.is_same(&unnamed.sum) {
                    report(Difference { kind, name: None, moved, booked: unnamed.sum, fee: None });
                }
            }
            None => rest.iter().filter(|it| !it.sum.amount.is_zero()).for_each(|it| {
                let (name, fee) = (Some(it.name.clone()), Some(it.fee.clone()));
                report(Difference { kind, name, moved: it.sum, booked: nothing, fee });
            }),
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { amount, currency } = self;
        match currency {
            Some(currency) => write!(f, "{} {currency}", amount.0),
            None => write!(f, "{} of no one currency", amount.0),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { kind, name, moved, booked, fee } = &self.difference;
        write!(f, "tenant {} payment {} {}", self.tenant.0, self.payment, kind.name())?;
        if let Some(name) = name {
            write!(f, " {name}")?;
        }
        let of =
            |sum: &Sum| if sum.amount.is_zero() { "nothing".to_owned() } else { sum.to_string() };
        write!(f, ": {} at the gateway, {} in the store", of(moved), of(booked))?;
        match fee {
            Some(Fee { amount, currency }) => write!(f, "; fee {amount} {currency}"),
            None => Ok(()),
        }
    }
}

impl Statement {
    /// Adds what the gateway says of one charge, refund or dispute.
    pub(crate) fn add(&mut self, payment: Uuid, moved: Moved) {
        self.payments.entry(PaymentId::new(payment)).or_default().push(moved);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use domain::payment::routed::Destination;
    use domain::{AccountId, PaymentMethodId, Seq, TransactionId};
    use expect_test::{Expect, expect};

    use super::*;

    const TENANT: TenantNo = TenantNo(3);
    const NOW: Timestamp = Timestamp(1_000 * Timestamp::SECOND_US);

    /// A transaction of a charge or refund with this name; of one that the books do not name where it is empty.
    pub(in crate::reconcile) fn transaction(
        payment: u128,
        kind: TransactionType,
        (name, amount): (&str, i64),
    ) -> Transaction {
        let eur = Currency::parse("EUR");
        let to = Destination {
            gateway: "faregate-stripe".to_owned(),
            merchant_account: Some(MerchantAccount("acct_1/test".to_owned())),
            payment_method: PaymentMethodId::new(Uuid::from_u128(8)),
        };
        Transaction {
            status: TransactionStatus::Success,
            amount: Some(AmountMinor(amount)),
            currency: eur,
            processed_amount: Some(AmountMinor(amount)),
            processed_currency: eur,
            first_reference: Some(name.to_owned()).filter(|it| !it.is_empty()),
            ..Transaction::in_flight(
                (TENANT, TransactionId::new(Uuid::from_u128(payment + 100))),
                (PaymentId::new(Uuid::from_u128(payment)), AccountId::new(Uuid::from_u128(9))),
                (kind, to),
                (Timestamp(0), Seq(1)),
            )
        }
    }

    fn moved(kind: Kind, name: &str, amount: i64) -> Moved {
        Moved {
            kind,
            name: name.to_owned(),
            sum: Sum { amount: AmountMinor(amount), currency: Currency::parse("EUR") },
            fee: Fee { amount: 59, currency: "USD".to_owned() },
            at: Timestamp(5),
        }
    }

    fn check(books: &[Transaction], moved: Vec<(u128, Moved)>, expected: Expect) {
        let (mut all, mut statement) = (Books::default(), Statement::default());
        books.iter().for_each(|it| all.add(it, it.first_reference.as_deref()));
        for (payment, it) in moved {
            statement.add(Uuid::from_u128(payment), it);
        }
        let window = Window { since: Timestamp(0), until: NOW };
        let account = MerchantAccount("acct_1/test".to_owned());
        let mut lines = vec![];
        let (compared, open) =
            all.compare((TENANT, &account), &statement, window, |it| lines.push(it.to_string()));
        lines.insert(0, format!("{compared:?}, open: {open}"));
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn what_agrees_is_counted() {
        use TransactionType::{Authorize, Capture, Refund};
        // Captures of one charge are one movement.
        let books = [
            transaction(1, Authorize, ("pi_1", 1_000)),
            transaction(1, Capture, ("ch_1", 400)),
            transaction(1, Capture, ("ch_1", 500)),
            transaction(1, Refund, ("re_1", 100)),
        ];
        // The last one has failed.
        let moved = vec![
            (1, moved(Kind::Charge, "ch_1", 900)),
            (1, moved(Kind::Refund, "re_1", 100)),
            (1, moved(Kind::Refund, "re_2", 0)),
        ];
        check(
            &books,
            moved,
            expect!["Compared { charged: 1, booked: 1, differences: 0 }, open: 0"],
        );
    }

    #[test]
    fn what_the_books_do_not_name_is_compared_by_its_sum() {
        use TransactionType::{Chargeback, Purchase, Refund};
        let books = [
            transaction(1, Purchase, ("", 900)),
            transaction(1, Refund, ("", 100)),
            transaction(1, Refund, ("", 200)),
            transaction(1, Chargeback, ("", 50)),
        ];
        let of = |charged, refunded| {
            vec![
                (1, moved(Kind::Charge, "ch_1", charged)),
                (1, moved(Kind::Refund, "re_1", refunded)),
                (1, moved(Kind::Refund, "re_2", 100)),
                (1, moved(Kind::Dispute, "du_1", 50)),
            ]
        };
        check(
            &books,
            of(900, 200),
            expect!["Compared { charged: 1, booked: 1, differences: 0 }, open: 0"],
        );
        check(
            &books,
            of(800, 300),
            expect![[r#"
            Compared { charged: 1, booked: 1, differences: 2 }, open: 0
            tenant 3 payment 00000000-0000-0000-0000-000000000001 charge: 800 EUR at the gateway, 900 EUR in the store
            tenant 3 payment 00000000-0000-0000-0000-000000000001 refund: 400 EUR at the gateway, 300 EUR in the store"#]],
        );
    }

    #[test]
    fn what_differs_is_named() {
        use TransactionType::{Purchase, Refund};
        let books = [
            transaction(1, Purchase, ("ch_1", 900)),
            transaction(2, Purchase, ("ch_2", 700)),
            // Refunds of the same sum, of which one is another.
            transaction(2, Refund, ("re_1", 100)),
            transaction(2, Refund, ("re_2", 200)),
        ];
        let all = vec![
            (1, moved(Kind::Charge, "ch_1", 1_000)),
            (1, moved(Kind::Dispute, "du_1", 1_000)),
            (2, moved(Kind::Refund, "re_1", 100)),
            (2, moved(Kind::Refund, "re_3", 200)),
        ];
        check(
            &books,
            all,
            expect![[r#"
            Compared { charged: 2, booked: 2, differences: 5 }, open: 0
            tenant 3 payment 00000000-0000-0000-0000-000000000001 charge ch_1: 1000 EUR at the gateway, 900 EUR in the store; fee 59 USD
            tenant 3 payment 00000000-0000-0000-0000-000000000001 dispute du_1: 1000 EUR at the gateway, nothing in the store; fee 59 USD
            tenant 3 payment 00000000-0000-0000-0000-000000000002 charge ch_2: nothing at the gateway, 700 EUR in the store
            tenant 3 payment 00000000-0000-0000-0000-000000000002 refund re_2: nothing at the gateway, 200 EUR in the store
            tenant 3 payment 00000000-0000-0000-0000-000000000002 refund re_3: 200 EUR at the gateway, nothing in the store; fee 59 USD"#]],
        );
        check(
            &[],
            vec![(4, moved(Kind::Charge, "ch_4", 50))],
            expect![[r#"
            Compared { charged: 1, booked: 0, differences: 1 }, open: 0
            tenant 3 payment 00000000-0000-0000-0000-000000000004 charge ch_4: 50 EUR at the gateway, nothing in the store; fee 59 USD"#]],
        );
    }

    #[test]
    fn currencies_are_compared_of_each() {
        use TransactionType::{Purchase, Refund};
        let books =
            [transaction(1, Purchase, ("ch_1", 900)), transaction(1, Refund, ("re_1", 900))];
        let mut refund = moved(Kind::Refund, "re_1", 900);
        refund.sum.currency = Currency::parse("USD");
        check(
            &books,
            vec![(1, moved(Kind::Charge, "ch_1", 900)), (1, refund)],
            expect![[r#"
            Compared { charged: 1, booked: 1, differences: 1 }, open: 0
            tenant 3 payment 00000000-0000-0000-0000-000000000001 refund re_1: 900 USD at the gateway, 900 EUR in the store; fee 59 USD"#]],
        );
    }

    #[test]
    fn what_another_account_has_is_not_missed() {
        let mut other = transaction(1, TransactionType::Purchase, ("ch_1", 900));
        other.merchant_account = Some(MerchantAccount("acct_2/test".to_owned()));
        check(
            &[other],
            vec![],
            expect!["Compared { charged: 0, booked: 0, differences: 0 }, open: 0"],
        );
    }

    #[test]
    fn what_is_open_or_recent_is_compared_later() {
        let mut open = transaction(1, TransactionType::Purchase, ("ch_1", 900));
        open.status = TransactionStatus::Unknown;
        let recent = vec![
            (1, moved(Kind::Charge, "ch_1", 900)),
            (2, Moved { at: NOW, ..moved(Kind::Charge, "ch_2", 900) }),
        ];
        check(
            &[open],
            recent,
            expect!["Compared { charged: 0, booked: 0, differences: 0 }, open: 2"],
        );
    }
}
