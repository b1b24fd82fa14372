//! Notifications of gateways whose senders have neither a user nor a tenant, and customers who come back from a
//! gateway's page: what stands in the path is sealed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use domain::command::TenantCommand;
use domain::tenant::{NOTIFICATION_ENDPOINT, SetTenantValue};
use domain::{Command, TenantNo};
use engine::access::ClientAddress;
use engine::ports::{Inquiry, PostedNotification};
use engine::{NotificationError, Unavailable};
use gateway::customer_return::CustomerReturn;
use gateway::stripe;
use http::{HeaderValue, StatusCode, header};
use secrets::{Purpose, Sealer};
use serde::Serialize;
use tokio::time::timeout;
use utoipa::{IntoParams, IntoResponses, ToSchema};
use uuid::Uuid;
use web::headers::{client_address, without_credentials};
use web::{Network, NetworkPermit, NetworkPermits, body};

use crate::Api;
use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{InvalidParameter, Unauthenticated};
use crate::parameters::{Parameters, invalid};

/// How long a customer's browser waits for the outcome.
const CUSTOMER_WAITS_MAX: Duration = Duration::from_secs(10);

/// Shows where notifications are posted.
const READ: &str = "gateway:read";
/// Withdraws an endpoint.
const WRITE: &str = "gateway:write";

/// The maximum size of a notification.
const NOTIFICATION_BYTES_MAX: usize = 256 * 1024;

/// Notifications of one network that may be in progress.
const NETWORK_MAX: usize = 64;

/// The answer does not say whether the endpoint is of another tenant or gateway.
const NO_ENDPOINT: Error = Error::NoSuch("endpoint");

/// Endpoints are sealed for no row: they name what they are for.
const NO_ROW: Uuid = Uuid::nil();

/// The settings of the routes of gateways, besides [`Api`]'s own.
#[derive(Clone)]
pub struct Settings {
    http: Arc<BTreeSet<String>>,
    public_url: String,
    networks: Arc<NetworkPermits>,
}

impl Settings {
    /// `http` are the names of the HTTP gateways, and `public_url` is what the URL of an endpoint begins with,
    /// empty where that is not known. Networks of `unlimited` may have any number of notifications in progress.
    #[must_use]
    pub fn new(http: BTreeSet<String>, public_url: String, unlimited: Vec<Network>) -> Self {
        let networks = NetworkPermits::new(NETWORK_MAX, unlimited);
        Self { http: Arc::new(http), public_url, networks }
    }
}

impl Settings {
    /// `None` where a network has as many requests in progress as it may.
    pub(crate) fn acquire(&self, from: ClientAddress) -> Option<NetworkPermit> {
        self.networks.acquire(from)
    }
}

/// Where a sender posts the notifications of a gateway.
#[derive(Serialize, ToSchema)]
pub struct NotificationEndpoint {
    /// The path of the endpoint. It is a secret that names the tenant: give it to the sender alone.
    path: String,
    /// The URL to register with the sender; missing where the setting `public_url` is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// The tenant and the gateway that an endpoint names.
struct Named {
    tenant: TenantNo,
    gateway: String,
    /// Which of the endpoints that the tenant had for the gateway it is: what is stored for it; `None` for the first.
    generation: Option<String>,
}

/// A request about the endpoint of a gateway.
struct EndpointRequest<'c> {
    call: &'c Call,
    gateway: String,
    /// The part of the path between `/v1/gateways/` and the endpoint.
    below: String,
}

/// No HTTP gateway has this name
#[derive(IntoResponses)]
#[response(status = 404)]
struct NoHttpGateway;

/// The name of the gateway to Stripe.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
struct StripeParameter {
    /// The name that the tenant's key is stored for: faregate-stripe, the default, or killbill-stripe
    gateway: Option<String>,
}

/// Where senders post the notifications of an HTTP gateway for this tenant
#[utoipa::path(get, path = "/v1/gateways/http/{name}/endpoint", tag = "Gateways", operation_id = "get_http_gateway_endpoint",
    params(("name" = String, Path)),
    responses((status = 200, description = "The same each time, until it is withdrawn", body = NotificationEndpoint),
        (status = 403, description = "gateway:read is missing"), NoHttpGateway, Unauthenticated))]
