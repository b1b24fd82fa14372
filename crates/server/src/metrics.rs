//! `/metrics`: what the process, the core and the APIs count, in Prometheus' text format.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::Timestamp;
use domain::payment::TransactionStatus;
use engine::ports::{Queries, StoreError, UnresolvedCount};
use engine::{Engine, Reason};
use feature_flags::FlagCache;
use http::header::{CONTENT_TYPE, HeaderValue};
use metrics::Unit;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::http_setup::Memory;
use crate::logging;

/// Upper ends of the buckets of everything measured in seconds.
const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.1, 1.25, 1.5, 2.5, 5.0,
    10.0, 30.0, 60.0,
];

/// Upper ends of the buckets of everything measured in commands.
const COMMANDS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// How often histograms are condensed; between two times every sample is kept.
const UPKEEP: Duration = Duration::from_secs(5);

/// Reasons of `faregate_refused_total` beside those of the engine.
const OTHER_REFUSALS: [&str; 7] = [
    "guessing",
    "grpc_calls",
    "network_connections",
    "network_streams",
    "environment_streams",
    "answers",
    "slow_readers",
];

/// How long an answer is given again: scrapers, however many, cause one read of the database in this
/// time.
const CACHED_FOR: Duration = Duration::from_secs(1);

/// How long an answer waits for the database; then its gauges keep their last values.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// Installs the recorder for the whole process; once.
///
/// # Errors
/// Where there is a recorder already.
pub fn install() -> Result<PrometheusHandle, metrics_exporter_prometheus::BuildError> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_commands".to_owned()), COMMANDS)?
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)?;
    describe();
    Ok(handle)
}

fn describe() {
    let counters = [
        ("faregate_requests_total", "Requests answered, by api, route and status."),
        ("faregate_refused_total", "Requests refused for lack of room, by reason."),
        ("faregate_refusals_not_logged_total", "Refusals without a log line, by status."),
        ("faregate_payments_total", "Payment transactions answered, by status."),
        (
            "faregate_corrected_payments_total",
            "Settled transactions that a gateway corrected later.",
        ),
        (
            "faregate_control_calls_total",
            "Calls that control programs were asked about, by gateway and answer.",
        ),
        ("faregate_cascaded_payments_total", "Declines that went on to the next gateway."),
        ("faregate_disputes_total", "Disputes that were recorded, by gateway."),
        (
            "faregate_dispute_excess_total",
            "Times that a dispute withdrew more than was left of its payment.",
        ),
        (
            "faregate_dispute_evidence_due_total",
            "Warnings that evidence of a dispute is due within three days.",
        ),
        ("faregate_late_successes_total", "Declined tries that succeeded beside a later one."),
        (
            "faregate_gateway_breaker_opened_total",
            "Breakers that opened, by gateway and whose calls they refuse.",
        ),
        ("faregate_timers_total", "Timers that were due, by kind and result."),
        ("faregate_gateway_calls_total", "Gateway calls ended, by gateway and answer."),
        (
            "faregate_gateway_notifications_total",
            "Notifications posted for gateways, by gateway and result.",
        ),
        (
            "faregate_webhook_log_dropped_total",
            "Tries to deliver that are not in the log of deliveries.",
        ),
        ("faregate_password_hashes_total", "Passwords and API secrets hashed."),
        ("faregate_insights_dropped_total", "Insights of feature flags not kept, by reason."),
        ("faregate_log_lines_dropped_total", "Lines of the log that were not written, by reason."),
        ("faregate_tls_reloads_total", "Certificates read again while served, by result."),
        ("faregate_mail_sent_total", "Mails sent, by template."),
        ("faregate_mail_dead_total", "Mails given up."),
    ];
    for (name, text) in counters.into_iter().chain(SIGN_UP_COUNTERS) {
        metrics::describe_counter!(name, text);
    }
    // Alarms compare with the value before: what is rare is shown before it happens.
    metrics::counter!("faregate_corrected_payments_total").increment(0);
    metrics::counter!("faregate_late_successes_total").increment(0);
    metrics::counter!("faregate_dispute_excess_total").increment(0);
    metrics::counter!("faregate_dispute_evidence_due_total").increment(0);
    for reason in Reason::ALL.map(Reason::label).into_iter().chain(OTHER_REFUSALS) {
        metrics::counter!("faregate_refused_total", "reason" => reason).increment(0);
    }
    for status in ["401", "403"] {
        metrics::counter!("faregate_refusals_not_logged_total", "status" => status).increment(0);
    }
    let seconds = [
        ("faregate_request_seconds", "Time to answer a request, by api and route."),
        ("faregate_commit_seconds", "One batch: load, execute, commit."),
        ("faregate_gateway_seconds", "Gateway calls, by gateway."),
    ];
    for (name, text) in seconds.into_iter().chain(SIGN_UP_SECONDS) {
        metrics::describe_histogram!(name, Unit::Seconds, text);
    }
    metrics::describe_histogram!("faregate_batch_commands", "Commands per commit.");
    for (name, text) in GAUGES.into_iter().chain(SIGN_UP_GAUGES) {
        metrics::describe_gauge!(name, text);
    }
}

