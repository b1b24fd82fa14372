//! The synthetic registration: now and then somebody who is nobody signs up, logs in and is
//! forgotten, on the same way as everybody, so that a sign-up that is stuck is known before anybody
//! complains, and an idle night from a broken one.
//!
//! Nothing is mailed, no limit is used up, and the figures of registrations leave it out. It has a
//! tenant of its own: what it leaves behind shows in nobody's lists.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::customer::Customer;
use domain::payment::Actor;
use domain::tenant::CreateTenant;
use domain::{Command, Request, TenantNo};
use engine::access::ClientAddress;
use engine::{Answer, Reason, Unavailable};
use http::StatusCode;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::SignUp;
use crate::service::{Asked, Entered, Error, How, Login, registration};

/// The API key and the name of its tenant. Nobody knows the secret.
pub const TENANT: &str = "faregate-probe";

/// Where its result can be asked for.
pub const PATH: &str = "/health/synthetic";

/// How long a registration may take, however rarely there is one.
const RUN_MAX: Duration = Duration::from_secs(60);

/// How long it comes back where too many passwords wait, as whoever is told to would: the rest of
/// [`RUN_MAX`] is for being forgotten.
const BUSY_MAX: Duration = Duration::from_secs(45);

/// When it comes back at the latest, whatever it is told.
const BUSY_RETRY_MAX: Duration = Duration::from_secs(5);

/// Why a step was not done where too many passwords waited all the time.
const BUSY: &str = "busy";

/// How often it is shown how old the last result is.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// How many intervals old a result may be.
const INTERVALS_MAX: u32 = 3;

/// Random bytes of a secret.
const SECRET_BYTES: usize = 24;

/// The password's start: what the policy asks for.
const PASSWORD_START: &str = "Aa1!";

/// The probe that runs. Clones share its result.
#[derive(Clone)]
pub struct Probe {
    sign_up: SignUp,
    every: Duration,
    since: Instant,
    /// One for each process: two that run at the same time are not in each other's way.
    email: Arc<str>,
    last: Arc<Mutex<Option<Ended>>>,
}

/// A synthetic registration that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// When.
    pub at: Instant,
    /// How long it took.
    pub took: Duration,
    /// What went wrong, if something did.
    pub failure: Option<Failure>,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was to be done.
    pub step: Step,
    /// Why it was not: a word that stays the same.
    pub reason: &'static str,
}

/// What a synthetic registration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To find its tenant, or to make it.
    Tenant,
    /// To remove what one that was cut short has left.
    CleanUp,
    /// To register.
    Register,
    /// To log in.
    LogIn,
    /// To be known by the access token.
    UseSession,
    /// To be forgotten.
    Erase,
    /// To do all of it in time.
    Whole,
}

impl Step {
    const fn label(self) -> &'static str {
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

    /// What goes wrong in this step, in its name.
    async fn of<T>(self, doing: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        doing.await.map_err(|error| {
            tracing::debug!(%error, step = self.label(), "the synthetic registration failed");
            Failure { step: self, reason: reason(&error) }
        })
    }

    /// The same, again and again while too many passwords wait, until `busy_until`.
    async fn patiently<T, F>(self, busy_until: Instant, doing: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        loop {
            let done = doing().await;
            match done {
                Err(Error::Busy { retry_after }) if Instant::now() < busy_until => {
                    tokio::time::sleep(retry_after.min(BUSY_RETRY_MAX)).await;
                }
                done => return self.of(std::future::ready(done)).await,
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
        Error::Refused(_) | Error::StillRunning | Error::AnotherRequest => "refused",
        Error::Credentials | Error::CodeNeeded => "credentials",
        Error::TokenInvalid | Error::NoSession => "session",
        Error::Busy { .. } => BUSY,
        Error::TooMany { .. } => "too_many",
        Error::Unavailable(unavailable) => unavailable.reason.label(),
    }
}

impl Probe {
    /// A probe of which nothing is known yet.
    #[must_use]
    pub fn new(sign_up: SignUp, every: Duration) -> Self {
        let email = format!("probe-{}@faregate.invalid", sign_up.engine().mint().0);
        let since = Instant::now();
        Self { sign_up, every, since, email: email.into(), last: Arc::default() }
    }

    /// Has it run, the first time after one interval, until the task is aborted. None where the
    /// interval is nothing: there is no probe then.
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
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut shown = tokio::time::interval(SHOW_EVERY);
        shown.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            let next = async {
                ticks.tick().await;
                self.run().await;
            };
            tokio::pin!(next);
            loop {
                tokio::select! {
                    () = &mut next => break,
                    _ = shown.tick() => self.show_age(),
                }
            }
        }
    }