pub async fn http_endpoint(
    call: Call,
    Path(name): Path<String>,
) -> Result<Json<NotificationEndpoint>, Error> {
    call.context.require(READ)?;
    EndpointRequest::http(&call, name)?.show().await
}

/// Withdraws the endpoint of an HTTP gateway for this tenant, and makes another one
#[utoipa::path(delete, path = "/v1/gateways/http/{name}/endpoint", tag = "Gateways", operation_id = "withdraw_http_gateway_endpoint",
    params(("name" = String, Path)),
    responses((status = 200, description = "The one that holds now; what is posted to the one before is answered 404", body = NotificationEndpoint),
        (status = 403, description = "gateway:write is missing"), NoHttpGateway, Unauthenticated))]
pub async fn withdraw_http_endpoint(
    call: Call,
    Path(name): Path<String>,
) -> Result<Json<NotificationEndpoint>, Error> {
    call.context.require(WRITE)?;
    EndpointRequest::http(&call, name)?.withdraw().await
}

/// Where Stripe posts its events for this tenant
#[utoipa::path(get, path = "/v1/gateways/stripe/endpoint", tag = "Gateways", operation_id = "get_stripe_endpoint",
    params(StripeParameter),
    responses((status = 200, description = "The same each time, until it is withdrawn", body = NotificationEndpoint),
        (status = 403, description = "gateway:read is missing"), Unauthenticated, InvalidParameter))]
pub async fn stripe_endpoint(call: Call) -> Result<Json<NotificationEndpoint>, Error> {
    call.context.require(READ)?;
    EndpointRequest::stripe(&call)?.show().await
}

/// Withdraws the endpoint to which Stripe posts its events for this tenant, and makes another one
#[utoipa::path(delete, path = "/v1/gateways/stripe/endpoint", tag = "Gateways", operation_id = "withdraw_stripe_endpoint",
    params(StripeParameter),
    responses((status = 200, description = "The one that holds now; what is posted to the one before is answered 404", body = NotificationEndpoint),
        (status = 403, description = "gateway:write is missing"), Unauthenticated, InvalidParameter))]
pub async fn withdraw_stripe_endpoint(call: Call) -> Result<Json<NotificationEndpoint>, Error> {
    call.context.require(WRITE)?;
    EndpointRequest::stripe(&call)?.withdraw().await
}

impl<'c> EndpointRequest<'c> {
    fn http(call: &'c Call, gateway: String) -> Result<Self, Error> {
        Parameters::none(&call.uri)?;
        if !call.api.gateways.http.contains(&gateway) {
            return Err(Error::NoSuch("gateway"));
        }
        let below = format!("http/{gateway}");
        Ok(Self { call, gateway, below })
    }

    fn stripe(call: &'c Call) -> Result<Self, Error> {
        let mut parameters = Parameters::of(&call.uri)?;
        let name = parameters.text("gateway")?;
        parameters.end()?;
        let gateway = name.unwrap_or_else(|| stripe::NAMES[0].to_owned());
        if !stripe::NAMES.contains(&&*gateway) {
            return Err(invalid("gateway", format!("is not one of {}", stripe::NAMES.join(", "))));
        }
        Ok(Self { call, gateway, below: "stripe".to_owned() })
    }

    async fn show(self) -> Result<Json<NotificationEndpoint>, Error> {
        let (api, tenant) = (&self.call.api, self.call.context.tenant.no);
        let generation = generation(api, tenant, &self.gateway).await?;
        self.endpoint(api.sealer.as_deref().ok_or(Error::NoSecretsKey)?, generation)
    }

    /// No generation comes twice, whatever requests are under way at once: what was withdrawn never holds again.
    async fn withdraw(self) -> Result<Json<NotificationEndpoint>, Error> {
        let Call { api, context, .. } = self.call;
        let sealer = api.sealer.as_deref().ok_or(Error::NoSecretsKey)?;
        let generation = Some(api.engine.mint().0.to_string());
        let set = SetTenantValue::new(key_of(&self.gateway), generation.clone());
        context.submit(api, Command::Tenant(TenantCommand::SetValue(set))).await?;
        self.endpoint(sealer, generation)
    }

