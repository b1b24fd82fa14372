//! The fake's own pages, for browsers and for curl: the 3-D Secure challenge and the Checkout page.

use bytes::Bytes;
use hyper::Response;
use hyper::header::{HeaderValue, LOCATION};

use crate::api::{checkout_session, confirm, payment_intent, setup_intent};
use crate::fake::{Fake, Owner};
use crate::params::Params;
use crate::server::{Body, Server, respond};

/// `None` if the path is no page's.
pub fn answer(
    server: &Server,
    method: &str,
    path: &str,
    sent: (&str, &[u8]),
) -> Option<Response<Body>> {
    let (query, body) = (Params::parse(sent.0.as_bytes()), Params::parse(sent.1));
    let fake = &mut *server.fake.borrow_mut();
    if let Some(id) = path.strip_prefix("/_fake/3ds/") {
        return Some(challenge(fake, method, id, (&query, &body)));
    }
    let id = path.strip_prefix("/_fake/checkout/")?;
    Some(checkout(fake, method, id, &body))
}

/// An intent in a challenge.
enum Intent {
    Payment(std::rc::Rc<payment_intent::PaymentIntent>),
    Setup(std::rc::Rc<setup_intent::SetupIntent>),
}

impl Intent {
    fn find(fake: &Fake, id: &str) -> Option<(Owner, Intent)> {
        fake.books.iter().find_map(|(owner, books)| {
            let payment = books.account.payment_intents.get(id).cloned().map(Intent::Payment);
            let found = payment
                .or_else(|| books.account.setup_intents.get(id).cloned().map(Intent::Setup))?;
            Some((owner.clone(), found))
        })
    }

    fn challenge(&self) -> Option<&payment_intent::Challenge> {
        match self {
            Intent::Payment(it) => it.challenge.as_ref(),
            Intent::Setup(it) => it.challenge.as_ref(),
        }
    }

    fn secret(&self) -> &str {
        match self {
            Intent::Payment(it) => &it.client_secret,
            Intent::Setup(it) => &it.client_secret,
        }
    }

    /// What the page shows of it.
    fn title(&self) -> String {
        match self {
            Intent::Payment(it) => {
                format!("{} {} (minor units)", it.amount, it.currency.to_uppercase())
            }
            Intent::Setup(_) => "Setup of a card".to_owned(),
        }
    }

    /// Stripe's parameters of the page that the browser returns to.
    fn returning(&self, url: &str, succeeded: bool) -> String {
        let (name, id) = match self {
            Intent::Payment(it) => ("payment_intent", &it.id),
            Intent::Setup(it) => ("setup_intent", &it.id),
        };
        let separator = if url.contains('?') { '&' } else { '?' };
        let status = if succeeded { "succeeded" } else { "failed" };
        format!(
            "{url}{separator}{name}={id}&{name}_client_secret={}&source_type=card&redirect_status={status}",
            self.secret()
        )
    }
}

fn challenge(fake: &mut Fake, method: &str, id: &str, sent: (&Params, &Params)) -> Response<Body> {
    let secret = sent.0.text("client_secret").or(sent.1.text("client_secret"));
    let found = Intent::find(fake, id).filter(|it| secret == Some(it.1.secret()));
    let Some((owner, intent)) = found else { return page(404, "There is no such challenge", "") };
    let Some(challenge) = intent.challenge().cloned() else {
        return page(410, "The challenge has ended", "");
    };
    let outcome = sent.1.text("outcome").filter(|_| method == "POST");
    let passed = match outcome {
        None => {
            let form = "<form method=post>\
                <button name=outcome value=pass id=pass>Complete authentication</button> \
                <button name=outcome value=fail id=fail>Fail authentication</button> \
                <button name=outcome value=abandon id=abandon>Leave it open</button></form>";
            return page(200, &format!("3-D Secure: {}", intent.title()), form);
        }
        Some("pass") => true,
        Some("fail") => false,
        Some("abandon") => return page(200, "The challenge is left open", ""),
        Some(_) => return page(400, "outcome: pass, fail or abandon", ""),
    };
    let intent = fake.act_alone(&owner, &Params::default(), |request| match &intent {
        Intent::Payment(it) => Intent::Payment(confirm::challenge_ended(request, it, passed)),
        Intent::Setup(it) => Intent::Setup(setup_intent::challenge_ended(request, it, passed)),
    });
    let succeeded = match &intent {
        Intent::Payment(it) => {
            matches!(
                it.status,
                payment_intent::Status::Succeeded | payment_intent::Status::RequiresCapture
            )
        }
        Intent::Setup(it) => it.status == setup_intent::Status::Succeeded,
    };
    if let Some(session) = session_of(fake, &owner, &intent) {
        return after_payment(fake, &owner, &session, succeeded);
    }
    match &challenge.return_url {
        Some(url) => redirect(&intent.returning(url, succeeded)),
        None => page(200, if succeeded { "Authenticated" } else { "Not authenticated" }, ""),
    }
}

