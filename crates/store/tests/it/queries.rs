//! Reads, each compared with what a plain look through everything committed finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::access::{CreateUser, PutRole};
use domain::change::{AccountChange, Change, PaymentChange};
use domain::command::{AccessCommand, TenantCommand};
use domain::ledger::{LedgerAccount, Posting, PostingSource};
use domain::payment::{Outstanding, PaymentFile, PaymentState, TransactionStatus};
use domain::reply::AccountReply;
use domain::tenant::{CREDENTIALS_DROPPED, SetTenantValue};
use domain::{
    AccountId, Command, Currency, Event, PaymentId, PaymentMethodId, Person, Reply, Seq, TenantNo,
    Timestamp, TransactionId,
};
use engine::ports::{
    AccountView, ExportPoint, JournalRow, LedgerFilter, LedgerTotal, MethodView, Page, Paged,
    Queries, QueueWindow, Unresolved, UnresolvedCount,
};
use store::SqlQueries;
use uuid::Uuid;

use crate::workload::{GATEWAYS, World, create_account, person, rename};

const ALL: Page = Page { offset: 0, limit: u64::MAX };
const STRANGER: TenantNo = TenantNo(77);

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap()
}

/// Pages put together, and what each of them says of the whole list.
fn paged<T>(mut page: impl FnMut(Page) -> Paged<T>, matching: usize, all: usize) -> Vec<T> {
    let mut items = vec![];
    for n in 0.. {
        let page = page(Page { offset: n * 7, limit: 7 });
        assert_eq!((page.matching, page.all), (count(matching), count(all)));
        let last = page.items.len() < 7;
        items.extend(page.items);
        if last {
            break;
        }
    }
    items
}

/// The newest image of each account, payment method and payment, in the order of their ids.
#[derive(Default)]
struct Newest {
    accounts: BTreeMap<(TenantNo, AccountId), AccountView>,
    methods: BTreeMap<(TenantNo, PaymentMethodId), MethodView>,
    payments: BTreeMap<(TenantNo, PaymentId), PaymentFile>,
    outstanding: BTreeMap<(TenantNo, TransactionId), Outstanding>,
    postings: Vec<(Seq, Posting)>,
}

