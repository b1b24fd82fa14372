//! Notifications of gateways whose senders have neither a user nor a tenant, and customers who come back from a
//! gateway's page: what stands in the path is sealed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use domain::TenantNo;
use engine::access::ClientAddress;
use engine::ports::{Inquiry, PostedNotification};
use engine::{NotificationError, Unavailable};
use gateway::customer_return::CustomerReturn;
use gateway::stripe;
use http::{HeaderValue, StatusCode, header};
use secrets::Purpose;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;
use uuid::Uuid;
use web::headers::{client_address, without_credentials};
use web::{Network, NetworkPermit, NetworkPermits, body};

use crate::Api;
use crate::caller::Call;
use crate::error::Error;
use crate::openapi::Unauthenticated;
use crate::parameters::{Parameters, invalid};

/// How long a customer's browser waits for the outcome.
const CUSTOMER_WAITS_MAX: Duration = Duration::from_secs(10);

/// The maximum size of a notification.
const NOTIFICATION_BYTES_MAX: usize = 256 * 1024;

/// Notifications of one network that may be in progress.
const NETWORK_MAX: usize = 64;

/// The answer does not say whether the endpoint is of another tenant or gateway.
const NO_ENDPOINT: Error = Error::NoSuch("endpoint");

/// Endpoints are sealed for no row: they name what they are for.
const NO_ROW: Uuid = Uuid::nil();

/// What the routes of gateways need besides [`Api`]'s own.
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

/// The endpoint of an HTTP gateway.
#[utoipa::path(get, path = "/v1/gateways/http/{name}/endpoint", tag = "Gateways", operation_id = "get_http_gateway_endpoint",
    summary = "Where senders post the notifications of an HTTP gateway for this tenant",
    params(("name" = String, Path)),
    responses(
        (status = 200, description = "The same each time", body = NotificationEndpoint),
        Unauthenticated,
        (status = 403, description = "gateway:read is missing"),
        (status = 404, description = "No HTTP gateway has this name")))]
pub async fn http_endpoint(
    call: Call,
    Path(name): Path<String>,
) -> Result<Json<NotificationEndpoint>, Error> {
    call.context.require("gateway:read")?;
    Parameters::of(&call.uri)?.end()?;
    if !call.api.gateways.http.contains(&name) {
        return Err(Error::NoSuch("gateway"));
    }
    endpoint(&call, &name, &format!("http/{name}"))
}

/// The endpoint of the gateway to Stripe.
#[utoipa::path(get, path = "/v1/gateways/stripe/endpoint", tag = "Gateways", operation_id = "get_stripe_endpoint",
    summary = "Where Stripe posts its events for this tenant",
    params(("gateway" = Option<String>, Query, description = "The name that the tenant's key is stored for: faregate-stripe, the default, or killbill-stripe")),
    responses(
        (status = 200, description = "The same each time", body = NotificationEndpoint),
        Unauthenticated,
        (status = 403, description = "gateway:read is missing"),
        (status = 400, description = "A parameter is invalid")))]
pub async fn stripe_endpoint(call: Call) -> Result<Json<NotificationEndpoint>, Error> {
    call.context.require("gateway:read")?;
    let mut parameters = Parameters::of(&call.uri)?;
    let name = parameters.text("gateway")?;
    parameters.end()?;
    let name = name.as_deref().unwrap_or(stripe::NAMES[0]);
    if !stripe::NAMES.contains(&name) {
        return Err(invalid("gateway", format!("is not one of {}", stripe::NAMES.join(", "))));
    }
    endpoint(&call, name, "stripe")
}

fn endpoint(
    Call { api, context, .. }: &Call,
    gateway: &str,
    below: &str,
) -> Result<Json<NotificationEndpoint>, Error> {
    let sealer = api.sealer.as_deref().ok_or(Error::NoSecretsKey)?;
    let named = [&context.tenant.no.0.to_be_bytes()[..], gateway.as_bytes()].concat();
    let sealed = sealer.seal_equally(Purpose::NotificationEndpoint, NO_ROW, &named);
    let path = format!("/v1/gateways/{below}/{sealed}");
    let base = &api.gateways.public_url;
    let url = (!base.is_empty()).then(|| format!("{base}{path}"));
    Ok(Json(NotificationEndpoint { path, url }))
}

/// Takes a notification of an HTTP gateway.
#[utoipa::path(post, path = "/v1/gateways/http/{name}/{endpoint}", tag = "Gateways", operation_id = "post_http_gateway_notification",
    summary = "Takes a notification of an HTTP gateway, from a sender without credentials",
    params(("name" = String, Path), ("endpoint" = String, Path)),
    request_body(content = String, content_type = "*/*"),
    responses(
        (status = 200, description = "It is booked, or about nothing that is known"),
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

/// Takes an event of Stripe.
#[utoipa::path(post, path = "/v1/gateways/stripe/{endpoint}", tag = "Gateways", operation_id = "post_stripe_event",
    summary = "Takes an event of Stripe, which has no credentials",
    params(("endpoint" = String, Path)),
    request_body(content = String, content_type = "*/*"),
    responses(
        (status = 200, description = "It is booked, or about nothing that is known"),
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

/// Takes a customer's browser back from a gateway's page.
#[utoipa::path(get, path = "/v1/pay/{back}/return", tag = "Gateways", operation_id = "return_from_gateway",
    summary = "Where a customer's browser comes back to from a gateway's page: it goes on to the merchant's, once the outcome is booked",
    params(("back" = String, Path)),
    responses(
        (status = 303, description = "The merchant's page; also where the gateway could not be asked within 10 s"),
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
    let named = named_by(api, endpoint).filter(|(_, gateway)| is_of(gateway));
    let (tenant, gateway) = named.ok_or(NO_ENDPOINT)?;
    let headers = without_credentials(request.headers());
    let body = body::read_limited(request.into_body(), NOTIFICATION_BYTES_MAX).await?;
    let posted = PostedNotification { tenant, headers, body };
    let taken = api.engine.take_notification(&gateway, posted).await;
    taken.map_err(|error| refusal(error, NO_ENDPOINT))?;
    let mut response = StatusCode::OK.into_response();
    response.extensions_mut().insert(tenant);
    Ok(response)
}

/// What the sender is answered; `missing` where there is no such gateway.
pub(crate) fn refusal(error: NotificationError, missing: Error) -> Error {
    match error {
        NotificationError::NoGateway | NotificationError::Unsupported => missing,
        NotificationError::Invalid(reason) => Error::NotificationRefused(reason),
        NotificationError::GatewayUnavailable => Error::GatewayUnavailable,
        NotificationError::Unavailable(unavailable) => Error::Unavailable(unavailable),
    }
}

/// The tenant and the gateway that an endpoint was made for.
fn named_by(api: &Api, endpoint: &str) -> Option<(TenantNo, String)> {
    let sealer = api.sealer.as_deref()?;
    let named = sealer.open(Purpose::NotificationEndpoint, NO_ROW, endpoint).ok()?;
    let (tenant, gateway) = named.split_first_chunk()?;
    let gateway = std::str::from_utf8(gateway).ok()?.to_owned();
    Some((TenantNo(u32::from_be_bytes(*tenant)), gateway))
}
