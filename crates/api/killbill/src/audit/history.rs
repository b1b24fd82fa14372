//! The former values of a resource, in the columns of Kill Bill's history tables.

use std::borrow::Cow;

use domain::account::Person;
use domain::account::blocking_state::BlockingState;
use domain::account::custom_field::CustomField;
use domain::account::email::AccountEmail;
use domain::account::tag::{Tag, TagDefinition};
use domain::billing::bundle::Bundle;
use domain::billing::invoice::{Invoice, InvoiceItem};
use domain::billing::subscription::Subscription;
use domain::payment::attempt::PaymentAttempt;
use domain::payment::{Payment, Transaction, TransactionStatus};
use domain::{
    Account, AccountId, Currency, PaymentMethod, PaymentMethodId, SubscriptionId, TenantNo,
    Timestamp, TransactionId,
};
use engine::time::rfc3339_second;
use serde::Serialize;
use uuid::Uuid;

use super::{Entry, Image, Stage, record_id};
use crate::amount::{Decimal, Number};
use crate::json::PropertyJson;
use crate::payment_states::{state_name, status_name};

/// One row of a history table.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryJson<'a> {
    /// Always null, as in Kill Bill.
    id: Option<Uuid>,
    created_date: String,
    updated_date: String,
    record_id: i64,
    account_record_id: u64,
    tenant_record_id: u32,
    #[serde(flatten)]
    columns: Columns<'a>,
    history_table_name: &'static str,
    table_name: &'static str,
}