/// Gauges of the core and of the process.
const GAUGES: [(&str, &str); 36] = [
    ("faregate_requests_in_progress", "Requests in progress."),
    ("faregate_request_bodies_bytes", "Bytes of request bodies in memory."),
    ("faregate_answers_bytes", "Bytes of long answers that clients have not read."),
    ("faregate_connections", "Open connections."),
    ("faregate_grpc_calls_waiting", "gRPC calls that wait until others are executed."),
    ("faregate_flag_streams", "Open streams of feature flags, those of workers too."),
    ("faregate_queue_commands", "Commands waiting for their commit."),
    ("faregate_journal_head", "The last journal row."),
    ("faregate_integrity_problems", "Damaged rows that the last verification while serving found."),
    ("faregate_integrity_verified_timestamp_seconds", "When it ended, in seconds since 1970."),
    (
        "faregate_outstanding_transactions",
        "Transactions that gateways are asked about, calls in flight included.",
    ),
    (
        "faregate_unresolved_transactions",
        "Transactions unknown or pending after their call ended, by status.",
    ),
    ("faregate_unresolved_oldest_seconds", "Age of the oldest of them, by status."),
    ("faregate_gateway_breaker_state", "Breakers, by gateway: 0 closed, 1 half-open, 2 open."),
    (
        "faregate_gateway_breaker_tenants",
        "Tenants whose own breakers are open or half-open, by gateway.",
    ),
    ("faregate_timers_held", "1 while timers that charge wait for a restart."),
    (
        "faregate_push_waiting",
        "Push notifications that wait, for another attempt or for an endpoint that is slow.",
    ),
    ("faregate_mail_queue_depth", "Mails that wait to be sent."),
    ("faregate_mail_oldest_seconds", "Age of the oldest of them."),
    ("faregate_operations_waiting", "Operations that wait for their turn."),
    ("faregate_operations_oldest_seconds", "Age of the oldest of them."),
    ("faregate_quarantined_accounts", "Accounts out of service."),
    ("faregate_billing_lag_seconds", "How long the first account is due that is to be billed."),
    ("faregate_billing_parked", "Accounts that are billed no more until somebody acts."),
    ("faregate_analytics_lag_seconds", "How far the analytics tables are behind."),
    ("faregate_push_lag_seconds", "How far push notifications are behind."),
    ("faregate_disk_free_bytes", "Free space on the disk of the data directory."),
    ("faregate_entitled_keys", "Users of the feature that has most, for server SDKs."),
    (
        "faregate_tls_certificate_expiry_timestamp_seconds",
        "When the served certificate ends, in seconds since 1970.",
    ),
    ("faregate_disk_size_bytes", "Size of the disk of the data directory."),
    ("faregate_degraded", "Whether writes are refused while reads are served, by reason."),
    ("process_resident_memory_bytes", "Resident memory."),
    ("process_open_fds", "Open file descriptors."),
    ("process_max_fds", "File descriptors that may be open."),
    ("process_threads", "Threads."),
    ("process_start_time_seconds", "When the process started, in seconds since 1970."),
];

