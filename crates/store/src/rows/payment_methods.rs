//! Rows of payment methods, with the step that they take at their gateway.

use domain::payment::ReplyKey;
use domain::payment_method::MethodStep;
use domain::{MerchantAccount, PaymentMethod, Properties};
use engine::ports::StoreError;

use super::folded::Folded;
use super::json;
use crate::driver::{Cells, Value};
use crate::tables::{self, CHECKS};

/// The codes of steps. Those that differ in one flag have one each. `verify/claims.rs` names those of methods that were
/// never attached.
const ATTACH: i64 = 1;
const ATTACH_AS_DEFAULT: i64 = 2;
const DETACH: i64 = 3;
const DETACH_REFUSED: i64 = 4;
const REFUSED: i64 = 5;

/// How many columns of a row are folded: see [`super::folded`].
const FOLDED: usize = 1;

/// The text of a payment method's properties; NULL for none.
pub(crate) fn properties_text(it: &PaymentMethod) -> Option<String> {
    (!it.properties.is_empty()).then(|| json(&it.properties))
}

pub(crate) fn payment_method_row<'a>(
    it: &'a PaymentMethod,
    properties: Option<&'a str>,
    folded: &'a Folded<1>,
) -> [Value<'a>; 17] {
    let [folded_key] = folded;
    let (step, deadline, asked, reply) = match it.step {
        None => (None, None, None, None),
        Some(MethodStep::Attach { is_default, deadline, asked, reply }) => {
            let code = if is_default { ATTACH_AS_DEFAULT } else { ATTACH };
            (Some(code), Some(deadline), Some(asked), reply)
        }
        Some(MethodStep::Detach { deadline, asked, was_refused }) => {
            let code = if was_refused { DETACH_REFUSED } else { DETACH };
            (Some(code), deadline, Some(asked), None)
        }
        Some(MethodStep::Refused) => (Some(REFUSED), None, None, None),
    };
    [
        it.tenant.into(),
        it.id.into(),
        it.account_id.into(),
        it.external_key.as_ref().into(),
        (&it.gateway).into(),
        it.external_payment_method_id.as_ref().into(),
        properties.into(),
        it.active.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.merchant_account.as_ref().map(|it| &it.0).into(),
        step.into(),
        deadline.into(),
        asked.map(i64::from).into(),
        reply.into(),
        it.revision.seq.into(),
        folded_key.as_ref().into(),
    ]
}

/// Reads a row of [`tables::PAYMENT_METHOD`].
///
/// # Errors
/// See [`super::tenant`].
pub fn payment_method(cells: &mut Cells<'_>) -> Result<PaymentMethod, StoreError> {
    cells.of(&tables::PAYMENT_METHOD);
    let method = PaymentMethod {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        account_id: cells.entity()?,
        external_key: cells.opt_string()?,
        gateway: cells.string()?,
        external_payment_method_id: cells.opt_string()?,
        properties: cells.opt_json::<Properties>()?.unwrap_or_default(),
        active: cells.flag()?,
        created_at: cells.time()?,
        updated_at: cells.time()?,
        merchant_account: cells.opt_string()?.map(MerchantAccount),
        step: step(cells)?,
        revision: cells.revision()?,
    };
    cells.skip(FOLDED + CHECKS);
    Ok(method)
}

fn step(cells: &mut Cells<'_>) -> Result<Option<MethodStep>, StoreError> {
    let (code, deadline) = (cells.opt_int()?, cells.opt_time()?);
    let (asked, reply) = (cells.opt_int()?, cells.opt_id()?.map(ReplyKey));
    let asked = u32::try_from(asked.unwrap_or(0)).ok();
    let step = match (code, deadline, asked) {
        (None, None, _) => return Ok(None),
        (Some(code @ (ATTACH | ATTACH_AS_DEFAULT)), Some(deadline), Some(asked)) => {
            let is_default = code == ATTACH_AS_DEFAULT;
            MethodStep::Attach { is_default, deadline, asked, reply }
        }
        (Some(code @ (DETACH | DETACH_REFUSED)), deadline, Some(asked)) => {
            let was_refused = code == DETACH_REFUSED;
            MethodStep::Detach { deadline, asked, was_refused }
        }
        (Some(REFUSED), None, _) => MethodStep::Refused,
        (_, _, _) => {
            let reason = "its step is not one".to_owned();
            return Err(StoreError::Corrupt { table: tables::PAYMENT_METHOD.name, reason });
        }
    };
    Ok(Some(step))
}
