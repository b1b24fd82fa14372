//! Reads of subscriptions and invoices.

use std::sync::LazyLock;

use domain::billing::bundle::Bundle;
use domain::billing::invoice::{Invoice, InvoiceItem};
use domain::billing::subscription::Subscription;
use domain::claim::ClaimKind;
use domain::timer::TimerKind;
use domain::{
    AccountId, AmountMinor, BundleId, InvoiceId, InvoiceItemId, SubscriptionId, TenantNo, Timestamp,
};
use engine::ports::{
    AccountSums, Backlog, BillingQueries, BillingStatus, InvoiceFile, Page, Paged, ROWS_MAX,
    StoreError, SubscriptionFile,
};
use jiff::civil::Date;
use uuid::Uuid;

use super::window::{Key, MATCHES_MAX};
use super::{SqlQueries, window};
use crate::codes::code;
use crate::driver::{Reader, Value};
use crate::tables::{ACCOUNT_BILLING, BUNDLE, INVOICE, INVOICE_ITEM, SUBSCRIPTION};
use crate::totals::Counted;

const BY_ID: &str = "WHERE tenant = ?1 AND id = ?2";

static SELECT_BUNDLE: LazyLock<String> = LazyLock::new(|| BUNDLE.select(BY_ID));
static SELECT_BUNDLES: LazyLock<String> = LazyLock::new(|| {
    BUNDLE.select("WHERE tenant = ?1 AND account_id = ?2 ORDER BY id LIMIT ?3 OFFSET ?4")
});
static SELECT_ALL_BUNDLES: LazyLock<String> =
    LazyLock::new(|| BUNDLE.select("WHERE tenant = ?1 ORDER BY id LIMIT ?2 OFFSET ?3"));
static SELECT_SUBSCRIPTION: LazyLock<String> = LazyLock::new(|| SUBSCRIPTION.select(BY_ID));
static SELECT_SUBSCRIPTIONS: LazyLock<String> = LazyLock::new(|| {
    SUBSCRIPTION.select("WHERE tenant = ?1 AND account_id = ?2 ORDER BY id LIMIT ?3 OFFSET ?4")
});
static SELECT_OF_BUNDLE: LazyLock<String> =
    LazyLock::new(|| SUBSCRIPTION.select("WHERE tenant = ?1 AND bundle_id = ?2 ORDER BY id"));
/// The condition of the index is repeated, so that the database takes it.
static SELECT_BY_KEY: LazyLock<String> = LazyLock::new(|| {
    SUBSCRIPTION.select(
        "WHERE tenant = ?1 AND external_key = ?2 AND external_key IS NOT NULL \
         ORDER BY id DESC LIMIT 1",
    )
});
static SELECT_OF_TIME: LazyLock<String> = LazyLock::new(|| {
    SUBSCRIPTION.select("WHERE tenant = ?1 AND id >= ?2 AND id <= ?3 ORDER BY id LIMIT 1000")
});
static SELECT_INVOICE: LazyLock<String> = LazyLock::new(|| INVOICE.select(BY_ID));
static SELECT_BY_NUMBER: LazyLock<String> =
    LazyLock::new(|| INVOICE.select("WHERE tenant = ?1 AND number = ?2"));
static SELECT_BY_ITEM: LazyLock<String> = LazyLock::new(|| {
    INVOICE.select(
        "WHERE tenant = ?1 \
         AND id = (SELECT invoice_id FROM invoice_item WHERE tenant = ?1 AND id = ?2)",
    )
});
static SELECT_INVOICES: LazyLock<String> = LazyLock::new(|| {
    INVOICE.select(
        "WHERE tenant = ?1 AND account_id = ?2 ORDER BY target_date, number LIMIT ?3 OFFSET ?4",
    )
});
static SELECT_ALL_INVOICES: LazyLock<String> =
    LazyLock::new(|| INVOICE.select("WHERE tenant = ?1 ORDER BY number LIMIT ?2 OFFSET ?3"));
static SELECT_OPEN: LazyLock<String> =
    LazyLock::new(|| INVOICE.select("WHERE tenant = ?1 AND account_id = ?2 AND is_open = 1"));
static SELECT_BILLING: LazyLock<String> =
    LazyLock::new(|| ACCOUNT_BILLING.select("WHERE tenant = ?1 AND account_id = ?2"));
