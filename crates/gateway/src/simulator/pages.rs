//! Pages of the simulator, for a customer's browser: one to enter a card on, and a challenge that is passed, failed or
//! left alone. A page's path is sealed and has all that the page is about, so that any server can show it.

use std::sync::Arc;
use std::time::Duration;

use domain::account::payment_method::{MethodAnswer, MethodRequest};
use domain::payment::{CANCEL, GatewayAnswer, GatewayKnowledge, GatewayStatus};
use domain::{AccountId, GatewayCall, GatewaySettings, Properties, TenantNo};
use engine::ports::{
    BoxFuture, Form, FormRequest, Gateway, Inquiry, News, Notified, PostedNotification,
    RequestRefused,
};
use engine::{Clock, Deadline};
use secrets::{Purpose, Sealer};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::next_action::{self, REDIRECT_URL};

/// The paths of pages begin so.
pub const PATH: &str = "/v1/simulator/pages/";

/// `true`: the customer has to pass a challenge before the payment goes on.
const CHALLENGE: &str = "challenge";
/// Where the customer goes after a challenge.
const RETURN_URL: &str = "returnUrl";
/// Where the customer goes after entering a card.
const SUCCESS_URL: &str = "successUrl";
const OUTCOME: &str = "outcome";

/// The longest URL to which a customer goes on, in bytes.
const URL_BYTES_MAX: usize = 2_048;

/// How long the simulator may take to carry out what the customer decided.
const CARRY_OUT_MAX: Duration = Duration::from_secs(10);

/// A page is sealed for no row: it names what it is for.
const NO_ROW: Uuid = Uuid::nil();

/// The subject of a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Page {
    /// A customer of an account enters a card.
    Card { tenant: TenantNo, account: AccountId, success_url: Option<String> },
    /// The holder of the card that is called decides.
    Challenge { call: Box<GatewayCall>, return_url: Option<String> },
}

/// The cards that can be entered: what becomes of their payments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    Approved,
    Declined,
    Challenged,
}

/// The holder's decision about a challenge. A holder may also leave it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Pass,
    Fail,
}

/// The body of the notification that a challenge was decided.
#[derive(Serialize, Deserialize)]
struct Decided {
    page: String,
    decision: Decision,
}

impl Card {
    pub const ALL: [Self; 3] = [Self::Approved, Self::Declined, Self::Challenged];

    /// Its name on the page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Declined => "declined",
            Self::Challenged => "challenged",
        }
    }

    /// A name for a new payment method with it, as `externalPaymentMethodId`.
    #[must_use]
    pub fn new_id(self) -> String {
        format!("sim_{}_{}", self.name(), Uuid::from_bytes(secrets::random::bytes()).simple())
    }

    fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| {
            let rest = id.strip_prefix("sim_").and_then(|rest| rest.strip_prefix(it.name()));
            rest.is_some_and(|rest| rest.starts_with('_'))
        })
    }
}

impl Page {
    /// Opens what stands in the path after [`PATH`]; `None` where it is none of ours.
    #[must_use]
    pub fn open(sealed: &str, sealer: &Sealer) -> Option<Self> {
        let bytes = sealer.open(Purpose::SimulatorPage, NO_ROW, sealed).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn seal(&self, sealer: &Sealer) -> String {
        let bytes = serde_json::to_vec(self).expect("it has no map keys but strings");
        sealer.seal(Purpose::SimulatorPage, NO_ROW, &bytes)
    }

    #[must_use]
    pub const fn tenant(&self) -> TenantNo {
        match self {
            Self::Card { tenant, .. } => *tenant,
            Self::Challenge { call, .. } => call.tenant,
        }
    }
}

/// The notification with what a customer decided on the page in this path.
#[must_use]
pub fn decided(tenant: TenantNo, page: &str, decision: Decision) -> PostedNotification {
    let decided = Decided { page: page.to_owned(), decision };
    let body = serde_json::to_vec(&decided).expect("it has no map keys but strings").into();
    PostedNotification { tenant, headers: vec![], body }
}

/// How pages are made.
pub struct Pages {
    /// The beginning of their URLs.
    pub base_url: String,
    /// Without it there are none.
    pub sealer: Option<Arc<Sealer>>,
    pub clock: Clock,
    /// How long a customer is waited for.
    pub action_timeout: Duration,
}

/// A simulator with pages.
pub struct Paged {
    simulator: Arc<dyn Gateway>,
    pages: Pages,
}

impl Paged {
    #[must_use]
    pub const fn new(simulator: Arc<dyn Gateway>, pages: Pages) -> Self {
        Self { simulator, pages }
    }

