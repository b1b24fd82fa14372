//! With which key of sign-up a database is written: a check value of it lies in the database, so that
//! a key that was lost or mixed up is noticed before anybody is locked out.

use std::future::Future;
use std::time::Duration;

use domain::payment::Actor;
use domain::tenant::SetTenantValue;
use domain::{Command, Request, TenantNo};
use engine::ports::{Page, Queries, StoreError};
use engine::{Answer, Engine, Unavailable};

/// Where the check value lies, among the values of the installation itself.
const NAME: &str = "SIGNUP_KEY";

/// In whose name it is written.
const USER: &str = "sign-up";

/// How long to wait before it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What is to lie in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckValue {
    /// The check value of this process's key.
    pub value: String,
    /// Whether it takes the place of another one.
    pub replaces: bool,
}

/// The check value that lies in the database.
///
/// # Errors
/// [`StoreError`].
pub fn held(queries: &dyn Queries) -> Result<Option<String>, StoreError> {
    Ok(queries.tenant_value(TenantNo::SYSTEM, NAME)?.and_then(|it| it.value))
}

/// Whether anything depends on the key: somebody signed up, or is about to. Only the synthetic
/// registrations' tenant may have customers otherwise.
///
/// # Errors
/// [`StoreError`].
pub fn is_needed(queries: &dyn Queries) -> Result<bool, StoreError> {
    if !queries.operations_waiting(None, 1)?.is_empty() {
        return Ok(true);
    }
    let probes = queries.tenant_by_api_key(signup::probe::TENANT)?.map(|it| it.no);
    let first = Page { offset: 0, limit: 1 };
    let tenants = u32::try_from(queries.tenant_count()?).unwrap_or(u32::MAX);
    for no in (1..=tenants).map(TenantNo) {
        if Some(no) != probes && !queries.customers(no, first)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sees to it that the check value lies in the database, until `stop` is ready. Whoever owns the
/// first partition does.
pub async fn hold(engine: Engine, check: CheckValue, stop: impl Future<Output = ()>) {
    let holding = async {
        while let Err(error) = hold_once(&engine, &check).await {
            tracing::warn!(error = %error, "the check value of sign-up's key is not written yet");
            tokio::time::sleep(RETRY_AFTER).await;
        }
    };
    tokio::select! {
        () = holding => {}
        () = stop => {}
    }
}

async fn hold_once(engine: &Engine, check: &CheckValue) -> Result<(), Unavailable> {
    let held = engine.read(held).await?;
    if held.as_ref() == Some(&check.value) {
        return Ok(());
    }
    if held.is_some() && !check.replaces {
        // Two processes began with an empty database and a key each.
        tracing::error!("the key of sign-up is not the one that this database is written with");
        return Ok(());
    }
    let id = engine.mint();
    let (user, created_by) = (USER.to_owned(), USER.to_owned());
    let actor = Actor { user, created_by, reason: None, comments: None, token: id.0 };
    let set = SetTenantValue { key: NAME.to_owned(), value: Some(check.value.clone()) };
    let command = Command::SetTenantValue(set);
    let request = Request { id, tenant: TenantNo::SYSTEM, actor, idempotency: None, command };
    match engine.submit_own(request).await? {
        Answer::Replied(_) => {}
        answer @ (Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) => {
            tracing::error!(?answer, "the check value of sign-up's key was refused");
        }
    }
    Ok(())
}
