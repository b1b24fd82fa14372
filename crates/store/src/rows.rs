//! Entities as rows and back: each direction once per table. What a row cannot hold is
//! [`StoreError::Corrupt`] when it is read.

pub mod customers;
mod disputes;
mod entitlements;
pub(crate) mod usage;

use domain::MerchantAccount;
use domain::access::{Role, User};
use domain::change_request::ChangeRequest;
use domain::definition::{Definition, DefinitionKey};
use domain::environment::{Environment, Secret};
use domain::ledger::Posting;
use domain::payment::{Actor, Amounts, Outstanding, Payment, PaymentState, ReplyKey, Transaction};
use domain::tenant::{PreviousSecret, Tenant, TenantValue};
use domain::{Account, AccountId, AmountMinor, Currency, PartitionNo, Person, Seq, TenantNo};
use engine::ports::{Delivery, DeliveryId, StoreError, StoredReply};

use crate::actors;
use crate::cells::json;
use crate::codes::{
    change_status, change_status_code, definition_kind, definition_kind_code, ledger_account,
    ledger_account_code, operation, operation_code, secret_kind, secret_kind_code, status,
    status_code,
};
use crate::driver::{Cells, Value};
use crate::tables::{self, CHECKS};

mod account_emails;
mod blocking_states;
mod claims;
mod control;
mod custom_fields;
pub(crate) mod folded;
mod import;
mod objects;
mod payment_methods;
mod quarantine;
mod tags;
mod timers;

pub use account_emails::account_email;
pub(crate) use account_emails::account_email_row;
pub use blocking_states::blocking_state;
pub(crate) use blocking_states::blocking_state_row;
pub use claims::claim_hash;
pub(crate) use claims::{ClaimHash, Claimed, claim, claim_row, recent_claim, recent_claim_row};
pub(crate) use control::{
    AttemptTexts, RulesTexts, payment_attempt_row, payment_rules_row, payment_velocity_row,
};
pub use control::{payment_attempt, payment_rules, payment_velocity};
pub use custom_fields::custom_field;
pub(crate) use custom_fields::{custom_field_row, custom_field_value, custom_field_value_row};
pub use disputes::dispute;
pub(crate) use disputes::dispute_row;
pub use entitlements::{account_user, entitlements, feature, offer, purchase};
pub(crate) use entitlements::{
    account_user_row, entitlements_row, feature_row, offer_row, purchase_row,
};
use folded::Folded;
pub(crate) use import::{audit_row, imported_audit};
pub(crate) use objects::object_key;
pub use payment_methods::payment_method;
pub(crate) use payment_methods::{payment_method_row, properties_text};
pub(crate) use quarantine::{quarantined, quarantined_row};
pub use tags::{tag, tag_definition};
pub(crate) use tags::{tag_definition_row, tag_key, tag_row};
pub use timers::timer;
pub(crate) use timers::timer_row;
pub use usage::{reservation, usage, usage_event};
pub(crate) use usage::{reservation_row, usage_event_row, usage_row};

/// How many columns of an account's row are folded: see [`folded`].
const FOLDED: usize = 1;

/// A text that is never empty, and NULL once it is erased.
fn erasable(text: &str) -> Value<'_> {
    if text.is_empty() { Value::Null } else { text.into() }
}

/// A currency borrowed by a row.
fn currency(currency: Option<&Currency>) -> Value<'_> {
    Value::from(currency)
}

