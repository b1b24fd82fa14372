//! Claimed keys against those who have them, both ways.

use std::sync::LazyLock;

use domain::TenantNo;
use domain::state::{Claim, ClaimKey, ClaimKind};
use engine::ports::StoreError;
use uuid::Uuid;

use super::Report;
use crate::rows::{self, claim_hash};
use crate::sqlite::{Reader, Value};
use crate::tables::CLAIM;

static CLAIMS: LazyLock<String> = LazyLock::new(|| CLAIM.select("ORDER BY key_hash"));
static CLAIM_BY_HASH: LazyLock<String> = LazyLock::new(|| CLAIM.select("WHERE key_hash = ?1"));

/// Each query yields, of a claim's owner: the account, and a key that it has.
const ACCOUNT_KEYS: &str = "SELECT id, external_key FROM account WHERE tenant = ?1 AND id = ?2";
const METHOD_KEYS: &str =
    "SELECT account_id, external_key FROM payment_method WHERE tenant = ?1 AND id = ?2";
const PAYMENT_KEYS: &str =
    "SELECT account_id, external_key FROM payment WHERE tenant = ?1 AND id = ?2";
const TRANSACTION_KEYS: &str = "SELECT account_id, external_key FROM payment_transaction \
     WHERE tenant = ?1 AND payment_id = ?2";
const TENANT_KEYS: &str = "SELECT NULL, api_key, id FROM tenant WHERE id = ?2 AND ?1 = 0";

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    reader.for_each(&CLAIMS, &[], |cells| {
        report.claims += 1;
        let hash = cells.peek_id()?;
        let (tenant, kind, claim) = rows::claim(cells)?;
        if !owner_has_key(reader, hash, (tenant, kind), &claim)? {
            let what = format!("{kind:?} {} does not have this key", claim.owner);
            report.problem(CLAIM.name, hash, what);
        }
        Ok(())
    })?;
    verify_keys(reader, report)
}

fn owner_has_key(
    reader: &Reader,
    hash: Uuid,
    (tenant, kind): (TenantNo, ClaimKind),
    claim: &Claim,
) -> Result<bool, StoreError> {
    let sql = match kind {
        ClaimKind::Account => ACCOUNT_KEYS,
        ClaimKind::PaymentMethod => METHOD_KEYS,
        ClaimKind::Payment => PAYMENT_KEYS,
        ClaimKind::Transaction => TRANSACTION_KEYS,
        ClaimKind::TenantApiKey | ClaimKind::TenantId => TENANT_KEYS,
    };
    let mut found = false;
    reader.for_each(sql, &[tenant.into(), claim.owner.into()], |cells| {
        let account = cells.opt_entity()?;
        let mut key = cells.opt_string()?;
        if kind == ClaimKind::TenantId {
            key = Some(cells.id()?.to_string());
        }
        let key = key.map(|key| claim_hash(&ClaimKey { tenant, kind, key }));
        found |= account == claim.account && key == Some(hash.into_bytes());
        Ok(())
    })?;
    Ok(found)
}

/// Everything that has a key has claimed it.
fn verify_keys(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let sources = [
        (ClaimKind::Account, "account", "SELECT tenant, id, external_key, id FROM account"),
        (
            ClaimKind::PaymentMethod,
            "payment_method",
            "SELECT tenant, id, external_key, id FROM payment_method",
        ),
        (ClaimKind::Payment, "payment", "SELECT tenant, id, external_key, id FROM payment"),
        (
            ClaimKind::Transaction,
            "payment_transaction",
            "SELECT tenant, id, external_key, NULL FROM payment_transaction",
        ),
        (ClaimKind::TenantApiKey, "tenant", "SELECT 0, id, api_key, id FROM tenant"),
    ];
    for (kind, table, sql) in sources {
        let mut load = reader.load(&CLAIM_BY_HASH)?;
        let sql = format!(
            "{sql} WHERE {} IS NOT NULL",
            if table == "tenant" { "api_key" } else { "external_key" }
        );
        reader.for_each(&sql, &[], |cells| {
            let (tenant, id, key) = (cells.tenant()?, cells.id()?, cells.string()?);
            // A transaction's key may have gone to a later payment.
            let owner = cells.opt_id()?;
            let hash = Value::Id(claim_hash(&ClaimKey { tenant, kind, key }));
            let claim = load.first(&[hash], rows::claim)?;
            let is_its_own = |claim: Claim| owner.is_none_or(|owner| owner == claim.owner);
            if claim.is_none_or(|(_, _, claim)| !is_its_own(claim)) {
                report.problem(table, id, "its key is not claimed for it");
            }
            Ok(())
        })?;
    }
    Ok(())
}
