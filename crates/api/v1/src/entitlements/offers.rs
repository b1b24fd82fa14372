//! Offers: what a tenant sells, version by version.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::account::tag::DefinitionRef;
use domain::command::EntitlementCommand;
use domain::entitlement::feature::{Feature, FeatureValue};
use domain::entitlement::offer::{
    Again, Buyers, FEATURES_PER_OFFER_MAX, Lasts, Offer as Row, OfferTerms, Price, PutOffer,
    Revocation,
};
use domain::{AmountMinor, Currency, TagDefinitionId, TenantNo};
use engine::entitlements::value_json;
use engine::time::rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{expected, put_answer, value};
use crate::Api;
use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::{
    IfMatch, InvalidParameter, ObjectRejections, PageParameters, Unauthenticated,
};
use crate::parameters::{invalid, next_offset};

/// A version of an offer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferView {
    key: String,
    /// Counts from 1
    version: i64,
    #[serde(flatten)]
    terms: OfferBody,
    /// When this version was made (RFC 3339)
    created_at: String,
}

/// Offers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferList {
    offers: Vec<OfferView>,
    /// The `offset` of the next page, which may be empty; `null` after the last page
    next_offset: Option<u64>,
}

/// How much of a currency that is none is repeated, in characters.
const CURRENCY_SHOWN_CHARS_MAX: usize = 8;

/// A price.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceBody {
    /// In the major unit, such as `9.99`
    amount: String,
    /// ISO 4217 code, such as `EUR`
    currency: String,
}

/// A term of an offer: one of these.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LastsBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    days: Option<u32>,
    /// Calendar months of UTC
    #[serde(skip_serializing_if = "Option::is_none")]
    months: Option<u32>,
}

/// The terms of an offer.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfferBody {
    /// For people; 1 to 255 characters
    name: String,
    /// Absent where it is free
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<PriceBody>,
    /// The values that it gives, by the keys of features; `true` for a switch, a number for a limit
    #[schema(value_type = BTreeMap<String, Value>)]
    features: BTreeMap<String, Value>,
    /// Absent: for ever
    #[serde(skip_serializing_if = "Option::is_none")]
    lasts: Option<LastsBody>,
    /// The effect of a full refund on the grants: `at-once` (the default), `at-end` or `never`
    #[serde(skip_serializing_if = "Option::is_none")]
    on_refund: Option<String>,
    /// The same of a chargeback, and of a success that the gateway took back
    #[serde(skip_serializing_if = "Option::is_none")]
    on_chargeback: Option<String>,
    /// Where an account has it: `refuse` (the default), or `extend` what it has
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<String>,
    /// Whether an account may have it once in all its time
    #[serde(default)]
    once: bool,
    /// Only for accounts with one of these currencies
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    currencies: BTreeSet<String>,
    /// Only for accounts with one of these tags: ids of their definitions
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    tags: BTreeSet<Uuid>,
    /// Whether a payment that succeeds when the account has the offer already, or is closed, is refunded
    #[serde(default)]
    refunds_duplicates: bool,
    /// Whether its grants are called a trial's
    #[serde(default)]
    trial: bool,
    /// Whether signing up grants it, to accounts with one of its currencies; one free offer without tags may say so
    #[serde(default)]
    for_newcomers: bool,
    /// Whether it is sold no more; who has it keeps it
    #[serde(default)]
    withdrawn: bool,
}

/// The newest versions of the tenant's offers, in the order of their keys
#[utoipa::path(get, path = "/v1/offers", tag = "Entitlements", operation_id = "offers",
    params(PageParameters),
    responses((status = 200, description = "The offers", body = OfferList),
        (status = 403, description = "offer:read is missing"), InvalidParameter, Unauthenticated))]
pub async fn list(call: Call) -> Result<Json<OfferList>, Error> {
    let (Call { api, context, .. }, page) = call.with_page("offer:read")?;
    let no = context.tenant.no;
    let rows = api.engine.read_page((no, page), move |queries| queries.offers(no, page)).await?;
    Ok(Json(listed(&rows, page)))
}

/// An offer, in its newest or another version
#[utoipa::path(get, path = "/v1/offers/{offerKey}", tag = "Entitlements", operation_id = "offer",
    params(("offerKey" = String, Path), ("version" = Option<i64>, Query, description = "In this version")),
    responses((status = 200, description = "The offer; its version is the ETag", body = OfferView),
        ObjectRejections, InvalidParameter))]
