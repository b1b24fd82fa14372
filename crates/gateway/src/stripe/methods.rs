//! Payment methods at Stripe: one is made of a token, or found, and attached to the account's customer, so that charges
//! need nobody present; and detached once it was deleted.

use domain::account::payment_method::PaymentMethod;
use domain::object::Object;
use domain::payment::MethodAtGateway;
use domain::payment::routing::property_of;
use domain::{AccountId, MerchantAccount, PaymentMethodId, Properties, TenantNo};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::api::{Api, Parameters, Trouble, is_id};
use super::objects::{Customer, List, Listed, Method, Named, Session};
use super::outcome;
use crate::tenants::Tenants;

/// The property of a payment method with the customer that it is attached to.
pub(super) const CUSTOMER: &str = "stripeCustomer";
/// The custom field of an account with its customer (Kill Bill's plugin's name for it).
const CUSTOMER_FIELD: &str = "STRIPE_CUSTOMER_ID";
/// Properties that name a method, as Kill Bill's plugin has them, besides the external id.
const TOKEN: &str = "token";
const SOURCE: &str = "source";
const SESSION: &str = "sessionId";
/// The metadata of a method that says for which of ours it was made.
const METHOD: &str = "faregate-payment-method";
/// How many pages of a list are read.
const PAGES_MAX: usize = 20;
/// How far Stripe's clock and ours may be apart, in seconds.
const SKEW_S: u64 = 86_400;
/// How many methods of a customer are read.
const METHODS_MAX: usize = 500;
/// `false`: the method is charged without a customer, once.
const CREATE_CUSTOMER: &str = "createStripeCustomer";

/// A method that can be charged.
pub(super) struct Attached {
    pub(super) method: String,
    pub(super) customer: Option<String>,
    /// Whether Stripe was asked: the payment method is updated with what it answered.
    pub(super) is_new: bool,
}

/// A payment method of ours, with what finds, attaches and detaches it at Stripe.
pub(super) struct OwnMethod<'a> {
    pub(super) api: &'a Api<'a>,
    pub(super) tenants: &'a Tenants,
    pub(super) holder: Holder<'a>,
    /// Ours: what is made for it carries it.
    pub(super) id: PaymentMethodId,
    pub(super) external_id: Option<&'a str>,
    /// Of the payment method. Those of a request do not count: an inquiry looks through the intents of the payment
    /// method's customer, and would not find one that was made for another.
    pub(super) properties: &'a Properties,
}

/// The name that a client gave for a method.
enum Name {
    /// A completed Checkout session.
    Session(String),
    /// A method is made of it.
    Token(String),
    Method(String),
}