/// Counters of sign-up; the first names are those of the platform that its API replaces.
const SIGN_UP_COUNTERS: [(&str, &str); 6] = [
    ("user_service_registration_total", "Registrations answered, by status."),
    (
        "user_service_billing_client_requests_total",
        "Billing accounts that registrations asked the core for.",
    ),
    ("user_service_billing_client_errors_total", "Of these, those that the core could not make."),
    ("billing_service_killbill_requests_total", "Commands for billing accounts given to the core."),
    ("faregate_password_refused_total", "Customers' passwords not hashed, by lane and reason."),
    ("faregate_signup_limited_total", "What was asked of sign-up too often, by action."),
];

/// Histograms of sign-up, in seconds.
const SIGN_UP_SECONDS: [(&str, &str); 4] = [
    ("user_service_registration_duration_seconds", "From a registration to its answer."),
    (
        "billing_service_killbill_latency_seconds",
        "From a command for a billing account to its commit.",
    ),
    ("faregate_password_hash_seconds", "Hashing one customer's password, by algorithm."),
    ("faregate_password_wait_seconds", "From a password to the thread that hashes it, by lane."),
];

/// Gauges of sign-up.
const SIGN_UP_GAUGES: [(&str, &str); 5] = [
    ("user_service_concurrent_registrations_gauge", "Registrations in progress."),
    ("faregate_password_queue_jobs", "Customers' passwords that wait for a thread."),
    ("faregate_synthetic_probe_success", "Whether the last synthetic registration succeeded."),
    (
        "faregate_synthetic_probe_overloaded",
        "Whether it was refused all the time because too many passwords wait.",
    ),
    ("faregate_synthetic_probe_age_seconds", "Since the last synthetic registration ended."),
];

/// Condenses histograms, and logs how many refusals were not logged, until the runtime ends.
pub async fn upkeep(handle: PrometheusHandle) {
    let mut tick = tokio::time::interval(UPKEEP);
    loop {
        tick.tick().await;
        handle.run_upkeep();
        web::refusal_log::report_dropped();
    }
}

/// The sources of the gauges in `/metrics`, and its last answer.
pub struct Exporter {
    pub handle: PrometheusHandle,
    pub engine: Engine,
    /// Requests in progress, their bodies and their answers.
    pub memory: Memory,
    /// Streams of feature flags.
    pub streams: Streams,
    pub last: LastAnswer,
}

/// The last answer and when it was made. Locked while the next one is made, so that callers who come
/// meanwhile share it.
#[derive(Default)]
pub struct LastAnswer(tokio::sync::Mutex<Option<(Instant, Bytes)>>);

/// The streams of feature flags that this server and its workers hold.
#[derive(Clone)]
pub struct Streams {
    /// Holds the server's own streams.
    pub cache: Arc<FlagCache>,
    /// The number of streams that each worker reported last.
    pub of_workers: Arc<[AtomicUsize]>,
}

impl Streams {
    fn count(&self) -> usize {
        let of_workers = self.of_workers.iter().map(|it| it.load(Ordering::Relaxed));
        self.cache.open_sockets() + of_workers.sum::<usize>()
    }
}

/// `GET /metrics`.
pub async fn scrape(State(exporter): State<Arc<Exporter>>) -> Response {
    let text = exporter.text().await;
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(CONTENT_TYPE, content_type)], text).into_response()
}

/// Numbers of outcomes and notifications in the store.
struct Waiting {
    outstanding: i64,
    unresolved: Vec<UnresolvedCount>,
    pushes: i64,
}

impl Exporter {
    /// The metrics, at most [`CACHED_FOR`] old.
    async fn text(&self) -> Bytes {
        let mut last = self.last.0.lock().await;
        if let Some((at, text)) = &*last
            && at.elapsed() < CACHED_FOR
        {
            return text.clone();
        }
        self.gauge_core().await;
        let process = Process::look();
        process.iter().for_each(Process::gauge);
        let mut text = self.handle.render();
        text.extend(process.iter().map(Process::cpu_text));
        let text = Bytes::from(text);
        *last = Some((Instant::now(), text.clone()));
        text
    }

