//! Payments, their transactions, the ledger's postings, and outcomes that are awaited.

use domain::ledger::{Posting, PostingSource};
use domain::payment::{
    Actor, Amounts, Outstanding, PaidFor, Payment, PaymentState, ReplyKey, Transaction,
};
use domain::{
    AmountMinor, InvoiceId, InvoiceItemId, MerchantAccount, PaymentId, Seq, TransactionId,
};
use engine::ports::StoreError;

use super::{CHECKED, CLUSTERED, Table, id, index, int, only, text, unique};
use crate::codes::code;
use crate::driver::{Cells, Value};
use crate::stored::TableOf;

/// Payments in a state that few stay in: all but those that were authorized, captured or purchased,
/// and those about to be. The index `payment_by_rare_state` has only these, so that an ordinary
/// payment does not pay for it; a query is answered from it where it has these very words.
pub(crate) const IN_RARE_STATE: &str = "(status NOT IN (1, 2) OR operation NOT IN (1, 2, 3))";

pub static PAYMENT: TableOf<Payment> = TableOf::new(
    Table {
        name: "payment",
        indexes: &[
            index("payment_by_account", "tenant, account_id, id"),
            index("payment_by_gateway", "tenant, gateway, id"),
            only("payment_by_rare_state", "tenant, operation, status, id", IN_RARE_STATE),
        ],
        exported: &["id"],
        history: Some("id"),
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        id("payment_method_id").of(|it, _| it.payment_method_id.into()),
        int("number").fixed().of(|it, _| it.number.into()),
        text("external_key").null().fixed().of(|it, _| it.external_key.as_ref().into()),
        text("currency").of(|it, _| (&it.currency).into()),
        text("gateway").of(|it, _| (&it.gateway).into()),
        int("operation").of(|it, _| code(it.state.operation).into()),
        int("status").of(|it, _| code(it.state.status).into()),
        int("success_operation")
            .null()
            .of(|it, _| it.last_success.map(|it| code(it.operation)).into()),
        int("success_status").null().of(|it, _| it.last_success.map(|it| code(it.status)).into()),
        int("authorized_minor").of(|it, _| it.amounts.authorized.into()),
        int("captured_minor").of(|it, _| it.amounts.captured.into()),
        int("purchased_minor").of(|it, _| it.amounts.purchased.into()),
        int("refunded_minor").of(|it, _| it.amounts.refunded.into()),
        int("credited_minor").of(|it, _| it.amounts.credited.into()),
        int("charged_back_minor").of(|it, _| it.amounts.charged_back.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
        id("purchase_id")
            .added(17)
            .fixed()
            .of(|it, _| it.paid_for.and_then(PaidFor::purchase).into()),
        id("invoice_id")
            .added(22)
            .fixed()
            .of(|it, _| it.paid_for.and_then(PaidFor::invoice).into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Payment {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            account_id: cells.entity()?,
            payment_method_id: cells.entity()?,
            number: cells.int()?,
            external_key: cells.opt_string()?,
            currency: cells.currency()?,
            gateway: cells.string()?,
            state: PaymentState { operation: cells.code()?, status: cells.code()? },
            last_success: {
                let (operation, status) = (cells.opt_code()?, cells.opt_code()?);
                match (operation, status) {
                    (Some(operation), Some(status)) => Some(PaymentState { operation, status }),
                    (None, None) => None,
                    (Some(_), None) | (None, Some(_)) => {
                        return Err(cells.corrupt("is half a state"));
                    }
                }
            },
            amounts: Amounts {
                authorized: cells.amount()?,
                captured: cells.amount()?,
                purchased: cells.amount()?,
                refunded: cells.amount()?,
                credited: cells.amount()?,
                charged_back: cells.amount()?,
            },
            created_at: cells.time()?,
            updated_at: cells.time()?,
            paid_for: {
                let purchase = cells.opt_entity()?.map(PaidFor::Purchase);
                let invoice = cells.opt_entity()?.map(|invoice| PaidFor::Invoice { invoice });
                purchase.or(invoice)
            },
            revision: cells.revision()?,
        })
    },
);

/// Transactions whose outcome nobody knows although their call has ended: pending and unknown. A
/// query of these is answered from the index `payment_transaction_unresolved`, where it has these
/// very words.
pub(crate) const UNRESOLVED: &str = "status IN (3, 6)";

/// Transactions of payments. `routed` is JSON. `opened_seq` is the journal row that made one: their order, and that of
/// `effective_at_us` where one row made several.
pub static PAYMENT_TRANSACTION: TableOf<Transaction> = TableOf::new(
    Table {
        name: "payment_transaction",
        key_columns: 3,
        indexes: &[
            unique("payment_transaction_by_id", "tenant, id"),
            only(
                "payment_transaction_unresolved",
                "tenant, effective_at_us, id, status",
                UNRESOLVED,
            ),
        ],
        found_by: Some("tenant, id"),
        exported: &["payment_id", "id"],
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("payment_id").of(|it, _| it.payment_id.into()),
        id("id").of(|it, _| it.id.into()),
        int("opened_seq").fixed().of(|it, cx| cx.made_by.unwrap_or(it.revision.seq).into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        text("external_key").null().fixed().of(|it, _| it.external_key.as_ref().into()),
        text("gateway").of(|it, _| (&it.gateway).into()),
        id("payment_method_id").fixed().of(|it, _| it.payment_method_id.into()),
        int("kind").fixed().of(|it, _| code(it.kind).into()),
        int("status").of(|it, _| code(it.status).into()),
        int("amount_minor").null().of(|it, _| it.amount.into()),
        int("called_amount_minor").null().of(|it, _| it.called_amount.into()),
        text("currency").null().of(|it, _| it.currency.as_ref().into()),
        int("processed_amount_minor").null().of(|it, _| it.processed_amount.into()),
        text("processed_currency").null().of(|it, _| it.processed_currency.as_ref().into()),
        int("effective_at_us").of(|it, _| it.effective_at.into()),
        text("gateway_error_code").null().of(|it, _| it.gateway_error_code.as_ref().into()),
        text("gateway_error_message").null().of(|it, _| it.gateway_error_message.as_ref().into()),
        text("first_reference").null().of(|it, _| it.first_reference.as_ref().into()),
        text("second_reference").null().of(|it, _| it.second_reference.as_ref().into()),
        int("overruled").of(|it, _| it.overruled.into()),
        text("merchant_account").added(9).fixed().of(|it, _| it.merchant_account.as_ref().into()),
        text("routed").added(11).fixed().of(|it, cx| cx.opt_json(&it.routed)),
        int("heard_at_us").added(14).of(|it, _| it.heard_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| Ok(opened_transaction(cells)?.1),
);

/// Reads a row of [`PAYMENT_TRANSACTION`] with the journal row that made it: a payment's
/// transactions are in its order.
pub(crate) fn opened_transaction(cells: &mut Cells<'_>) -> Result<(Seq, Transaction), StoreError> {
    cells.of(&PAYMENT_TRANSACTION);
    let (tenant, payment_id, id) = (cells.tenant()?, cells.entity()?, cells.entity()?);
    let opened_seq = cells.seq()?;
    let transaction = Transaction {
        tenant,
        id,
        payment_id,
        account_id: cells.entity()?,
        external_key: cells.opt_string()?,
        gateway: cells.string()?,
        payment_method_id: cells.entity()?,
        kind: cells.code()?,
        status: cells.code()?,
        amount: cells.opt_int()?.map(AmountMinor),
        called_amount: cells.opt_int()?.map(AmountMinor),
        currency: cells.opt_currency()?,
        processed_amount: cells.opt_int()?.map(AmountMinor),
        processed_currency: cells.opt_currency()?,
        effective_at: cells.time()?,
        gateway_error_code: cells.opt_string()?,
        gateway_error_message: cells.opt_string()?,
        first_reference: cells.opt_string()?,
        second_reference: cells.opt_string()?,
        overruled: cells.flag()?,
        merchant_account: cells.opt_string()?.map(MerchantAccount),
        routed: cells.opt_json()?,
        heard_at: cells.opt_time()?,
        revision: cells.revision()?,
    };
    Ok((opened_seq, transaction))
}

/// The ledger's postings, of the journal row `seq`, in order. Only ever appended to.
pub static POSTING: Table = Table {
    name: "posting",
    indexes: &[
        index("posting_by_source", "tenant, account_id, source_id"),
        index("posting_by_time", "tenant, at_us"),
    ],
    exported: &["source_id", "seq", "ordinal"],
    ..CLUSTERED
}
.of(&[
    int("seq"),
    int("ordinal"),
    int("tenant"),
    id("account_id"),
    // A payment with its transaction, or an invoice with its item.
    id("source_id"),
    id("part_id"),
    // Empty: of an invoice.
    text("gateway"),
    int("debit"),
    int("credit"),
    int("amount_minor"),
    text("currency"),
    int("at_us"),
]);

pub(crate) fn posting_row(seq: Seq, ordinal: i64, it: &Posting) -> [Value<'_>; 12] {
    let (source, part) = match &it.source {
        PostingSource::Payment { payment, transaction, .. } => {
            ((*payment).into(), (*transaction).into())
        }
        PostingSource::Invoice { invoice, item } => ((*invoice).into(), (*item).into()),
    };
    [
        seq.into(),
        ordinal.into(),
        it.tenant.into(),
        it.account_id.into(),
        source,
        part,
        it.gateway().into(),
        code(it.debit).into(),
        code(it.credit).into(),
        it.amount.into(),
        (&it.currency).into(),
        it.at.into(),
    ]
}

/// Reads a row of [`POSTING`] with the journal row that wrote it.
pub(crate) fn posting(cells: &mut Cells<'_>) -> Result<(Seq, Posting), StoreError> {
    cells.of(&POSTING);
    let seq = cells.seq()?;
    cells.skip(1);
    let posting = Posting {
        tenant: cells.tenant()?,
        account_id: cells.entity()?,
        source: source(cells)?,
        debit: cells.code()?,
        credit: cells.code()?,
        amount: cells.amount()?,
        currency: cells.currency()?,
        at: cells.time()?,
    };
    Ok((seq, posting))
}

fn source(cells: &mut Cells<'_>) -> Result<PostingSource, StoreError> {
    let (source, part): (InvoiceId, InvoiceItemId) = (cells.entity()?, cells.entity()?);
    let gateway = cells.string()?;
    Ok(match gateway.is_empty() {
        true => PostingSource::Invoice { invoice: source, item: part },
        false => PostingSource::Payment {
            payment: PaymentId::new(source.uuid()),
            transaction: TransactionId::new(part.uuid()),
            gateway,
        },
    })
}

/// Outcomes that are awaited; the owner of the partition inquires about them.
pub static OUTSTANDING: TableOf<Outstanding> = TableOf::new(
    Table {
        name: "outstanding",
        indexes: &[
            // Not by tenant first: while the table is nearly empty, PostgreSQL would as soon use it for a
            // transaction, and go on reading all of a tenant's rows as they become many.
            index("outstanding_by_payment", "payment_id"),
            only(
                "outstanding_by_gateway",
                "partition, gateway, ask_at_us",
                "ask_at_us IS NOT NULL",
            ),
        ],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("transaction_id").of(|it, _| it.transaction_id.into()),
        id("payment_id").fixed().of(|it, _| it.payment_id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        text("gateway").of(|it, _| (&it.gateway).into()),
        int("deadline_us").of(|it, _| it.deadline.into()),
        int("ask_at_us").null().of(|it, _| it.ask_at.into()),
        int("asked").of(|it, _| i64::from(it.asked).into()),
        id("reply_key").null().of(|it, _| it.reply.into()),
        text("user_name").of(|it, _| (&it.actor.user).into()),
        text("created_by").of(|it, _| (&it.actor.created_by).into()),
        text("reason").null().of(|it, _| it.actor.reason.as_ref().into()),
        text("comments").null().of(|it, _| it.actor.comments.as_ref().into()),
        id("token").of(|it, _| it.actor.token.into()),
        int("partition").fixed().of(|_, cx| cx.partition.number().into()),
        text("next_action").added(9).of(|it, _| it.next_action.as_ref().into()),
    ],
    |cells| {
        let mut outstanding = Outstanding {
            tenant: cells.tenant()?,
            transaction_id: cells.entity()?,
            payment_id: cells.entity()?,
            account_id: cells.entity()?,
            gateway: cells.string()?,
            deadline: cells.time()?,
            ask_at: cells.opt_time()?,
            asked: cells.count()?,
            reply: cells.opt_id()?.map(ReplyKey),
            actor: actor(cells)?,
            next_action: None,
        };
        // The partition, which follows from the account.
        cells.int()?;
        outstanding.next_action = cells.opt_string()?;
        Ok(outstanding)
    },
);

/// Reads the five columns that say who asked.
pub(crate) fn actor(cells: &mut Cells<'_>) -> Result<Actor, StoreError> {
    Ok(Actor {
        user: cells.string()?,
        created_by: cells.string()?,
        reason: cells.opt_string()?,
        comments: cells.opt_string()?,
        token: cells.id()?,
    })
}
