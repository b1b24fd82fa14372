//! Purchases: none that was acknowledged is lost, none is granted twice, no grant is without its money, and no
//! paid purchase without its grants.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::Value;

use super::{FINAL_WITHIN, LOOK_EVERY, Verdict, is_open, read_json};
use crate::crash::client::{amount_of, transactions};
use crate::crash::http::{Connection, Identity};
use crate::crash::journal::{Answered, Inner, Order};
use crate::crash::shop::{self, Back, Offer};

/// How much of a time is compared, down to the second.
const SECOND: usize = "2000-01-01T00:00:00".len();

/// The purchases, payments and entitlements that the store has of an account that bought something.
#[derive(Debug, Default)]
pub struct Bought {
    pub account: String,
    purchases: Vec<Value>,
    /// The payments, by their ids.
    pub payments: BTreeMap<String, Value>,
    entitlements: Value,
}

/// Reads every account that bought something, once its payments are final.
pub fn read(
    (server, identity): (&mut Connection, &Identity),
    journal: &Inner,
    verdict: &mut Verdict,
) -> Vec<Bought> {
    let started = Instant::now();
    let accounts: BTreeSet<&String> = journal.orders.values().map(|it| &it.account).collect();
    let mut all = vec![];
    for account in accounts {
        loop {
            match of_account((server, identity), account) {
                Ok(bought) if bought.is_final() => {
                    all.push(bought);
                    break;
                }
                Ok(bought) if started.elapsed() > FINAL_WITHIN => {
                    verdict.open.push(format!("{account}: {:?}", bought.purchases));
                    all.push(bought);
                    break;
                }
                Err(problem) if started.elapsed() > FINAL_WITHIN => {
                    verdict.wrong.push(problem);
                    break;
                }
                Ok(_) | Err(_) => std::thread::sleep(LOOK_EVERY),
            }
        }
    }
    verdict.settled_after = verdict.settled_after.max(started.elapsed());
    all
}

fn of_account(
    (server, identity): (&mut Connection, &Identity),
    account: &str,
) -> Result<Bought, String> {
    let mut read = |target| read_json((server, identity), target);
    let listed = read(format!("/v1/accounts/{account}/purchases?limit=100"))?;
    let purchases = listed["purchases"].as_array().cloned().unwrap_or_default();
    let mut payments = BTreeMap::new();
    for id in purchases.iter().filter_map(|it| it["paymentId"].as_str()) {
        payments.insert(id.to_owned(), read(format!("/1.0/kb/payments/{id}"))?);
    }
    let entitlements = read(format!("/v1/accounts/{account}/entitlements"))?;
    Ok(Bought { account: account.to_owned(), purchases, payments, entitlements })
}

impl Bought {
    /// Whether no outcome and no refund of a duplicate is to come.
    fn is_final(&self) -> bool {
        let waits = |it: &Value| {
            let kept = it["status"] == "DUPLICATE" && !self.money(it).is_back();
            it["status"] == "PENDING" || kept
        };
        !self.purchases.iter().any(waits)
            && !self.payments.values().flat_map(transactions).any(is_open)
    }

    fn money(&self, purchase: &Value) -> Money {
        let id = purchase["paymentId"].as_str().unwrap_or_default();
        let nothing = Value::Null;
        let payment = self.payments.get(id).unwrap_or(&nothing);
        let sum = |kind: &str| {
            let of_kind = transactions(payment).filter(|it| it["transactionType"] == kind);
            let worked = of_kind.filter(|it| it["status"] == "SUCCESS");
            worked.filter_map(|it| amount_of(&it["processedAmount"])).sum()
        };
        let [taken, refunded, charged_back] = ["PURCHASE", "REFUND", "CHARGEBACK"].map(sum);
        let tries = transactions(payment).filter(|it| it["transactionType"] == "PURCHASE").count();
        Money { taken, refunded, charged_back, tries }
    }

    /// How many grants a purchase has of each feature.
    fn grants(&self, purchase: &str) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for (feature, grant) in grants(&self.entitlements) {
            if grant["purchaseId"] == purchase {
                *counts.entry(feature).or_default() += 1;
            }
        }
        counts
    }
}

fn grants(entitlements: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let features = entitlements["features"].as_array().into_iter().flatten();
    features.flat_map(|it| {
        let all = it["grants"].as_array().into_iter().flatten();
        all.map(|grant| (it["feature"].as_str().unwrap_or_default(), grant))
    })
}

/// The amounts of a purchase that moved, in minor units.
struct Money {
    taken: i64,
    refunded: i64,
    charged_back: i64,
    /// How often it was tried to take it.
    tries: usize,
}

impl Money {
    const fn is_back(&self) -> bool {
        self.refunded + self.charged_back >= self.taken
    }

