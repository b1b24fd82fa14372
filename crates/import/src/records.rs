//! Kill Bill's records, as parts of the domain's commands.

use domain::account::CreateAccount;
use domain::account::email::AccountEmailId;
use domain::account::payment_method::CreatePaymentMethod;
use domain::account::tag::DefinitionRef;
use domain::import::{
    AuditKind, Dates, ImportTagDefinition, ImportedAudit, ImportedEmail, ImportedField,
    ImportedMethod, ImportedTag, ImportedTransaction,
};
use domain::object::Object;
use domain::payment::{TransactionStatus, TransactionType};
use domain::{
    AccountId, CustomFieldId, PaymentId, PaymentMethodId, Person, TagDefinitionId, TagId,
    Timestamp, TransactionId,
};
use ring::digest::{SHA256, digest};
use uuid::Uuid;

use crate::cells::{Cells, Error, Name, name};

pub(crate) const CREATED_BY: Name = name("createdBy", "created_by");
const CREATED: Name = name("createdDate", "created_date");
const UPDATED: Name = name("updatedDate", "updated_date");
const EXTERNAL_KEY: Name = name("externalKey", "external_key");
const CURRENCY: Name = name("currency", "currency");

/// When a record was made and last changed: as its columns say, else as its audit does.
pub(crate) fn dates(cells: Cells<'_>, of: &str, audits: &[ImportedAudit]) -> Result<Dates, Error> {
    let first = audits.first().map(|it| it.at);
    let last = audits.last().map(|it| it.at);
    let created_at = cells.time(of, CREATED)?.or(first).unwrap_or_default();
    let updated_at = cells.time(of, UPDATED)?.or(last).unwrap_or(created_at);
    Ok(Dates { created_at, updated_at })
}

pub(crate) fn account_id(cells: Cells<'_>) -> Result<AccountId, Error> {
    cells.id("account", name("accountId", "id")).map(AccountId::new)
}

/// An account, without what belongs to it.
pub(crate) fn account(cells: Cells<'_>, of: &str) -> Result<CreateAccount, Error> {
    let text = |api, column| cells.safe(of, name(api, column));
    let length = name("firstNameLength", "first_name_length");
    let first_name_length = cells.int(of, length)?.map(i32::try_from);
    let first_name_length =
        first_name_length.transpose().map_err(|_| cells.error(of, length, "is no length"))?;
    let day = name("billCycleDayLocal", "billing_cycle_day_local");
    let bill_cycle_day_local = u8::try_from(cells.int(of, day)?.unwrap_or(0));
    let bill_cycle_day_local = bill_cycle_day_local
        .ok()
        .filter(|it| *it <= 31)
        .ok_or_else(|| cells.error(of, day, "is no day"))?;
    Ok(CreateAccount {
        external_key: cells.safe(of, EXTERNAL_KEY)?,
        person: Person {
            name: text("name", "name")?,
            first_name_length,
            email: text("email", "email")?,
            address1: text("address1", "address1")?,
            address2: text("address2", "address2")?,
            postal_code: text("postalCode", "postal_code")?,
            company: text("company", "company_name")?,
            city: text("city", "city")?,
            state: text("state", "state_or_province")?,
            country: text("country", "country")?,
            locale: text("locale", "locale")?,
            phone: text("phone", "phone")?,
            notes: text("notes", "notes")?,
        },
        currency: cells.currency(of, CURRENCY)?,
        bill_cycle_day_local,
        parent_account_id: cells
            .opt_id(of, name("parentAccountId", "parent_account_id"))?
            .map(AccountId::new),
        is_payment_delegated_to_parent: cells
            .flag(name("isPaymentDelegatedToParent", "is_payment_delegated_to_parent"))
            .unwrap_or(false),
        reference_time: cells.time(of, name("referenceTime", "reference_time"))?,
        time_zone: text("timeZone", "time_zone")?,
        is_migrated: cells.flag(name("isMigrated", "migrated")),
        tags: vec![],
    })
}

pub(crate) fn default_method(cells: Cells<'_>, of: &str) -> Result<Option<PaymentMethodId>, Error> {
    let id = cells.opt_id(of, name("paymentMethodId", "payment_method_id"))?;
    Ok(id.map(PaymentMethodId::new))
}

pub(crate) fn method_id(cells: Cells<'_>) -> Result<PaymentMethodId, Error> {
    cells.id("payment method", name("paymentMethodId", "id")).map(PaymentMethodId::new)
}

/// A payment method. Where its record does not say whether it is deleted, its audit does.
pub(crate) fn method(
    cells: Cells<'_>,
    (id, account): (PaymentMethodId, AccountId),
    audits: &[ImportedAudit],
) -> Result<ImportedMethod, Error> {
    let of = format!("payment method {id}");
    let gateway = cells.required(&of, name("pluginName", "plugin_name"))?;
    let external_key = cells.safe(&of, EXTERNAL_KEY)?;
    let dates = dates(cells, &of, audits)?;
    let method =
        CreatePaymentMethod { external_key, ..CreatePaymentMethod::default_of(account, gateway) };
    let was_deleted = audits.last().is_some_and(|it| it.kind == AuditKind::Delete);
    let active = cells.flag(name("isActive", "is_active")).unwrap_or(!was_deleted);
    Ok(ImportedMethod { id, method, active, dates })
}

