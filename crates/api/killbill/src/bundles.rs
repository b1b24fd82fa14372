//! Bundles: subscriptions of an account that belong together.

use std::borrow::Cow;
use std::collections::BTreeSet;

use domain::billing::bundle::{Bundle, RenameBundle};
use domain::command::BillingCommand;
use domain::{AccountId, BundleId, Command, TenantNo};
use engine::ports::{HistoryOf, HistoryRow, Page, Queries, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::accounts::check_account;
use crate::audit::{AuditLevel, AuditLogJson};
use crate::call::{Call, read_id};
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::json::{Json, Raw};
use crate::page::{self, RowFormat};
use crate::reply;
use crate::subscriptions::view::{AsOf, EventJson, Shown, SubscriptionJson, key};

const JSON: Json = Json("BundleJson");

/// The bundles of an account that are listed.
const ALL: Page = Page { offset: 0, limit: 10_000 };

/// What the URL of a list's next page has always.
const AUDIT: [(&str, &str); 1] = [("audit", "NONE")];

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

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BundleRequest)]
pub(crate) struct BundleBody<'a> {
    /// The bundle's new key
    #[serde(borrow)]
    #[schema(value_type = String)]
    external_key: Raw<'a>,
    /// This and the ones below come back from a read, and have no effect.
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    account_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    bundle_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    subscriptions: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    timeline: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

impl BundleBody<'_> {
    fn key(&self) -> Result<String, Failure> {
        // They come back from a read.
        let _ids = [self.account_id, self.bundle_id];
        let _lists = [self.subscriptions, self.timeline, self.audit_logs];
        let key = JSON.key("externalKey", self.external_key, class::ENTITLEMENT)?;
        key.filter(|key| !key.is_empty()).ok_or_else(|| JSON.missing("externalKey"))
    }
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
    history: Vec<HistoryRow>,
    audit: AuditLevel,
    shown: Shown,
}

impl Found {
    /// Those of an account, the oldest first, at most 10,000.
    pub(crate) fn all_of(
        queries: &dyn Queries,
        (tenant, account): (TenantNo, AccountId),
        as_of: AsOf,
    ) -> Result<Vec<Self>, StoreError> {
        let bundles = queries.bundles_of(tenant, account, ALL)?.into_iter();
        let found = bundles.map(|it| Self::read(queries, it, as_of));
        found.filter_map(Result::transpose).collect()
    }

    /// `None`: its account is not there.
    fn read(
        queries: &dyn Queries,
        bundle: Bundle,
        as_of: AsOf,
    ) -> Result<Option<Self>, StoreError> {
        let (tenant, audit) = (bundle.tenant, as_of.audit);
        let files = queries.subscriptions_of_bundle(tenant, bundle.id)?;
        let shown = Shown::read(queries, (tenant, bundle.account_id), files, as_of)?;
        let history = audit.read(queries, tenant, HistoryOf::new::<Bundle>(bundle.id.uuid()))?;
        Ok(shown.map(|shown| Self { bundle, history, audit, shown }))
    }

    /// Whether one of its subscriptions has not ended.
    fn is_active(&self) -> bool {
        self.shown.json().any(|it| !it.has_ended())
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
            audit_logs: self.audit.logs(&self.history),
        }
    }
}

impl RowFormat for AsOf {
    type Row = Bundle;
    /// `None`: its account is not there any more.
    type Audited = Option<Found>;
    type Json<'a> = Option<BundleJson<'a>>;

    fn of(call: &Call) -> Result<Self, Failure> {
        Self::of(call)
    }

    fn reads_audit(self) -> bool {
        // Each is read with its subscriptions.
        true
    }

    fn with_audit(self, queries: &dyn Queries, row: Bundle) -> Result<Option<Found>, StoreError> {
        Found::read(queries, row, self)
    }

    fn json(self, found: &Option<Found>) -> Option<BundleJson<'_>> {
        found.as_ref().map(Found::json)
    }
}

