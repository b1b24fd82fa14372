//! The scenario: a tenant, an account, a payment method, a payment through a slow gateway, a refund.

use std::time::Instant;

use anyhow::Context as _;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::api::{Api, shown};
use super::receiver::Receiver;
use super::results::{Subjects, show_results};
use super::{API_KEY, API_SECRET, print_line};
use crate::client::Response;

/// Makes the simulated gateway take a second.
const PAYMENT_QUERY: &str = "?pluginProperty=delayMs%3D1000";

/// The ids of created rows.
pub struct Created {
    pub account: String,
    pub payment: String,
}

/// Runs the scenario against the server at `url` and prints its steps; others may follow.
pub(super) async fn run(url: &str) -> anyhow::Result<(Scenario, Created)> {
    let mut scenario = Scenario { api: Api::connect(url).await?, step: 0 };
    let receiver = Receiver::listen().await.context("listening for push notifications")?;
    let begun = Instant::now();
    scenario.tenant().await?;
    let callback =
        percent_encoding::utf8_percent_encode(&receiver.url(), percent_encoding::NON_ALPHANUMERIC)
            .to_string();
    scenario
        .create(
            "register a push callback",
            "/1.0/kb/tenants/registerNotificationCallback",
            &format!("?cb={callback}"),
            None,
        )
        .await?;
    let account = json!({
        "name": "Ada Lovelace", "email": "ada@example.com", "currency": "USD", "country": "GB",
    });
    let account =
        scenario.create("create an account", "/1.0/kb/accounts", "", Some(&account)).await?;
    let account = account.created_id()?;
    let of_account = format!("/1.0/kb/accounts/{account}");
    let method = json!({ "pluginName": "faregate-simulator", "pluginInfo": {} });
    let methods = format!("{of_account}/paymentMethods");
    let method = scenario
        .create("add a payment method", &methods, "?isDefault=true", Some(&method))
        .await?
        .created_id()?;
    let purchase = json!({ "transactionType": "PURCHASE", "amount": "100.00", "currency": "USD" });
    let payments = format!("{of_account}/payments");
    let payment = scenario
        .create("pay 100.00 USD; the gateway takes 1 s", &payments, PAYMENT_QUERY, Some(&purchase))
        .await?
        .created_id()?;
    let refund = json!({ "amount": "25.00", "currency": "USD" });
    let refunds = format!("/1.0/kb/payments/{payment}/refunds");
    scenario.create("refund 25.00 USD", &refunds, "", Some(&refund)).await?;
    scenario.settle().await?;
    let subjects = Subjects { account, method, payment };
    show_results(&mut scenario.api, &subjects, &receiver.events(), begun).await?;
    scenario.unregister_callback().await?;
    let Subjects { account, payment, .. } = subjects;
    Ok((scenario, Created { account, payment }))
}

/// The steps, with the number of the last one.
pub(super) struct Scenario {
    pub(super) api: Api,
    step: u32,
}

impl Scenario {
    /// Creates the tenant, unless it exists.
    async fn tenant(&mut self) -> anyhow::Result<()> {
        let tenant = json!({
            "externalKey": API_KEY, "apiKey": API_KEY, "apiSecret": API_SECRET,
        });
        let title = "create the tenant";
        let path = "/1.0/kb/tenants";
        let answer = self.api.call(Method::POST, path, Some(&tenant)).await.context(title)?;
        let created = matches!(answer.status, StatusCode::CREATED | StatusCode::CONFLICT);
        anyhow::ensure!(created, "{title}: {}", shown(&answer));
        self.show(title, "POST", path, &answer)?;
        if answer.status == StatusCode::CONFLICT {
            print_line("       it exists already and is used again")?;
        }
        Ok(())
    }

    /// Sends a POST that must be answered with 201.
    pub(super) async fn create(
        &mut self,
        title: &str,
        path: &str,
        query: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Response> {
        let answer = self
            .api
            .call(Method::POST, &format!("{path}{query}"), body)
            .await
            .with_context(|| title.to_owned())?;
        anyhow::ensure!(answer.status == StatusCode::CREATED, "{title}: {}", shown(&answer));
        self.show(title, "POST", path, &answer)?;
        Ok(answer)
    }

    /// Waits until all followers of the journal have caught up.
    async fn settle(&mut self) -> anyhow::Result<()> {
        let title = "wait until all is delivered";
        let path = "/1.0/kb/test/queues";
        let answer = self.api.call(Method::GET, &format!("{path}?timeoutSec=10"), None).await;
        let answer = answer.context(title)?;
        anyhow::ensure!(answer.status == StatusCode::OK, "{title}: {}", shown(&answer));
        self.show(title, "GET", path, &answer)
    }

    /// Unregisters the callback: its receiver ends with the scenario.
    async fn unregister_callback(&mut self) -> anyhow::Result<()> {
        let path = "/1.0/kb/tenants/registerNotificationCallback";
        let answer = self.api.call(Method::DELETE, path, None).await.context("unregistering")?;
        let is_removed = answer.status == StatusCode::NO_CONTENT;
        anyhow::ensure!(is_removed, "unregistering the callback: {}", shown(&answer));
        Ok(())
    }

    /// Sets the test clock, and waits for what is due then.
    pub(super) async fn clock(
        &mut self,
        title: &str,
        method: Method,
        query: &str,
    ) -> anyhow::Result<()> {
        let path = "/1.0/kb/test/clock";
        let name = method.to_string();
        let answer = self
            .api
            .call(method, &format!("{path}{query}"), None)
            .await
            .context(title.to_owned())?;
        anyhow::ensure!(answer.status == StatusCode::OK, "{title}: {}", shown(&answer));
        self.show(title, &name, path, &answer)
    }

    pub(super) fn show(
        &mut self,
        title: &str,
        method: &str,
        path: &str,
        answer: &Response,
    ) -> anyhow::Result<()> {
        self.step += 1;
        let (step, status) = (self.step, answer.status.as_u16());
        let ms = answer.took.as_secs_f64() * 1000.0;
        let request = format!("{method} {}", shortened(path));
        print_line(&format!("{step:>3}  {title:<38} {ms:>8.1} ms  {status}  {request}"))?;
        Ok(())
    }
}

/// The path with ids replaced by names; the results list the ids.
fn shortened(path: &str) -> String {
    let mut before = "";
    let segments = path.split('/').map(|segment| {
        let is_id = uuid::Uuid::parse_str(segment).is_ok();
        let shown = match before {
            "accounts" if is_id => "{account}",
            "payments" if is_id => "{payment}",
            _ => segment,
        };
        before = segment;
        shown
    });
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_paths_are_replaced_by_names() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(shortened(&format!("/1.0/kb/accounts/{id}/x")), "/1.0/kb/accounts/{account}/x");
        assert_eq!(shortened("/1.0/kb/tenants"), "/1.0/kb/tenants");
    }
}
