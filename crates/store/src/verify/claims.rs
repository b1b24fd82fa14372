//! Claimed keys against those who have them, both ways.

use std::sync::LazyLock;

use domain::claim::{Claim, ClaimKey, ClaimKind};
use engine::ports::StoreError;
use uuid::Uuid;

use super::{Report, each_row};
use crate::claims::{RecentClaims, read_recent};
use crate::driver::{Cells, Reader, Value};
use crate::tables::Claimed;
use crate::tables::{self, ClaimHash, claim_hash};
use crate::tables::{
    ACCOUNT, ACCOUNT_USER, BUNDLE, CLAIM, CLAIM_RECENT, CUSTOMER, DISPUTE, ENVIRONMENT, PAYMENT,
    PAYMENT_METHOD, PAYMENT_TRANSACTION, TAG_DEFINITION, TENANT, Table,
};

static CLAIMS: LazyLock<String> = LazyLock::new(|| CLAIM.select("ORDER BY key_hash"));

/// Each query yields, of a claim's owner: the account, and a key that it has.
const ACCOUNT_KEYS: &str =
    "SELECT id, external_key, erased_at_us FROM account WHERE tenant = ?1 AND id = ?2";
const USER_KEY: &str = "SELECT account_id, key FROM account_user \
     WHERE tenant = ?1 AND account_id = ?2 AND key_hash = ?3";
const METHOD_KEYS: &str =
    "SELECT account_id, external_key FROM payment_method WHERE tenant = ?1 AND id = ?2";
const PAYMENT_KEYS: &str =
    "SELECT account_id, external_key FROM payment WHERE tenant = ?1 AND id = ?2";
const TRANSACTION_KEYS: &str = "SELECT account_id, external_key FROM payment_transaction \
     WHERE tenant = ?1 AND payment_id = ?2";
const ENVIRONMENT_KEYS: &str =
    "SELECT NULL, project || '/' || key FROM environment WHERE tenant = ?1 AND id = ?2";
const CUSTOMER_KEYS: &str =
    "SELECT account_id, email_key FROM customer WHERE tenant = ?1 AND id = ?2";
const TAG_DEFINITION_KEYS: &str =
    "SELECT NULL, name FROM tag_definition WHERE tenant = ?1 AND id = ?2 AND active = 1";
const DISPUTE_KEYS: &str =
    "SELECT account_id, gateway || '/' || case_id FROM dispute WHERE tenant = ?1 AND id = ?2";
const BUNDLE_KEYS: &str =
    "SELECT account_id, external_key FROM bundle WHERE tenant = ?1 AND id = ?2";
const TENANT_KEYS: &str = "SELECT NULL, api_key, id FROM tenant WHERE id = ?2 AND ?1 = 0";

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let recent = read_recent(reader)?;
    let check = |report: &mut Report, table: &Table, hash: ClaimHash, claimed: &Claimed| {
        report.claims += 1;
        if claimed.is_released() {
            if claimed.claim.account.is_some() {
                let what = "is released, and names an account".to_owned();
                report.problem(table.name, Uuid::from_bytes(hash), what);
            }
        } else if !owner_has_key(reader, hash, claimed)? {
            let what = format!("{:?} {} does not have this key", claimed.kind, claimed.claim.owner);
            report.problem(table.name, Uuid::from_bytes(hash), what);
        }
        Ok(())
    };
    for (hash, claimed) in &recent {
        check(report, &CLAIM_RECENT, *hash, claimed)?;
    }
    each_row(reader, report, (&CLAIM, &CLAIMS), |cells, report| {
        let (hash, claimed) = tables::claim(cells)?;
        // One that is recent too was merged already, or is not what holds.
        if recent.contains_key(&hash) { Ok(()) } else { check(report, &CLAIM, hash, &claimed) }
    })?;
    verify_keys(reader, &RecentClaims::of(recent), report)
}

