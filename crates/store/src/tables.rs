//! The catalogue of tables: what each row holds, and the SQL text that follows from it.
//!
//! Names of types are neutral here; a driver brings its [`Dialect`]. Every table whose rows belong
//! to a tenant starts its key with the tenant's number, and every id in a key is time-ordered, so
//! that new rows go where the last ones went. The exception is `claim`, whose key is a hash: see
//! `claims.rs`.

use std::fmt::Write as _;

mod control;
mod customers;
mod disputes;
mod entitlements;
mod flags;
mod import;
mod insights;
mod objects;
mod payments;
mod usage;
mod webhooks;

pub(crate) use control::OF_VERSION_5;
pub use control::{PAYMENT_ATTEMPT, PAYMENT_RULES, PAYMENT_VELOCITY};
pub use customers::{CUSTOMER, MAIL, OPERATION, SESSION};
pub(crate) use customers::{EXPIRING, GIVEN_UP, SETTLED, TO_NOTIFY, TO_SEND, WAITING};
pub use disputes::DISPUTE;
pub(crate) use disputes::OF_VERSION_12;
pub use entitlements::{ACCOUNT_USER, ENTITLEMENTS, FEATURE, OFFER, OFFER_VERSION, PURCHASE};
pub(crate) use entitlements::{OF_VERSION_17, OF_VERSION_18};
pub(crate) use flags::DUE;
pub use flags::{CHANGE_REQUEST, DEFINITION, ENVIRONMENT, ENVIRONMENT_SECRET};
pub(crate) use import::{AUDIT_IMPORTED, OF_VERSION_7};
pub use insights::{FLAG_INSIGHT, METRIC_INSIGHT};
pub use objects::{
    ACCOUNT_EMAIL, BLOCKING_STATE, CUSTOM_FIELD, CUSTOM_FIELD_VALUE, TAG, TAG_DEFINITION,
};
pub(crate) use objects::{CLOSING, OF_VERSION_3, OF_VERSION_4, SHOWN};
pub(crate) use payments::OF_VERSION_6;
pub(crate) use payments::OUTSTANDING_BEFORE_16;
pub(crate) use payments::{IN_RARE_STATE, UNRESOLVED};
pub use payments::{OUTSTANDING, PAYMENT, PAYMENT_TRANSACTION, POSTING, QUARANTINE, TIMER};
pub(crate) use usage::OF_VERSION_19;
pub use usage::{FEATURE_USAGE, USAGE_EVENT, USAGE_RESERVATION};
pub use webhooks::{DELIVERY, DELIVERY_TRY, ENDPOINT_HEALTH, REPLAY, REPLAY_PROGRESS};
pub(crate) use webhooks::{DELIVERY_BEFORE_10, LOG_TABLES, OF_VERSION_10};

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A 64-bit integer: numbers, times in microseconds, money in minor units, codes, 0 and 1.
    Int,
    /// Text in UTF-8.
    Text,
    /// A UUID, or another 16 bytes.
    Id,
    /// A floating-point number: a measurement, never money.
    Real,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether it keeps what the row was inserted with: an upsert leaves it out.
    pub fixed: bool,
    /// The version of the schema that added it to its table; `None` where it was made with the table.
    pub added: Option<i64>,
}

/// How a table is laid out where the database lets one choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In the order of its key.
    Clustered,
    /// By its key, one integer that is counted up; for rows that are large.
    Appended,
    /// As its rows come, with an index of its key; for rows that are large and have another key. To find a key in
    /// [`Layout::Clustered`], SQLite reads whole rows, also what of them lies on pages of its own.
    Indexed,
}

/// An index besides the key.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    pub name: &'static str,
    /// Names of columns or expressions of them, separated by commas.
    pub columns: &'static str,
    /// Whether the values of these columns are unique.
    pub unique: bool,
    /// The condition of a partial index, in SQL.
    pub only: Option<&'static str>,
}

#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// Its columns; the first `key_columns` of them are its primary key.
    pub columns: &'static [Column],
    /// How many of the first columns are the primary key.
    pub key_columns: usize,
    pub layout: Layout,
    /// Indexes besides the primary key.
    pub indexes: &'static [Index],
}