/// An event as a subscription shows it.
#[derive(Clone, Copy)]
pub(crate) struct EventImage<'a> {
    pub(crate) id: Uuid,
    pub(crate) kind: &'static str,
    pub(crate) effective_date: &'a str,
    pub(crate) plan: &'a str,
    pub(crate) phase: &'a str,
    pub(crate) price_list: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Columns<'a> {
    Account(Box<AccountColumns<'a>>),
    Tag(TagColumns),
    Email(EmailColumns<'a>),
    BlockingState(BlockingStateColumns<'a>),
    TagDefinition(TagDefinitionColumns<'a>),
    CustomField(CustomFieldColumns<'a>),
    PaymentMethod(PaymentMethodColumns<'a>),
    Payment(PaymentColumns<'a>),
    Transaction(Box<TransactionColumns<'a>>),
    Attempt(Box<AttemptColumns<'a>>),
    Bundle(BundleColumns<'a>),
    Subscription(SubscriptionColumns<'a>),
    Event(Box<EventColumns<'a>>),
    Invoice(InvoiceColumns<'a>),
    InvoiceItem(Box<InvoiceItemColumns<'a>>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountColumns<'a> {
    external_key: Cow<'a, str>,
    email: Option<&'a str>,
    name: Option<&'a str>,
    first_name_length: Option<i32>,
    currency: Option<&'a str>,
    parent_account_id: Option<Uuid>,
    /// Null if it is false, as in Kill Bill.
    is_payment_delegated_to_parent: Option<bool>,
    billing_cycle_day_local: u8,
    payment_method_id: Option<Uuid>,
    reference_time: String,
    time_zone: &'a str,
    locale: Option<&'a str>,
    address1: Option<&'a str>,
    address2: Option<&'a str>,
    company_name: Option<&'a str>,
    city: Option<&'a str>,
    state_or_province: Option<&'a str>,
    country: Option<&'a str>,
    postal_code: Option<&'a str>,
    phone: Option<&'a str>,
    notes: Option<&'a str>,
    migrated: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PaymentMethodColumns<'a> {
    external_key: Cow<'a, str>,
    account_id: Uuid,
    plugin_name: &'a str,
    is_active: bool,
    active: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TagColumns {
    tag_definition_id: Uuid,
    object_id: Uuid,
    object_type: &'static str,
    is_active: bool,
    active: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EmailColumns<'a> {
    account_id: Uuid,
    email: &'a str,
    is_active: bool,
    active: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockingStateColumns<'a> {
    blockable_id: Uuid,
    #[serde(rename = "type")]
    kind: &'static str,
    state: &'a str,
    service: &'a str,
    block_change: bool,
    block_entitlement: bool,
    block_billing: bool,
    effective_date: String,
    is_active: bool,
    active: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TagDefinitionColumns<'a> {
    name: &'a str,
    description: &'a str,
    applicable_object_types: String,
    is_active: bool,
    active: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CustomFieldColumns<'a> {
    field_name: &'a str,
    field_value: &'a str,
    object_id: Uuid,
    object_type: &'static str,
    is_active: bool,
    active: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PaymentColumns<'a> {
    account_id: Uuid,
    /// Always null, as in Kill Bill.
    payment_number: Option<String>,
    payment_method_id: Uuid,
    external_key: Cow<'a, str>,
    state_name: Option<String>,
    last_success_state_name: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AttemptColumns<'a> {
    account_id: Uuid,
    payment_method_id: Option<Uuid>,
    payment_external_key: Option<&'a str>,
    transaction_id: Option<Uuid>,
    transaction_external_key: Option<&'a str>,
    transaction_type: &'static str,
    state_name: &'static str,
    amount: Option<Decimal>,
    currency: &'a str,
    plugin_name: String,
    plugin_properties: Vec<PropertyJson<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleColumns<'a> {
    external_key: Cow<'a, str>,
    account_id: Uuid,
    original_created_date: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubscriptionColumns<'a> {
    bundle_id: Uuid,
    external_key: Cow<'a, str>,
    category: &'static str,
    start_date: String,
    charged_through_date: Option<String>,
    /// Always false: none is brought over.
    migrated: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventColumns<'a> {
    event_type: &'static str,
    effective_date: &'a str,
    subscription_id: Uuid,
    plan_name: &'a str,
    phase_name: &'a str,
    price_list_name: &'a str,
    /// Always true: what is taken back is not shown.
    is_active: bool,
    active: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvoiceColumns<'a> {
    account_id: Uuid,
    invoice_number: i64,
    invoice_date: String,
    target_date: Option<String>,
    currency: &'a str,
    status: &'static str,
    /// Always false: none is brought over.
    migrated: bool,
    /// Always false, as there are no invoices of parents.
    parent_invoice: bool,
    /// Each invoice is a group of its own.
    grp_id: Uuid,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvoiceItemColumns<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    invoice_id: Uuid,
    account_id: Uuid,
    bundle_id: Option<Uuid>,
    subscription_id: Option<Uuid>,
    description: Option<&'a str>,
    product_name: Option<&'a str>,
    plan_name: Option<&'a str>,
    phase_name: Option<&'a str>,
    start_date: String,
    end_date: Option<String>,
    amount: Decimal,
    rate: Option<Number>,
    currency: &'a str,
    linked_item_id: Option<Uuid>,
    item_details: Option<&'a str>,
    catalog_effective_date: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TransactionColumns<'a> {
    /// Always null: an attempt names its transaction.
    attempt_id: Option<Uuid>,
    payment_id: Uuid,
    transaction_external_key: Cow<'a, str>,
    transaction_type: &'static str,
    effective_date: String,
    transaction_status: &'static str,
    amount: Option<Decimal>,
    currency: Option<&'a str>,
    processed_amount: Option<Decimal>,
    processed_currency: Option<&'a str>,
    gateway_error_code: Option<&'a str>,
    gateway_error_msg: Option<&'a str>,
}

impl<'a> HistoryJson<'a> {
    /// Kill Bill numbers its records. The number of the journal's row replaces the record's number, and
    /// the low 32 bits of the account's id replace the number of the account's record.
    pub(super) fn of(entry: &Entry<'a>) -> Self {
        let (tenant, account, created_at) = owner(entry.image);
        let (history_table_name, table_name) = tables(entry.image);
        Self {
            id: None,
            created_date: rfc3339_second(created_at),
            updated_date: rfc3339_second(entry.row.at),
            record_id: entry.row.seq.0,
            account_record_id: record_id(account.uuid()),
            tenant_record_id: tenant.0,
            columns: Columns::of(entry),
            history_table_name,
            table_name,
        }
    }

    /// That of an event which this entry of its subscription has.
    pub(super) fn of_event(
        entry: &Entry<'a>,
        (of, event): (SubscriptionId, EventImage<'a>),
    ) -> Self {
        let columns = Columns::Event(Box::new(EventColumns {
            event_type: event.kind,
            effective_date: event.effective_date,
            subscription_id: of.uuid(),
            plan_name: event.plan,
            phase_name: event.phase,
            price_list_name: event.price_list,
            is_active: true,
            active: true,
        }));
        Self {
            columns,
            history_table_name: "SUBSCRIPTION_EVENT_HISTORY",
            table_name: "SUBSCRIPTION_EVENTS",
            ..Self::of(entry)
        }
    }
}

/// Kill Bill's table of the record's history, and that of the record.
const fn tables(image: Image<'_>) -> (&'static str, &'static str) {
    match image {
        Image::Account(..) => ("ACCOUNT_HISTORY", "ACCOUNT"),
        Image::Tag(_) => ("TAG_HISTORY", "TAG"),
        Image::Email(_) => ("ACCOUNT_EMAIL_HISTORY", "ACCOUNT_EMAIL"),
        Image::BlockingState(_) => ("BLOCKING_STATES_HISTORY", "BLOCKING_STATES"),
        Image::TagDefinition(_) => ("TAG_DEFINITION_HISTORY", "TAG_DEFINITIONS"),
        Image::CustomField(_) => ("CUSTOM_FIELD_HISTORY", "CUSTOM_FIELD"),
        Image::PaymentMethod(_) => ("PAYMENT_METHOD_HISTORY", "PAYMENT_METHODS"),
        Image::Payment(_) => ("PAYMENT_HISTORY", "PAYMENTS"),
        Image::Attempt(_) => ("PAYMENT_ATTEMPT_HISTORY", "PAYMENT_ATTEMPTS"),
        Image::Bundle(_) => ("BUNDLE_HISTORY", "BUNDLES"),
        Image::Subscription(_) => ("SUBSCRIPTION_HISTORY", "SUBSCRIPTIONS"),
        Image::Invoice(_) => ("INVOICE_HISTORY", "INVOICES"),
        Image::InvoiceItem(_) => ("INVOICE_ITEM_HISTORY", "INVOICE_ITEMS"),
        Image::Transaction(_) => ("PAYMENT_TRANSACTION_HISTORY", "PAYMENT_TRANSACTIONS"),
    }
}

impl<'a> Columns<'a> {
    fn of(entry: &Entry<'a>) -> Self {
        match entry.image {
            Image::Account(it, person) => Self::Account(Box::new(account_columns(it, person))),
            Image::Tag(it) => Self::Tag(tag_columns(it)),
            Image::Email(it) => Self::Email(email_columns(it)),
            Image::BlockingState(it) => Self::BlockingState(blocking_state_columns(it)),
            Image::TagDefinition(it) => Self::TagDefinition(tag_definition_columns(it)),
            Image::CustomField(it) => Self::CustomField(custom_field_columns(it)),
            Image::PaymentMethod(it) => Self::PaymentMethod(payment_method_columns(it)),
            Image::Payment(it) => Self::Payment(payment_columns(it, entry)),
            Image::Attempt(it) => Self::Attempt(Box::new(attempt_columns(it))),
            Image::Bundle(it) => Self::Bundle(bundle_columns(it)),
            Image::Subscription(it) => Self::Subscription(subscription_columns(it)),
            Image::Invoice(it) => Self::Invoice(invoice_columns(it)),
            Image::InvoiceItem(it) => Self::InvoiceItem(Box::new(invoice_item_columns(it))),
            Image::Transaction(it) => {
                Self::Transaction(Box::new(transaction_columns(it, entry.stage)))
            }
        }
    }
}

pub(super) fn owner(image: Image<'_>) -> (TenantNo, AccountId, Timestamp) {
    match image {
        Image::Account(it, _) => (it.tenant, it.id, it.created_at),
        Image::Tag(it) => (it.tenant, it.key.account, it.created_at),
        // It belongs to no account.
        Image::TagDefinition(it) => (it.tenant, AccountId::new(Uuid::nil()), it.created_at),
        Image::Email(it) => (it.tenant, it.account, it.created_at),
        Image::BlockingState(it) => (it.tenant, it.account, it.created_at),
        Image::CustomField(it) => (it.tenant, it.account, it.created_at),
        Image::PaymentMethod(it) => (it.tenant, it.account_id, it.created_at),
        Image::Payment(it) => (it.tenant, it.account_id, it.created_at),
        Image::Transaction(it) => (it.tenant, it.account_id, it.effective_at),
        Image::Attempt(it) => (it.tenant, it.account_id, it.created_at),
        Image::Bundle(it) => (it.tenant, it.account_id, it.created_at),
        Image::Subscription(it) => (it.tenant, it.account_id, it.created_at),
        Image::Invoice(it) => (it.tenant, it.account_id, it.created_at),
        Image::InvoiceItem(it) => (it.tenant, it.account_id, it.created_at),
    }
}

fn key_or_id<'a>(key: Option<&'a String>, id: Uuid) -> Cow<'a, str> {
    key.map_or_else(|| Cow::Owned(id.to_string()), |key| Cow::Borrowed(key.as_str()))
}

fn account_columns<'a>(account: &'a Account, person: Option<&'a Person>) -> AccountColumns<'a> {
    let of = |field: fn(&Person) -> &Option<String>| person.and_then(|it| field(it).as_deref());
    AccountColumns {
        external_key: key_or_id(account.external_key.as_ref(), account.id.uuid()),
        email: of(|it| &it.email),
        name: of(|it| &it.name),
        first_name_length: person.and_then(|it| it.first_name_length),
        currency: account.currency.as_ref().map(Currency::code),
        parent_account_id: account.parent_account_id.map(AccountId::uuid),
        is_payment_delegated_to_parent: account.is_payment_delegated_to_parent.then_some(true),
        billing_cycle_day_local: account.bill_cycle_day_local,
        payment_method_id: account.payment_method_id.map(PaymentMethodId::uuid),
        reference_time: rfc3339_second(account.reference_time),
        time_zone: &account.time_zone,
        locale: of(|it| &it.locale),
        address1: of(|it| &it.address1),
        address2: of(|it| &it.address2),
        company_name: of(|it| &it.company),
        city: of(|it| &it.city),
        state_or_province: of(|it| &it.state),
        country: of(|it| &it.country),
        postal_code: of(|it| &it.postal_code),
        phone: of(|it| &it.phone),
        notes: of(|it| &it.notes),
        migrated: account.is_migrated,
    }
}

const fn email_columns(it: &AccountEmail) -> EmailColumns<'_> {
    EmailColumns {
        account_id: it.account.uuid(),
        email: it.email.as_str(),
        is_active: it.active,
        active: it.active,
    }
}

fn blocking_state_columns(it: &BlockingState) -> BlockingStateColumns<'_> {
    BlockingStateColumns {
        blockable_id: it.of.id(it.account),
        kind: it.of.type_name(),
        state: &it.name,
        service: &it.service,
        block_change: it.blocks.change,
        block_entitlement: it.blocks.entitlement,
        block_billing: it.blocks.billing,
        effective_date: rfc3339_second(it.effective_at),
        is_active: it.active,
        active: it.active,
    }
}

fn tag_definition_columns(it: &TagDefinition) -> TagDefinitionColumns<'_> {
    TagDefinitionColumns {
        name: &it.name,
        description: &it.description,
        applicable_object_types: it.applies_to.join(","),
        is_active: it.active,
        active: it.active,
    }
}

fn tag_columns(tag: &Tag) -> TagColumns {
    TagColumns {
        tag_definition_id: tag.key.definition.id().uuid(),
        object_id: tag.key.object().id(),
        object_type: tag.key.object().kind().name(),
        is_active: tag.active,
        active: tag.active,
    }
}

fn custom_field_columns(field: &CustomField) -> CustomFieldColumns<'_> {
    CustomFieldColumns {
        field_name: &field.name,
        field_value: &field.value,
        object_id: field.object.id(),
        object_type: field.object.kind().name(),
        is_active: field.active,
        active: field.active,
    }
}

fn payment_method_columns(method: &PaymentMethod) -> PaymentMethodColumns<'_> {
    PaymentMethodColumns {
        external_key: key_or_id(method.external_key.as_ref(), method.id.uuid()),
        account_id: method.account_id.uuid(),
        plugin_name: &method.gateway,
        is_active: method.active,
        active: method.active,
    }
}

fn payment_columns<'a>(payment: &'a Payment, entry: &Entry<'a>) -> PaymentColumns<'a> {
    let state = match entry.stage {
        Stage::Opened => entry.state_before,
        Stage::AsWritten => Some(payment.state),
    };
    let last_success = match entry.stage {
        Stage::Opened => entry.success_before,
        Stage::AsWritten => payment.last_success,
    };
    PaymentColumns {
        account_id: payment.account_id.uuid(),
        payment_number: None,
        payment_method_id: payment.payment_method_id.uuid(),
        external_key: key_or_id(payment.external_key.as_ref(), payment.id.uuid()),
        state_name: state.map(state_name),
        last_success_state_name: last_success.map(state_name),
    }
}

fn attempt_columns(it: &PaymentAttempt) -> AttemptColumns<'_> {
    AttemptColumns {
        account_id: it.account_id.uuid(),
        payment_method_id: it.payment_method_id.map(PaymentMethodId::uuid),
        payment_external_key: it.payment_key.as_deref(),
        transaction_id: it.transaction_id.map(TransactionId::uuid),
        transaction_external_key: it.transaction_key.as_deref(),
        transaction_type: it.kind.killbill_name(),
        state_name: it.state.name(),
        amount: Decimal::of_attempt(it),
        currency: it.currency.code(),
        plugin_name: it.plugins.join(","),
        plugin_properties: PropertyJson::all(&it.properties),
    }
}

fn bundle_columns(it: &Bundle) -> BundleColumns<'_> {
    BundleColumns {
        external_key: key_or_id(it.external_key.as_ref(), it.id.uuid()),
        account_id: it.account_id.uuid(),
        original_created_date: rfc3339_second(it.created_at),
    }
}

fn subscription_columns(it: &Subscription) -> SubscriptionColumns<'_> {
    SubscriptionColumns {
        bundle_id: it.bundle_id.uuid(),
        external_key: key_or_id(it.external_key.as_ref(), it.id.uuid()),
        category: it.category.name(),
        start_date: rfc3339_second(it.starts_at()),
        charged_through_date: it.charged_through.map(|it| it.to_string()),
        migrated: false,
    }
}

fn invoice_columns(it: &Invoice) -> InvoiceColumns<'_> {
    InvoiceColumns {
        account_id: it.account_id.uuid(),
        invoice_number: it.number,
        invoice_date: it.invoice_date.to_string(),
        target_date: it.target_date.map(|it| it.to_string()),
        currency: it.currency.code(),
        status: it.status.name(),
        migrated: false,
        parent_invoice: false,
        grp_id: it.id.uuid(),
    }
}

fn invoice_item_columns(it: &InvoiceItem) -> InvoiceItemColumns<'_> {
    let (of, manual) = (it.of.as_ref(), it.manual.as_deref());
    let bundle = of.map(|it| it.bundle).or_else(|| manual?.bundle);
    let subscription = of.map(|it| it.subscription).or_else(|| manual?.subscription);
    InvoiceItemColumns {
        kind: it.kind.name(),
        invoice_id: it.invoice_id.uuid(),
        account_id: it.account_id.uuid(),
        bundle_id: bundle.map(|it| it.uuid()),
        subscription_id: subscription.map(|it| it.uuid()),
        description: it.description.as_deref(),
        product_name: of.map(|it| it.product.as_str()).or_else(|| manual?.product.as_deref()),
        plan_name: of.map(|it| it.plan.as_str()).or_else(|| manual?.plan.as_deref()),
        phase_name: of.map(|it| it.phase.as_str()).or_else(|| manual?.phase.as_deref()),
        start_date: it.start.to_string(),
        end_date: it.end.map(|it| it.to_string()),
        amount: Decimal::new(it.amount, Some(it.currency)),
        rate: of.and_then(|it| it.rate).or_else(|| manual?.rate).map(Number::of),
        currency: it.currency.code(),
        linked_item_id: it.linked.map(|it| it.uuid()),
        item_details: it.details.as_deref(),
        catalog_effective_date: of.map(|it| rfc3339_second(it.catalog_effective_at)),
    }
}

fn transaction_columns(transaction: &Transaction, stage: Stage) -> TransactionColumns<'_> {
    let currency = transaction.currency.as_ref().map(Currency::code);
    let ended = stage == Stage::AsWritten;
    let status = match stage {
        Stage::Opened => TransactionStatus::InFlight,
        Stage::AsWritten => transaction.status,
    };
    let processed_currency = transaction.processed_currency.filter(|_| ended);
    TransactionColumns {
        attempt_id: None,
        payment_id: transaction.payment_id.uuid(),
        transaction_external_key: key_or_id(
            transaction.external_key.as_ref(),
            transaction.id.uuid(),
        ),
        transaction_type: transaction.kind.killbill_name(),
        effective_date: rfc3339_second(transaction.effective_at),
        transaction_status: status_name(transaction.kind, status),
        amount: transaction.amount.map(|it| Decimal::new(it, transaction.currency)),
        currency,
        processed_amount: transaction
            .processed_amount
            .filter(|_| ended)
            .map(|it| Decimal::new(it, processed_currency)),
        processed_currency: transaction
            .processed_currency
            .as_ref()
            .filter(|_| ended)
            .map(Currency::code),
        gateway_error_code: transaction.gateway_error_code.as_deref().filter(|_| ended),
        gateway_error_msg: transaction.gateway_error_message.as_deref().filter(|_| ended),
    }
}