    /// Makes a payment pending until its customer has passed the challenge.
    async fn challenge(&self, mut call: GatewayCall, deadline: Deadline) -> GatewayAnswer {
        let Some(sealer) = self.pages.sealer.as_deref() else {
            let message = "challenge: there is no key to encrypt its page with".to_owned();
            return GatewayAnswer::not_sendable(message);
        };
        let return_url = property(&call.properties, RETURN_URL).map(str::to_owned);
        if return_url.as_deref().is_some_and(|it| !is_url(it)) {
            let message = format!("{RETURN_URL}: should be a URL of at most {URL_BYTES_MAX} bytes");
            return GatewayAnswer::not_sendable(message);
        }
        let (transaction, bare) = (call.transaction, bare(&call));
        call.properties.push((OUTCOME.to_owned(), "PENDING".to_owned()));
        let answer = self.simulator.call(call, deadline).await;
        let GatewayAnswer::Outcome(mut outcome) = answer else { return answer };
        if outcome.status == GatewayStatus::Pending {
            let page = Page::Challenge { call: Box::new(bare), return_url }.seal(sealer);
            let action = vec![(REDIRECT_URL, format!("{}{PATH}{page}", self.pages.base_url))];
            outcome.next_action = Some(next_action::seal(&action, transaction, sealer));
        }
        GatewayAnswer::Outcome(outcome)
    }

    async fn decide(
        &self,
        tenant: TenantNo,
        Decided { page, decision }: Decided,
    ) -> Result<Option<Notified>, RequestRefused> {
        use RequestRefused::{Invalid, Unavailable};
        let page = self.pages.sealer.as_deref().and_then(|sealer| Page::open(&page, sealer));
        let mut call = match page {
            Some(Page::Challenge { call, .. }) if call.tenant == tenant => *call,
            Some(Page::Challenge { .. } | Page::Card { .. }) | None => {
                return Err(Invalid("page: is no challenge of this tenant's".to_owned()));
            }
        };
        let (payment, transaction) = (call.payment, call.transaction);
        call.properties = match decision {
            Decision::Pass => vec![(OUTCOME.to_owned(), "PROCESSED".to_owned())],
            Decision::Fail => vec![
                (OUTCOME.to_owned(), "ERROR".to_owned()),
                ("errorCode".to_owned(), "authentication_failed".to_owned()),
                ("errorMessage".to_owned(), "the challenge was not passed".to_owned()),
            ],
        };
        let deadline = Deadline::within(&self.pages.clock, CARRY_OUT_MAX);
        match self.simulator.call(call, deadline).await {
            GatewayAnswer::Outcome(outcome) => {
                let knowledge = GatewayKnowledge::Found(outcome);
                Ok(Some(Notified { payment, transaction, news: News::Outcome(knowledge) }))
            }
            GatewayAnswer::Failed { message } | GatewayAnswer::NotSent { message, .. } => {
                Err(Unavailable(message))
            }
            GatewayAnswer::Nothing | GatewayAnswer::TimedOut => {
                Err(Unavailable("the simulator did not answer".to_owned()))
            }
        }
    }
}

/// The call with nothing of its customer: what its page needs to go on with it.
fn bare(call: &GatewayCall) -> GatewayCall {
    GatewayCall {
        external_payment_method_id: None,
        payment_method_properties: vec![],
        properties: vec![],
        references: vec![],
        ..call.clone()
    }
}

fn property<'p>(properties: &'p Properties, name: &str) -> Option<&'p str> {
    properties.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

