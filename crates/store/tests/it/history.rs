//! Histories: what a walk of the journal yields is what was committed, state by state.

use std::collections::BTreeMap;

use domain::Account;
use domain::PaymentMethod;
use domain::account::tag::Tag;
use domain::change::{AccountChange, Change, PaymentChange};
use domain::entity::Entity as _;
use domain::payment::Payment;
use domain::payment::Transaction;
use domain::payment::attempt::PaymentAttempt;
use domain::reply::AccountReply;
use domain::{AccountId, Person, Revision, Seq, TenantNo};
use engine::ports::{Entry, HistoryOf, HistoryRow};
use uuid::Uuid;

use crate::workload::{World, create_account, person, rename};

type Key = (TenantNo, &'static str, Uuid);

/// The entity of an image, and its revision.
#[expect(clippy::wildcard_enum_match_arm, reason = "only five kinds of things have a history here")]
fn named(change: &Change) -> Option<(Key, Revision)> {
    Some(match change {
        Change::Account(AccountChange::Account(it)) => {
            ((it.tenant, "account", it.id.uuid()), it.revision)
        }
        Change::Account(AccountChange::Tag(it)) => ((it.tenant, "tag", it.id.uuid()), it.revision),
        Change::Account(AccountChange::PaymentMethod(it)) => {
            ((it.tenant, "method", it.id.uuid()), it.revision)
        }
        Change::Payment(PaymentChange::Payment(it)) => {
            ((it.tenant, "payment", it.id.uuid()), it.revision)
        }
        Change::Payment(PaymentChange::Transaction(it)) => {
            ((it.tenant, "transaction", it.id.uuid()), it.revision)
        }
        Change::Payment(PaymentChange::Attempt(it)) => {
            ((it.tenant, "attempt", it.id.uuid()), it.revision)
        }
        _ => return None,
    })
}

fn of(key: Key) -> HistoryOf {
    match key.1 {
        "account" => HistoryOf::new::<Account>(key.2),
        "attempt" => HistoryOf::new::<PaymentAttempt>(key.2),
        "tag" => HistoryOf::new::<Tag>(key.2),
        "method" => HistoryOf::new::<PaymentMethod>(key.2),
        "payment" => HistoryOf::new::<Payment>(key.2),
        _ => HistoryOf::new::<Transaction>(key.2),
    }
}

/// The states of everything, as they were committed; an account with its person then.
fn committed(entries: &[Entry]) -> BTreeMap<Key, Vec<HistoryRow>> {
    let mut states: BTreeMap<Key, Vec<HistoryRow>> = BTreeMap::new();
    let mut people: BTreeMap<(TenantNo, AccountId), Person> = BTreeMap::new();
    for entry in entries {
        for change in &entry.changes {
            if let Change::Account(AccountChange::Person { account, person }) = change {
                people.insert((entry.tenant, *account), (**person).clone());
            }
        }
        for change in &entry.changes {
            let Some((key, revision)) = named(change) else { continue };
            if revision.seq != entry.seq {
                continue;
            }
            let person = if let Change::Account(AccountChange::Account(it)) = change {
                Some(people.get(&(entry.tenant, it.id)).cloned().unwrap_or_default())
            } else {
                None
            };
            states.entry(key).or_default().push(HistoryRow {
                seq: entry.seq,
                at: entry.at,
                actor: entry.actor.clone(),
                image: change.clone(),
                person,
                imported: None,
            });
        }
    }
    states
}

/// Bookkeeping of an account is not part of its history: only its newest state is known.
fn without_bookkeeping(mut row: HistoryRow) -> HistoryRow {
    if let Change::Account(AccountChange::Account(account)) = &mut row.image {
        account.external_payment_method = None;
    }
    // Personal data is in the method's row only, and no part of its history.
    if let Change::Account(AccountChange::PaymentMethod(method)) = &mut row.image {
        method.erase();
    }
    row
}

fn show(rows: &[HistoryRow]) -> Vec<String> {
    rows.iter().map(|row| format!("{:?}", without_bookkeeping(row.clone()))).collect()
}

#[test]
fn histories_are_the_states_that_were_committed() {
    let world = World::after(31, 2500);
    let expected = committed(&world.entries());
    let mut longest: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, states) in &expected {
        let found = world.queries.history(key.0, of(*key)).unwrap();
        assert_eq!(show(&found), show(states), "{key:?}");
        assert!(world.queries.history(TenantNo(77), of(*key)).unwrap().is_empty());
        let longest = longest.entry(key.1).or_default();
        *longest = states.len().max(*longest);
    }
    for kind in ["account", "method", "payment", "transaction", "attempt"] {
        assert!(longest[kind] > 1, "{kind}: no history longer than {}", longest[kind]);
    }
}

