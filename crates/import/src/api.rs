//! The answers of Kill Bill's API about one account, with `audit=FULL`.

use std::collections::BTreeMap;

use domain::card_data::find_card_data;
use domain::import::{
    Belongings, ImportAccount, ImportPayment, ImportTagDefinition, ImportedAudit,
};
use domain::object::Object;
use domain::{AccountId, PaymentId, TransactionId};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::cells::{Cells, Error, name};
use crate::records::{self, audit};
use crate::{Found, FoundPayment};

/// The elements of a list that is missing.
const NOTHING: &[Value] = &[];

/// The answers of the API about an account. A value that is no list counts as an empty one.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// An element of `GET accounts/pagination`.
    pub account: Value,
    /// `GET accounts/{id}/paymentMethods`, with those that are deleted and what their plugins know.
    pub methods: Value,
    /// `GET accounts/{id}/emails`.
    pub emails: Value,
    /// `GET accounts/{id}/allTags`.
    pub tags: Value,
    /// `GET accounts/{id}/allCustomFields`.
    pub fields: Value,
    /// `GET accounts/{id}/payments`, with what their plugins know.
    pub payments: Value,
}

/// The id of an element of `GET accounts/pagination`.
///
/// # Errors
/// [`Error`] where it has none.
pub fn account_id(account: &Value) -> Result<AccountId, Error> {
    records::account_id(Cells::Object(object(account)))
}

/// The tenant's own definitions among `GET tagDefinitions`.
///
/// # Errors
/// [`Error`] of the first that cannot be read.
pub fn definitions(answer: &Value) -> Result<Vec<ImportTagDefinition>, Error> {
    let own = list(answer).iter().map(object).filter(|it| !is_control(it));
    own.map(|it| {
        let mut definition = records::definition(Cells::Object(it))?;
        let types = it.get("applicableObjectTypes").map_or(NOTHING, list);
        definition.applies_to = types.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let audits = audits(it, definition.id.uuid())?;
        definition.created_at = audits.first().map(|it| it.at).unwrap_or_default();
        Ok(definition)
    })
    .collect()
}

fn is_control(definition: &Map<String, Value>) -> bool {
    definition.get("isControlTag").and_then(Value::as_bool).unwrap_or(false)
}

/// The account in the API's answers, with its payments.
///
/// # Errors
/// [`Error`] of the first record that cannot be brought over.
pub fn found(answers: &Answers) -> Result<Found, Error> {
    let record = object(&answers.account);
    let cells = Cells::Object(record);
    let id = records::account_id(cells)?;
    let of = format!("account {id}");
    let of_account = audits(record, id.uuid())?;
    let author = author(&of_account);
    let payments: Vec<_> = list(&answers.payments)
        .iter()
        .map(|it| payment(object(it), id))
        .collect::<Result<_, _>>()?;
    let mut belongings = Belongings { audits: of_account, ..Belongings::default() };
    let dates = records::dates(cells, &of, &belongings.audits)?;
    let mut methods = vec![];
    for it in list(&answers.methods).iter().map(object) {
        let id_of_method = records::method_id(Cells::Object(it))?;
        let own = audits(it, id_of_method.uuid())?;
        let mut method = records::method(Cells::Object(it), (id_of_method, id), &own)?;
        set_plugin_info(it, &mut method)?;
        belongings.audits.extend(own);
        methods.push(method);
    }
    let mut emails = vec![];
    for it in list(&answers.emails).iter().map(object) {
        let known = entries(it).first().and_then(|it| text(object(it), "objectId").parse().ok());
        let mut email = records::email(Cells::Object(it), id, known)?;
        let own = audits(it, email.id.uuid())?;
        email.created_at = own.first().map(|it| it.at).unwrap_or(dates.created_at);
        belongings.audits.extend(own);
        emails.push(email);
    }
    let account = ImportAccount {
        id,
        account: records::account(cells, &of)?,
        dates,
        payment_method: records::default_method(cells, &of)?,
        methods,
        emails,
        belongings,
    };
    let mut found = Found { account, author, payments, left_out: vec![] };
    take_belongings(&mut found, answers)?;
    Ok(found)
}

