//! How sockets are closed.

use std::time::Duration;

use flags::Settings;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::fixture::{CHECKOUT, Fixture, TIMEOUT, stream};

/// How often a client pings that is to lose its connection.
const PINGS_MAX: usize = 600_000;

#[tokio::test]
async fn a_client_that_closes_gets_its_own_code_back() {
    let fixture = Fixture::start().await;
    for code in [4003, 1000, 1001, 3999] {
        let mut client = fixture.server().await;
        let frame = CloseFrame { code: code.into(), reason: "bye".into() };
        client.send(Message::Close(Some(frame))).await;
        assert_eq!(client.ended().await, (code, String::new()));
    }
    let mut client = fixture.server().await;
    client.send(Message::Close(None)).await;
    assert_eq!(client.next().await, Some(Message::Close(None)));
    fixture.until_open(0).await;
}

#[tokio::test]
async fn a_client_that_disconnects_frees_its_permit() {
    let fixture = Fixture::start().await;
    let (mut server, browser) = (fixture.server().await, fixture.browser().await);
    fixture.until_open(2).await;
    drop(browser);
    fixture.until_open(1).await;
    fixture.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    server.data().await;
    drop(server);
    fixture.until_open(0).await;
    assert!(fixture.server().await.sync(&json!({})).await["featureFlags"].is_array());
}

#[tokio::test]
async fn a_silent_client_is_closed_with_1001() {
    let settings = Settings { idle_timeout: Duration::from_millis(30), ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    assert_eq!(fixture.server().await.ended().await, (1001, "going away".to_owned()));
}

#[tokio::test]
async fn a_client_that_ignores_the_close_is_dropped() {
    let settings = Settings {
        idle_timeout: Duration::from_millis(30),
        close_timeout: Duration::from_secs(3_600),
        closed_timeout: Duration::from_millis(30),
        ..Settings::default()
    };
    let fixture = Fixture::start_with(settings).await;
    // It neither reads nor disconnects.
    let client = fixture.server().await;
    fixture.until_open(1).await;
    fixture.until_open(0).await;
    drop(client);
}

/// As FeatBit's SDK for Java does it: it reads the close frame, and pings on.
#[tokio::test]
async fn a_refused_client_that_never_answers_loses_its_connection() {
    let settings = Settings {
        close_timeout: Duration::from_secs(3_600),
        closed_timeout: Duration::from_millis(30),
        ..Settings::default()
    };
    let fixture = Fixture::start_with(settings).await;
    let mut client = fixture.client(&stream("server", "nonsense")).await;
    let Some(Message::Close(Some(CloseFrame { code, .. }))) = client.next().await else {
        panic!("it was not closed")
    };
    assert_eq!(u16::from(code), 4003);
    let raw = client.socket().get_mut();
    // A masked ping of no bytes. All of them are fewer bytes than a server reads after a close.
    for _ in 0..PINGS_MAX {
        if raw.write_all(&[0x89, 0x80, 0, 0, 0, 0]).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the server reads on");
}

#[tokio::test]
async fn a_client_that_writes_after_the_close_still_gets_the_code() {
    let fixture = Fixture::start().await;
    let mut client = fixture.server().await;
    let raw = client.socket().get_mut();
    // A frame of 1 MiB, all of it, before anything is read.
    let mut frame = vec![0x81, 0xFF];
    frame.extend_from_slice(&(1_u64 << 20).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.resize(frame.len() + (1 << 20), b' ');
    raw.write_all(&frame).await.unwrap();
    let mut answer = vec![];
    raw.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer[2..4], 1009_u16.to_be_bytes());
}

#[tokio::test]
async fn a_drain_closes_all_with_1001() {
    let fixture = Fixture::start().await;
    let mut clients = vec![];
    for _ in 0..20 {
        let mut client = fixture.server().await;
        client.receives_nothing().await;
        clients.push(client);
    }
    fixture.until_open(20).await;
    let patience = Duration::from_secs(30);
    let (cache, drained) = (&fixture.cache, std::cell::Cell::new(false));
    let drain = async {
        cache.drain(Duration::from_millis(100), patience).await;
        drained.set(true);
    };
    let leave = async {
        for client in &mut clients {
            assert_eq!(client.ended().await, (1001, "going away".to_owned()));
        }
        // New streams are closed, too.
        assert!(fixture.cache.is_draining());
        assert_eq!(fixture.server().await.ended().await.0, 1001);
        clients.clear();
    };
    tokio::join!(drain, leave);
    assert!(drained.get());
    assert_eq!(fixture.cache.open_sockets(), 0);
}

#[tokio::test]
async fn a_drain_of_a_few_sockets_is_short() {
    let fixture = Fixture::start().await;
    let mut client = fixture.server().await;
    fixture.until_open(1).await;
    let drain = fixture.cache.drain(Duration::from_secs(3_600), TIMEOUT);
    let leave = async {
        assert_eq!(client.ended().await.0, 1001);
        drop(client);
    };
    let both = async { tokio::join!(drain, leave) };
    tokio::time::timeout(TIMEOUT, both).await.expect("the drain waits for its full duration");
    assert_eq!(fixture.cache.open_sockets(), 0);
}

#[tokio::test]
async fn a_drain_ends_after_its_timeout() {
    let settings = Settings { closed_timeout: Duration::from_secs(3_600), ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    let _client = fixture.server().await;
    fixture.until_open(1).await;
    fixture.cache.drain(Duration::ZERO, Duration::from_millis(20)).await;
    assert_eq!(fixture.cache.open_sockets(), 1);
}