pub async fn show(call: Call, Path(key): Path<String>) -> Result<Response, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("offer:read")?;
    let version = parameters.number("version", i64::MAX.unsigned_abs())?;
    parameters.end()?;
    let version = version.and_then(|it| i64::try_from(it).ok());
    let it = find(&api, context.tenant.no, &key, version).await?;
    Ok(([input::etag(it.version)], Json(view(&it))).into_response())
}

/// The versions of an offer, the newest first
#[utoipa::path(get, path = "/v1/offers/{offerKey}/versions", tag = "Entitlements", operation_id = "offer_versions",
    params(("offerKey" = String, Path), PageParameters),
    responses((status = 200, description = "The versions", body = OfferList), ObjectRejections, InvalidParameter))]
pub async fn versions(call: Call, Path(key): Path<String>) -> Result<Json<OfferList>, Error> {
    let (Call { api, context, .. }, page) = call.with_page("offer:read")?;
    let no = context.tenant.no;
    find(&api, no, &key, None).await?;
    let read = move |queries: &dyn engine::ports::Queries| queries.offer_versions(no, &key, page);
    let rows = api.engine.read_page((no, page), read).await?;
    Ok(Json(listed(&rows, page)))
}

/// Makes an offer, or its next version; what was bought keeps its own
#[utoipa::path(put, path = "/v1/offers/{offerKey}", tag = "Entitlements", operation_id = "put_offer",
    params(("offerKey" = String, Path), IfMatch), request_body = OfferBody,
    responses((status = 200, description = "The next version; it is the ETag", body = OfferView),
        (status = 201, description = "The first version", body = OfferView),
        (status = 400, description = "A field is invalid, or there are 1000 offers"),
        (status = 409, description = "Another offer is for newcomers"),
        (status = 412, description = "It has another version than If-Match says, or is there in spite of If-None-Match"),
        (status = 403, description = "offer:write is missing"), Unauthenticated))]
pub async fn put(call: Call, Path(key): Path<String>, body: Body) -> Result<Response, Error> {
    let Call { api, context, headers, .. } = call.allowed("offer:write")?;
    let expected = expected(&headers)?;
    let body: OfferBody = input::json(body, &context.tenant).await?;
    let no = context.tenant.no;
    let currency = body.price.as_ref().and_then(|it| Currency::parse(&it.currency));
    if currency.is_some_and(|it| context.tenant.refuses(it)) {
        return Err(invalid("price", NOT_OF_KILL_BILL));
    }
    let terms = body.terms(&api, no).await?;
    let put = PutOffer { key: key.clone(), terms, expected };
    let command = EntitlementCommand::PutOffer(Box::new(put));
    let version = super::put(&api, &context, command).await?;
    let it = find(&api, no, &key, Some(version)).await?;
    Ok(put_answer(version, view(&it)))
}

async fn find(api: &Api, no: TenantNo, key: &str, version: Option<i64>) -> Result<Row, Error> {
    let wanted = key.to_owned();
    let found = api.engine.read(move |queries| queries.offer(no, &wanted, version)).await?;
    found.ok_or_else(|| Error::not_found("offer", key))
}

/// Why a currency is refused where the tenant's settings say so.
const NOT_OF_KILL_BILL: &str =
    "has a currency that is not one of Kill Bill's, as `killbill.currencies` asks";

/// Why a text is no currency, with the code that may be meant.
fn no_currency(text: &str) -> String {
    let text: String = text.chars().take(CURRENCY_SHOWN_CHARS_MAX).collect();
    match Currency::parse(&text.to_ascii_uppercase()) {
        Some(meant) => format!("{text} is no currency code of ISO 4217; {meant} is"),
        None => format!("{text} is no currency code of ISO 4217, such as EUR"),
    }
}

impl PriceBody {
    /// # Errors
    /// `field` with what is wrong.
    pub(super) fn price(&self, field: &'static str) -> Result<Price, Error> {
        let currency = Currency::parse(&self.currency);
        let currency = currency.ok_or_else(|| invalid(field, no_currency(&self.currency)))?;
        let amount = AmountMinor::parse(&self.amount, currency);
        let amount = amount.map_err(|error| invalid(field, error))?;
        Ok(Price { amount, currency })
    }

    pub(super) fn of(it: &Price) -> Self {
        let amount = it.amount.decimal(it.currency);
        Self { amount, currency: it.currency.to_string() }
    }
}

