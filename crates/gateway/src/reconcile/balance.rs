//! Reconciles a gateway's balance with the store, payment by payment: a gateway that says which money moved, and
//! not what it was called for.

use std::collections::BTreeMap;
use std::fmt;

use domain::dispute::Dispute;
use domain::payment::{Transaction, TransactionStatus, TransactionType};
use domain::{AmountMinor, Currency, MerchantAccount, PaymentId, TenantNo, Timestamp};
use uuid::Uuid;

use super::Compared;

/// The money of a payment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Money {
    /// Captured, or purchased.
    pub charged: AmountMinor,
    /// Without refunds that failed.
    pub refunded: AmountMinor,
    /// Withdrawn for disputes, less what was reinstated.
    pub disputed: AmountMinor,
}

/// What a gateway's balance says of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The gateway's name for the charge, or for what moved first.
    pub name: String,
    pub money: Money,
    /// `None`: several, or one that the store does not know.
    pub currency: Option<Currency>,
    /// When money moved last, by the gateway's clock.
    pub at: Timestamp,
}

/// What a gateway's balance says of a tenant's payments.
#[derive(Debug, Default)]
pub struct Statement {
    pub payments: BTreeMap<PaymentId, Moved>,
    /// What the gateway kept, in its smallest unit by ISO 4217 code.
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
    money: Money,
    currency: Option<Currency>,
    begun: Timestamp,
    merchant_account: Option<MerchantAccount>,
    is_open: bool,
}

/// Which payments are compared: those that began in it, and whose money moved before its end.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub since: Timestamp,
    /// Before the books were read: what moves while both sides are read would differ, and clocks do.
    pub until: Timestamp,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub tenant: TenantNo,
    pub payment: PaymentId,
    /// The gateway's name for the charge; `None` where it has none.
    pub name: Option<String>,
    pub kind: MismatchKind,
}

/// What kind of difference it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// The gateway moved money for a payment that the store does not have.
    NotInStore(Money),
    /// The amounts differ: at the gateway, and booked.
    Amounts { moved: Money, booked: Money },
    /// The currencies differ.
    Currencies { moved: Option<Currency>, booked: Option<Currency> },
}

