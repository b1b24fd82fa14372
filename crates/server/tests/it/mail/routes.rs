//! `/v1/mails`: who may look at mails and have them sent again.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::Command;
use domain::access::{CreateUser, PutRole};
use domain::command::{AccessCommand, TenantCommand};
use domain::tenant::CreateTenant;
use engine::Answer;
use engine::access::Access;
use evaluation::MissingAttribute;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::mailbox::{Mailbox, Manner};
use super::{PATIENCE, Scene, to};
use server::first_start::{self, Given};
use v1::Api;

const PASSWORD: &str = "password";

/// The routes, and a tenant's headers.
struct Routes {
    router: Router,
    access: Access,
    tenant: (String, String),
}

impl Routes {
    async fn of(scene: &Scene) -> Self {
        let access = Access::new(scene.engine.clone(), PATIENCE, 1);
        let mut tenant = None;
        let given = Given { password: Some(PASSWORD.to_owned()), tenant: None };
        let made = first_start::prepare(&scene.engine, &access, given, |made| {
            tenant.clone_from(&made.tenant);
            Ok(())
        });
        made.await.unwrap();
        let router = v1::router(Api {
            engine: scene.engine.clone(),
            access: access.clone(),
            analytics: None,
            sealer: None,
            cache: Arc::default(),
            write_locks: Arc::default(),
            missing: MissingAttribute::default(),
            webhooks: v1::webhooks::Settings {
                reach: outbound::Reach::Public,
                log: None,
                replays: None,
            },
            event_streams: v1::events::Streams::default(),
            gateways: v1::gateways::Settings::new(BTreeSet::new(), String::new(), vec![]),
        });
        Self { router, access, tenant: tenant.unwrap() }
    }

    /// A user with these permissions.
    async fn user(&self, scene: &Scene, name: &str, permissions: &[&str]) {
        let permissions = permissions.iter().map(|it| (*it).to_owned()).collect();
        let role = PutRole { name: name.to_owned(), permissions, create: true };
        let password_hash = self.access.hash(PASSWORD).await.unwrap();
        let roles = vec![name.to_owned()];
        let user = CreateUser { username: name.to_owned(), password_hash, roles };
        for command in [
            Command::Access(AccessCommand::PutRole(role)),
            Command::Access(AccessCommand::CreateUser(user)),
        ] {
            let made = scene.submit(command).await;
            assert!(matches!(made, Answer::Replied(_)), "{made:?}");
        }
    }

    /// The same for a tenant that is made for it.
    async fn of_another_tenant(&self, scene: &Scene) -> Self {
        let (api_key, secret) = ("other".to_owned(), "secret".to_owned());
        let secret_hash = self.access.hash(&secret).await.unwrap();
        let (id, external_key) = (None, None);
        let create = CreateTenant { id, external_key, api_key: api_key.clone(), secret_hash };
        let made = scene.submit(Command::Tenant(TenantCommand::Create(create))).await;
        assert!(matches!(made, Answer::Replied(_)), "{made:?}");
        let (router, access) = (self.router.clone(), self.access.clone());
        Self { router, access, tenant: (api_key, secret) }
    }