impl OfferBody {
    async fn terms(self, api: &Api, no: TenantNo) -> Result<OfferTerms, Error> {
        let price = self.price.as_ref().map(|it| it.price("price")).transpose()?;
        let rule = |field: &'static str, name: &Option<String>| {
            let name = name.as_deref().unwrap_or(Revocation::AtOnce.name());
            let found = Revocation::ALL.into_iter().find(|it| it.name() == name);
            found.ok_or_else(|| invalid(field, "is none of at-once, at-end, never"))
        };
        let again = self.again.as_deref().unwrap_or(Again::Refuse.name());
        let again = Again::ALL.into_iter().find(|it| it.name() == again);
        let again = again.ok_or_else(|| invalid("again", "is neither refuse nor extend"))?;
        let currency = |code: &String| {
            Currency::parse(code).ok_or_else(|| invalid("currencies", no_currency(code)))
        };
        let currencies = self.currencies.iter().map(currency).collect::<Result<_, _>>()?;
        let tag = |id: &Uuid| DefinitionRef::of(TagDefinitionId::new(*id));
        let tags = self.tags.iter().map(tag).collect();
        Ok(OfferTerms {
            price,
            features: values(api, no, &self.features).await?,
            lasts: lasts(self.lasts.as_ref())?,
            on_refund: rule("onRefund", &self.on_refund)?,
            on_chargeback: rule("onChargeback", &self.on_chargeback)?,
            again,
            buyers: Buyers { once: self.once, currencies, tags },
            refunds_duplicates: self.refunds_duplicates,
            is_trial: self.trial,
            for_newcomers: self.for_newcomers,
            withdrawn: self.withdrawn,
            name: self.name,
        })
    }
}

/// The values of features, which say of which kind they are.
async fn values(
    api: &Api,
    no: TenantNo,
    given: &BTreeMap<String, Value>,
) -> Result<BTreeMap<String, FeatureValue>, Error> {
    if given.len() > FEATURES_PER_OFFER_MAX {
        return Err(invalid("features", "should be 1 to 100"));
    }
    let keys: Vec<String> = given.keys().cloned().collect();
    let read = api.engine.read(move |queries| {
        let found = keys.iter().map(|key| queries.feature(no, key));
        found.collect::<Result<Vec<Option<Feature>>, _>>()
    });
    let known = read.await?;
    let values = given.iter().zip(known).map(|((key, json), known)| {
        let field = format!("features.{}", key.chars().take(64).collect::<String>());
        let known = known.ok_or_else(|| invalid(field.clone(), "there is no such feature"))?;
        let value = value::parse(&known.terms.kind, json).map_err(|it| invalid(field, it))?;
        Ok((key.clone(), value))
    });
    values.collect()
}

fn lasts(body: Option<&LastsBody>) -> Result<Lasts, Error> {
    match body.map(|it| (it.days, it.months)) {
        None => Ok(Lasts::Forever),
        Some((Some(days), None)) => Ok(Lasts::Days(days)),
        Some((None, Some(months))) => Ok(Lasts::Months(months)),
        Some((None, None) | (Some(_), Some(_))) => {
            Err(invalid("lasts", "has either days or months"))
        }
    }
}

fn listed(rows: &[Row], page: engine::ports::Page) -> OfferList {
    let next_offset = next_offset(page, rows.len());
    OfferList { offers: rows.iter().map(view).collect(), next_offset }
}

fn view(it: &Row) -> OfferView {
    OfferView {
        key: it.key.clone(),
        version: it.version,
        terms: body(&it.terms),
        created_at: rfc3339(it.created_at),
    }
}

/// The terms of an offer, as it was put.
pub(super) fn body(it: &OfferTerms) -> OfferBody {
    let lasts = match it.lasts {
        Lasts::Forever => None,
        Lasts::Days(days) => Some(LastsBody { days: Some(days), months: None }),
        Lasts::Months(months) => Some(LastsBody { days: None, months: Some(months) }),
    };
    let value = |(key, value): (&String, &FeatureValue)| (key.clone(), value_json(value));
    OfferBody {
        name: it.name.clone(),
        price: it.price.as_ref().map(PriceBody::of),
        features: it.features.iter().map(value).collect(),
        lasts,
        on_refund: Some(it.on_refund.name().to_owned()),
        on_chargeback: Some(it.on_chargeback.name().to_owned()),
        again: Some(it.again.name().to_owned()),
        once: it.buyers.once,
        currencies: it.buyers.currencies.iter().map(ToString::to_string).collect(),
        tags: it.buyers.tags.iter().map(|it| it.id().uuid()).collect(),
        refunds_duplicates: it.refunds_duplicates,
        trial: it.is_trial,
        for_newcomers: it.for_newcomers,
        withdrawn: it.withdrawn,
    }
}