pub(crate) fn tenant_row(it: &Tenant) -> [Value<'_>; 10] {
    let previous = it.previous_secret.as_ref();
    [
        it.no.into(),
        it.id.into(),
        it.external_key.as_ref().into(),
        (&it.api_key).into(),
        (&it.secret_hash).into(),
        previous.map(|it| &it.hash).into(),
        previous.map(|it| it.until).into(),
        it.is_active.into(),
        it.created_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::TENANT`].
///
/// # Errors
/// [`StoreError::Corrupt`]; here and below.
pub fn tenant(cells: &mut Cells<'_>) -> Result<Tenant, StoreError> {
    cells.of(&tables::TENANT);
    Ok(Tenant {
        no: cells.tenant()?,
        id: cells.entity()?,
        external_key: cells.opt_string()?,
        api_key: cells.string()?,
        secret_hash: cells.string()?,
        previous_secret: previous_secret(cells)?,
        is_active: cells.flag()?,
        created_at: cells.time()?,
        revision: cells.revision()?,
    })
}

fn previous_secret(cells: &mut Cells<'_>) -> Result<Option<PreviousSecret>, StoreError> {
    let (hash, until) = (cells.opt_string()?, cells.opt_time()?);
    Ok(hash.zip(until).map(|(hash, until)| PreviousSecret { hash, until }))
}

pub(crate) fn tenant_value_row(it: &TenantValue) -> [Value<'_>; 6] {
    [
        it.tenant.into(),
        (&it.key).into(),
        it.id.into(),
        it.value.as_ref().into(),
        it.revision.seq.into(),
        it.counted_bytes().cast_signed().into(),
    ]
}

/// Reads a row of [`tables::TENANT_VALUE`].
///
/// # Errors
/// See [`tenant`].
pub fn tenant_value(cells: &mut Cells<'_>) -> Result<TenantValue, StoreError> {
    cells.of(&tables::TENANT_VALUE);
    let (tenant, key) = (cells.tenant()?, cells.string()?);
    let (id, value, revision) = (cells.entity()?, cells.opt_string()?, cells.revision()?);
    // It follows from the rest.
    cells.skip(1);
    Ok(TenantValue { tenant, id, key, value, revision })
}

pub(crate) fn user_row<'a>(it: &'a User, roles: &'a str) -> [Value<'a>; 5] {
    [
        (&it.username).into(),
        (&it.password_hash).into(),
        roles.into(),
        it.active.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::APP_USER`].
///
/// # Errors
/// See [`tenant`].
pub fn user(cells: &mut Cells<'_>) -> Result<User, StoreError> {
    cells.of(&tables::APP_USER);
    Ok(User {
        username: cells.string()?,
        password_hash: cells.string()?,
        roles: cells.json()?,
        active: cells.flag()?,
        revision: cells.revision()?,
    })
}

pub(crate) fn role_row<'a>(it: &'a Role, permissions: &'a str) -> [Value<'a>; 3] {
    [(&it.name).into(), permissions.into(), it.revision.seq.into()]
}

/// Reads a row of [`tables::ROLE`].
///
/// # Errors
/// See [`tenant`].
pub fn role(cells: &mut Cells<'_>) -> Result<Role, StoreError> {
    cells.of(&tables::ROLE);
    Ok(Role { name: cells.string()?, permissions: cells.json()?, revision: cells.revision()? })
}

/// An account's row; `actor` is who made it, and counts only where the row is new.
pub(crate) fn account_row<'a>(
    it: &'a Account,
    actor: Option<&'a actors::Row>,
    folded: &'a Folded<1>,
) -> [Value<'a>; 23] {
    let [folded_key] = folded;
    let [id, salt, user, created_by, reason, comments] = actors::columns(actor);
    [
        it.tenant.into(),
        it.id.into(),
        it.external_key.as_ref().into(),
        currency(it.currency.as_ref()),
        i64::from(it.bill_cycle_day_local).into(),
        it.parent_account_id.into(),
        it.is_payment_delegated_to_parent.into(),
        it.payment_method_id.into(),
        it.external_payment_method.into(),
        it.reference_time.into(),
        (&it.time_zone).into(),
        it.is_migrated.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.erased_at.into(),
        it.revision.seq.into(),
        id,
        salt,
        user,
        created_by,
        reason,
        comments,
        folded_key.as_ref().into(),
    ]
}

