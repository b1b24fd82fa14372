//! A server that goes away, is slow, or silent: nothing is believed that is not known.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use domain::read::{AccountRead, Read};
use domain::{Seq, TenantNo};
use engine::ports::{
    AccessQueries as _, AccountQueries as _, EntitlementQueries as _, FollowerQueries as _,
    Queries as _, ReadLimits, Store as _, StoreError, TenantQueries as _,
};
use store::driver::Value;
use store::postgres::ServerError;
use store::{Options, Reader, Server, SqlStore, open_server};

use super::Scratch;
use crate::commits::{account_created, account_id, batch};
use crate::sqlite::number;

/// Stands between a store and its server, and stops forwarding faithfully on request.
struct Proxy {
    address: String,
    manner: Arc<AtomicU8>,
}

/// Passes everything on.
const HONEST: u8 = 0;
/// Ends the connection when something is asked.
const CUTS: u8 = 1;
/// Passes on what is asked, and ends the connection in place of saying that it was committed.
const KEEPS_TO_ITSELF: u8 = 2;
/// Takes what is asked, and says nothing.
const SILENT: u8 = 3;

impl Proxy {
    fn to(server: &str) -> Self {
        let value = |name: &str| {
            let found = server.split_whitespace().find_map(|word| word.strip_prefix(name));
            found.unwrap().to_owned()
        };
        let target = format!("{}:{}", value("host="), value("port="));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let manner = Arc::new(AtomicU8::new(HONEST));
        let address = format!("host=127.0.0.1 port={port} user={} sslmode=disable", value("user="));
        let proxy = Self { address, manner: Arc::clone(&manner) };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&target).unwrap();
                for is_asking in [true, false] {
                    let (client, server) =
                        (client.try_clone().unwrap(), server.try_clone().unwrap());
                    let (from, to) = if is_asking { (client, server) } else { (server, client) };
                    let manner = Arc::clone(&manner);
                    std::thread::spawn(move || pass(from, to, &manner, is_asking));
                }
            }
        });
        proxy
    }

    fn become_(&self, manner: u8) {
        self.manner.store(manner, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, manner: &AtomicU8, is_asking: bool) {
    let mut bytes = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let bytes = &bytes[..count];
        let is_done = bytes.windows(7).any(|it| it == b"COMMIT\0");
        match (manner.load(Ordering::SeqCst), is_asking) {
            (CUTS, true) => break,
            (KEEPS_TO_ITSELF, false) if is_done => break,
            (KEEPS_TO_ITSELF, false) | (SILENT, true) => {}
            _ if to.write_all(bytes).is_err() => break,
            _ => {}
        }
    }
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}

fn begin(store: &mut SqlStore) {
    store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
}

fn epoch(store: &SqlStore) -> i64 {
    number(store, "SELECT epoch FROM partition")
}

/// Ends all connections to the test's database, and waits until they have ended.
pub fn end_connections(scratch: &Scratch) {
    scratch.run(&format!(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{}'",
        scratch.name
    ));
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_lost_connection_loses_what_was_not_committed_and_the_store_is_opened_again() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    let next = store.open().unwrap().next_seq;
    let before = epoch(&store);
    begin(&mut store);
    end_connections(&scratch);
    let made = account_created(next, account_id(1));
    let refused = store.commit(&batch(vec![made.clone()]));
    // That it ended may come after the commit took place.
    assert!(
        matches!(refused, Err(StoreError::ConnectionLost(_) | StoreError::OutcomeUnknown(_))),
        "{refused:?}"
    );
    // A writer that goes on without opening the store is refused: another may have written meanwhile.
    let refused = store.load(&BTreeSet::from([read_account(9)]), &BTreeSet::new());
    assert!(matches!(refused, Err(StoreError::ConnectionLost(_))), "{refused:?}");
    assert_eq!(store.open().unwrap().next_seq, next, "nothing of it was written");
    assert_eq!(epoch(&store), before + 1);
    begin(&mut store);
    store.commit(&batch(vec![made])).unwrap();
}