    /// One synthetic registration, and what became of it.
    pub async fn run(&self) -> Ended {
        let since = Instant::now();
        let done = tokio::time::timeout(RUN_MAX, self.sign_somebody_up()).await;
        let failure = done.unwrap_or(Err(Step::Whole.failed("timed_out"))).err();
        let ended = Ended { at: Instant::now(), took: since.elapsed(), failure };
        let before = self.lock().replace(ended.clone());
        let has_failed_before = before.is_some_and(|it| it.failure.is_some());
        match failure {
            Some(Failure { step, reason }) => {
                let step = step.label();
                tracing::warn!(step, reason, "a synthetic registration failed");
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
        ended
    }

    /// The address that it signs up with.
    #[must_use]
    pub fn email(&self) -> &str {
        &self.email
    }

    /// What became of the last one; none where none has ended.
    #[must_use]
    pub fn last(&self) -> Option<Ended> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Ended>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Also before one has ended: one that never does is to be known as well.
    fn show_age(&self) {
        let since = self.last().map_or(self.since, |ended| ended.at);
        metrics::gauge!("faregate_synthetic_probe_age_seconds").set(since.elapsed().as_secs_f64());
    }

    async fn sign_somebody_up(&self) -> Result<(), Failure> {
        let busy_until = Instant::now() + BUSY_MAX;
        let tenant = Step::Tenant.patiently(busy_until, || self.tenant()).await?;
        let tenant = tenant.ok_or(Step::Tenant.failed("no_tenant"))?;
        let left = Step::CleanUp.of(self.somebody(tenant)).await?;
        if let Some(left) = left {
            Step::CleanUp.of(self.sign_up.erase(&self.asked(tenant), &left)).await?;
        }
        let password = format!("{PASSWORD_START}{}", secret());
        let register = || self.register(tenant, &password);
        Step::Register.patiently(busy_until, register).await?;
        let used = self.log_in(tenant, &password, busy_until).await;
        // Also where nobody could log in.
        let somebody = Step::Erase.of(self.somebody(tenant)).await?;
        let somebody = somebody.ok_or(Step::Erase.failed("nobody"))?;
        let erased = Step::Erase.of(self.sign_up.erase(&self.asked(tenant), &somebody)).await;
        used.and(erased)
    }

    /// Its tenant, which is made the first time. None as long as there is no other: the first start
    /// makes one where there is none.
    async fn tenant(&self) -> Result<Option<TenantNo>, Error> {
        let (found, count) = self.find_tenant().await?;
        if found.is_some() || count == 0 {
            return Ok(found);
        }
        let secret_hash = self.sign_up.hasher().hash(secret()).await?.into_string();
        let engine = self.sign_up.engine();
        let (id, name) = (engine.mint(), TENANT.to_owned());
        let create =
            CreateTenant { id: None, external_key: Some(name.clone()), api_key: name, secret_hash };
        let actor = Actor {
            user: TENANT.to_owned(),
            created_by: TENANT.to_owned(),
            reason: None,
            comments: None,
            token: id.0,
        };
        let command = Command::CreateTenant(create);
        let request = Request { id, tenant: TenantNo::SYSTEM, actor, idempotency: None, command };
        match engine.submit(request).await? {
            // Refused: another process has made it meanwhile.
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

    async fn somebody(&self, tenant: TenantNo) -> Result<Option<Customer>, Error> {
        let email = Arc::clone(&self.email);
        let found = self.sign_up.read(move |queries| queries.customer_by_email(tenant, &email));
        Ok(found.await?)
    }

    async fn register(&self, tenant: TenantNo, password: &str) -> Result<(), Error> {
        let entered = Entered {
            email: self.email.to_string(),
            password: password.to_owned(),
            first_name: "Synthetic".to_owned(),
            last_name: "Probe".to_owned(),
            ..Entered::default()
        };
        let new = registration(&entered).map_err(Error::Fields)?;
        let how = How { is_probe: true, ..How::OPENLY };
        self.sign_up.register(&self.asked(tenant), new, how).await.map(drop)
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
            self.sign_up.log_in(&self.asked(tenant), login).await
        };
        let logged_in = Step::LogIn.patiently(busy_until, log_in).await?;
        Step::UseSession.of(self.sign_up.who(tenant, &logged_in.access_token)).await.map(drop)
    }

    fn asked(&self, tenant: TenantNo) -> Asked {
        let id = self.sign_up.engine().mint();
        let from = ClientAddress::UNKNOWN;
        Asked { tenant, id, idempotency_key: None, from, is_exempt: true }
    }
}

fn secret() -> String {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    BASE64.encode(bytes)
}

/// `GET /health/synthetic`: what became of the last synthetic registration.
pub fn router<S>(probe: Probe) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    Router::new().route(PATH, get(tell).with_state(probe))
}

async fn tell(State(probe): State<Probe>) -> Response {
    let (status, body) = probe.told();
    (status, Json(body)).into_response()
}

impl Probe {
    fn told(&self) -> (StatusCode, serde_json::Value) {
        let Some(ended) = self.last() else {
            let body = json!({ "status": "unknown", "reason": "none has ended yet" });
            return (StatusCode::SERVICE_UNAVAILABLE, body);
        };
        let age = ended.at.elapsed();
        let (age_seconds, took_ms) = (age.as_secs(), u64::try_from(ended.took.as_millis()));
        let took_ms = took_ms.unwrap_or(u64::MAX);
        let is_late = age > self.every.saturating_mul(INTERVALS_MAX) + RUN_MAX;
        match ended.failure {
            Some(Failure { step, reason }) => {
                let body = json!({
                    "status": "failing",
                    "step": step.label(),
                    "reason": reason,
                    "age_seconds": age_seconds,
                    "took_ms": took_ms,
                });
                (StatusCode::SERVICE_UNAVAILABLE, body)
            }
            None => {
                let status = if is_late { "late" } else { "healthy" };
                let body =
                    json!({ "status": status, "age_seconds": age_seconds, "took_ms": took_ms });
                let code = if is_late { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
                (code, body)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// What becomes of somebody who is told to come back this often first, and after how long.
    async fn check(busy: u32, retry_after: Duration) -> (Result<(), Failure>, Duration) {
        let (refused, began) = (Cell::new(0), Instant::now());
        let doing = async || match refused.replace(refused.get() + 1) < busy {
            true => Err(Error::Busy { retry_after }),
            false => Ok(()),
        };
        let done = Step::LogIn.patiently(began + BUSY_MAX, doing).await;
        (done, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_told_to_come_back_does() {
        let second = Duration::from_secs(1);
        assert_eq!(check(0, second).await, (Ok(()), Duration::ZERO));
        assert_eq!(check(3, second).await, (Ok(()), second * 3));
        assert_eq!(check(2, second * 600).await, (Ok(()), BUSY_RETRY_MAX * 2));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_all_the_time_says_so_while_there_is_time_left() {
        let (done, took) = check(u32::MAX, Duration::from_secs(2)).await;
        assert_eq!(done, Err(Failure { step: Step::LogIn, reason: BUSY }));
        assert!(took >= BUSY_MAX && took + BUSY_RETRY_MAX < RUN_MAX, "{took:?}");
    }
}
