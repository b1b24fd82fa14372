//! Objects that have custom fields and tags, as paths and parameters name them.

use domain::object::{Object, ObjectType};
use domain::{AccountId, Id};
use uuid::Uuid;

use crate::call::Call;
use crate::error::{Failure, no_such_object};
use crate::request::{Query, printable};

/// Kill Bill's types of objects.
const OBJECT_TYPES: [&str; 19] = [
    "ACCOUNT",
    "ACCOUNT_EMAIL",
    "BLOCKING_STATES",
    "BUNDLE",
    "CUSTOM_FIELD",
    "INVOICE",
    "INVOICE_ITEM",
    "INVOICE_PAYMENT",
    "PAYMENT",
    "PAYMENT_ATTEMPT",
    "PAYMENT_METHOD",
    "SERVICE_BROADCAST",
    "SUBSCRIPTION",
    "SUBSCRIPTION_EVENT",
    "TAG",
    "TAG_DEFINITION",
    "TENANT",
    "TENANT_KVS",
    "TRANSACTION",
];

/// The type of this name, whatever the case of its letters.
pub(crate) fn named(text: &str) -> Option<&'static str> {
    OBJECT_TYPES.into_iter().find(|it| text.eq_ignore_ascii_case(it))
}

/// Parses `objectType=`, which is case-insensitive; `None` if it is absent or empty.
pub(crate) fn type_of(query: Query<'_>) -> Result<Option<&'static str>, Failure> {
    let text = query.text("objectType")?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    named(&text).map(Some).ok_or_else(|| {
        Failure::illegal(format!("objectType={}: there is no such type", printable(&text)))
    })
}

/// The types of objects that `objectType=` lists: all, the one that is named, or none where there are no such
/// objects here.
///
/// # Errors
/// 400 if there is no such type.
pub(crate) fn types_of(query: Query<'_>) -> Result<Vec<ObjectType>, Failure> {
    let wanted = type_of(query)?;
    let is_wanted = |it: &ObjectType| wanted.is_none_or(|wanted| wanted == it.name());
    Ok(ObjectType::ALL.into_iter().filter(is_wanted).collect())
}

/// How paths and the OpenAPI document name the objects of a type.
pub(crate) struct ObjectNames {
    /// The segment of a path that stands for all of them.
    pub(crate) collection: &'static str,
    /// The parameter of a path that has an object's id.
    pub(crate) id: &'static str,
    /// The resource of the document.
    pub(crate) tag: &'static str,
}

impl ObjectNames {
    pub(crate) const fn of(kind: ObjectType) -> Self {
        let (collection, id, tag) = match kind {
            ObjectType::Account => ("accounts", "accountId", "Account"),
            ObjectType::Payment => ("payments", "paymentId", "Payment"),
            ObjectType::PaymentMethod => ("paymentMethods", "paymentMethodId", "PaymentMethod"),
            ObjectType::Transaction => {
                ("paymentTransactions", "transactionId", "PaymentTransaction")
            }
            ObjectType::Bundle => ("bundles", "bundleId", "Bundle"),
            ObjectType::Subscription => ("subscriptions", "subscriptionId", "Subscription"),
            ObjectType::Invoice => ("invoices", "invoiceId", "Invoice"),
            ObjectType::InvoiceItem => ("invoiceItems", "invoiceItemId", "InvoiceItem"),
        };
        Self { collection, id, tag }
    }
}

/// The object that the path of a route of several types names, and its account.
///
/// # Errors
/// 404 if there is none.
///
/// # Panics
/// On a route that is not of a type of objects.
pub(crate) async fn of_route(call: &Call) -> Result<(AccountId, Object), Failure> {
    find(call, call.object.expect("the route is of a type of objects")).await
}

/// The object of this type that a path names, and its account.
///
/// # Errors
/// 404 if there is none.
pub(crate) async fn find(call: &Call, kind: ObjectType) -> Result<(AccountId, Object), Failure> {
    let id: Uuid = call.param_id::<()>(ObjectNames::of(kind).id)?.uuid();
    let tenant = call.tenant();
    let found = call.read(move |queries| {
        Ok(match kind {
            ObjectType::Account => {
                let id = AccountId::new(id);
                queries.account(tenant, id)?.map(|_| (id, Object::Account(id)))
            }
            ObjectType::PaymentMethod => {
                let found = queries.payment_method(tenant, Id::new(id))?;
                found.map(|it| (it.method.account_id, Object::PaymentMethod(it.method.id)))
            }
            ObjectType::Payment => {
                let found = queries.payment(tenant, Id::new(id))?.map(|it| it.payment);
                found.map(|it| (it.account_id, Object::Payment(it.id)))
            }
            ObjectType::Transaction => {
                let id = Id::new(id);
                let found = queries.payment_of_transaction(tenant, id)?.map(|it| it.payment);
                found.map(|it| (it.account_id, Object::Transaction { payment: it.id, id }))
            }
            ObjectType::Bundle => {
                let found = queries.bundle(tenant, Id::new(id))?;
                found.map(|it| (it.account_id, Object::Bundle(it.id)))
            }
            ObjectType::Subscription => {
                let found = queries.subscription(tenant, Id::new(id))?.map(|it| it.subscription);
                found.map(|it| (it.account_id, Object::Subscription(it.id)))
            }
            ObjectType::Invoice => {
                let found = queries.invoice(tenant, Id::new(id))?.map(|it| it.invoice);
                found.map(|it| (it.account_id, Object::Invoice(it.id)))
            }
            ObjectType::InvoiceItem => {
                let id = Id::new(id);
                let found = queries.invoice_of_item(tenant, id)?.map(|it| it.invoice);
                found.map(|it| (it.account_id, Object::InvoiceItem(id)))
            }
        })
    });
    found.await?.ok_or_else(|| no_such_object(kind.name(), &id))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check_type(query: &str, expected: Expect) {
        expected.assert_eq(&format!("{:?}", type_of(Query::new(query))));
    }

    #[test]
    fn an_unknown_object_type_is_refused() {
        check_type("", expect!["Ok(None)"]);
        check_type("objectType=", expect!["Ok(None)"]);
        check_type("objectType=account", expect![[r#"Ok(Some("ACCOUNT"))"#]]);
        check_type("objectType=PAYMENT&audit=FULL", expect![[r#"Ok(Some("PAYMENT"))"#]]);
        let Err(Failure::Problem(problem)) = type_of(Query::new("objectType=NONE")) else {
            panic!("accepted")
        };
        assert_eq!(problem.message, "objectType=NONE: there is no such type");
    }
}
