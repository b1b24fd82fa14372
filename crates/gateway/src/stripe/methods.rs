//! Payment methods at Stripe: with the first charge one is made of a token, or found, and attached to the account's
//! customer, so that later charges need nobody present.

use domain::object::Object;
use domain::payment::MethodAtGateway;
use domain::routing::property_of;
use domain::{AccountId, TenantNo};
use uuid::Uuid;

use super::api::{Api, Parameters, Trouble, is_id};
use super::objects::{List, Method, Named, Session};
use super::operations::Charging;
use crate::tenants::Tenants;

/// The property of a payment method with the customer that it is attached to.
pub(super) const CUSTOMER: &str = "stripeCustomer";
/// The custom field of an account with its customer (Kill Bill's plugin's name for it).
const CUSTOMER_FIELD: &str = "STRIPE_CUSTOMER_ID";
/// Properties that name a method, as Kill Bill's plugin has them, besides the external id.
const TOKEN: &str = "token";
const SOURCE: &str = "source";
const SESSION: &str = "sessionId";
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

/// The method of a call.
pub(super) async fn attached(of: &Charging<'_>) -> Result<Attached, Trouble> {
    let method = of.call.external_payment_method_id.as_deref();
    if let (Some(method), Some(customer)) = (method, own(of, CUSTOMER)) {
        let (method, customer) = (checked(method)?, checked(customer)?);
        return Ok(Attached { method, customer: Some(customer), is_new: false });
    }
    let found = find(of, method).await?;
    if let Some(customer) = found.customer {
        let (method, customer) = (found.id, Some(customer.id().to_owned()));
        return Ok(Attached { method, customer, is_new: true });
    }
    if own(of, CREATE_CUSTOMER) == Some("false") {
        return Ok(Attached { method: found.id, customer: None, is_new: true });
    }
    let call = of.call;
    let holder = Holder {
        tenant: call.tenant,
        tenant_id: of.tenant,
        account: call.account,
        gateway: &call.gateway,
    };
    let customer = customer(&of.api, of.tenants, &holder).await?;
    let path = format!("/v1/payment_methods/{}/attach", found.id);
    let parameters = Parameters::default().with("customer", &customer);
    let attached: Method = of.api.post(&path, parameters, &of.key("attach")).await?;
    Ok(Attached { method: attached.id, customer: Some(customer), is_new: true })
}

/// A property of the payment method. Those of a request do not count: an inquiry looks through the intents of the
/// payment method's customer, and would not find one that was made for another.
fn own<'a>(of: &Charging<'a>, name: &str) -> Option<&'a str> {
    let mut own = of.call.payment_method_properties.iter().filter(|(key, _)| key == name);
    own.next().map(|(_, value)| value.as_str())
}

/// The method by its id, or of the token, source or session that the payment method names.
async fn find(of: &Charging<'_>, method: Option<&str>) -> Result<Method, Trouble> {
    if let Some(session) = own(of, SESSION) {
        return of_session(of, &checked(session)?).await;
    }
    let named = [own(of, TOKEN), method, own(of, SOURCE)];
    let Some(name) = named.into_iter().flatten().find(|it| !it.is_empty()) else {
        let reason = "the payment method has no token, no source and no externalPaymentMethodId";
        return Err(Trouble::Unfit(reason.to_owned()));
    };
    let name = checked(name)?;
    if !name.starts_with("tok_") {
        let path = format!("/v1/payment_methods/{name}");
        return match of.api.get(&path, Parameters::default()).await {
            // One of Stripe's names for tests comes into being when it is attached.
            Err(Trouble::Refused(refused)) if refused.status == 404 => {
                Ok(Method { id: name, customer: None })
            }
            found => found,
        };
    }
    let parameters = Parameters::default().with("type", "card").with("card[token]", &name);
    // By the token, which makes one method only.
    of.api.post("/v1/payment_methods", parameters, &format!("{name}:method")).await
}

async fn of_session(of: &Charging<'_>, id: &str) -> Result<Method, Trouble> {
    let expand =
        Parameters::default().with("expand[]", "setup_intent").with("expand[]", "payment_intent");
    let session: Session = of.api.get(&format!("/v1/checkout/sessions/{id}"), expand).await?;
    let intent = session.setup_intent.or(session.payment_intent);
    let Some(method) = intent.and_then(|it| it.payment_method) else {
        return Err(Trouble::Unfit("the Checkout session has no payment method yet".to_owned()));
    };
    let (id, customer) = (checked(method.id())?, session.customer);
    Ok(Method { id, customer })
}

/// Whose customer is meant.
pub(super) struct Holder<'a> {
    pub(super) tenant: TenantNo,
    /// The id that clients see.
    pub(super) tenant_id: Uuid,
    pub(super) account: AccountId,
    pub(super) gateway: &'a str,
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
        .with(format!("metadata[{}]", super::outcome::TENANT), of.tenant_id.to_string())
        .with(format!("metadata[{}]", super::outcome::ACCOUNT), of.account.to_string());
    let key = format!("{}:customer", of.account);
    let made: Named = api.post("/v1/customers", parameters, &key).await?;
    checked(&made.id)
}

/// The account's customer, as far as the database knows one.
async fn known_customer(tenants: &Tenants, of: &Holder<'_>) -> Result<Option<String>, Trouble> {
    let (tenant, account, gateway) = (of.tenant, of.account, of.gateway.to_owned());
    let known = tenants.read(move |queries| {
        let object = Object::Account(account);
        let fields = queries.custom_fields_of(tenant, object)?;
        let field = fields.into_iter().find(|it| it.name == CUSTOMER_FIELD).map(|it| it.value);
        if field.is_some() {
            return Ok(field);
        }
        let methods = queries.payment_methods_of(tenant, account)?;
        let known = methods.iter().rev().find_map(|it| property_of(&it.method, &gateway, CUSTOMER));
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
