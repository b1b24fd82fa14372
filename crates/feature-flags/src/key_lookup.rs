//! Reads which users are entitled to features, for server SDKs and relay proxies.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::{AccountId, TenantNo};
use engine::ports::{Queries, StoreError};
use engine::{Engine, Unavailable};

use crate::FlagCache;
use crate::key_ledger::{ACCOUNTS_MAX, FoundKeys, KeyWork};

/// How long to wait after a read that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// How often changes are published at most.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// Keeps the keys that are asked for, until `stop` is ready.
pub async fn keep(engine: Engine, cache: Arc<FlagCache>, stop: impl Future<Output = ()>) {
    tokio::select! {
        () = stop => {}
        () = read(&engine, &cache) => {}
        () = publish(&cache) => {}
    }
}

async fn read(engine: &Engine, cache: &FlagCache) {
    let ledger = &cache.key_ledger;
    loop {
        let work = ledger.next_work(&cache.entitled_keys).await;
        match find(engine, work.clone()).await {
            Ok(found) => ledger.learn(&work, found, cache.accounts.now()),
            Err(error) => {
                tracing::warn!(error = %error, "failed to read users who are entitled to features; retried");
                ledger.failed(work);
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

async fn publish(cache: &FlagCache) {
    loop {
        cache.key_ledger.has_changed().await;
        cache.key_ledger.publish(&cache.entitled_keys, cache.accounts.now());
        tokio::time::sleep(PUBLISH_EVERY).await;
    }
}

async fn find(engine: &Engine, work: KeyWork) -> Result<Vec<FoundKeys>, Unavailable> {
    engine
        .read(move |queries| match work {
            KeyWork::Next { tenant, after } => {
                let found = queries.entitlements_after(tenant, after, ACCOUNTS_MAX)?;
                let found = found.into_iter().map(|it| {
                    let has_any = !it.grants.is_empty();
                    let keys = keys(queries, (tenant, it.account_id), has_any)?;
                    Ok(FoundKeys { account: it.account_id, entitlements: Some(it), keys })
                });
                found.collect()
            }
            KeyWork::Changed { tenant, accounts } => {
                let found = accounts.into_iter().map(|account| {
                    let entitlements = queries.entitlements(tenant, account)?;
                    let has_any = entitlements.as_ref().is_some_and(|it| !it.grants.is_empty());
                    let keys = keys(queries, (tenant, account), has_any)?;
                    Ok(FoundKeys { account, entitlements, keys })
                });
                found.collect()
            }
        })
        .await
}

fn keys(
    queries: &dyn Queries,
    (tenant, account): (TenantNo, AccountId),
    has_any: bool,
) -> Result<Vec<String>, StoreError> {
    if has_any { queries.user_keys(tenant, account) } else { Ok(vec![]) }
}
