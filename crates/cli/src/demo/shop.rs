//! A merchant's server with one page: a button buys an offer for the demo's account, and the page follows the flag
//! that the offer's feature gates.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::api::Api;

const PAGE: &str = include_str!("shop.html");

/// The place in the page for what it has to know.
const SETTINGS: &str = "SETTINGS";

/// The key of the feature, of its offer and of the flag.
const KEY: &str = "demo-pro";

/// A header that only the page's own script sends: no other page can have its visitors buy.
const OWN: &str = "x-demo";

const PRICE: &str = "9.00";

/// The merchant's server.
pub struct Shop {
    page: String,
    account: String,
    open: Mutex<Open>,
}

/// The parts of the shop that one request at a time uses.
struct Open {
    api: Api,
    /// The payment of what the account has.
    payment: Option<String>,
}

impl Shop {
    /// Defines the feature, the offer and the flag, and listens on a free loopback port until the runtime ends; its
    /// address.
    ///
    /// # Errors
    /// A step gets an unexpected response, or no port is free.
    pub async fn open(url: &str, account: &str) -> anyhow::Result<String> {
        let mut api = Api::connect(url).await?;
        let feature = json!({ "name": "Pro", "kind": "switch" });
        api.put(&format!("/v1/features/{KEY}"), &feature).await?;
        let offer = json!({
            "name": "Pro, monthly", "price": { "amount": PRICE, "currency": "USD" }, "again": "extend",
            "features": { KEY: true }, "lasts": { "months": 1 },
        });
        api.put(&format!("/v1/offers/{KEY}"), &offer).await?;
        let flags = json!({ "featureFlags": [flag()], "segments": [] });
        api.post("/v1/environments/dev/import", &flags).await?;
        let environments: Value = api.get("/v1/environments").await?;
        let dev = environments.as_array().into_iter().flatten().find(|it| it["key"] == "dev");
        let secrets = dev.and_then(|it| it["secrets"].as_array()).into_iter().flatten();
        let secret = secrets.into_iter().find(|it| it["type"] == "client");
        let secret = secret.context("the environment has a client secret")?["value"].clone();
        let settings = json!({ "faregate": url, "secret": secret, "user": account });
        let page = PAGE.replace(SETTINGS, &settings.to_string());
        let open = Mutex::new(Open { api, payment: None });
        let shop = Arc::new(Self { page, account: account.to_owned(), open });
        shop.listen().await
    }

    async fn listen(self: Arc<Self>) -> anyhow::Result<String> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shop = Arc::clone(&self);
                let service = service_fn(move |request| Arc::clone(&shop).answer(request));
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // A page that has gone.
                tokio::spawn(async move { serving.await.ok() });
            }
        });
        Ok(format!("http://{address}/"))
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let is_own = request.headers().contains_key(OWN);
        let (status, text) = match (request.method(), request.uri().path()) {
            (&Method::GET, "/") => return Ok(html(self.page.clone())),
            (&Method::POST, "/buy") if is_own => outcome(self.buy().await),
            (&Method::POST, "/refund") if is_own => outcome(self.refund().await),
            (_, _) => (StatusCode::NOT_FOUND, String::new()),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        Ok(response)
    }

    async fn buy(&self) -> anyhow::Result<()> {
        let mut open = self.open.lock().await;
        let price = json!({ "amount": PRICE, "currency": "USD" });
        let wanted = json!({ "offer": KEY, "expectedPrice": price });
        let path = format!("/v1/accounts/{}/purchases", self.account);
        let bought = open.api.post(&path, &wanted).await?;
        open.payment = bought["payment"]["paymentId"].as_str().map(str::to_owned);
        Ok(())
    }

    async fn refund(&self) -> anyhow::Result<()> {
        let mut open = self.open.lock().await;
        let payment = open.payment.take().context("nothing was bought here")?;
        let path = format!("/1.0/kb/payments/{payment}/refunds");
        open.api.post(&path, &json!({ "amount": PRICE })).await.map(drop)
    }
}

/// A flag that is on for those who are entitled to the feature.
fn flag() -> Value {
    let all = json!([{ "id": "on", "rollout": [0, 1], "exptRollout": 1 }]);
    json!({
        "key": KEY, "name": "Pro", "variationType": "boolean", "isEnabled": true, "gate": KEY,
        "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
        "disabledVariationId": "off", "fallthrough": { "variations": all },
    })
}

fn outcome(done: anyhow::Result<()>) -> (StatusCode, String) {
    match done {
        Ok(()) => (StatusCode::OK, String::new()),
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")),
    }
}

fn html(page: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(page));
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