fn read_account(n: u128) -> Read {
    AccountRead::Account(TenantNo(1), account_id(n)).into()
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_commit_that_was_cut_off_is_in_doubt_whether_or_not_it_took_place() {
    for (manner, is_written) in [(CUTS, false), (KEEPS_TO_ITSELF, true)] {
        let scratch = Scratch::new();
        let proxy = Proxy::to(&scratch.server);
        let server = format!("{} dbname={}", proxy.address, scratch.name);
        let server = Server::parse(&server).unwrap();
        let mut store = open_server(&server, &Options::default()).unwrap();
        let next = store.open().unwrap().next_seq;
        // A session prepares what it has not run yet, which would be cut off before.
        begin(&mut store);
        store.commit(&batch(vec![account_created(next, account_id(1))])).unwrap();
        let next = Seq(next.0 + 1);
        // The transaction begins with the first read.
        store.load(&BTreeSet::from([read_account(9)]), &BTreeSet::new()).unwrap();
        proxy.become_(manner);
        let made = account_created(next, account_id(2));
        let doubtful = store.commit(&batch(vec![made]));
        assert!(matches!(doubtful, Err(StoreError::OutcomeUnknown(_))), "{doubtful:?}");
        proxy.become_(HONEST);
        let opened = open_patiently(&mut store);
        assert_eq!(opened == Seq(next.0 + 1), is_written, "{opened:?}");
        let made = account_created(opened, account_id(3));
        begin(&mut store);
        store.commit(&batch(vec![made])).unwrap();
    }
}

/// Opens the store as soon as the server has noticed that the last connection is gone.
fn open_patiently(store: &mut SqlStore) -> Seq {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match store.open() {
            Ok(opened) => return opened.next_seq,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    }
}

/// The server is stopped while a commit takes place: not before it is opened again is it known what
/// became of it.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_server_that_ends_in_the_middle_of_a_commit_leaves_it_in_doubt() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    let next = store.open().unwrap().next_seq;
    // What the commit waits for; held by the connection that ends the other one.
    let holder = Reader::connect(&scratch.server()).unwrap();
    for sql in [
        "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON journal DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION waits()",
        "SELECT pg_advisory_lock(4711)",
    ] {
        holder.for_each(sql, &[], |_| Ok(())).unwrap();
    }
    begin(&mut store);
    let made = account_created(next, account_id(1));
    let committing = std::thread::spawn(move || (store.commit(&batch(vec![made])), store));
    let waiting = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event = 'advisory'";
    let mut ended = 0;
    while ended == 0 {
        holder
            .for_each(waiting, &[], |_| {
                ended += 1;
                Ok(())
            })
            .unwrap();
    }
    let (doubtful, mut store) = committing.join().unwrap();
    assert!(matches!(doubtful, Err(StoreError::OutcomeUnknown(_))), "{doubtful:?}");
    holder.for_each("SELECT pg_advisory_unlock(4711)", &[], |_| Ok(())).unwrap();
    assert_eq!(store.open().unwrap().next_seq, next, "nothing of it was written");
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn readers_that_were_cut_off_are_replaced() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let queries = store.queries(2).unwrap();
    for _ in 0..3 {
        assert_eq!(queries.journal_head().unwrap(), Seq(0));
        end_connections(&scratch);
    }
    assert_eq!(queries.tenant_count().unwrap(), 0);
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_statement_that_takes_too_long_is_ended() {
    let scratch = Scratch::new();
    let limit = Duration::from_millis(50);
    let server = scratch.server().with_timeouts(Duration::from_secs(5), Some(limit));
    let reader = Reader::connect(&server).unwrap();
    let refused = reader.for_each("SELECT pg_sleep(60)", &[], |_| Ok(())).unwrap_err();
    assert!(refused.to_string().contains("57014"), "{refused}");
    assert_eq!(reader.query_one("SELECT 1::bigint", &[], |cells| cells.int()).unwrap(), Some(1));
    let reader = Reader::connect(&server.patient()).unwrap();
    let said = reader.query_one("SHOW statement_timeout", &[], |cells| Ok(cells.text()? == "0"));
    assert_eq!(said.unwrap(), Some(true));
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_server_that_says_nothing_is_given_up() {
    let scratch = Scratch::new();
    let proxy = Proxy::to(&scratch.server);
    let server = Server::parse(&format!("{} dbname={}", proxy.address, scratch.name)).unwrap();
    let limit = Duration::from_millis(50);
    let server = server.with_timeouts(limit * 20, Some(limit));
    let reader = Reader::connect(&server).unwrap();
    proxy.become_(SILENT);
    let started = Instant::now();
    let refused = reader.for_each("SELECT 1", &[], |_| Ok(())).unwrap_err();
    assert!(matches!(refused, StoreError::ConnectionLost(_)), "{refused:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
    let refused = Reader::connect(&server).err().unwrap();
    assert!(refused.to_string().contains("in time"), "{refused}");
}

/// A statement that fails before the `COMMIT` that was sent behind it: its error is reported, and
/// nothing is written.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn failure_beside_a_commit_is_reported() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    let next = store.open().unwrap().next_seq;
    begin(&mut store);
    let sql = "UPDATE partition SET next_seq = next_seq / ?1";
    store.database().prepare(sql).unwrap().row(&[Value::Int(0)]).unwrap();
    let refused = store.commit(&batch(vec![account_created(next, account_id(1))])).unwrap_err();
    assert!(refused.to_string().contains("22012"), "{refused:?}");
    assert_eq!(number(&store, "SELECT count(*) FROM account"), 0);
    assert_eq!(store.open().unwrap().next_seq, next);
    begin(&mut store);
    store.commit(&batch(vec![account_created(next, account_id(1))])).unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM account"), 1);
}

/// The server's detail of a refused row repeats its values.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn source_of_a_refusal_has_a_code_and_no_values() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let sql = "INSERT INTO account (tenant) VALUES (4711)";
    let refused = store.database().reader().for_each(sql, &[], |_| Ok(())).unwrap_err();
    let source = refused.source().unwrap();
    let error = source.downcast_ref::<ServerError>().unwrap();
    assert_eq!((error.code(), error.source().is_none()), (Some("23502"), true));
    let texts = format!("{refused} {refused:?} {source} {source:?}");
    assert!(texts.contains("(23502)") && !texts.contains("4711"), "{texts}");
}

/// A fault of the command is distinguished from one of the server or the schema.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn refused_row_is_distinguished_from_server_failure() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let check = |sql: &str, is_refused: bool| {
        let error = store.database().reader().for_each(sql, &[], |_| Ok(())).unwrap_err();
        let found = matches!(error, StoreError::Refused(_));
        assert!(found || matches!(error, StoreError::Database(_)), "{sql}: {error:?}");
        assert_eq!(found, is_refused, "{sql}: {error:?}");
    };
    let raise =
        |code: &str| format!("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$");
    check("SELECT 9223372036854775807 + 1", true);
    check("SELECT chr(0)", true);
    check("INSERT INTO account (tenant) VALUES (1)", true);
    for code in ["21000", "22003", "22021", "23502", "23505", "23514", "54000"] {
        check(&raise(code), true);
    }
    check("SELECT nothing", false);
    for code in ["25006", "40001", "42501", "53200", "53400", "54001", "55P03", "57014", "58030"] {
        check(&raise(code), false);
    }
}