type Session = std::rc::Rc<checkout_session::CheckoutSession>;

fn session_of(fake: &Fake, owner: &Owner, intent: &Intent) -> Option<Session> {
    let mut open = fake.books[owner]
        .account
        .checkout_sessions
        .all()
        .filter(|it| it.status == checkout_session::Status::Open);
    let found = open.find(|session| match intent {
        Intent::Payment(it) => session.payment_intent.as_ref() == Some(&it.id),
        Intent::Setup(it) => session.setup_intent.as_ref() == Some(&it.id),
    });
    found.cloned()
}

fn checkout(fake: &mut Fake, method: &str, id: &str, sent: &Params) -> Response<Body> {
    let found = fake.books.iter().find_map(|(owner, books)| {
        Some((owner.clone(), books.account.checkout_sessions.get(id)?.clone()))
    });
    let Some((owner, session)) = found else { return page(404, "There is no such session", "") };
    if session.status != checkout_session::Status::Open {
        return page(410, "The session has ended", "");
    }
    if method != "POST" {
        let form = "<form method=post>\
            <label>Test payment method <input name=payment_method value=pm_card_visa></label> \
            <button id=pay>Pay</button> <button name=leave value=1 id=leave>Back</button></form>";
        return page(200, "Checkout", form);
    }
    if sent.has("leave") {
        return session.cancel_url.as_deref().map_or_else(|| page(200, "Left", ""), redirect);
    }
    let card = sent.text("payment_method").unwrap_or("pm_card_visa");
    match fake.act_alone(&owner, &Params::default(), |request| {
        checkout_session::pay(request, &session, card)
    }) {
        Err(error) => page(402, &error.message, ""),
        Ok(checkout_session::Paid { challenge: Some(url) }) => redirect(&url),
        Ok(checkout_session::Paid { challenge: None }) => {
            let session =
                fake.books[&owner].account.checkout_sessions.get(id).expect("it was found").clone();
            after_payment(fake, &owner, &session, true)
        }
    }
}

/// Where Checkout sends the browser; after a failure the page may be submitted again.
fn after_payment(
    fake: &mut Fake,
    owner: &Owner,
    session: &Session,
    succeeded: bool,
) -> Response<Body> {
    if !succeeded {
        return redirect(&session.url);
    }
    fake.act_alone(owner, &Params::default(), |request| {
        checkout_session::complete(request, session)
    });
    let url = session.success_url.as_deref().unwrap_or_default();
    redirect(&url.replace("{CHECKOUT_SESSION_ID}", &session.id))
}

fn redirect(url: &str) -> Response<Body> {
    let Ok(location) = HeaderValue::from_str(url) else {
        return page(400, "The URL to return to is none", "");
    };
    let mut response = respond(303, Bytes::new(), "text/html");
    response.headers_mut().insert(LOCATION, location);
    response
}

fn page(status: u16, title: &str, form: &str) -> Response<Body> {
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>{form}</html>\n"
    );
    respond(status, html.into(), "text/html; charset=utf-8")
}
