//! Valid and invalid frames of clients.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::fixture::{Client, Fixture};

const PING: &[u8] = br#"{"messageType":"ping","data":{}}"#;

/// Sends a message in several frames.
async fn send_frames(client: &mut Client, pieces: &[&[u8]]) {
    for (number, piece) in pieces.iter().enumerate() {
        let data = if number == 0 { Data::Text } else { Data::Continue };
        let is_final = number + 1 == pieces.len();
        let frame = Frame::message(piece.to_vec(), OpCode::Data(data), is_final);
        client.send(Message::Frame(frame)).await;
    }
}

#[tokio::test]
async fn a_message_in_four_frames_is_read() {
    let fixture = Fixture::start().await;
    let mut client = fixture.server().await;
    send_frames(&mut client, &[&PING[..5], &PING[5..9], b"", &PING[9..]]).await;
    assert_eq!(client.text().await, r#"{"messageType":"pong","data":{}}"#);
    // A ping of WebSocket's own may come in between.
    let first = Frame::message(PING[..7].to_vec(), OpCode::Data(Data::Text), false);
    client.send(Message::Frame(first)).await;
    client.send(Message::Ping(b"there?".to_vec().into())).await;
    assert_eq!(client.next().await, Some(Message::Pong(b"there?".to_vec().into())));
    client.send(Message::Pong(vec![].into())).await;
    let last = Frame::message(PING[7..].to_vec(), OpCode::Data(Data::Continue), true);
    client.send(Message::Frame(last)).await;
    assert_eq!(client.text().await, r#"{"messageType":"pong","data":{}}"#);
}

#[tokio::test]
async fn messages_that_are_too_long_or_have_too_many_frames_close_with_1009() {
    let fixture = Fixture::start().await;
    let mut longest = fixture.server().await;
    let around = r#"{"messageType":"echo","data":""}"#.len();
    let text = |length: usize| {
        format!(r#"{{"messageType":"echo","data":"{}"}}"#, "x".repeat(length - around))
    };
    longest.send(Message::text(text(8_192))).await;
    assert_eq!(longest.text().await.len(), 8_192);
    longest.send(Message::text(text(8_193))).await;
    assert_eq!(longest.ended().await, (1009, "message too big".to_owned()));

    let mut huge = fixture.server().await;
    huge.send(Message::text(text(1_000_000))).await;
    assert_eq!(huge.ended().await.0, 1009);

    let mut pieces = fixture.server().await;
    send_frames(&mut pieces, &[&PING[..5], &PING[5..9], &PING[9..12], &PING[12..15], &PING[15..]])
        .await;
    assert_eq!(pieces.ended().await.0, 1009);

    let mut sum = fixture.server().await;
    let long = text(9_000);
    send_frames(&mut sum, &[&long.as_bytes()[..8_000], &long.as_bytes()[8_000..]]).await;
    assert_eq!(sum.ended().await.0, 1009);

    let properties: Vec<_> =
        (0..10_000).map(|number| json!({"name": format!("p{number}"), "value": "x"})).collect();
    let mut many = fixture.browser().await;
    let user = json!({"keyId": "ann", "customizedProperties": properties});
    many.say(&json!({"messageType": "data-sync", "data": {"timestamp": 0, "user": user}})).await;
    assert_eq!(many.ended().await.0, 1009);
}

#[tokio::test]
async fn frames_that_no_client_may_send() {
    let fixture = Fixture::start().await;
    let masked = |first: u8, payload: &[u8]| {
        let mut frame = vec![first, 0x80 | u8::try_from(payload.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        frame
    };
    let mut unmasked = vec![0x81, u8::try_from(PING.len()).unwrap()];
    unmasked.extend_from_slice(PING);
    let mut long_ping = vec![0x89, 0xFE, 0, 126, 0, 0, 0, 0];
    long_ping.extend_from_slice(&[0; 126]);
    for (bytes, code) in [
        (unmasked, 1002),
        (masked(0xC1, PING), 1002),
        (masked(0x83, PING), 1002),
        (masked(0x8B, b""), 1002),
        (masked(0x80, PING), 1002),
        (masked(0x09, b""), 1002),
        (long_ping, 1002),
        ([masked(0x01, b"{"), masked(0x81, b"}")].concat(), 1002),
        (masked(0x88, &[3]), 1002),
        (masked(0x88, &1005_u16.to_be_bytes()), 1002),
        (masked(0x81, &[0xC3, 0x28]), 1007),
        ([masked(0x01, &[0xC3]), masked(0x80, &[0x28])].concat(), 1007),
    ] {
        let mut client = fixture.server().await;
        let raw = client.socket().get_mut();
        raw.write_all(&bytes).await.unwrap();
        assert_eq!(client.ended().await.0, code, "{bytes:?}");
    }
    // A character may be in two pieces.
    let mut client = fixture.server().await;
    let text = "{\"messageType\":\"echo\",\"data\":\"é\"}".as_bytes();
    let at = text.iter().position(|byte| *byte == 0xC3).unwrap() + 1;
    send_frames(&mut client, &[&text[..at], &text[at..]]).await;
    assert_eq!(client.json().await["data"], "é");
}

#[tokio::test]
async fn bytes_that_come_one_by_one_and_all_at_once() {
    let fixture = Fixture::start().await;
    let mut client = fixture.server().await;
    let mut ping = vec![0x81, 0x80 | u8::try_from(PING.len()).unwrap(), 1, 2, 3, 4];
    ping.extend(PING.iter().zip([1, 2, 3, 4].iter().cycle()).map(|(byte, mask)| byte ^ mask));
    for byte in &ping {
        client.socket().get_mut().write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(client.text().await, r#"{"messageType":"pong","data":{}}"#);
    client.socket().get_mut().write_all(&ping.repeat(1_000)).await.unwrap();
    for _ in 0..1_000 {
        assert_eq!(client.text().await, r#"{"messageType":"pong","data":{}}"#);
    }
}

#[tokio::test]
async fn nothing_comes_behind_the_end() {
    let fixture = Fixture::start().await;
    let mut client = fixture.server().await;
    let raw = client.socket().get_mut();
    raw.write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x0F, 0xA3, 0x89, 0x80, 0, 0, 0, 0]).await.unwrap();
    let mut answer = vec![];
    raw.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, [0x88, 2, 0x0F, 0xA3]);
}
