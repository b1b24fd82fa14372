//! Updates on sockets when flags change.

use evaluation::{Condition, IN_SEGMENT, SegmentRule};
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use flags::Settings;

use crate::fixture::{
    CHECKOUT, Client, ENVIRONMENT, Fixture, LAYOUT, MEMBERS, SERVER_SECRET, item, keys, stream,
    time_ms, token,
};

const OLDER: &str = "5e900000-aaaa-4d00-8000-000000000002";

async fn synced(fixture: &Fixture, key: &str) -> Client {
    let mut client = fixture.browser().await;
    client.sync(&json!({"user": {"keyId": key}})).await;
    client
}

#[tokio::test]
async fn a_changed_flag_is_sent_to_every_client() {
    let fixture = Fixture::start().await;
    let mut server = fixture.server().await;
    server.sync(&json!({"timestamp": 0})).await;
    let (mut ann, mut bob) = (synced(&fixture, "ann").await, synced(&fixture, "bob").await);
    let mut silent = fixture.browser().await;
    silent.receives_nothing().await;
    fixture.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    let data = server.data().await;
    assert_eq!((data["eventType"].as_str(), keys(&data, "key")), (Some("patch"), vec![CHECKOUT]));
    assert_eq!(
        (&data["featureFlags"][0]["isEnabled"], &data["segments"]),
        (&json!(false), &json!([]))
    );
    for (client, key) in [(&mut ann, "ann"), (&mut bob, "bob")] {
        let data = client.data().await;
        assert_eq!(
            (data["eventType"].as_str(), data["userKeyId"].as_str()),
            (Some("patch"), Some(key))
        );
        assert_eq!(keys(&data, "id"), [CHECKOUT]);
        assert_eq!(item(&data, CHECKOUT)["variation"], "false");
        assert_eq!(item(&data, CHECKOUT)["matchReason"], "flag disabled");
        assert_eq!(item(&data, CHECKOUT)["timestamp"], time_ms(1));
    }
    // It has not sent its user.
    silent.receives_nothing().await;

    fixture.change_flag(CHECKOUT, 2, |it| it.is_archived = true);
    assert_eq!(server.data().await["featureFlags"][0]["isArchived"], true);
    let data = ann.data().await;
    assert_eq!(item(&data, CHECKOUT)["variation"], Value::Null);
    assert_eq!(item(&data, CHECKOUT)["matchReason"], "flag archived");
    silent.receives_nothing().await;
}

#[tokio::test]
async fn a_new_flag_is_sent() {
    let fixture = Fixture::start().await;
    let mut ann = synced(&fixture, "ann").await;
    let mut flag = fixture.flag(CHECKOUT);
    flag.key = "brand-new".to_owned();
    flag.updated_at = "2026-06-01T00:00:09Z".to_owned();
    assert!(fixture.cache.apply(ENVIRONMENT, vec![flag], vec![]));
    assert_eq!(keys(&ann.data().await, "id"), ["brand-new"]);
    assert!(
        !fixture.cache.apply(uuid::Uuid::nil(), vec![], vec![]),
        "there is no such environment"
    );
}

#[tokio::test]
async fn a_changed_segment_is_sent_with_the_flags_that_use_it() {
    let fixture = Fixture::start().await;
    let mut server = fixture.server().await;
    let mut ann = synced(&fixture, "ann").await;
    fixture.change_segment(MEMBERS, 1, |it| it.included.push("ann".to_owned()));
    let data = server.data().await;
    assert_eq!(data["featureFlags"], json!([]));
    assert_eq!(data["segments"][0]["included"][3], "ann");
    let data = ann.data().await;
    assert_eq!(keys(&data, "id"), [LAYOUT]);
    assert_eq!(item(&data, LAYOUT)["matchReason"], "members");
    assert_eq!(item(&data, LAYOUT)["timestamp"], time_ms(1));

    // Its other rule is removed.
    fixture.change_flag(LAYOUT, 2, |it| it.rules.truncate(1));
    ann.data().await;
    fixture.change_segment(OLDER, 3, |it| it.included.push("x".to_owned()));
    assert_eq!(server.data().await["featureFlags"][0]["key"], LAYOUT);
    assert_eq!(server.data().await["segments"][0]["id"], OLDER);
    // No flag uses this segment.
    ann.receives_nothing().await;
    fixture.change_segment(MEMBERS, 4, |it| {
        let in_segment = Condition {
            property: IN_SEGMENT.to_owned(),
            value: format!("[\"{OLDER}\"]"),
            ..Condition::default()
        };
        it.rules.push(SegmentRule { conditions: vec![in_segment], ..SegmentRule::default() });
    });
    assert_eq!(keys(&ann.data().await, "id"), [LAYOUT]);
    fixture.change_segment(OLDER, 5, |it| it.included.push("y".to_owned()));
    assert_eq!(item(&ann.data().await, LAYOUT)["timestamp"], time_ms(5));
}

#[tokio::test]
async fn a_repeated_or_late_change_is_ignored() {
    let fixture = Fixture::start().await;
    let mut server = fixture.server().await;
    let before = fixture.flag(CHECKOUT);
    fixture.change_flag(CHECKOUT, 5, |it| it.is_enabled = false);
    server.data().await;
    let after = fixture.flag(CHECKOUT);
    for flag in [after.clone(), before] {
        assert!(fixture.cache.apply(ENVIRONMENT, vec![flag], vec![]));
        server.receives_nothing().await;
        assert_eq!(fixture.flag(CHECKOUT), after);
    }
    let segment = fixture.segment(MEMBERS);
    fixture.change_segment(MEMBERS, 6, |it| it.name.push('!'));
    server.data().await;
    let mut flag = after;
    flag.name.push('?');
    // A late change does not hold back another one of the same call.
    assert!(fixture.cache.apply(ENVIRONMENT, vec![flag], vec![segment]));
    let data = server.data().await;
    assert_eq!((keys(&data, "key"), &data["segments"]), (vec![CHECKOUT], &json!([])));
    assert!(fixture.segment(MEMBERS).name.ends_with('!'));
}

