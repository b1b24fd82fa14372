//! The cases of every driver on PostgreSQL: `conformance/run` starts a server for them and names it in
//! `FAREGATE_TEST_POSTGRES` (`host=... port=... user=...`, who may create databases).

mod faults;
mod migrate;
mod partitions;
mod tls;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use store::postgres::Server;
use store::verify::verify;
use store::{Options, Reader, SqlStore, open_server};

use crate::commits::{self, two_tenants};
use crate::folded;

/// Whether the tests have a server.
pub fn is_there() -> bool {
    std::env::var_os("FAREGATE_TEST_POSTGRES").is_some()
}

/// A database of one test, removed when the test is over.
pub struct Scratch {
    server: String,
    name: String,
}

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server =
            std::env::var("FAREGATE_TEST_POSTGRES").expect("conformance/run names a server");
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("faregate_test_{}_{n}", std::process::id());
        let scratch = Self { server, name };
        scratch.run(&format!("CREATE DATABASE {}", scratch.name));
        scratch
    }

    /// Runs a statement on the server, beside the test's own database.
    fn run(&self, sql: &str) {
        let server = Server::parse(&format!("{} dbname=postgres", self.server)).unwrap();
        Reader::connect(&server).unwrap().for_each(sql, &[], |_| Ok(())).unwrap();
    }

    pub fn server(&self) -> Server {
        Server::parse(&format!("{} dbname={}", self.server, self.name)).unwrap()
    }

    fn open(&self) -> SqlStore {
        self.open_with(&Options::default())
    }

    /// Patiently: the server notices a moment later that the writer before has gone.
    pub fn open_with(&self, options: &Options) -> SqlStore {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            match open_server(&self.server(), options) {
                Ok(store) => return store,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.run(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn committed_rows_are_loaded() {
    let usual = Options::default();
    for entities_held in [usual.entities_held, 0] {
        let scratch = Scratch::new();
        let options = Options { entities_held, ..usual };
        commits::committed_rows_are_loaded(|| scratch.open_with(&options));
    }
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_search_folds_the_letters_of_all_scripts() {
    let scratch = Scratch::new();
    folded::a_search_folds_the_letters_of_all_scripts(|| scratch.open());
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_read_loads_what_belongs_to_it() {
    let scratch = Scratch::new();
    commits::a_read_loads_what_belongs_to_it(|| scratch.open());
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn an_older_epoch_does_not_commit() {
    let scratch = Scratch::new();
    commits::an_older_epoch_does_not_commit(|| scratch.open());
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_failed_commit_leaves_nothing() {
    let scratch = Scratch::new();
    commits::a_failed_commit_leaves_nothing(|| scratch.open());
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn an_abandoned_batch_is_given_up() {
    let scratch = Scratch::new();
    commits::an_abandoned_batch_is_given_up(|| scratch.open());
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn replies_are_kept() {
    let scratch = Scratch::new();
    commits::replies_are_kept(|| scratch.open());
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn bookkeeping_is_kept() {
    let scratch = Scratch::new();
    commits::bookkeeping_is_kept(|| scratch.open());
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_random_history_is_sound() {
    let scratch = Scratch::new();
    let mut workload = two_tenants(scratch.open(), 77);
    workload.run(600);
    let report = verify(workload.partition.store().database().reader()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn one_process_writes() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let refused = open_server(&scratch.server(), &Options::default()).err().unwrap();
    assert!(refused.to_string().contains("another process"), "{refused}");
    drop(store);
    drop(scratch.open());
}
