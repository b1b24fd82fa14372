//! Asks for mails to customers.

use crate::change::CustomerChange;
use crate::context::Context;
use crate::customer::mail::{Mail, MailKind};
use crate::{CustomerId, TokenId};

/// Asks for a mail.
pub(crate) fn put(customer: CustomerId, kind: MailKind, token: Option<TokenId>, cx: &mut Context) {
    let id = cx.mint();
    cx.change(CustomerChange::Mail(Mail {
        tenant: cx.tenant,
        id,
        customer,
        kind,
        token,
        created_at: cx.now,
        due_at: Some(cx.now),
        attempts: 0,
        error: None,
    }));
}
