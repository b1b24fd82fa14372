//! Statements: which money Stripe's balance transactions moved for each payment of a tenant.

use std::collections::{BTreeMap, HashMap};

use domain::payment::{Transaction, TransactionType};
use domain::{Currency, Timestamp};
use uuid::Uuid;

use super::amount::from_stripe;
use super::api::{Api, Parameters, Trouble};
use super::objects::{BalanceTransaction, List, Movement, MovementSource};
use super::outcome;
use crate::reconcile::{Fee, Kind, Moved, Statement, Sum};

/// How far Stripe's clock may be behind ours.
const SKEW_US: i64 = 86_400 * Timestamp::SECOND_US;

/// How many objects a page has (Stripe's maximum).
const PAGE: &str = "100";

/// Reads the balance transactions since a time, newest first, and what became of their charges, refunds and
/// disputes until now.
pub(super) async fn read(
    api: &Api<'_>,
    tenant: Uuid,
    since: Timestamp,
) -> Result<Statement, Trouble> {
    let since_s = since.0.saturating_sub(SKEW_US).div_euclid(Timestamp::SECOND_US).max(0);
    let (mut found, mut after) = (Found::default(), None);
    loop {
        let page = Parameters::default()
            .with("limit", PAGE)
            .with("created[gte]", since_s.to_string())
            .with("expand[]", "data.source")
            .with_some("starting_after", after.as_ref());
        let page: List<BalanceTransaction> = api.get("/v1/balance_transactions", page).await?;
        after = page.data.last().map(|it| it.id.clone());
        for it in page.data {
            found.add(it);
        }
        if !page.has_more || after.is_none() {
            return found.stated(tenant);
        }
    }
}

/// Stripe's name for the charge or the refund of a transaction, as its balance transactions have it; `None` where the
/// books have another one, such as that of an imported payment, or none.
#[must_use]
pub fn object_of(it: &Transaction) -> Option<&str> {
    let (name, prefixes) = match it.kind {
        TransactionType::Purchase | TransactionType::Capture => {
            (&it.second_reference, ["ch_", "py_"])
        }
        TransactionType::Refund => (&it.first_reference, ["re_", "pyr_"]),
        TransactionType::Authorize
        | TransactionType::Void
        | TransactionType::Credit
        | TransactionType::Chargeback
        | TransactionType::ChargebackReversal => return None,
    };
    name.as_deref().filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// The objects that were read, each with its current state and the sums of all its movements.
#[derive(Default)]
struct Found {
    objects: HashMap<String, Object>,
    fees: BTreeMap<String, i64>,
    others: u64,
}

struct Object {
    kind: Kind,
    source: MovementSource,
    at: Timestamp,
    /// The sum of its balance transactions and of what was kept of them, in the balance's currency.
    balance: i64,
    fee: i64,
    balance_currency: String,
}

impl Found {
    fn add(&mut self, it: BalanceTransaction) {
        if it.fee != 0 {
            *self.fees.entry(it.currency.to_ascii_uppercase()).or_default() += it.fee;
        }
        let source = match it.source {
            Some(Movement::Object(source)) => source,
            Some(Movement::Id(_)) | None => {
                self.others += 1;
                return;
            }
        };
        let kind = match source.object.as_str() {
            "charge" => Kind::Charge,
            "refund" => Kind::Refund,
            "dispute" => Kind::Dispute,
            _ => {
                self.others += 1;
                return;
            }
        };
        let at = Timestamp(it.created.saturating_mul(Timestamp::SECOND_US));
        let object = self.objects.entry(source.id.clone()).or_insert_with(|| Object {
            kind,
            source,
            at,
            balance: 0,
            fee: 0,
            balance_currency: it.currency,
        });
        object.at = object.at.max(at);
        object.balance += it.amount;
        object.fee += it.fee;
    }

    /// The money that moved for each payment of a tenant. Refunds and disputes that were made elsewhere belong to the
    /// payment of their PaymentIntent.
    fn stated(self, tenant: Uuid) -> Result<Statement, Trouble> {
        let id = |of: &MovementSource, name: &str| {
            let metadata = of.metadata.as_ref()?;
            metadata.get(name).and_then(|it| it.parse::<Uuid>().ok())
        };
        let payment_of = |of: &MovementSource| {
            id(of, outcome::PAYMENT).filter(|_| id(of, outcome::TENANT) == Some(tenant))
        };
        let intent_of =
            |of: &MovementSource| of.payment_intent.as_ref().map(|it| it.id().to_owned());
        let charges = self.objects.values().filter(|it| it.kind == Kind::Charge);
        let charges = charges.map(|it| &it.source);
        let intents: HashMap<String, Uuid> =
            charges.filter_map(|it| intent_of(it).zip(payment_of(it))).collect();
        let mut statement =
            Statement { fees: self.fees, others: self.others, ..Statement::default() };
        for it in self.objects.into_values() {
            let by_intent = || intent_of(&it.source).and_then(|it| intents.get(&it).copied());
            match payment_of(&it.source).or_else(by_intent) {
                Some(payment) => statement.add(payment, it.moved()?),
                None => statement.others += 1,
            }
        }
        Ok(statement)
    }
}

impl Object {
    fn moved(self) -> Result<Moved, Trouble> {
        let MovementSource { id, amount, amount_captured, currency, status, .. } = self.source;
        let failed = status.is_some_and(|it| it == "failed" || it == "canceled");
        let moved = match self.kind {
            Kind::Charge => amount_captured.unwrap_or(amount),
            Kind::Refund if failed => 0,
            Kind::Refund => amount,
            // In its own currency a withdrawal may be partial; in another one it is all or nothing.
            Kind::Dispute if currency == self.balance_currency => -self.balance,
            Kind::Dispute if self.balance < 0 => amount,
            Kind::Dispute => 0,
        };
        let fee = Fee { amount: self.fee, currency: self.balance_currency.to_ascii_uppercase() };
        let known = Currency::parse(&currency.to_ascii_uppercase());
        let unreadable = || Trouble::Unknown(format!("{id} has an amount that {currency} has not"));
        let amount = known.map_or(Some(domain::AmountMinor(moved)), |it| from_stripe(moved, it));
        let amount = amount.ok_or_else(unreadable)?;
        let sum = Sum { amount, currency: known };
        Ok(Moved { kind: self.kind, name: id, sum, fee, at: self.at })
    }
}