impl Newest {
    fn of(world: &World) -> Self {
        let mut newest = Self::default();
        for entry in world.entries() {
            for change in entry.changes {
                newest.take(entry.tenant, entry.seq, change);
            }
        }
        for ((no, id), view) in &mut newest.methods {
            let account = &newest.accounts[&(*no, view.method.account_id)].account;
            view.is_default = account.payment_method_id == Some(*id);
        }
        newest
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only what has a table of its own here")]
    fn take(&mut self, no: TenantNo, seq: Seq, change: Change) {
        match change {
            Change::Account(AccountChange::Account(account)) => {
                let known = self.accounts.remove(&(no, account.id));
                let person = known.map(|it| it.person).unwrap_or_default();
                self.accounts.insert((no, account.id), AccountView { account, person });
            }
            Change::Account(AccountChange::Person { account, person }) => {
                self.accounts.get_mut(&(no, account)).unwrap().person = *person;
            }
            Change::Account(AccountChange::PaymentMethod(method)) => {
                self.methods.insert((no, method.id), MethodView { method, is_default: false });
            }
            Change::Payment(PaymentChange::Payment(payment)) => {
                let transactions = self.payments.remove(&(no, payment.id));
                let transactions = transactions.map(|it| it.transactions).unwrap_or_default();
                self.payments.insert((no, payment.id), PaymentFile { payment, transactions });
            }
            Change::Payment(PaymentChange::Transaction(it)) => {
                let file = self.payments.get_mut(&(no, it.payment_id)).unwrap();
                match file.transactions.iter_mut().find(|known| known.id == it.id) {
                    Some(known) => *known = it,
                    None => file.transactions.push(it),
                }
            }
            Change::Posting(posting) => self.postings.push((seq, posting)),
            Change::Payment(PaymentChange::Outstanding(it)) => {
                self.outstanding.insert((no, it.transaction_id), it);
            }
            Change::Payment(PaymentChange::OutstandingClosed { transaction }) => {
                self.outstanding.remove(&(no, transaction));
            }
            _ => {}
        }
    }
}

/// A row knows its newest revision, but not the one before it.
fn as_row(mut file: PaymentFile) -> PaymentFile {
    file.payment.revision.previous = None;
    file.transactions.iter_mut().for_each(|it| it.revision.previous = None);
    file
}

fn account_row(view: &AccountView) -> (domain::Account, Person) {
    let mut account = view.account.clone();
    account.revision.previous = None;
    (account, view.person.clone())
}

fn method_row(view: &MethodView) -> (domain::PaymentMethod, bool) {
    let mut method = view.method.clone();
    method.revision.previous = None;
    (method, view.is_default)
}

#[test]
fn accounts_are_found_by_id_and_key_and_listed_in_order() {
    let world = World::after(21, 600);
    let newest = Newest::of(&world);
    let queries = &*world.queries;
    for no in &world.workload.tenants {
        let expected: Vec<_> = newest
            .accounts
            .iter()
            .filter(|((of, _), _)| of == no)
            .map(|(_, view)| account_row(view))
            .collect();
        let listed =
            paged(|page| queries.accounts(*no, page).unwrap(), expected.len(), expected.len());
        assert_eq!(listed.iter().map(account_row).collect::<Vec<_>>(), expected);
        for (account, person) in expected {
            let found = queries.account(*no, account.id).unwrap().map(|it| account_row(&it));
            assert_eq!(found.as_ref(), Some(&(account.clone(), person)));
            let key = account.external_key.clone().unwrap_or_else(|| account.id.to_string());
            let by_key = queries.account_by_key(*no, &key).unwrap().map(|it| account_row(&it));
            assert_eq!(by_key, found);
            assert!(queries.account(STRANGER, account.id).unwrap().is_none());
            assert!(queries.account_by_key(STRANGER, &key).unwrap().is_none());
            // An id is a key only where there is no other.
            if account.external_key.is_some() {
                let id = account.id.to_string();
                assert!(queries.account_by_key(*no, &id).unwrap().is_none());
            }
        }
        assert!(queries.account_by_key(*no, "nobody").unwrap().is_none());
    }
}

#[test]
fn payment_methods_are_found_and_deleted_ones_leave_the_lists() {
    let world = World::after(22, 900);
    let newest = Newest::of(&world);
    let queries = &*world.queries;
    let mut deleted = 0;
    for no in &world.workload.tenants {
        let own: Vec<&MethodView> =
            newest.methods.iter().filter(|((of, _), _)| of == no).map(|(_, it)| it).collect();
        for view in &own {
            let expected = Some(method_row(view));
            let method = &view.method;
            let found = queries.payment_method(*no, method.id).unwrap();
            assert_eq!(found.as_ref().map(method_row), expected);
            let key = method.external_key.clone().unwrap_or_else(|| method.id.to_string());
            let found = queries.payment_method_by_key(*no, &key).unwrap();
            assert_eq!(found.as_ref().map(method_row), expected);
            assert!(queries.payment_method(STRANGER, method.id).unwrap().is_none());
            let of_account = queries.payment_methods_of(*no, method.account_id).unwrap();
            let expected = own.iter().filter(|it| it.method.account_id == method.account_id);
            let expected: Vec<_> = expected.map(|it| method_row(it)).collect();
            assert_eq!(of_account.iter().map(method_row).collect::<Vec<_>>(), expected);
        }
        let active: Vec<_> =
            own.iter().filter(|it| it.method.active).map(|it| method_row(it)).collect();
        deleted += own.len() - active.len();
        let listed = paged(
            |page| queries.payment_methods(*no, page.of_gateway(None)).unwrap(),
            active.len(),
            active.len(),
        );
        assert_eq!(listed.iter().map(method_row).collect::<Vec<_>>(), active);
        for gateway in GATEWAYS.iter().chain(&["nobody"]) {
            let of_gateway: Vec<_> =
                active.iter().filter(|(it, _)| it.gateway == *gateway).cloned().collect();
            let listed = paged(
                |page| queries.payment_methods(*no, page.of_gateway(Some(gateway))).unwrap(),
                of_gateway.len(),
                active.len(),
            );
            assert_eq!(listed.iter().map(method_row).collect::<Vec<_>>(), of_gateway);
        }
    }
    assert!(deleted > 2, "only {deleted} payment methods were deleted");
}

#[test]
fn payments_are_found_by_every_name_and_listed_in_order() {
    let world = World::after(23, 1500);
    let newest = Newest::of(&world);
    let queries = &*world.queries;
    for no in &world.workload.tenants {
        let expected: Vec<PaymentFile> = newest
            .payments
            .iter()
            .filter(|((of, _), _)| of == no)
            .map(|(_, file)| as_row(file.clone()))
            .collect();
        let listed = paged(
            |page| queries.payments(*no, page.of_gateway(None)).unwrap(),
            expected.len(),
            expected.len(),
        );
        assert_eq!(listed, expected);
        for gateway in GATEWAYS.iter().chain(&["nobody"]) {
            let of_gateway = expected.iter().filter(|it| it.payment.gateway == *gateway);
            let of_gateway: Vec<PaymentFile> = of_gateway.cloned().collect();
            let listed = paged(
                |page| queries.payments(*no, page.of_gateway(Some(gateway))).unwrap(),
                of_gateway.len(),
                expected.len(),
            );
            assert_eq!(listed, of_gateway);
        }
        for file in &expected {
            find_payment(queries, *no, file);
            let account = file.payment.account_id;
            let own: Vec<&PaymentFile> =
                expected.iter().filter(|it| it.payment.account_id == account).collect();
            let listed: Vec<PaymentFile> = (0..own.len().div_ceil(2))
                .flat_map(|n| {
                    let page = Page { offset: count(n * 2), limit: 2 };
                    queries.payments_of(*no, account, page).unwrap()
                })
                .collect();
            assert_eq!(listed.iter().collect::<Vec<_>>(), own);
            assert!(queries.payments_of(STRANGER, account, ALL).unwrap().is_empty());
        }
        assert!(queries.payment_by_key(*no, "nobody").unwrap().is_none());
        assert!(queries.payment_of_transaction_key(*no, "nobody").unwrap().is_none());
    }
}

fn find_payment(queries: &dyn Queries, no: TenantNo, file: &PaymentFile) {
    let found = Some(file.clone());
    let id = file.payment.id;
    assert_eq!(queries.payment(no, id).unwrap(), found);
    assert_eq!(queries.payment(STRANGER, id).unwrap(), None);
    let key = file.payment.external_key.clone().unwrap_or_else(|| id.to_string());
    assert_eq!(queries.payment_by_key(no, &key).unwrap(), found);
    assert_eq!(queries.payment_by_key(STRANGER, &key).unwrap(), None);
    for transaction in &file.transactions {
        assert_eq!(queries.payment_of_transaction(no, transaction.id).unwrap(), found);
        assert_eq!(queries.payment_of_transaction(STRANGER, transaction.id).unwrap(), None);
        let key = transaction.external_key.clone();
        let key = key.unwrap_or_else(|| transaction.id.to_string());
        assert_eq!(queries.payment_of_transaction_key(no, &key).unwrap(), found);
    }
}

/// Accounts with these names are made; `text` is searched, and the names found are shown.
fn check_search(names: &[&str], text: &str, expected: &[&str]) {
    let mut world = World::new(1);
    let no = world.workload.tenants[0];
    for name in names {
        world.workload.accepted(no, create_account(Some(format!("key of {name}")), person(name)));
    }
    let found = world.queries.search_accounts(no, text, ALL).unwrap();
    assert_eq!((found.matching, found.all), (count(expected.len()), count(names.len())), "{text}");
    let found: Vec<String> = found.items.into_iter().map(|it| it.person.name.unwrap()).collect();
    let mut expected = expected.to_vec();
    expected.sort_by_key(|name| names.iter().position(|it| it == name));
    // Names made in one millisecond come in the order of their ids, which is any.
    let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
    found.sort_by_key(|name| names.iter().position(|it| it == name));
    assert_eq!(found, expected, "{text}");
}

#[test]
fn searches_for_accounts_take_every_character_as_it_is() {
    let names =
        ["Ada Lovelace", "100% Cotton", "1000 Cotton", "under_score", "underXscore", "a\\b"];
    check_search(&names, "lovelace", &["Ada Lovelace"]);
    check_search(&names, "COTTON", &["100% Cotton", "1000 Cotton"]);
    check_search(&names, "100%", &["100% Cotton"]);
    check_search(&names, "under_", &["under_score"]);
    check_search(&names, "\\", &["a\\b"]);
    check_search(&names, "key of ADA", &["Ada Lovelace"]);
    check_search(&names, "ada.lovelace@example", &["Ada Lovelace"]);
    check_search(&names, "Lyon", &[]);
    check_search(&names, "'; DROP TABLE account", &[]);
}

#[test]
fn searches_for_accounts_fold_the_letters_of_all_scripts() {
    let names = ["Österreich AG", "ИВАНОВ Пётр", "Čapek", "Straße 1", "ΣΙΣΥΦΟΣ", "Jose\u{301}"];
    check_search(&names, "österreich", &["Österreich AG"]);
    check_search(&names, "ÖSTERREICH", &["Österreich AG"]);
    check_search(&names, "o\u{308}sterreich", &["Österreich AG"]);
    check_search(&names, "иванов п", &["ИВАНОВ Пётр"]);
    check_search(&names, "čapek", &["Čapek"]);
    check_search(&names, "STRASSE", &["Straße 1"]);
    check_search(&names, "σίσυφος", &[]);
    check_search(&names, "σισυφος", &["ΣΙΣΥΦΟΣ"]);
    check_search(&names, "josé", &["Jose\u{301}"]);
    check_search(&names, "ａｇ", &["Österreich AG"]);
    check_search(&names, "KEY OF ÖSTERREICH", &["Österreich AG"]);
}

#[test]
fn a_search_for_an_account_finds_its_id_but_not_its_former_name() {
    let mut world = World::new(2);
    let no = world.workload.tenants[0];
    let Reply::Account(AccountReply::Created(id)) =
        world.workload.accepted(no, create_account(None, person("Old Name")))
    else {
        panic!("no account")
    };
    world.workload.now = world.workload.now.plus_us(1);
    world.workload.accepted(no, rename(id, person("New Name")));
    let find = |text: &str| world.queries.search_accounts(no, text, ALL).unwrap().matching;
    assert_eq!(find("old name"), 0);
    assert_eq!(find("new name"), 1);
    assert_eq!(find(&id.to_string()), 1);
    assert_eq!(find(&id.to_string().to_uppercase()), 1);
    assert_eq!(find(&Uuid::nil().to_string()), 0);
    let stranger = world.queries.search_accounts(STRANGER, "new name", ALL).unwrap();
    assert_eq!((stranger.matching, stranger.all), (0, 0));
}

#[test]
fn searches_for_payments_and_methods_go_by_id_account_and_key() {
    let world = World::after(24, 1000);
    let newest = Newest::of(&world);
    let queries = &*world.queries;
    for ((no, id), file) in &newest.payments {
        let account = file.payment.account_id;
        let ids = |text: &str| -> Vec<PaymentId> {
            let found = queries.payments_named(*no, text, ALL.of_gateway(None)).unwrap();
            found.items.iter().map(|it| it.payment.id).collect()
        };
        assert_eq!(ids(&id.to_string()), [*id]);
        if let Some(key) = &file.payment.external_key {
            assert_eq!(ids(key), [*id]);
            assert_eq!(ids(&key[1..]), []);
            let part = key[1..].to_uppercase();
            let found = queries.search_payments(*no, &part, ALL.of_gateway(None)).unwrap();
            assert!(found.items.iter().any(|it| it.payment.id == *id), "{key}");
        }
        let method = file.payment.payment_method_id;
        let of_method = |gateway| {
            queries.search_payments(*no, &method.to_string(), ALL.of_gateway(gateway)).unwrap()
        };
        assert!(of_method(None).items.iter().any(|it| it.payment.id == *id));
        assert!(of_method(None).items.iter().all(|it| it.payment.payment_method_id == method));
        assert_eq!(of_method(Some("another")).matching, 0);
        let named =
            queries.payments_named(*no, &id.to_string(), ALL.of_gateway(Some("another"))).unwrap();
        assert_eq!((named.matching, named.all > 0), (0, true));
        let own = newest
            .payments
            .iter()
            .filter(|((of, _), it)| of == no && it.payment.account_id == account);
        let own: Vec<PaymentId> = own.map(|((_, id), _)| *id).collect();
        assert_eq!(ids(&account.to_string()), own);
        let page = Page { offset: 1, limit: 1 };
        let second =
            queries.payments_named(*no, &account.to_string(), page.of_gateway(None)).unwrap();
        assert_eq!(second.matching, count(own.len()));
        assert_eq!(second.items.first().map(|it| it.payment.id), own.get(1).copied());
    }
    for ((no, id), view) in &newest.methods {
        let found = |text: &str| {
            let found = queries.search_payment_methods(*no, text, ALL.of_gateway(None)).unwrap();
            assert_eq!(found.matching, count(found.items.len()));
            found.items.iter().any(|it| it.method.id == *id)
        };
        assert_eq!(found(&id.to_string()), view.method.active);
        assert_eq!(found(&view.method.account_id.to_string()), view.method.active);
        if let Some(key) = &view.method.external_key {
            assert_eq!(found(&key[3..].to_uppercase()), view.method.active);
        }
        assert!(!found("nobody"));
    }
}

#[test]
fn payments_are_found_by_the_state_they_stand_in() {
    let world = World::after(29, 1500);
    let newest = Newest::of(&world);
    for no in &world.workload.tenants {
        let own: Vec<&PaymentFile> =
            newest.payments.iter().filter(|((of, _), _)| of == no).map(|(_, it)| it).collect();
        let check = |states: &[PaymentState]| {
            let expected = own.iter().filter(|it| states.contains(&it.payment.state));
            let expected: Vec<PaymentId> = expected.map(|it| it.payment.id).collect();
            let find_in = |no, page: Page| {
                world.queries.payments_in_state(no, states, page.of_gateway(None)).unwrap()
            };
            let find = |page| find_in(*no, page);
            let found: Vec<PaymentId> =
                paged(find, expected.len(), own.len()).iter().map(|file| file.payment.id).collect();
            assert_eq!(found, expected, "{states:?}");
            assert_eq!(find_in(STRANGER, ALL).matching, 0);
        };
        let mut states: Vec<PaymentState> = Vec::new();
        for file in &own {
            if !states.contains(&file.payment.state) {
                states.push(file.payment.state);
            }
        }
        assert!(states.len() > 8, "only {states:?}");
        states.iter().for_each(|state| check(&[*state]));
        check(&states);
        check(&states[1..4]);
    }
}

#[test]
fn access_is_read_back() {
    let mut world = World::new(3);
    let no = world.workload.tenants[0];
    let one = world.queries.tenant_by_api_key("key-1").unwrap().unwrap();
    assert_eq!(one.no, no);
    assert_eq!(one.secret_hash, "hash");
    assert_eq!(world.queries.tenant(one.id).unwrap().as_ref(), Some(&one));
    assert_eq!(world.queries.tenant_by_no(no).unwrap(), Some(one));
    assert!(world.queries.tenant_by_api_key("key-3").unwrap().is_none());
    assert_eq!(world.queries.tenant_named("key-1").unwrap().unwrap().no, no);
    assert!(world.queries.tenant_named("key-3").unwrap().is_none());
    assert_eq!(world.queries.tenant_count().unwrap(), 2);
    let set = |value: Option<&str>| {
        let value = value.map(str::to_owned);
        Command::Tenant(TenantCommand::SetValue(SetTenantValue {
            key: "callback".to_owned(),
            value,
            rules: None,
        }))
    };
    world.workload.accepted(no, set(Some("https://example.org")));
    let value = world.queries.tenant_value(no, "callback").unwrap().unwrap();
    assert_eq!(value.value.as_deref(), Some("https://example.org"));
    assert!(world.queries.tenant_value(STRANGER, "callback").unwrap().is_none());
    for name in ["b-role", "a-role"] {
        let (name, permissions) = (name.to_owned(), vec!["account".to_owned()]);
        let put = PutRole { name, permissions, create: true };
        world.workload.accepted(TenantNo::SYSTEM, Command::Access(AccessCommand::PutRole(put)));
    }
    let names: Vec<String> =
        world.queries.roles().unwrap().into_iter().map(|role| role.name).collect();
    assert_eq!(names, ["a-role", "b-role"]);
    let role = world.queries.role("a-role").unwrap().unwrap();
    assert_eq!(role.permissions, ["account:*"]);
    assert!(world.queries.role("nobody").unwrap().is_none());
    let (username, password_hash) = ("ada".to_owned(), "hash".to_owned());
    let user = CreateUser { username, password_hash, roles: vec!["a-role".to_owned()] };
    world.workload.accepted(TenantNo::SYSTEM, Command::Access(AccessCommand::CreateUser(user)));
    let user = world.queries.user("ada").unwrap().unwrap();
    assert_eq!((user.roles, user.active), (vec!["a-role".to_owned()], true));
    assert!(world.queries.user("nobody").unwrap().is_none());
    let (username, password_hash) = ("abe".to_owned(), "hash".to_owned());
    let user = CreateUser { username, password_hash, roles: vec![] };
    world.workload.accepted(TenantNo::SYSTEM, Command::Access(AccessCommand::CreateUser(user)));
    let users = |page| world.queries.users(page).unwrap();
    let all = users(ALL);
    let names: Vec<&str> = all.iter().map(|it| it.username.as_str()).collect();
    assert_eq!(names, ["abe", "ada"]);
    assert_eq!((&all[1].roles[..], all[1].active), (&["a-role".to_owned()][..], true));
    assert_eq!(all[1].updated_at, world.workload.now);
    assert_eq!(users(Page { offset: 1, limit: 1 }), all[1..]);

    let head = world.queries.access_head().unwrap();
    let (key, value) = (CREDENTIALS_DROPPED.to_owned(), Some("a request".to_owned()));
    for _ in 0..2 {
        let drop = SetTenantValue::new(key.clone(), value.clone());
        let drop = Command::Tenant(TenantCommand::SetValue(drop));
        world.workload.accepted(TenantNo::SYSTEM, drop);
    }
    assert_eq!(world.queries.access_head().unwrap(), Seq(head.0 + 2), "each process follows it");
}

#[test]
fn ledger_entries_are_filtered_by_each_of_their_sides() {
    let world = World::after(25, 1500);
    let newest = Newest::of(&world);
    let queries = &*world.queries;
    let all: Vec<Posting> = newest.postings.iter().map(|(_, posting)| posting.clone()).collect();
    let (from, to) = (all[all.len() / 3].at, all[all.len() * 2 / 3].at);
    for no in &world.workload.tenants {
        let some = all.iter().filter(|it| it.tenant == *no).nth(20).unwrap();
        let none = LedgerFilter::default();
        let (account, payment) = (Some(some.account_id), payment_of(some));
        for filter in [
            none,
            LedgerFilter { account, ..none },
            LedgerFilter { payment, ..none },
            LedgerFilter { account, payment, ..none },
            LedgerFilter { from: Some(from), to: Some(to), ..none },
            LedgerFilter { account, from: Some(from), ..none },
            LedgerFilter { payment, to: Some(Timestamp(to.0 + 1)), ..none },
        ] {
            let wanted = |it: &&(Seq, Posting)| {
                let it = &it.1;
                it.tenant == *no
                    && filter.account.is_none_or(|id| it.account_id == id)
                    && filter.payment.is_none_or(|id| payment_of(it) == Some(id))
                    && filter.from.is_none_or(|from| it.at >= from)
                    && filter.to.is_none_or(|to| it.at < to)
            };
            let mut expected: Vec<_> = newest.postings.iter().filter(wanted).cloned().collect();
            // Oldest first; the clock of a history steps back now and then.
            expected.sort_by_key(|(_, posting)| posting.at);
            let found = queries.ledger_entries(*no, &filter, ALL).unwrap();
            let found: Vec<_> = found.into_iter().map(|it| (it.seq, it.posting)).collect();
            assert_eq!(found, expected, "{filter:?}");
            let page = Page { offset: 2, limit: 3 };
            let paged = queries.ledger_entries(*no, &filter, page).unwrap();
            let paged: Vec<_> = paged.into_iter().map(|it| (it.seq, it.posting)).collect();
            let window: Vec<_> = expected.into_iter().skip(2).take(3).collect();
            assert_eq!(paged, window, "{filter:?}");
        }
        let unknown = LedgerFilter { payment: Some(PaymentId::new(Uuid::nil())), ..none };
        assert!(queries.ledger_entries(*no, &unknown, ALL).unwrap().is_empty());
    }
    assert!(queries.ledger_entries(STRANGER, &LedgerFilter::default(), ALL).unwrap().is_empty());
}

fn payment_of(it: &Posting) -> Option<PaymentId> {
    let PostingSource::Payment { payment, .. } = it.source else { return None };
    Some(payment)
}

/// The sums of postings, by account of the chart, gateway and currency.
fn add_up<'a>(postings: impl Iterator<Item = &'a Posting>) -> Vec<LedgerTotal> {
    let mut totals: BTreeMap<(LedgerAccount, String, Currency), (i128, i128)> = BTreeMap::new();
    for it in postings {
        let key = |account| {
            let customer = account == LedgerAccount::Customer;
            let gateway = if customer { String::new() } else { it.gateway().to_owned() };
            (account, gateway, it.currency)
        };
        totals.entry(key(it.debit)).or_default().0 += i128::from(it.amount.0);
        totals.entry(key(it.credit)).or_default().1 += i128::from(it.amount.0);
    }
    let total = |((account, gateway, currency), (debit, credit))| LedgerTotal {
        account,
        gateway,
        currency,
        debit,
        credit,
    };
    totals.into_iter().map(total).collect()
}

