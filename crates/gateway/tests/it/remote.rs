//! Tests of the client of a simulator's process with the real server and with faulty servers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use domain::GatewayCall;
use domain::account::payment_method::MethodTask;
use engine::ports::Gateway;
use expect_test::expect;
use gateway::simulator::record::Record;
use gateway::simulator::{Notification, Remote, bind, charges};
use h2::server::{Connection, SendResponse};
use http::{Request, Response};
use tempfile::tempdir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use crate::calls::{
    TIMEOUT, answer, inquiry, knowledge, options, perform, purchase, records, retry, shown,
};
use crate::methods;

struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: tokio::task::JoinHandle<()>,
}

impl Server {
    fn start(dir: &Path, listen: &str) -> Self {
        let bound = retry(|| bind(listen.parse().unwrap(), dir, options())).unwrap();
        let address = bound.address();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            bound.run(async { drop(stopped.await) }).await;
        });
        Self { address, stop, running }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
    }
}

fn remote(url: &str) -> Remote {
    Remote::new(url, options()).unwrap()
}

async fn call(remote: &Remote, call: GatewayCall) -> String {
    answer(&perform(remote, call).await)
}

async fn next(notifications: &mut mpsc::Receiver<Notification>) -> String {
    let notification = tokio::time::timeout(TIMEOUT, notifications.recv()).await.unwrap().unwrap();
    format!(
        "{} {}",
        notification.transaction.uuid().as_u128() & 0xffff,
        knowledge(&notification.knowledge)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_answers_like_the_simulator_in_process() {
    let dir = tempdir().unwrap();
    let server = Server::start(dir.path(), "127.0.0.1:0");
    let remote = remote(&server.url());
    let cases =
        ["", "outcome=ERROR errorCode=51", "outcome=NULL", "outcome=EXCEPTION", "delayMs=x"];
    let mut seen = String::new();
    for (number, properties) in (1..).zip(cases) {
        let answer = call(&remote, purchase(number, properties)).await;
        let known = knowledge(&remote.inquire(inquiry(number)).await);
        seen += &format!("{properties}: {answer}; inquiry: {known}\n");
    }
    let silent = GatewayCall { timeout_us: 100_000, ..purchase(9, "lostAnswer=true") };
    seen += &format!("lost: {}; ", call(&remote, silent).await);
    seen += &format!("inquiry: {}\n", knowledge(&remote.inquire(inquiry(9)).await));
    expect![[r#"
        : Processed 1000; inquiry: Processed 1000
        outcome=ERROR errorCode=51: Error 1000 51; inquiry: Error 1000 51
        outcome=NULL: nothing; inquiry: not found
        outcome=EXCEPTION: failed: EXCEPTION for purchasePayment; inquiry: not found
        delayMs=x: Canceled INVALID_PROPERTY; inquiry: Canceled INVALID_PROPERTY
        lost: timed out; inquiry: Processed 1000
    "#]]
    .assert_eq(&seen);

    let mut streamed: Vec<Record> = vec![];
    charges(&server.url(), |record| streamed.push(record)).await.unwrap();
    assert_eq!(shown(&streamed), shown(&records(dir.path())));
    assert_eq!(streamed.len(), 4);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_journal_is_streamed_completely() {
    let dir = tempdir().unwrap();
    let server = Server::start(dir.path(), "127.0.0.1:0");
    let remote = remote(&server.url());
    let calls: Vec<_> = (0..1_000)
        .map(|number| {
            let remote = remote.clone();
            tokio::spawn(async move { call(&remote, purchase(number, "delayMs=20")).await })
        })
        .collect();
    for one in calls {
        assert_eq!(one.await.unwrap(), "Processed 1000");
    }
    let mut streamed = 0;
    charges(&server.url(), |_| streamed += 1).await.unwrap();
    assert_eq!(streamed, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_continue_after_a_restart_of_the_process() {
    let dir = tempdir().unwrap();
    let server = Server::start(dir.path(), "127.0.0.1:0");
    let (address, url) = (server.address.to_string(), server.url());
    let remote = remote(&url);
    let mut notifications = remote.notifications();
    call(&remote, purchase(1, "duplicate=true")).await;
    assert_eq!(next(&mut notifications).await, "1 Processed 1000");
    assert_eq!(next(&mut notifications).await, "1 Processed 1000");
    call(&remote, purchase(2, "outcome=PENDING lateMs=30")).await;
    assert_eq!(next(&mut notifications).await, "2 Processed 1000");
    server.end().await;
    let another = self::remote(&url);
    assert_eq!(call(&another, purchase(3, "")).await, "not sent");
    assert_eq!(knowledge(&another.inquire(inquiry(1)).await), "unreachable");

    let server = Server::start(dir.path(), &address);
    call(&remote, purchase(3, "reverseAfterMs=1")).await;
    assert_eq!(next(&mut notifications).await, "3 Error 1000 REVERSED");
    assert_eq!(call(&remote, purchase(1, "outcome=ERROR")).await, "Processed 1000");
    server.end().await;
}

/// A server that handles each connection with `serve`.
async fn faulty_server<F>(serve: impl Fn(TcpStream, usize) -> F + Send + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream, number));
        }
    });
    url
}

type Http2 = Connection<TcpStream, Bytes>;
type Received = (Request<h2::RecvStream>, SendResponse<Bytes>);

/// The first request on a connection.
async fn receive(stream: TcpStream) -> (Http2, Received) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let request = connection.accept().await.unwrap().unwrap();
    (connection, request)
}

fn respond((_, mut sender): Received, status: u16, body: &str) {
    let response = Response::builder().status(status).body(()).unwrap();
    let mut rest = sender.send_response(response, false).unwrap();
    rest.send_data(Bytes::copy_from_slice(body.as_bytes()), true).unwrap();
}

/// Waits until the client closes the connection or resets its streams.
async fn end(mut connection: Http2) {
    while let Some(Ok(_)) = connection.accept().await {}
}

#[tokio::test]
async fn only_a_call_that_certainly_was_not_sent_is_reported_as_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(call(&remote(&url), purchase(1, "")).await, "not sent");

    let url = faulty_server(|stream, _| async move { drop(receive(stream).await) }).await;
    let answered = call(&remote(&url), purchase(1, "")).await;
    assert!(answered.starts_with("failed: "), "{answered}");
    let silent = faulty_server(|stream, _| async move {
        let _request = receive(stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    let short = GatewayCall { timeout_us: 200_000, ..purchase(1, "") };
    assert_eq!(call(&remote(&silent), short).await, "timed out");
}

#[tokio::test]
async fn an_invalid_response_leaves_the_outcome_unknown() {
    let huge = format!("\"{}\"", "x".repeat(100_000));
    let answers: [(u16, &str, String); 6] = [
        (500, "failed: the simulator answered HTTP 500", "{}".to_owned()),
        (302, "failed: the simulator answered HTTP 302", String::new()),
        (200, "failed: the simulator's answer cannot be read", "Processed".to_owned()),
        (
            200,
            "failed: the simulator answered what only its caller can say",
            r#"{"answer":"TimedOut"}"#.to_owned(),
        ),
        (
            200,
            "failed: the simulator answered what only its caller can say",
            r#"{"answer":{"NotSent":{"message":"trust me","cause":"Gateway"}}}"#.to_owned(),
        ),
        (200, "failed: the answer's body: length limit exceeded", huge),
    ];
    for (status, expected, body) in answers {
        let url = faulty_server(move |stream, _| {
            let body = body.clone();
            async move {
                let (connection, request) = receive(stream).await;
                respond(request, status, &body);
                end(connection).await;
            }
        })
        .await;
        assert_eq!(call(&remote(&url), purchase(1, "")).await, expected);
        assert_eq!(knowledge(&remote(&url).inquire(inquiry(1)).await), "unreachable");
    }
}

#[tokio::test]
async fn an_invalid_response_leaves_it_unknown_whether_a_method_is_attached() {
    for (status, expected, body) in [
        (500, "unknown: the simulator answered HTTP 500", "{}"),
        (200, "unknown: the simulator's answer cannot be read", r#"{"Attached":{}}"#),
        (
            200,
            "unknown: the simulator answered what only its caller can say",
            r#"{"NotSent":{"message":"trust me","cause":"Gateway"}}"#,
        ),
    ] {
        let url = faulty_server(move |stream, _| async move {
            let (connection, request) = receive(stream).await;
            respond(request, status, body);
            end(connection).await;
        })
        .await;
        let attach = methods::request(1, MethodTask::Attach, "");
        assert_eq!(methods::ask(&remote(&url), attach).await, expected);
    }
}

#[tokio::test]
async fn a_connection_that_has_ended_is_replaced() {
    let served = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&served);
    let url = faulty_server(move |stream, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let (mut connection, request) = receive(stream).await;
            // The server announces with its first response that it takes no more requests.
            connection.graceful_shutdown();
            respond(request, 200, r#"{"answer":"Nothing"}"#);
            end(connection).await;
        }
    })
    .await;
    let remote = remote(&url);
    for number in 0..20 {
        assert_eq!(call(&remote, purchase(number, "")).await, "nothing");
    }
    assert_eq!(served.load(Ordering::Relaxed), 20);
}

#[tokio::test]
async fn a_call_that_was_not_sent_before_the_connection_failed_is_sent_on_another() {
    let url = faulty_server(|stream, number| async move {
        let mut one_at_a_time = h2::server::Builder::new();
        one_at_a_time.max_concurrent_streams(1);
        let mut connection: Http2 = one_at_a_time.handshake(stream).await.unwrap();
        let request = connection.accept().await.unwrap().unwrap();
        respond(request, 200, r#"{"answer":"Nothing"}"#);
        // The first connection fails with its second call.
        if number == 0 {
            drop(connection.accept().await);
        } else {
            end(connection).await;
        }
    })
    .await;
    let remote = remote(&url);
    assert_eq!(call(&remote, purchase(1, "")).await, "nothing");
    let (sent, queued, unsent) = tokio::join!(
        call(&remote, purchase(2, "")),
        call(&remote, purchase(3, "")),
        call(&remote, purchase(4, "")),
    );
    // It is unknown whether the queued call had been sent.
    assert!(sent.starts_with("failed: ") && queued.starts_with("failed: "), "{sent}, {queued}");
    assert_eq!(unsent, "nothing");
}

/// A proxy of `server` that counts connections.
async fn counting(server: SocketAddr) -> (String, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let url = faulty_server(move |mut stream, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut upstream = TcpStream::connect(server).await.unwrap();
            drop(tokio::io::copy_bidirectional(&mut stream, &mut upstream).await);
        }
    })
    .await;
    (url, connections)
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_calls_share_a_connection_and_can_all_be_cancelled() {
    const CALLS: u128 = 10_000;
    let dir = tempdir().unwrap();
    let server = Server::start(dir.path(), "127.0.0.1:0");
    let (url, connections) = counting(server.address).await;
    let remote = remote(&url);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..CALLS {
        let remote = remote.clone();
        let withheld =
            GatewayCall { timeout_us: 600_000_000, ..purchase(number, "lostAnswer=true") };
        calls.spawn(async move { call(&remote, withheld).await });
    }
    let started = tokio::time::Instant::now();
    let mut charged = 0;
    while charged < CALLS {
        charged = 0;
        charges(&server.url(), |_| charged += 1).await.unwrap();
        assert!(calls.try_join_next().is_none(), "no call is answered");
        assert!(started.elapsed() < 9 * TIMEOUT, "{charged} calls are in progress");
    }
    assert_eq!(call(&remote, purchase(CALLS, "")).await, "Processed 1000");
    calls.shutdown().await;
    for number in 1..=100 {
        assert_eq!(call(&remote, purchase(CALLS + number, "")).await, "Processed 1000");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    server.end().await;
}

#[tokio::test]
async fn a_process_supports_http_1() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let dir = tempdir().unwrap();
    let server = Server::start(dir.path(), "127.0.0.1:0");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /health HTTP/1.1\r\nHost: simulator\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn a_call_times_out() {
    // The backlog takes the connection, but the server never accepts it.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let remote = remote(&url);
    let short = GatewayCall { timeout_us: 100_000, ..purchase(1, "") };
    let started = tokio::time::Instant::now();
    assert_eq!(call(&remote, short).await, "timed out");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn invalid_urls_are_refused_by_name() {
    let refused = |url: &str| Remote::new(url, options()).map(drop).unwrap_err().to_string();
    let all: Vec<String> =
        ["https://h:1", "http://h:1/path", "http://u:p@h:1", "h:1", "", "http://h:99999"]
            .map(refused)
            .into();
    expect![[r#"
        gateway.simulator.url: must begin with http://
        gateway.simulator.url: must have no path
        gateway.simulator.url: must have no user
        gateway.simulator.url: must begin with http://
        gateway.simulator.url: is not a URL
        gateway.simulator.url: has a port that is none"#]]
    .assert_eq(&all.join("\n"));
    for url in ["http://localhost:9090", "http://[::1]:9090/"] {
        Remote::new(url, options()).map(drop).expect(url);
    }
}
