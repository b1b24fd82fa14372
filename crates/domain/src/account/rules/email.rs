//! Further e-mail addresses of accounts: added and removed.

use crate::account::email::{
    AccountEmail, ChangeAccountEmail, EMAIL_CHARS_MAX, EMAILS_PER_ACCOUNT_MAX,
};
use crate::change::AccountChange;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::{Accepted, AccountRejection, Rejection, Reply, Revision};

pub(crate) fn add(state: &State, it: &ChangeAccountEmail, cx: &mut Context) -> Outcome {
    if state.account(cx.tenant, it.account).is_none() {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    }
    if it.email.is_empty() || it.email.chars().count() > EMAIL_CHARS_MAX {
        return Err(Rejection::invalid("email", "should have 1 to 128 characters"));
    }
    let known = state.account.emails.of(&(cx.tenant, it.account));
    if known.values().any(|known| known.email == it.email) {
        return Ok(Accepted::now(Reply::Done));
    }
    if known.len() >= EMAILS_PER_ACCOUNT_MAX {
        return Err(Rejection::invalid("email", "the account has 100 further ones already"));
    }
    let id = cx.mint();
    cx.change(AccountChange::Email(AccountEmail {
        tenant: cx.tenant,
        id,
        account: it.account,
        email: it.email.clone(),
        active: true,
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    }));
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn remove(state: &State, it: &ChangeAccountEmail, cx: &mut Context) -> Outcome {
    if state.account(cx.tenant, it.account).is_none() {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    }
    let known = state.account.emails.of(&(cx.tenant, it.account));
    if let Some(known) = known.values().find(|known| known.email == it.email) {
        cx.change(AccountChange::Email(AccountEmail {
            active: false,
            revision: known.revision.next(cx.seq),
            ..known.clone()
        }));
    }
    Ok(Accepted::now(Reply::Done))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use super::*;
    use crate::account::EraseAccount;
    use crate::change::Change;
    use crate::command::AccountCommand;
    use crate::testing::Rows;
    use crate::{AccountId, Command};

    /// Compares the changed addresses, or the refusal.
    fn check(rows: &mut Rows, command: AccountCommand, expected: Expect) {
        let shown = match rows.run(Command::Account(command)) {
            Ok(executed) => {
                let changes = executed.done.changes.iter().map(|it| {
                    let Change::Account(AccountChange::Email(it)) = it else { panic!("{it:?}") };
                    format!("{} {}", it.email, it.active)
                });
                changes.collect::<Vec<_>>().join(", ")
            }
            Err(rejection) => rejection.to_string(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn addresses_are_added_once_and_removed() {
        let mut rows = Rows::new();
        let account = rows.account();
        let of = |email: &str| ChangeAccountEmail { account, email: email.to_owned() };
        let add = |email: &str| AccountCommand::AddEmail(of(email));
        let remove = |email: &str| AccountCommand::RemoveEmail(of(email));
        check(&mut rows, add("a@x.org"), expect!["a@x.org true"]);
        check(&mut rows, add("a@x.org"), expect![""]);
        check(&mut rows, add("A@x.org"), expect!["A@x.org true"]);
        check(&mut rows, remove("a@x.org"), expect!["a@x.org false"]);
        check(&mut rows, remove("a@x.org"), expect![""]);
        check(&mut rows, add("a@x.org"), expect!["a@x.org true"]);
        check(&mut rows, add(""), expect!["email: should have 1 to 128 characters"]);
        let long = "a".repeat(129);
        check(&mut rows, add(&long), expect!["email: should have 1 to 128 characters"]);
        for n in 0..98 {
            rows.run(Command::Account(add(&format!("{n}@x.org")))).unwrap();
        }
        check(
            &mut rows,
            add("b@x.org"),
            expect!["email: the account has 100 further ones already"],
        );
        rows.run(Command::Account(AccountCommand::Erase(EraseAccount { account }))).unwrap();
        check(&mut rows, remove("a@x.org"), expect![""]);
        let nobody = AccountId::new(Uuid::nil());
        let of_nobody = ChangeAccountEmail { account: nobody, email: "a@x.org".to_owned() };
        check(
            &mut rows,
            AccountCommand::AddEmail(of_nobody),
            expect!["there is no account 00000000-0000-0000-0000-000000000000"],
        );
    }

    #[test]
    fn the_journal_image_has_no_address() {
        let mut rows = Rows::new();
        let account = rows.account();
        let email = "ann@example.org".to_owned();
        let command = AccountCommand::AddEmail(ChangeAccountEmail { account, email });
        let made = rows.run(Command::Account(command)).unwrap();
        let image = serde_json::to_string(&made.done.changes).unwrap();
        assert!(!image.contains("ann"), "{image}");
    }
}
