//! Insights: counts that are added to beside the writer of payments, read by the hour, and forgotten.

use domain::{EnvironmentId, Id, TenantNo};
use engine::insights::{FlagCount, Hours, MetricCount};
use engine::ports::{HoursPage, InsightWriter as _, Page, Queries, StoreError};
use store::insights::SqlInsightWriter;
use uuid::Uuid;

use crate::workload::World;

const TENANT: TenantNo = TenantNo(1);
const ALL: Page = Page { offset: 0, limit: 1_000 };
const EVER: Hours = Hours { from: 0, to: i64::MAX };

fn environment(n: u128) -> EnvironmentId {
    Id::new(Uuid::from_u128(n))
}

fn flag(name: &str, hour: i64, variation: &str, evaluations: i64) -> FlagCount {
    FlagCount {
        tenant: TENANT,
        environment: environment(1),
        flag: name.to_owned(),
        hour,
        variation: variation.to_owned(),
        evaluations,
        for_experiments: evaluations / 2,
    }
}

fn metric(event: &str, hour: i64, kind: &str, events: i64, total: f64) -> MetricCount {
    let (event, kind) = (event.to_owned(), kind.to_owned());
    let (tenant, environment) = (TENANT, environment(1));
    MetricCount { tenant, environment, event, hour, kind, events, total }
}

/// Two counts of flags and one of a metric, whose sum no decimal text is.
pub fn fill(source: &store::Source) {
    let mut flags = [flag("beta", 7, "off", 2), flag("beta", 7, "on", 3)];
    let mut metrics = [metric("paid", 7, "", 3, 0.1 + 0.2)];
    SqlInsightWriter::open(source).unwrap().add(&mut flags, &mut metrics).unwrap();
}

/// The hours, variations and counts of a flag.
fn of_flag(queries: &dyn Queries, name: &str, hours: Hours, page: Page) -> Vec<FlagCount> {
    queries.flag_insights((TENANT, environment(1)), name, HoursPage { hours, page }).unwrap()
}

fn of_metric(queries: &dyn Queries, event: &str) -> Vec<MetricCount> {
    queries
        .metric_insights((TENANT, environment(1)), event, HoursPage { hours: EVER, page: ALL })
        .unwrap()
}

#[test]
fn counts_are_added_beside_payments_and_read_by_the_hour() {
    let mut world = World::new(95);
    let source = world.home.source();
    let mut one = SqlInsightWriter::open(&source).unwrap();
    let mut other = SqlInsightWriter::open(&source).unwrap();
    let elsewhere = FlagCount { environment: environment(2), ..flag("beta", 7, "on", 100) };
    let of_others = FlagCount { tenant: TenantNo(2), ..flag("beta", 7, "on", 1_000) };
    let mut flags = [flag("beta", 8, "on", 4), flag("beta", 7, "off", 2), elsewhere, of_others];
    let mut metrics =
        [metric("paid", 7, "CustomEvent", 2, 1.25), metric("paid", 7, "Click", 1, 1.0)];
    one.add(&mut flags, &mut metrics).unwrap();
    world.workload.run(50);
    let mut flags =
        [flag("beta", 7, "off", 6), flag("alpha", 7, "on", 1), flag("beta", 7, "on", 2)];
    let mut metrics = [metric("paid", 7, "CustomEvent", 1, -0.5), metric("seen", 7, "", 1, 1.0)];
    other.add(&mut flags, &mut metrics).unwrap();
    world.workload.run(50);

    let queries = &*world.queries;
    let mut beta =
        vec![flag("beta", 7, "off", 8), flag("beta", 7, "on", 2), flag("beta", 8, "on", 4)];
    assert_eq!(of_flag(queries, "beta", EVER, ALL), beta);
    let second = Page { offset: 1, limit: 1 };
    assert_eq!(of_flag(queries, "beta", EVER, second), beta[1..2]);
    assert_eq!(of_flag(queries, "beta", Hours { from: 8, to: 9 }, ALL), beta[2..]);
    beta.truncate(2);
    assert_eq!(of_flag(queries, "beta", Hours { from: 7, to: 8 }, ALL), beta);
    assert_eq!(of_flag(queries, "gamma", EVER, ALL), []);
    let paid = [metric("paid", 7, "Click", 1, 1.0), metric("paid", 7, "CustomEvent", 3, 0.75)];
    assert_eq!(of_metric(queries, "paid"), paid);
}

#[test]
fn counts_are_forgotten_in_steps_the_oldest_first() {
    let world = World::new(96);
    let mut writer = SqlInsightWriter::open(&world.home.source()).unwrap();
    let mut flags: Vec<FlagCount> = (1..=6).map(|hour| flag("beta", hour, "on", 2)).collect();
    writer.add(&mut flags, &mut [metric("paid", 1, "", 1, 1.0)]).unwrap();
    let left = || -> Vec<i64> {
        of_flag(&*world.queries, "beta", EVER, ALL).iter().map(|it| it.hour).collect()
    };
    assert_eq!(writer.forget(5, 3).unwrap(), 4, "three of the flag, and the metric");
    assert_eq!(left(), [4, 5, 6]);
    assert_eq!(of_metric(&*world.queries, "paid"), []);
    assert_eq!(writer.forget(5, 3).unwrap(), 1);
    assert_eq!(writer.forget(5, 3).unwrap(), 0);
    assert_eq!(left(), [5, 6]);
}

/// A refused call leaves no counts behind, not even those that it wrote before the refusal.
#[test]
fn counts_are_added_together_or_not_at_all() {
    let world = World::new(97);
    let mut writer = SqlInsightWriter::open(&world.home.source()).unwrap();
    let mut metrics = [metric("paid", 1, "", 1, f64::MAX)];
    writer.add(&mut [], &mut metrics).unwrap();
    let mut flags = [flag("beta", 1, "on", i64::MAX)];
    writer.add(&mut flags, &mut []).unwrap();
    // The sum leaves 64 bits.
    let mut more = [flag("alpha", 1, "on", 2), flag("beta", 1, "on", 2)];
    let refused = writer.add(&mut more, &mut []).unwrap_err();
    assert!(matches!(refused, StoreError::Refused(_)), "{refused:?}");
    assert_eq!(of_flag(&*world.queries, "alpha", EVER, ALL), []);
    writer.add(&mut [flag("alpha", 1, "on", 2)], &mut []).unwrap();
    assert_eq!(of_flag(&*world.queries, "alpha", EVER, ALL).len(), 1);
}
