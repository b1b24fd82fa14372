//! The synthetic registration: a periodic probe that registers, logs in and erases a customer of its
//! own, by the same calls as real customers, so that operators notice a broken sign-up even while no
//! one signs up.
//!
//! It mails nothing, counts towards no limit, and is left out of the registrations' metrics. It has
//! its own tenant, so that its customers do not appear in other tenants' lists.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::command::TenantCommand;
use domain::customer::Customer;
use domain::payment::Actor;
use domain::tenant::CreateTenant;
use domain::{Command, Request, TenantNo};
use engine::access::ClientAddress;
use engine::periodic::{Pass, Periodic};
use engine::{Answer, Reason, Unavailable};
use secrets::random;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::SignUp;
use crate::service::{
    Error, Login, RegistrationForm, RegistrationOptions, RequestContext, validate_registration,
};

/// The API key and the name of its tenant, whose secret is not stored.
pub const TENANT: &str = domain::tenant::PROBE;

/// How long a run may take.
const RUN_MAX: Duration = Duration::from_secs(60);

/// How long a run retries while too many passwords wait; the rest of [`RUN_MAX`] is for erasing the
/// customer.
const BUSY_MAX: Duration = Duration::from_secs(45);

/// The longest pause before a retry, whatever `retry_after` says.
const BUSY_RETRY_MAX: Duration = Duration::from_secs(5);

/// The reason of a step that failed because too many passwords waited all the time.
const BUSY: &str = "busy";

/// The interval between updates of the last result's age.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// A result older than this many intervals is late.
const INTERVALS_MAX: u32 = 3;

/// The start of the password, which satisfies the policy.
const PASSWORD_START: &str = "Aa1!";

/// A probe. Clones share its result.
#[derive(Clone)]
pub struct Probe {
    sign_up: SignUp,
    every: Duration,
    started: Instant,
    /// Unique per process, so that concurrent probes do not conflict.
    email: Arc<str>,
    last: Arc<Mutex<Option<Outcome>>>,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub at: Instant,
    pub took: Duration,
    pub failure: Option<Failure>,
}

/// A step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    pub step: Step,
    /// A stable word for the cause.
    pub reason: &'static str,
}

/// The steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Finding or creating its tenant.
    Tenant,
    /// Erasing a customer that an interrupted run has left.
    CleanUp,
    Register,
    LogIn,
    /// Authenticating with the access token.
    UseSession,
    /// Erasing the customer.
    Erase,
    /// The whole run within its time limit.
    Whole,
}

impl Step {
    /// The name in metrics and in the answer of the health check.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::CleanUp => "clean_up",
            Self::Register => "register",
            Self::LogIn => "log_in",
            Self::UseSession => "use_session",
            Self::Erase => "erase",
            Self::Whole => "whole",
        }
    }

    /// Attributes an error to this step.
    async fn run<T>(self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        call.await.map_err(|error| {
            tracing::debug!(%error, step = self.label(), "the synthetic registration failed");
            Failure { step: self, reason: reason(&error) }
        })
    }

    /// As [`Step::run`], but retries until `busy_until` while too many passwords wait.
    async fn retry_while_busy<T, F>(
        self,
        busy_until: Instant,
        call: impl Fn() -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        loop {
            let result = call().await;
            match result {
                Err(Error::Busy { retry_after }) if Instant::now() < busy_until => {
                    tokio::time::sleep(retry_after.min(BUSY_RETRY_MAX)).await;
                }
                result => return self.run(std::future::ready(result)).await,
            }
        }
    }

    const fn failed(self, reason: &'static str) -> Failure {
        Failure { step: self, reason }
    }
}

const fn reason(error: &Error) -> &'static str {
    match error {
        Error::Fields(_) => "fields",
        Error::Refused(_) | Error::TenantNeeded | Error::StillRunning | Error::AnotherRequest => {
            "refused"
        }
        Error::Credentials | Error::CodeNeeded => "credentials",
        Error::TokenInvalid | Error::NoSession => "session",
        Error::Busy { .. } => BUSY,
        Error::TooManyRequests { .. } => "too_many",
        Error::Unavailable(unavailable) => unavailable.reason.label(),
    }
}