    async fn ask(&self, user: &str, method: Method, path: &str) -> (u16, Value) {
        let credentials = BASE64.encode(format!("{user}:{PASSWORD}"));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Authorization", format!("Basic {credentials}"))
            .header("X-Faregate-ApiKey", &self.tenant.0)
            .header("X-Faregate-ApiSecret", &self.tenant.1)
            .body(Body::empty())
            .unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("admin", Method::GET, path).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

/// The one of this kind. Those of one commit are in no order.
fn of_kind(mails: &Value, kind: &str) -> Value {
    let mails = mails["mails"].as_array().unwrap();
    let mut found = mails.iter().filter(|mail| mail["kind"] == kind);
    let first = found.next().unwrap().clone();
    assert_eq!(found.next(), None);
    first
}

fn count(mails: &Value) -> usize {
    mails["mails"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_mails_are_listed_and_sent_again() {
    let mailbox = Mailbox::start(Manner::Refuses).await;
    let mut scene = Scene::new();
    let routes = Routes::of(&scene).await;
    let customer = scene.register("ann@example.com").await;
    let queued = routes.get("/v1/mails").await;
    assert_eq!((count(&queued), &queued["more"]), (2, &json!(false)));
    let welcome = of_kind(&queued, "welcome");
    assert_eq!(welcome["customerId"], json!(customer.id.uuid()));
    assert_eq!((&welcome["attempts"], &welcome["error"]), (&json!(0), &Value::Null));
    assert_eq!(welcome["dueAt"], welcome["createdAt"]);
    assert!(!queued.to_string().contains('@'), "{queued}");

    scene.send(&to(&mailbox));
    scene.sent().await;
    assert_eq!(routes.get("/v1/mails?status=queued").await["mails"], json!([]));
    let page = routes.get("/v1/mails?status=dead&limit=1").await;
    assert_eq!((count(&page), &page["more"]), (1, &json!(true)));
    let rest = routes.get("/v1/mails?status=dead&offset=1").await;
    assert_eq!((count(&rest), &rest["more"]), (1, &json!(false)));
    assert_ne!(rest["mails"], page["mails"]);
    let dead = of_kind(&routes.get("/v1/mails?status=dead").await, "verification");
    assert_eq!((&dead["attempts"], &dead["dueAt"]), (&json!(1), &Value::Null));
    let error = dead["error"].as_str().unwrap();
    assert!(error.contains("550") && !error.contains("example"), "{error}");

    mailbox.becomes(|_| Manner::Takes);
    let resend = format!("/v1/mails/{}/resend", dead["id"].as_str().unwrap());
    assert_eq!(routes.ask("admin", Method::POST, &resend).await.0, 202);
    let [mail] = mailbox.has(1).await.try_into().unwrap();
    assert!(mail.contains("/verify-email?token="), "{mail}");
    scene.sent().await;
    assert_eq!(routes.ask("admin", Method::POST, &resend).await.0, 404, "it was sent");
    let left = routes.get("/v1/mails?status=dead").await;
    assert_eq!((count(&left), &of_kind(&left, "welcome")["attempts"]), (1, &json!(1)));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused() {
    let scene = Scene::new();
    let routes = Routes::of(&scene).await;
    routes.user(&scene, "reader", &["mail:read"]).await;
    routes.user(&scene, "nobody", &["flag:*"]).await;
    scene.register("ann@example.com").await;
    let resend = "/v1/mails/0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f0001/resend";
    for (user, method, path, expected) in [
        ("reader", Method::GET, "/v1/mails", 200),
        ("reader", Method::POST, resend, 403),
        ("nobody", Method::GET, "/v1/mails", 403),
        ("nobody", Method::POST, resend, 403),
        ("stranger", Method::GET, "/v1/mails", 401),
        ("admin", Method::POST, resend, 404),
        ("admin", Method::POST, "/v1/mails/x/resend", 400),
        ("admin", Method::GET, "/v1/mails?status=sent", 400),
        ("admin", Method::GET, "/v1/mails?limit=1001", 400),
        ("admin", Method::GET, "/v1/mails?colour=red", 400),
        ("admin", Method::POST, &format!("{resend}?colour=red"), 400),
        ("admin", Method::POST, "/v1/mails", 405),
    ] {
        let (status, body) = routes.ask(user, method, path).await;
        assert_eq!(status, expected, "{user} {path}: {body}");
    }
    // Another tenant's mail is none.
    let mail = scene.mails(false).await[0].id;
    let other = routes.of_another_tenant(&scene).await;
    assert_eq!(other.get("/v1/mails").await["mails"], json!([]));
    let resend = format!("/v1/mails/{mail}/resend");
    assert_eq!(other.ask("admin", Method::POST, &resend).await.0, 404);
    assert_eq!(routes.ask("admin", Method::POST, &resend).await.0, 202);
    scene.end().await;
}
