//! Faults of each file of a data directory, and the results of `verify` and of the start.
//!
//! The directory is that of a server that was killed: its last payment is in the write-ahead log only.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::{expect, expect_file};

use crate::client::Client;
use crate::native::{account, purchase};
use crate::process::{Launch, Server, TempDir, eventually, run};
use crate::signup;

const LOG: &str = "faregate.db-wal";

/// More than the header of a write-ahead log and of a frame, and less than a page.
const LOG_HEADERS_BYTES: usize = 100;

const SIMULATOR: &str = "faregate-simulator";

/// Files that a server keeps, and what happens to one.
const FAULTS: [Fault; 6] =
    [Fault::Missing, Fault::Empty, Fault::Cut, Fault::Flipped, Fault::Older, Fault::Foreign];

#[derive(Clone, Copy, Debug)]
enum Fault {
    Missing,
    Empty,
    /// It ends at its [`Originals::middle`].
    Cut,
    /// A bit there is another one.
    Flipped,
    /// It is as it was before the last start.
    Older,
    /// It is that of another installation.
    Foreign,
}

/// Data directories, of which the faults are made.
struct Originals {
    _home: TempDir,
    killed: PathBuf,
    older: PathBuf,
    foreign: PathBuf,
    /// How long the write-ahead log was before the last payment.
    log_bytes: usize,
}

fn launch() -> Launch {
    signup::launch().env("FAREGATE_SIGNUP_TENANT", "bob")
}

/// A payment of a new account, through the gateway.
fn pay(client: &Client) -> String {
    let account = account(client, SIMULATOR);
    purchase(client, &account, "10", "");
    account
}

impl Originals {
    fn new() -> Self {
        let home = TempDir::new();
        let [killed, older, foreign] =
            ["killed", "older", "foreign"].map(|name| home.path().join(name));
        let server = Server::start_in(&foreign, launch());
        pay(&server.tenant());
        assert!(server.stop().0.success());
        let server = Server::start_in(&killed, launch());
        let client = server.tenant();
        let email = "ann@example.com";
        let body = signup::entered(email);
        assert_eq!(Client::new(&server.url).post("/user/auth/register", &body).status, 201);
        // With secrets, which are sealed.
        assert_eq!(client.get("/v1/environments").status, 200);
        pay(&client);
        assert!(server.stop().0.success());
        copy(&killed, &older);
        let server = Server::start_in(&killed, launch());
        let client = server.client().tenant("bob", "lazar");
        let log_bytes = fs::metadata(killed.join(LOG)).unwrap().len();
        let log_bytes = usize::try_from(log_bytes).unwrap();
        let account = pay(&client);
        // What the analytics tables know does not depend on when it is killed.
        let analytics = format!("/v1/analytics/accounts/{account}");
        eventually("the payment is in the analytics tables", || {
            client.get(&analytics).text().contains("\"transactions\":1").then_some(())
        });
        server.kill();
        Self { _home: home, killed, older, foreign, log_bytes }
    }

    /// A copy to which this happened; `None` where the fault is none there.
    fn with(&self, name: &str, fault: Fault, to: &Path) -> Option<()> {
        copy(&self.killed, to);
        let path = to.join(name);
        let mut bytes = fs::read(&path).unwrap();
        match fault {
            Fault::Missing => fs::remove_file(&path).unwrap(),
            Fault::Empty | Fault::Cut | Fault::Flipped if bytes.is_empty() => return None,
            Fault::Empty => fs::write(&path, []).unwrap(),
            Fault::Cut => fs::write(&path, &bytes[..self.middle(name, &bytes)]).unwrap(),
            Fault::Flipped => {
                let middle = self.middle(name, &bytes);
                bytes[middle] ^= 1;
                fs::write(&path, bytes).unwrap();
            }
            Fault::Older => fs::write(&path, fs::read(self.older.join(name)).ok()?).unwrap(),
            Fault::Foreign => fs::write(&path, fs::read(self.foreign.join(name)).ok()?).unwrap(),
        }
        Some(())
    }
}

impl Originals {
    /// Where a file is cut or changed: in its middle, or within the first commit of the last payment.
    fn middle(&self, name: &str, bytes: &[u8]) -> usize {
        if name == LOG { self.log_bytes + LOG_HEADERS_BYTES } else { bytes.len() / 2 }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &to),
            // With its mode.
            false => drop(fs::copy(path, to).unwrap()),
        }
    }
}

/// The files of a data directory that a server fills, by their paths in it.
fn files(dir: &Path, below: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir.join(below)).unwrap().flatten() {
        let name = Path::new(below).join(entry.file_name()).to_str().unwrap().to_owned();
        match entry.path().is_dir() {
            true if name == "mail" => {}
            true => files(dir, &name, found),
            false => found.push(name),
        }
    }
    found.sort();
}

