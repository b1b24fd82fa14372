//! The parts that all engines of a process share, and the background tasks of each partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::mail::alerts::{self, ALERTS_MAX, AlertSettings};
use ::mail::{MailDispatcher, Mailer, SetupError};
use ::sign_up::key_check::{self, CheckValue};
use ::sign_up::tokens::TokenKey;
use ::sign_up::{SignUp, operations, unverified};
use domain::context::RoutingSettings;
use domain::{PartitionNo, Settings};
use engine::breaker::{BreakerSettings, Breakers};
use engine::ports::{DeliveryLogSource, Gateway};
use engine::{Clock, Engine, Options, retention};
use feature_flags::scheduled;
use outbound::Reach;
use secrets::Sealer;
use store::Share;
use tokio::sync::mpsc;
use webhooks::logger::{DeliveryLogger, LogSettings, TRIES_MAX};
use webhooks::{replays, switch_off};

use crate::background::BackgroundTasks;
use crate::integrity::{self, Schedule};
use crate::logging;
use crate::{backlog, sign_up};
use config::{Config, MailTransport, Period, Role};

/// Transactions that a payment may have.
const TRANSACTIONS_PER_PAYMENT_MAX: usize = 1_000;

/// Payment gateways by name.
pub type Gateways = BTreeMap<String, Arc<dyn Gateway>>;

/// The parts that all engines of a process share.
#[derive(Clone)]
pub struct EngineParts {
    /// The domain's settings.
    pub settings: Settings,
    /// Payment gateways by name.
    pub gateways: Gateways,
    pub clock: Clock,
    /// The engine's own settings.
    pub options: Options,
    push: webhooks::Options,
    mail: Option<Arc<MailDispatcher>>,
    signup_key: Option<CheckValue>,
    /// Its engine is replaced by that of each partition.
    sign_up: Option<SignUp>,
    integrity: Option<Schedule>,
    delivery_log: Option<LogSettings>,
    alerts: Option<AlertSettings>,
}

impl EngineParts {
    /// Sets the parts up. `key` is sign-up's: without one, there is neither sign-up nor mail.
    ///
    /// # Errors
    /// [`SetupError`] where a setting of mail is invalid.
    pub fn new(
        config: &Config,
        gateways: Gateways,
        clock: Clock,
        key: Option<&sign_up::Key>,
    ) -> Result<Self, SetupError> {
        let (options, push) = (options(config), push_options(config));
        let settings = settings(config, &gateways);
        let tokens = key.map(|key| TokenKey::new(&key.root));
        let queue = config.mail_queue();
        let mail = tokens.map(|tokens| MailDispatcher::new(queue, tokens));
        let mail = mail.transpose()?.map(Arc::new);
        if mail.is_some() && is_mail_scattered(config) {
            tracing::warn!("mails are files of this process alone: set `mail.transport`");
        }
        let signup_key = key.map(|key| key.check.clone());
        Ok(Self {
            settings,
            gateways,
            clock,
            options,
            push,
            mail,
            signup_key,
            sign_up: None,
            integrity: None,
            delivery_log: None,
            alerts: alert_settings(config)?,
        })
    }

    /// The same parts, with the sign-up that executes stored registrations.
    pub fn with_sign_up(self, sign_up: Option<&SignUp>) -> Self {
        Self { sign_up: sign_up.cloned(), ..self }
    }

    /// The same parts, with what opens the webhook endpoints of tenants, and where deliveries are logged.
    pub fn delivering(
        mut self,
        config: &Config,
        sealer: Option<Arc<Sealer>>,
        source: Arc<dyn DeliveryLogSource>,
    ) -> Self {
        self.push.sealer = sealer;
        let bytes_max = i64::try_from(config.webhooks.log_max).unwrap_or(i64::MAX);
        self.delivery_log = Some(LogSettings { source, bytes_max });
        self
    }

    /// The same parts, with a database that is verified from time to time.
    pub fn verifying(self, integrity: Option<Schedule>) -> Self {
        Self { integrity, ..self }
    }

    /// The options of a partition's deliveries, whose log is written by a task of its own.
    fn push_options(
        &self,
        engine: &Engine,
        share: Share,
        tasks: &mut BackgroundTasks,
    ) -> webhooks::Options {
        let Some(settings) = &self.delivery_log else { return self.push.clone() };
        let (log, tries) = mpsc::channel(TRIES_MAX);
        let bytes_max = settings.bytes_max / i64::from(share.partitions.max(1));
        let settings = LogSettings { bytes_max, ..settings.clone() };
        let source = Arc::clone(&settings.source);
        let clock = engine.clock().clone();
        let logger = DeliveryLogger::new(settings, share.partition, clock, tries);
        tasks.spawn(logger.run(tasks.until_stopped()));
        if share.partition == PartitionNo::FIRST
            && let Some(sealer) = self.push.sealer.clone()
        {
            let alerts = self.alerts.clone().map(|settings| {
                let (alerts, waiting) = mpsc::channel(ALERTS_MAX);
                let stop = tasks.until_stopped();
                tasks.spawn(alerts::run(engine.clone(), settings, waiting, stop));
                alerts
            });
            let stop = tasks.until_stopped();
            tasks.spawn(switch_off::run(engine.clone(), (source, sealer), alerts, stop));
        }
        webhooks::Options { log: Some(log), ..self.push.clone() }
    }