/// Gives tags and fields to what they are on.
fn take_belongings(found: &mut Found, answers: &Answers) -> Result<(), Error> {
    let ids = found.payments.iter().flat_map(|it| {
        let payment = it.payment.id;
        it.payment.transactions.iter().map(move |it| (it.id, payment))
    });
    let payments: BTreeMap<TransactionId, PaymentId> = ids.collect();
    let payment_of = |id| payments.get(&id).copied();
    for it in list(&answers.tags).iter().map(object) {
        let of = format!("tag {}", text(it, "tagId"));
        match records::object(Cells::Object(it), &of, payment_of) {
            Ok(object) => {
                let mut tag = records::tag(Cells::Object(it), object, &of)?;
                let own = audits(it, tag.id.uuid())?;
                tag.created_at = own.first().map(|it| it.at).unwrap_or_default();
                let belongings = found.belongings(object);
                belongings.tags.push(tag);
                belongings.audits.extend(own);
            }
            Err(error) => found.left_out.push(error.to_string()),
        }
    }
    for it in list(&answers.fields).iter().map(object) {
        let of = format!("custom field {}", text(it, "customFieldId"));
        let field = records::object(Cells::Object(it), &of, payment_of)
            .and_then(|object| records::field(Cells::Object(it), object, &of));
        match field {
            Ok(mut field) => {
                let own = audits(it, field.id.uuid())?;
                field.dates = records::dates(Cells::Object(it), &of, &own)?;
                let belongings = found.belongings(field.object);
                belongings.fields.push(field);
                belongings.audits.extend(own);
            }
            Err(error) => found.left_out.push(error.to_string()),
        }
    }
    Ok(())
}

fn payment(record: &Map<String, Value>, account: AccountId) -> Result<FoundPayment, Error> {
    let cells = Cells::Object(record);
    let id = PaymentId::new(cells.id("payment", name("paymentId", ""))?);
    let of = format!("payment {id}");
    let key = name("paymentExternalKey", "");
    let external_key = cells.safe(&of, key)?.unwrap_or_else(|| id.to_string());
    let currency = cells.currency(&of, name("currency", ""))?;
    let method = records::default_method(cells, &of)?;
    let method =
        method.ok_or_else(|| cells.error(&of, name("paymentMethodId", ""), "is missing"))?;
    let mut belongings = Belongings { audits: audits(record, id.uuid())?, ..Belongings::default() };
    let dates = records::dates(cells, &of, &belongings.audits)?;
    let author = author(&belongings.audits);
    let mut transactions = vec![];
    for it in record.get("transactions").map_or(NOTHING, list).iter().map(object) {
        let transaction =
            records::transaction(Cells::Object(it), (method, &transactions), currency)?;
        belongings.audits.extend(audits(it, transaction.id.uuid())?);
        transactions.push(transaction);
    }
    let payment = ImportPayment { account, id, external_key, dates, transactions, belongings };
    Ok(FoundPayment { payment, author })
}

/// Sets the values of a payment method that its plugin gave: its external id and its properties.
fn set_plugin_info(
    record: &Map<String, Value>,
    method: &mut domain::import::ImportedMethod,
) -> Result<(), Error> {
    let of = format!("payment method {}", method.id);
    let Some(info) = record.get("pluginInfo").and_then(Value::as_object) else { return Ok(()) };
    let info = Cells::Object(info);
    let id = info.safe(&of, name("externalPaymentMethodId", ""))?;
    method.method.external_payment_method_id = id.filter(|it| !it.is_empty());
    let Cells::Object(object) = info else { return Ok(()) };
    for it in object.get("properties").map_or(NOTHING, list).iter().map(self::object) {
        let property = Cells::Object(it);
        let Some(key) = property.safe(&of, name("key", ""))? else { continue };
        let value = property.safe(&of, name("value", ""))?.unwrap_or_default();
        method.method.properties.push((key, value));
    }
    match find_card_data(&method.method.properties) {
        Some(key) => Err(info.error(&of, name("properties", ""), format!("{key} is card data"))),
        None => Ok(()),
    }
}

fn author(audits: &[ImportedAudit]) -> Option<String> {
    audits.first().map(|it| it.changed_by.clone()).filter(|it| !it.is_empty())
}

fn entries(record: &Map<String, Value>) -> &[Value] {
    record.get("auditLogs").map_or(NOTHING, list)
}

fn audits(record: &Map<String, Value>, of: Uuid) -> Result<Vec<ImportedAudit>, Error> {
    entries(record).iter().map(|it| audit(Cells::Object(object(it)), of)).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(NOTHING, Vec::as_slice)
}

/// An object's fields; what is none has none.
fn object(value: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&EMPTY)
}

