//! Forgetting somebody: their address is free at once, and nothing of them is left anywhere.

use std::fs;
use std::path::Path;

use domain::claim::ClaimKind;
use domain::command::CustomerCommand;
use domain::customer::{CustomerRejection, CustomerStatus, UpdateCustomer};
use domain::read::{AccountRead, Read};
use domain::{Command, Person, Request, TenantNo};
use engine::partition::{Answer, Verdict};
use engine::ports::{CustomerQueries, Queries, Store};
use store::tables::{Kind, TABLES};
use store::verify::{verify, verify_source};
use store::{Error, Options, SqlStore};

use super::{
    TENANT, ask, customer_of, erase, login, refused, register, registration, sign_up, verified,
};
use crate::commits::two_tenants;
use crate::home::Home;
use crate::sqlite::OPTIONS;
use crate::workload::{Workload, World, person, rename};

/// Every text of every row, with the table and the column that have it.
fn texts(store: &SqlStore) -> Vec<String> {
    let reader = store.database().reader();
    let mut all = vec![];
    for table in TABLES {
        for column in table.columns.iter().filter(|it| matches!(it.kind, Kind::Text)) {
            let (table, column) = (table.name, column.name);
            let sql = format!("SELECT {column} FROM {table} WHERE {column} IS NOT NULL");
            let found = reader.query(&sql, &[], |cells| cells.string()).unwrap();
            all.extend(found.iter().map(|text| format!("{table}.{column}: {text}")));
        }
    }
    all
}

/// The names by which a person of the tests is found.
const MARKS: [&str; 5] = ["wilma", "Wilma", "WILMA", "fred", "Fred"];

/// Where something of the person is.
fn traces(store: &SqlStore) -> Vec<String> {
    let mut found = texts(store);
    found.retain(|text| MARKS.iter().any(|mark| text.contains(mark)));
    found
}

/// Somebody with sessions, mails, revisions of their name, and a payment method.
fn lived_in<S: Store>(
    workload: &mut Workload<S>,
    queries: &dyn Queries,
) -> domain::customer::CustomerRef {
    let customer = verified(workload, queries, "Wilma");
    ask(workload, login(customer, 0, None));
    let it =
        UpdateCustomer { last_name: Some("Fredson".to_owned()), ..UpdateCustomer::of(customer) };
    ask(workload, CustomerCommand::Update(Box::new(it)));
    let named = Person { company: Some("Fred & Wilma".to_owned()), ..person("Wilma of Fred") };
    workload.accepted(TENANT, rename(customer.account, named));
    customer
}

#[test]
fn nothing_of_somebody_who_is_forgotten_is_left() {
    let mut world = World::new(111);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let other = sign_up(workload, TENANT, "Barney");
    let customer = lived_in(workload, queries);
    let rows = |sql: &str| {
        let reader = world.home.source().read().unwrap();
        reader.query_one(sql, &[], |cells| cells.int()).unwrap().unwrap()
    };
    assert_eq!(rows("SELECT count(*) FROM mail"), 4);
    assert!(rows("SELECT count(*) FROM account_person") > 3);
    assert!(verify_source(&world.home.source()).unwrap().is_sound());
    ask(workload, erase(customer));

    let forgotten = queries.customer(TENANT, customer.id).unwrap().unwrap();
    assert_eq!(forgotten.status, CustomerStatus::Erased);
    assert_eq!((forgotten.profile, forgotten.credentials), Default::default());
    assert_eq!((forgotten.verification, forgotten.reset, forgotten.expires_at), (None, None, None));
    assert_eq!(queries.customer_by_email(TENANT, "wilma@example.org").unwrap(), None);
    assert!(!queries.is_email_taken(TENANT, "wilma@example.org").unwrap());
    assert_eq!(queries.customer_file(TENANT, customer.id).unwrap().unwrap().sessions, []);
    let account = queries.account(TENANT, customer.account).unwrap().unwrap();
    assert_eq!(account.person, Person::default());
    assert_eq!(account.account.external_key, Some(customer.id.to_string()));
    assert_eq!(refused(workload, login(customer, 0, None)), CustomerRejection::NotFound);
    // What others have stays.
    assert_eq!(rows("SELECT count(*) FROM mail"), 2);
    assert_eq!(rows("SELECT count(*) FROM account_person"), 1);
    assert!(queries.account(TENANT, other.account).unwrap().unwrap().person.name.is_some());
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    let World { workload: ended, queries, home, .. } = world;
    drop((ended, queries));
    let store = home.open(&OPTIONS);
    assert_eq!(traces(&store), Vec::<String>::new());
}

