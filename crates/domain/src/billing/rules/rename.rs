//! Renaming bundles.

use crate::billing::bundle::{Bundle, RenameBundle};
use crate::change::{BillingChange, ClaimChange};
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::{Accepted, BillingRejection, Reply};

/// Gives a bundle another key, and frees the one that it had. A key stays with its bundle after the bundle's
/// subscriptions ended: who subscribes by it then goes on with that bundle.
pub(crate) fn rename(state: &State, it: &RenameBundle, cx: &mut Context) -> Outcome {
    let known = state.billing.bundles_by_id.get(&(cx.tenant, it.bundle));
    let known = known.filter(|known| known.account_id == it.account);
    let known = known.ok_or(BillingRejection::NoSuchBundle { bundle: it.bundle })?;
    if known.external_key.as_ref() == Some(&it.key) {
        return Ok(Accepted::now(Reply::Done));
    }
    let key = ClaimKey::new(cx.tenant, ClaimKind::Bundle, &it.key);
    if state.claim(&key).is_some_and(|claim| claim.owner != it.bundle.uuid()) {
        return Err(BillingRejection::BundleKeyInUse { key: it.key.clone() }.into());
    }
    if let Some(before) = &known.external_key {
        let key = ClaimKey::new(cx.tenant, ClaimKind::Bundle, before);
        cx.change(ClaimChange::Released { key });
    }
    cx.claim(key, it.bundle.uuid(), Some(it.account));
    cx.change(BillingChange::Bundle(Bundle {
        external_key: Some(it.key.clone()),
        revision: known.revision.next(cx.seq),
        ..known.clone()
    }));
    Ok(Accepted::now(Reply::Done))
}
