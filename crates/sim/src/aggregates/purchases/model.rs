//! The expected entitlements of accounts, computed from the money alone and without the rules' code.

use std::collections::{BTreeMap, BTreeSet};

use domain::entitlement::feature::FeatureValue;
use domain::entitlement::offer::{Again, Lasts, OfferTerms, Price, Revocation};
use domain::payment::{PaymentFile, TransactionStatus, TransactionType};
use domain::{AccountId, GrantId, PurchaseId, Timestamp};

use crate::disk::Disk;
use crate::kernel::Tally;
use crate::memory::MemoryDisk;

/// From when to when; `None`: for ever.
type Term = (i64, Option<i64>);

#[derive(Default)]
pub(super) struct Model {
    offers: BTreeMap<String, OfferTerms>,
    purchases: BTreeMap<PurchaseId, Bought>,
    by_hand: BTreeMap<GrantId, (AccountId, i64, Term)>,
    closed: BTreeSet<AccountId>,
    /// The term and the number of seats that each newcomer got.
    newcomers: BTreeMap<AccountId, (Term, i64)>,
    users: BTreeMap<String, AccountId>,
}

/// A purchase in the model.
struct Bought {
    account: AccountId,
    offer: String,
    terms: OfferTerms,
    money: Money,
    /// Its term, once it was paid.
    term: Option<Term>,
    /// When what it gave holds; `None`: never, or not any more.
    holds: Option<Term>,
    is_duplicate: bool,
    /// Its money was here at a time at which the account was closed.
    is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Money {
    ToCome,
    NotTaken,
    Here,
    Back(Revocation),
}

impl Model {
    pub(super) fn put_offer(&mut self, key: &str, terms: &OfferTerms) {
        self.offers.insert(key.to_owned(), terms.clone());
    }

    pub(super) fn price(&self, offer: &str) -> Price {
        self.offers[offer].price.expect("each offer has one")
    }

    pub(super) fn grant(
        &mut self,
        account: AccountId,
        id: GrantId,
        value: i64,
        (from, until): (i64, i64),
    ) {
        self.by_hand.insert(id, (account, value, (from, Some(until))));
    }

    pub(super) fn revoke(&mut self, id: GrantId) {
        self.by_hand.remove(&id);
    }

    /// The account is closed: what it has is over, and nothing comes any more.
    pub(super) fn close(&mut self, account: AccountId) {
        self.closed.insert(account);
        self.by_hand.retain(|_, (of, ..)| *of != account);
        self.newcomers.remove(&account);
        for it in self.purchases.values_mut().filter(|it| it.account == account) {
            it.holds = None;
        }
    }

    /// An account is made for a newcomer: it has a number of seats and the switch until then.
    pub(super) fn join(&mut self, account: AccountId, (from, until): (i64, i64), seats: i64) {
        self.newcomers.insert(account, ((from, Some(until)), seats));
    }

    /// Maps users to an account; whether they may be.
    pub(super) fn map_users(&mut self, account: AccountId, users: &[String]) -> bool {
        let is_others = |user: &String| self.users.get(user).is_some_and(|of| *of != account);
        if users.iter().any(is_others) {
            return false;
        }
        self.users.retain(|_, of| *of != account);
        self.users.extend(users.iter().map(|user| (user.clone(), account)));
        true
    }

    /// The person of an account is erased.
    pub(super) fn erase(&mut self, account: AccountId) {
        self.users.retain(|_, of| *of != account);
    }

    pub(super) const fn users(&self) -> &BTreeMap<String, AccountId> {
        &self.users
    }

    pub(super) fn is_closed(&self, account: AccountId) -> bool {
        self.closed.contains(&account)
    }

    /// Whether a purchase was paid for nothing, because its account was closed.
    pub(super) fn is_late(&self, id: PurchaseId) -> bool {
        self.purchases.get(&id).is_some_and(|it| it.is_late)
    }

    /// The account's other purchases of an offer whose money is here.
    fn others<'a>(
        &'a self,
        (account, offer): (AccountId, &'a str),
        but: Option<PurchaseId>,
    ) -> impl Iterator<Item = &'a Bought> {
        let all = self.purchases.iter().filter(move |(id, it)| {
            Some(**id) != but && it.account == account && it.offer == offer
        });
        all.map(|(_, it)| it)
            .filter(|it| it.money == Money::Here && !it.is_duplicate && !it.is_late)
    }

    pub(super) fn may_buy(&self, account: AccountId, offer: &str, price: Price, now: i64) -> bool {
        let terms = &self.offers[offer];
        let own = |it: &&Bought| it.account == account && it.offer == offer;
        let is_coming = self.purchases.values().filter(own).any(|it| it.money == Money::ToCome);
        terms.price == Some(price)
            && !is_coming
            && !self.is_closed(account)
            && !self.has_already((account, offer), None, terms, now)
    }

    /// Whether an account has what it cannot have twice.
    fn has_already(
        &self,
        of: (AccountId, &str),
        but: Option<PurchaseId>,
        terms: &OfferTerms,
        now: i64,
    ) -> bool {
        let refuses = terms.again == Again::Refuse;
        self.others(of, but).any(|it| {
            let (_, until) = it.term.expect("its money is here");
            let is_over = until.is_some_and(|until| until <= now);
            terms.buyers.once || (!is_over && (refuses || until.is_none()))
        })
    }