    /// The status of a purchase, by its money alone; and whether its grants stay.
    const fn expected(&self, offer: &Offer) -> (&'static str, bool) {
        let Some(price) = offer.price else { return ("ACTIVE", true) };
        if self.taken < price {
            return ("FAILED", false);
        }
        let rule = if self.charged_back > 0 { Back::AtOnce } else { offer.on_refund };
        match (self.refunded + self.charged_back >= price, rule) {
            (true, Back::AtOnce) => ("RETURNED", false),
            (true, Back::AtEnd) => ("RETURNED", true),
            (true, Back::Never) | (false, _) => ("ACTIVE", true),
        }
    }
}

/// Compares what the clients were answered with what the accounts had at a time between these two.
pub fn purchases(journal: &Inner, all: &[Bought], between: [&str; 2], verdict: &mut Verdict) {
    let mut orders: BTreeMap<&str, Vec<&Order>> = BTreeMap::new();
    for order in journal.orders.values() {
        orders.entry(&order.account).or_default().push(order);
    }
    for bought in all {
        verdict.purchases += bought.purchases.len();
        acknowledged(bought, orders.get(bought.account.as_str()).map_or(&[], |it| it), verdict);
        for purchase in &bought.purchases {
            of_money(bought, purchase, between, verdict);
        }
        let known = |id: &Value| bought.purchases.iter().any(|it| it["purchaseId"] == *id);
        for (feature, grant) in grants(&bought.entitlements) {
            if !known(&grant["purchaseId"]) {
                let found = format!("{}: {feature} of no purchase: {grant}", bought.account);
                verdict.unpaid.push(found);
            }
        }
    }
}

/// Each answer's purchase is there, and no order bought more than once.
fn acknowledged(bought: &Bought, orders: &[&Order], verdict: &mut Verdict) {
    let account = &bought.account;
    let mut known = BTreeSet::new();
    for order in orders {
        let Some(Answered::Bought(id) | Answered::Pending(id)) = &order.answered else { continue };
        let found = bought.purchases.iter().find(|it| it["purchaseId"] == id.as_str());
        let is_paid = matches!(order.answered, Some(Answered::Bought(_)));
        let status = found.map_or(&Value::Null, |it| &it["status"]);
        let paid = ["ACTIVE", "RETURNED"].iter().any(|it| status == it);
        if found.is_none() || (is_paid && !paid) {
            verdict.lost_purchases.push(format!("{account}: {order:?}: {status}"));
        }
        // An order without a key may be answered with an earlier purchase.
        if order.has_key && !known.insert(id) {
            verdict.bought_twice.push(format!("{account}: two orders have {id}"));
        }
    }
    for offer in &shop::OFFERS {
        let of_offer = || orders.iter().filter(|it| it.offer == offer.key);
        let most: usize = of_offer().map(|it| if it.has_key { 1 } else { it.sent }).sum();
        let made: Vec<&Value> =
            bought.purchases.iter().filter(|it| it["offer"] == offer.key).collect();
        let stands = |it: &&&Value| it["status"] == "ACTIVE";
        if made.len() > most {
            verdict.bought_twice.push(format!("{account}: {most} orders: {made:?}"));
        }
        if offer.once && made.iter().filter(stands).count() > 1 {
            verdict.bought_twice.push(format!("{account}: had once: {made:?}"));
        }
        let declined =
            of_offer().all(|it| matches!(it.answered, Some(Answered::Failed | Answered::Refused)));
        if declined && made.iter().any(|it| it["status"] != "FAILED") {
            verdict.bought_twice.push(format!("{account}: each was declined: {made:?}"));
        }
    }
}