/// Reads a row of [`tables::ACCOUNT`], but for its actor.
///
/// # Errors
/// See [`tenant`].
pub fn account(cells: &mut Cells<'_>) -> Result<Account, StoreError> {
    cells.of(&tables::ACCOUNT);
    let account = Account {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        external_key: cells.opt_string()?,
        currency: cells.opt_currency()?,
        bill_cycle_day_local: {
            let day = u8::try_from(cells.int()?).ok().filter(|day| *day <= 31);
            day.ok_or_else(|| cells.corrupt("is no day of a month"))?
        },
        parent_account_id: cells.opt_entity()?,
        is_payment_delegated_to_parent: cells.flag()?,
        payment_method_id: cells.opt_entity()?,
        external_payment_method: cells.opt_entity()?,
        reference_time: cells.time()?,
        time_zone: cells.string()?,
        is_migrated: cells.opt_flag()?,
        created_at: cells.time()?,
        updated_at: cells.time()?,
        erased_at: cells.opt_time()?,
        revision: cells.revision()?,
    };
    cells.skip(actors::COLUMNS + FOLDED + CHECKS);
    Ok(account)
}

pub(crate) fn person_row<'a>(
    (tenant, account, seq): (TenantNo, AccountId, Seq),
    it: &'a Person,
    folded: &'a Folded<3>,
) -> [Value<'a>; 19] {
    let [name, email, company] = folded;
    [
        tenant.into(),
        account.into(),
        seq.into(),
        it.name.as_ref().into(),
        it.first_name_length.map(i64::from).into(),
        it.email.as_ref().into(),
        it.address1.as_ref().into(),
        it.address2.as_ref().into(),
        it.postal_code.as_ref().into(),
        it.company.as_ref().into(),
        it.city.as_ref().into(),
        it.state.as_ref().into(),
        it.country.as_ref().into(),
        it.locale.as_ref().into(),
        it.phone.as_ref().into(),
        it.notes.as_ref().into(),
        name.as_ref().into(),
        email.as_ref().into(),
        company.as_ref().into(),
    ]
}

/// Reads a row of [`tables::ACCOUNT_PERSON`]: whose, from which revision on, and what.
///
/// # Errors
/// See [`tenant`].
pub fn person(cells: &mut Cells<'_>) -> Result<(AccountId, Seq, Person), StoreError> {
    cells.of(&tables::ACCOUNT_PERSON);
    cells.skip(1);
    let (account, seq) = (cells.entity()?, cells.seq()?);
    let name = cells.opt_string()?;
    let first_name_length = match cells.opt_int()? {
        None => None,
        Some(length) => {
            Some(i32::try_from(length).map_err(|_| cells.corrupt("is too long a name"))?)
        }
    };
    let person = Person {
        name,
        first_name_length,
        email: cells.opt_string()?,
        address1: cells.opt_string()?,
        address2: cells.opt_string()?,
        postal_code: cells.opt_string()?,
        company: cells.opt_string()?,
        city: cells.opt_string()?,
        state: cells.opt_string()?,
        country: cells.opt_string()?,
        locale: cells.opt_string()?,
        phone: cells.opt_string()?,
        notes: cells.opt_string()?,
    };
    Ok((account, seq, person))
}