fn text<'a>(record: &'a Map<String, Value>, name: &str) -> &'a str {
    record.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Found {
    /// The tags and fields of the account, or of the payment that an object is of.
    pub(crate) fn belongings(&mut self, of: Object) -> &mut Belongings {
        let payment = match of {
            Object::Payment(payment) | Object::Transaction { payment, .. } => Some(payment),
            Object::Account(_)
            | Object::PaymentMethod(_)
            | Object::Bundle(_)
            | Object::Subscription(_)
            | Object::Invoice(_)
            | Object::InvoiceItem(_) => None,
        };
        let at = payment.and_then(|id| self.payments.iter().position(|it| it.payment.id == id));
        match at {
            Some(at) => &mut self.payments[at].payment.belongings,
            None => &mut self.account.belongings,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    const ACCOUNT: &str = "0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1a01";
    const METHOD: &str = "0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1b01";
    const PAYMENT: &str = "0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1c01";
    const TRANSACTION: &str = "0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1d01";

    /// An account with a method and a purchase.
    fn answers() -> Answers {
        let transaction = json!({
            "transactionId": TRANSACTION, "transactionExternalKey": "try", "transactionType": "PURCHASE",
            "amount": 10.5, "currency": "USD", "status": "SUCCESS",
            "effectiveDate": "2020-03-01T00:00:00.000Z",
        });
        Answers {
            account: json!({ "accountId": ACCOUNT, "name": "Ann", "paymentMethodId": METHOD }),
            methods: json!([{ "paymentMethodId": METHOD, "pluginName": "stripe" }]),
            payments: json!([{
                "paymentId": PAYMENT, "currency": "USD", "paymentMethodId": METHOD,
                "transactions": [transaction],
            }]),
            ..Answers::default()
        }
    }

    fn check(change: impl FnOnce(&mut Answers), expected: Expect) {
        let mut answers = answers();
        change(&mut answers);
        expected.assert_eq(&found(&answers).unwrap_err().to_string());
    }

    #[test]
    fn a_record_that_cannot_be_brought_over_names_its_field() {
        check(|it| it.account["accountId"] = json!("1"), expect!["account: accountId: is no UUID"]);
        check(
            |it| it.account["name"] = json!("a\0b"),
            expect!["account 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1a01: name: has a character U+0000"],
        );
        check(
            |it| it.account["notes"] = json!("4111 1111 1111 1111"),
            expect![
                "account 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1a01: notes: looks like a card number"
            ],
        );
        check(
            |it| it.account["billCycleDayLocal"] = json!(32),
            expect!["account 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1a01: billCycleDayLocal: is no day"],
        );
        let cvv = json!({ "properties": [{ "key": "cvv", "value": "1" }] });
        check(
            |it| it.methods[0]["pluginInfo"] = cvv,
            expect![
                "payment method 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1b01: properties: cvv is card data"
            ],
        );
        let transaction = |field: &'static str, value: Value| {
            move |it: &mut Answers| it.payments[0]["transactions"][0][field] = value
        };
        check(
            transaction("amount", json!(10.505)),
            expect![
                "transaction 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1d01: amount: 10.505: more decimals than the currency has (2)"
            ],
        );
        check(
            transaction("transactionType", json!("GIFT")),
            expect![
                "transaction 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1d01: transactionType: is unknown"
            ],
        );
        check(
            transaction("status", json!(null)),
            expect!["transaction 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1d01: status: is missing"],
        );
        check(
            transaction("processedCurrency", json!("EUR")),
            expect![
                "transaction 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1d01: processedCurrency: differs from the currency"
            ],
        );
        check(
            transaction("effectiveDate", json!("soon")),
            expect!["transaction 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1d01: effectiveDate: is no time"],
        );
    }

    #[test]
    fn what_has_no_tags_and_fields_here_is_left_out() {
        let mut answers = answers();
        let tag = |kind: &str, id: &str| {
            let definition = "00000000-0000-0000-0000-000000000001";
            json!({ "tagId": PAYMENT, "objectType": kind, "objectId": id, "tagDefinitionId": definition })
        };
        answers.tags = json!([
            tag("ACCOUNT", ACCOUNT),
            tag("INVOICE", ACCOUNT),
            tag("TRANSACTION", TRANSACTION),
            tag("TRANSACTION", METHOD),
        ]);
        let found = found(&answers).unwrap();
        assert_eq!(found.account.belongings.tags.len(), 1);
        assert_eq!(found.payments[0].payment.belongings.tags.len(), 1);
        expect![[r#"
            tag 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1c01: objectType: INVOICE has no tags and fields here
            tag 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1c01: objectType: is of no payment here"#]].assert_eq(&found.left_out.join("\n"));
    }

    #[test]
    fn a_key_that_the_payment_lacks_is_its_id() {
        let found = found(&answers()).unwrap();
        assert_eq!(found.payments[0].payment.external_key, PAYMENT);
        assert_eq!(found.payments[0].payment.transactions[0].external_key, "try");
    }
}
