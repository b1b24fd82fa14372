//! Claims of keys, by hash: uniqueness is decided here.

use domain::TenantNo;
use domain::claim::{Claim, ClaimKey, ClaimKind};
use engine::ports::StoreError;
use ring::digest::{Context, SHA256};
use uuid::Uuid;

use super::{CLUSTERED, Layout, Table, id, int};
use crate::codes::code;
use crate::driver::{Cells, Value};

/// Taken keys, by hash (see `claim_hash`): uniqueness is decided here.
pub static CLAIM: Table = Table { name: "claim", key_columns: 1, ..CLUSTERED }.of(&[
    id("key_hash"),
    int("tenant"),
    int("kind"),
    id("owner"),
    id("account_id").null(),
]);

/// Claims that may not be in `claim` yet, in the order in which they were made: the last of those
/// with one hash holds. Only an embedded database has rows here: see `claims.rs`.
pub static CLAIM_RECENT: Table =
    Table { name: "claim_recent", key_columns: 1, layout: Layout::Appended, ..CLUSTERED }.of(&[
        int("n"),
        id("key_hash"),
        int("tenant"),
        int("kind"),
        id("owner"),
        id("account_id").null(),
    ]);

/// The owner of a released key, until its row is deleted.
const TOMBSTONE: Uuid = Uuid::nil();

/// A claim with what its hash was made of, but for the key itself.
#[derive(Clone, Copy)]
pub(crate) struct Claimed {
    pub(crate) tenant: TenantNo,
    pub(crate) kind: ClaimKind,
    pub(crate) claim: Claim,
}

impl Claimed {
    /// A released key.
    pub(crate) fn released(key: &ClaimKey) -> Self {
        let claim = Claim { owner: TOMBSTONE, account: None };
        Self { tenant: key.tenant, kind: key.kind, claim }
    }

    /// Whether the key is free.
    pub(crate) const fn is_released(&self) -> bool {
        self.claim.owner.is_nil()
    }
}

/// The key of a claim's row: see [`claim_hash`].
pub(crate) type ClaimHash = [u8; 16];

/// The key of a claim's row: the first 16 bytes of SHA-256 over tenant, kind and key.
pub(crate) fn claim_hash(key: &ClaimKey) -> ClaimHash {
    let mut hash = Context::new(&SHA256);
    hash.update(&key.tenant.0.to_be_bytes());
    hash.update(&code(key.kind).to_be_bytes());
    hash.update(key.key.as_bytes());
    let digest = hash.finish();
    digest.as_ref()[..16].try_into().expect("a SHA-256 has 32 bytes")
}

pub(crate) fn claim_row(hash: ClaimHash, it: &Claimed) -> [Value<'static>; 5] {
    [
        Value::Id(hash),
        it.tenant.into(),
        code(it.kind).into(),
        it.claim.owner.into(),
        it.claim.account.into(),
    ]
}

pub(crate) fn recent_claim_row(n: i64, hash: ClaimHash, it: &Claimed) -> [Value<'static>; 6] {
    let [hash, tenant, kind, owner, account] = claim_row(hash, it);
    [n.into(), hash, tenant, kind, owner, account]
}

/// Reads a row of [`CLAIM`]. The key itself is not stored, only its hash.
pub(crate) fn claim(cells: &mut Cells<'_>) -> Result<(ClaimHash, Claimed), StoreError> {
    cells.of(&CLAIM);
    claim_columns(cells)
}

/// Reads a row of [`CLAIM_RECENT`]: its number, and the claim.
pub(crate) fn recent_claim(
    cells: &mut Cells<'_>,
) -> Result<(i64, (ClaimHash, Claimed)), StoreError> {
    cells.of(&CLAIM_RECENT);
    Ok((cells.int()?, claim_columns(cells)?))
}

fn claim_columns(cells: &mut Cells<'_>) -> Result<(ClaimHash, Claimed), StoreError> {
    let hash = cells.id()?.into_bytes();
    let (tenant, kind) = (cells.tenant()?, cells.code()?);
    let claim = Claim { owner: cells.id()?, account: cells.opt_entity()? };
    Ok((hash, Claimed { tenant, kind, claim }))
}
