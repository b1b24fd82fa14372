//! The payment method that an account pays with where a request names none.

use crate::change::AccountChange;
use crate::context::Context;
use crate::{Account, Event, PaymentMethodId};

/// Makes a method the default of an account that the caller writes.
pub(crate) fn set(account: &mut Account, method: Option<PaymentMethodId>, cx: &Context) {
    account.payment_method_id = method;
    account.updated_at = cx.now;
    account.revision = account.revision.next(cx.seq);
}

/// Makes a method the default of an account.
pub(crate) fn change(mut account: Account, method: Option<PaymentMethodId>, cx: &mut Context) {
    set(&mut account, method, cx);
    cx.event(Event::AccountChanged { account: account.id });
    cx.change(AccountChange::Account(account));
}