#[test]
fn the_trial_balance_and_customers_add_up_the_postings() {
    let world = World::after(26, 2000);
    let newest = Newest::of(&world);
    for no in &world.workload.tenants {
        let own = || newest.postings.iter().map(|(_, it)| it).filter(|it| it.tenant == *no);
        let balance = world.queries.trial_balance(*no).unwrap();
        assert_eq!(balance, add_up(own()));
        assert!(balance.len() > 5);
        for (_, account) in world.workload.accounts.iter().filter(|(of, _)| of == no) {
            let mut expected = add_up(own().filter(|it| it.account_id == *account));
            expected.retain(|total| total.account == LedgerAccount::Customer);
            assert_eq!(world.queries.customer_totals(*no, *account).unwrap(), expected);
            let asked = [(*no, *account), (STRANGER, *account)];
            assert_eq!(world.queries.balances(&asked).unwrap(), [Some(expected), None]);
        }
    }
    assert_eq!(world.queries.trial_balance(STRANGER).unwrap(), []);
}

/// The journal rows that the writer's process holds are those that SQL returns.
#[test]
fn followers_beside_the_writer_read_what_others_read() {
    let world = World::after(28, 300);
    let others = SqlQueries::open_source(world.home.source(), 1).unwrap();
    let head = world.workload.head();
    for after in 0..=head.0 + 1 {
        for limit in [1, 7, usize::MAX] {
            let of = |queries: &dyn Queries| queries.journal_after(Seq(after), limit).unwrap();
            let (found, expected) = (of(&*world.queries), of(&others));
            assert_eq!(found, expected, "{limit} after {after}");
        }
    }
}

