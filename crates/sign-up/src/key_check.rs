//! The key check value of sign-up's root key, which is stored in the database, so that a lost or
//! wrong key is noticed before customers are locked out.

use std::future::Future;
use std::time::Duration;

use domain::command::TenantCommand;
use domain::payment::Actor;
use domain::tenant::SetTenantValue;
use domain::{Command, Request, TenantNo};
use engine::periodic::{Pass, Periodic};
use engine::ports::{Page, Queries, StoreError};
use engine::{Answer, Engine, Unavailable};

/// The name of the value, among the values of the installation.
const NAME: &str = "SIGNUP_KEY";

/// The user in the audit records.
const USER: &str = "sign-up";

/// The pause before a retry.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The key check value to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckValue {
    /// The check value of this process's key.
    pub value: String,
    /// Whether it replaces another value.
    pub replaces: bool,
}

/// The stored key check value.
///
/// # Errors
/// [`StoreError`].
pub fn stored(queries: &dyn Queries) -> Result<Option<String>, StoreError> {
    Ok(queries.tenant_value(TenantNo::SYSTEM, NAME)?.and_then(|it| it.value))
}

/// Whether anything depends on the key: there are customers or stored registrations, apart from
/// customers of the synthetic registrations' tenant.
///
/// # Errors
/// [`StoreError`].
pub fn is_needed(queries: &dyn Queries) -> Result<bool, StoreError> {
    if !queries.operations_waiting(None, 1)?.is_empty() {
        return Ok(true);
    }
    let probes = queries.tenant_by_api_key(crate::probe::TENANT)?.map(|it| it.no);
    let first = Page { offset: 0, limit: 1 };
    let tenants = u32::try_from(queries.tenant_count()?).unwrap_or(u32::MAX);
    for no in (1..=tenants).map(TenantNo) {
        if Some(no) != probes && !queries.customers(no, first)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Stores the key check value, retrying until it succeeds or `stop` is ready. The owner of the first
/// partition calls this.
pub async fn store(engine: Engine, check: CheckValue, stop: impl Future<Output = ()>) {
    let job = || async {
        match store_once(&engine, &check).await {
            Ok(()) => Pass::Done,
            Err(error) => {
                tracing::warn!(error = %error, "failed to store sign-up's key check value; retrying");
                Pass::Failed
            }
        }
    };
    Periodic::every(RETRY_PAUSE).run(stop, job).await;
}

async fn store_once(engine: &Engine, check: &CheckValue) -> Result<(), Unavailable> {
    let stored = engine.read(stored).await?;
    if stored.as_ref() == Some(&check.value) {
        return Ok(());
    }
    if stored.is_some() && !check.replaces {
        // Two processes started on an empty database with different keys.
        tracing::error!(
            "the key of sign-up differs from the one that the database was written with"
        );
        return Ok(());
    }
    let id = engine.mint();
    let actor = Actor::new(USER, USER, id.0);
    let set = SetTenantValue::new(NAME.to_owned(), Some(check.value.clone()));
    let command = Command::Tenant(TenantCommand::SetValue(set));
    let request = Request { id, tenant: TenantNo::SYSTEM, actor, idempotency: None, command };
    match engine.submit_own(request).await? {
        Answer::Replied(_) => {}
        answer @ (Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) => {
            tracing::error!(answer = answer.kind(), "sign-up's key check value was refused");
        }
    }
    Ok(())
}