static SELECT_ITEMS: LazyLock<String> = LazyLock::new(|| {
    INVOICE_ITEM.select("WHERE tenant = ?1 AND account_id = ?2 AND invoice_id = ?3 ORDER BY id")
});
static SELECT_PARKED: LazyLock<String> = LazyLock::new(|| {
    ACCOUNT_BILLING
        .select("WHERE tenant = ?1 AND parked IS NOT NULL ORDER BY account_id LIMIT ?2 OFFSET ?3")
});
/// The timers of billing that are due: a range of an index for each partition.
const FROM_DUE: &str = "FROM timer WHERE partition IN (SELECT id FROM partition) \
     AND due_at_us <= ?1 AND kind = ?2";
static SELECT_ITEMS_SINCE: LazyLock<String> = LazyLock::new(|| {
    INVOICE_ITEM.select(
        "WHERE tenant = ?1 AND subscription_id = ?2 AND last_day >= ?3 ORDER BY last_day, id LIMIT ?4",
    )
});

impl BillingQueries for SqlQueries {
    fn subscription(
        &self,
        tenant: TenantNo,
        id: SubscriptionId,
    ) -> Result<Option<SubscriptionFile>, StoreError> {
        self.snapshot(|reader| {
            let key = [tenant.into(), id.into()];
            subscription(reader, &SELECT_SUBSCRIPTION, &key)
        })
    }

    fn subscription_by_key(
        &self,
        tenant: TenantNo,
        key: &str,
    ) -> Result<Option<SubscriptionFile>, StoreError> {
        self.snapshot(|reader| {
            let of = [tenant.into(), key.into()];
            let found = subscription(reader, &SELECT_BY_KEY, &of)?;
            let Some(id) = window::spelled_id(key).filter(|_| found.is_none()) else {
                return Ok(found);
            };
            let found = subscription(reader, &SELECT_SUBSCRIPTION, &[tenant.into(), id.into()])?;
            Ok(found.filter(|it| it.subscription.external_key.is_none()))
        })
    }

    fn subscriptions_of_time(
        &self,
        tenant: TenantNo,
        derived: Uuid,
    ) -> Result<Vec<SubscriptionFile>, StoreError> {
        self.snapshot(|reader| {
            const TIME: u128 = u128::MAX << 80;
            let first = Uuid::from_u128(derived.as_u128() & TIME);
            let last = Uuid::from_u128(derived.as_u128() | !TIME);
            let of = [tenant.into(), first.into(), last.into()];
            let found = reader.query(&SELECT_OF_TIME, &of, |cells| SUBSCRIPTION.row(cells))?;
            let files = found.into_iter().map(|it| with_bundle(reader, it));
            files.filter_map(Result::transpose).collect()
        })
    }

