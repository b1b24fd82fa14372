//! Sign-up, put together by configuration.

use std::path::Path;
use std::sync::Arc;

use ::signup::RootKey;
use ::signup::operations::{CallbackCheck, Post, Worker};
use ::signup::passwords::{Cost, Hasher, Options};
use ::signup::probe::Probe;
use ::signup::service::{Settings, SignUp};
use ::signup::tenant::Tenants;
use ::signup::{compat, native};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::map_request;
use axum::response::IntoResponse as _;
use axum::routing::any;
use engine::Engine;
use engine::access::Access;
use http_body_util::BodyExt as _;
use killbill::BodyError;
use tokio::task::JoinHandle;

use crate::config::{Config, Role, Signup};
use crate::key_file;
use crate::problem::Problem;

/// The key's file in the data directory, where no other is configured.
const KEY_FILE: &str = "signup.key";

/// Why sign-up cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no key.
    #[error("sign-up: {0}")]
    Key(#[from] key_file::Error),
    /// There are no threads for passwords.
    #[error("sign-up: no threads for passwords: {0}")]
    Threads(std::io::Error),
}

/// Sign-up, where there is a key: with a database on a server it has to be given, because all
/// processes need the same.
///
/// # Errors
/// [`Error`].
pub fn open(config: &Config, engine: &Engine) -> Result<Option<SignUp>, Error> {
    let it = &config.signup;
    let Some(key) = key(config)? else { return Ok(None) };
    let hasher = Hasher::new(hashing(it)).map_err(Error::Threads)?;
    Ok(Some(SignUp::new(engine.clone(), hasher, &key, settings(it))))
}

/// The key of sign-up, where there is one.
///
/// # Errors
/// [`Error::Key`].
pub fn key(config: &Config) -> Result<Option<RootKey>, Error> {
    let key = match (config.signup.key_file.as_str(), config.database.url.is_empty()) {
        ("", true) => key_file::in_dir(&config.data_dir, KEY_FILE)?,
        ("", false) => return Ok(None),
        (path, _) => key_file::read(Path::new(path))?,
    };
    Ok(Some(RootKey::new(key)))
}

fn hashing(it: &Signup) -> Options {
    let default = Options::default();
    let threads = if it.hashing_threads == 0 { default.threads } else { it.hashing_threads };
    // Looked at with the configuration.
    let cost = it.cost().unwrap_or(Cost::RECOMMENDED);
    Options { threads, queue_wait_max: it.queue_wait_max.0, cost, ..default }
}

fn settings(it: &Signup) -> Settings {
    Settings {
        tenant: it.tenant.clone(),
        verify_within: it.verify_within.0,
        reset_within: it.reset_within.0,
        session: it.session.0,
        session_remembered: it.session_remembered.0,
        refresh: it.refresh.0,
        issuer: it.issuer.clone(),
        currency: it.currency.clone(),
        trust_internal: it.trust_internal,
        limits: it.limits.settings(),
    }
}

/// Has somebody synthetic sign up now and then, where there are doors and a key.
pub fn probe(config: &Config, sign_up: Option<&SignUp>) -> Option<(Probe, JoinHandle<()>)> {
    let sign_up = sign_up.filter(|_| config.role != Role::Processor)?;
    Probe::start(sign_up.clone(), config.signup.probe_interval.0)
}

/// The doors of sign-up; without a key they say what is missing.
///
/// `later`: see [`native::router`].
pub fn router(sign_up: Option<&SignUp>, access: &Access, later: Option<CallbackCheck>) -> Router {
    let Some(sign_up) = sign_up else {
        let no_key = || any(async || Problem::NoSignupKey.into_response());
        let router = Router::new();
        let router = router.route("/user/{*rest}", no_key()).route("/billing/{*rest}", no_key());
        return native::PATHS.iter().fold(router, |router, path| router.route(path, no_key()));
    };
    let tenant = &sign_up.settings().tenant;
    let tenants = Tenants::new(access.clone(), sign_up.engine().clone(), tenant);
    let later_too = later.clone();
    let native = native::router(sign_up.clone(), tenants.clone(), later_too);
    let (sign_up, access) = (sign_up.clone(), access.clone());
    let door = compat::Door { sign_up, tenants, access, later };
    let router = compat::router(door).merge(native);
    router.layer(map_request(async |request: Request| request.map(with_own_errors)))
}

/// A body that fails in the words of sign-up: doors do not know each other.
fn with_own_errors(body: Body) -> Body {
    Body::new(body.map_err(|error| {
        let error = error.into_inner().downcast().map_or(BodyError::Broken, |error| *error);
        match error {
            BodyError::TooLarge => ::signup::BodyError::TooLarge,
            BodyError::TimedOut => ::signup::BodyError::TimedOut,
            BodyError::Broken => ::signup::BodyError::Broken,
            BodyError::NoRoom => ::signup::BodyError::NoRoom,
        }
    }))
}

/// What makes the registrations that are kept, and calls those who want to be told.
#[must_use]
pub fn worker(sign_up: &SignUp, push: &gateway::push::Options) -> Worker {
    let caller = gateway::push::Caller::new(push);
    let post: Post = Arc::new(move |delivery| {
        let caller = caller.clone();
        Box::pin(async move { caller.post(&delivery.url, &delivery.headers, delivery.body).await })
    });
    let (signup, keeper) = (sign_up.clone(), sign_up.engine().clone());
    Worker { signup, keeper, post: Some(post) }
}