    /// Looks at the money of all payments, and counts what became of purchases.
    pub(super) fn follow(&mut self, disk: &MemoryDisk, now: i64, tally: &mut Tally) {
        for purchase in disk.purchases() {
            // What newcomers get is free.
            let Some(payment) = purchase.payment_id else { continue };
            let file = disk.payment(purchase.tenant, payment).expect("it is paid by it");
            let known = self.purchases.get(&purchase.id).map(|it| (it.money, it.terms.clone()));
            let offer = || self.offers[&purchase.offer].clone();
            let terms = known.as_ref().map_or_else(offer, |(_, terms)| terms.clone());
            let known = known.map(|(money, _)| money);
            let money = money(&file, &terms);
            if known.is_none() {
                let (account, offer) = (purchase.account_id, purchase.offer.clone());
                let (term, holds, is_duplicate, is_late) = (None, None, false, false);
                let bought =
                    Bought { account, offer, terms, money, term, holds, is_duplicate, is_late };
                self.purchases.insert(purchase.id, bought);
            }
            if known != Some(money) {
                self.moved(purchase.id, (known, money), now, tally);
            }
        }
    }

    fn moved(
        &mut self,
        id: PurchaseId,
        (before, money): (Option<Money>, Money),
        now: i64,
        tally: &mut Tally,
    ) {
        let it = &self.purchases[&id];
        let of = (it.account, it.offer.clone());
        let terms = it.terms.clone();
        let of = (of.0, of.1.as_str());
        let is_first = it.term.is_none() && !it.is_duplicate;
        let has_already = self.has_already(of, Some(id), &terms, now);
        let ends = self.others(of, Some(id)).filter_map(|it| it.term?.1);
        let begins = ends.fold(now, i64::max);
        let is_closed = self.is_closed(of.0);
        let it = self.purchases.get_mut(&id).expect("it was found");
        it.money = money;
        if it.is_duplicate || it.is_late {
            return;
        }
        let is_corrected = before == Some(Money::Here) && money == Money::NotTaken;
        tally.add("corrected", is_corrected.into());
        match money {
            Money::Here if is_closed => {
                it.is_late = true;
                it.holds = None;
                tally.add("late", 1);
            }
            Money::Here if is_first && has_already => {
                it.is_duplicate = true;
                tally.add("duplicates", 1);
            }
            Money::Here if is_first => {
                tally.add("paid", 1);
                let until = match terms.lasts {
                    Lasts::Forever => None,
                    Lasts::Days(days) => Some(begins + i64::from(days) * Timestamp::DAY_US),
                    Lasts::Months(_) => unreachable!("no offer here lasts for months"),
                };
                it.term = Some((begins, until));
                it.holds = it.term;
            }
            // What was left is still there.
            Money::Here if it.holds.is_some_and(|(_, until)| until.is_none_or(|it| it > now)) => {}
            Money::Here => {
                let (from, until) = it.term.expect("it was paid before");
                it.holds = Some((from.max(now), until));
            }
            Money::Back(rule) => {
                tally.add("returned", 1);
                if rule == Revocation::AtOnce {
                    it.holds = None;
                }
            }
            Money::ToCome | Money::NotTaken => {
                if terms.on_chargeback == Revocation::AtOnce {
                    it.holds = None;
                }
            }
        }
    }

    /// The features of an account at a domain time in microseconds, with their values.
    pub(super) fn has(&self, account: AccountId, at: i64) -> BTreeMap<String, FeatureValue> {
        let is_on = |(from, until): Term| from <= at && until.is_none_or(|until| at < until);
        let mut seats = None;
        let mut has = BTreeMap::new();
        for it in self.purchases.values().filter(|it| it.account == account) {
            if !it.holds.is_some_and(is_on) {
                continue;
            }
            has.insert("pro".to_owned(), FeatureValue::On);
            if let FeatureValue::Limit(limit) = it.terms.features["seats"] {
                *seats.get_or_insert(0) += limit;
            }
        }
        if let Some((term, value)) = self.newcomers.get(&account)
            && is_on(*term)
        {
            has.insert("pro".to_owned(), FeatureValue::On);
            *seats.get_or_insert(0) += value;
        }
        for (of, value, term) in self.by_hand.values() {
            if *of == account && is_on(*term) {
                *seats.get_or_insert(0) += value;
            }
        }
        has.extend(seats.map(|seats| ("seats".to_owned(), FeatureValue::Limit(seats))));
        has
    }
}

/// Where the money of a payment is.
fn money(file: &PaymentFile, terms: &OfferTerms) -> Money {
    let price = terms.price.expect("nothing here is free").amount.0;
    let moved = |kind: TransactionType| -> i64 {
        let all = file.transactions.iter().filter(|it| it.kind == kind);
        let worked = all.filter(|it| it.status == TransactionStatus::Success);
        worked.map(|it| it.processed_amount.unwrap_or_default().0).sum()
    };
    if moved(TransactionType::Purchase) < price {
        let last = file.transactions.iter().rev().find(|it| it.kind == TransactionType::Purchase);
        return match last.is_some_and(|it| it.status.is_open()) {
            true => Money::ToCome,
            false => Money::NotTaken,
        };
    }
    let charged_back =
        (moved(TransactionType::Chargeback) - moved(TransactionType::ChargebackReversal)).max(0);
    let back = moved(TransactionType::Refund) + charged_back;
    let rule = if charged_back > 0 { terms.on_chargeback } else { terms.on_refund };
    match back >= price && rule != Revocation::Never {
        true => Money::Back(rule),
        false => Money::Here,
    }
}