pub(crate) fn payment_row(it: &Payment) -> [Value<'_>; 22] {
    [
        it.tenant.into(),
        it.id.into(),
        it.account_id.into(),
        it.payment_method_id.into(),
        it.number.into(),
        it.external_key.as_ref().into(),
        (&it.currency).into(),
        (&it.gateway).into(),
        operation_code(it.state.operation).into(),
        status_code(it.state.status).into(),
        it.last_success.map(|state| operation_code(state.operation)).into(),
        it.last_success.map(|state| status_code(state.status)).into(),
        it.amounts.authorized.into(),
        it.amounts.captured.into(),
        it.amounts.purchased.into(),
        it.amounts.refunded.into(),
        it.amounts.credited.into(),
        it.amounts.charged_back.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.purchase.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::PAYMENT`].
///
/// # Errors
/// See [`tenant`].
pub fn payment(cells: &mut Cells<'_>) -> Result<Payment, StoreError> {
    cells.of(&tables::PAYMENT);
    Ok(Payment {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        account_id: cells.entity()?,
        payment_method_id: cells.entity()?,
        number: cells.int()?,
        external_key: cells.opt_string()?,
        currency: cells.currency()?,
        gateway: cells.string()?,
        state: PaymentState { operation: cells.code(operation)?, status: cells.code(status)? },
        last_success: {
            let (operation, status) = (cells.opt_code(operation)?, cells.opt_code(status)?);
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
        purchase: cells.opt_entity()?,
        revision: cells.revision()?,
    })
}

/// A row of a transaction; `routed` is the JSON of that.
pub(crate) fn transaction_row<'a>(
    it: &'a Transaction,
    opened_seq: Seq,
    routed: Option<&'a String>,
) -> [Value<'a>; 25] {
    [
        it.tenant.into(),
        it.payment_id.into(),
        it.id.into(),
        opened_seq.into(),
        it.account_id.into(),
        it.external_key.as_ref().into(),
        (&it.gateway).into(),
        it.payment_method_id.into(),
        operation_code(it.kind).into(),
        status_code(it.status).into(),
        it.amount.into(),
        it.called_amount.into(),
        currency(it.currency.as_ref()),
        it.processed_amount.into(),
        currency(it.processed_currency.as_ref()),
        it.effective_at.into(),
        it.gateway_error_code.as_ref().into(),
        it.gateway_error_message.as_ref().into(),
        it.first_reference.as_ref().into(),
        it.second_reference.as_ref().into(),
        it.overruled.into(),
        it.merchant_account.as_ref().map(|it| &it.0).into(),
        routed.into(),
        it.heard_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::PAYMENT_TRANSACTION`].
///
/// # Errors
/// See [`tenant`].
pub fn transaction(cells: &mut Cells<'_>) -> Result<Transaction, StoreError> {
    Ok(opened_transaction(cells)?.1)
}

/// Reads a row of [`tables::PAYMENT_TRANSACTION`] with the journal row that made it: a payment's
/// transactions are in its order.
///
/// # Errors
/// See [`tenant`].
pub fn opened_transaction(cells: &mut Cells<'_>) -> Result<(Seq, Transaction), StoreError> {
    cells.of(&tables::PAYMENT_TRANSACTION);
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
        kind: cells.code(operation)?,
        status: cells.code(status)?,
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

pub(crate) fn posting_row(seq: Seq, ordinal: i64, it: &Posting) -> [Value<'_>; 12] {
    [
        seq.into(),
        ordinal.into(),
        it.tenant.into(),
        it.account_id.into(),
        it.payment_id.into(),
        it.transaction_id.into(),
        (&it.gateway).into(),
        ledger_account_code(it.debit).into(),
        ledger_account_code(it.credit).into(),
        it.amount.into(),
        (&it.currency).into(),
        it.at.into(),
    ]
}

/// Reads a row of [`tables::POSTING`] with the journal row that wrote it.
///
/// # Errors
/// See [`tenant`].
pub fn posting(cells: &mut Cells<'_>) -> Result<(Seq, Posting), StoreError> {
    cells.of(&tables::POSTING);
    let seq = cells.seq()?;
    cells.skip(1);
    let posting = Posting {
        tenant: cells.tenant()?,
        account_id: cells.entity()?,
        payment_id: cells.entity()?,
        transaction_id: cells.entity()?,
        gateway: cells.string()?,
        debit: cells.code(ledger_account)?,
        credit: cells.code(ledger_account)?,
        amount: cells.amount()?,
        currency: cells.currency()?,
        at: cells.time()?,
    };
    Ok((seq, posting))
}

pub(crate) fn environment_row(it: &Environment) -> [Value<'_>; 13] {
    [
        it.tenant.into(),
        it.id.into(),
        (&it.project).into(),
        (&it.key).into(),
        (&it.name).into(),
        it.version.into(),
        i64::from(it.definitions).into(),
        i64::from(it.secrets).into(),
        it.created_at.into(),
        it.revision.seq.into(),
        it.changes_need_approval.into(),
        i64::from(it.changes_waiting).into(),
        it.definitions_bytes.cast_signed().into(),
    ]
}

/// Reads a row of [`tables::ENVIRONMENT`].
///
/// # Errors
/// See [`tenant`].
pub fn environment(cells: &mut Cells<'_>) -> Result<Environment, StoreError> {
    cells.of(&tables::ENVIRONMENT);
    Ok(Environment {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        project: cells.string()?,
        key: cells.string()?,
        name: cells.string()?,
        version: cells.int()?,
        definitions: cells.count()?,
        secrets: cells.count()?,
        created_at: cells.time()?,
        revision: cells.revision()?,
        changes_need_approval: cells.flag()?,
        changes_waiting: cells.count()?,
        definitions_bytes: cells.length()?,
    })
}

pub(crate) fn secret_row(it: &Secret) -> [Value<'_>; 9] {
    [
        it.tenant.into(),
        it.id.into(),
        it.environment.into(),
        secret_kind_code(it.kind).into(),
        (&it.name).into(),
        (&it.sealed).into(),
        it.created_at.into(),
        it.expires_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::ENVIRONMENT_SECRET`].
///
/// # Errors
/// See [`tenant`].
pub fn secret(cells: &mut Cells<'_>) -> Result<Secret, StoreError> {
    cells.of(&tables::ENVIRONMENT_SECRET);
    Ok(Secret {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        environment: cells.entity()?,
        kind: cells.code(secret_kind)?,
        name: cells.string()?,
        sealed: cells.string()?,
        created_at: cells.time()?,
        expires_at: cells.opt_time()?,
        revision: cells.revision()?,
    })
}

pub(crate) fn definition_row(it: &Definition) -> [Value<'_>; 10] {
    let [tenant, environment, kind, key] = definition_key(it.tenant, &it.key);
    [
        tenant,
        environment,
        kind,
        key,
        it.id.into(),
        (&it.body).into(),
        it.is_archived.into(),
        it.version.into(),
        it.created_at.into(),
        it.revision.seq.into(),
    ]
}

/// The key columns of [`tables::DEFINITION`].
pub(crate) fn definition_key(tenant: TenantNo, it: &DefinitionKey) -> [Value<'_>; 4] {
    let kind = definition_kind_code(it.kind);
    [tenant.into(), it.environment.into(), kind.into(), (&it.key).into()]
}

/// Reads a row of [`tables::DEFINITION`].
///
/// # Errors
/// See [`tenant`].
pub fn definition(cells: &mut Cells<'_>) -> Result<Definition, StoreError> {
    cells.of(&tables::DEFINITION);
    Ok(Definition {
        tenant: cells.tenant()?,
        key: DefinitionKey {
            environment: cells.entity()?,
            kind: cells.code(definition_kind)?,
            key: cells.string()?,
        },
        id: cells.entity()?,
        body: cells.string()?,
        is_archived: cells.flag()?,
        version: cells.int()?,
        created_at: cells.time()?,
        revision: cells.revision()?,
    })
}

pub(crate) fn change_request_row(it: &ChangeRequest) -> [Value<'_>; 18] {
    let [tenant, environment, kind, key] = definition_key(it.tenant, &it.key);
    [
        tenant,
        it.id.into(),
        environment,
        kind,
        key,
        (&it.patch).into(),
        it.expected.into(),
        (&it.author).into(),
        it.reason.as_ref().into(),
        it.comment.as_ref().into(),
        it.created_at.into(),
        it.due_at.into(),
        change_status_code(it.status).into(),
        it.decided_by.as_ref().into(),
        it.explanation.as_ref().into(),
        it.version.into(),
        it.settled_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::CHANGE_REQUEST`].
///
/// # Errors
/// See [`tenant`].
pub fn change_request(cells: &mut Cells<'_>) -> Result<ChangeRequest, StoreError> {
    cells.of(&tables::CHANGE_REQUEST);
    Ok(ChangeRequest {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        key: DefinitionKey {
            environment: cells.entity()?,
            kind: cells.code(definition_kind)?,
            key: cells.string()?,
        },
        patch: cells.string()?,
        expected: cells.opt_int()?,
        author: cells.string()?,
        reason: cells.opt_string()?,
        comment: cells.opt_string()?,
        created_at: cells.time()?,
        due_at: cells.opt_time()?,
        status: cells.code(change_status)?,
        decided_by: cells.opt_string()?,
        explanation: cells.opt_string()?,
        version: cells.opt_int()?,
        settled_at: cells.opt_time()?,
        revision: cells.revision()?,
    })
}

pub(crate) fn outstanding_row(it: &Outstanding, partition: PartitionNo) -> [Value<'_>; 16] {
    [
        it.tenant.into(),
        it.transaction_id.into(),
        it.payment_id.into(),
        it.account_id.into(),
        (&it.gateway).into(),
        it.deadline.into(),
        it.ask_at.into(),
        i64::from(it.asked).into(),
        it.reply.into(),
        (&it.actor.user).into(),
        (&it.actor.created_by).into(),
        it.actor.reason.as_ref().into(),
        it.actor.comments.as_ref().into(),
        it.actor.token.into(),
        partition.number().into(),
        it.next_action.as_ref().into(),
    ]
}

/// Reads a row of [`tables::OUTSTANDING`].
///
/// # Errors
/// See [`tenant`].
pub fn outstanding(cells: &mut Cells<'_>) -> Result<Outstanding, StoreError> {
    cells.of(&tables::OUTSTANDING);
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
}

/// Reads the five columns that say who asked.
///
/// # Errors
/// See [`tenant`].
pub fn actor(cells: &mut Cells<'_>) -> Result<Actor, StoreError> {
    Ok(Actor {
        user: cells.string()?,
        created_by: cells.string()?,
        reason: cells.opt_string()?,
        comments: cells.opt_string()?,
        token: cells.id()?,
    })
}

pub(crate) fn reply_row<'a>(it: &StoredReply, answer: Option<&'a str>) -> [Value<'a>; 4] {
    [it.key.into(), it.fingerprint.into(), answer.into(), it.expires_at.into()]
}

/// Reads a row of [`tables::REPLY`].
///
/// # Errors
/// See [`tenant`].
pub fn reply(cells: &mut Cells<'_>) -> Result<StoredReply, StoreError> {
    cells.of(&tables::REPLY);
    Ok(StoredReply {
        key: ReplyKey(cells.id()?),
        fingerprint: cells.id()?,
        answer: cells.opt_json()?,
        expires_at: cells.time()?,
    })
}

pub(crate) fn delivery_row(it: &Delivery) -> [Value<'_>; 7] {
    [
        it.id.seq.into(),
        i64::from(it.id.ordinal).into(),
        it.id.endpoint.into(),
        it.tenant.into(),
        i64::from(it.attempts).into(),
        it.due_at.into(),
        (&it.error).into(),
    ]
}

/// Reads a row of [`tables::DELIVERY`].
///
/// # Errors
/// See [`tenant`].
pub fn delivery(cells: &mut Cells<'_>) -> Result<Delivery, StoreError> {
    cells.of(&tables::DELIVERY);
    let seq = cells.seq()?;
    let ordinal = cells.int()?;
    let ordinal = u16::try_from(ordinal).map_err(|_| cells.corrupt("is no event's place"))?;
    Ok(Delivery {
        id: DeliveryId { seq, ordinal, endpoint: cells.entity()? },
        tenant: cells.tenant()?,
        attempts: cells.count()?,
        due_at: cells.time()?,
        error: cells.string()?,
    })
}