/// A further address. In Kill Bill's API only its audit has its id (`known`); without that it is made of account
/// and address.
pub(crate) fn email(
    cells: Cells<'_>,
    account: AccountId,
    known: Option<Uuid>,
) -> Result<ImportedEmail, Error> {
    let of = format!("e-mail of account {account}");
    let email = cells.required(&of, name("email", "email"))?;
    let id = known.map_or_else(|| cells.opt_id(&of, name("", "id")), |id| Ok(Some(id)))?;
    let id = id.unwrap_or_else(|| email_id(account, &email));
    let created_at = dates(cells, &of, &[])?.created_at;
    Ok(ImportedEmail { id: AccountEmailId::new(id), email, created_at })
}

fn email_id(account: AccountId, email: &str) -> Uuid {
    let digest = digest(&SHA256, format!("{account}\n{email}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The object that a custom field or tag of Kill Bill's is on, where objects of its type have them here.
/// `payment_of` finds the payment of a transaction.
pub(crate) fn object(
    cells: Cells<'_>,
    of: &str,
    payment_of: impl Fn(TransactionId) -> Option<PaymentId>,
) -> Result<Object, Error> {
    let id = cells.id(of, name("objectId", "object_id"))?;
    let kind = name("objectType", "object_type");
    match &*cells.required(of, kind)? {
        "ACCOUNT" => Ok(Object::Account(AccountId::new(id))),
        "PAYMENT_METHOD" => Ok(Object::PaymentMethod(PaymentMethodId::new(id))),
        "PAYMENT" => Ok(Object::Payment(PaymentId::new(id))),
        "TRANSACTION" => {
            let id = TransactionId::new(id);
            let payment = payment_of(id);
            let payment = payment.ok_or_else(|| cells.error(of, kind, "is of no payment here"))?;
            Ok(Object::Transaction { payment, id })
        }
        other => Err(cells.error(of, kind, format!("{other} has no tags and fields here"))),
    }
}

pub(crate) fn tag(cells: Cells<'_>, object: Object, of: &str) -> Result<ImportedTag, Error> {
    let id = TagId::new(cells.id(of, name("tagId", "id"))?);
    let definition = cells.id(of, name("tagDefinitionId", "tag_definition_id"))?;
    let definition = DefinitionRef::of(TagDefinitionId::new(definition));
    let created_at = dates(cells, of, &[])?.created_at;
    Ok(ImportedTag { id, object, definition, created_at })
}

pub(crate) fn field(cells: Cells<'_>, object: Object, of: &str) -> Result<ImportedField, Error> {
    Ok(ImportedField {
        id: CustomFieldId::new(cells.id(of, name("customFieldId", "id"))?),
        object,
        name: cells.required(of, name("name", "field_name"))?,
        value: cells.required(of, name("value", "field_value"))?,
        dates: dates(cells, of, &[])?,
    })
}

/// Whether a row is shown; what the API lists is.
pub(crate) fn is_active(cells: Cells<'_>) -> bool {
    cells.flag(name("isActive", "is_active")).unwrap_or(true)
}

pub(crate) fn definition(cells: Cells<'_>) -> Result<ImportTagDefinition, Error> {
    let id = cells.id("tag definition", name("id", "id"))?;
    let of = format!("tag definition {id}");
    let types = cells.text(name("", "applicable_object_types")).unwrap_or_default();
    Ok(ImportTagDefinition {
        id: TagDefinitionId::new(id),
        name: cells.required(&of, name("name", "name"))?,
        description: cells.required(&of, name("description", "description"))?,
        applies_to: types.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect(),
        created_at: dates(cells, &of, &[])?.created_at,
    })
}

pub(crate) fn transaction(
    cells: Cells<'_>,
    (payment_method, before): (PaymentMethodId, &[ImportedTransaction]),
    currency_of_payment: Option<domain::Currency>,
) -> Result<ImportedTransaction, Error> {
    let id = TransactionId::new(cells.id("transaction", name("transactionId", "id"))?);
    let of = &format!("transaction {id}");
    let (kind_name, status_name) =
        (name("transactionType", "transaction_type"), name("status", "transaction_status"));
    let key = name("transactionExternalKey", "transaction_external_key");
    let external_key = cells.safe(of, key)?.unwrap_or_else(|| id.to_string());
    let currency = cells.currency(of, CURRENCY)?.or(currency_of_payment);
    let currency = currency.ok_or_else(|| cells.error(of, CURRENCY, "is missing"))?;
    let (mut kind, mut status) = (
        kind_of(&cells.required(of, kind_name)?)
            .ok_or_else(|| cells.error(of, kind_name, "is unknown"))?,
        status_of(&cells.required(of, status_name)?)
            .ok_or_else(|| cells.error(of, status_name, "is unknown"))?,
    );
    let mut amount = cells.amount(of, name("amount", "amount"), currency)?;
    let mut processed_amount =
        cells.amount(of, name("processedAmount", "processed_amount"), currency)?;
    let processed = name("processedCurrency", "processed_currency");
    if cells.currency(of, processed)?.is_some_and(|it| it != currency) {
        return Err(cells.error(of, processed, "differs from the currency"));
    }
    // Kill Bill shows that a chargeback was reversed as a failed one under the same key.
    let is_reversed = |it: &&ImportedTransaction| {
        (it.kind, it.status) == (TransactionType::Chargeback, TransactionStatus::Success)
            && it.external_key == external_key
    };
    if (kind, status) == (TransactionType::Chargeback, TransactionStatus::PaymentFailure)
        && let Some(reversed) = before.iter().rev().find(is_reversed)
    {
        (kind, status) = (TransactionType::ChargebackReversal, TransactionStatus::Success);
        amount = reversed.processed_amount.or(reversed.amount);
        processed_amount = amount;
    }
    let effective_at = cells.time(of, name("effectiveDate", "effective_date"))?.unwrap_or_default();
    // Their order is that of their times: those of one instant are set apart by a microsecond.
    let earliest = before.last().map(|it| it.effective_at.plus_us(1));
    let text = |api, column| Ok::<_, Error>(cells.text(name(api, column)).map(Into::into));
    Ok(ImportedTransaction {
        id,
        external_key,
        payment_method,
        kind,
        status,
        amount,
        processed_amount,
        currency,
        effective_at: earliest.map_or(effective_at, |it| effective_at.max(it)),
        error_code: text("gatewayErrorCode", "gateway_error_code")?,
        error_message: text("gatewayErrorMsg", "gateway_error_msg")?,
        first_reference: text("firstPaymentReferenceId", "")?,
        second_reference: text("secondPaymentReferenceId", "")?,
    })
}

fn kind_of(name: &str) -> Option<TransactionType> {
    Some(match name {
        "AUTHORIZE" => TransactionType::Authorize,
        "CAPTURE" => TransactionType::Capture,
        "PURCHASE" => TransactionType::Purchase,
        "REFUND" => TransactionType::Refund,
        "CREDIT" => TransactionType::Credit,
        "VOID" => TransactionType::Void,
        "CHARGEBACK" => TransactionType::Chargeback,
        _ => return None,
    })
}

fn status_of(name: &str) -> Option<TransactionStatus> {
    Some(match name {
        "SUCCESS" => TransactionStatus::Success,
        "UNKNOWN" => TransactionStatus::Unknown,
        "PENDING" => TransactionStatus::Pending,
        "PAYMENT_FAILURE" => TransactionStatus::PaymentFailure,
        "PLUGIN_FAILURE" | "PAYMENT_SYSTEM_OFF" => TransactionStatus::PluginFailure,
        _ => return None,
    })
}

/// An entry of the audit: from the API's `auditLogs`, or of a table's row.
pub(crate) fn audit(cells: Cells<'_>, object: Uuid) -> Result<ImportedAudit, Error> {
    let of = &format!("audit of {object}");
    let date = name("changeDate", "created_date");
    let at = cells.time(of, date)?.ok_or_else(|| cells.error(of, date, "is missing"))?;
    let text = |api, column| cells.safe(of, name(api, column));
    let kind = name("changeType", "change_type");
    Ok(ImportedAudit {
        object,
        kind: match &*cells.required(of, kind)? {
            "INSERT" => AuditKind::Insert,
            "UPDATE" => AuditKind::Update,
            "DELETE" => AuditKind::Delete,
            _ => return Err(cells.error(of, kind, "is unknown")),
        },
        at,
        changed_by: text("changedBy", "created_by")?.unwrap_or_default(),
        reason: text("reasonCode", "reason_code")?,
        comments: text("comments", "comments")?,
        token: cells.opt_id(of, name("userToken", "user_token")).ok().flatten().unwrap_or_default(),
    })
}

/// A row without entries of its own is said to have been made, and changed, by whom its columns name.
pub(crate) fn audits_of_row(cells: Cells<'_>, object: Uuid) -> Result<Vec<ImportedAudit>, Error> {
    let of = &format!("audit of {object}");
    let entry = |kind, by: Name, at: Option<Timestamp>| {
        let changed_by = cells.safe(of, by)?.unwrap_or_default();
        let (reason, comments) = (None, None);
        let token = Uuid::nil();
        Ok(at.map(|at| ImportedAudit { object, kind, at, changed_by, reason, comments, token }))
    };
    let (made, changed) = (cells.time(of, CREATED)?, cells.time(of, UPDATED)?);
    let first = entry(AuditKind::Insert, CREATED_BY, made)?;
    let changed = changed.filter(|it| Some(*it) != made);
    let then = entry(AuditKind::Update, name("updatedBy", "updated_by"), changed)?;
    Ok(first.into_iter().chain(then).collect())
}
