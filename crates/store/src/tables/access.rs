//! Users of the API and their roles.

use domain::access::{Role, User};

use super::{CHECKS, CLUSTERED, Table, int, text};
use crate::stored::{ColumnsOf, TableOf, checked, shape};

const APP_USER_COLUMNS: ColumnsOf<User> = &[
    text("username").of(|it, _| (&it.username).into()),
    text("password_hash").of(|it, _| (&it.password_hash).into()),
    text("roles").of(|it, cx| cx.json(&it.roles)),
    int("active").of(|it, _| it.active.into()),
    int("seq").of(|it, _| it.revision.seq.into()),
];

pub static APP_USER: TableOf<User> = TableOf::new(
    Table {
        name: "app_user",
        columns: &checked::<_, { APP_USER_COLUMNS.len() + CHECKS }>(APP_USER_COLUMNS),
        key_columns: 1,
        ..CLUSTERED
    },
    APP_USER_COLUMNS,
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

const ROLE_COLUMNS: ColumnsOf<Role> = &[
    text("name").of(|it, _| (&it.name).into()),
    text("permissions").of(|it, cx| cx.json(&it.permissions)),
    int("seq").of(|it, _| it.revision.seq.into()),
];

pub static ROLE: TableOf<Role> = TableOf::new(
    Table {
        name: "role",
        columns: &shape::<_, { ROLE_COLUMNS.len() }>(ROLE_COLUMNS),
        key_columns: 1,
        ..CLUSTERED
    },
    ROLE_COLUMNS,
    |cells| {
        Ok(Role { name: cells.string()?, permissions: cells.json()?, revision: cells.revision()? })
    },
);