#[tokio::test]
async fn changes_stay_in_their_environment() {
    let fixture = Fixture::start().await;
    let secret = "Bq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
    let mut other = crate::fixture::sample();
    other.id = uuid::Uuid::from_u128(7);
    other.secrets = vec![feature_flags::Secret {
        kind: feature_flags::SecretKind::Server,
        value: secret.to_owned(),
        expires_at_ms: None,
    }];
    fixture.cache.upsert([other]);
    let mut here = fixture.server().await;
    let mut there = fixture.client(&stream("server", &token(secret))).await;
    there.receives_nothing().await;
    fixture.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    assert_eq!(keys(&here.data().await, "key"), [CHECKOUT]);
    there.receives_nothing().await;
}

#[tokio::test]
async fn an_environment_that_is_replaced_is_sent_as_its_differences() {
    let fixture = Fixture::start().await;
    let mut server = fixture.server().await;
    let mut ann = synced(&fixture, "ann").await;
    let mut flag = fixture.flag(LAYOUT);
    flag.is_enabled = false;
    flag.updated_at = crate::fixture::time(3);
    let mut again = crate::fixture::sample();
    again.snapshot = again.snapshot.with([flag], []);
    fixture.cache.upsert([again.clone()]);
    assert_eq!(keys(&server.data().await, "key"), [LAYOUT]);
    assert_eq!(keys(&ann.data().await, "id"), [LAYOUT]);
    fixture.cache.upsert([again]);
    server.receives_nothing().await;
}

/// Sends a hundred large changes, which one client reads.
async fn flood(fixture: &Fixture, reader: &mut Client) {
    for second in 1..=100 {
        fixture.change_flag(CHECKOUT, second, |it| {
            it.description =
                Some(char::from(b'a' + (second % 26) as u8).to_string().repeat(300_000));
        });
        assert_eq!(item(&reader.data().await, CHECKOUT)["updatedAt"], crate::fixture::time(second));
    }
}

async fn slow(fixture: &Fixture) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1_024).unwrap();
    let mut client = fixture.client_of(socket, &stream("server", &token(SERVER_SECRET))).await;
    client.receives_nothing().await;
    client
}

#[tokio::test]
async fn a_slow_reader_is_closed_and_does_not_delay_others() {
    let close_timeout = crate::fixture::TIMEOUT;
    let settings = Settings { behind_max: 3, close_timeout, ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    let mut reader = fixture.server().await;
    reader.sync(&json!({"timestamp": 0})).await;
    let mut slow = slow(&fixture).await;
    flood(&fixture, &mut reader).await;
    let mut last = None;
    while let Some(message) = slow.next().await {
        last = Some(message);
    }
    let Some(Message::Close(Some(CloseFrame { code, .. }))) = last else { panic!("{last:?}") };
    assert_eq!(u16::from(code), 1011);
    reader.receives_nothing().await;
}

#[tokio::test]
async fn a_slow_reader_that_never_reads_is_dropped() {
    let settings = Settings {
        behind_max: 3,
        close_timeout: std::time::Duration::from_millis(20),
        ..Settings::default()
    };
    let fixture = Fixture::start_with(settings).await;
    let mut reader = fixture.server().await;
    reader.receives_nothing().await;
    let slow = slow(&fixture).await;
    flood(&fixture, &mut reader).await;
    fixture.until_open(1).await;
    drop(slow);
}

#[tokio::test]
async fn a_socket_whose_write_times_out_is_dropped() {
    let settings = Settings {
        write_timeout: std::time::Duration::from_millis(20),
        close_timeout: std::time::Duration::from_millis(20),
        ..Settings::default()
    };
    let fixture = Fixture::start_with(settings).await;
    let slow = slow(&fixture).await;
    fixture.change_flag(CHECKOUT, 1, |it| it.description = Some("x".repeat(10_000_000)));
    fixture.until_open(0).await;
    drop(slow);
}

#[tokio::test]
async fn a_slow_reader_within_the_bound_gets_one_patch_with_all_changes() {
    let fixture = Fixture::start().await;
    let mut slow = slow(&fixture).await;
    let mut reader = fixture.server().await;
    reader.receives_nothing().await;
    fixture.change_flag(CHECKOUT, 1, |it| it.description = Some("x".repeat(10_000_000)));
    // The reader is woken after the slow one.
    reader.data().await;
    for second in 2..20 {
        let key = if second % 2 == 0 { LAYOUT } else { "banner" };
        fixture.change_flag(key, second, |it| it.name.push('!'));
        reader.data().await;
    }
    assert_eq!(keys(&slow.data().await, "key"), [CHECKOUT]);
    let rest = slow.data().await;
    assert_eq!(keys(&rest, "key"), ["banner", LAYOUT]);
    assert_eq!(item(&rest, "banner")["updatedAt"], crate::fixture::time(19));
    assert_eq!(item(&rest, LAYOUT)["updatedAt"], crate::fixture::time(18));
    slow.receives_nothing().await;
}
