//! Mails to the operator about webhook endpoints that were switched off.

use std::sync::Arc;
use std::time::Duration;

use ::mail::Mailer;
use ::mail::alerts::{self, ALERTS_MAX, AlertSettings};
use domain::tenant::webhook::DisableReason;
use domain::{Timestamp, WebhookEndpointId};
use engine::webhooks::SwitchedOff;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::mailbox::{Mailbox, Manner};
use super::{Scene, TENANT, to};

const OPERATOR: &str = "operator@example.org";

fn settings(mailbox: &Mailbox) -> AlertSettings {
    AlertSettings {
        mailer: Arc::new(Mailer::new(&to(mailbox).options("".as_ref())).unwrap()),
        to: OPERATOR.to_owned(),
        platform_name: "Faregate".to_owned(),
        retry_delays: vec![Duration::from_millis(1)],
        attempts_max: 3,
    }
}

fn alert(endpoint: u128, reason: DisableReason) -> SwitchedOff {
    let endpoint = WebhookEndpointId::new(Uuid::from_u128(endpoint));
    SwitchedOff { tenant: TENANT, endpoint, reason, at: Timestamp(1_795_174_252_987_654) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_gets_a_mail_about_each_endpoint_that_is_switched_off() {
    let scene = Scene::new();
    let mailbox = Mailbox::start(Manner::Postpones).await;
    let (alerts, waiting) = mpsc::channel(ALERTS_MAX);
    let stop = std::future::pending();
    let run = alerts::run(scene.engine.clone(), settings(&mailbox), waiting, stop);
    let running = tokio::spawn(run);
    alerts.send(alert(1, DisableReason::Gone)).await.unwrap();
    let until = std::time::Instant::now() + super::PATIENCE;
    while mailbox.asked() < 3 {
        assert!(std::time::Instant::now() < until, "it is tried again");
        tokio::task::yield_now().await;
    }
    mailbox.becomes(|_| Manner::Takes);
    alerts.send(alert(2, DisableReason::Failing)).await.unwrap();
    let mails = mailbox.has(1).await;
    assert_eq!((mails.len(), mailbox.asked()), (1, 4), "the first one was given up after three");
    for expected in [
        "To: operator@example.org",
        "Subject: Faregate: a webhook endpoint was switched off",
        "endpoint 00000000-0000-0000-0000-000000000002 of the tenant 1 was switched off at",
        "2026-11-20T11:30:52",
        "because it has failed at every try for five days.",
    ] {
        assert!(mails[0].contains(expected), "{expected}: {}", mails[0]);
    }
    mailbox.becomes(|_| Manner::Refuses);
    alerts.send(alert(3, DisableReason::Gone)).await.unwrap();
    drop(alerts);
    running.await.unwrap();
    assert_eq!((mailbox.mails().len(), mailbox.asked()), (1, 5), "what is refused is not repeated");
    scene.end().await;
}
