//! The texts of those who made changes: each row, and each account's own actor, is the one that the journal
//! names, unless it was erased with its account.

use std::sync::LazyLock;

use engine::ports::StoreError;
use uuid::Uuid;

use super::{Report, each_row};
use crate::actors::Texts;
use crate::driver::Reader;
use crate::tables::{ACCOUNT, ACTOR, JOURNAL};

static ROWS: LazyLock<String> = LazyLock::new(|| ACTOR.select(""));

const MAKERS: &str = "SELECT tenant, id, actor, actor_salt, actor_user, actor_created_by, actor_reason, \
                      actor_comments FROM account WHERE actor IS NOT NULL";

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut erased = reader.load(
        "SELECT erased_at_us FROM account WHERE tenant = ?1 AND id = ?2 AND erased_at_us IS NOT NULL",
    )?;
    for (table, sql) in [(&ACTOR, ROWS.as_str()), (&ACCOUNT, MAKERS)] {
        each_row(reader, report, (table, sql), |cells, report| {
            cells.of(table);
            let (tenant, account, id) = (cells.tenant()?, cells.id()?, cells.id()?);
            let salt = cells.opt_id()?;
            let texts = Texts::read(cells)?;
            match salt {
                Some(salt) if texts.id(salt.into_bytes()) == id.into_bytes() => {}
                Some(_) => report.problem(ACTOR.name, id, "is not what was written"),
                None => {
                    let key = [tenant.into(), account.into()];
                    if erased.first(&key, |cells| cells.int())?.is_none() {
                        report.problem(ACTOR.name, id, "is erased, and its account is not");
                    }
                }
            }
            Ok(())
        })?;
    }
    let sql = "SELECT j.seq FROM journal j WHERE NOT EXISTS (SELECT 1 FROM actor a \
               WHERE a.tenant = j.tenant AND a.account_id = coalesce(j.account_id, ?1) \
               AND a.id = j.actor) AND NOT EXISTS (SELECT 1 FROM account m \
               WHERE m.tenant = j.tenant AND m.id = j.account_id AND m.actor = j.actor)";
    reader.walk(sql, &[Uuid::nil().into()], |cells| {
        report.problem(JOURNAL.name, cells.int()?, "names an actor that is not there");
        Ok(())
    })
}
