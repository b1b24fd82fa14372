//! Objects that have custom fields and tags, in rows.

use domain::TenantNo;
use domain::object::{Object, ObjectType};
use engine::ports::StoreError;
use uuid::Uuid;

use crate::codes::object_type_code;
use crate::driver::{Cells, Value};

/// The key by which the custom fields of an object are found: tenant, type and id.
pub(crate) fn object_key(tenant: TenantNo, object: Object) -> [Value<'static>; 3] {
    [tenant.into(), object_type_code(object.kind()).into(), object.id().into()]
}

/// The payment of an object that is a transaction.
pub(crate) fn payment_of(object: Object) -> Value<'static> {
    match object {
        Object::Transaction { payment, .. } => payment.into(),
        Object::Account(_) | Object::PaymentMethod(_) | Object::Payment(_) => Value::Null,
    }
}

/// The object of a type, an id and the payment that it has if it is a transaction.
pub(crate) fn object_of(
    cells: &Cells<'_>,
    (kind, id, payment): (ObjectType, Uuid, Option<domain::PaymentId>),
) -> Result<Object, StoreError> {
    Ok(match (kind, payment) {
        (ObjectType::Account, None) => Object::Account(domain::Id::new(id)),
        (ObjectType::PaymentMethod, None) => Object::PaymentMethod(domain::Id::new(id)),
        (ObjectType::Payment, None) => Object::Payment(domain::Id::new(id)),
        (ObjectType::Transaction, Some(payment)) => {
            Object::Transaction { payment, id: domain::Id::new(id) }
        }
        (
            ObjectType::Account
            | ObjectType::PaymentMethod
            | ObjectType::Payment
            | ObjectType::Transaction,
            _,
        ) => return Err(cells.corrupt("is of a payment if its object is a transaction")),
    })
}
