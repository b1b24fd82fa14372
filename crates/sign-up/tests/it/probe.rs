//! The synthetic registration.

use std::time::Duration;

use domain::TenantNo;
use domain::customer::{Customer, CustomerStatus};
use engine::ports::Page;
use sign_up::limits::Settings;
use sign_up::probe::{self, Failure, Probe, Step};
use sign_up::service::RegistrationOptions;

use crate::world::{World, new_customer};

const MINUTE: Duration = Duration::from_secs(60);

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
async fn a_run_registers_logs_in_and_erases_its_customer_without_mails() {
    let world = World::start(Settings { registrations_per_minute: 1, ..Settings::default() });
    let tenant = world.tenant("test").await;
    let probe = Probe::new(world.sign_up.clone(), MINUTE);
    assert!(probe.last().is_none());
    for _ in 0..3 {
        assert_eq!(probe.run().await.failure, None);
    }
    assert_eq!(probe.last().unwrap().failure, None);
    assert!(!probe.is_late(4 * MINUTE) && probe.is_late(4 * MINUTE + MINUTE / 60));
    // The customers of other tenants do not include it.
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
async fn a_run_fails_until_another_tenant_exists() {
    let world = World::start(Settings::OFF);
    let probe = Probe::new(world.sign_up.clone(), MINUTE);
    let failure = probe.run().await.failure;
    assert_eq!(failure, Some(Failure { step: Step::Tenant, reason: "no_tenant" }));
    assert_eq!(probes_tenant(&world).await, None);
    assert_eq!(probe.last().unwrap().failure, failure);
    world.tenant("test").await;
    assert_eq!(probe.run().await.failure, None);
    world.stop().await;
}

#[tokio::test]
async fn a_run_erases_the_customer_of_an_interrupted_run() {
    let world = World::start(Settings::OFF);
    world.tenant("test").await;
    let probe = Probe::new(world.sign_up.clone(), MINUTE);
    assert_eq!(probe.run().await.failure, None);
    let own = probes_tenant(&world).await.unwrap();
    let context = world.context(own, "127.0.0.1", true);
    let options = RegistrationOptions { is_probe: true, ..RegistrationOptions::OPEN };
    let left = new_customer(probe.email());
    world.sign_up.register(&context, left, options).await.unwrap();
    assert_eq!(probe.run().await.failure, None);
    let left = customers(&world, own).await;
    assert!(left.iter().all(|it| it.status == CustomerStatus::Erased), "{left:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_run_reports_the_step_that_failed() {
    let world = World::start(Settings::OFF);
    world.tenant("test").await;
    let probe = Probe::new(world.sign_up.clone(), MINUTE);
    assert_eq!(probe.run().await.failure, None);
    let sign_up = world.sign_up.clone();
    world.stop().await;
    let failure = probe.run().await.failure.unwrap();
    assert_eq!((failure.step, failure.reason), (Step::Register, "stopping"));
    assert_eq!(probe.last().unwrap().failure, Some(failure));
    drop(sign_up);
}

#[tokio::test]
async fn an_interval_of_zero_starts_no_probe() {
    let world = World::start(Settings::OFF);
    assert!(Probe::start(world.sign_up.clone(), Duration::ZERO).is_none());
    world.stop().await;
}