/// Lists the account's bundles, the oldest first, at most 10,000, or those of them that the filter names.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/bundles", tag = "Account", operation_id = "bundles",
    params(("accountId" = Uuid, Path), ("audit" = Option<String>, Query),
        ("bundlesFilter" = Option<String>, Query, description = "Ids of bundles, with a comma between them")),
    responses((status = 200, body = [BundleJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_account(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let named = named(&call)?;
    page::list_of_account::<AsOf>(&call, account, move |queries, tenant| {
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

/// Lists the account's bundles by page, the oldest first.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/bundles/pagination", tag = "Account",
    operation_id = "bundles_by_page",
    params(("accountId" = Uuid, Path), ("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [BundleJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn page_of_account(call: Call) -> HandlerResult {
    let (window, options) = (page::parse(call.query())?, AsOf::of(&call)?);
    check_account(&call).await?;
    let account: AccountId = call.param_id("accountId")?;
    let path = format!("/1.0/kb/accounts/{account}/bundles/pagination");
    page::list(&call, options, window, (&path, &AUDIT), move |queries, tenant, page| {
        queries.bundles(tenant, Some(account), page)
    })
    .await
}

/// Lists the tenant's bundles by page, the oldest first.
#[utoipa::path(get, path = "/1.0/kb/bundles/pagination", tag = "Bundle", operation_id = "bundles",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [BundleJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let (window, options) = (page::parse(call.query())?, AsOf::of(&call)?);
    let url = ("/1.0/kb/bundles/pagination", &AUDIT[..]);
    page::list(&call, options, window, url, |queries, tenant, page| {
        queries.bundles(tenant, None, page)
    })
    .await
}

/// Searches bundles.
///
/// Finds those of an id, of an account's id or of a key. Where there are none, finds all whose key contains the text,
/// which looks at every bundle of the tenant.
#[utoipa::path(get, path = "/1.0/kb/bundles/search/{searchKey}", tag = "Bundle",
    operation_id = "search_bundles",
    params(("searchKey" = String, Path), ("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [BundleJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> HandlerResult {
    let text = call.param("searchKey")?.into_owned();
    let (window, options) = (page::parse(call.query())?, AsOf::of(&call)?);
    let path = format!("/1.0/kb/bundles/search/{}", reply::segment(&text));
    let wanted = text.clone();
    let named =
        move |queries: &dyn Queries, tenant, page| queries.bundles_named(tenant, &wanted, page);
    let containing =
        move |queries: &dyn Queries, tenant, page| queries.search_bundles(tenant, &text, page);
    page::search(&call, options, window, (&path, &AUDIT), (named, containing)).await
}

/// Lists the bundle that has a key: it alone, or none.
#[utoipa::path(get, path = "/1.0/kb/bundles", tag = "Bundle", operation_id = "bundle_by_key",
    params(("externalKey" = String, Query), ("audit" = Option<String>, Query),
        ("includedDeleted" = Option<bool>, Query, description = "Also a bundle whose subscriptions have all ended; of none the list is empty then")),
    responses((status = 200, body = [BundleJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_key(call: Call) -> HandlerResult {
    let key = call.query().text("externalKey")?.map(Cow::into_owned);
    let Some(key) = key else { return Err(no_such_key("null")) };
    let includes_ended = call.query().flag("includedDeleted");
    let (tenant, as_of, wanted) = (call.tenant(), AsOf::of(&call)?, key.clone());
    let found = call.read(move |queries| {
        let Some(bundle) = queries.bundle_by_key(tenant, &wanted)? else { return Ok(None) };
        Found::read(queries, bundle, as_of)
    });
    let found = found.await?.filter(|it| includes_ended || it.is_active());
    if found.is_none() && !includes_ended {
        return Err(no_such_key(&key));
    }
    Ok(reply::ok(&found.iter().map(Found::json).collect::<Vec<_>>()))
}

fn no_such_key(key: &str) -> Failure {
    let message = format!("Could not find a bundle matching key {key}");
    Failure::coded(code::NO_SUCH_BUNDLE_KEY, message)
}

/// Gives a bundle another key. A key that another bundle has is refused, whether that bundle is active or not.
#[utoipa::path(put, path = "/1.0/kb/bundles/{bundleId}/renameKey", tag = "Bundle",
    operation_id = "rename_bundle", params(("bundleId" = Uuid, Path, description = "The bundle")),
    request_body = BundleBody<'static>,
    responses((status = 204, description = "It has the key"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn rename(call: Call) -> HandlerResult {
    let key = call.body::<BundleBody<'_>>(JSON)?.key()?;
    let (account, bundle) = of_path(&call).await?;
    let it = RenameBundle { account, bundle, key };
    call.submit_change(Command::Billing(BillingCommand::RenameBundle(it))).await?;
    Ok(reply::no_content())
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
    params(("bundleId" = Uuid, Path, description = "The bundle"), ("audit" = Option<String>, Query)),
    responses((status = 200, body = BundleJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id: BundleId = call.param_id("bundleId")?;
    let (tenant, as_of) = (call.tenant(), AsOf::of(&call)?);
    let found = call.read(move |queries| {
        let Some(bundle) = queries.bundle(tenant, id)? else { return Ok(None) };
        Found::read(queries, bundle, as_of)
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
