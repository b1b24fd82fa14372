//! Objects that have custom fields and tags.

use crate::context::Context;
use crate::object::Object;
use crate::state::State;
use crate::{AccountId, AccountRejection, PaymentRejection, Rejection};

/// Refuses an object that is not there, or not of the account.
pub(crate) fn find(
    state: &State,
    (account, object): (AccountId, Object),
    cx: &Context,
) -> Result<(), Rejection> {
    if state.account(cx.tenant, account).is_none() {
        return Err(AccountRejection::NotFound { id: account }.into());
    }
    let payment = |id| {
        let file = state.payment(cx.tenant, id).filter(|it| it.payment.account_id == account);
        file.ok_or_else(|| PaymentRejection::NotFound { payment: id.to_string() })
    };
    match object {
        Object::Account(id) if id == account => Ok(()),
        Object::Account(id) => Err(AccountRejection::NotFound { id }.into()),
        Object::PaymentMethod(id) => {
            let method = state.payment_method(cx.tenant, id);
            let own = method.filter(|it| it.account_id == account && it.active);
            own.map(|_| ()).ok_or_else(|| AccountRejection::PaymentMethodNotFound { id }.into())
        }
        Object::Payment(id) => Ok(payment(id).map(|_| ())?),
        Object::Transaction { payment: of, id } => {
            payment(of)?.transaction(id).map(|_| ()).ok_or_else(|| {
                PaymentRejection::TransactionNotFound { transaction: id.to_string() }.into()
            })
        }
    }
}
