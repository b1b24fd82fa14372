//! Inquiries: what became of a transaction. Nothing is made: it is read by its id where one is known, else among
//! what was made since the call, in lists, which lag behind nothing.

use domain::payment::routing::property_of;
use domain::payment::{
    GatewayKnowledge, PaymentFile, Transaction, TransactionStatus, TransactionType,
};
use domain::{PaymentMethod, Timestamp, TransactionId};
use engine::ports::Inquiry;

use super::amount::from_stripe;
use super::api::{Api, Parameters, Trouble, is_id};
use super::methods;
use super::objects::{Intent, List, Refund};
use super::outcome::{self, Secret};
use crate::tenants::Tenants;

/// How far Stripe's clock and ours may be apart: with a clock that is further off no certificate is valid.
const SKEW_US: i64 = 86_400 * Timestamp::SECOND_US;

/// How long after a call the index of metadata has what the call made: Stripe's is up to an hour behind while it has
/// troubles, and a day is beyond doubt.
const INDEXED_AFTER_US: i64 = 86_400 * Timestamp::SECOND_US;

/// How many pages of a list are read: above it the answer is that Stripe cannot be asked.
const PAGES_MAX: usize = 20;

/// How many objects a page has (Stripe's maximum).
const PAGE: &str = "100";

/// A transaction as the database has it.
pub(super) struct StoredTransaction {
    pub(super) file: PaymentFile,
    pub(super) method: Option<PaymentMethod>,
    id: TransactionId,
    /// Real time until which the last call ran, where its outcome is awaited.
    deadline: Option<Timestamp>,
    /// Who knows the intent's secret.
    secret: Secret,
    /// The intent or refund that was made for it, where an event names it: the call's answer may be lost.
    named: Option<String>,
}

impl StoredTransaction {
    /// Reads the transaction; `None` where there is none.
    pub(super) async fn read(
        tenants: &Tenants,
        of: &Inquiry,
        named: Option<&str>,
    ) -> Result<Option<Self>, String> {
        let named = named.map(str::to_owned);
        let (tenant, payment, id) = (of.tenant, of.payment, of.transaction);
        let read = tenants.read(move |queries| {
            let Some(file) = queries.payment(tenant, payment)? else { return Ok(None) };
            let Some(method) = file.transaction(id).map(|it| it.payment_method_id) else {
                return Ok(None);
            };
            let method = queries.payment_method(tenant, method)?.map(|it| it.method);
            let awaited = queries.outstanding_of(tenant, payment)?;
            let awaited = awaited.iter().find(|it| it.transaction_id == id);
            let deadline = awaited.map(|it| it.deadline);
            let secret = match awaited.is_some_and(|it| it.next_action.is_some()) {
                true => Secret::Out,
                false => Secret::Kept,
            };
            Ok(Some(Self { file, method, id, deadline, secret, named }))
        });
        read.await
    }

    /// Whether nobody else knows the intent's secret.
    pub(super) fn keeps_secret(&self) -> bool {
        self.secret == Secret::Kept
    }

    pub(super) fn transaction(&self) -> &Transaction {
        self.file.transaction(self.id).expect("it was found there")
    }

    /// Stripe's id for the transaction.
    fn reference(&self) -> Option<&str> {
        self.transaction().first_reference.as_deref().or(self.named.as_deref())
    }

    /// The intent of the attempt that the transaction is, or follows on.
    fn intent(&self) -> Option<&str> {
        let own = self.transaction();
        let attempts = self.file.transactions.iter().filter(|it| it.kind.is_initial());
        let mut attempts = attempts.filter(|it| it.has_same_route(own));
        let known = match own.kind.is_initial() {
            true => self.reference(),
            false => attempts.find_map(|it| it.first_reference.as_deref()),
        };
        known.filter(|it| is_id(it))
    }
}

/// Asks what became of a transaction.
pub(super) async fn ask(
    api: &Api<'_>,
    stored: &StoredTransaction,
) -> Result<(GatewayKnowledge, Option<Intent>), Trouble> {
    let found = match stored.transaction().kind {
        TransactionType::Authorize | TransactionType::Purchase => {
            return of_attempt(api, stored).await;
        }
        TransactionType::Capture => of_capture(api, stored).await?,
        TransactionType::Void => of_void(api, stored).await?,
        TransactionType::Refund => of_refund(api, stored).await?,
        // None was ever sent.
        TransactionType::Credit
        | TransactionType::Chargeback
        | TransactionType::ChargebackReversal => GatewayKnowledge::NotFound,
    };
    Ok((believed(found, stored), None))
}

/// For a transaction that was brought over from elsewhere it is not known which account it was made for: what is
/// not found in this one may be in another.
fn believed(found: GatewayKnowledge, stored: &StoredTransaction) -> GatewayKnowledge {
    match found {
        GatewayKnowledge::NotFound if stored.transaction().merchant_account.is_none() => {
            GatewayKnowledge::Unreachable
        }
        GatewayKnowledge::NotFound => GatewayKnowledge::NotFound,
        GatewayKnowledge::Found(outcome) => GatewayKnowledge::Found(outcome),
        GatewayKnowledge::Unreachable => GatewayKnowledge::Unreachable,
    }
}

