//! The store's own tables: the installation, partitions, the journal with its actors, followers and totals.

use super::{CHECKED, CLUSTERED, Layout, Table, id, int, text};

/// The one row of what belongs to the installation: the key of `driver/check.rs`.
pub static INSTALLATION: Table =
    Table { name: "installation", key_columns: 1, ..CHECKED }.of(&[int("id"), id("check_key")]);

/// Who owns a partition, what it hands out next, and how far it has read its queue, where it has one
/// that keeps what was read. `claims_end` and `claims_after` say how far [`crate::tables::CLAIM_RECENT`] is
/// compacted.
pub static PARTITION: Table = Table { name: "partition", key_columns: 1, ..CHECKED }.of(&[
    int("id"),
    int("epoch"),
    int("next_seq"),
    int("payment_number"),
    int("tenant_no"),
    int("queue_offset").null(),
    int("claims_end").null(),
    id("claims_after").null(),
]);

/// Every accepted command: history, audit and outbox in one row. Only ever appended to. `changes`
/// and `events` are JSON lists, NULL where there are none; see [`crate::journal`]. `chain` is the hash
/// of the row and of all before it in its partition, and stays the last column.
pub static JOURNAL: Table =
    Table { name: "journal", key_columns: 1, layout: Layout::Appended, ..CLUSTERED }.of(&[
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
    ]);

/// Who made changes and why, named by the journal's `actor`; see `actors.rs`. `account_id` is all
/// zeros where the journal row is about no account; `salt` is NULL once the texts were erased. The
/// actor who made an account is in the account's own row.
pub static ACTOR: Table =
    Table { name: "actor", key_columns: 3, exported: &["id"], ..CHECKED }.of(&[
        int("tenant"),
        id("account_id"),
        id("id"),
        id("salt").null(),
        text("user_name"),
        text("created_by"),
        text("reason").null(),
        text("comments").null(),
    ]);

/// How far each follower of a partition's journal has come.
pub static FOLLOWER: Table =
    Table { name: "follower", ..CHECKED }.of(&[text("name"), int("partition"), int("upto")]);

/// Totals of lists, kept: see [`crate::totals::Counted`] for the names. `gateway` is empty where
/// it does not matter. Each partition has rows of its own: a total is the sum of them.
pub static COUNTER: Table = Table { name: "counter", key_columns: 4, ..CHECKED }.of(&[
    int("tenant"),
    text("name"),
    text("gateway"),
    int("partition"),
    int("value"),
]);

/// The sums of debits and credits of each account of the chart in a partition. Sums are decimal
/// texts: they may leave 64 bits.
pub static LEDGER_TOTAL: Table = Table { name: "ledger_total", key_columns: 5, ..CHECKED }.of(&[
    int("tenant"),
    int("account"),
    text("gateway"),
    text("currency"),
    int("partition"),
    text("debit_minor"),
    text("credit_minor"),
]);

/// Which migrations were run.
pub static MIGRATION: Table = Table { name: "migration", key_columns: 1, ..CLUSTERED }
    .of(&[int("version"), text("checksum")]);
