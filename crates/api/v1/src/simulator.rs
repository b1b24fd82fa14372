//! The pages of the simulated gateway: where a test's customer enters a card, and passes or fails a challenge.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use gateway::simulator::NAME;
use gateway::simulator::pages::{Card, Decision, Page, decided};
use http::{HeaderValue, StatusCode, header};
use utoipa::ToSchema;
use web::body::read_limited;
use web::headers::client_address;

use crate::Api;
use crate::error::Error;
use crate::gateways::refusal;
use crate::html::{self, Forms};
use crate::parameters::invalid;

const NO_PAGE: Error = Error::NoSuch("page");

/// The largest form, in bytes.
const FORM_BYTES_MAX: usize = 1_024;

/// The form of a page of the simulator.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub struct SimulatorForm {
    /// Of a challenge: `pass` or `fail`.
    decision: Option<String>,
    /// Of a card: `approved`, `declined` or `challenged`.
    card: Option<String>,
}

/// A page of the simulated gateway, for a customer's browser
#[utoipa::path(get, path = "/v1/simulator/pages/{page}", tag = "Gateways", operation_id = "show_simulator_page",
    params(("page" = String, Path)),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 404, description = "It was not made here, or there is no simulated gateway")))]
pub async fn show(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Error> {
    let page = open(&api, path)?.1;
    Ok(match &page {
        Page::Card { .. } => {
            let buttons = Card::ALL.map(|it| button("card", it.name(), it.name()));
            let content = format!("<p>Enter a card whose payments are:</p>{}", form(&buttons));
            html::page(StatusCode::OK, "A card", &content, Forms::Elsewhere)
        }
        Page::Challenge { call, .. } => {
            let amount = call.amount.map(|it| it.decimal(call.currency)).unwrap_or_default();
            let buttons = [
                button("decision", "pass", "It is me"),
                button("decision", "fail", "It is not me"),
            ];
            let content =
                format!("<p>Do you pay {amount} {}?</p>{}", call.currency, form(&buttons));
            html::page(StatusCode::OK, "A challenge", &content, Forms::Elsewhere)
        }
    })
}

/// What a customer decided on a page of the simulated gateway
#[utoipa::path(post, path = "/v1/simulator/pages/{page}", tag = "Gateways", operation_id = "post_simulator_page",
    params(("page" = String, Path)),
    request_body(content = SimulatorForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "A page: it is done, and there is nowhere to go on to", body = String, content_type = "text/html"),
        (status = 303, description = "The merchant's page; once a card is entered, with externalPaymentMethodId for a new payment method"),
        (status = 400, description = "The form has no such field"),
        (status = 404, description = "It was not made here, or there is no simulated gateway"),
        (status = 413, description = "The form is too large"),
        (status = 503, description = "It cannot be booked now: send it again")))]
pub async fn take(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    let from = client_address(request.extensions());
    let _permit = api.gateways.acquire(from).ok_or(Error::NotificationsFull)?;
    let (sealed, page) = open(&api, path)?;
    let body = read_limited(request.into_body(), FORM_BYTES_MAX).await?;
    let (tenant, url) = (page.tenant(), take_form(&api, (&sealed, page), &body).await?);
    let mut response = match url {
        Some(url) => {
            let location = HeaderValue::from_str(&url).map_err(|_| NO_PAGE)?;
            (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
        }
        None => html::page(StatusCode::OK, "Done", "<p>You can close this page.</p>", Forms::Own),
    };
    response.extensions_mut().insert(tenant);
    Ok(response)
}

/// Where the customer goes on to.
async fn take_form(
    api: &Api,
    (sealed, page): (&str, Page),
    form: &[u8],
) -> Result<Option<String>, Error> {
    let field = |name: &str| {
        let mut fields = form_urlencoded::parse(form);
        fields.find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
    };
    match page {
        Page::Card { success_url, .. } => {
            let card = field("card").unwrap_or_default();
            let card = Card::ALL.into_iter().find(|it| it.name() == card);
            let id = card.ok_or(invalid("card", "is approved, declined or challenged"))?.new_id();
            Ok(success_url.map(|url| {
                let (url, fragment) = url.split_once('#').unwrap_or((&url, ""));
                let joint = if url.contains('?') { '&' } else { '?' };
                let hash = if fragment.is_empty() { "" } else { "#" };
                format!("{url}{joint}externalPaymentMethodId={id}{hash}{fragment}")
            }))
        }
        Page::Challenge { call, return_url } => {
            let decision = match field("decision").as_deref() {
                Some("pass") => Decision::Pass,
                Some("fail") => Decision::Fail,
                Some(_) | None => return Err(invalid("decision", "is pass or fail")),
            };
            let posted = decided(call.tenant, sealed, decision);
            let taken = api.engine.take_notification(&call.gateway, posted).await;
            taken.map_err(|error| refusal(error, NO_PAGE))?;
            Ok(return_url)
        }
    }
}

fn open(api: &Api, path: Result<Path<String>, PathRejection>) -> Result<(String, Page), Error> {
    let Path(sealed) = path.map_err(|_| NO_PAGE)?;
    if !api.engine.has_gateway(NAME) {
        return Err(NO_PAGE);
    }
    let page = api.sealer.as_deref().and_then(|sealer| Page::open(&sealed, sealer));
    page.map(|page| (sealed, page)).ok_or(NO_PAGE)
}

fn form(buttons: &[String]) -> String {
    format!("<form method=\"post\">{}</form>", buttons.join(" "))
}

/// All three are texts of this module.
fn button(field: &str, value: &str, text: &str) -> String {
    format!("<button name=\"{field}\" value=\"{value}\">{text}</button>")
}