    fn subscriptions_of(
        &self,
        tenant: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<Subscription>, StoreError> {
        self.read(|reader| {
            let [limit, offset] = window::limit_offset(page);
            let of = [tenant.into(), account.into(), limit, offset];
            reader.query(&SELECT_SUBSCRIPTIONS, &of, |cells| SUBSCRIPTION.row(cells))
        })
    }

    fn sums(&self, tenant: TenantNo, account: AccountId) -> Result<AccountSums, StoreError> {
        self.snapshot(|reader| {
            let of = [tenant.into(), account.into()];
            let open = reader.query(&SELECT_OPEN, &of, |cells| INVOICE.row(cells))?;
            let billing =
                reader.query_one(&SELECT_BILLING, &of, |cells| ACCOUNT_BILLING.row(cells))?;
            Ok(AccountSums {
                unpaid: AmountMinor(open.iter().map(|it| it.balance().0).sum()),
                credit: billing.map_or(AmountMinor::ZERO, |it| it.credit),
            })
        })
    }

    fn subscriptions_of_bundle(
        &self,
        tenant: TenantNo,
        id: BundleId,
    ) -> Result<Vec<SubscriptionFile>, StoreError> {
        self.snapshot(|reader| {
            let Some(bundle) = bundle(reader, tenant, id)? else { return Ok(vec![]) };
            let key = [tenant.into(), id.into()];
            let found = reader.query(&SELECT_OF_BUNDLE, &key, |cells| SUBSCRIPTION.row(cells))?;
            let file = |subscription| SubscriptionFile { subscription, bundle: bundle.clone() };
            Ok(found.into_iter().map(file).collect())
        })
    }

    fn bundles_of(
        &self,
        tenant: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<Bundle>, StoreError> {
        self.read(|reader| {
            let [limit, offset] = window::limit_offset(page);
            let of = [tenant.into(), account.into(), limit, offset];
            reader.query(&SELECT_BUNDLES, &of, |cells| BUNDLE.row(cells))
        })
    }

    fn bundles(
        &self,
        tenant: TenantNo,
        of: Option<AccountId>,
        page: Page,
    ) -> Result<Paged<Bundle>, StoreError> {
        self.snapshot(|reader| {
            let [limit, offset] = window::limit_offset(page);
            let Some(account) = of else {
                let window = [tenant.into(), limit, offset];
                let items =
                    reader.query(&SELECT_ALL_BUNDLES, &window, |cells| BUNDLE.row(cells))?;
                let all = window::total(reader, tenant, Counted::Bundles, None)?;
                return Ok(Paged { items, matching: all, all });
            };
            let window = [tenant.into(), account.into(), limit, offset];
            let items = reader.query(&SELECT_BUNDLES, &window, |cells| BUNDLE.row(cells))?;
            let sql = "SELECT count(*) FROM bundle WHERE tenant = ?1 AND account_id = ?2";
            let all = window::count(reader, sql, &[tenant.into(), account.into()])?;
            Ok(Paged { items, matching: all.unsigned_abs(), all: all.unsigned_abs() })
        })
    }

    fn bundles_named(
        &self,
        tenant: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<Bundle>, StoreError> {
        const SQL: &str = "SELECT id FROM bundle WHERE tenant = ?1 AND id = ?2 \
            UNION SELECT id FROM bundle WHERE tenant = ?1 AND account_id = ?2 \
            UNION SELECT id FROM bundle WHERE tenant = ?1 AND id = ?3 ORDER BY 1 LIMIT ?4";
        let key = &self.seek(tenant, ClaimKind::Bundle, text);
        self.snapshot(|reader| {
            let by_key = bundle_by_key(reader, key)?.map(|it| it.id);
            let id = Uuid::try_parse(text).ok();
            let of = [tenant.into(), id.into(), by_key.into(), MATCHES_MAX.into()];
            found(reader, tenant, (SQL, &of), page)
        })
    }

    fn search_bundles(
        &self,
        tenant: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<Bundle>, StoreError> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            let key = window::like("external_key", 2);
            format!("SELECT id FROM bundle WHERE tenant = ?1 AND {key} ORDER BY id LIMIT ?3")
        });
        self.snapshot(|reader| {
            let pattern = window::containing(text);
            let of = [tenant.into(), (&pattern).into(), MATCHES_MAX.into()];
            found(reader, tenant, (&SQL, &of), page)
        })
    }

    fn bundle_by_key(&self, tenant: TenantNo, key: &str) -> Result<Option<Bundle>, StoreError> {
        let key = &self.seek(tenant, ClaimKind::Bundle, key);
        self.snapshot(|reader| bundle_by_key(reader, key))
    }

    fn bundle(&self, tenant: TenantNo, id: BundleId) -> Result<Option<Bundle>, StoreError> {
        self.read(|reader| bundle(reader, tenant, id))
    }

    fn invoice(&self, tenant: TenantNo, id: InvoiceId) -> Result<Option<InvoiceFile>, StoreError> {
        self.snapshot(|reader| one(reader, &SELECT_INVOICE, &[tenant.into(), id.into()]))
    }

    fn parked_accounts(&self, tenant: TenantNo, page: Page) -> Result<Vec<AccountId>, StoreError> {
        let sql = "SELECT account_id FROM account_billing WHERE tenant = ?1 AND parked IS NOT NULL \
                   ORDER BY account_id LIMIT ?2 OFFSET ?3";
        self.read(|reader| {
            let [limit, offset] = window::limit_offset(page);
            reader.query(sql, &[tenant.into(), limit, offset], |cells| cells.entity())
        })
    }

    fn billing_status(
        &self,
        tenant: TenantNo,
        now: Timestamp,
        page: Page,
    ) -> Result<BillingStatus, StoreError> {
        static DUE: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT count(*) FROM (SELECT 1 {FROM_DUE} AND tenant = ?3 LIMIT ?4) AS counted"
            )
        });
        const PARKED: &str = "SELECT count(*) FROM (SELECT 1 FROM account_billing \
             WHERE tenant = ?1 AND parked IS NOT NULL LIMIT ?2) AS counted";
        self.snapshot(|reader| {
            let kind = code(TimerKind::Billing).into();
            let counted = Backlog::COUNTED_MAX.into();
            let [limit, offset] = window::limit_offset(page);
            Ok(BillingStatus {
                due: window::count(reader, &DUE, &[now.into(), kind, tenant.into(), counted])?,
                oldest_due: oldest_due(reader, Some(tenant), now)?,
                parked: window::count(reader, PARKED, &[tenant.into(), counted])?,
                accounts: reader.query(
                    &SELECT_PARKED,
                    &[tenant.into(), limit, offset],
                    |cells| ACCOUNT_BILLING.row(cells),
                )?,
            })
        })
    }

    fn accounts_to_bill(
        &self,
        tenant: TenantNo,
        after: Option<AccountId>,
        (until, limit): (Timestamp, u64),
    ) -> Result<Vec<AccountId>, StoreError> {
        let sql = "SELECT object_id FROM timer WHERE tenant = ?1 AND kind = ?2 \
                   AND object_id > ?3 AND due_at_us <= ?4 ORDER BY object_id LIMIT ?5";
        self.read(|reader| {
            let after = after.map_or(Uuid::nil(), AccountId::uuid);
            let kind = code(TimerKind::Billing).into();
            let of = [tenant.into(), kind, after.into(), until.into(), window::limit(limit)];
            reader.query(sql, &of, |cells| cells.entity())
        })
    }

    fn items_since(
        &self,
        tenant: TenantNo,
        subscription: SubscriptionId,
        day: Date,
    ) -> Result<Vec<InvoiceItem>, StoreError> {
        self.read(|reader| {
            let (day, limit) = (day.to_string(), window::limit(ROWS_MAX));
            let of = [tenant.into(), subscription.into(), (&day).into(), limit];
            reader.query(&SELECT_ITEMS_SINCE, &of, |cells| INVOICE_ITEM.row(cells))
        })
    }

    fn invoice_of_item(
        &self,
        tenant: TenantNo,
        item: InvoiceItemId,
    ) -> Result<Option<InvoiceFile>, StoreError> {
        self.snapshot(|reader| one(reader, &SELECT_BY_ITEM, &[tenant.into(), item.into()]))
    }

    fn invoice_by_number(
        &self,
        tenant: TenantNo,
        number: i64,
    ) -> Result<Option<InvoiceFile>, StoreError> {
        self.snapshot(|reader| one(reader, &SELECT_BY_NUMBER, &[tenant.into(), number.into()]))
    }

    fn invoices(
        &self,
        tenant: TenantNo,
        of: Option<AccountId>,
        page: Page,
    ) -> Result<Paged<InvoiceFile>, StoreError> {
        self.snapshot(|reader| {
            let [limit, offset] = window::limit_offset(page);
            let all = window::total(reader, tenant, Counted::Invoices, None)?;
            let (found, matching) = match of {
                None => {
                    let of = [tenant.into(), limit, offset];
                    (reader.query(&SELECT_ALL_INVOICES, &of, |cells| INVOICE.row(cells))?, all)
                }
                Some(account) => {
                    let of = [tenant.into(), account.into(), limit, offset];
                    let found = reader.query(&SELECT_INVOICES, &of, |cells| INVOICE.row(cells))?;
                    let sql = "SELECT count(*) FROM invoice WHERE tenant = ?1 AND account_id = ?2";
                    let matching = window::count(reader, sql, &[tenant.into(), account.into()])?;
                    (found, matching.unsigned_abs())
                }
            };
            let items = found.into_iter().map(|it| with_items(reader, it));
            Ok(Paged { items: items.collect::<Result<_, _>>()?, matching, all: all.max(matching) })
        })
    }

    fn invoices_named(
        &self,
        tenant: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<InvoiceFile>, StoreError> {
        const SQL: &str = "SELECT id FROM invoice WHERE tenant = ?1 AND id = ?2 \
            UNION SELECT id FROM invoice WHERE tenant = ?1 AND account_id = ?2 \
            UNION SELECT id FROM invoice WHERE tenant = ?1 AND number = ?3 ORDER BY 1 LIMIT ?4";
        self.snapshot(|reader| {
            // No invoice has the number 0.
            let (id, number) = (Uuid::try_parse(text).ok(), text.parse().unwrap_or(0_i64));
            let of = [tenant.into(), id.into(), number.into(), MATCHES_MAX.into()];
            found_invoices(reader, tenant, (SQL, &of), page)
        })
    }

    fn invoices_in(
        &self,
        tenant: TenantNo,
        code: &str,
        page: Page,
    ) -> Result<Paged<InvoiceFile>, StoreError> {
        const SQL: &str =
            "SELECT id FROM invoice WHERE tenant = ?1 AND currency = ?2 ORDER BY id LIMIT ?3";
        self.snapshot(|reader| {
            let of = [tenant.into(), code.into(), MATCHES_MAX.into()];
            found_invoices(reader, tenant, (SQL, &of), page)
        })
    }

    fn invoices_of(
        &self,
        tenant: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<InvoiceFile>, StoreError> {
        self.snapshot(|reader| {
            let [limit, offset] = window::limit_offset(page);
            let of = [tenant.into(), account.into(), limit, offset];
            let found = reader.query(&SELECT_INVOICES, &of, |cells| INVOICE.row(cells))?;
            found.into_iter().map(|it| with_items(reader, it)).collect()
        })
    }
}

/// When the first account was due to be billed that is, of a tenant or of all.
pub(super) fn oldest_due(
    reader: &Reader,
    tenant: Option<TenantNo>,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    static OF_ALL: LazyLock<String> = LazyLock::new(|| format!("SELECT min(due_at_us) {FROM_DUE}"));
    static OF_TENANT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT min(due_at_us) {FROM_DUE} AND tenant = ?3"));
    let mut parameters = vec![now.into(), code(TimerKind::Billing).into()];
    parameters.extend(tenant.map(Value::from));
    let sql = if tenant.is_some() { &OF_TENANT } else { &OF_ALL };
    let found = reader.query_one(sql, &parameters, |cells| cells.opt_int())?;
    Ok(found.flatten().map(Timestamp))
}

fn bundle(reader: &Reader, tenant: TenantNo, id: BundleId) -> Result<Option<Bundle>, StoreError> {
    reader.query_one(&SELECT_BUNDLE, &[tenant.into(), id.into()], |cells| BUNDLE.row(cells))
}

fn bundle_by_key(reader: &Reader, key: &Key<'_>) -> Result<Option<Bundle>, StoreError> {
    let Some((id, external_key)) = key.named(reader)? else { return Ok(None) };
    let found = bundle(reader, key.tenant, BundleId::new(id))?;
    Ok(found.filter(|it| it.external_key.as_deref() == external_key))
}

/// The bundles that a search finds.
fn found(
    reader: &Reader,
    tenant: TenantNo,
    search: (&str, &[Value<'_>]),
    page: Page,
) -> Result<Paged<Bundle>, StoreError> {
    let all = window::total(reader, tenant, Counted::Bundles, None)?;
    window::find(reader, search, page, all, |id| bundle(reader, tenant, BundleId::new(id)))
}

/// The invoices that a search finds.
fn found_invoices(
    reader: &Reader,
    tenant: TenantNo,
    search: (&str, &[Value<'_>]),
    page: Page,
) -> Result<Paged<InvoiceFile>, StoreError> {
    let all = window::total(reader, tenant, Counted::Invoices, None)?;
    window::find(reader, search, page, all, |id| {
        one(reader, &SELECT_INVOICE, &[tenant.into(), id.into()])
    })
}

fn subscription(
    reader: &Reader,
    sql: &str,
    of: &[Value<'_>],
) -> Result<Option<SubscriptionFile>, StoreError> {
    let found = reader.query_one(sql, of, |cells| SUBSCRIPTION.row(cells))?;
    Ok(found.map(|it| with_bundle(reader, it)).transpose()?.flatten())
}

fn with_bundle(
    reader: &Reader,
    subscription: Subscription,
) -> Result<Option<SubscriptionFile>, StoreError> {
    let bundle = bundle(reader, subscription.tenant, subscription.bundle_id)?;
    Ok(bundle.map(|bundle| SubscriptionFile { subscription, bundle }))
}

fn one(reader: &Reader, sql: &str, key: &[Value<'_>]) -> Result<Option<InvoiceFile>, StoreError> {
    let found = reader.query_one(sql, key, |cells| INVOICE.row(cells))?;
    found.map(|it| with_items(reader, it)).transpose()
}

fn with_items(reader: &Reader, invoice: Invoice) -> Result<InvoiceFile, StoreError> {
    let of = [invoice.tenant.into(), invoice.account_id.into(), invoice.id.into()];
    let items = reader.query(&SELECT_ITEMS, &of, |cells| INVOICE_ITEM.row(cells))?;
    Ok(InvoiceFile { invoice, items })
}