impl Probe {
    /// A probe that has not run yet.
    #[must_use]
    pub fn new(sign_up: SignUp, every: Duration) -> Self {
        let email = format!("probe-{}@faregate.invalid", sign_up.engine().mint().0);
        let started = Instant::now();
        Self { sign_up, every, started, email: email.into(), last: Arc::default() }
    }

    /// Starts a probe, which runs until the task is aborted, the first time after one interval.
    /// `None` where the interval is zero.
    #[must_use]
    pub fn start(sign_up: SignUp, every: Duration) -> Option<(Self, JoinHandle<()>)> {
        if every.is_zero() {
            return None;
        }
        let probe = Self::new(sign_up, every);
        let running = tokio::spawn(probe.clone().run_forever());
        Some((probe, running))
    }

    async fn run_forever(self) {
        let (mut is_first, probe) = (true, &self);
        let running = Periodic::every(self.every).with_jitter_percent(0);
        let running = running.run(std::future::pending(), || {
            let is_skipped = std::mem::take(&mut is_first);
            async move {
                if !is_skipped {
                    probe.run().await;
                }
                Pass::Idle
            }
        });
        let showing = Periodic::every(SHOW_INTERVAL).run(std::future::pending(), || async {
            self.show_age();
            Pass::Idle
        });
        tokio::join!(running, showing);
    }

    /// Runs all steps once, for at most a minute.
    pub async fn run(&self) -> Outcome {
        let since = Instant::now();
        let result = tokio::time::timeout(RUN_MAX, self.run_steps()).await;
        let failure = result.unwrap_or(Err(Step::Whole.failed("timed_out"))).err();
        let outcome = Outcome { at: Instant::now(), took: since.elapsed(), failure };
        let before = self.lock().replace(outcome.clone());
        let has_failed_before = before.is_some_and(|it| it.failure.is_some());
        match failure {
            Some(Failure { step, reason }) => {
                let step = step.label();
                tracing::warn!(
                    step,
                    reason,
                    "a synthetic registration failed; retrying after the interval"
                );
            }
            None if has_failed_before => tracing::info!("synthetic registrations succeed again"),
            None => {}
        }
        let success = if failure.is_none() { 1.0 } else { 0.0 };
        metrics::gauge!("faregate_synthetic_probe_success").set(success);
        let is_busy = failure.is_some_and(|failure| failure.reason == BUSY);
        let overloaded = if is_busy { 1.0 } else { 0.0 };
        metrics::gauge!("faregate_synthetic_probe_overloaded").set(overloaded);
        self.show_age();
        outcome
    }

    /// The e-mail address of its customer.
    #[must_use]
    pub fn email(&self) -> &str {
        &self.email
    }

    /// Whether a result of this age is older than a running probe's can be.
    #[must_use]
    pub fn is_late(&self, age: Duration) -> bool {
        age > self.every.saturating_mul(INTERVALS_MAX) + RUN_MAX
    }

    /// The outcome of the last run; `None` before the first one has ended.
    #[must_use]
    pub fn last(&self) -> Option<Outcome> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before the first outcome this is the age of the probe, so that a run that never ends shows.
    fn show_age(&self) {
        let since = self.last().map_or(self.started, |outcome| outcome.at);
        metrics::gauge!("faregate_synthetic_probe_age_seconds").set(since.elapsed().as_secs_f64());
    }

    async fn run_steps(&self) -> Result<(), Failure> {
        let busy_until = Instant::now() + BUSY_MAX;
        let tenant = Step::Tenant.retry_while_busy(busy_until, || self.tenant()).await?;
        let tenant = tenant.ok_or(Step::Tenant.failed("no_tenant"))?;
        let left = Step::CleanUp.run(self.find_customer(tenant)).await?;
        if let Some(left) = left {
            Step::CleanUp.run(self.sign_up.erase(&self.context(tenant), &left)).await?;
        }
        let password = format!("{PASSWORD_START}{}", random::secret());
        let register = || self.register(tenant, &password);
        Step::Register.retry_while_busy(busy_until, register).await?;
        let used = self.log_in(tenant, &password, busy_until).await;
        // The customer is erased even if it could not log in.
        let customer = Step::Erase.run(self.find_customer(tenant)).await?;
        let customer = customer.ok_or(Step::Erase.failed("nobody"))?;
        let erased = Step::Erase.run(self.sign_up.erase(&self.context(tenant), &customer)).await;
        used.and(erased)
    }

