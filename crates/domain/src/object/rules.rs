//! Objects that have custom fields and tags.

use crate::context::Context;
use crate::object::Object;
use crate::state::State;
use crate::{AccountId, AccountRejection, BillingRejection, PaymentRejection, Rejection};

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
    let billing = &state.billing;
    let if_own = |of: Option<AccountId>, absent: BillingRejection| match of == Some(account) {
        true => Ok(()),
        false => Err(absent.into()),
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
        Object::Bundle(bundle) => {
            let of = billing.bundles_by_id.get(&(cx.tenant, bundle)).map(|it| it.account_id);
            if_own(of, BillingRejection::NoSuchBundle { bundle })
        }
        Object::Subscription(subscription) => {
            let found = billing.subscriptions_by_id.get(&(cx.tenant, subscription));
            let of = found.map(|it| it.account_id);
            if_own(of, BillingRejection::NoSuchSubscription { subscription })
        }
        Object::Invoice(invoice) => {
            let of = billing.invoices.get(&(cx.tenant, invoice)).map(|it| it.account_id);
            if_own(of, BillingRejection::NoSuchInvoice { invoice })
        }
        Object::InvoiceItem(item) => {
            let of = billing.items_by_id.get(&(cx.tenant, item)).map(|it| it.account_id);
            if_own(of, BillingRejection::NoSuchItem { item })
        }
    }
}
