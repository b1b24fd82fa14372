//! Reads of tenants, their values, users and roles.

use std::sync::LazyLock;

use domain::access::{Role, User};
use domain::tenant::{Tenant, TenantValue};
use domain::{TenantId, TenantNo};
use engine::ports::StoreError;

use super::window::count;
use crate::driver::Reader;
use crate::{rows, tables};

pub(super) fn tenant_by_api_key(
    reader: &Reader,
    api_key: &str,
) -> Result<Option<Tenant>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| tables::TENANT.select("WHERE api_key = ?1"));
    reader.query_one(&SQL, &[api_key.into()], rows::tenant)
}

/// Looks at every tenant: there are few, and whoever asks remembers the answer.
pub(super) fn tenant_named(reader: &Reader, name: &str) -> Result<Option<Tenant>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        tables::TENANT.select("WHERE external_key = ?1 OR api_key = ?1 ORDER BY no LIMIT 1")
    });
    reader.query_one(&SQL, &[name.into()], rows::tenant)
}

pub(super) fn tenant(reader: &Reader, id: TenantId) -> Result<Option<Tenant>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| tables::TENANT.select("WHERE id = ?1"));
    reader.query_one(&SQL, &[id.into()], rows::tenant)
}

pub(super) fn tenant_by_no(reader: &Reader, no: TenantNo) -> Result<Option<Tenant>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| tables::TENANT.select("WHERE no = ?1"));
    reader.query_one(&SQL, &[no.into()], rows::tenant)
}

pub(super) fn tenant_count(reader: &Reader) -> Result<i64, StoreError> {
    count(reader, "SELECT count(*) FROM tenant", &[])
}

pub(super) fn tenant_value(
    reader: &Reader,
    no: TenantNo,
    key: &str,
) -> Result<Option<TenantValue>, StoreError> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| tables::TENANT_VALUE.select("WHERE tenant = ?1 AND name = ?2"));
    reader.query_one(&SQL, &[no.into(), key.into()], rows::tenant_value)
}

pub(super) fn is_value_in_use(reader: &Reader, key: &str) -> Result<bool, StoreError> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM tenant_value \
         WHERE name = ?1 AND value IS NOT NULL LIMIT 1) AS found";
    Ok(count(reader, sql, &[key.into()])? > 0)
}

pub(super) fn user(reader: &Reader, username: &str) -> Result<Option<User>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| tables::APP_USER.select("WHERE username = ?1"));
    reader.query_one(&SQL, &[username.into()], rows::user)
}

pub(super) fn role(reader: &Reader, name: &str) -> Result<Option<Role>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| tables::ROLE.select("WHERE name = ?1"));
    reader.query_one(&SQL, &[name.into()], rows::role)
}

pub(super) fn roles(reader: &Reader) -> Result<Vec<Role>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| tables::ROLE.select("ORDER BY name"));
    reader.query(&SQL, &[], rows::role)
}
