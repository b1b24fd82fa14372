//! Reads of tenants, their values, users and roles.

use std::sync::LazyLock;

use domain::Seq;
use domain::access::{Role, User};
use engine::ports::{AccessQueries, Page, StoreError, UserView};

use super::{SqlQueries, window};
use crate::driver::Cells;
use crate::tables;

impl AccessQueries for SqlQueries {
    fn user(&self, username: &str) -> Result<Option<User>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::APP_USER.select("WHERE username = ?1"));
            reader.query_one(&SQL, &[username.into()], |cells| tables::APP_USER.row(cells))
        })
    }

    fn users(&self, page: Page) -> Result<Vec<UserView>, StoreError> {
        let sql = "SELECT u.username, u.roles, u.active, j.at_us FROM app_user u \
                   JOIN journal j ON j.seq = u.seq ORDER BY u.username LIMIT ?1 OFFSET ?2";
        self.read(|reader| reader.query(sql, &window::limit_offset(page), user_view))
    }

    fn role(&self, name: &str) -> Result<Option<Role>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| tables::ROLE.select("WHERE name = ?1"));
            reader.query_one(&SQL, &[name.into()], |cells| tables::ROLE.row(cells))
        })
    }

    fn roles(&self) -> Result<Vec<Role>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| tables::ROLE.select("ORDER BY name"));
            reader.query(&SQL, &[], |cells| tables::ROLE.row(cells))
        })
    }

    fn access_head(&self) -> Result<Seq, StoreError> {
        let sql = "SELECT coalesce(max(seq), 0) FROM (SELECT max(seq) AS seq FROM app_user \
                   UNION ALL SELECT max(seq) FROM role UNION ALL SELECT max(seq) FROM tenant \
                   UNION ALL SELECT max(seq) FROM tenant_value) AS heads";
        self.read(|reader| Ok(reader.query_one(sql, &[], |cells| cells.seq())?.unwrap_or_default()))
    }
}

fn user_view(cells: &mut Cells<'_>) -> Result<UserView, StoreError> {
    cells.of(&tables::APP_USER);
    Ok(UserView {
        username: cells.string()?,
        roles: cells.json()?,
        active: cells.flag()?,
        updated_at: cells.time()?,
    })
}