/// The check above would see it: as long as they are there, it is in several tables.
#[test]
fn somebody_who_is_there_is_seen_in_the_texts_but_not_in_the_journal() {
    let mut world = World::new(112);
    lived_in(&mut world.workload, &*world.queries);
    let World { workload, queries, home, .. } = world;
    drop((workload, queries));
    let store = home.open(&OPTIONS);
    let mut places: Vec<String> =
        traces(&store).iter().map(|it| it.split_once(':').unwrap().0.to_owned()).collect();
    places.sort();
    places.dedup();
    let expected = [
        "account_person.company",
        "account_person.email",
        "account_person.name",
        "account_person.phone",
        "customer.email",
        "customer.email_key",
        "customer.first_name",
        "customer.last_name",
        "customer.password_hash",
        "customer.preferences",
    ];
    assert_eq!(places, expected);
}

/// Which of the marks are in the files of a directory, or in one file.
fn marks_in<const N: usize>(path: &Path, marks: [&str; N]) -> [bool; N] {
    let files = match path.is_dir() {
        true => fs::read_dir(path).unwrap().map(|it| it.unwrap().path()).collect(),
        false => vec![path.to_owned()],
    };
    let files: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    marks.map(|mark| {
        let has = |bytes: &Vec<u8>| bytes.windows(mark.len()).any(|it| it == mark.as_bytes());
        files.iter().any(has)
    })
}

/// The files themselves, once they are written anew.
#[test]
fn nothing_of_erased_people_is_left_in_the_files_and_in_a_backup() {
    let home = Home::embedded();
    let store = home.open(&OPTIONS);
    let queries = store.queries(1).unwrap();
    let mut workload = two_tenants(store, 113);
    let customer = lived_in(&mut workload, &queries);
    // Of so many, rows move from page to page, and what they leave behind is not overwritten.
    let customers: Vec<_> = (0..600)
        .map(|at| sign_up(&mut workload, TENANT, &format!("{}{at}", ["Betty", "Barney"][at % 2])))
        .collect();
    assert_eq!(marks_in(home.path(), ["Wilma", "Betty", "betty", "Barney"]), [true; 4]);
    ask(&mut workload, erase(customer));
    for customer in customers.into_iter().step_by(2) {
        ask(&mut workload, erase(customer));
    }
    let backup = home.path().join("backup");
    store::backup(home.path(), &backup).unwrap();
    assert_eq!(marks_in(&backup, MARKS), [false; 5]);
    let marks = ["Betty", "betty", "Barney", "barney1@"];
    assert_eq!(marks_in(&backup, marks), [false, false, true, true]);
    fs::remove_file(backup).unwrap();

    let refused = store::vacuum(home.path()).unwrap_err();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    drop((workload, queries));
    let reader = home.source().read().unwrap();
    let beside_a_reader = reader.snapshot(|_| {
        reader.query_one("SELECT count(*) FROM customer", &[], |cells| cells.int())?;
        Ok(store::vacuum(home.path()).unwrap_err())
    });
    let refused = beside_a_reader.unwrap();
    assert!(matches!(refused, Error::Database { .. }), "{refused}");
    drop(reader);
    store::vacuum(home.path()).unwrap();
    assert_eq!(marks_in(home.path(), MARKS), [false; 5]);
    assert_eq!(marks_in(home.path(), marks), [false, false, true, true]);
    let mut store = home.open(&OPTIONS);
    store.open().unwrap();
    assert!(verify(store.database().reader()).unwrap().is_sound());
}

/// A person's data that the batch itself wrote before the erasure is erased too; data that it wrote afterwards stays.
#[test]
fn within_one_batch_it_is_as_in_several() {
    let ended: Vec<_> = [true, false].map(in_batches).into();
    assert_eq!(ended[0], ended[1]);
    let (names, mails, _) = &ended[0];
    assert_eq!(names, &[None, Some("Later".to_owned())]);
    assert_eq!(*mails, 0);
}

