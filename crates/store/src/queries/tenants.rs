//! Reads of tenants and their values.

use std::sync::LazyLock;

use domain::tenant::payment_rules::PaymentRules;
use domain::tenant::{Tenant, TenantValue};
use domain::{CatalogVersionId, TenantId, TenantNo};
use engine::ports::{Page, StoreError, TenantQueries};

use super::SqlQueries;
use super::window::{self, count};
use crate::tables;

impl TenantQueries for SqlQueries {
    fn tenant_by_api_key(&self, api_key: &str) -> Result<Option<Tenant>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::TENANT.select("WHERE api_key = ?1"));
            reader.query_one(&SQL, &[api_key.into()], |cells| tables::TENANT.row(cells))
        })
    }

    fn tenant_named(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        // Reads every tenant: there are few, and the caller caches the answer.
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                tables::TENANT.select("WHERE external_key = ?1 OR api_key = ?1 ORDER BY no LIMIT 1")
            });
            reader.query_one(&SQL, &[name.into()], |cells| tables::TENANT.row(cells))
        })
    }

    fn tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| tables::TENANT.select("WHERE id = ?1"));
            reader.query_one(&SQL, &[id.into()], |cells| tables::TENANT.row(cells))
        })
    }

    fn tenant_by_no(&self, no: TenantNo) -> Result<Option<Tenant>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| tables::TENANT.select("WHERE no = ?1"));
            reader.query_one(&SQL, &[no.into()], |cells| tables::TENANT.row(cells))
        })
    }

    fn tenants(&self, page: Page) -> Result<Vec<Tenant>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::TENANT.select("ORDER BY no LIMIT ?1 OFFSET ?2"));
            reader.query(&SQL, &window::limit_offset(page), |cells| tables::TENANT.row(cells))
        })
    }

    fn tenant_count(&self) -> Result<i64, StoreError> {
        self.read(|reader| count(reader, "SELECT count(*) FROM tenant", &[]))
    }

    fn tenant_value(&self, no: TenantNo, key: &str) -> Result<Option<TenantValue>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::TENANT_VALUE.select("WHERE tenant = ?1 AND name = ?2"));
            reader
                .query_one(&SQL, &[no.into(), key.into()], |cells| tables::TENANT_VALUE.row(cells))
        })
    }

    fn catalog_text(
        &self,
        no: TenantNo,
        id: CatalogVersionId,
    ) -> Result<Option<String>, StoreError> {
        self.read(|reader| {
            let sql = tables::CATALOG_TEXT.select("WHERE tenant = ?1 AND id = ?2");
            let found = reader.query_one(&sql, &[no.into(), id.into()], |cells| {
                tables::CATALOG_TEXT.row(cells)
            })?;
            Ok(found.map(|it| it.text))
        })
    }

    fn payment_rules(&self, no: TenantNo) -> Result<Option<PaymentRules>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::PAYMENT_RULES.select("WHERE tenant = ?1"));
            reader.query_one(&SQL, &[no.into()], |cells| tables::PAYMENT_RULES.row(cells))
        })
    }

    fn tenant_values(
        &self,
        no: TenantNo,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<TenantValue>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                tables::TENANT_VALUE.select(
                    "WHERE tenant = ?1 AND name >= ?2 AND name < ?3 AND value IS NOT NULL \
                     ORDER BY name LIMIT ?4",
                )
            });
            // Names are compared by their bytes, and no character has larger ones.
            let end = format!("{prefix}\u{10ffff}");
            let parameters = [
                no.into(),
                prefix.into(),
                (&end).into(),
                i64::try_from(limit).unwrap_or(i64::MAX).into(),
            ];
            reader.query(&SQL, &parameters, |cells| tables::TENANT_VALUE.row(cells))
        })
    }

    fn is_value_in_use(&self, key: &str) -> Result<bool, StoreError> {
        self.read(|reader| {
            let sql = "SELECT count(*) FROM (SELECT 1 FROM tenant_value \
                 WHERE name = ?1 AND value IS NOT NULL LIMIT 1) AS found";
            Ok(count(reader, sql, &[key.into()])? > 0)
        })
    }
}
