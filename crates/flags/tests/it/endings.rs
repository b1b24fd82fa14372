//! How sockets end.

use std::time::Duration;

use flags::Settings;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::world::{CHECKOUT, PATIENCE, World};

#[tokio::test]
async fn a_client_that_closes_gets_its_own_code_back() {
    let world = World::start().await;
    for code in [4003, 1000, 1001, 3999] {
        let mut client = world.server().await;
        let frame = CloseFrame { code: code.into(), reason: "bye".into() };
        client.send(Message::Close(Some(frame))).await;
        assert_eq!(client.ended().await, (code, String::new()));
    }
    let mut client = world.server().await;
    client.send(Message::Close(None)).await;
    assert_eq!(client.next().await, Some(Message::Close(None)));
    world.until_open(0).await;
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_its_place() {
    let world = World::start().await;
    let (mut server, browser) = (world.server().await, world.browser().await);
    world.until_open(2).await;
    drop(browser);
    world.until_open(1).await;
    world.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    server.data().await;
    drop(server);
    world.until_open(0).await;
    assert!(world.server().await.sync(&json!({})).await["featureFlags"].is_array());
}

#[tokio::test]
async fn a_silent_client_is_told_to_come_again() {
    let settings = Settings { idle_timeout: Duration::from_millis(30), ..Settings::default() };
    let world = World::start_with(settings).await;
    assert_eq!(world.server().await.ended().await, (1001, "going away".to_owned()));
}

#[tokio::test]
async fn a_client_that_does_not_go_is_cut_off() {
    let settings = Settings {
        idle_timeout: Duration::from_millis(30),
        farewell_timeout: Duration::from_millis(30),
        ..Settings::default()
    };
    let world = World::start_with(settings).await;
    // It neither reads nor hangs up.
    let client = world.server().await;
    world.until_open(1).await;
    world.until_open(0).await;
    drop(client);
}

#[tokio::test]
async fn who_writes_on_and_on_after_the_end_still_learns_why() {
    let world = World::start().await;
    let mut client = world.server().await;
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
    let world = World::start().await;
    let mut clients = vec![];
    for _ in 0..20 {
        let mut client = world.server().await;
        client.hears_nothing().await;
        clients.push(client);
    }
    world.until_open(20).await;
    let patience = Duration::from_secs(30);
    let (board, drained) = (&world.board, std::cell::Cell::new(false));
    let drain = async {
        board.drain(Duration::from_millis(100), patience).await;
        drained.set(true);
    };
    let leave = async {
        for client in &mut clients {
            assert_eq!(client.ended().await, (1001, "going away".to_owned()));
        }
        // Whoever comes now is sent on.
        assert!(world.board.is_draining());
        assert_eq!(world.server().await.ended().await.0, 1001);
        clients.clear();
    };
    tokio::join!(drain, leave);
    assert!(drained.get());
    assert_eq!(world.board.open_sockets(), 0);
}

#[tokio::test]
async fn a_drain_of_a_few_takes_no_time_that_is_for_many() {
    let world = World::start().await;
    let mut client = world.server().await;
    world.until_open(1).await;
    let drain = world.board.drain(Duration::from_secs(3_600), PATIENCE);
    let leave = async {
        assert_eq!(client.ended().await.0, 1001);
        drop(client);
    };
    let both = async { tokio::join!(drain, leave) };
    tokio::time::timeout(PATIENCE, both).await.expect("it does not wait for an hour");
    assert_eq!(world.board.open_sockets(), 0);
}

#[tokio::test]
async fn a_drain_does_not_wait_for_those_who_stay() {
    let settings = Settings { farewell_timeout: Duration::from_secs(3_600), ..Settings::default() };
    let world = World::start_with(settings).await;
    let _client = world.server().await;
    world.until_open(1).await;
    world.board.drain(Duration::ZERO, Duration::from_millis(20)).await;
    assert_eq!(world.board.open_sockets(), 1);
}