/// A purchase and its grants are what its money says.
fn of_money(bought: &Bought, purchase: &Value, between: [&str; 2], verdict: &mut Verdict) {
    let account = &bought.account;
    let Some(offer) = purchase["offer"].as_str().and_then(shop::offer) else {
        return verdict.wrong.push(format!("{account}: an offer that is not sold: {purchase}"));
    };
    let money = bought.money(purchase);
    if offer.price.is_some() && money.tries != 1 {
        verdict.bought_twice.push(format!("{account}: paid for {} times: {purchase}", money.tries));
    }
    let (status, stays) = money.expected(offer);
    let is_duplicate = purchase["status"] == "DUPLICATE" && status != "FAILED";
    if purchase["status"] != status && !is_duplicate {
        verdict.unpaid.push(format!("{account}: by its money it is {status}: {purchase}"));
    }
    let second = |at: &str| at.get(..SECOND).unwrap_or_default().to_owned();
    let [from, to] = between.map(second);
    let [begins, ends] = ["from", "until"].map(|name| purchase[name].as_str().map(second));
    if [&begins, &ends].into_iter().flatten().any(|it| (&from..=&to).contains(&it)) {
        // It began or ended while it was read.
        return;
    }
    // What is bought again begins when what there is ends.
    let is_on = begins.is_none_or(|it| it < from) && ends.is_none_or(|it| it > from);
    let expected = usize::from(stays && is_on && !is_duplicate);
    let given = bought.grants(purchase["purchaseId"].as_str().unwrap_or_default());
    for (feature, _) in offer.gives {
        let granted = given.get(feature).copied().unwrap_or(0);
        match granted {
            _ if granted == expected => {}
            2.. => {
                let found = format!("{account}: {granted} grants of {feature}: {purchase}");
                verdict.bought_twice.push(found);
            }
            _ => {
                let found = format!("{account}: {granted} grants of {feature}, {expected} are due");
                verdict.unpaid.push(format!("{found}: {purchase}"));
            }
        }
    }
    if given.len() > offer.gives.len() {
        verdict.unpaid.push(format!("{account}: {given:?} of {purchase}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::crash::journal::Journal;

    const NOW: &str = "2026-02-01T00:00:00.000Z";

    fn order(offer: &'static str, answered: Option<Answered>) -> Order {
        let account = "a".to_owned();
        Order { account, offer, has_key: true, is_called: true, sent: 1, answered }
    }

    fn got() -> Option<Answered> {
        Some(Answered::Bought("p".to_owned()))
    }

    /// An account with a purchase of this offer, a payment of these transactions, and these features granted.
    fn bought(offer: &str, status: &str, moved: &[(&str, f64)], granted: &[&str]) -> Bought {
        let purchase = json!({
            "purchaseId": "p", "offer": offer, "status": status, "paymentId": "pay",
            "until": "2026-03-01T00:00:00Z",
        });
        let moved = moved.iter().map(|(kind, amount)| {
            json!({ "transactionType": kind, "status": "SUCCESS", "processedAmount": amount })
        });
        let payment = json!({ "transactions": moved.collect::<Vec<_>>() });
        let features = granted
            .iter()
            .map(|feature| json!({ "feature": feature, "grants": [{ "purchaseId": "p" }] }));
        Bought {
            account: "a".to_owned(),
            purchases: vec![purchase],
            payments: BTreeMap::from([("pay".to_owned(), payment)]),
            entitlements: json!({ "features": features.collect::<Vec<_>>() }),
        }
    }

    /// How many purchases are lost, bought twice, and not what their money says.
    fn found(name: &str, orders: &[Order], bought: Bought) -> [usize; 3] {
        let name = format!("faregate-purchases-{name}-{}", uuid::Uuid::now_v7());
        let path = std::env::temp_dir().join(name);
        let journal = Journal::create(&path).unwrap();
        for (n, order) in orders.iter().enumerate() {
            journal.orders(&n.to_string(), order);
        }
        let mut verdict = Verdict::default();
        purchases(&journal.lock(), &[bought], [NOW, NOW], &mut verdict);
        std::fs::remove_file(path).unwrap();
        assert!(verdict.wrong.is_empty());
        [verdict.lost_purchases.len(), verdict.bought_twice.len(), verdict.unpaid.len()]
    }

    const PAID: [(&str, f64); 1] = [("PURCHASE", 10.0)];
    const MONTHLY: [&str; 2] = ["pro", "seats"];

    #[test]
    fn what_is_paid_and_granted_is_sound() {
        let check =
            |name: &str, order: Order, bought| assert_eq!(found(name, &[order], bought), [0; 3]);
        check("paid", order("monthly", got()), bought("monthly", "ACTIVE", &PAID, &MONTHLY));
        let failed = bought("monthly", "FAILED", &[("PURCHASE", 0.0)], &[]);
        check("failed", order("monthly", Some(Answered::Failed)), failed);
        let returned = bought("monthly", "RETURNED", &[PAID[0], ("REFUND", 10.0)], &[]);
        check("returned", order("monthly", got()), returned);
        let part = bought("monthly", "ACTIVE", &[PAID[0], ("REFUND", 9.99)], &MONTHLY);
        check("part", order("monthly", got()), part);
        let late = Some(Answered::Pending("p".to_owned()));
        let duplicate = bought("monthly", "DUPLICATE", &[PAID[0], ("REFUND", 10.0)], &[]);
        check("duplicate", order("monthly", late), duplicate);
        let moved = [("PURCHASE", 5.0), ("REFUND", 5.0)];
        check("kept", order("kept", got()), bought("kept", "RETURNED", &moved, &["seats"]));
        let moved = [("PURCHASE", 5.0), ("REFUND", 1.0), ("CHARGEBACK", 4.0)];
        check("charged-back", order("kept", got()), bought("kept", "RETURNED", &moved, &[]));
        let moved = [("PURCHASE", 3.0), ("REFUND", 3.0)];
        check("gift", order("gift", got()), bought("gift", "ACTIVE", &moved, &["pro"]));
        let mut over = bought("monthly", "ACTIVE", &PAID, &[]);
        over.purchases[0]["until"] = json!("2026-01-31T23:59:59Z");
        check("over", order("monthly", got()), over);
        let keyless = Order { has_key: false, ..order("monthly", got()) };
        let whole = bought("monthly", "ACTIVE", &PAID, &MONTHLY);
        assert_eq!(found("keyless", &[keyless, order("monthly", got())], whole), [0; 3]);
        let mut later = bought("monthly", "ACTIVE", &PAID, &[]);
        later.purchases[0]["from"] = json!("2026-02-01T00:00:01Z");
        check("later", order("monthly", got()), later);
    }

    #[test]
    fn lost_purchases_are_found() {
        let mut gone = bought("monthly", "ACTIVE", &PAID, &[]);
        gone.purchases.clear();
        assert_eq!(found("gone", &[order("monthly", got())], gone), [1, 0, 0]);
        let failed = bought("monthly", "FAILED", &[("PURCHASE", 0.0)], &[]);
        assert_eq!(found("lost", &[order("monthly", got())], failed), [1, 0, 0]);
    }

    #[test]
    fn what_is_bought_or_granted_twice_is_found() {
        let of = || order("monthly", got());
        let mut twice = bought("monthly", "ACTIVE", &PAID, &MONTHLY);
        twice.entitlements["features"][1]["grants"] =
            json!([{ "purchaseId": "p" }, { "purchaseId": "p" }]);
        assert_eq!(found("granted", &[of()], twice), [0, 1, 0]);
        let mut twice = bought("monthly", "FAILED", &[("PURCHASE", 0.0)], &[]);
        twice.purchases.push(twice.purchases[0].clone());
        twice.purchases[1]["purchaseId"] = json!("q");
        assert_eq!(found("key", &[order("monthly", Some(Answered::Failed))], twice), [0, 1, 0]);
        let tried = bought("monthly", "ACTIVE", &[PAID[0], ("PURCHASE", 0.0)], &MONTHLY);
        assert_eq!(found("tried", &[of()], tried), [0, 1, 0]);
        let whole = bought("monthly", "ACTIVE", &PAID, &MONTHLY);
        assert_eq!(found("shared", &[of(), of()], whole), [0, 1, 0]);
        let declined = bought("monthly", "ACTIVE", &PAID, &MONTHLY);
        let order_of = order("monthly", Some(Answered::Failed));
        assert_eq!(found("declined", &[order_of], declined), [0, 1, 0]);
        let mut once = bought("for-ever", "ACTIVE", &[("PURCHASE", 25.0)], &MONTHLY);
        once.purchases.push(once.purchases[0].clone());
        once.purchases[1]["purchaseId"] = json!("q");
        let moved = [order("for-ever", got()), order("for-ever", None)];
        // The second one has no grants either.
        assert_eq!(found("once", &moved, once), [0, 1, 2]);
    }

    #[test]
    fn grants_without_money_and_money_without_grants_are_found() {
        let check = |name: &str, bought: Bought, unpaid: usize| {
            let offer = shop::offer(bought.purchases[0]["offer"].as_str().unwrap()).unwrap();
            let of = order(offer.key, Some(Answered::Pending("p".to_owned())));
            assert_eq!(found(name, &[of], bought), [0, 0, unpaid], "{name}");
        };
        check("nothing", bought("monthly", "ACTIVE", &PAID, &[]), 2);
        check("half", bought("monthly", "ACTIVE", &PAID, &["pro"]), 1);
        check("unpaid", bought("monthly", "FAILED", &[("PURCHASE", 9.99)], &["pro"]), 1);
        check("active", bought("monthly", "ACTIVE", &[("PURCHASE", 0.0)], &[]), 1);
        let returned = [PAID[0], ("REFUND", 10.0)];
        check("back", bought("monthly", "RETURNED", &returned, &["pro"]), 1);
        check("not-back", bought("monthly", "ACTIVE", &returned, &[]), 1);
        check("duplicate", bought("monthly", "DUPLICATE", &returned, &["seats"]), 1);
        let kept = [("PURCHASE", 5.0), ("REFUND", 5.0)];
        check("kept", bought("kept", "RETURNED", &kept, &[]), 1);
        check("more", bought("kept", "ACTIVE", &kept[..1], &["seats", "pro"]), 1);
        let mut stray = bought("kept", "ACTIVE", &kept[..1], &["seats"]);
        stray.entitlements["features"][0]["grants"] =
            json!([{ "purchaseId": "p" }, { "source": "manual" }]);
        check("stray", stray, 1);
        let mut over = bought("monthly", "ACTIVE", &PAID, &["pro"]);
        over.purchases[0]["until"] = json!("2026-01-31T23:59:59Z");
        check("over", over, 1);
    }
}