    /// Starts the background tasks of a partition. Those that run once for all partitions belong to the
    /// owner of the first one.
    pub fn start_tasks(&self, engine: &Engine, share: Share) -> BackgroundTasks {
        let mut tasks = BackgroundTasks::new();
        let push = self.push_options(engine, share, &mut tasks);
        let (follower, resender) = webhooks::start(engine.clone(), push, tasks.stopped());
        tasks.add(follower);
        if let Some(settings) = &self.delivery_log {
            let replayed = (Arc::clone(&settings.source), resender);
            let stop = tasks.until_stopped();
            tasks.spawn(replays::run(engine.clone(), replayed, share.partition, stop));
        }
        let owns = sign_up::owns_account(share);
        tasks.spawn(unverified::run(engine.clone(), owns, tasks.until_stopped()));
        if let Some(sign_up) = &self.sign_up {
            let worker = sign_up::worker(sign_up.on(engine.clone()), share, &self.push);
            tasks.spawn(operations::run(worker, tasks.until_stopped()));
        }
        if share.partition == PartitionNo::FIRST {
            tasks.spawn(scheduled::run(engine.clone(), tasks.until_stopped()));
            tasks.spawn(backlog::run(engine.clone(), tasks.until_stopped()));
            if let Some(check) = self.signup_key.clone() {
                tasks.spawn(key_check::store(engine.clone(), check, tasks.until_stopped()));
            }
            tasks.spawn(retention::run(engine.clone(), tasks.until_stopped()));
            if let Some(schedule) = self.integrity.clone() {
                tasks.spawn(integrity::run(schedule, tasks.until_stopped()));
            }
            if let Some(mail) = self.mail.clone() {
                tasks.spawn(::mail::run(engine.clone(), mail, tasks.until_stopped()));
            }
        }
        tasks
    }
}

/// Whether mails are written into files of this machine although several processes may send them: with
/// a database server, any process may own the first partition.
fn is_mail_scattered(config: &Config) -> bool {
    config.mail.transport == MailTransport::File
        && !config.database.url.is_empty()
        && config.role != Role::Front
}

/// Who gets a mail about webhook endpoints that are switched off; `None`: nobody.
fn alert_settings(config: &Config) -> Result<Option<AlertSettings>, SetupError> {
    if config.webhooks.alert_mail.is_empty() {
        return Ok(None);
    }
    Ok(Some(AlertSettings {
        mailer: Arc::new(Mailer::new(&config.mail.options(&config.data_dir))?),
        to: config.webhooks.alert_mail.clone(),
        platform_name: config.mail.platform_name.clone(),
        retry_delays: config.mail.retry_delays.iter().map(|it| it.0).collect(),
        attempts_max: config.mail.attempts,
    }))
}

fn settings(config: &Config, gateways: &Gateways) -> Settings {
    let delays = |periods: &[Period]| periods.iter().map(|period| period.as_us()).collect();
    Settings {
        gateways: gateways.iter().map(|(name, it)| (name.clone(), it.settings())).collect(),
        unknown_delays_us: delays(&config.resolver.unknown_delays),
        pending_delays_us: delays(&config.resolver.pending_delays),
        reply_keep_us: config.idempotency.keep.as_us(),
        transactions_per_payment_max: TRANSACTIONS_PER_PAYMENT_MAX,
        routing: RoutingSettings {
            deadline_us: config.gateway.tries.deadline.as_us(),
            next_try_min_us: config.gateway.tries.next_try_min.as_us(),
        },
    }
}

fn breaker_settings(config: &Config) -> BreakerSettings {
    let it = &config.gateway.breaker;
    BreakerSettings {
        failure_percent: it.failure_percent,
        calls_min: it.calls_min,
        p95_max: it.p95_max.0,
        open_for: it.open_for.0,
    }
}

fn options(config: &Config) -> Options {
    Options {
        queue_max: config.engine.queue_commands_max,
        in_flight_max: config.gateway.in_flight_max,
        readers: config.engine.reader_threads,
        reads_waiting_max: config.engine.reads_waiting_max,
        simulates_work: config.simulates(),
        accepts_clock_behind: config.accepts_clock_behind,
        breakers: Arc::new(Breakers::new(breaker_settings(config))),
        exit: logging::exit,
        ..Options::default()
    }
}

/// Where notifications may go: public addresses, and receivers inside where that is wanted.
pub const fn push_reach(config: &Config) -> Reach {
    let everywhere = config.push.allow_loopback || config.test_clock;
    if everywhere { Reach::PublicAndPrivate } else { Reach::Public }
}

fn push_options(config: &Config) -> webhooks::Options {
    webhooks::Options {
        lanes: config.push.lanes,
        timeout: config.push.timeout.0,
        killbill_delay: config.push.killbill_delay.0,
        ..webhooks::Options::new(push_reach(config))
    }
}