fn owner_has_key(
    reader: &Reader,
    hash: ClaimHash,
    &Claimed { tenant, kind, claim }: &Claimed,
) -> Result<bool, StoreError> {
    let sql = match kind {
        ClaimKind::Account => ACCOUNT_KEYS,
        ClaimKind::PaymentMethod => METHOD_KEYS,
        ClaimKind::Payment => PAYMENT_KEYS,
        ClaimKind::Transaction => TRANSACTION_KEYS,
        ClaimKind::Environment => ENVIRONMENT_KEYS,
        ClaimKind::CustomerEmail => CUSTOMER_KEYS,
        ClaimKind::TagDefinition => TAG_DEFINITION_KEYS,
        ClaimKind::TenantApiKey | ClaimKind::TenantId => TENANT_KEYS,
        ClaimKind::Dispute => DISPUTE_KEYS,
        ClaimKind::Bundle => BUNDLE_KEYS,
        // Its owner is of one of many tables.
        ClaimKind::ImportedId => {
            let key = claim.owner.to_string();
            return Ok(claim_hash(&ClaimKey { tenant, kind, key }) == hash);
        }
    };
    let mut found = false;
    reader.for_each(sql, &[tenant.into(), claim.owner.into()], |cells| {
        let account = cells.opt_entity()?;
        let mut key = cells.opt_string()?;
        if kind == ClaimKind::TenantId {
            key = Some(cells.id()?.to_string());
        }
        // The key of an erased account is gone, and stays taken.
        if kind == ClaimKind::Account && key.is_none() && cells.opt_time()?.is_some() {
            found |= account == claim.account;
        }
        if kind == ClaimKind::Bundle && key.is_none() {
            // It went with its person, likewise.
            found |= account == claim.account;
        }
        let key = key.map(|key| claim_hash(&ClaimKey { tenant, kind, key }));
        found |= account == claim.account && key == Some(hash);
        Ok(())
    })?;
    if !found && kind == ClaimKind::Account {
        let parameters = [tenant.into(), claim.owner.into(), Value::Id(hash)];
        let key = |cells: &mut Cells<'_>| Ok((cells.opt_entity()?, cells.string()?));
        let user = reader.query_one(USER_KEY, &parameters, key)?;
        found = user.is_some_and(|(account, key)| {
            account == claim.account && claim_hash(&ClaimKey { tenant, kind, key }) == hash
        });
    }
    Ok(found)
}

/// Everything that has a key has claimed it.
fn verify_keys(
    reader: &Reader,
    recent: &RecentClaims,
    report: &mut Report,
) -> Result<(), StoreError> {
    let sources: [(ClaimKind, &Table, &str); 11] = [
        (
            ClaimKind::Dispute,
            &DISPUTE,
            "SELECT tenant, id, gateway || '/' || case_id, id FROM dispute",
        ),
        (
            ClaimKind::Account,
            &ACCOUNT,
            "SELECT tenant, id, external_key, id FROM account WHERE external_key IS NOT NULL",
        ),
        (
            ClaimKind::Account,
            &ACCOUNT_USER,
            "SELECT tenant, account_id, key, account_id FROM account_user",
        ),
        (
            ClaimKind::PaymentMethod,
            &PAYMENT_METHOD,
            // One that was never attached leaves its key.
            "SELECT tenant, id, external_key, id FROM payment_method \
             WHERE external_key IS NOT NULL AND (step IS NULL OR step NOT IN (4, 5))",
        ),
        (
            ClaimKind::Payment,
            &PAYMENT,
            "SELECT tenant, id, external_key, id FROM payment WHERE external_key IS NOT NULL",
        ),
        (
            ClaimKind::Transaction,
            &PAYMENT_TRANSACTION,
            "SELECT tenant, id, external_key, NULL FROM payment_transaction \
             WHERE external_key IS NOT NULL",
        ),
        (
            ClaimKind::Bundle,
            &BUNDLE,
            "SELECT tenant, id, external_key, id FROM bundle WHERE external_key IS NOT NULL",
        ),
        (ClaimKind::TenantApiKey, &TENANT, "SELECT 0, id, api_key, id FROM tenant"),
        (
            ClaimKind::Environment,
            &ENVIRONMENT,
            "SELECT tenant, id, project || '/' || key, id FROM environment",
        ),
        (
            ClaimKind::CustomerEmail,
            &CUSTOMER,
            "SELECT tenant, id, email_key, id FROM customer WHERE email_key <> ''",
        ),
        (
            ClaimKind::TagDefinition,
            &TAG_DEFINITION,
            "SELECT tenant, id, name, id FROM tag_definition WHERE active = 1",
        ),
    ];
    for (kind, table, sql) in sources {
        each_row(reader, report, (table, sql), |cells, report| {
            let (tenant, id, key) = (cells.tenant()?, cells.id()?, cells.string()?);
            // A transaction's key may have gone to a later payment.
            let owner = cells.opt_id()?;
            let claim = recent.seek(&ClaimKey { tenant, kind, key }).find_known(reader)?;
            let is_its_own = |claim: Claim| owner.is_none_or(|owner| owner == claim.owner);
            if claim.is_none_or(|claim| !is_its_own(claim)) {
                report.problem(table.name, id, "its key is not claimed for it");
            }
            Ok(())
        })?;
    }
    Ok(())
}
