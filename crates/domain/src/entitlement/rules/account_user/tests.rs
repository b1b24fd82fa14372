//! Users of accounts: what is mapped, refused and erased, one line each.

use expect_test::{Expect, expect};

use crate::account::{CreateAccount, EraseAccount};
use crate::change::Change;
use crate::command::{AccountCommand, EntitlementCommand};
use crate::entitlement::account_user::{SetAccountUsers, USERS_MAX};
use crate::flag::definition::Expected;
use crate::reply::AccountReply;
use crate::testing::{Rows, TENANT, run_script};
use crate::{AccountId, Command, Rejection, Reply};

struct World {
    rows: Rows,
    /// `A` has the external key `a`, `B` has none.
    accounts: [AccountId; 2],
}

fn create(rows: &mut Rows, key: Option<&str>) -> Result<AccountId, Rejection> {
    let new = CreateAccount { external_key: key.map(str::to_owned), ..CreateAccount::default() };
    match rows.run(Command::Account(AccountCommand::Create(Box::new(new))))?.reply {
        Some(Reply::Account(AccountReply::Created(id))) => Ok(id),
        other => panic!("{other:?}"),
    }
}

impl World {
    fn new() -> Self {
        let mut rows = Rows::new();
        let accounts = [Some("a"), None].map(|key| create(&mut rows, key).unwrap());
        Self { rows, accounts }
    }

    fn set(&mut self, at: usize, users: Vec<String>, expected: Expected) -> String {
        let account = self.accounts[at];
        let it =
            EntitlementCommand::SetUsers(Box::new(SetAccountUsers { account, users, expected }));
        match self.rows.run(Command::Entitlement(it)) {
            Ok(executed) => {
                let journalled =
                    executed.done.changes.iter().filter(|it| it.revision().is_some()).count();
                format!("{} {journalled} {}", self.shown(at), executed.done.events.len())
            }
            Err(rejection) => rejection.to_string(),
        }
    }

    /// The users of an account, and the versions of its entitlements and of that list.
    fn shown(&self, at: usize) -> String {
        let of = (TENANT, self.accounts[at]);
        let users = self.rows.state.entitlement.account_users.get(&of).cloned().unwrap_or_default();
        let entitled = self.rows.state.entitlement.entitlements.find(&of);
        let versions = entitled.map(|it| (it.version, it.users_version));
        format!("{users:?} {versions:?}")
    }

    fn step(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split(' ').collect();
        let at = usize::from(words.get(1) == Some(&"B"));
        let ids = self.accounts.map(|id| id.to_string());
        let named = |it: &&str| match *it {
            "ID-A" => ids[0].clone(),
            "ID-B" => ids[1].clone(),
            other => other.to_owned(),
        };
        let shown = match words[0] {
            "set" => self.set(at, words[2..].iter().map(named).collect(), Expected::Anything),
            "version" => {
                let expected = Expected::Version(words[2].parse().unwrap());
                self.set(at, words[3..].iter().map(named).collect(), expected)
            }
            "first" => self.set(at, words[2..].iter().map(named).collect(), Expected::Nothing),
            "create" => match create(&mut self.rows, Some(&named(&words[1]))) {
                Ok(_) => "created".to_owned(),
                Err(rejection) => rejection.to_string(),
            },
            "erase" => {
                let erase = AccountCommand::Erase(EraseAccount { account: self.accounts[at] });
                let executed = self.rows.run(Command::Account(erase)).unwrap();
                let is_claim = |it: &&Change| matches!(it, Change::Claim(_));
                let claims = executed.done.changes.iter().filter(is_claim).count();
                format!("{} {claims}", self.shown(at))
            }
            other => panic!("no step {other}"),
        };
        shown.replace(&ids[0], "ID-A").replace(&ids[1], "ID-B")
    }
}

/// Runs the steps, separated by `|`, and shows what the last one came to.
fn check(script: &str, expected: Expect) {
    let mut world = World::new();
    expected.assert_eq(&run_script(script, |step| world.step(step)));
}

#[test]
fn the_list_is_replaced() {
    check("set A u v u", expect![[r#"{"u", "v"} Some((1, 1)) 1 1"#]]);
    check("set A u v|set A v w", expect![[r#"{"v", "w"} Some((2, 2)) 1 1"#]]);
    check("set A u v|set A v u", expect![[r#"{"u", "v"} Some((1, 1)) 0 0"#]]);
    check("set A u|set A", expect!["{} Some((2, 2)) 1 1"]);
    check("set A", expect!["{} None 0 0"]);
    check("version A 0 u", expect![[r#"{"u"} Some((1, 1)) 1 1"#]]);
    check("first A u", expect![[r#"{"u"} Some((1, 1)) 1 1"#]]);
    check("set A u|version A 1 v", expect![[r#"{"v"} Some((2, 2)) 1 1"#]]);
    check("set A u|version A 0 v", expect!["the list of users of ID-A is in the version 1"]);
    check("set A u|first A v", expect!["the list of users of ID-A is in the version 1"]);
}

#[test]
fn a_key_is_of_one_account() {
    check(
        "set A u|set B x u",
        expect!["users[1] is the id, the external key or a user of another account"],
    );
    check("set A u|set A|set B u", expect![[r#"{"u"} Some((1, 1)) 1 1"#]]);
    check(
        "set B x y a",
        expect!["users[2] is the id, the external key or a user of another account"],
    );
    check(
        "set B ID-A",
        expect!["users[0] is the id, the external key or a user of another account"],
    );
    check("set A ID-A a", expect![[r#"{"ID-A", "a"} Some((1, 1)) 1 1"#]]);
    check(
        "set A a|set A|set B a",
        expect!["users[0] is the id, the external key or a user of another account"],
    );
    check("set A u|create u", expect!["there is an account with the key u already"]);
    check("set A u|set A|create u", expect!["created"]);
    check("set B ID-B|create ID-B", expect!["there is an account with the key ID-B already"]);
    check("set A u a|erase A", expect!["{} Some((2, 2)) 1"]);
    check("set A u|erase A|set B u", expect![[r#"{"u"} Some((1, 1)) 1 1"#]]);
    check(
        "set A a|erase A|set B a",
        expect!["users[0] is the id, the external key or a user of another account"],
    );
}

#[test]
fn a_key_has_1_to_255_characters_and_no_controls() {
    let mut world = World::new();
    let mut set =
        |user: &str| world.set(0, vec!["u".to_owned(), user.to_owned()], Expected::Anything);
    let refused = expect!["users[1]: should have 1 to 255 characters, none of which controls"];
    refused.assert_eq(&set(""));
    assert_eq!(set("a\nb"), set(""));
    assert_eq!(set(&"é".repeat(256)), set(""));
    assert_ne!(set(&"é".repeat(255)), set(""));
}

#[test]
fn more_than_10000_users_are_refused() {
    let mut world = World::new();
    let users = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    let refused = world.set(0, users(USERS_MAX + 1), Expected::Anything);
    expect!["users: should be 10000 at most"].assert_eq(&refused);
    assert!(world.set(0, users(USERS_MAX), Expected::Anything).ends_with("Some((1, 1)) 1 1"));
}
