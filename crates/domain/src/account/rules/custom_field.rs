//! Custom fields: added, given other values, removed.

use std::collections::BTreeMap;

use crate::account::custom_field::{
    AddCustomFields, CustomField, FIELD_CHARS_MAX, FIELDS_PER_OBJECT_MAX, NewCustomField,
    RemoveCustomFields, UpdateCustomFields,
};
use crate::change::AccountChange;
use crate::context::Context;
use crate::object::rules as object;
use crate::reply::Outcome;
use crate::state::State;
use crate::{Accepted, AccountRejection, CustomFieldId, Event, Rejection, Reply, Revision};

pub(crate) fn add(state: &State, it: &AddCustomFields, cx: &mut Context) -> Outcome {
    object::find(state, (it.account, it.object), cx)?;
    let known = state.custom_fields(cx.tenant, it.object).len();
    if known + it.fields.len() > FIELDS_PER_OBJECT_MAX {
        return Err(AccountRejection::TooManyCustomFields.into());
    }
    for NewCustomField { name, value } in &it.fields {
        check_text("name", name)?;
        check_text("value", value)?;
    }
    for (ordinal, NewCustomField { name, value }) in (0..).zip(&it.fields) {
        let id: CustomFieldId = cx.mint();
        cx.change(AccountChange::CustomField(CustomField {
            tenant: cx.tenant,
            id,
            account: it.account,
            object: it.object,
            name: name.clone(),
            value: value.clone(),
            ordinal,
            active: true,
            created_at: cx.now,
            updated_at: cx.now,
            revision: Revision::first(cx.seq),
        }));
        cx.event(Event::CustomFieldAdded { account: it.account, field: id });
    }
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn update(state: &State, it: &UpdateCustomFields, cx: &mut Context) -> Outcome {
    object::find(state, (it.account, it.object), cx)?;
    let fields = state.custom_fields(cx.tenant, it.object);
    let mut values = BTreeMap::new();
    for new in &it.fields {
        let known = fields.get(&(cx.tenant, new.id));
        let known = known.ok_or(AccountRejection::CustomFieldNotFound { id: new.id })?;
        if let Some(name) = new.name.clone().filter(|name| *name != known.name) {
            return Err(AccountRejection::CustomFieldNameIsFixed { id: new.id, name }.into());
        }
        check_text("value", &new.value)?;
        values.insert(new.id, (known, &new.value));
    }
    for (known, value) in values.into_values().filter(|(known, value)| known.value != **value) {
        cx.change(AccountChange::CustomField(CustomField {
            value: value.clone(),
            updated_at: cx.now,
            revision: known.revision.next(cx.seq),
            ..known.clone()
        }));
    }
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn remove(state: &State, it: &RemoveCustomFields, cx: &mut Context) -> Outcome {
    object::find(state, (it.account, it.object), cx)?;
    let is_meant = |id: &CustomFieldId| it.fields.is_empty() || it.fields.contains(id);
    let fields = state.custom_fields(cx.tenant, it.object);
    for known in fields.values().filter(|known| is_meant(&known.id)) {
        cx.change(AccountChange::CustomField(CustomField {
            active: false,
            updated_at: cx.now,
            revision: known.revision.next(cx.seq),
            ..known.clone()
        }));
        cx.event(Event::CustomFieldRemoved { account: it.account, field: known.id });
    }
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn check_text(field: &str, text: &str) -> Result<(), Rejection> {
    if text.is_empty() {
        return Err(Rejection::invalid(field, "needs to be set"));
    }
    if text.chars().count() > FIELD_CHARS_MAX {
        return Err(Rejection::invalid(field, "should have at most 255 characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use super::*;
    use crate::account::custom_field::NewValue;
    use crate::change::Change;
    use crate::command::AccountCommand;
    use crate::object::Object;
    use crate::reply::AccountReply;
    use crate::testing::{Rows, TENANT};
    use crate::{AccountId, Command, Executed, PaymentId, PaymentMethodId, TransactionId};

    /// An account with the fields `color=blue`, `size=L` and `color=red`, in this order.
    struct World {
        rows: Rows,
        account: AccountId,
        fields: Vec<CustomFieldId>,
    }

    impl World {
        fn new() -> Self {
            let mut rows = Rows::new();
            let create = AccountCommand::Create(Box::default());
            let account = match rows.run(Command::Account(create)).unwrap().reply {
                Some(Reply::Account(AccountReply::Created(id))) => id,
                other => panic!("{other:?}"),
            };
            let mut world = Self { rows, account, fields: vec![] };
            let made = world.add(&[("color", "blue"), ("size", "L"), ("color", "red")]).unwrap();
            world.fields = made.done.changes.iter().map(|it| field(it).id).collect();
            world
        }

        fn object(&self) -> Object {
            Object::Account(self.account)
        }

        fn add(&mut self, fields: &[(&str, &str)]) -> Result<Executed, Rejection> {
            let object = self.object();
            self.add_to(object, fields)
        }

        fn add_to(
            &mut self,
            object: Object,
            fields: &[(&str, &str)],
        ) -> Result<Executed, Rejection> {
            let new = |(name, value): &(&str, &str)| NewCustomField {
                name: (*name).to_owned(),
                value: (*value).to_owned(),
            };
            let fields = fields.iter().map(new).collect();
            let command = AddCustomFields { account: self.account, object, fields };
            self.rows.run(Command::Account(AccountCommand::AddCustomFields(command)))
        }

        fn update(
            &mut self,
            fields: &[(CustomFieldId, Option<&str>, &str)],
        ) -> Result<Executed, Rejection> {
            let new = |(id, name, value): &(CustomFieldId, Option<&str>, &str)| NewValue {
                id: *id,
                name: name.map(str::to_owned),
                value: (*value).to_owned(),
            };
            let fields = fields.iter().map(new).collect();
            let command =
                UpdateCustomFields { account: self.account, object: self.object(), fields };
            self.rows.run(Command::Account(AccountCommand::UpdateCustomFields(command)))
        }

        fn remove(&mut self, fields: &[CustomFieldId]) -> Result<Executed, Rejection> {
            let (account, object) = (self.account, self.object());
            let command = RemoveCustomFields { account, object, fields: fields.to_vec() };
            self.rows.run(Command::Account(AccountCommand::RemoveCustomFields(command)))
        }
    }

    fn field(change: &Change) -> &CustomField {
        let Change::Account(AccountChange::CustomField(field)) = change else {
            panic!("{change:?}")
        };
        field
    }

    /// Compares the changed fields and the number of events, or the refusal.
    fn check(result: Result<Executed, Rejection>, expected: Expect) {
        let shown = match result {
            Ok(executed) => {
                let changes = executed.done.changes.iter().map(field);
                let shown = changes.map(|it| {
                    let gone = if it.active { "" } else { " gone" };
                    format!("{}={}{gone}", it.name, it.value)
                });
                let shown = shown.collect::<Vec<_>>().join(", ");
                format!("{shown}; {} events", executed.done.events.len())
            }
            Err(rejection) => format!("{rejection}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn names_repeat_and_values_change() {
        let mut world = World::new();
        let [color, size, other] = world.fields[..] else { panic!() };
        check(world.add(&[("color", "blue")]), expect!["color=blue; 1 events"]);
        check(world.add(&[]), expect!["; 0 events"]);
        let new = [(color, None, "green"), (size, Some("size"), "M"), (color, None, "teal")];
        check(world.update(&new), expect!["color=teal, size=M; 0 events"]);
        check(world.update(&[(size, None, "M")]), expect!["; 0 events"]);
        check(world.remove(&[size, size]), expect!["size=M gone; 1 events"]);
        check(world.remove(&[size]), expect!["; 0 events"]);
        check(
            world.remove(&[]).map(|mut it| {
                it.done.changes.sort_by_key(|it| field(it).value.clone());
                it
            }),
            expect!["color=blue gone, color=red gone, color=teal gone; 3 events"],
        );
        check(
            world.update(&[(other, None, "x")]).map_err(|it| {
                Rejection::invalid("field", &it.to_string().replace(&other.to_string(), "ID"))
            }),
            expect!["field: there is no custom field ID"],
        );
    }

    #[test]
    fn places_of_a_request_are_kept() {
        let mut world = World::new();
        let made = world.add(&[("a", "1"), ("b", "2")]).unwrap();
        let ordinals: Vec<u8> = made.done.changes.iter().map(|it| field(it).ordinal).collect();
        assert_eq!(ordinals, [0, 1]);
    }

    #[test]
    fn refusals() {
        let mut world = World::new();
        let first = world.fields[0];
        check(
            world.update(&[(first, None, "green"), (first, Some("colour"), "green")]).map_err(
                |it| Rejection::invalid("field", &it.to_string().replace(&first.to_string(), "ID")),
            ),
            expect!["field: the custom field ID keeps its name"],
        );
        let nobody = CustomFieldId::new(Uuid::nil());
        check(
            world.update(&[(nobody, None, "x")]),
            expect!["there is no custom field 00000000-0000-0000-0000-000000000000"],
        );
        check(world.add(&[("", "x")]), expect!["name: needs to be set"]);
        check(world.add(&[("x", "")]), expect!["value: needs to be set"]);
        check(world.update(&[(first, None, "")]), expect!["value: needs to be set"]);
        let (long, longest) = ("n".repeat(256), "n".repeat(255));
        check(world.add(&[(&long, "x")]), expect!["name: should have at most 255 characters"]);
        check(world.add(&[("x", &long)]), expect!["value: should have at most 255 characters"]);
        world.add(&[(&longest, &longest)]).unwrap();
        world.add(&[("n", "v"); 96]).unwrap();
        check(world.add(&[("n", "v")]), expect!["there are 100 custom fields at most"]);
        world.remove(&[first]).unwrap();
        world.add(&[("n", "v")]).unwrap();
    }

    #[test]
    fn an_object_is_of_the_account() {
        let mut world = World::new();
        let (of, id) = (PaymentId::new(Uuid::nil()), TransactionId::new(Uuid::nil()));
        let method = PaymentMethodId::new(Uuid::nil());
        let fields = [("a", "b")];
        check(
            world.add_to(Object::Account(AccountId::new(Uuid::nil())), &fields),
            expect!["there is no account 00000000-0000-0000-0000-000000000000"],
        );
        check(
            world.add_to(Object::PaymentMethod(method), &fields),
            expect!["there is no payment method 00000000-0000-0000-0000-000000000000"],
        );
        check(
            world.add_to(Object::Payment(of), &fields),
            expect!["there is no payment 00000000-0000-0000-0000-000000000000"],
        );
        check(
            world.add_to(Object::Transaction { payment: of, id }, &fields),
            expect!["there is no payment 00000000-0000-0000-0000-000000000000"],
        );
    }

    #[test]
    fn erasing_the_person_forgets_the_fields() {
        let mut world = World::new();
        let account = world.account;
        let erase = AccountCommand::Erase(crate::account::EraseAccount { account });
        world.rows.run(Command::Account(erase)).unwrap();
        assert!(world.rows.state.custom_fields(TENANT, world.object()).is_empty());
        let field = world.fields[0];
        assert!(world.update(&[(field, None, "green")]).is_err());
    }

    #[test]
    fn the_journal_image_of_a_field_has_neither_name_nor_value() {
        let made = World::new().add(&[("shoe size of Ann", "forty")]).unwrap();
        let image = serde_json::to_string(&made.done.changes).unwrap();
        assert!(!image.contains("Ann") && !image.contains("forty"), "{image}");
    }
}