#[test]
fn an_accounts_histories_are_those_of_all_that_belongs_to_it() {
    let world = World::after(32, 1500);
    let expected = committed(&world.entries());
    for (no, account) in &world.workload.accounts {
        let belongs = |kind: &'static str| {
            expected.iter().filter(move |((of, it, _), states)| {
                of == no && *it == kind && owner(&states[0].image) == Some(*account)
            })
        };
        let all: Vec<HistoryRow> = ["account", "method", "tag", "attempt", "payment"]
            .into_iter()
            .flat_map(belongs)
            .flat_map(|(_, states)| states.clone())
            .collect();
        let mut transactions: Vec<HistoryRow> =
            belongs("transaction").flat_map(|(_, states)| states.clone()).collect();
        let found = world.queries.account_histories(*no, *account, usize::MAX).unwrap();
        let (entities, of_transactions) = found.split_at(all.len());
        assert_eq!(show(entities), show(&all));
        // Transactions come in the order of their payments, and there as they were asked for.
        let sorted = |rows: &mut [HistoryRow]| {
            rows.sort_by_key(|row| named(&row.image).map(|(key, _)| (key.2, row.seq)));
        };
        let mut of_transactions = of_transactions.to_vec();
        sorted(&mut of_transactions);
        sorted(&mut transactions);
        assert_eq!(show(&of_transactions), show(&transactions));
        for limit in [0, 1, found.len() / 2, found.len().saturating_sub(1)] {
            let some = world.queries.account_histories(*no, *account, limit).unwrap();
            assert_eq!(some.len(), limit.min(found.len()));
        }
    }
    let nobody = AccountId::new(Uuid::nil());
    let no = world.workload.tenants[0];
    assert!(world.queries.account_histories(no, nobody, 100).unwrap().is_empty());
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only five kinds of things have a history here")]
fn owner(change: &Change) -> Option<AccountId> {
    match change {
        Change::Account(AccountChange::Account(it)) => Some(it.id),
        Change::Account(AccountChange::Tag(it)) => Some(it.key.account),
        Change::Account(AccountChange::PaymentMethod(it)) => Some(it.account_id),
        Change::Payment(PaymentChange::Payment(it)) => Some(it.account_id),
        Change::Payment(PaymentChange::Transaction(it)) => Some(it.account_id),
        Change::Payment(PaymentChange::Attempt(it)) => Some(it.account_id),
        _ => None,
    }
}

#[test]
fn a_state_of_an_account_shows_the_person_of_its_time_and_the_key_of_the_table() {
    let mut world = World::new(33);
    let no = world.workload.tenants[0];
    let key = "mail@example.org".to_owned();
    let reply = world.workload.accepted(no, create_account(Some(key.clone()), person("First")));
    let domain::Reply::Account(AccountReply::Created(id)) = reply else { panic!("{reply:?}") };
    for name in ["Second", "Third"] {
        world.workload.accepted(no, rename(id, person(name)));
    }
    let states = world.queries.history(no, HistoryOf::new::<Account>(id.uuid())).unwrap();
    let names: Vec<Option<String>> =
        states.iter().map(|row| row.person.clone().unwrap().name).collect();
    assert_eq!(
        names,
        [Some("First"), Some("Second"), Some("Third")].map(|it| it.map(str::to_owned))
    );
    let seqs: Vec<Seq> = states.iter().map(|row| row.seq).collect();
    assert!(seqs.is_sorted());
    for state in states {
        let Change::Account(AccountChange::Account(image)) = state.image else {
            panic!("not an account")
        };
        assert_eq!(image.external_key.as_ref(), Some(&key));
    }
}
