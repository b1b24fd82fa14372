//! A listener with routes of its own: handlers that panic, and clients that go before they are answered.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use web::{AnswerBudget, NetworkPermits};

use super::listener::{self, Incoming};
use super::{Admission, Bodies, Front, Timeouts};
use crate::metrics::Requests;

const A_WHILE: Duration = Duration::from_secs(30);

/// Serves routes on a free port until the sender says so.
fn serve(
    router: Router,
    admission: Admission,
) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>) {
    let front = Front {
        router,
        admission,
        requests: Requests::new(),
        bodies: Bodies::new(1024, A_WHILE, 1024),
        answers: AnswerBudget::new(1024, vec![]),
        trusted_proxies: vec![],
        exempts_local: false,
    };
    let options = listener::ConnectionOptions {
        tls: None,
        timeouts: Timeouts {
            idle: A_WHILE,
            headers: A_WHILE,
            body: A_WHILE,
            answer_bytes_per_second_min: 0,
        },
        headers_bytes_max: 8_192,
        connections_max: 10,
        networks: NetworkPermits::new(10, vec![]),
        sorter: None,
    };
    let socket = listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let (stopping, stopped) = watch::channel(false);
    let incoming = Incoming::Listening(socket);
    let serving = tokio::spawn(listener::serve(incoming, Arc::new(front), options, stopped));
    (address, stopping, serving)
}

/// Says when it is dropped.
struct Dropped(mpsc::UnboundedSender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// A handler that begins and never ends by itself.
fn endless(events: &mpsc::UnboundedSender<&'static str>) -> impl Future<Output = ()> + use<> {
    let events = events.clone();
    async move {
        events.send("begun").unwrap();
        let _dropped = Dropped(events);
        std::future::pending::<()>().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_ends_when_its_client_goes_and_a_write_does_not() {
    let (events, mut happened) = mpsc::unbounded_channel();
    let (of_reads, of_writes) = (events.clone(), events);
    let router = Router::new()
        .route("/v1/endless", get(move || endless(&of_reads)).post(move || endless(&of_writes)));
    let admission = Admission::new(10);
    let (address, stopping, serving) = serve(router, admission.clone());
    let connect = |request: &'static str| async move {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    };
    let writing = connect("POST /v1/endless HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(happened.recv().await, Some("begun"));
    drop(writing);
    for _ in 0..3 {
        let reading = connect("GET /v1/endless HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(happened.recv().await, Some("begun"));
        assert_eq!(admission.in_progress(), 2);
        drop(reading);
        assert_eq!(happened.recv().await, Some("dropped"));
    }
    // The write, whose client went first, is still there.
    while admission.in_progress() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(happened.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    stopping.send_replace(true);
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_only_sends_no_more_is_answered() {
    let (events, mut happened) = mpsc::unbounded_channel();
    let release = Arc::<tokio::sync::Notify>::default();
    let released = Arc::clone(&release);
    let handler = async move || {
        events.send("begun").unwrap();
        released.notified().await;
        "fine"
    };
    let router = Router::new().route("/v1/fine", get(handler)).route("/v1/other", get(async || ""));
    let (address, stopping, serving) = serve(router, Admission::new(2));
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /v1/fine HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(happened.recv().await, Some("begun"));
    // Others come and go meanwhile: by then the end has arrived, too.
    for _ in 0..20 {
        let mut other = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = b"GET /v1/other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        other.write_all(request).await.unwrap();
        other.read_to_end(&mut Vec::new()).await.unwrap();
    }
    release.notify_one();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("fine"), "{answer}");
    stopping.send_replace(true);
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_500_with_a_request_id_and_the_connection_survives() {
    let panics = async || -> &'static str { panic!("on purpose") };
    let router = Router::new()
        .route("/1.0/kb/panic", get(panics))
        .route("/v1/panic", get(panics))
        .route("/v1/fine", get(async || "fine"));
    let admission = Admission::new(1);
    let (address, stopping, serving) = serve(router, admission.clone());
    let answers = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(A_WHILE)).unwrap();
        ["/1.0/kb/panic", "/v1/panic", "/v1/fine"].map(|path| {
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut answer = vec![0; 4_096];
            let read = stream.read(&mut answer).unwrap();
            String::from_utf8(answer[..read].to_vec()).unwrap()
        })
    });
    let [kill_bill, native, fine] = answers.await.unwrap();
    assert!(kill_bill.starts_with("HTTP/1.1 500 ") && kill_bill.contains("\"className\""));
    assert!(native.starts_with("HTTP/1.1 500 ") && native.contains("problem:internal-error"));
    for failed in [&kill_bill, &native] {
        assert!(failed.contains("\r\nx-request-id: ") && !failed.contains("on purpose"));
    }
    assert!(fine.starts_with("HTTP/1.1 200 ") && fine.ends_with("fine"));
    assert_eq!(admission.in_progress(), 0);
    stopping.send_replace(true);
    serving.await.unwrap();
}
