//! The synthetic registration: what it does, and what it leaves behind.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use domain::TenantNo;
use domain::customer::{Customer, CustomerStatus};
use engine::ports::Page;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use signup::limits::Settings;
use signup::probe::{self, Failure, Probe, Step};
use signup::service::How;
use tower::ServiceExt as _;

use crate::plain::{World, new_customer};

const MINUTE: Duration = Duration::from_secs(60);

async fn ask(probe: &Probe) -> (StatusCode, serde_json::Value) {
    let router: Router = probe::router(probe.clone());
    let request = Request::get(probe::PATH).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn customers(world: &World, tenant: TenantNo) -> Vec<Customer> {
    let page = Page { offset: 0, limit: 100 };
    let found = world.sign_up.engine().read(move |queries| queries.customers(tenant, page));
    found.await.unwrap()
}

async fn probes_tenant(world: &World) -> Option<TenantNo> {
    let found = world.sign_up.engine().read(|queries| queries.tenant_by_api_key(probe::TENANT));
    found.await.unwrap().map(|it| it.no)
}

#[tokio::test]
async fn it_signs_up_logs_in_and_is_forgotten() {
    let world = World::start(Settings { registrations_per_minute: 1, ..Settings::default() });
    let tenant = world.tenant("test").await;
    let probe = Probe::new(world.sign_up.clone(), MINUTE);
    let (status, body) = ask(&probe).await;
    assert_eq!((status, &body["status"]), (StatusCode::SERVICE_UNAVAILABLE, &"unknown".into()));
    for _ in 0..3 {
        let ended = probe.run().await;
        assert_eq!(ended.failure, None);
    }
    let (status, body) = ask(&probe).await;
    assert_eq!((status, &body["status"]), (StatusCode::OK, &"healthy".into()));
    assert!(body["took_ms"].is_u64() && body["age_seconds"].is_u64(), "{body}");
    // Nobody else's lists show it.
    assert_eq!(customers(&world, tenant).await, []);
    let own = probes_tenant(&world).await.unwrap();
    let left = customers(&world, own).await;
    assert_eq!(left.len(), 3);
    assert!(left.iter().all(|it| it.status == CustomerStatus::Erased), "{left:?}");
    // Nothing is mailed.
    let page = Page { offset: 0, limit: 100 };
    let mails = world.sign_up.engine().read(move |queries| queries.mails(own, false, page));
    assert!(mails.await.unwrap().is_empty());
    world.stop().await;
}

#[tokio::test]
async fn before_the_first_tenant_there_is_none_for_it() {
    let world = World::start(Settings::OFF);
    let probe = Probe::new(world.sign_up.clone(), MINUTE);
    let failure = probe.run().await.failure;
    assert_eq!(failure, Some(Failure { step: Step::Tenant, reason: "no_tenant" }));
    assert_eq!(probes_tenant(&world).await, None);
    let (status, body) = ask(&probe).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((&body["status"], &body["step"]), (&"failing".into(), &"tenant".into()));
    world.tenant("test").await;
    assert_eq!(probe.run().await.failure, None);
    world.stop().await;
}

#[tokio::test]
async fn what_one_that_was_cut_short_has_left_is_removed() {
    let world = World::start(Settings::OFF);
    world.tenant("test").await;
    let probe = Probe::new(world.sign_up.clone(), MINUTE);
    assert_eq!(probe.run().await.failure, None);
    let own = probes_tenant(&world).await.unwrap();
    let asked = world.asked(own, "127.0.0.1", true);
    let how = How { is_probe: true, ..How::OPENLY };
    let left = new_customer(probe.email());
    world.sign_up.register(&asked, left, how).await.unwrap();
    assert_eq!(probe.run().await.failure, None);
    let left = customers(&world, own).await;
    assert!(left.iter().all(|it| it.status == CustomerStatus::Erased), "{left:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_sign_up_that_does_not_work_is_told() {
    let world = World::start(Settings::OFF);
    world.tenant("test").await;
    let probe = Probe::new(world.sign_up.clone(), MINUTE);
    assert_eq!(probe.run().await.failure, None);
    let sign_up = world.sign_up.clone();
    world.stop().await;
    let failure = probe.run().await.failure.unwrap();
    assert_eq!((failure.step, failure.reason), (Step::Register, "stopping"));
    let (status, body) = ask(&probe).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((&body["step"], &body["reason"]), (&"register".into(), &"stopping".into()));
    drop(sign_up);
}

#[tokio::test]
async fn an_interval_of_nothing_is_no_probe() {
    let world = World::start(Settings::OFF);
    assert!(Probe::start(world.sign_up.clone(), Duration::ZERO).is_none());
    world.stop().await;
}
