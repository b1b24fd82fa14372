//! For which account of the tenant's a gateway is called.

use crate::context::Context;
use crate::state::State;
use crate::{MerchantAccount, Rejection};

/// The tenant's account at a gateway that needs one.
pub(crate) fn merchant_account(
    state: &State,
    gateway: &str,
    cx: &Context,
) -> Result<Option<MerchantAccount>, Rejection> {
    if !cx.settings.gateway(gateway).is_some_and(|it| it.needs_merchant_account) {
        return Ok(None);
    }
    let own = state.payment_rules(cx.tenant).and_then(|it| it.merchant_accounts.get(gateway));
    match own {
        Some(own) => Ok(Some(own.clone())),
        None => Err(Rejection::InvalidParameter {
            field: "pluginName".to_owned(),
            reason: format!(
                "{gateway} has no configuration of this tenant: upload one with its key"
            ),
        }),
    }
}