impl Books {
    /// Adds one transaction of the gateway.
    pub fn add(&mut self, it: &Transaction) {
        let key = (it.tenant, it.payment_id);
        let booked = self.payments.entry(key).or_insert_with(|| Booked {
            money: Money::default(),
            currency: None,
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
        let amount = it.processed_amount.unwrap_or_default().0;
        let money = &mut booked.money;
        match it.kind {
            TransactionType::Purchase | TransactionType::Capture => money.charged.0 += amount,
            TransactionType::Refund => money.refunded.0 += amount,
            TransactionType::Chargeback => money.disputed.0 += amount,
            TransactionType::ChargebackReversal => money.disputed.0 -= amount,
            // They move nothing of the balance.
            TransactionType::Authorize | TransactionType::Credit | TransactionType::Void => return,
        }
        booked.currency = it.processed_currency.or(booked.currency);
    }

    /// Adds what disputes moved beyond the chargebacks of their payments.
    pub fn add_excess(&mut self, of: &Dispute) {
        if let Some(booked) = self.payments.get_mut(&(of.tenant, of.payment_id)) {
            let excess = of.booked.excess.0 - of.booked.excess_returned.0;
            booked.money.disputed.0 += excess;
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
        let mut add = |compared: &mut Compared, payment, name: Option<&Moved>, kind| {
            compared.differences += 1;
            report(Mismatch { tenant, payment, name: name.map(|it| it.name.clone()), kind });
        };
        let is_recent = |at: Timestamp| at >= window.until;
        let is_own = |it: &Booked| it.merchant_account.as_ref().is_none_or(|it| it == account);
        let first = (tenant, PaymentId::new(Uuid::nil()));
        let own = self.payments.range(first..).take_while(|((no, _), _)| *no == tenant);
        for ((_, id), booked) in own {
            let moved = statement.payments.get(id);
            if booked.begun < window.since || !is_own(booked) {
                continue;
            }
            let moves = moved.is_some_and(|it| is_recent(it.at));
            if booked.is_open || is_recent(booked.begun) || moves {
                open += 1;
                continue;
            }
            compared.booked += u64::from(booked.money.charged > AmountMinor::ZERO);
            compared.charged += u64::from(moved.is_some());
            if let Some(kind) = mismatch(booked, moved) {
                add(&mut compared, *id, moved, kind);
            }
        }
        for (id, moved) in &statement.payments {
            if self.payments.contains_key(&(tenant, *id)) {
                continue;
            }
            if is_recent(moved.at) {
                open += 1;
                continue;
            }
            compared.charged += 1;
            add(&mut compared, *id, Some(moved), MismatchKind::NotInStore(moved.money));
        }
        (compared, open)
    }
}

fn mismatch(booked: &Booked, moved: Option<&Moved>) -> Option<MismatchKind> {
    let at_gateway = moved.map(|it| it.money).unwrap_or_default();
    if at_gateway != booked.money {
        return Some(MismatchKind::Amounts { moved: at_gateway, booked: booked.money });
    }
    let (moved, booked) = (moved?.currency, booked.currency);
    (moved != booked).then_some(MismatchKind::Currencies { moved, booked })
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { charged, refunded, disputed } = self;
        write!(f, "{} charged, {} refunded, {} disputed", charged.0, refunded.0, disputed.0)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant {} payment {}", self.tenant.0, self.payment)?;
        if let Some(name) = &self.name {
            write!(f, " ({name})")?;
        }
        let code = |it: Option<Currency>| it.map_or("none".to_owned(), |it| it.to_string());
        match self.kind {
            MismatchKind::NotInStore(moved) => {
                write!(f, ": {moved} at the gateway; not in the store (minor units)")
            }
            MismatchKind::Amounts { moved, booked } => {
                write!(f, ": {moved} at the gateway; {booked} in the store (minor units)")
            }
            MismatchKind::Currencies { moved, booked } => {
                write!(f, ": charged in {}, booked in {}", code(moved), code(booked))
            }
        }
    }
}

/// What a movement is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Charge,
    Refund,
    Dispute,
}

impl Statement {
    /// Adds what the gateway says of one charge, refund or dispute.
    pub(crate) fn add(&mut self, payment: Uuid, kind: Kind, it: Moving) {
        let moved = self.payments.entry(PaymentId::new(payment)).or_insert_with(|| Moved {
            name: it.name.clone(),
            money: Money::default(),
            currency: it.currency,
            at: it.at,
        });
        let money = &mut moved.money;
        match kind {
            Kind::Charge => {
                money.charged.0 += it.amount.0;
                moved.name = it.name;
            }
            Kind::Refund => money.refunded.0 += it.amount.0,
            Kind::Dispute => money.disputed.0 += it.amount.0,
        }
        moved.at = moved.at.max(it.at);
        moved.currency = moved.currency.filter(|own| it.currency == Some(*own));
    }
}

/// One charge, refund or dispute.
pub(crate) struct Moving {
    pub(crate) name: String,
    pub(crate) amount: AmountMinor,
    pub(crate) currency: Option<Currency>,
    pub(crate) at: Timestamp,
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const TENANT: TenantNo = TenantNo(3);
    const NOW: Timestamp = Timestamp(1_000 * Timestamp::SECOND_US);