    /// Its tenant, which is created in the first run. `None` as long as there is no other: the first
    /// start of a server creates one only if there is none.
    async fn tenant(&self) -> Result<Option<TenantNo>, Error> {
        let (found, count) = self.find_tenant().await?;
        if found.is_some() || count == 0 {
            return Ok(found);
        }
        let secret_hash = self.sign_up.hasher().hash(random::secret()).await?.into_string();
        let engine = self.sign_up.engine();
        let (id, name) = (engine.mint(), TENANT.to_owned());
        let create =
            CreateTenant { id: None, external_key: Some(name.clone()), api_key: name, secret_hash };
        let actor = Actor::new(TENANT, TENANT, id.0);
        let command = Command::Tenant(TenantCommand::Create(create));
        let request = Request { id, tenant: TenantNo::SYSTEM, actor, idempotency: None, command };
        match engine.submit(request).await? {
            // A refusal means that another process has created it meanwhile.
            Answer::Replied(_) | Answer::Refused(_) => Ok(self.find_tenant().await?.0),
            Answer::StillRunning | Answer::AnotherRequest => {
                Err(Unavailable::from(Reason::Bug).into())
            }
        }
    }

    async fn find_tenant(&self) -> Result<(Option<TenantNo>, i64), Unavailable> {
        let found = self.sign_up.read(|queries| {
            let probes = queries.tenant_by_api_key(TENANT)?;
            Ok((probes.map(|it| it.no), queries.tenant_count()?))
        });
        found.await
    }

    async fn find_customer(&self, tenant: TenantNo) -> Result<Option<Customer>, Error> {
        let email = Arc::clone(&self.email);
        let found = self.sign_up.read(move |queries| queries.customer_by_email(tenant, &email));
        Ok(found.await?)
    }

    async fn register(&self, tenant: TenantNo, password: &str) -> Result<(), Error> {
        let form = RegistrationForm {
            email: self.email.to_string(),
            password: password.to_owned(),
            first_name: "Synthetic".to_owned(),
            last_name: "Probe".to_owned(),
            ..RegistrationForm::default()
        };
        let new = validate_registration(&form).map_err(Error::Fields)?;
        let options = RegistrationOptions { is_probe: true, ..RegistrationOptions::OPEN };
        self.sign_up.register(&self.context(tenant), new, options).await.map(drop)
    }

    async fn log_in(
        &self,
        tenant: TenantNo,
        password: &str,
        busy_until: Instant,
    ) -> Result<(), Failure> {
        let log_in = async || {
            let (email, password) = (self.email.to_string(), password.to_owned());
            let login = Login { email, password, code: None, remember: false };
            self.sign_up.log_in(&self.context(tenant), login).await
        };
        let logged_in = Step::LogIn.retry_while_busy(busy_until, log_in).await?;
        Step::UseSession
            .run(self.sign_up.authenticate(tenant, &logged_in.access_token))
            .await
            .map(drop)
    }

    fn context(&self, tenant: TenantNo) -> RequestContext {
        let id = self.sign_up.engine().mint();
        let from = ClientAddress::UNKNOWN;
        RequestContext {
            tenant,
            id,
            idempotency_key: None,
            from,
            is_exempt: true,
            is_of_tenant: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The result of a call that is refused as busy this often, and how long it took.
    async fn check(busy: u32, retry_after: Duration) -> (Result<(), Failure>, Duration) {
        let (refused, began) = (Cell::new(0), Instant::now());
        let call = async || match refused.replace(refused.get() + 1) < busy {
            true => Err(Error::Busy { retry_after }),
            false => Ok(()),
        };
        let done = Step::LogIn.retry_while_busy(began + BUSY_MAX, call).await;
        (done, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_step_is_retried_after_the_suggested_time() {
        let second = Duration::from_secs(1);
        assert_eq!(check(0, second).await, (Ok(()), Duration::ZERO));
        assert_eq!(check(3, second).await, (Ok(()), second * 3));
        assert_eq!(check(2, second * 600).await, (Ok(()), BUSY_RETRY_MAX * 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_stays_busy_fails_before_the_run_times_out() {
        let (done, took) = check(u32::MAX, Duration::from_secs(2)).await;
        assert_eq!(done, Err(Failure { step: Step::LogIn, reason: BUSY }));
        assert!(took >= BUSY_MAX && took + BUSY_RETRY_MAX < RUN_MAX, "{took:?}");
    }
}
