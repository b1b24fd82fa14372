//! Mails to the operator about webhook endpoints that the server has switched off.

use std::sync::Arc;
use std::time::Duration;

use domain::tenant::webhook::DisableReason;
use engine::Engine;
use engine::ports::CALLBACK;
use engine::time::rfc3339_second;
use engine::webhooks::SwitchedOff;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::error::MailError;
use crate::mailer::Mailer;
use crate::message::OutgoingMail;
use crate::queue::DEAD;
use crate::template::Rendered;

/// How many alerts wait to be sent at most.
pub const ALERTS_MAX: usize = 256;

/// To whom alerts are sent, and how often one is tried.
#[derive(Clone)]
pub struct AlertSettings {
    pub mailer: Arc<Mailer>,
    /// The operator's address.
    pub to: String,
    /// The name of the platform in subjects.
    pub platform_name: String,
    /// The pause before each retry; the last one repeats.
    pub retry_delays: Vec<Duration>,
    pub attempts_max: u32,
}

/// Sends alerts one after another until `stop` is ready. What waits then is lost: the status of the endpoints and the
/// events tell of it too.
pub async fn run(
    engine: Engine,
    settings: AlertSettings,
    alerts: mpsc::Receiver<SwitchedOff>,
    stop: impl Future<Output = ()>,
) {
    tokio::select! {
        () = send_all(&engine, &settings, alerts) => {}
        () = stop => {}
    }
}

async fn send_all(
    engine: &Engine,
    settings: &AlertSettings,
    mut alerts: mpsc::Receiver<SwitchedOff>,
) {
    while let Some(alert) = alerts.recv().await {
        let no = alert.tenant;
        let found = engine.read(move |queries| queries.tenant_by_no(no)).await.ok().flatten();
        let tenant = found.map_or_else(|| no.0.to_string(), |it| it.id.to_string());
        let mail = OutgoingMail {
            message_id: settings.mailer.message_id(Uuid::now_v7()),
            to: settings.to.clone(),
            to_name: String::new(),
            rendered: rendered(&settings.platform_name, &tenant, &alert),
        };
        send(settings, &mail, &alert).await;
    }
}

/// Sends a mail, or gives it up after its attempts.
async fn send(settings: &AlertSettings, mail: &OutgoingMail, alert: &SwitchedOff) {
    for attempt in 1..=settings.attempts_max {
        match settings.mailer.send(mail).await {
            Ok(()) => return,
            Err(MailError::Permanent(_)) => break,
            Err(MailError::Temporary(_)) => {
                tracing::warn!(
                    tenant = alert.tenant.0,
                    endpoint = %alert.endpoint,
                    attempt,
                    "failed to send the mail about a webhook endpoint that is off; retrying"
                );
            }
        }
        if attempt < settings.attempts_max {
            let at = usize::try_from(attempt - 1).unwrap_or(usize::MAX);
            let delay = settings.retry_delays.get(at).or(settings.retry_delays.last());
            tokio::time::sleep(delay.copied().unwrap_or_default()).await;
        }
    }
    metrics::counter!(DEAD).increment(1);
    tracing::error!(
        tenant = alert.tenant.0,
        endpoint = %alert.endpoint,
        "the mail about a webhook endpoint that is off is given up"
    );
}

/// The mail. Neither URL nor headers of the endpoint are in it: they may have secrets.
fn rendered(platform_name: &str, tenant: &str, alert: &SwitchedOff) -> Rendered {
    let why = match alert.reason {
        DisableReason::Gone => "it answered 410",
        DisableReason::Failing => "it has failed at every try for five days",
    };
    let (endpoint, at) = (alert.endpoint, rfc3339_second(alert.at));
    let (name, on_again) = if endpoint == CALLBACK {
        let again = "POST /1.0/kb/tenants/registerNotificationCallback.".to_owned();
        ("callback".to_owned(), again)
    } else {
        let again = format!("PATCH /v1/webhooks/endpoints/{endpoint} with the status \"on\".");
        (format!("webhook endpoint {endpoint}"), again)
    };
    let lines = [
        format!("The {name} of the tenant {tenant} was switched off at {at}, because {why}."),
        "It receives no events until it is switched on again:".to_owned(),
        on_again,
        "Events of the time in between are sent by POST /v1/webhooks/replays.".to_owned(),
    ];
    // Ids, times and words: nothing has to be escaped.
    let html: String = lines.iter().map(|line| format!("<p>{line}</p>\n")).collect();
    let subject = format!("{platform_name}: a webhook endpoint was switched off");
    Rendered { subject, text: lines.join("\n") + "\n", html }
}
