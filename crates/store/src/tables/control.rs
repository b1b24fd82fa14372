//! Attempts of controlled payments, velocities, and disputes.

use domain::payment::attempt::{PaymentAttempt, PaymentVelocity};
use domain::payment::dispute::{Dispute, DisputeBooked, DisputeCase};

use domain::change::{Change, PaymentChange};

use super::{CHECKED, CLUSTERED, Table, id, index, int, only, text};
use crate::codes::code;
use crate::stored::TableOf;

/// Attempts of controlled calls. `plugins` is a JSON array of names; `properties`, JSON too, is NULL where
/// there are none and once the account's person is erased.
pub static PAYMENT_ATTEMPT: TableOf<PaymentAttempt> = TableOf::<PaymentAttempt>::new(
    Table {
        name: "payment_attempt",
        since: 5,
        indexes: &[
            // Not by tenant first: see `outstanding_by_payment`.
            only("payment_attempt_by_payment", "payment_id", "payment_id IS NOT NULL"),
            index("payment_attempt_by_account", "tenant, account_id, id"),
            only(
                "payment_attempt_scheduled",
                "tenant, account_id, due_at_us, id",
                "due_at_us IS NOT NULL",
            ),
        ],
        exported: &["id"],
        history: Some("id"),
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        id("payment_id").null().of(|it, _| it.payment_id.into()),
        id("transaction_id").null().of(|it, _| it.transaction_id.into()),
        text("payment_key").null().fixed().of(|it, _| it.payment_key.as_ref().into()),
        text("transaction_key").null().fixed().of(|it, _| it.transaction_key.as_ref().into()),
        id("payment_method_id").null().of(|it, _| it.payment_method_id.into()),
        int("kind").fixed().of(|it, _| code(it.kind).into()),
        int("state").of(|it, _| code(it.state).into()),
        int("amount_minor").fixed().of(|it, _| it.amount.into()),
        text("currency").fixed().of(|it, _| (&it.currency).into()),
        text("plugins").fixed().of(|it, cx| cx.json(&it.plugins)),
        text("properties").erased().of(|it, cx| cx.opt_json(&it.properties)),
        int("rules").null().of(|it, _| it.rules.into()),
        int("counted_on").null().of(|it, _| it.counted_on.into()),
        int("retries").of(|it, _| it.retries.into()),
        int("tries").of(|it, _| i64::from(it.tries).into()),
        int("due_at_us").null().of(|it, _| it.due_at.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(PaymentAttempt {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            account_id: cells.entity()?,
            payment_id: cells.opt_entity()?,
            transaction_id: cells.opt_entity()?,
            payment_key: cells.opt_string()?,
            transaction_key: cells.opt_string()?,
            payment_method_id: cells.opt_entity()?,
            kind: cells.code()?,
            state: cells.code()?,
            amount: cells.amount()?,
            currency: cells.currency()?,
            plugins: cells.json()?,
            properties: cells.opt_json()?.unwrap_or_default(),
            rules: cells.opt_int()?.map(domain::Seq),
            counted_on: cells.opt_int()?,
            retries: cells.flag()?,
            tries: cells.count()?,
            due_at: cells.opt_time()?,
            created_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
)
.restored(|image, now| {
    if let Change::Payment(PaymentChange::Attempt(it)) = image {
        it.properties.clone_from(&now.properties);
    }
});

/// The payments that accounts started in a day (UTC): their number, and amounts by currency as JSON.
pub static PAYMENT_VELOCITY: TableOf<PaymentVelocity> = TableOf::new(
    Table { name: "payment_velocity", since: 5, exported: &["account_id"], ..CHECKED },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("account_id").of(|it, _| it.account_id.into()),
        int("day").of(|it, _| it.day.into()),
        int("payments").of(|it, _| i64::from(it.count).into()),
        text("amounts").of(|it, cx| cx.json(&it.amounts)),
    ],
    |cells| {
        Ok(PaymentVelocity {
            tenant: cells.tenant()?,
            account_id: cells.entity()?,
            day: cells.int()?,
            count: cells.count()?,
            amounts: cells.json()?,
        })
    },
);

/// Disputes of payments, one for each case of a gateway. The claim on the case makes it one.
pub static DISPUTE: TableOf<Dispute> = TableOf::new(
    Table {
        name: "dispute",
        since: 12,
        indexes: &[
            index("dispute_by_case", "tenant, gateway, case_id"),
            index("dispute_by_account", "tenant, account_id, id"),
            index("dispute_by_status", "tenant, dispute_status, id"),
            // Not by tenant first: see `outstanding_by_payment`.
            index("dispute_by_payment", "payment_id, id"),
        ],
        found_by: Some("tenant, gateway, case_id"),
        exported: &["id"],
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        id("payment_id").fixed().of(|it, _| it.payment_id.into()),
        id("transaction_id").fixed().of(|it, _| it.transaction_id.into()),
        text("gateway").fixed().of(|it, _| (&it.case.gateway).into()),
        text("case_id").fixed().of(|it, _| (&it.case.case).into()),
        int("dispute_status").of(|it, _| code(it.status).into()),
        text("reason").null().of(|it, _| it.reason.as_ref().into()),
        int("amount_minor").of(|it, _| it.amount.into()),
        text("currency").fixed().of(|it, _| (&it.currency).into()),
        int("evidence_due_by_us").null().of(|it, _| it.evidence_due_by.into()),
        int("warned_of_us").null().of(|it, _| it.warned_of.into()),
        int("withdrawn_minor").of(|it, _| it.withdrawn.into()),
        int("reinstated_minor").of(|it, _| it.reinstated.into()),
        int("charged_back_minor").of(|it, _| it.booked.charged_back.into()),
        int("reversed_minor").of(|it, _| it.booked.reversed.into()),
        int("excess_minor").of(|it, _| it.booked.excess.into()),
        int("excess_returned_minor").of(|it, _| it.booked.excess_returned.into()),
        int("booking_at_us").null().of(|it, _| it.booking_at.into()),
        int("warning_at_us").null().of(|it, _| it.warning_at.into()),
        int("asked_at_us").of(|it, _| it.asked_at.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Dispute {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            account_id: cells.entity()?,
            payment_id: cells.entity()?,
            transaction_id: cells.entity()?,
            case: DisputeCase { gateway: cells.string()?, case: cells.string()? },
            status: cells.code()?,
            reason: cells.opt_string()?,
            amount: cells.amount()?,
            currency: cells.currency()?,
            evidence_due_by: cells.opt_time()?,
            warned_of: cells.opt_time()?,
            withdrawn: cells.amount()?,
            reinstated: cells.amount()?,
            booked: DisputeBooked {
                charged_back: cells.amount()?,
                reversed: cells.amount()?,
                excess: cells.amount()?,
                excess_returned: cells.amount()?,
            },
            booking_at: cells.opt_time()?,
            warning_at: cells.opt_time()?,
            asked_at: cells.time()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
);