    fn endpoint(
        self,
        sealer: &Sealer,
        generation: Option<String>,
    ) -> Result<Json<NotificationEndpoint>, Error> {
        let Self { call, gateway, below } = self;
        let named = Named { tenant: call.context.tenant.no, gateway, generation };
        let path = format!("/v1/gateways/{below}/{}", named.seal(sealer));
        let base = &call.api.gateways.public_url;
        let url = (!base.is_empty()).then(|| format!("{base}{path}"));
        Ok(Json(NotificationEndpoint { path, url }))
    }
}

/// The stored generation of a tenant's endpoint for a gateway; `None` for the first.
async fn generation(
    api: &Api,
    tenant: TenantNo,
    gateway: &str,
) -> Result<Option<String>, Unavailable> {
    let key = key_of(gateway);
    let stored = api.engine.read(move |queries| queries.tenant_value(tenant, &key)).await?;
    Ok(stored.and_then(|it| it.value))
}

fn key_of(gateway: &str) -> String {
    format!("{NOTIFICATION_ENDPOINT}{gateway}")
}

impl Named {
    fn seal(&self, sealer: &Sealer) -> String {
        let mut named = [&self.tenant.0.to_be_bytes()[..], self.gateway.as_bytes()].concat();
        // Names of gateways have no NUL.
        if let Some(generation) = &self.generation {
            named.push(0);
            named.extend(generation.as_bytes());
        }
        sealer.seal_equally(Purpose::NotificationEndpoint, NO_ROW, &named)
    }

    /// Opens an endpoint; `None` where it was not made here.
    fn open(endpoint: &str, sealer: &Sealer) -> Option<Self> {
        let named = sealer.open(Purpose::NotificationEndpoint, NO_ROW, endpoint).ok()?;
        let (tenant, named) = named.split_first_chunk()?;
        let named = std::str::from_utf8(named).ok()?;
        let (gateway, generation) = match named.split_once('\0') {
            Some((gateway, generation)) => (gateway, Some(generation.to_owned())),
            None => (named, None),
        };
        let tenant = TenantNo(u32::from_be_bytes(*tenant));
        Some(Self { tenant, gateway: gateway.to_owned(), generation })
    }
}

/// Takes a notification of an HTTP gateway, from a sender without credentials
#[utoipa::path(post, path = "/v1/gateways/http/{name}/{endpoint}", tag = "Gateways", operation_id = "post_http_gateway_notification",
    params(("name" = String, Path), ("endpoint" = String, Path)),
    request_body(content = String, content_type = "*/*"),
    responses((status = 200, description = "It is booked, or about nothing that is known"),
        (status = 400, description = "The gateway does not believe it"),
        (status = 404, description = "There is no such endpoint"),
        (status = 413, description = "It has more than 256 KiB"),
        (status = 503, description = "It cannot be booked now: send it again")))]
pub async fn take_http(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    let Path((name, endpoint)) = path.map_err(|_| NO_ENDPOINT)?;
    let is_of = |gateway: &str| gateway == name && api.gateways.http.contains(gateway);
    take(&api, (&endpoint, &is_of), request).await
}

/// Takes an event of Stripe, which has no credentials
#[utoipa::path(post, path = "/v1/gateways/stripe/{endpoint}", tag = "Gateways", operation_id = "post_stripe_event",
    params(("endpoint" = String, Path)), request_body(content = String, content_type = "*/*"),
    responses((status = 200, description = "It is booked, or about nothing that is known"),
        (status = 400, description = "It is not believed"),
        (status = 404, description = "There is no such endpoint"),
        (status = 413, description = "It has more than 256 KiB"),
        (status = 503, description = "It cannot be booked now: send it again")))]