#[test]
fn followers_see_every_event_once_and_in_order() {
    let world = World::after(27, 800);
    let queries = &*world.queries;
    let entries = world.entries();
    assert_eq!(queries.journal_head().unwrap(), world.workload.head());
    assert_eq!(queries.journal_heads().unwrap(), [world.workload.head()]);
    assert_eq!(queries.journal_heads_at().unwrap(), entries.last().map(|it| it.at));
    let mut expected = entries.iter().filter(|entry| !entry.events.is_empty());
    let mut after = Seq(0);
    loop {
        let (rows, upto) = queries.journal_after(after, 13).unwrap();
        assert!(rows.len() <= 13);
        for row in rows {
            let JournalRow { seq, at, committed_at, tenant, events } = Arc::unwrap_or_clone(row);
            let entry = expected.next().unwrap();
            assert_eq!((seq, at, tenant), (entry.seq, entry.at, entry.tenant));
            assert_eq!(events, entry.events);
            assert!(committed_at > Timestamp(0) && seq > after && seq <= upto);
            let alone = queries.journal_row(seq).unwrap().unwrap();
            assert_eq!(alone.events, events);
        }
        if upto == after {
            break;
        }
        after = upto;
    }
    assert!(expected.next().is_none());
    assert_eq!(after, world.workload.head());
    let silent = entries.iter().find(|entry| entry.events.is_empty()).unwrap();
    let silent: Vec<Event> = queries.journal_row(silent.seq).unwrap().unwrap().events;
    assert_eq!(silent, []);
    assert!(queries.journal_row(Seq(after.0 + 1)).unwrap().is_none());
    assert_eq!(queries.followed("nobody").unwrap(), Seq(0));
}