    fn transaction(payment: u128, kind: TransactionType, amount: i64) -> Transaction {
        let eur = Currency::parse("EUR");
        Transaction {
            tenant: TENANT,
            id: domain::TransactionId::new(Uuid::from_u128(payment + 100)),
            payment_id: PaymentId::new(Uuid::from_u128(payment)),
            account_id: domain::AccountId::new(Uuid::from_u128(9)),
            external_key: None,
            gateway: "faregate-stripe".to_owned(),
            merchant_account: Some(MerchantAccount("acct_1/test".to_owned())),
            payment_method_id: domain::PaymentMethodId::new(Uuid::from_u128(8)),
            kind,
            status: TransactionStatus::Success,
            amount: Some(AmountMinor(amount)),
            called_amount: None,
            currency: eur,
            processed_amount: Some(AmountMinor(amount)),
            processed_currency: eur,
            effective_at: Timestamp(0),
            gateway_error_code: None,
            gateway_error_message: None,
            first_reference: None,
            second_reference: None,
            overruled: false,
            heard_at: None,
            routed: None,
            revision: domain::Revision::first(domain::Seq(1)),
        }
    }

    fn moving(name: &str, amount: i64, at: Timestamp) -> Moving {
        let (name, amount) = (name.to_owned(), AmountMinor(amount));
        Moving { name, amount, currency: Currency::parse("EUR"), at }
    }

    fn check(books: &[Transaction], moved: Vec<(u128, Kind, Moving)>, expected: Expect) {
        let (mut all, mut statement) = (Books::default(), Statement::default());
        books.iter().for_each(|it| all.add(it));
        for (payment, kind, it) in moved {
            statement.add(Uuid::from_u128(payment), kind, it);
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
        let books = [
            transaction(1, TransactionType::Authorize, 1_000),
            transaction(1, TransactionType::Capture, 400),
            transaction(1, TransactionType::Capture, 500),
            transaction(1, TransactionType::Refund, 100),
        ];
        let moved = vec![
            (1, Kind::Charge, moving("ch_1", 900, Timestamp(5))),
            (1, Kind::Refund, moving("re_1", 100, Timestamp(6))),
        ];
        check(
            &books,
            moved,
            expect!["Compared { charged: 1, booked: 1, differences: 0 }, open: 0"],
        );
    }

    #[test]
    fn what_differs_is_named() {
        let books = [
            transaction(1, TransactionType::Purchase, 900),
            transaction(2, TransactionType::Purchase, 700),
        ];
        let moved = vec![
            (1, Kind::Charge, moving("ch_1", 1_000, Timestamp(5))),
            (1, Kind::Dispute, moving("dp_1", 1_000, Timestamp(5))),
        ];
        check(
            &books,
            moved,
            expect![[r#"
                Compared { charged: 1, booked: 2, differences: 2 }, open: 0
                tenant 3 payment 00000000-0000-0000-0000-000000000001 (ch_1): 1000 charged, 0 refunded, 1000 disputed at the gateway; 900 charged, 0 refunded, 0 disputed in the store (minor units)
                tenant 3 payment 00000000-0000-0000-0000-000000000002: 0 charged, 0 refunded, 0 disputed at the gateway; 700 charged, 0 refunded, 0 disputed in the store (minor units)"#]],
        );
        check(
            &[],
            vec![(4, Kind::Charge, moving("ch_4", 50, Timestamp(5)))],
            expect![[r#"
                Compared { charged: 1, booked: 0, differences: 1 }, open: 0
                tenant 3 payment 00000000-0000-0000-0000-000000000004 (ch_4): 50 charged, 0 refunded, 0 disputed at the gateway; not in the store (minor units)"#]],
        );
    }

    #[test]
    fn what_another_account_has_is_not_missed() {
        let mut other = transaction(1, TransactionType::Purchase, 900);
        other.merchant_account = Some(MerchantAccount("acct_2/test".to_owned()));
        check(
            &[other],
            vec![],
            expect!["Compared { charged: 0, booked: 0, differences: 0 }, open: 0"],
        );
    }

    #[test]
    fn what_is_open_or_recent_is_compared_later() {
        let mut open = transaction(1, TransactionType::Purchase, 900);
        open.status = TransactionStatus::Unknown;
        let recent = vec![
            (1, Kind::Charge, moving("ch_1", 900, Timestamp(5))),
            (2, Kind::Charge, moving("ch_2", 900, NOW)),
        ];
        check(
            &[open],
            recent,
            expect!["Compared { charged: 0, booked: 0, differences: 0 }, open: 2"],
        );
    }
}
