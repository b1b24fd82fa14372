//! Environments, their secrets and what is defined there: committed, read, and verified.

use domain::change::{Change, FlagChange};
use domain::command::FlagCommand;
use domain::flag::definition::{
    Definition, DefinitionKey, DefinitionKind, Expected, NewDefinition, PutDefinitions,
};
use domain::flag::environment::{
    AddSecret, CreateEnvironment, ExpireSecret, NewSecret, Secret, SecretKind,
};
use domain::reply::FlagReply;
use domain::{Command, EnvironmentId, Id, Reply, SecretId, Seq, TenantNo, Timestamp};
use engine::ports::{Page, Store};
use expect_test::expect;
use store::verify::verify;
use uuid::Uuid;

use crate::changes;
use crate::home::Home;
use crate::workload::{Workload, World};

const TENANT: TenantNo = TenantNo(1);
const OTHER: TenantNo = TenantNo(2);

fn environment(n: u128) -> EnvironmentId {
    Id::new(Uuid::from_u128(n))
}

/// The key of a flag.
pub fn key(environment: u128, key: &str) -> DefinitionKey {
    let environment = Id::new(Uuid::from_u128(environment));
    DefinitionKey { environment, kind: DefinitionKind::Flag, key: key.to_owned() }
}

fn new_secret(kind: SecretKind, name: &str) -> NewSecret {
    NewSecret { kind, name: name.to_owned(), sealed: format!("sealed {name}") }
}

pub fn create<S: Store>(workload: &mut Workload<S>, tenant: TenantNo, n: u128, name: &str) {
    let command = CreateEnvironment {
        id: environment(n),
        project: "default".to_owned(),
        key: name.to_owned(),
        name: name.to_uppercase(),
        secrets: vec![
            new_secret(SecretKind::Server, &format!("{n} server")),
            new_secret(SecretKind::Client, &format!("{n} client")),
        ],
    };
    workload.accepted(tenant, Command::Flag(FlagCommand::CreateEnvironment(command)));
}

/// Defines flags, a segment for keys that begin with "segment"; their version.
fn put<S: Store>(workload: &mut Workload<S>, n: u128, bodies: &[(&str, &str)]) -> i64 {
    let define = |(key, body): &(&str, &str)| NewDefinition {
        kind: match key.starts_with("segment") {
            true => DefinitionKind::Segment,
            false => DefinitionKind::Flag,
        },
        key: (*key).to_owned(),
        id: Id::new(Uuid::from_u128(77)),
        body: (*body).to_owned(),
        is_archived: body.is_empty(),
        expected: Expected::Anything,
    };
    let definitions = bodies.iter().map(define).collect();
    let command = PutDefinitions { environment: environment(n), version: None, definitions };
    let reply = workload.accepted(TENANT, Command::Flag(FlagCommand::PutDefinitions(command)));
    let Reply::Flag(FlagReply::DefinitionsPut { version }) = reply else { panic!("{reply:?}") };
    version
}

fn add_secret<S: Store>(workload: &mut Workload<S>, n: u128, name: &str) -> SecretId {
    let secret = new_secret(SecretKind::Server, name);
    let command = AddSecret { environment: environment(n), secret };
    let reply = workload.accepted(TENANT, Command::Flag(FlagCommand::AddSecret(command)));
    let Reply::Flag(FlagReply::SecretAdded(id)) = reply else { panic!("{reply:?}") };
    id
}

/// Two environments of the first tenant and one of the second, with what belongs there.
pub fn fill<S: Store>(workload: &mut Workload<S>) {
    create(workload, TENANT, 1, "dev");
    create(workload, TENANT, 2, "prod");
    create(workload, OTHER, 3, "dev");
    let version = put(workload, 1, &[("b", "{}"), ("segment", "\u{1f680}"), ("a", "{}")]);
    changes::fill(workload, version);
    put(workload, 2, &[("a", "{}")]);
    put(workload, 1, &[("a", "{2}")]);
    put(workload, 1, &[("a", ""), ("c", "{}")]);
    let id = add_secret(workload, 1, "third");
    let (environment, at) = (environment(1), Timestamp(5));
    let expire = ExpireSecret { environment, secret: id, at };
    workload.accepted(TENANT, Command::Flag(FlagCommand::ExpireSecret(expire)));
}

fn shown(definitions: &[Definition]) -> Vec<(&str, &str, bool)> {
    definitions.iter().map(|it| (it.key.key.as_str(), it.body.as_str(), it.is_archived)).collect()
}

