//! Reads of accounts, each with the newest that is known of its person.

use std::sync::LazyLock;

use domain::account::blocking_state::BlockingState;
use domain::claim::ClaimKind;
use domain::{AccountId, Person, TenantId, TenantNo};
use engine::ports::{AccountQueries, AccountView, Page, Paged, Quarantined, StoreError};
use engine::text;
use uuid::Uuid;

use super::window::{Key, MATCHES_MAX};
use super::{SqlQueries, window};
use crate::driver::{Cells, Reader};
use crate::tables;
use crate::totals::Counted;

impl AccountQueries for SqlQueries {
    fn account(&self, no: TenantNo, id: AccountId) -> Result<Option<AccountView>, StoreError> {
        self.read(|reader| by_id(reader, no, id))
    }

    fn account_by_key(&self, no: TenantNo, key: &str) -> Result<Option<AccountView>, StoreError> {
        let key = &self.seek(no, ClaimKind::Account, key);
        self.snapshot(|reader| account_by_key(reader, key))
    }

    fn quarantined(&self, page: Page) -> Result<Vec<(TenantId, Quarantined)>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                format!(
                    "SELECT t.id, {} FROM quarantine q JOIN tenant t ON t.no = q.tenant \
                     ORDER BY q.tenant, q.account_id LIMIT ?1 OFFSET ?2",
                    tables::QUARANTINE.select_list("q.")
                )
            });
            let [limit, offset] = window::limit_offset(page);
            reader.query(&SQL, &[limit, offset], |cells| {
                Ok((cells.entity()?, tables::QUARANTINE.row(cells)?))
            })
        })
    }

    fn quarantined_by_id(&self, id: AccountId) -> Result<Vec<TenantNo>, StoreError> {
        let sql = "SELECT tenant FROM quarantine WHERE account_id = ?1 ORDER BY tenant";
        self.read(|reader| reader.query(sql, &[id.into()], |cells| cells.tenant()))
    }

    fn blocking_states(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<BlockingState>, StoreError> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| tables::BLOCKING_STATE.select(tables::BLOCKING_STATE.of_owner().rest));
        let of_account = [no.into(), account.into()];
        self.read(|reader| {
            reader.query(&SQL, &of_account, |cells| tables::BLOCKING_STATE.row(cells))
        })
    }

    fn accounts(&self, no: TenantNo, page: Page) -> Result<Paged<AccountView>, StoreError> {
        self.snapshot(|reader| {
            // The window comes first: rows that are skipped are not joined.
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let window =
                    tables::ACCOUNT.select("WHERE tenant = ?1 ORDER BY id LIMIT ?2 OFFSET ?3");
                select(&format!("({window})"), "ORDER BY a.id")
            });
            let [limit, offset] = window::limit_offset(page);
            let items = reader.query(&SQL, &[no.into(), limit, offset], view)?;
            let all = window::total(reader, no, Counted::Accounts, None)?;
            Ok(Paged { items, matching: all, all })
        })
    }

    fn children(
        &self,
        no: TenantNo,
        parent: AccountId,
        page: Page,
    ) -> Result<Vec<AccountView>, StoreError> {
        self.read(|reader| {
            // Found by `account_by_parent`, of the schema's version 2.
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let window = tables::ACCOUNT.select(
                    "WHERE tenant = ?1 AND parent_account_id = ?2 ORDER BY id LIMIT ?3 OFFSET ?4",
                );
                select(&format!("({window})"), "ORDER BY a.id")
            });
            let [limit, offset] = window::limit_offset(page);
            reader.query(&SQL, &[no.into(), parent.into(), limit, offset], view)
        })
    }

    fn accounts_named(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<AccountView>, StoreError> {
        let key = &self.seek(no, ClaimKind::Account, text);
        self.snapshot(|reader| {
            let by_key = account_by_key(reader, key)?.map(|it| it.account.id);
            let (email, id) = (text::folded(text), Uuid::try_parse(text).ok());
            let parameters =
                [no.into(), (&email).into(), id.into(), by_key.into(), MATCHES_MAX.into()];
            let all = window::total(reader, no, Counted::Accounts, None)?;
            window::find(reader, (NAMED, &parameters), page, all, |id| {
                by_id(reader, no, AccountId::new(id))
            })
        })
    }

    fn search_accounts(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<AccountView>, StoreError> {
        self.snapshot(|reader| {
            // People first, each on the revision that holds, then keys: no join of all with all.
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let [name, email, company] =
                    ["p.name", "p.email", "p.company"].map(|it| window::like(it, 2));
                let key = window::like("external_key", 2);
                format!(
                    "SELECT p.account_id AS id FROM account_person p WHERE p.tenant = ?1 \
                     AND ({name} OR {email} OR {company}) \
                     AND NOT EXISTS (SELECT 1 FROM account_person n \
                     WHERE n.tenant = p.tenant AND n.account_id = p.account_id AND n.seq > p.seq) \
                     UNION SELECT id FROM account WHERE tenant = ?1 AND {key} \
                     UNION SELECT id FROM account WHERE tenant = ?1 AND id = ?3 \
                     ORDER BY 1 LIMIT ?4"
                )
            });
            let (pattern, id) = (window::containing(text), Uuid::try_parse(text).ok());
            let parameters = [no.into(), (&pattern).into(), id.into(), MATCHES_MAX.into()];
            let all = window::total(reader, no, Counted::Accounts, None)?;
            window::find(reader, (&SQL, &parameters), page, all, |id| {
                by_id(reader, no, AccountId::new(id))
            })
        })
    }
}

