//! Payment methods.

use domain::account::payment_method::MethodStep;
use domain::payment::ReplyKey;
use domain::{MerchantAccount, PaymentMethod, Properties, Timestamp};
use engine::ports::StoreError;

use super::{CHECKED, Table, folded, id, index, int, text};
use crate::driver::Cells;
use crate::stored::TableOf;

/// The codes of steps. Those that differ in one flag have one each. `verify/claims.rs` names those of methods that were
/// never attached.
const ATTACH: i64 = 1;
const ATTACH_AS_DEFAULT: i64 = 2;
const DETACH: i64 = 3;
const DETACH_REFUSED: i64 = 4;
const REFUSED: i64 = 5;

/// Payment methods, deleted ones too, and those that their gateway has not attached. The codes of `step` are in
/// `this file`.
pub static PAYMENT_METHOD: TableOf<PaymentMethod> = TableOf::new(
    Table {
        name: "payment_method",
        indexes: &[
            index("payment_method_by_account", "tenant, account_id, id"),
            index("payment_method_by_gateway", "tenant, gateway, active, id"),
        ],
        exported: &["id"],
        history: Some("id"),
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        text("external_key").null().fixed().of(|it, _| it.external_key.as_ref().into()),
        text("gateway").fixed().of(|it, _| (&it.gateway).into()),
        text("external_payment_method_id")
            .erased()
            .of(|it, _| it.external_payment_method_id.as_ref().into()),
        text("properties").erased().of(|it, cx| cx.opt_json(&it.properties)),
        int("active").of(|it, _| it.active.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
        text("merchant_account").added(13).fixed().of(|it, _| it.merchant_account.as_ref().into()),
        int("step").added(13).of(|it, _| step_columns(it).0.into()),
        int("step_deadline_us").added(13).of(|it, _| step_columns(it).1.into()),
        int("step_asked").added(13).of(|it, _| step_columns(it).2.map(i64::from).into()),
        id("step_reply").added(13).of(|it, _| step_columns(it).3.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
        folded("external_key_folded").of(|it, cx| cx.folded(it.external_key.as_ref())),
    ],
    |cells| {
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
        Ok(method)
    },
);

/// A step's columns: its code, deadline, number of inquiries, and the reply that waits for it.
type StepColumns = (Option<i64>, Option<Timestamp>, Option<u32>, Option<ReplyKey>);

fn step_columns(it: &PaymentMethod) -> StepColumns {
    match it.step {
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
    }
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
            return Err(StoreError::Corrupt { table: PAYMENT_METHOD.name, reason });
        }
    };
    Ok(Some(step))
}