/// How a database spells the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The type of [`Kind::Int`].
    pub int: &'static str,
    /// The type of [`Kind::Text`].
    pub text: &'static str,
    /// The type of [`Kind::Id`].
    pub id: &'static str,
    /// The text before and the text behind the hexadecimal digits of an id in a statement.
    pub id_literal: (&'static str, &'static str),
    /// The type of [`Kind::Real`].
    pub real: &'static str,
    /// The text behind a table definition of [`Layout::Clustered`].
    pub clustered: &'static str,
    /// The text behind a table definition of any other [`Layout`].
    pub unclustered: &'static str,
    /// The character before a parameter's number.
    pub parameter: char,
}

impl Dialect {
    /// The type of a kind.
    const fn of(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Int => self.int,
            Kind::Text => self.text,
            Kind::Id => self.id,
            Kind::Real => self.real,
        }
    }

    /// An id in a statement.
    pub(crate) fn id_literal(&self, id: uuid::Uuid) -> String {
        let (before, behind) = self.id_literal;
        format!("{before}{}{behind}", id.simple())
    }
}

pub(crate) const fn int(name: &'static str) -> Column {
    Column { name, kind: Kind::Int, nullable: false, fixed: false, added: None }
}
pub(crate) const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text, nullable: false, fixed: false, added: None }
}
pub(crate) const fn id(name: &'static str) -> Column {
    Column { name, kind: Kind::Id, nullable: false, fixed: false, added: None }
}

/// A text as searches compare it, where that is not what SQL's `lower` gives: see `rows/folded.rs`.
pub(crate) const fn folded(name: &'static str) -> Column {
    text(name).added(20)
}

pub(crate) const fn real(name: &'static str) -> Column {
    Column { name, kind: Kind::Real, nullable: false, fixed: false, added: None }
}

/// The check value of a row's key and the columns that an upsert leaves out: see `driver/check.rs`.
pub(crate) const CHECK_MADE: Column = int("check_made").fixed();
/// The check value of a row's key and the columns that change.
pub(crate) const CHECK_NOW: Column = int("check_now");
/// How many columns of a checked table's row are check values: its last.
pub(crate) const CHECKS: usize = 2;

impl Column {
    const fn null(self) -> Self {
        Self { nullable: true, ..self }
    }
    const fn fixed(self) -> Self {
        Self { fixed: true, ..self }
    }
    /// One that a version added: NULL in the rows that were there.
    const fn added(self, version: i64) -> Self {
        Self { nullable: true, added: Some(version), ..self }
    }
}

pub(crate) const fn index(name: &'static str, columns: &'static str) -> Index {
    Index { name, columns, unique: false, only: None }
}
pub(super) const fn unique(name: &'static str, columns: &'static str) -> Index {
    Index { name, columns, unique: true, only: None }
}

/// The common properties of most tables: two columns are the key, and rows lie in its order.
const CLUSTERED: Table =
    Table { name: "", columns: &[], key_columns: 2, layout: Layout::Clustered, indexes: &[] };

/// The one row of what belongs to the installation: the key of `driver/check.rs`.
pub static INSTALLATION: Table = Table {
    name: "installation",
    columns: &[int("id"), id("check_key"), CHECK_MADE, CHECK_NOW],
    key_columns: 1,
    layout: Layout::Clustered,
    indexes: &[],
};