fn names(secrets: &[Secret]) -> Vec<&str> {
    secrets.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn stored_definitions_are_read() {
    let mut world = World::new(91);
    fill(&mut world.workload);
    let queries = &*world.queries;
    let listed = queries.environments(TENANT).unwrap();
    let keys: Vec<(&str, u32, u32)> =
        listed.iter().map(|it| (it.key.as_str(), it.definitions, it.secrets)).collect();
    assert_eq!(keys, [("dev", 4, 3), ("prod", 1, 2)]);
    let found = |no, project, key| queries.environment_by_key(no, project, key).unwrap();
    assert_eq!(found(TENANT, "default", "prod").as_ref(), Some(&listed[1]));
    assert_eq!(found(OTHER, "default", "prod"), None);
    assert_eq!(found(TENANT, "other", "prod"), None);
    let secrets = queries.secrets(TENANT).unwrap();
    assert_eq!(names(&secrets).len(), 5);
    assert!(secrets.iter().all(|it| it.sealed == format!("sealed {}", it.name)));
    let all = queries.definitions(TENANT, environment(1)).unwrap();
    let expected = [("a", "", true), ("b", "{}", false), ("c", "{}", false)];
    assert_eq!(shown(&all[..3]), expected);
    assert_eq!(shown(&all[3..]), [("segment", "\u{1f680}", false)]);
    assert_eq!(queries.definitions(OTHER, environment(1)).unwrap(), []);
    let one = |no, key: &DefinitionKey| queries.definition(no, key).unwrap();
    assert_eq!(one(TENANT, &key(1, "b")).as_ref(), Some(&all[1]));
    assert_eq!(one(TENANT, &key(2, "b")), None);
    assert_eq!(one(OTHER, &key(1, "b")), None);
    assert_eq!(one(TENANT, &key(1, "segment")), None, "it is no flag");

    let file = |newer_than| queries.environment_file(TENANT, environment(1), newer_than).unwrap();
    let whole = file(None).unwrap();
    assert_eq!(whole.environment, listed[0]);
    // All were made in the same moment: those for servers come first.
    let mut servers = names(&whole.secrets[..2]);
    servers.sort_unstable();
    assert_eq!(
        (servers, names(&whole.secrets[2..])),
        (vec!["1 server", "third"], vec!["1 client"])
    );
    let ends = whole.secrets.iter().find(|it| it.name == "third");
    assert_eq!(ends.and_then(|it| it.expires_at), Some(Timestamp(5)));
    assert_eq!(whole.definitions.len(), 4);
    let newest = whole.environment.version;
    let newer = file(Some(newest - 1)).unwrap().definitions;
    assert_eq!(shown(&newer), [("a", "", true), ("c", "{}", false)]);
    assert_eq!(file(Some(newest)).unwrap().definitions, []);
    assert_eq!(queries.environment_file(OTHER, environment(1), None).unwrap(), None);
}

/// Each change of an environment, of its secrets and of what is defined there is seen behind the last.
#[test]
fn changed_environments_are_found_in_the_order_of_their_changes() {
    let mut world = World::new(92);
    fill(&mut world.workload);
    let changed = |world: &World, after, limit| -> Vec<(u32, String, Seq)> {
        let found = world.queries.environments_changed(after, limit).unwrap();
        found.into_iter().map(|it| (it.tenant.0, it.key, it.revision.seq)).collect()
    };
    let all = changed(&world, Seq(0), 10);
    let keys: Vec<(u32, &str)> = all.iter().map(|it| (it.0, it.1.as_str())).collect();
    assert_eq!(keys, [(2, "dev"), (1, "prod"), (1, "dev")]);
    assert_eq!(changed(&world, Seq(0), 2), all[..2]);
    assert_eq!(changed(&world, all[1].2, 10), all[2..]);
    let mut seen = all[2].2;
    for _ in 0..3 {
        assert_eq!(changed(&world, seen, 10), []);
        let id = add_secret(&mut world.workload, 2, "more");
        let found = changed(&world, seen, 10);
        assert_eq!(found.len(), 1);
        seen = found[0].2;
        let expire = ExpireSecret { environment: environment(2), secret: id, at: Timestamp(9) };
        world.workload.accepted(TENANT, Command::Flag(FlagCommand::ExpireSecret(expire)));
        let found = changed(&world, seen, 10);
        assert_eq!(found.len(), 1);
        seen = found[0].2;
    }
}

#[test]
fn a_definition_has_a_history() {
    let mut world = World::new(93);
    fill(&mut world.workload);
    let window = |no, key: &DefinitionKey, (offset, limit)| -> Vec<(String, bool)> {
        let page = Page { offset, limit };
        let found = world.queries.definition_history(no, key, page).unwrap();
        let state = |image: Change| {
            let Change::Flag(FlagChange::Definition(it)) = image else { panic!("{image:?}") };
            assert_eq!(it.key, *key);
            (it.body, it.is_archived)
        };
        found.into_iter().map(|row| state(row.image)).collect()
    };
    let states = |no, key: &DefinitionKey| window(no, key, (0, 10));
    let state = |body: &str, is_archived| (body.to_owned(), is_archived);
    let of_a = [state("", true), state("{2}", false), state("{}", false)];
    assert_eq!(states(TENANT, &key(1, "a")), of_a);
    assert_eq!(window(TENANT, &key(1, "a"), (0, 2)), of_a[..2]);
    assert_eq!(window(TENANT, &key(1, "a"), (1, 1)), of_a[1..2]);
    assert_eq!(window(TENANT, &key(1, "a"), (3, 10)), []);
    assert_eq!(states(TENANT, &key(2, "a")), [state("{}", false)]);
    assert_eq!(states(TENANT, &key(1, "nothing")), []);
    assert_eq!(states(OTHER, &key(1, "a")), []);
}

#[test]
fn secrets_are_not_in_the_journal() {
    let home = Home::new();
    let mut workload = crate::commits::two_tenants(home.open(&crate::sqlite::OPTIONS), 94);
    fill(&mut workload);
    let mut rows = 0;
    let sql = "SELECT coalesce(changes, '') || coalesce(events, '') FROM journal";
    let reader = workload.partition.store().database().reader();
    reader
        .for_each(sql, &[], |cells| {
            let text = cells.string()?;
            assert!(!text.contains("sealed"), "{text}");
            rows += usize::from(text.contains("third"));
            Ok(())
        })
        .unwrap();
    assert_eq!(rows, 2, "the secret was made and ended");
}

/// Does the damage to a sound store, and tells what is said about it.
pub fn damaged(sql: &str) -> String {
    let home = Home::new();
    let mut workload = crate::commits::two_tenants(home.open(&crate::sqlite::OPTIONS), 95);
    fill(&mut workload);
    crate::tags::fill(&mut workload);
    crate::customers::fill(&mut workload);
    let reader = |workload: &mut Workload<store::SqlStore>| {
        verify(workload.partition.store().database().reader()).unwrap()
    };
    let sound = reader(&mut workload);
    assert!(sound.is_sound(), "{:?}", sound.problems);
    let rows = workload.partition.store().database().exec(sql, &[]).unwrap();
    assert!(rows > 0, "{sql} damages nothing");
    let problems = reader(&mut workload).problems;
    let mut lines: Vec<String> = problems
        .iter()
        .map(|it| format!("{} {}", it.table.replace("claim_recent", "claim"), it.what))
        .map(|line| {
            let word =
                |it: &str| if it.parse::<i64>().is_ok() { "N".to_owned() } else { it.to_owned() };
            line.split(' ').map(word).collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.sort();
    lines.dedup();
    lines.join("\n")
}

#[test]
fn damage_is_found() {
    expect!["environment it is not what journal row N says"]
        .assert_eq(&damaged("UPDATE environment SET name = 'x' WHERE key = 'prod'"));
    expect![[r#"
        change_request is of an environment that is not there
        claim Environment 00000000-0000-0000-0000-000000000002 does not have this key
        definition is of an environment that is not there
        environment_secret is of an environment that is not there
        journal environment 00000000-0000-0000-0000-000000000002 is on no chain"#]]
    .assert_eq(&damaged("DELETE FROM environment WHERE key = 'prod'"));
    expect![[r#"
        claim Environment 00000000-0000-0000-0000-000000000002 does not have this key
        environment it is not what journal row N says
        environment its key is not claimed for it"#]]
    .assert_eq(&damaged("UPDATE environment SET key = 'test' WHERE key = 'prod'"));
    expect![[r#"
        environment_secret is not what was written
        environment_secret it is not what journal row N says"#]]
    .assert_eq(&damaged("UPDATE environment_secret SET expires_at_us = NULL WHERE name = 'third'"));
    expect!["definition it is not what journal row N says"]
        .assert_eq(&damaged("UPDATE definition SET version = 1 WHERE key = 'b'"));
    expect![[r#"
        environment does not count the bytes of what belongs to it
        environment does not count what belongs to it
        journal Flag c of environment 00000000-0000-0000-0000-000000000001 is on no chain"#]]
    .assert_eq(&damaged("DELETE FROM definition WHERE key = 'c'"));
}