/// The result of a start: the payments that it serves with its first warning or error, or why it is refused.
fn start(dir: &Path) -> String {
    match Server::try_start_in(dir, launch()) {
        Err(said) => format!("refused: {}", last_line(&said)),
        Ok(server) => {
            let payments =
                server.client().tenant("bob", "lazar").get("/1.0/kb/payments/pagination");
            let count = payments.json().as_array().map_or(0, Vec::len);
            let (status, said) = server.stop();
            assert!(status.success(), "{said}");
            let alarms = said
                .lines()
                .filter(|line| [" WARN ", " ERROR "].iter().any(|it| line.contains(it)));
            // Of how it is started, and of the disk that the test runs on.
            let known =
                ["password can be guessed", "test clock", "mails are files", "disk is nearly full"];
            let alarms: Vec<&str> =
                alarms.filter(|line| !known.iter().any(|it| line.contains(it))).collect();
            match (payments.status, alarms.first()) {
                (200, None) => format!("{count} payments"),
                (200, Some(alarm)) => format!("{count} payments; {}", without_fields(alarm)),
                (status, _) => format!("{status} {}", payments.text()),
            }
        }
    }
}

fn verify(dir: &Path) -> String {
    let done = run(&["verify", "--data-dir", dir.to_str().unwrap()]);
    let [out, err] = [&done.stdout, &done.stderr].map(|it| String::from_utf8_lossy(it));
    match done.status.code() {
        Some(0) => "sound".to_owned(),
        // The first line counts; the others begin with a table.
        Some(1) => {
            let problem = out.lines().nth(1).unwrap_or_default().trim();
            format!("damaged: {}", problem.split([' ', ':']).next().unwrap_or_default())
        }
        code => format!("{code:?}: {}", last_line(&err)),
    }
}

fn last_line(said: &str) -> &str {
    said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// A line of the log without its time and its fields.
fn without_fields(line: &str) -> &str {
    let line = line.split_once(' ').map_or(line, |(_, rest)| rest.trim_start());
    let text = line.split_once('=').map_or(line, |(text, _)| text);
    if text == line { line } else { text.rsplit_once(' ').map_or(text, |(text, _)| text) }
}

/// Without what differs from run to run.
fn plain(text: &str, dir: &Path) -> String {
    let text = text.replace(dir.to_str().unwrap(), "DIR");
    let mut plain = String::new();
    for word in text.split_inclusive([' ', '/', '"', ':']) {
        let is_id = word.len() > 20 && word.bytes().filter(u8::is_ascii_digit).count() > 5;
        plain.push_str(if is_id { "ID " } else { word });
    }
    plain
}

#[test]
fn each_fault_of_each_file_is_survived_or_said() {
    let originals = Originals::new();
    let mut names = vec![];
    files(&originals.killed, "", &mut names);
    let mut table = String::new();
    for name in &names {
        for fault in FAULTS {
            let dir = TempDir::new();
            let copy = dir.path().join("data");
            // What a bit is there for in the middle of a database depends: `crates/store/tests/it/damage.rs`.
            let depends = name == "faregate.db" && matches!(fault, Fault::Flipped);
            if depends || originals.with(name, fault, &copy).is_none() {
                continue;
            }
            let verified = verify(&copy);
            let started = start(&copy);
            let line = format!("{name} {fault:?} | {verified} | {started}");
            writeln!(table, "{}", plain(&line, &copy)).unwrap();
        }
    }
    expect_file!["file_faults.txt"].assert_eq(&table);
}

#[test]
fn a_backup_that_is_none_is_not_restored() {
    let dir = TempDir::new();
    let server = Server::start_in(&dir.path().join("data"), launch());
    pay(&server.tenant());
    let file = dir.path().join("backup.db");
    let (data, to) = (dir.path().join("data"), dir.path().join("restored"));
    let [data, to, name] = [&data, &to, &file].map(|it| it.to_str().unwrap());
    assert_eq!(run(&["backup", name, "--data-dir", data]).status.code(), Some(0));
    let backup = fs::read(&file).unwrap();
    let mut table = String::new();
    let faults: [(&str, Option<&[u8]>); 5] = [
        ("missing", None),
        ("empty", Some(&[])),
        ("cut in its first page", Some(&backup[..100])),
        ("cut", Some(&backup[..backup.len() / 2])),
        ("another file", Some(b"What somebody has called so.")),
    ];
    for (fault, content) in faults {
        match content {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let restored = run(&["restore", name, "--data-dir", to]);
        let said = String::from_utf8_lossy(&restored.stderr);
        let line = format!("{fault} | {:?}: {}", restored.status.code(), last_line(&said));
        writeln!(table, "{}", plain(&line, dir.path())).unwrap();
        assert!(!Path::new(to).join("faregate.db").exists(), "{fault}: nothing is left behind");
    }
    fs::write(&file, &backup).unwrap();
    assert_eq!(run(&["restore", name, "--data-dir", to]).status.code(), Some(0));
    let again = run(&["restore", name, "--data-dir", to]);
    let said = String::from_utf8_lossy(&again.stderr);
    let line = format!("once more | {:?}: {}", again.status.code(), last_line(&said));
    writeln!(table, "{}", plain(&line, dir.path())).unwrap();
    expect![[r#"
        missing | Some(2): faregate: cannot open DIR/backup.db: No such file or directory (os error 2)
        empty | Some(2): faregate: DIR/backup.db is not a Faregate database
        cut in its first page | Some(2): faregate: DIR/backup.db: database: database disk image is malformed
        cut | Some(2): faregate: DIR/backup.db: database: database disk image is malformed
        another file | Some(2): faregate: DIR/backup.db is not a Faregate database
        once more | Some(2): faregate: DIR/restored/faregate.db exists already
    "#]].assert_eq(&table);
}