/// Who owns a partition, what it hands out next, and how far it has read its queue, where it has one
/// that keeps what was read. `claims_end` and `claims_after` say how far [`CLAIM_RECENT`] is
/// compacted.
pub static PARTITION: Table = Table {
    name: "partition",
    columns: &[
        int("id"),
        int("epoch"),
        int("next_seq"),
        int("payment_number"),
        int("tenant_no"),
        int("queue_offset").null(),
        int("claims_end").null(),
        id("claims_after").null(),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 1,
    layout: Layout::Clustered,
    indexes: &[],
};

/// Every accepted command: history, audit and outbox in one row. Only ever appended to. `changes`
/// and `events` are JSON lists, NULL where there are none; see [`crate::journal`]. `chain` is the hash
/// of the row and of all before it in its partition, and stays the last column.
pub static JOURNAL: Table = Table {
    name: "journal",
    columns: &[
        int("seq"),
        int("at_us"),
        int("committed_at_us"),
        int("tenant"),
        id("account_id").null(),
        id("request_id"),
        text("command"),
        id("actor"),
        id("token"),
        text("changes").null(),
        text("events").null(),
        text("chain"),
    ],
    key_columns: 1,
    layout: Layout::Appended,
    indexes: &[],
};

/// Who made changes and why, named by the journal's `actor`; see `actors.rs`. `account_id` is all
/// zeros where the journal row is about no account; `salt` is NULL once the texts were erased. The
/// actor who made an account is in the account's own row.
pub static ACTOR: Table = Table {
    name: "actor",
    columns: &[
        int("tenant"),
        id("account_id"),
        id("id"),
        id("salt").null(),
        text("user_name"),
        text("created_by"),
        text("reason").null(),
        text("comments").null(),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[],
};

pub static TENANT: Table = Table {
    name: "tenant",
    columns: &[
        int("no"),
        id("id").fixed(),
        text("external_key").null(),
        text("api_key"),
        text("secret_hash"),
        text("previous_secret_hash").null(),
        int("previous_secret_until_us").null(),
        int("is_active"),
        int("created_at_us").fixed(),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 1,
    layout: Layout::Clustered,
    indexes: &[unique("tenant_by_id", "id"), unique("tenant_by_api_key", "api_key")],
};

/// Values that tenants store, one per name.
pub static TENANT_VALUE: Table = Table {
    name: "tenant_value",
    columns: &[
        int("tenant"),
        text("name"),
        id("id").fixed(),
        text("value").null(),
        int("seq"),
        int("counted_bytes"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[
        Index { only: Some("value IS NOT NULL"), ..index("tenant_value_in_use", "name, tenant") },
        Index {
            only: Some("value IS NOT NULL"),
            ..index("tenant_value_bytes", "tenant, counted_bytes")
        },
    ],
    ..CLUSTERED
};

pub static APP_USER: Table = Table {
    name: "app_user",
    columns: &[
        text("username"),
        text("password_hash"),
        text("roles"),
        int("active"),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 1,
    layout: Layout::Clustered,
    indexes: &[],
};

pub static ROLE: Table = Table {
    name: "role",
    columns: &[text("name"), text("permissions"), int("seq")],
    key_columns: 1,
    layout: Layout::Clustered,
    indexes: &[],
};

/// Accounts, without what is known of the person.
pub static ACCOUNT: Table = Table {
    name: "account",
    columns: &[
        int("tenant"),
        id("id"),
        text("external_key").null(),
        text("currency").null(),
        int("bill_cycle_day_local"),
        id("parent_account_id").null(),
        int("is_payment_delegated_to_parent"),
        id("payment_method_id").null(),
        id("external_payment_method").null(),
        int("reference_time_us").fixed(),
        text("time_zone").fixed(),
        int("is_migrated").null(),
        int("created_at_us").fixed(),
        int("updated_at_us"),
        int("erased_at_us").null(),
        int("seq"),
        id("actor").null().fixed(),
        id("actor_salt").null().fixed(),
        text("actor_user").null().fixed(),
        text("actor_created_by").null().fixed(),
        text("actor_reason").null().fixed(),
        text("actor_comments").null().fixed(),
        folded("external_key_folded"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    ..CLUSTERED
};

/// Personal data: a row for each revision of the account that changed it. The newest one holds.
pub static ACCOUNT_PERSON: Table = Table {
    name: "account_person",
    columns: &[
        int("tenant"),
        id("account_id"),
        int("seq"),
        text("name").null(),
        int("first_name_length").null(),
        text("email").null(),
        text("address1").null(),
        text("address2").null(),
        text("postal_code").null(),
        text("company").null(),
        text("city").null(),
        text("state").null(),
        text("country").null(),
        text("locale").null(),
        text("phone").null(),
        text("notes").null(),
        folded("name_folded"),
        folded("email_folded"),
        folded("company_folded"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[Index {
        only: Some("email IS NOT NULL"),
        ..index("account_person_by_folded_email", "tenant, coalesce(email_folded, lower(email))")
    }],
};

/// [`ACCOUNT_PERSON`] as the schema's versions 1 to 19 had it.
pub(crate) static ACCOUNT_PERSON_BEFORE_20: Table = Table {
    indexes: &[Index {
        only: Some("email IS NOT NULL"),
        ..index("account_person_by_email", "tenant, lower(email)")
    }],
    ..ACCOUNT_PERSON
};

/// Payment methods, deleted ones too, and those that their gateway has not attached. The codes of `step` are in
/// `rows/payment_methods.rs`.
pub static PAYMENT_METHOD: Table = Table {
    name: "payment_method",
    columns: &[
        int("tenant"),
        id("id"),
        id("account_id").fixed(),
        text("external_key").null().fixed(),
        text("gateway").fixed(),
        text("external_payment_method_id").null(),
        text("properties").null(),
        int("active"),
        int("created_at_us").fixed(),
        int("updated_at_us"),
        text("merchant_account").added(13).fixed(),
        int("step").added(13),
        int("step_deadline_us").added(13),
        int("step_asked").added(13),
        id("step_reply").added(13),
        int("seq"),
        folded("external_key_folded"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[
        index("payment_method_by_account", "tenant, account_id, id"),
        index("payment_method_by_gateway", "tenant, gateway, active, id"),
    ],
    ..CLUSTERED
};

/// Taken keys, by hash (see [`crate::rows::claim_hash`]): uniqueness is decided here.
pub static CLAIM: Table = Table {
    name: "claim",
    columns: &[id("key_hash"), int("tenant"), int("kind"), id("owner"), id("account_id").null()],
    key_columns: 1,
    layout: Layout::Clustered,
    indexes: &[],
};

/// Claims that may not be in `claim` yet, in the order in which they were made: the last of those
/// with one hash holds. Only an embedded database has rows here: see `claims.rs`.
pub static CLAIM_RECENT: Table = Table {
    name: "claim_recent",
    columns: &[
        int("n"),
        id("key_hash"),
        int("tenant"),
        int("kind"),
        id("owner"),
        id("account_id").null(),
    ],
    key_columns: 1,
    layout: Layout::Appended,
    indexes: &[],
};

/// Tables whose rows have their id from the request that makes them.
pub(crate) static MADE_BY_REQUESTS: [&str; 14] = [
    ACCOUNT.name,
    PAYMENT_METHOD.name,
    PAYMENT.name,
    PAYMENT_TRANSACTION.name,
    MAIL.name,
    OPERATION.name,
    CUSTOM_FIELD.name,
    ACCOUNT_EMAIL.name,
    BLOCKING_STATE.name,
    TAG_DEFINITION.name,
    PAYMENT_ATTEMPT.name,
    DISPUTE.name,
    PURCHASE.name,
    USAGE_RESERVATION.name,
];

/// Stored replies; `answer` is NULL while the request runs or its outcome is in doubt.
pub static REPLY: Table = Table {
    name: "reply",
    columns: &[
        id("key"),
        id("fingerprint"),
        text("answer").null(),
        int("expires_at_us"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 1,
    layout: Layout::Clustered,
    indexes: &[index("reply_by_expiry", "expires_at_us")],
};

/// How far each follower of a partition's journal has come.
pub static FOLLOWER: Table = Table {
    name: "follower",
    columns: &[text("name"), int("partition"), int("upto"), CHECK_MADE, CHECK_NOW],
    ..CLUSTERED
};

/// Totals of lists, kept: see [`crate::totals::Counted`] for the names. `gateway` is empty where
/// it does not matter. Each partition has rows of its own: a total is the sum of them.
pub static COUNTER: Table = Table {
    name: "counter",
    columns: &[
        int("tenant"),
        text("name"),
        text("gateway"),
        int("partition"),
        int("value"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 4,
    layout: Layout::Clustered,
    indexes: &[],
};

/// The sums of debits and credits of each account of the chart in a partition. Sums are decimal
/// texts: they may leave 64 bits.
pub static LEDGER_TOTAL: Table = Table {
    name: "ledger_total",
    columns: &[
        int("tenant"),
        int("account"),
        text("gateway"),
        text("currency"),
        int("partition"),
        text("debit_minor"),
        text("credit_minor"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 5,
    layout: Layout::Clustered,
    indexes: &[],
};

/// Which migrations were run.
pub static MIGRATION: Table = Table {
    name: "migration",
    columns: &[int("version"), text("checksum")],
    key_columns: 1,
    layout: Layout::Clustered,
    indexes: &[],
};

/// Control tags of accounts, as the schema's first two versions had them. [`TAG`] took their place.
pub(crate) static CONTROL_TAG_BEFORE_3: Table = Table {
    name: "tag",
    columns: &[
        int("tenant"),
        id("account_id"),
        int("definition"),
        id("id").fixed(),
        int("active"),
        int("created_at_us"),
        int("seq"),
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[unique("tag_by_id", "tenant, id")],
};

/// Every table.
pub static TABLES: &[&Table] = &[
    &MIGRATION,
    &INSTALLATION,
    &PARTITION,
    &JOURNAL,
    &ACTOR,
    &TENANT,
    &TENANT_VALUE,
    &APP_USER,
    &ROLE,
    &ACCOUNT,
    &ACCOUNT_PERSON,
    &PAYMENT_METHOD,
    &PAYMENT,
    &PAYMENT_TRANSACTION,
    &POSTING,
    &CLAIM,
    &CLAIM_RECENT,
    &OUTSTANDING,
    &TIMER,
    &QUARANTINE,
    &REPLY,
    &FOLLOWER,
    &DELIVERY,
    &COUNTER,
    &LEDGER_TOTAL,
    &ENVIRONMENT,
    &ENVIRONMENT_SECRET,
    &DEFINITION,
    &CHANGE_REQUEST,
    &FLAG_INSIGHT,
    &METRIC_INSIGHT,
    &TAG,
    &CUSTOMER,
    &SESSION,
    &MAIL,
    &OPERATION,
    &CUSTOM_FIELD,
    &CUSTOM_FIELD_VALUE,
    &TAG_DEFINITION,
    &ACCOUNT_EMAIL,
    &BLOCKING_STATE,
    &PAYMENT_RULES,
    &PAYMENT_ATTEMPT,
    &PAYMENT_VELOCITY,
    &AUDIT_IMPORTED,
    &DELIVERY_TRY,
    &ENDPOINT_HEALTH,
    &REPLAY,
    &REPLAY_PROGRESS,
    &DISPUTE,
    &FEATURE,
    &OFFER,
    &OFFER_VERSION,
    &PURCHASE,
    &ENTITLEMENTS,
    &ACCOUNT_USER,
    &FEATURE_USAGE,
    &USAGE_EVENT,
    &USAGE_RESERVATION,
];

/// The tables of insights.
pub(crate) static INSIGHT_TABLES: &[&Table] = &[&FLAG_INSIGHT, &METRIC_INSIGHT];

/// The statements that make these tables and their indexes.
#[must_use]
pub fn ddl(tables: &[&Table], dialect: &Dialect) -> String {
    let mut sql = String::new();
    for table in tables {
        table.write_ddl(dialect, &mut sql).expect("a String takes everything");
    }
    sql
}

/// The statements that add what a version added to tables of earlier ones.
pub(crate) fn added_columns(version: i64, dialect: &Dialect) -> String {
    let mut sql = String::new();
    for table in TABLES {
        for column in table.columns.iter().filter(|it| it.added == Some(version)) {
            let (kind, name) = (dialect.of(column.kind), column.name);
            writeln!(sql, "ALTER TABLE {} ADD COLUMN {name} {kind};", table.name)
                .expect("a String takes everything");
        }
    }
    sql
}

impl Index {
    fn write_ddl(&self, table: &Table, sql: &mut String) -> std::fmt::Result {
        let unique = if self.unique { "UNIQUE " } else { "" };
        let only = self.only.map(|only| format!(" WHERE {only}")).unwrap_or_default();
        let (name, table, columns) = (self.name, table.name, self.columns);
        writeln!(sql, "CREATE {unique}INDEX {name} ON {table} ({columns}){only};")
    }
}

impl Table {
    /// Its columns' names, separated by commas, each after `prefix` (such as `a.`).
    #[must_use]
    pub fn select_list(&self, prefix: &str) -> String {
        let names: Vec<String> =
            self.columns.iter().map(|column| format!("{prefix}{}", column.name)).collect();
        names.join(", ")
    }

    /// The names of its primary key's columns, separated by commas.
    #[must_use]
    pub fn key_list(&self) -> String {
        let names: Vec<&str> =
            self.columns[..self.key_columns].iter().map(|column| column.name).collect();
        names.join(", ")
    }

    /// `SELECT` of all columns, in order, with `rest` (such as a WHERE clause) behind.
    #[must_use]
    pub fn select(&self, rest: &str) -> String {
        format!("SELECT {} FROM {} {rest}", self.select_list(""), self.name)
    }

    /// `INSERT` of one row: one parameter per column.
    #[must_use]
    pub fn insert(&self, dialect: &Dialect) -> String {
        let parameters: Vec<String> =
            (1..=self.columns.len()).map(|n| format!("{}{n}", dialect.parameter)).collect();
        let (name, columns) = (self.name, self.select_list(""));
        format!("INSERT INTO {name} ({columns}) VALUES ({})", parameters.join(", "))
    }

    /// `INSERT` of one row, or the change of what is not fixed where there is one with its key.
    #[must_use]
    pub fn upsert(&self, dialect: &Dialect) -> String {
        format!("{} {}", self.insert(dialect), self.on_conflict())
    }

    /// The change of what is not fixed in a row that is there: parameters are its key, then those columns.
    #[must_use]
    pub fn update(&self, dialect: &Dialect) -> String {
        let (key, rest) = self.columns.split_at(self.key_columns);
        let assigned = |columns: &mut dyn Iterator<Item = &Column>, first: usize| {
            let each = columns.zip(first..);
            let each = each.map(|(it, n)| format!("{} = {}{n}", it.name, dialect.parameter));
            each.collect::<Vec<_>>()
        };
        let key = assigned(&mut key.iter(), 1);
        let set = assigned(&mut rest.iter().filter(|it| !it.fixed), key.len() + 1);
        format!("UPDATE {} SET {} WHERE {}", self.name, set.join(", "), key.join(" AND "))
    }

    /// The end of a `SELECT` of the next rows in the order of the key: those behind the key that the first parameters
    /// give, where `is_behind`; at most `limit`.
    pub(crate) fn next_rows(&self, is_behind: bool, limit: usize) -> String {
        let names: Vec<&str> = self.columns[..self.key_columns].iter().map(|it| it.name).collect();
        let names = names.join(", ");
        let key: Vec<String> = (1..=self.key_columns).map(|n| format!("?{n}")).collect();
        let behind = match is_behind {
            true => format!("WHERE ({names}) > ({}) ", key.join(", ")),
            false => String::new(),
        };
        format!("{behind}ORDER BY {names} LIMIT {limit}")
    }

    /// Whether its rows end with check values: see `driver/check.rs`.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.columns.last().is_some_and(|column| column.name == CHECK_NOW.name)
    }

    /// The end of an `INSERT` that updates the columns that are not fixed where there is a row with the key.
    pub(crate) fn on_conflict(&self) -> String {
        let (key, rest) = self.columns.split_at(self.key_columns);
        let key: Vec<&str> = key.iter().map(|column| column.name).collect();
        let set: Vec<String> = rest
            .iter()
            .filter(|column| !column.fixed)
            .map(|column| format!("{0} = excluded.{0}", column.name))
            .collect();
        format!("ON CONFLICT ({}) DO UPDATE SET {}", key.join(", "), set.join(", "))
    }

    fn write_ddl(&self, dialect: &Dialect, sql: &mut String) -> std::fmt::Result {
        writeln!(sql, "CREATE TABLE {} (", self.name)?;
        for column in self.columns.iter().filter(|it| it.added.is_none()) {
            let kind = dialect.of(column.kind);
            let constraint = if column.nullable { "" } else { " NOT NULL" };
            writeln!(sql, "    {} {kind}{constraint},", column.name)?;
        }
        let key: Vec<&str> =
            self.columns[..self.key_columns].iter().map(|column| column.name).collect();
        writeln!(sql, "    PRIMARY KEY ({})", key.join(", "))?;
        let tail = match self.layout {
            Layout::Clustered => dialect.clustered,
            Layout::Appended | Layout::Indexed => dialect.unclustered,
        };
        writeln!(sql, "){tail};")?;
        for index in self.indexes {
            index.write_ddl(self, sql)?;
        }
        writeln!(sql)
    }
}

#[cfg(test)]
mod tests;
