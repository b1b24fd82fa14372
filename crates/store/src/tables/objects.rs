//! Tags and custom fields of objects.

use domain::account::custom_field::CustomField;
use domain::account::tag::{DefinitionRef, Tag, TagKey};
use domain::change::{AccountChange, Change};
use domain::object::{Object, ObjectType};
use domain::{CustomFieldId, Seq, TagDefinitionId};
use engine::ports::StoreError;
use uuid::Uuid;

use super::{CHECKED, CLUSTERED, Index, Table, folded, id, index, int, only, text, unique};
use crate::cells::erasable;
use crate::codes::code;
use crate::driver::{Cells, Value};
use crate::stored::TableOf;

/// Tags on objects, those that were removed too. Of a transaction `object_payment_id` is its payment.
pub static TAG: TableOf<Tag> = TableOf::new(
    Table {
        name: "object_tag",
        since: 3,
        key_columns: 3,
        indexes: &[
            unique("object_tag_by_id", "tenant, id"),
            index("object_tag_by_account", "tenant, account_id"),
            only(
                "object_tag_by_creation",
                "tenant, created_at_us, definition_id, id",
                "active = 1",
            ),
            only(
                "object_tag_by_definition",
                "tenant, definition_id, created_at_us, id",
                "active = 1",
            ),
        ],
        exported: &["object_id", "definition_id"],
        history: Some("created_at_us, definition_id, id"),
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("object_id").of(|it, _| it.key.object().id().into()),
        id("definition_id").of(|it, _| it.key.definition.id().into()),
        int("object_type").fixed().of(|it, _| code(it.key.object().kind()).into()),
        id("account_id").fixed().of(|it, _| it.key.account.into()),
        id("object_payment_id").null().fixed().of(|it, _| payment_of(it.key.object())),
        id("id").fixed().of(|it, _| it.id.into()),
        int("active").of(|it, _| it.active.into()),
        int("created_at_us").of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        let (tenant, object) = (cells.tenant()?, cells.id()?);
        let definition: TagDefinitionId = cells.entity()?;
        let (kind, account) = (cells.code()?, cells.entity()?);
        let payment = cells.opt_entity()?;
        let object = object_of(cells, (kind, object, payment))?;
        Ok(Tag {
            tenant,
            key: TagKey::new(account, object, DefinitionRef::of(definition)),
            id: cells.entity()?,
            active: cells.flag()?,
            created_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
);

/// Which custom fields are shown.
pub(crate) const SHOWN: &str = "active = 1 AND value IS NOT NULL";

/// Custom fields, those that were removed too. `name` and `value` are NULL once the account's person is
/// erased. Of a transaction `object_payment_id` is its payment.
pub static CUSTOM_FIELD: TableOf<CustomField> = TableOf::<CustomField>::new(
    Table {
        name: "custom_field",
        since: 3,
        indexes: &[
            shown("custom_field_by_object", "tenant, object_type, object_id"),
            index("custom_field_by_account", "tenant, account_id"),
            shown("custom_field_by_creation", "tenant, created_at_us, ordinal, id"),
            // With `active`, so that fields are counted in the index.
            shown(
                "custom_field_by_name_in_order",
                "tenant, object_type, name, value, created_at_us, ordinal, id, active",
            ),
            shown("custom_field_by_value", "tenant, value"),
        ],
        exported: &["id"],
        history: Some("created_at_us, ordinal, id"),
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account.into()),
        int("object_type").fixed().of(|it, _| code(it.object.kind()).into()),
        id("object_id").fixed().of(|it, _| it.object.id().into()),
        id("object_payment_id").null().fixed().of(|it, _| payment_of(it.object)),
        text("name").erased().of(|it, _| erasable(&it.name)),
        text("value").erased().of(|it, _| erasable(&it.value)),
        int("ordinal").fixed().of(|it, _| i64::from(it.ordinal).into()),
        int("active").of(|it, _| it.active.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
        folded("name_folded").erased().of(|it, cx| cx.folded(Some(&it.name))),
        folded("value_folded").erased().of(|it, cx| cx.folded(Some(&it.value))),
    ],
    |cells| {
        let (tenant, id, account) = (cells.tenant()?, cells.entity()?, cells.entity()?);
        let (kind, object) = (cells.code()?, cells.id()?);
        let payment = cells.opt_entity()?;
        let object = object_of(cells, (kind, object, payment))?;
        let (name, value) = (cells.opt_string()?, cells.opt_string()?);
        let ordinal = u8::try_from(cells.int()?).map_err(|_| cells.corrupt("is no ordinal"))?;
        Ok(CustomField {
            tenant,
            id,
            account,
            object,
            name: name.unwrap_or_default(),
            value: value.unwrap_or_default(),
            ordinal,
            active: cells.flag()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
)
.parts(
    "WHERE tenant = ?1 AND object_type = ?2 AND object_id = ?3 AND active = 1 \
     AND value IS NOT NULL",
)
// Its values are in a table of their own.
.restored(|image, now| {
    if let Change::Account(AccountChange::CustomField(it)) = image {
        it.name.clone_from(&now.name);
    }
});

/// The values that custom fields had, each from the journal row `seq` on.
pub static CUSTOM_FIELD_VALUE: Table = Table {
    name: "custom_field_value",
    since: 3,
    key_columns: 3,
    indexes: &[index("custom_field_value_by_account", "tenant, account_id")],
    exported: &["field_id", "seq"],
    ..CHECKED
}
.of(&[int("tenant"), id("field_id"), int("seq"), id("account_id").fixed(), text("value").fixed()]);

pub(crate) fn custom_field_value_row(it: &CustomField) -> [Value<'_>; 5] {
    [it.tenant.into(), it.id.into(), it.revision.seq.into(), it.account.into(), (&it.value).into()]
}

/// A value of a custom field: the field, the journal row from which on it had the value, and the
/// value.
pub(crate) fn custom_field_value(
    cells: &mut Cells<'_>,
) -> Result<(CustomFieldId, Seq, String), StoreError> {
    cells.of(&CUSTOM_FIELD_VALUE);
    cells.skip(1);
    let (id, since) = (cells.entity()?, cells.seq()?);
    cells.skip(1);
    Ok((id, since, cells.string()?))
}

/// The payment of an object that is a transaction.
fn payment_of(object: Object) -> Value<'static> {
    match object {
        Object::Transaction { payment, .. } => payment.into(),
        Object::Account(_)
        | Object::PaymentMethod(_)
        | Object::Payment(_)
        | Object::Bundle(_)
        | Object::Subscription(_)
        | Object::Invoice(_)
        | Object::InvoiceItem(_) => Value::Null,
    }
}

/// The object of a type, an id and the payment that it has if it is a transaction.
fn object_of(
    cells: &Cells<'_>,
    (kind, id, payment): (ObjectType, Uuid, Option<domain::PaymentId>),
) -> Result<Object, StoreError> {
    Ok(match (kind, payment) {
        (ObjectType::Account, None) => Object::Account(domain::Id::new(id)),
        (ObjectType::PaymentMethod, None) => Object::PaymentMethod(domain::Id::new(id)),
        (ObjectType::Payment, None) => Object::Payment(domain::Id::new(id)),
        (ObjectType::Bundle, None) => Object::Bundle(domain::Id::new(id)),
        (ObjectType::Subscription, None) => Object::Subscription(domain::Id::new(id)),
        (ObjectType::Invoice, None) => Object::Invoice(domain::Id::new(id)),
        (ObjectType::InvoiceItem, None) => Object::InvoiceItem(domain::Id::new(id)),
        (ObjectType::Transaction, Some(payment)) => {
            Object::Transaction { payment, id: domain::Id::new(id) }
        }
        (
            ObjectType::Account
            | ObjectType::PaymentMethod
            | ObjectType::Payment
            | ObjectType::Transaction
            | ObjectType::Bundle
            | ObjectType::Subscription
            | ObjectType::Invoice
            | ObjectType::InvoiceItem,
            _,
        ) => return Err(cells.corrupt("is of a payment if its object is a transaction")),
    })
}

pub(super) const fn shown(name: &'static str, columns: &'static str) -> Index {
    only(name, columns, SHOWN)
}