fn is_url(text: &str) -> bool {
    let has_scheme = text.starts_with("https://") || text.starts_with("http://");
    has_scheme && text.len() <= URL_BYTES_MAX && !text.chars().any(char::is_control)
}

impl Gateway for Paged {
    fn settings(&self) -> GatewaySettings {
        let timeout_us = i64::try_from(self.pages.action_timeout.as_micros()).unwrap_or(i64::MAX);
        GatewaySettings { action_timeout_us: Some(timeout_us), ..self.simulator.settings() }
    }

    fn in_flight_max(&self) -> Option<usize> {
        self.simulator.in_flight_max()
    }

    fn form(&self, form: FormRequest) -> BoxFuture<'_, Result<Form, RequestRefused>> {
        use RequestRefused::{Invalid, Unavailable};
        let made = match self.pages.sealer.as_deref() {
            None => Err(Unavailable("there is no key to encrypt the page with".to_owned())),
            Some(sealer) => match property(&form.fields, SUCCESS_URL) {
                Some(url) if !is_url(url) => Err(Invalid(format!(
                    "{SUCCESS_URL}: should be a URL of at most {URL_BYTES_MAX} bytes"
                ))),
                success_url => {
                    let page = Page::Card {
                        tenant: form.tenant,
                        account: form.account,
                        success_url: success_url.map(str::to_owned),
                    };
                    let url = format!("{}{PATH}{}", self.pages.base_url, page.seal(sealer));
                    Ok(Form { url, fields: vec![] })
                }
            },
        };
        Box::pin(std::future::ready(made))
    }

    fn call(&self, mut call: GatewayCall, deadline: Deadline) -> BoxFuture<'_, GatewayAnswer> {
        if !call.operation.charges() {
            return self.simulator.call(call, deadline);
        }
        if property(&call.properties, CANCEL) == Some("true") {
            call.properties = vec![(OUTCOME.to_owned(), "CANCELED".to_owned())];
            return self.simulator.call(call, deadline);
        }
        let card = call.external_payment_method_id.as_deref().and_then(Card::of);
        let all = [&call.properties, &call.payment_method_properties];
        let asked = all.iter().any(|it| property(it, CHALLENGE) == Some("true"));
        let decides = all.iter().any(|it| property(it, OUTCOME).is_some());
        match card {
            _ if decides => {}
            _ if asked => return Box::pin(self.challenge(call, deadline)),
            Some(Card::Challenged) => return Box::pin(self.challenge(call, deadline)),
            Some(Card::Declined) => {
                call.properties.push((OUTCOME.to_owned(), "ERROR".to_owned()));
                call.properties.push(("errorMessage".to_owned(), "declined".to_owned()));
            }
            Some(Card::Approved) | None => {}
        }
        self.simulator.call(call, deadline)
    }

    fn method(&self, request: MethodRequest, deadline: Deadline) -> BoxFuture<'_, MethodAnswer> {
        self.simulator.method(request, deadline)
    }

    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
        self.simulator.inquire(inquiry)
    }

    fn notification(
        &self,
        posted: PostedNotification,
    ) -> BoxFuture<'_, Result<Option<Notified>, RequestRefused>> {
        match serde_json::from_slice::<Decided>(&posted.body) {
            Ok(decided) => Box::pin(self.decide(posted.tenant, decided)),
            Err(_) => self.simulator.notification(posted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_known_by_its_id() {
        for card in Card::ALL {
            assert_eq!(Card::of(&card.new_id()), Some(card));
        }
        for id in ["", "sim_", "sim_approved", "sim_approvedness_1", "approved_1"] {
            assert_eq!(Card::of(id), None, "{id}");
        }
    }

    #[test]
    fn urls_are_absolute_and_bounded() {
        assert!(is_url("https://shop.example.com/done?order=7"));
        let long = format!("https://{}", "a".repeat(URL_BYTES_MAX));
        for text in ["", "/done", "javascript:alert(1)", "https://a\nb", &long] {
            assert!(!is_url(text), "{text}");
        }
    }
}
