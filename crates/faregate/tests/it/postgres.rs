//! The real binary on PostgreSQL: `conformance/postgres` names a server in `FAREGATE_TEST_POSTGRES`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use store::{Reader, Server as Database};

use crate::erasure::{self, people};
use crate::flags_insights;
use crate::import_killbill;
use crate::native::{account, purchase};
use crate::process::{Launch, Server, TempDir, eventually, run};
use crate::signup;

/// A database of one test, removed when the test is over.
pub struct Scratch {
    server: String,
    name: String,
}

impl Scratch {
    pub fn new() -> Self {
        let server = std::env::var("FAREGATE_TEST_POSTGRES").expect("it names a server");
        let name = format!("faregate_it_{}", uuid::Uuid::now_v7().simple());
        let scratch = Self { server, name };
        scratch.run(&format!("CREATE DATABASE {}", scratch.name));
        scratch
    }

    /// Ends all connections to it.
    pub fn end_sessions(&self) {
        self.run(&format!(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
    }

    /// Runs a statement on the server, beside the test's own database.
    fn run(&self, sql: &str) {
        let server = Database::parse(&format!("{} dbname=postgres", self.server)).unwrap();
        Reader::connect(&server).unwrap().for_each(sql, &[], |_| Ok(())).unwrap();
    }

    pub fn url(&self) -> String {
        format!("{} dbname={}", self.server, self.name)
    }

    /// The tables that have a text somewhere in a row; in capitals or not.
    fn tables_with(&self, text: &str) -> Vec<String> {
        let reader = Reader::connect(&Database::parse(&self.url()).unwrap()).unwrap();
        let sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1";
        let mut tables = reader.query(sql, &[], |cells| cells.string()).unwrap();
        assert!(tables.len() > 30, "{tables:?}");
        tables.retain(|table| {
            let sql =
                format!("SELECT count(*) FROM {table} it WHERE lower(it::text) LIKE '%{text}%'");
            reader.query_one(&sql, &[], |cells| cells.int()).unwrap() != Some(0)
        });
        tables
    }

    /// The output of `pg_dump` for the database; `None` where `pg_dump` is not beside the server's programs.
    fn dump(&self) -> Option<String> {
        let program = std::env::var("POSTGRES_BIN").map(PathBuf::from).ok();
        let program = program.or_else(newest_programs)?.join("pg_dump");
        if !program.exists() {
            return None;
        }
        let Output { status, stdout, stderr } =
            Command::new(program).arg("--dbname").arg(self.url()).output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        Some(String::from_utf8(stdout).unwrap())
    }

    /// Runs a command on the database and a data directory.
    fn command(&self, arguments: &[&str], data_dir: &str) -> (Option<i32>, String) {
        let url = self.url();
        let place = ["--database", &url, "--data-dir", data_dir];
        let Output { status, stdout, stderr } = run(&[arguments, &place].concat());
        let text = [stdout, stderr].concat();
        (status.code(), String::from_utf8(text).unwrap())
    }

    pub fn launch(&self) -> Launch {
        Launch::usual().env("FAREGATE_DATABASE_URL", &self.url())
    }
}

/// Makes a file with a key; its path.
pub fn key_file(dir: &TempDir, name: &str) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, [7; 32]).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Where the newest server's programs are, as in `conformance/postgres`.
fn newest_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let number = |it: &PathBuf| it.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|it| it.path()).max_by_key(number)?;
    Some(newest.join("bin"))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.run(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_server_whose_database_is_away_is_not_ready() {
    let (scratch, dir) = (Scratch::new(), TempDir::new());
    // Nothing is written by itself: a write would find out what a check has to.
    let launch = scratch.launch().env("FAREGATE_SIGNUP_PROBE_INTERVAL", "0s");
    let server = Server::start_in(dir.path(), launch);
    let client = server.client();
    assert_eq!(client.get("/health/ready").status, 200);
    let allow = |allowed: bool| {
        scratch.run(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS {allowed}", scratch.name));
    };
    // The first time, writes of the start may find out; the second time, only a check does.
    for _ in 0..2 {
        allow(false);
        scratch.run(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            scratch.name
        ));
        eventually("it is away", || (client.get("/health/ready").status == 503).then_some(()));
        allow(true);
        eventually("it is back", || (client.get("/health/ready").status == 200).then_some(()));
    }
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_data_directory_is_moved_to_a_server_and_served_there() {
    let (scratch, dir) = (Scratch::new(), TempDir::new());
    let data = dir.path().join("data");
    let server = Server::start_in(&data, Launch::usual());
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    let payment = purchase(&client, &account, "10", "");
    let data_dir = data.to_str().unwrap();
    let migrate = ["migrate", "sqlite-to-postgres"];
    let (code, text) = scratch.command(&migrate, data_dir);
    assert!(code == Some(2) && text.contains("stop it, and run this again"), "{code:?}: {text}");
    let later = purchase(&client, &account, "20", "");
    assert!(server.stop().0.success());
    let (code, text) = scratch.command(&["verify"], data_dir);
    assert!(code == Some(2) && text.contains("is not finished"), "{code:?}: {text}");
    let (code, text) = scratch.command(&migrate, data_dir);
    assert!(code == Some(0) && text.contains("all are equal"), "{code:?}: {text}");
    let (code, _) = scratch.command(&[&migrate[..], &["--check"]].concat(), data_dir);
    assert_eq!(code, Some(0));

    let server = Server::start_in(&data, scratch.launch());
    let client = server.client().tenant("bob", "lazar");
    let newest = purchase(&client, &account, "30", "");
    let listed = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
    let id = |it: &Value| it["paymentId"].as_str().unwrap().to_owned();
    let listed: Vec<String> = listed.as_array().unwrap().iter().map(id).collect();
    assert_eq!(listed, [id(&payment), id(&later), id(&newest)]);
    for command in [&["verify"][..], &["reconcile"], &["analytics", "rebuild"]] {
        let (code, text) = scratch.command(command, data_dir);
        assert_eq!(code, Some(0), "{command:?}: {text}");
    }
    let file = dir.path().join("backup");
    let (code, text) = scratch.command(&["backup", file.to_str().unwrap()], data_dir);
    assert!(code == Some(2) && text.contains("pg_dump"), "{code:?}: {text}");
    let second = dir.path().join("second");
    let (code, text) =
        scratch.command(&["serve", "--listen", "127.0.0.1:0"], second.to_str().unwrap());
    assert!(code == Some(2) && text.contains("another process writes it"), "{code:?}: {text}");
    assert!(server.stop().0.success());
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn an_import_into_a_server_is_what_its_source_has() {
    let (scratch, dir) = (Scratch::new(), TempDir::new());
    let (url, data) = (scratch.url(), dir.path().to_str().unwrap());
    let place = ["--database", &url, "--data-dir", data];
    import_killbill::check_on_a_server(&place, || Server::start_in(dir.path(), scratch.launch()));
    let (code, text) = scratch.command(&["verify"], data);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_server_that_loses_its_connections_goes_on() {
    let scratch = Scratch::new();
    let server = Server::start_with(scratch.launch());
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    purchase(&client, &account, "10", "");
    for _ in 0..3 {
        scratch.end_sessions();
        let path = format!("/1.0/kb/accounts/{account}/payments");
        let body = serde_json::json!({ "transactionType": "PURCHASE", "amount": "1" });
        eventually("a payment works again", || {
            let answer = client.post(&path, &body);
            assert!(matches!(answer.status, 201 | 503), "{}", answer.text());
            (answer.status == 201).then_some(())
        });
        assert_eq!(client.get(&path).status, 200);
    }
    eventually("it is ready", || (client.get("/health/ready").status == 200).then_some(()));
    assert!(server.stop().0.success());
}

/// As in `erasure.rs` for SQLite's files: no personal data is left, here in PostgreSQL's tables and dump.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn nothing_personal_is_left_of_erased_people_on_a_server() {
    let (scratch, dir) = (Scratch::new(), TempDir::new());
    let launch = people::launch(signup::launch())
        .env("FAREGATE_DATABASE_URL", &scratch.url())
        .env("FAREGATE_FLAGS_KEY_FILE", &key_file(&dir, "flags.key"))
        .env("FAREGATE_SIGNUP_KEY_FILE", &key_file(&dir, "signup.key"));
    let server = Server::start_in(dir.path(), launch);
    let mut people = people::enter(&server, &dir);
    let personal = [
        "account",
        "account_email",
        "account_person",
        "account_user",
        "actor",
        "custom_field",
        "custom_field_value",
        "customer",
        "outstanding",
        "payment_attempt",
        "payment_method",
    ];
    assert_eq!(scratch.tables_with(people::CANARY), personal, "they are there before");
    let dumped = scratch.dump().map(|it| it.contains(people::CANARY));
    assert_ne!(dumped, Some(false), "and in a dump");
    erasure::erase(&server, &people);
    assert_eq!(scratch.tables_with(people::CANARY), Vec::<String>::new(), "at once");
    erasure::settle(&server, &mut people);
    erasure::stop(server);
    assert_eq!(scratch.tables_with(people::CANARY), Vec::<String>::new());
    if let Some(dump) = scratch.dump() {
        let lines = dump.lines().filter(|it| it.to_ascii_lowercase().contains(people::CANARY));
        assert_eq!(lines.collect::<Vec<_>>(), Vec::<&str>::new());
    }
    assert_eq!(erasure::found_in(dir.path()), Vec::<String>::new(), "nor beside the database");
    let (code, text) = scratch.command(&["verify"], dir.path().to_str().unwrap());
    assert_eq!(code, Some(0), "{text}");
}

/// They are added over a connection beside the one that has the database to itself.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn insights_are_kept_on_a_server() {
    let (scratch, dir) = (Scratch::new(), TempDir::new());
    let key = key_file(&dir, "flags.key");
    let launch = || scratch.launch().env("FAREGATE_FLAGS_KEY_FILE", &key);
    let (server, client, secret) = flags_insights::start(&dir, launch());
    flags_insights::send(&server, &secret, &[("on", true), ("off", false)], &[0.1]);
    let mut expected = [("off".to_owned(), 1, 0), ("on".to_owned(), 1, 1)];
    let summed = || (flags_insights::summed(&client) == expected).then_some(());
    eventually("counts in the database", summed);
    flags_insights::send(&server, &secret, &[("on", false)], &[0.2]);
    assert!(server.stop().0.success());
    expected[1].1 = 2;
    let server = Server::start_in(dir.path(), launch());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(flags_insights::summed(&client), expected);
}