#[test]
fn unresolved_transactions_are_each_tenants_own_and_the_oldest_comes_first() {
    let world = World::after(30, 1500);
    let newest = Newest::of(&world);
    let queries = &*world.queries;
    let statuses = [TransactionStatus::Pending, TransactionStatus::Unknown];
    let mut open = newest.payments.values().flat_map(|it| &it.transactions).collect::<Vec<_>>();
    open.retain(|it| statuses.contains(&it.status));
    open.sort_by_key(|it| (it.effective_at, it.id));
    for no in &world.workload.tenants {
        let expected = open.iter().filter(|it| it.tenant == *no).map(|it| {
            let waits = &newest.outstanding[&(*no, it.id)];
            (it.id, it.status, it.effective_at, waits.asked - 1, waits.ask_at)
        });
        let expected: Vec<_> = expected.collect();
        let found = |page| -> Vec<_> {
            let found = queries.unresolved(*no, page).unwrap();
            let row = |it: &Unresolved| {
                let transaction = &it.transaction;
                let (status, at) = (transaction.status, transaction.effective_at);
                (transaction.id, status, at, it.questions, it.ask_at)
            };
            found.iter().map(row).collect()
        };
        assert!(expected.len() > 5, "only {expected:?}");
        assert_eq!(found(ALL), expected);
        assert_eq!(found(Page { offset: 0, limit: 1 }), expected[..1]);
        assert_eq!(found(Page { offset: 2, limit: 3 }), expected[2..5]);
    }
    assert_eq!(queries.unresolved(STRANGER, ALL).unwrap(), []);
    let counted = |status| {
        let own: Vec<_> = open.iter().filter(|it| it.status == status).collect();
        let oldest_at = own.first().map(|it| it.effective_at);
        let transactions = i64::try_from(own.len()).unwrap();
        UnresolvedCount { status, transactions, oldest_at }
    };
    assert_eq!(queries.unresolved_counts().unwrap(), statuses.map(counted));
    // Nobody asks about these any more: all the more reason to show them.
    world.home.damage("DELETE FROM outstanding");
    let left: usize =
        world.workload.tenants.iter().map(|no| queries.unresolved(*no, ALL).unwrap().len()).sum();
    assert_eq!(left, open.len());
    let none = |status| UnresolvedCount { status, transactions: 0, oldest_at: None };
    assert_eq!(World::new(31).queries.unresolved_counts().unwrap(), statuses.map(none));
}

