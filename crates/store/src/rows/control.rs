//! Rows of [`tables::PAYMENT_RULES`], [`tables::PAYMENT_ATTEMPT`] and [`tables::PAYMENT_VELOCITY`].

use domain::payment_attempt::{PaymentAttempt, PaymentVelocity};
use domain::payment_rules::PaymentRules;
use engine::ports::StoreError;

use crate::cells::json;
use crate::codes::{attempt_state, attempt_state_code, operation, operation_code};
use crate::driver::{Cells, Value};
use crate::tables;

/// The JSON texts of a row of rules.
pub(crate) struct RulesTexts {
    retries: Option<String>,
    limits: Option<String>,
    merchant_accounts: Option<String>,
    routing: Option<String>,
}

impl RulesTexts {
    pub(crate) fn of(it: &PaymentRules) -> Self {
        Self {
            retries: it.retries.as_ref().map(json),
            limits: it.limits.as_ref().map(json),
            merchant_accounts: (!it.merchant_accounts.is_empty())
                .then(|| json(&it.merchant_accounts)),
            routing: it.routing.as_ref().map(json),
        }
    }
}

pub(crate) fn payment_rules_row<'a>(it: &PaymentRules, texts: &'a RulesTexts) -> [Value<'a>; 6] {
    [
        it.tenant.into(),
        texts.retries.as_ref().into(),
        texts.limits.as_ref().into(),
        texts.merchant_accounts.as_ref().into(),
        texts.routing.as_ref().into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::PAYMENT_RULES`].
///
/// # Errors
/// See [`super::tenant`].
pub fn payment_rules(cells: &mut Cells<'_>) -> Result<PaymentRules, StoreError> {
    cells.of(&tables::PAYMENT_RULES);
    Ok(PaymentRules {
        tenant: cells.tenant()?,
        retries: cells.opt_json()?,
        limits: cells.opt_json()?,
        merchant_accounts: cells.opt_json()?.unwrap_or_default(),
        routing: cells.opt_json()?,
        revision: cells.revision()?,
    })
}

/// The JSON texts of an attempt's row.
pub(crate) struct AttemptTexts {
    plugins: String,
    properties: Option<String>,
}

impl AttemptTexts {
    pub(crate) fn of(it: &PaymentAttempt) -> Self {
        let properties = (!it.properties.is_empty()).then(|| json(&it.properties));
        Self { plugins: json(&it.plugins), properties }
    }
}

pub(crate) fn payment_attempt_row<'a>(
    it: &'a PaymentAttempt,
    texts: &'a AttemptTexts,
) -> [Value<'a>; 21] {
    [
        it.tenant.into(),
        it.id.into(),
        it.account_id.into(),
        it.payment_id.into(),
        it.transaction_id.into(),
        it.payment_key.as_ref().into(),
        it.transaction_key.as_ref().into(),
        it.payment_method_id.into(),
        operation_code(it.kind).into(),
        attempt_state_code(it.state).into(),
        it.amount.into(),
        (&it.currency).into(),
        (&texts.plugins).into(),
        texts.properties.as_ref().into(),
        it.rules.into(),
        it.counted_on.into(),
        it.retries.into(),
        i64::from(it.tries).into(),
        it.due_at.into(),
        it.created_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::PAYMENT_ATTEMPT`].
///
/// # Errors
/// See [`super::tenant`].
pub fn payment_attempt(cells: &mut Cells<'_>) -> Result<PaymentAttempt, StoreError> {
    cells.of(&tables::PAYMENT_ATTEMPT);
    Ok(PaymentAttempt {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        account_id: cells.entity()?,
        payment_id: cells.opt_entity()?,
        transaction_id: cells.opt_entity()?,
        payment_key: cells.opt_string()?,
        transaction_key: cells.opt_string()?,
        payment_method_id: cells.opt_entity()?,
        kind: cells.code(operation)?,
        state: cells.code(attempt_state)?,
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
}

/// A row of a velocity; `amounts` is the JSON of its amounts.
pub(crate) fn payment_velocity_row<'a>(it: &PaymentVelocity, amounts: &'a str) -> [Value<'a>; 5] {
    [
        it.tenant.into(),
        it.account_id.into(),
        it.day.into(),
        i64::from(it.count).into(),
        amounts.into(),
    ]
}

/// Reads a row of [`tables::PAYMENT_VELOCITY`].
///
/// # Errors
/// See [`super::tenant`].
pub fn payment_velocity(cells: &mut Cells<'_>) -> Result<PaymentVelocity, StoreError> {
    cells.of(&tables::PAYMENT_VELOCITY);
    Ok(PaymentVelocity {
        tenant: cells.tenant()?,
        account_id: cells.entity()?,
        day: cells.int()?,
        count: cells.count()?,
        amounts: cells.json()?,
    })
}
