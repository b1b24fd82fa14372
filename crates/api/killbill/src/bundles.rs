//! Bundles: subscriptions of an account that belong together.

use std::borrow::Cow;
use std::collections::BTreeSet;

use domain::billing::bundle::Bundle;
use domain::{AccountId, BundleId, TenantNo, Timestamp};
use engine::ports::{Page, Queries, StoreError};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::audit::AuditLogJson;
use crate::call::{Call, read_id};
use crate::error::{ErrorJson, Failure, HandlerResult, code};
use crate::page::{self, RowFormat};
use crate::reply;
use crate::subscriptions::view::{EventJson, Shown, SubscriptionJson, key};

/// The bundles of an account that are listed.
const ALL: Page = Page { offset: 0, limit: 10_000 };

const BUNDLES_FILTER: &str = "bundlesFilter";

/// Kill Bill's `BundleJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BundleJson<'a> {
    account_id: Uuid,
    bundle_id: Uuid,
    #[schema(value_type = String)]
    external_key: Cow<'a, str>,
    subscriptions: Vec<SubscriptionJson<'a>>,
    timeline: TimelineJson<'a>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// Kill Bill's `BundleTimelineJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimelineJson<'a> {
    account_id: Uuid,
    bundle_id: Uuid,
    #[schema(value_type = String)]
    external_key: Cow<'a, str>,
    /// Of all its subscriptions, in their order
    events: Vec<EventJson<'a>>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// A bundle with what its JSON needs.
pub(crate) struct Found {
    bundle: Bundle,
    shown: Shown,
}

impl Found {
    /// Those of an account, the oldest first, at most 10,000.
    pub(crate) fn all_of(
        queries: &dyn Queries,
        (tenant, account): (TenantNo, AccountId),
        now: Timestamp,
    ) -> Result<Vec<Self>, StoreError> {
        let bundles = queries.bundles_of(tenant, account, ALL)?.into_iter();
        let found = bundles.map(|it| Self::read(queries, tenant, it, now));
        found.filter_map(Result::transpose).collect()
    }

    /// `None`: its account is not there.
    fn read(
        queries: &dyn Queries,
        tenant: TenantNo,
        bundle: Bundle,
        now: Timestamp,
    ) -> Result<Option<Self>, StoreError> {
        let files = queries.subscriptions_of_bundle(tenant, bundle.id)?;
        let shown = Shown::read(queries, (tenant, bundle.account_id), files, now)?;
        Ok(shown.map(|shown| Self { bundle, shown }))
    }

    pub(crate) fn json(&self) -> BundleJson<'_> {
        let (account_id, bundle_id) = (self.bundle.account_id.uuid(), self.bundle.id.uuid());
        let external_key = key(self.bundle.external_key.as_ref(), bundle_id);
        BundleJson {
            account_id,
            bundle_id,
            external_key: external_key.clone(),
            subscriptions: self.shown.json().collect(),
            timeline: TimelineJson {
                account_id,
                bundle_id,
                external_key,
                events: self.shown.all_events(),
                audit_logs: vec![],
            },
            audit_logs: vec![],
        }
    }
}

/// Bundles as they are at a time.
#[derive(Clone, Copy)]
struct ReadOptions {
    now: Timestamp,
}

impl RowFormat for ReadOptions {
    type Row = Bundle;
    /// `None`: its account is not there any more.
    type Audited = Option<Found>;
    type Json<'a> = Option<BundleJson<'a>>;

    fn of(call: &Call) -> Result<Self, Failure> {
        Ok(Self { now: call.api.engine().clock().now() })
    }

    fn reads_audit(self) -> bool {
        // Each is read with its subscriptions.
        true
    }

    fn with_audit(self, queries: &dyn Queries, row: Bundle) -> Result<Option<Found>, StoreError> {
        Found::read(queries, row.tenant, row, self.now)
    }

    fn json(self, found: &Option<Found>) -> Option<BundleJson<'_>> {
        found.as_ref().map(Found::json)
    }
}

/// Lists the account's bundles, the oldest first, at most 10,000, or those of them that the filter names.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/bundles", tag = "Account", operation_id = "bundles",
    params(("accountId" = Uuid, Path),
        ("bundlesFilter" = Option<String>, Query, description = "Ids of bundles, with a comma between them")),
    responses((status = 200, body = [BundleJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_account(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let named = named(&call)?;
    page::list_of_account::<ReadOptions>(&call, account, move |queries, tenant| {
        let mut found = queries.bundles_of(tenant, account, ALL)?;
        if found.is_empty() && queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        if let Some(named) = &named {
            found.retain(|it| named.contains(&it.id));
        }
        Ok(Some(found))
    })
    .await
}

/// The bundles that a list is to have; `None`: all.
fn named(call: &Call) -> Result<Option<BTreeSet<BundleId>>, Failure> {
    let Some(text) = call.query().text(BUNDLES_FILTER)?.filter(|it| !it.is_empty()) else {
        return Ok(None);
    };
    text.split(',').map(|it| read_id(BUNDLES_FILTER, it)).collect::<Result<_, _>>().map(Some)
}

/// Reads a bundle with its subscriptions.
#[utoipa::path(get, path = "/1.0/kb/bundles/{bundleId}", tag = "Bundle", operation_id = "bundle",
    params(("bundleId" = Uuid, Path, description = "The bundle")),
    responses((status = 200, body = BundleJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id: BundleId = call.param_id("bundleId")?;
    let (tenant, now) = (call.tenant(), call.api.engine().clock().now());
    let found = call.read(move |queries| {
        let Some(bundle) = queries.bundle(tenant, id)? else { return Ok(None) };
        Found::read(queries, tenant, bundle, now)
    });
    let found = found.await?.ok_or_else(|| no_such_bundle(id))?;
    Ok(reply::ok(&found.json()))
}

/// The bundle of the path, with its account.
pub(crate) async fn of_path(call: &Call) -> Result<(AccountId, BundleId), Failure> {
    let id: BundleId = call.param_id("bundleId")?;
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.bundle(tenant, id)).await?;
    let found = found.ok_or_else(|| no_such_bundle(id))?;
    Ok((found.account_id, id))
}

fn no_such_bundle(id: BundleId) -> Failure {
    Failure::coded(code::NO_SUCH_BUNDLE, format!("there is no bundle {id}"))
}
