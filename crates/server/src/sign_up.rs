//! Sign-up, put together by configuration.

use std::path::PathBuf;
use std::sync::Arc;

use ::sign_up::Tenants;
use ::sign_up::key_check::{self, CheckValue};
use ::sign_up::operations::{CallbackCheck, Deliver, NotDelivered, OwnsAccount, Worker};
use ::sign_up::passwords::{Cost, Hasher, Options};
use ::sign_up::probe::Probe;
use ::sign_up::service::{Settings, SignUp};
use axum::Router;
use axum::response::IntoResponse as _;
use axum::routing::any;
use domain::PartitionNo;
use engine::Engine;
use engine::access::Access;
use engine::ports::{Queries, StoreError};
use secrets::{RootKey, Sealer, key_file};
use store::Share;
use tokio::task::JoinHandle;
use webhooks::{CallbackClient, Failure};

use config::{Config, QueueKind, Role, Signup};

/// The key's file in the data directory, where no other is configured.
pub const KEY_FILE: &str = "signup.key";

/// The advice to the operator if the key is not the database's.
const WHAT_TO_DO: &str = "put the right key there. Without it sessions and mailed links end, and \
                          second factors cannot be opened; where it is lost for good, start once \
                          with `signup.key_replaced`";

/// Why sign-up cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no key.
    #[error("sign-up: {0}")]
    Key(#[from] key_file::Error),
    /// The key's file is gone.
    #[error("sign-up: {path} is missing, and the database is written with it: {WHAT_TO_DO}")]
    KeyLost {
        /// The file in `signup.key_file`, or its default.
        path: PathBuf,
    },
    /// The key is another one.
    #[error("sign-up: the database is written with another key than {path}: {WHAT_TO_DO}")]
    KeyDiffers {
        /// The file in `signup.key_file`, or its default.
        path: PathBuf,
    },
    /// The key check value of the database cannot be read.
    #[error("sign-up: {0}")]
    Store(#[from] StoreError),
    /// There are no threads for passwords.
    #[error("sign-up: no threads for passwords: {0}")]
    Threads(std::io::Error),
}

/// The root key of sign-up with its key check value.
pub struct Key {
    pub root: RootKey,
    /// The owner of the first partition stores it.
    pub check: CheckValue,
}

/// Sign-up on an engine, where there is a key.
///
/// # Errors
/// [`Error::Threads`].
pub fn open(config: &Config, key: Option<&Key>, engine: &Engine) -> Result<Option<SignUp>, Error> {
    let it = &config.signup;
    let Some(key) = key else { return Ok(None) };
    let hasher = Hasher::new(hashing(it)).map_err(Error::Threads)?;
    Ok(Some(SignUp::new(engine.clone(), hasher, &key.root, settings(it))))
}

/// The key of sign-up: with a database on a server it has to be given, because all processes need the
/// same. In the data directory it is made, unless the database is written with one already.
///
/// # Errors
/// [`Error`] where it cannot be read, is missing, or is another one than the database's.
pub fn key(config: &Config, queries: &dyn Queries) -> Result<Option<Key>, Error> {
    let it = &config.signup;
    let in_data_dir = config.database.url.is_empty();
    let stored = match key_check::stored(queries) {
        // Several processes may start before there are tables: the first partition's owner looks again.
        Err(error) if config.queue.kind == QueueKind::Kafka => {
            tracing::warn!(error = %error, "the key of sign-up is not compared with the database's");
            None
        }
        stored => stored?,
    };
    if it.key_file.is_empty() && !in_data_dir {
        if stored.is_some() && config.role != Role::Processor {
            tracing::warn!("there are customers, and no sign-up: set `signup.key_file`");
        }
        return Ok(None);
    }
    let path = match it.key_file.as_str() {
        "" => config.data_dir.join(KEY_FILE),
        path => PathBuf::from(path),
    };
    let is_missing = path.try_exists().is_ok_and(|exists| !exists);
    // As long as nothing depends on the stored key, another key is accepted.
    let is_fixed = |stored: &Option<String>| match stored {
        Some(_) if !it.key_replaced => key_check::is_needed(queries),
        Some(_) | None => Ok(false),
    };
    if is_missing && is_fixed(&stored)? {
        return Err(Error::KeyLost { path });
    }
    let bytes = match it.key_file.is_empty() {
        true => key_file::in_dir(&config.data_dir, KEY_FILE)?,
        false => key_file::read(&path)?,
    };
    let root = RootKey::new(bytes);
    let value = root.check_value();
    let differs = stored.as_ref().is_some_and(|stored| *stored != value);
    if differs && is_fixed(&stored)? {
        return Err(Error::KeyDiffers { path });
    }
    let check = CheckValue { value, replaces: differs };
    if it.key_replaced {
        tracing::warn!("`signup.key_replaced` is for one start: take it out");
    }
    Ok(Some(Key { root, check }))
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
        refresh_grace: it.refresh_grace.0,
        session_max: it.session_max.0,
        issuer: it.issuer.clone(),
        currency: it.currency.clone(),
        trust_internal: it.trust_internal,
        erasure_needs_password: it.erasure_needs_password,
        limits: it.limits,
    }
}