    async fn gauge_core(&self) {
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        let set = |name: &'static str, value: i64| metrics::gauge!(name).set(value as f64);
        set("faregate_requests_in_progress", as_i64(self.memory.admission.in_progress()));
        set("faregate_request_bodies_bytes", as_i64(self.memory.bodies.held_bytes()));
        set("faregate_answers_bytes", as_i64(self.memory.answers.held_bytes()));
        set("faregate_flag_streams", as_i64(self.streams.count()));
        set("faregate_journal_head", self.engine.head().borrow().0);
        logging::export_losses();
        self.engine.forget_idle_breakers();
        // If the store cannot be read, the last values stay; its failures are counted elsewhere.
        let read = tokio::time::timeout(READ_WITHIN, self.engine.read(waiting));
        let Ok(Ok(waiting)) = read.await else { return };
        set("faregate_outstanding_transactions", waiting.outstanding);
        set("faregate_push_waiting", waiting.pushes);
        gauge_unresolved(&waiting.unresolved, self.engine.clock().now());
    }
}

fn as_i64(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn waiting(queries: &dyn Queries) -> Result<Waiting, StoreError> {
    Ok(Waiting {
        outstanding: queries.outstanding_count()?,
        unresolved: queries.unresolved_counts()?,
        pushes: queries.deliveries_waiting()?,
    })
}

fn gauge_unresolved(counts: &[UnresolvedCount], now: Timestamp) {
    for count in counts {
        let status = if count.status == TransactionStatus::Pending { "pending" } else { "unknown" };
        let age_us = count.oldest_at.map_or(0, |at| now.0.saturating_sub(at.0).max(0));
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        let set = |name: &'static str, value: i64| {
            metrics::gauge!(name, "status" => status).set(value as f64);
        };
        set("faregate_unresolved_transactions", count.transactions);
        set("faregate_unresolved_oldest_seconds", age_us / Timestamp::SECOND_US);
    }
}

/// The process as Linux sees it.
struct Process {
    resident_bytes: f64,
    cpu_seconds: f64,
    open_files: f64,
    threads: f64,
}

impl Process {
    /// `None` elsewhere than on Linux.
    fn look() -> Option<Self> {
        let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let open_files = std::fs::read_dir("/proc/self/fd").ok()?.count();
        let resident_pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
        // The second field is the program's name in parentheses, and may hold spaces.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let (user, system, threads) = (field(11)?, field(12)?, field(17)?);
        #[expect(clippy::cast_precision_loss, reason = "metrics")]
        Some(Self {
            resident_bytes: (resident_pages * rustix::param::page_size() as u64) as f64,
            cpu_seconds: (user + system) as f64 / rustix::param::clock_ticks_per_second() as f64,
            open_files: open_files as f64,
            threads: threads as f64,
        })
    }

    fn gauges(&self) -> [(&'static str, f64); 3] {
        [
            ("process_resident_memory_bytes", self.resident_bytes),
            ("process_open_fds", self.open_files),
            ("process_threads", self.threads),
        ]
    }

    fn gauge(&self) {
        self.gauges().into_iter().for_each(|(name, value)| metrics::gauge!(name).set(value));
    }

    /// A counter with a fraction, in Prometheus' text format: those of the recorder are whole numbers.
    fn cpu_text(&self) -> String {
        let name = "process_cpu_seconds_total";
        let seconds = self.cpu_seconds;
        format!(
            "# HELP {name} CPU time, user and system.\n# TYPE {name} counter\n{name} {seconds}\n"
        )
    }
}

/// Figures of the process for `/1.0/metrics`; none elsewhere than on Linux.
pub fn process_figures() -> Vec<(&'static str, f64)> {
    let Some(process) = Process::look() else { return vec![] };
    let cpu_seconds = ("process_cpu_seconds_total", process.cpu_seconds);
    process.gauges().into_iter().chain([cpu_seconds]).collect()
}

/// Tells when the process started and how many files it may open.
pub fn gauge_start(open_files_max: u64, started: Timestamp) {
    #[expect(clippy::cast_precision_loss, reason = "metrics")]
    {
        metrics::gauge!("process_max_fds").set(open_files_max as f64);
        let seconds = started.0 as f64 / Timestamp::SECOND_US as f64;
        metrics::gauge!("process_start_time_seconds").set(seconds);
    }
}
