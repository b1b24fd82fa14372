//! Users of the API and their roles.

use domain::access::{Role, User};

use super::{CHECKED, CLUSTERED, Table, int, text};
use crate::stored::TableOf;

pub static APP_USER: TableOf<User> = TableOf::new(
    Table { name: "app_user", key_columns: 1, ..CHECKED },
    &[
        text("username").of(|it, _| (&it.username).into()),
        text("password_hash").of(|it, _| (&it.password_hash).into()),
        text("roles").of(|it, cx| cx.json(&it.roles)),
        int("active").of(|it, _| it.active.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(User {
            username: cells.string()?,
            password_hash: cells.string()?,
            roles: cells.json()?,
            active: cells.flag()?,
            revision: cells.revision()?,
        })
    },
);

pub static ROLE: TableOf<Role> = TableOf::new(
    Table { name: "role", key_columns: 1, ..CLUSTERED },
    &[
        text("name").of(|it, _| (&it.name).into()),
        text("permissions").of(|it, cx| cx.json(&it.permissions)),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Role { name: cells.string()?, permissions: cells.json()?, revision: cells.revision()? })
    },
);
