//! A listener with routes of its own: the response when a handler panics.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::sync::watch;

use super::listener::{self, Incoming};
use super::{Admission, Bodies, Front, Timeouts};
use crate::metrics::Requests;

const A_WHILE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_500_with_a_request_id_and_the_connection_survives() {
    let panics = async || -> &'static str { panic!("on purpose") };
    let router = Router::new()
        .route("/1.0/kb/panic", get(panics))
        .route("/v1/panic", get(panics))
        .route("/v1/fine", get(async || "fine"));
    let admission = Admission::new(1);
    let front = Front {
        router,
        admission: admission.clone(),
        requests: Requests::new(),
        bodies: Bodies::new(1024, A_WHILE, 1024),
        trusted_proxies: vec![],
    };
    let options = listener::ConnectionOptions {
        tls: None,
        timeouts: Timeouts { idle: A_WHILE, headers: A_WHILE, body: A_WHILE },
        headers_bytes_max: 8_192,
        connections_max: 10,
        sorter: None,
    };
    let socket = listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let (stopping, stopped) = watch::channel(false);
    let serving = tokio::spawn(listener::serve(
        Incoming::Listening(socket),
        Arc::new(front),
        options,
        stopped,
    ));
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
