//! Tenants and what each has once: values, definitions of tags, rules for payments.

use domain::account::tag::TagDefinition;
use domain::tenant::payment_rules::PaymentRules;
use domain::tenant::{PreviousSecret, Tenant, TenantValue};
use engine::ports::StoreError;

use super::{CHECKED, CLUSTERED, Table, id, int, only, text, unique};
use crate::driver::Cells;
use crate::stored::TableOf;

pub static TENANT: TableOf<Tenant> = TableOf::new(
    Table {
        name: "tenant",
        key_columns: 1,
        indexes: &[unique("tenant_by_id", "id"), unique("tenant_by_api_key", "api_key")],
        ..CHECKED
    },
    &[
        int("no").of(|it, _| it.no.into()),
        id("id").fixed().of(|it, _| it.id.into()),
        text("external_key").null().of(|it, _| it.external_key.as_ref().into()),
        text("api_key").of(|it, _| (&it.api_key).into()),
        text("secret_hash").of(|it, _| (&it.secret_hash).into()),
        text("previous_secret_hash")
            .null()
            .of(|it, _| it.previous_secret.as_ref().map(|it| &it.hash).into()),
        int("previous_secret_until_us")
            .null()
            .of(|it, _| it.previous_secret.as_ref().map(|it| it.until).into()),
        int("is_active").of(|it, _| it.is_active.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Tenant {
            no: cells.tenant()?,
            id: cells.entity()?,
            external_key: cells.opt_string()?,
            api_key: cells.string()?,
            secret_hash: cells.string()?,
            previous_secret: previous_secret(cells)?,
            is_active: cells.flag()?,
            created_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
);

fn previous_secret(cells: &mut Cells<'_>) -> Result<Option<PreviousSecret>, StoreError> {
    let (hash, until) = (cells.opt_string()?, cells.opt_time()?);
    Ok(hash.zip(until).map(|(hash, until)| PreviousSecret { hash, until }))
}

/// Values that tenants store, one per name.
pub static TENANT_VALUE: TableOf<TenantValue> = TableOf::new(
    Table {
        name: "tenant_value",
        indexes: &[
            only("tenant_value_in_use", "name, tenant", "value IS NOT NULL"),
            only("tenant_value_bytes", "tenant, counted_bytes", "value IS NOT NULL"),
        ],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        text("name").of(|it, _| (&it.key).into()),
        id("id").fixed().of(|it, _| it.id.into()),
        text("value").null().of(|it, _| it.value.as_ref().into()),
        int("seq").of(|it, _| it.revision.seq.into()),
        int("counted_bytes").of(|it, _| it.counted_bytes().cast_signed().into()),
    ],
    |cells| {
        let (tenant, key) = (cells.tenant()?, cells.string()?);
        let (id, value, revision) = (cells.entity()?, cells.opt_string()?, cells.revision()?);
        // It follows from the rest.
        cells.skip(1);
        Ok(TenantValue { tenant, id, key, value, revision })
    },
);

/// A tenant's own definitions of tags, those that were deleted too. `applies_to` is a JSON array of names.
pub static TAG_DEFINITION: TableOf<TagDefinition> = TableOf::new(
    Table { name: "tag_definition", since: 3, ..CLUSTERED },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        text("name").fixed().of(|it, _| (&it.name).into()),
        text("description").fixed().of(|it, _| (&it.description).into()),
        text("applies_to").fixed().of(|it, cx| cx.json(&it.applies_to)),
        int("active").of(|it, _| it.active.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(TagDefinition {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            name: cells.string()?,
            description: cells.string()?,
            applies_to: cells.json()?,
            active: cells.flag()?,
            created_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
);

/// Tenants' rules for payments. `retries`, `limits`, `merchant_accounts`, `routing` and `billing` are JSON.
pub static PAYMENT_RULES: TableOf<PaymentRules> = TableOf::new(
    Table { name: "payment_rules", since: 5, key_columns: 1, ..CLUSTERED },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        text("retries").null().of(|it, cx| cx.opt_json(&it.retries)),
        text("limits").null().of(|it, cx| cx.opt_json(&it.limits)),
        text("merchant_accounts").added(9).of(|it, cx| cx.opt_json(&it.merchant_accounts)),
        text("routing").added(11).of(|it, cx| cx.opt_json(&it.routing)),
        text("billing").added(22).of(|it, cx| cx.opt_json(&it.billing)),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(PaymentRules {
            tenant: cells.tenant()?,
            retries: cells.opt_json()?,
            limits: cells.opt_json()?,
            merchant_accounts: cells.opt_json()?.unwrap_or_default(),
            routing: cells.opt_json()?,
            billing: cells.opt_json()?.unwrap_or_default(),
            revision: cells.revision()?,
        })
    },
);
