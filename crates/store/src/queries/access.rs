//! Reads of tenants, their values, users and roles.

use std::sync::LazyLock;

use domain::Seq;
use domain::access::{Role, User};
use engine::ports::{AccessQueries, StoreError};

use super::SqlQueries;
use crate::{rows, tables};

impl AccessQueries for SqlQueries {
    fn user(&self, username: &str) -> Result<Option<User>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::APP_USER.select("WHERE username = ?1"));
            reader.query_one(&SQL, &[username.into()], rows::user)
        })
    }

    fn role(&self, name: &str) -> Result<Option<Role>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| tables::ROLE.select("WHERE name = ?1"));
            reader.query_one(&SQL, &[name.into()], rows::role)
        })
    }

    fn roles(&self) -> Result<Vec<Role>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| tables::ROLE.select("ORDER BY name"));
            reader.query(&SQL, &[], rows::role)
        })
    }

    fn access_head(&self) -> Result<Seq, StoreError> {
        let sql = "SELECT coalesce(max(seq), 0) FROM (SELECT max(seq) AS seq FROM app_user \
                   UNION ALL SELECT max(seq) FROM role UNION ALL SELECT max(seq) FROM tenant \
                   UNION ALL SELECT max(seq) FROM tenant_value) AS heads";
        self.read(|reader| Ok(reader.query_one(sql, &[], |cells| cells.seq())?.unwrap_or_default()))
    }
}