/// The ids of accounts with an e-mail address, each on the revision that holds, with an id, and the one
/// that has a key.
const NAMED: &str = "SELECT p.account_id AS id FROM account_person p \
     WHERE p.tenant = ?1 AND coalesce(p.email_folded, lower(p.email)) = ?2 AND p.email IS NOT NULL \
     AND NOT EXISTS (SELECT 1 FROM account_person n \
     WHERE n.tenant = p.tenant AND n.account_id = p.account_id AND n.seq > p.seq) \
     UNION SELECT id FROM account WHERE tenant = ?1 AND id = ?3 \
     UNION SELECT id FROM account WHERE tenant = ?1 AND id = ?4 ORDER BY 1 LIMIT ?5";

static BY_ID: LazyLock<String> =
    LazyLock::new(|| select("account", "WHERE a.tenant = ?1 AND a.id = ?2"));

/// `SELECT` of accounts out of `from` with their people; `rest` follows.
fn select(from: &str, rest: &str) -> String {
    let accounts = tables::ACCOUNT.select_list("a.");
    let people = tables::ACCOUNT_PERSON.select_list("p.");
    format!(
        "SELECT {accounts}, {people} FROM {from} a LEFT JOIN account_person p \
         ON p.tenant = a.tenant AND p.account_id = a.id AND p.seq = \
         (SELECT max(n.seq) FROM account_person n WHERE n.tenant = a.tenant AND n.account_id = a.id) \
         {rest}"
    )
}

fn account_by_key(reader: &Reader, key: &Key<'_>) -> Result<Option<AccountView>, StoreError> {
    let Some((id, _)) = key.named(reader)? else { return Ok(None) };
    let found = by_id(reader, key.tenant, AccountId::new(id))?;
    // A user that is mapped to the account has a claim as well.
    let own = |it: &AccountView| match &it.account.external_key {
        Some(external_key) => external_key == key.text,
        None => it.account.id.to_string() == key.text,
    };
    Ok(found.filter(own))
}

fn view(cells: &mut Cells<'_>) -> Result<AccountView, StoreError> {
    let account = tables::ACCOUNT.row(cells)?;
    let person = if cells.next_is_null()? { Person::default() } else { tables::person(cells)?.2 };
    Ok(AccountView { account, person })
}

pub(super) fn by_id(
    reader: &Reader,
    no: TenantNo,
    id: AccountId,
) -> Result<Option<AccountView>, StoreError> {
    reader.query_one(&BY_ID, &[no.into(), id.into()], view)
}