async fn of_attempt(
    api: &Api<'_>,
    stored: &StoredTransaction,
) -> Result<(GatewayKnowledge, Option<Intent>), Trouble> {
    let own = stored.transaction();
    let intent = match stored.intent() {
        // One that was brought over has no metadata of ours.
        Some(id) => Some(read_intent(api, id).await?).filter(|it| {
            is_of(&it.metadata, own) || !it.metadata.contains_key(outcome::TRANSACTION)
        }),
        None => find_intent(api, stored).await?,
    };
    let Some(intent) = intent else {
        return Ok((believed(GatewayKnowledge::NotFound, stored), None));
    };
    // An authorization that was released since was one.
    let was_released = own.status == TransactionStatus::Success && intent.status == "canceled";
    let mut outcome = match was_released {
        true => outcome::released(&intent),
        false => outcome::of_intent(&intent, own.kind, stored.secret),
    };
    if let (Some(method), Some(customer)) = (&intent.payment_method, &intent.customer) {
        let properties = vec![(methods::CUSTOMER.to_owned(), customer.id().to_owned())];
        let external_id = method.id().to_owned();
        outcome.payment_method = Some(domain::payment::MethodAtGateway { external_id, properties });
    }
    Ok((GatewayKnowledge::Found(outcome), Some(intent)))
}

async fn read_intent(api: &Api<'_>, id: &str) -> Result<Intent, Trouble> {
    let with_charge = Parameters::default().with("expand[]", "latest_charge");
    api.get(&format!("/v1/payment_intents/{id}"), with_charge).await
}

/// Looks through the customer's intents. Where the customer is not known, because the answer with it was lost,
/// through all since the call; where those are too many, an index that lags may have it, and says nothing of a
/// recent call's that it does not have.
async fn find_intent(api: &Api<'_>, stored: &StoredTransaction) -> Result<Option<Intent>, Trouble> {
    let own = stored.transaction();
    let method = stored.method.as_ref();
    let customer = method.and_then(|it| property_of(it, &own.gateway, methods::CUSTOMER));
    let since = stored.deadline.filter(|_| customer.is_none());
    let since = since.map(|it| (it.0 - SKEW_US).div_euclid(Timestamp::SECOND_US).to_string());
    let mut after: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let page = Parameters::default()
            .with("limit", PAGE)
            .with("expand[]", "data.latest_charge")
            .with_some("customer", customer)
            .with_some("created[gte]", since.as_ref())
            .with_some("starting_after", after.as_ref());
        let page: List<Intent> = api.get("/v1/payment_intents", page).await?;
        after = page.data.last().map(|it| it.id.clone());
        let has_more = page.has_more;
        if let Some(found) = page.data.into_iter().find(|it| is_of(&it.metadata, own)) {
            return Ok(Some(found));
        }
        if !has_more {
            return Ok(None);
        }
    }
    let query = format!("metadata[\"{}\"]:\"{}\"", outcome::TRANSACTION, own.id);
    let indexed = Parameters::default().with("query", query);
    let indexed: List<Intent> = api.get("/v1/payment_intents/search", indexed).await?;
    let found = indexed.data.into_iter().find(|it| is_of(&it.metadata, own));
    let now = api.host.clock().real_now();
    let is_indexed = stored.deadline.is_some_and(|it| now > it.plus_us(INDEXED_AFTER_US));
    if found.is_none() && !is_indexed {
        let reason = "Stripe has too many PaymentIntents since the call to look at";
        return Err(Trouble::Unknown(reason.to_owned()));
    }
    Ok(found)
}

/// A capture marks its intent in the same request.
async fn of_capture(
    api: &Api<'_>,
    stored: &StoredTransaction,
) -> Result<GatewayKnowledge, Trouble> {
    let own = stored.transaction();
    let Some(id) = stored.intent() else { return Ok(GatewayKnowledge::NotFound) };
    let intent = read_intent(api, id).await?;
    let Some(mark) = intent.metadata.get(&outcome::capture_mark(own.id)) else {
        return Ok(GatewayKnowledge::NotFound);
    };
    let amount = own.currency.and_then(|currency| {
        let amount = from_stripe(mark.parse().ok()?, currency)?;
        Some((amount, currency))
    });
    Ok(GatewayKnowledge::Found(outcome::captured(&intent, amount)))
}

async fn of_void(api: &Api<'_>, stored: &StoredTransaction) -> Result<GatewayKnowledge, Trouble> {
    let Some(id) = stored.intent() else { return Ok(GatewayKnowledge::NotFound) };
    let intent = read_intent(api, id).await?;
    Ok(match intent.status == "canceled" {
        true => GatewayKnowledge::Found(outcome::released(&intent)),
        false => GatewayKnowledge::NotFound,
    })
}

async fn of_refund(api: &Api<'_>, stored: &StoredTransaction) -> Result<GatewayKnowledge, Trouble> {
    let own = stored.transaction();
    if let Some(id) = stored.reference().filter(|it| is_id(it)) {
        let refund: Refund = api.get(&format!("/v1/refunds/{id}"), Parameters::default()).await?;
        return Ok(GatewayKnowledge::Found(outcome::of_refund(&refund)));
    }
    let Some(intent) = stored.intent() else { return Ok(GatewayKnowledge::NotFound) };
    let mut after: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let page = Parameters::default()
            .with("limit", PAGE)
            .with("payment_intent", intent)
            .with_some("starting_after", after.as_ref());
        let page: List<Refund> = api.get("/v1/refunds", page).await?;
        after = page.data.last().map(|it| it.id.clone());
        let has_more = page.has_more;
        let is_own = |it: &Refund| it.metadata.as_ref().is_some_and(|it| is_of(it, own));
        if let Some(found) = page.data.into_iter().find(is_own) {
            return Ok(GatewayKnowledge::Found(outcome::of_refund(&found)));
        }
        if !has_more {
            return Ok(GatewayKnowledge::NotFound);
        }
    }
    Err(Trouble::Unknown("Stripe has too many refunds of the payment to look at".to_owned()))
}

/// Whether an object was made for a transaction.
fn is_of(metadata: &std::collections::BTreeMap<String, String>, transaction: &Transaction) -> bool {
    metadata.get(outcome::TRANSACTION) == Some(&transaction.id.to_string())
}