pub async fn take_stripe(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    let Path(endpoint) = path.map_err(|_| NO_ENDPOINT)?;
    take(&api, (&endpoint, &|gateway| stripe::NAMES.contains(&gateway)), request).await
}

/// Where a customer's browser comes back to from a gateway's page: it goes on to the merchant's, once the outcome is booked
#[utoipa::path(get, path = "/v1/pay/{back}/return", tag = "Gateways", operation_id = "return_from_gateway",
    params(("back" = String, Path)),
    responses((status = 303, description = "The merchant's page; also where the gateway could not be asked within 10 s"),
        (status = 404, description = "It was not made here"),
        (status = 503, description = "Too many customers of one network come back at once")))]
pub async fn take_customer(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    const NO_PAGE: Error = Error::NoSuch("page");
    let Path(back) = path.map_err(|_| NO_PAGE)?;
    let from = client_address(request.extensions());
    let _permit = api.gateways.acquire(from).ok_or(Error::NotificationsFull)?;
    let sealer = api.sealer.as_deref().ok_or(NO_PAGE)?;
    let back = CustomerReturn::open(&back, sealer).ok_or(NO_PAGE)?;
    let CustomerReturn { tenant, payment, transaction, url } = back;
    let location = HeaderValue::from_str(&url).map_err(|_| NO_PAGE)?;
    // The customer goes on whatever comes of it: a notification or an inquiry of ours will know.
    let booked = book_outcome(&api, Inquiry { tenant, payment, transaction });
    let reason = match timeout(CUSTOMER_WAITS_MAX, booked).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the gateway did not answer in time".to_owned()),
    };
    if let Some(reason) = reason {
        tracing::warn!(payment.id = %payment, reason, "a customer came back before the outcome is known");
    }
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, location);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response.extensions_mut().insert(tenant);
    Ok(response)
}

/// Has the gateway asked about a transaction whose outcome is open; a link may be followed again and again.
async fn book_outcome(api: &Api, inquiry: Inquiry) -> Result<(), Unavailable> {
    let Inquiry { tenant, payment, transaction } = inquiry;
    let file = api.engine.read(move |queries| queries.payment(tenant, payment)).await?;
    let found = file.as_ref().and_then(|it| it.transaction(transaction));
    if found.is_some_and(|it| it.status.is_open()) {
        api.engine.inquire(inquiry).await?;
    }
    Ok(())
}

async fn take(
    api: &Api,
    (endpoint, is_of): (&str, &(dyn Fn(&str) -> bool + Sync)),
    request: Request,
) -> Result<Response, Error> {
    // Of all networks together the engine takes so many for each gateway.
    let from = client_address(request.extensions());
    let _permit = api.gateways.acquire(from).ok_or(Error::NotificationsFull)?;
    let named = api.sealer.as_deref().and_then(|sealer| Named::open(endpoint, sealer));
    let named = named.filter(|it| is_of(&it.gateway)).ok_or(NO_ENDPOINT)?;
    let Named { tenant, gateway, generation: given } = named;
    if generation(api, tenant, &gateway).await? != given {
        return Err(NO_ENDPOINT);
    }
    let headers = without_credentials(request.headers());
    let body = body::read_limited(request.into_body(), NOTIFICATION_BYTES_MAX).await?;
    let posted = PostedNotification { tenant, headers, body };
    let taken = api.engine.take_notification(&gateway, posted).await;
    taken.map_err(|error| refusal(error, NO_ENDPOINT))?;
    let mut response = StatusCode::OK.into_response();
    response.extensions_mut().insert(tenant);
    Ok(response)
}

/// The error that the sender gets; `missing` where there is no such gateway.
pub(crate) fn refusal(error: NotificationError, missing: Error) -> Error {
    match error {
        NotificationError::NoGateway | NotificationError::Unsupported => missing,
        NotificationError::Invalid(reason) => Error::NotificationRefused(reason),
        NotificationError::GatewayUnavailable => Error::GatewayUnavailable,
        NotificationError::NotThere => Error::PaymentNotThere,
        NotificationError::Unavailable(unavailable) => Error::Unavailable(unavailable),
    }
}