impl OwnMethod<'_> {
    /// The method, attached to the account's customer.
    pub(super) async fn attached(&self) -> Result<Attached, Trouble> {
        if let (Some(method), Some(customer)) = (self.external_id, self.own(CUSTOMER)) {
            let (method, customer) = (checked(method)?, checked(customer)?);
            return Ok(Attached { method, customer: Some(customer), is_new: false });
        }
        let found = self.find().await?;
        if let Some(customer) = found.customer {
            let (method, customer) = (found.id, Some(customer.id().to_owned()));
            return Ok(Attached { method, customer, is_new: true });
        }
        if self.own(CREATE_CUSTOMER) == Some("false") {
            return Ok(Attached { method: found.id, customer: None, is_new: true });
        }
        let customer = customer(self.api, self.tenants, &self.holder).await?;
        let path = format!("/v1/payment_methods/{}/attach", found.id);
        let parameters = Parameters::default().with("customer", &customer);
        let attached: Method = self.api.post(&path, parameters, &self.key("attach")).await?;
        Ok(Attached { method: attached.id, customer: Some(customer), is_new: true })
    }

    /// The method that is attached, where one is. Nothing is made: one of a token is found among the customer's by its
    /// metadata, and any other by its id.
    pub(super) async fn look_up(&self) -> Result<Option<Attached>, Trouble> {
        let found = match self.name()? {
            // Once it is known what came of its token or session, it goes by its id.
            Name::Token(_) if self.own(CUSTOMER).is_none() => self.made_of_token().await?,
            Name::Session(id) if self.own(CUSTOMER).is_none() => Some(self.of_session(&id).await?),
            Name::Session(_) | Name::Token(_) => match self.external_id {
                Some(id) => self.read(&checked(id)?).await?,
                None => None,
            },
            Name::Method(id) => self.read(&id).await?,
        };
        Ok(found.and_then(|it| {
            let customer = Some(it.customer?.id().to_owned());
            Some(Attached { method: it.id, customer, is_new: true })
        }))
    }

    /// Detaches the method; false where it is not attached, or another of the tenant's methods is the same at Stripe.
    pub(super) async fn detach(&self) -> Result<bool, Trouble> {
        let Some(id) = self.external_id.filter(|id| is_id(id)) else { return Ok(false) };
        if self.is_shared(id).await? {
            return Ok(false);
        }
        let path = format!("/v1/payment_methods/{id}/detach");
        let key = self.key("detach");
        match self.api.post::<Method>(&path, Parameters::default(), &key).await {
            Ok(_) => Ok(true),
            // It is not there, or not attached: only what Stripe says of it then tells.
            Err(Trouble::Refused(refused)) => match self.read(id).await? {
                Some(Method { customer: Some(_), .. }) => Err(Trouble::Refused(refused)),
                Some(_) | None => Ok(false),
            },
            Err(trouble) => Err(trouble),
        }
    }

    /// Whether another active method of the tenant has the same name at Stripe, also of another account: one that is
    /// attached already is stored with the customer that it has.
    async fn is_shared(&self, external_id: &str) -> Result<bool, Trouble> {
        let (tenant, own, external_id) = (self.holder.tenant, self.id, external_id.to_owned());
        let read = self.tenants.read(move |queries| {
            for gateway in super::NAMES {
                if queries.has_method_at_gateway(tenant, gateway, &external_id, own)? {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        read.await.map_err(Trouble::Unfit)
    }

    /// The idempotency key of a step.
    fn key(&self, step: &str) -> String {
        format!("{}:{step}", self.id)
    }

    /// A property of the payment method.
    fn own(&self, name: &str) -> Option<&str> {
        let mut own = self.properties.iter().filter(|(key, _)| key == name);
        own.next().map(|(_, value)| value.as_str())
    }

    fn name(&self) -> Result<Name, Trouble> {
        if let Some(session) = self.own(SESSION) {
            return checked(session).map(Name::Session);
        }
        let named = [self.own(TOKEN), self.external_id, self.own(SOURCE)];
        let Some(name) = named.into_iter().flatten().find(|it| !it.is_empty()) else {
            let reason =
                "the payment method has no token, no source and no externalPaymentMethodId";
            return Err(Trouble::Unfit(reason.to_owned()));
        };
        let name = checked(name)?;
        Ok(match name.starts_with("tok_") {
            true => Name::Token(name),
            false => Name::Method(name),
        })
    }

    /// The method by its id, or of the token, source or session that the payment method names.
    async fn find(&self) -> Result<Method, Trouble> {
        match self.name()? {
            Name::Session(id) => self.of_session(&id).await,
            // One of Stripe's names for tests comes into being when it is attached.
            Name::Method(id) => {
                let unknown = || Method { id: id.clone(), customer: None, metadata: None };
                Ok(self.read(&id).await?.unwrap_or_else(unknown))
            }
            Name::Token(token) => {
                let metadata = |name: &str| format!("metadata[{name}]");
                let parameters = Parameters::default()
                    .with("type", "card")
                    .with("card[token]", &token)
                    .with(metadata(outcome::TENANT), self.holder.tenant_id.to_string())
                    .with(metadata(outcome::ACCOUNT), self.holder.account.to_string())
                    .with(metadata(METHOD), self.id.to_string());
                self.api.post("/v1/payment_methods", parameters, &self.key("method")).await
            }
        }
    }

    /// The method of this id; `None` where Stripe has none.
    async fn read(&self, id: &str) -> Result<Option<Method>, Trouble> {
        let path = format!("/v1/payment_methods/{id}");
        match self.api.get(&path, Parameters::default()).await {
            Err(Trouble::Refused(refused)) if refused.status == 404 => Ok(None),
            found => found.map(Some),
        }
    }

    async fn of_session(&self, id: &str) -> Result<Method, Trouble> {
        let expand = Parameters::default()
            .with("expand[]", "setup_intent")
            .with("expand[]", "payment_intent");
        let session: Session = self.api.get(&format!("/v1/checkout/sessions/{id}"), expand).await?;
        let intent = session.setup_intent.or(session.payment_intent);
        let Some(method) = intent.and_then(|it| it.payment_method) else {
            let reason = "the Checkout session has no payment method yet";
            return Err(Trouble::Unfit(reason.to_owned()));
        };
        let (id, customer) = (checked(method.id())?, session.customer);
        Ok(Method { id, customer, metadata: None })
    }

    /// The method that was made of a token for ours, among those of the account's customer.
    async fn made_of_token(&self) -> Result<Option<Method>, Trouble> {
        let known = known_customer(self.tenants, &self.holder).await?;
        let customers = match known {
            Some(known) => vec![known],
            None => self.customers_since().await?,
        };
        let own = self.id.to_string();
        let is_own = |it: &Method| it.metadata.as_ref().and_then(|it| it.get(METHOD)) == Some(&own);
        for customer in customers {
            let path = format!("/v1/customers/{customer}/payment_methods");
            let methods = all::<Method>(self.api, &path, Parameters::default).await?;
            if let Some(found) = methods.into_iter().find(is_own) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The account's customers that were made since the payment method was: the answer with them may have been lost.
    async fn customers_since(&self) -> Result<Vec<String>, Trouble> {
        let minted_s = self.id.uuid().get_timestamp().map_or(0, |it| it.to_unix().0);
        let since = minted_s.saturating_sub(SKEW_S).to_string();
        let page = || Parameters::default().with("created[gte]", &since);
        let customers = all::<Customer>(self.api, "/v1/customers", page).await?;
        let account = self.holder.account.to_string();
        let is_own = |it: &Customer| it.metadata.get(outcome::ACCOUNT) == Some(&account);
        Ok(customers.into_iter().filter(is_own).map(|it| it.id).collect())
    }
}

/// The objects of a list. Where it is too long, nothing is known of what it has.
async fn all<T: Listed + DeserializeOwned>(
    api: &Api<'_>,
    path: &str,
    parameters: impl Fn() -> Parameters,
) -> Result<Vec<T>, Trouble> {
    let (mut found, mut after): (Vec<T>, Option<String>) = (vec![], None);
    for _ in 0..PAGES_MAX {
        let page = parameters().with("limit", "100").with_some("starting_after", after.as_ref());
        let page: List<T> = api.get(path, page).await?;
        after = page.data.last().map(|it| it.id().to_owned());
        let has_more = page.has_more && after.is_some();
        found.extend(page.data);
        if !has_more {
            return Ok(found);
        }
    }
    // The tenant's own account: no reason to keep others away from Stripe.
    Err(Trouble::Unfit("Stripe has too many objects to look at".to_owned()))
}

/// Whose customer is meant.
pub(super) struct Holder<'a> {
    pub(super) tenant: TenantNo,
    /// The id that clients see.
    pub(super) tenant_id: Uuid,
    pub(super) account: AccountId,
    pub(super) gateway: &'a str,
    /// The account at Stripe that is asked: another one's customers are not there.
    pub(super) merchant: Option<&'a MerchantAccount>,
}

/// The account's customer: that of its custom field, or of another of its methods, or a new one. Two methods that
/// are charged at once make one customer, because the key is the account's.
pub(super) async fn customer(
    api: &Api<'_>,
    tenants: &Tenants,
    of: &Holder<'_>,
) -> Result<String, Trouble> {
    if let Some(known) = known_customer(tenants, of).await? {
        return Ok(known);
    }
    let parameters = Parameters::default()
        .with(format!("metadata[{}]", outcome::TENANT), of.tenant_id.to_string())
        .with(format!("metadata[{}]", outcome::ACCOUNT), of.account.to_string());
    let key = format!("{}:customer", of.account);
    let made = api.post_again::<Named>("/v1/customers", parameters, &key).await?;
    checked(&made.id)
}

/// The account's customer, as far as the database knows one.
async fn known_customer(tenants: &Tenants, of: &Holder<'_>) -> Result<Option<String>, Trouble> {
    let (tenant, account, gateway) = (of.tenant, of.account, of.gateway.to_owned());
    let merchant = of.merchant.cloned();
    let known = tenants.read(move |queries| {
        let object = Object::Account(account);
        let fields = queries.custom_fields_of(tenant, object)?;
        let field = fields.into_iter().find(|it| it.name == CUSTOMER_FIELD).map(|it| it.value);
        if field.is_some() {
            return Ok(field);
        }
        let methods = queries.payment_methods_of(tenant, account)?;
        let is_there = |it: &PaymentMethod| {
            merchant.is_none() || it.merchant_account.is_none() || it.merchant_account == merchant
        };
        let there = methods.iter().rev().map(|it| &it.method).filter(|it| is_there(it));
        let known = there.into_iter().find_map(|it| property_of(it, &gateway, CUSTOMER));
        Ok(known.map(str::to_owned))
    });
    known.await.map_err(Trouble::Unfit)?.map(|it| checked(&it)).transpose()
}

/// The methods that are attached to the account's customer, at most [`METHODS_MAX`].
pub(super) async fn of_customer(
    api: &Api<'_>,
    tenants: &Tenants,
    of: &Holder<'_>,
) -> Result<Vec<MethodAtGateway>, Trouble> {
    let Some(customer) = known_customer(tenants, of).await? else { return Ok(vec![]) };
    let path = format!("/v1/customers/{customer}/payment_methods");
    let (mut found, mut after): (Vec<MethodAtGateway>, Option<String>) = (vec![], None);
    while found.len() < METHODS_MAX {
        let page =
            Parameters::default().with("limit", "100").with_some("starting_after", after.as_ref());
        let page: List<Named> = api.get(&path, page).await?;
        after = page.data.last().map(|it| it.id.clone());
        let has_more = page.has_more && after.is_some();
        found.extend(page.data.into_iter().map(|it| MethodAtGateway {
            external_id: it.id,
            properties: vec![(CUSTOMER.to_owned(), customer.clone())],
        }));
        if !has_more {
            break;
        }
    }
    found.truncate(METHODS_MAX);
    Ok(found)
}

/// A name that can stand in a path: clients choose some of them.
fn checked(name: &str) -> Result<String, Trouble> {
    match is_id(name) {
        true => Ok(name.to_owned()),
        false => Err(Trouble::Unfit("an id of Stripe's has letters, digits and `_`".to_owned())),
    }
}

/// The values of an attached method that the rules store.
pub(super) fn at_gateway(attached: Attached) -> MethodAtGateway {
    let customer = attached.customer.map(|it| (CUSTOMER.to_owned(), it));
    MethodAtGateway { external_id: attached.method, properties: customer.into_iter().collect() }
}