/// A read of a key that no text column can hold finds nothing, and the other reads of the batch succeed.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_nul_is_in_no_text() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    store.open().unwrap();
    let wanted =
        ["a\0b", "\0", "ab"].map(|name| domain::read::AccessRead::User(name.to_owned()).into());
    let loaded = store.load(&BTreeSet::from(wanted), &BTreeSet::new()).unwrap();
    assert_eq!(loaded.state.access.users.iter().count(), 0);
    let queries = store.queries(1).unwrap();
    assert_eq!(queries.role("a\0b").unwrap(), None);
    let page = engine::ports::Page { offset: 0, limit: 10 };
    assert_eq!(queries.search_accounts(TenantNo(1), "a\0b", page).unwrap().matching, 0);
    assert!(queries.account_by_key(TenantNo(1), "\0").unwrap().is_none());
    assert_eq!(queries.account_of_user(TenantNo(1), "a\0b").unwrap(), None);
}

/// A read that waits in the server is cancelled there, once its time has passed or its caller has gone. Its session
/// ends: what cancels it may come late, and would end another's read.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_read_is_cancelled_at_its_limits() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    store.open().unwrap();
    let queries = store.queries(1).unwrap();
    let page = engine::ports::Page { offset: 0, limit: 10 };
    let search =
        |limits: ReadLimits| queries.within(limits).search_accounts(TenantNo(1), "a", page);
    let locking = Reader::connect(&scratch.server()).unwrap();
    locking.for_each("BEGIN", &[], |_| Ok(())).unwrap();
    let lock = "LOCK TABLE account_person IN ACCESS EXCLUSIVE MODE";
    locking.for_each(lock, &[], |_| Ok(())).unwrap();
    let looking = Reader::connect(&scratch.server()).unwrap();
    let of_sessions = "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity \
                       WHERE datname = current_database()";
    let sessions = || looking.query_one(of_sessions, &[], |it| it.string()).unwrap();
    let before = sessions();
    let (limits, _awaited) = ReadLimits::new(Duration::from_millis(200));
    let ended = search(limits);
    assert!(matches!(ended, Err(StoreError::ReadTooLong)), "{ended:?}");
    let (limits, awaited) = ReadLimits::new(Duration::from_secs(60));
    drop(awaited);
    let ended = search(limits);
    assert!(matches!(ended, Err(StoreError::ReadTooLong)), "{ended:?}");
    locking.for_each("ROLLBACK", &[], |_| Ok(())).unwrap();
    let (limits, _awaited) = ReadLimits::new(Duration::from_secs(60));
    assert_eq!(search(limits).unwrap().matching, 0, "there is a connection");
    assert_ne!(sessions(), before, "it is another one");
}

/// More rows than a portion, with another question asked on the same connection for each.
#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_large_result_is_walked_over() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let reader = store.database().reader();
    let (mut rows, mut sum) = (0, 0);
    let sql = "SELECT n::bigint FROM generate_series(1, 2500) n WHERE n > ?1 ORDER BY n";
    reader
        .walk(sql, &[Value::Int(100)], |cells| {
            let n = cells.int()?;
            sum += reader.query_one("SELECT ?1::bigint", &[n.into()], |it| it.int())?.unwrap();
            rows += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!((rows, sum), (2_400, (101..=2_500).sum()));
    // One that is a whole number of portions.
    let mut rows = 0;
    let sql = "SELECT n::bigint FROM generate_series(1, 2000) n";
    reader
        .walk(sql, &[], |_| {
            rows += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(rows, 2_000);
}