/// Starts the synthetic registration; `None` without APIs or without a key.
pub fn probe(config: &Config, sign_up: Option<&SignUp>) -> Option<(Probe, JoinHandle<()>)> {
    let sign_up = sign_up.filter(|_| config.role != Role::Processor)?;
    Probe::start(sign_up.clone(), config.signup.probe_interval.0)
}

/// The sign-up routes; without a key they answer with the setting that is missing.
///
/// `callbacks` checks the URLs that asynchronous registrations may call when they end.
/// `sealer` derives what documents are signed with.
pub fn router(
    sign_up: Option<&SignUp>,
    access: &Access,
    callbacks: CallbackCheck,
    sealer: Option<&Arc<Sealer>>,
) -> Router {
    let Some(sign_up) = sign_up else {
        let no_key = || any(async || v1::Error::NoSignupKey.into_response());
        let router = Router::new();
        let router = router.route("/user/{*rest}", no_key()).route("/billing/{*rest}", no_key());
        return v1::sign_up::paths()
            .iter()
            .fold(router, |router, path| router.route(path, no_key()));
    };
    let tenant = &sign_up.settings().tenant;
    let tenants = Tenants::new(access.clone(), sign_up.engine().clone(), tenant);
    let v1 =
        v1::sign_up::router(sign_up.clone(), tenants.clone(), callbacks.clone(), sealer.cloned());
    let (sign_up, access) = (sign_up.clone(), access.clone());
    signup::router(signup::Api { sign_up, tenants, access, callbacks }).merge(v1)
}

/// The worker that executes stored registrations of the accounts in a share; the owner of the first
/// partition also delivers callbacks. `sign_up` runs on the engine of the share.
#[must_use]
pub fn worker(sign_up: SignUp, share: Share, push: &webhooks::Options) -> Worker {
    let bookkeeper = sign_up.engine().clone();
    let owns_account = owns_account(share);
    let deliver = (share.partition == PartitionNo::FIRST).then(|| deliver(push));
    let representation = v1::sign_up::REPRESENTATION;
    Worker { sign_up, bookkeeper, owns_account, deliver, representation }
}

/// Whether an account belongs to the partition of a share.
pub fn owns_account(share: Share) -> OwnsAccount {
    Arc::new(move |tenant, account| share.has(tenant, account))
}

fn deliver(push: &webhooks::Options) -> Deliver {
    let caller = CallbackClient::new(push);
    Arc::new(move |delivery| {
        let caller = caller.clone();
        Box::pin(async move {
            let posted = caller.post(&delivery.url, &delivery.headers, delivery.body).await;
            posted.map_err(|failure| match failure {
                Failure::Refused(reason) => NotDelivered::Refused(reason),
                Failure::TimedOut => NotDelivered::TimedOut,
            })
        })
    })
}