#[test]
fn awaited_outcomes_are_sorted_by_next_inquiry() {
    let world = World::after(28, 1500);
    let mut newest = Newest::of(&world);
    let queries = &*world.queries;
    let total = newest.outstanding.len();
    assert_eq!(queries.outstanding_count().unwrap(), i64::try_from(total).unwrap());
    let listed = queries.outstanding(usize::MAX).unwrap();
    assert!(listed.is_sorted_by_key(|it| it.deadline));
    assert_eq!(listed.len(), total);
    for it in &listed {
        assert_eq!(newest.outstanding.get(&(it.tenant, it.transaction_id)), Some(it));
        let of_payment = queries.outstanding_of(it.tenant, it.payment_id).unwrap();
        assert!(of_payment.contains(it));
        assert!(queries.outstanding_of(STRANGER, it.payment_id).unwrap().is_empty());
    }
    assert_eq!(queries.outstanding(3).unwrap(), listed[..3]);
    check_of_tenants(queries, &listed);
    // A time in the middle of those that are planned.
    let mut planned: Vec<Timestamp> = listed.iter().filter_map(|it| it.ask_at).collect();
    planned.sort();
    let now = planned[planned.len() / 2];
    let gateways = queries.outstanding_gateways().unwrap();
    let expected: BTreeSet<&String> =
        listed.iter().filter(|it| it.ask_at.is_some()).map(|it| &it.gateway).collect();
    assert_eq!(gateways.iter().collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
    let (mut due, mut later) = (vec![], vec![]);
    for gateway in &gateways {
        let of_it = queries.outstanding_due(gateway, now, usize::MAX).unwrap();
        assert!(of_it.is_sorted_by_key(|it| it.ask_at));
        assert!(of_it.iter().all(|it| it.gateway == *gateway));
        let some = queries.outstanding_due(gateway, now, 2).unwrap();
        assert_eq!(some, of_it[..of_it.len().min(2)]);
        due.extend(of_it);
        let of_it = queries.outstanding_after(gateway, now, usize::MAX).unwrap();
        assert!(of_it.is_sorted_by(|one, next| one.ask_at >= next.ask_at));
        assert!(of_it.iter().all(|it| it.gateway == *gateway));
        let some = queries.outstanding_after(gateway, now, 2).unwrap();
        assert_eq!(some, of_it[..of_it.len().min(2)]);
        later.extend(of_it);
    }
    let expected = listed.iter().filter(|it| it.ask_at.is_some_and(|at| at <= now)).count();
    assert_eq!(due.len(), expected);
    assert!(expected > 3, "only {expected} are due");
    assert_eq!(due.len() + later.len(), planned.len());
    assert!(later.len() > 2, "only {} are planned", later.len());
    newest.outstanding.retain(|_, it| it.ask_at.is_none() && it.asked == 0);
    let orphans = queries.outstanding_orphans().unwrap();
    assert_eq!(orphans, newest.outstanding.into_values().collect::<Vec<_>>());
    assert!(!orphans.is_empty());
}

/// Windows on what each tenant has in the queue of outcomes, put together.
fn check_of_tenants(queries: &dyn Queries, all: &[Outstanding]) {
    let times = (Timestamp(i64::MIN), Timestamp(i64::MAX));
    let tenants: BTreeSet<TenantNo> = all.iter().map(|it| it.tenant).collect();
    for no in tenants {
        let find = |account, window| queries.outstanding_of_tenant(no, account, window).unwrap();
        let (mut found, mut after) = (vec![], None);
        while let page = find(None, QueueWindow { after, times, limit: 2 })
            && let Some(last) = page.last()
        {
            after = Some(last.transaction_id);
            found.extend(page);
        }
        let mut expected: Vec<_> = all.iter().filter(|it| it.tenant == no).cloned().collect();
        expected.sort_by_key(|it| it.transaction_id);
        assert_eq!(found, expected);
        let account = expected[0].account_id;
        let window = QueueWindow { after: None, times, limit: u64::MAX };
        let of_account = find(Some(account), window);
        expected.retain(|it| it.account_id == account);
        assert_eq!(of_account, expected);
        let at = |it: &Outstanding| it.ask_at.unwrap_or(it.deadline);
        let first = at(&expected[0]);
        let of_time = find(Some(account), QueueWindow { times: (first, first), ..window });
        expected.retain(|it| at(it) == first);
        assert_eq!(of_time, expected);
    }
}

#[test]
fn an_export_has_every_row_of_the_account_whatever_the_size_of_its_parts() {
    let world = World::after(29, 1500);
    let newest = Newest::of(&world);
    let queries = &*world.queries;
    let of_account = |no: TenantNo, account: AccountId, limit: u64| {
        let mut rows: BTreeMap<&str, Vec<Vec<Option<String>>>> = BTreeMap::new();
        let mut from = Some(ExportPoint::default());
        while let Some(at) = from {
            let part = queries.export((no, account), at, limit).unwrap();
            assert!(part.rows.iter().all(|row| row.len() == part.columns.len()));
            rows.entry(part.table).or_default().extend(part.rows);
            from = part.next;
        }
        rows
    };
    let owned = newest.payments.values().map(|it| (it.payment.tenant, it.payment.account_id));
    let (no, account) = owned
        .max_by_key(|of| {
            let is_of = |it: &&PaymentFile| (it.payment.tenant, it.payment.account_id) == *of;
            newest.payments.values().filter(is_of).count()
        })
        .unwrap();
    let all = of_account(no, account, 10_000);
    for limit in [1, 3] {
        assert_eq!(of_account(no, account, limit), all, "{limit}");
    }
    let payments = newest.payments.values();
    let payments: Vec<_> = payments.filter(|it| it.payment.account_id == account).collect();
    let transactions: usize = payments.iter().map(|it| it.transactions.len()).sum();
    let postings = newest.postings.iter().filter(|it| it.1.account_id == account).count();
    let counts = ["payment", "payment_transaction", "posting"].map(|it| all[it].len());
    assert_eq!(counts, [payments.len(), transactions, postings]);
    assert_eq!(all["account"].len(), 1);
    assert!(of_account(STRANGER, account, 10).values().all(Vec::is_empty));
}