fn in_batches(is_one: bool) -> (Vec<Option<String>>, usize, Vec<String>) {
    let mut world = World::new(114);
    let (workload, queries) = (&mut world.workload, &*world.queries);
    let customers = ["Wilma", "Fred"].map(|name| sign_up(workload, TENANT, name));
    let mut requests: Vec<Request> = vec![];
    for customer in customers {
        requests.push(workload.request(TENANT, rename(customer.account, person("Before"))));
        requests.push(workload.request(TENANT, Command::Customer(erase(customer))));
    }
    requests.push(workload.request(TENANT, rename(customers[1].account, person("Later"))));
    // Nobody signs up and is forgotten so fast, but the rows must not care.
    let mut new = workload.request(TENANT, register(registration("Dino")));
    new.id = domain::RequestId(uuid::Uuid::from_u128(77 << 76));
    let dino = domain::customer::CustomerRef { id: new.id.entity(1), account: new.id.entity(0) };
    requests.push(new);
    requests.push(workload.request(TENANT, Command::Customer(erase(dino))));
    let verdicts = match is_one {
        true => workload.batch(requests),
        false => requests.into_iter().flat_map(|it| workload.batch(vec![it])).collect(),
    };
    let is_accepted = |it: &Verdict| matches!(it, Verdict::Answered(Answer::Replied(_)));
    assert!(verdicts.iter().all(is_accepted), "{verdicts:?}");
    let name = |account| queries.account(TENANT, account).unwrap().unwrap().person.name;
    let names = customers.iter().map(|it| name(it.account)).collect();
    let mails = queries.mails_due(domain::Timestamp(i64::MAX), 10).unwrap().len();
    // As the writer has it in memory.
    let reads = customers.map(|it| AccountRead::Account(TENANT, it.account).into());
    let state = workload.partition.store().load(&reads.into(), &[].into()).unwrap().state;
    let people = state.account.people.values().map(|it| format!("{:?}", it.name)).collect();
    workload.partition.store().commit(&engine::ports::Batch::default()).unwrap();
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    (names, mails, people)
}

/// Again and again, while memtables of claims are compacted: at once, in the same batch, and after a restart.
#[test]
fn an_address_is_free_as_soon_as_its_customer_is_forgotten() {
    for claims_held in [1, 4, 16, Options::DEFAULT.claims_held] {
        let home = Home::new();
        let options = Options { claims_held, ..Options::DEFAULT };
        let mut store = home.open(&options);
        let queries = store.queries(1).unwrap();
        let mut workload = two_tenants(store, 115);
        let mut owner = sign_up(&mut workload, TENANT, "Wilma");
        for n in 0..90_u32 {
            sign_up(&mut workload, TENANT, &format!("Other{n}"));
            let again = registration("Wilma");
            let forget = Command::Customer(erase(owner));
            if n % 3 == 0 {
                // One after the other in a batch.
                let requests = vec![
                    workload.request(TENANT, forget),
                    workload.request(TENANT, register(again)),
                ];
                let verdicts = workload.batch(requests);
                let Verdict::Answered(Answer::Replied(reply)) = &verdicts[1] else {
                    panic!("{verdicts:?}")
                };
                owner = customer_of(reply);
            } else {
                workload.accepted(TENANT, forget);
                assert!(!queries.is_email_taken(TENANT, "wilma@example.org").unwrap(), "{n}");
                if n % 3 == 1 {
                    workload.partition.store().open().unwrap();
                }
                assert_eq!(loaded(&mut workload), None, "{n}");
                owner = customer_of(&workload.accepted(TENANT, register(again)));
            }
            let found = queries.customer_by_email(TENANT, "wilma@example.org").unwrap();
            assert_eq!(found.map(|it| it.id), Some(owner.id), "{n}");
            assert_eq!(loaded(&mut workload), Some(owner.id.uuid()), "{n}");
        }
        let report = verify_source(&home.source()).unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
        workload.accepted(TENANT, Command::Customer(erase(owner)));
        drop((workload, queries));
        store = home.open(&options);
        store.open().unwrap();
        let mut workload = Workload::new(store, 116);
        assert_eq!(loaded(&mut workload), None);
        leaves_no_row(&mut workload, claims_held);
    }
}

/// Who has the address, as the writer loads it.
fn loaded(workload: &mut Workload<SqlStore>) -> Option<uuid::Uuid> {
    let key = domain::customer::email_claim(TENANT, "wilma@example.org");
    assert_eq!(key.kind, ClaimKind::CustomerEmail);
    let store = workload.partition.store();
    let state = store.load(&[Read::Claim(key.clone())].into(), &[].into()).unwrap().state;
    store.commit(&engine::ports::Batch::default()).unwrap();
    state.claims[&key].map(|it| it.owner)
}

/// Once its run is merged, a claim that was released has no row, and none has nobody for its owner.
fn leaves_no_row(workload: &mut Workload<SqlStore>, claims_held: usize) {
    workload.tenants = vec![TenantNo(1), TenantNo(2)];
    if claims_held < 100 {
        for n in 0..60 {
            sign_up(workload, TENANT, &format!("More{n}"));
        }
    }
    let store = workload.partition.store();
    let without_owner = |table: &str| {
        let sql = format!("SELECT owner FROM {table}");
        let owners = store.database().reader().query(&sql, &[], |it| it.id()).unwrap();
        owners.iter().filter(|it| it.is_nil()).count()
    };
    assert_eq!(without_owner("claim"), 0);
    if claims_held < 100 {
        assert_eq!(without_owner("claim_recent"), 0);
    }
    // The row of a claim that nobody has would be found here.
    assert!(verify(store.database().reader()).unwrap().is_sound());
}
