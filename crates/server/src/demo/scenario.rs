//! The scenario: a tenant, an account, a payment method, a payment through a slow gateway, a refund.

use std::time::Instant;

use anyhow::Context as _;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::api::{Answer, Api};
use super::receiver::Receiver;
use super::written::{Subjects, show_written};
use super::{API_KEY, API_SECRET, say};

/// The path of one's own payment through the simulator, and how long that takes.
const PAYMENT_QUERY: &str = "?pluginProperty=delayMs%3D1000";

/// What the scenario made.
pub struct Made {
    /// The account.
    pub account: String,
    /// The payment.
    pub payment: String,
}

/// Plays the scenario and shows it.
pub async fn play(authority: &str) -> anyhow::Result<Made> {
    let mut player = Player { api: Api::connect(authority).await?, step: 0 };
    let receiver = Receiver::listen().await.context("listening for push notifications")?;
    let begun = Instant::now();
    player.tenant().await?;
    let callback =
        percent_encoding::utf8_percent_encode(&receiver.url(), percent_encoding::NON_ALPHANUMERIC)
            .to_string();
    player
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
        player.create("create an account", "/1.0/kb/accounts", "", Some(&account)).await?;
    let account = account.created()?;
    let of_account = format!("/1.0/kb/accounts/{account}");
    let method = json!({ "pluginName": "faregate-simulator", "pluginInfo": {} });
    let methods = format!("{of_account}/paymentMethods");
    let method = player
        .create("add a payment method", &methods, "?isDefault=true", Some(&method))
        .await?
        .created()?;
    let purchase = json!({ "transactionType": "PURCHASE", "amount": "100.00", "currency": "USD" });
    let payments = format!("{of_account}/payments");
    let payment = player
        .create("pay 100.00 USD; the gateway takes 1 s", &payments, PAYMENT_QUERY, Some(&purchase))
        .await?
        .created()?;
    let refund = json!({ "amount": "25.00", "currency": "USD" });
    let refunds = format!("/1.0/kb/payments/{payment}/refunds");
    player.create("refund 25.00 USD", &refunds, "", Some(&refund)).await?;
    player.settle().await?;
    let subjects = Subjects { account, method, payment };
    show_written(&mut player.api, &subjects, &receiver.events(), begun).await?;
    player.forget_callback().await?;
    let Subjects { account, payment, .. } = subjects;
    Ok(Made { account, payment })
}

struct Player {
    api: Api,
    step: u32,
}

impl Player {
    /// Creates the tenant, or finds that it is there already.
    async fn tenant(&mut self) -> anyhow::Result<()> {
        let tenant = json!({
            "externalKey": API_KEY, "apiKey": API_KEY, "apiSecret": API_SECRET,
        });
        let title = "create the tenant";
        let path = "/1.0/kb/tenants";
        let answer = self.api.call(Method::POST, path, Some(&tenant)).await.context(title)?;
        let created = matches!(answer.status, StatusCode::CREATED | StatusCode::CONFLICT);
        anyhow::ensure!(created, "{title}: {}", answer.complaint());
        self.show(title, "POST", path, &answer)?;
        if answer.status == StatusCode::CONFLICT {
            say("       it was there already and is used again")?;
        }
        Ok(())
    }

    /// Posts something that has to be answered with 201.
    async fn create(
        &mut self,
        title: &str,
        path: &str,
        query: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let answer = self
            .api
            .call(Method::POST, &format!("{path}{query}"), body)
            .await
            .with_context(|| title.to_owned())?;
        anyhow::ensure!(answer.status == StatusCode::CREATED, "{title}: {}", answer.complaint());
        self.show(title, "POST", path, &answer)?;
        Ok(answer)
    }

    /// Waits until all that follows the journal has caught up.
    async fn settle(&mut self) -> anyhow::Result<()> {
        let title = "wait until all is delivered";
        let path = "/1.0/kb/test/queues";
        let answer = self.api.call(Method::GET, &format!("{path}?timeoutSec=10"), None).await;
        let answer = answer.context(title)?;
        anyhow::ensure!(answer.status == StatusCode::OK, "{title}: {}", answer.complaint());
        self.show(title, "GET", path, &answer)
    }

    /// The receiver ends with the scenario: nobody should go on sending to it.
    async fn forget_callback(&mut self) -> anyhow::Result<()> {
        let path = "/1.0/kb/tenants/registerNotificationCallback";
        let answer = self.api.call(Method::DELETE, path, None).await.context("unregistering")?;
        let gone = answer.status == StatusCode::NO_CONTENT;
        anyhow::ensure!(gone, "unregistering the callback: {}", answer.complaint());
        Ok(())
    }

    fn show(
        &mut self,
        title: &str,
        method: &str,
        path: &str,
        answer: &Answer,
    ) -> anyhow::Result<()> {
        self.step += 1;
        let (step, status) = (self.step, answer.status.as_u16());
        let ms = answer.took.as_secs_f64() * 1000.0;
        let request = format!("{method} {}", shortened(path));
        say(&format!("{step:>3}  {title:<38} {ms:>8.1} ms  {status}  {request}"))?;
        Ok(())
    }
}

/// The path with its id named instead of written out: the ids follow below.
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
    fn ids_are_named() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(shortened(&format!("/1.0/kb/accounts/{id}/x")), "/1.0/kb/accounts/{account}/x");
        assert_eq!(shortened("/1.0/kb/tenants"), "/1.0/kb/tenants");
    }
}
