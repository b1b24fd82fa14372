//! What sockets are told when flags change.

use evaluation::{Condition, IN_SEGMENT, SegmentRule};
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use flags::Settings;

use crate::world::{
    CHECKOUT, Client, ENVIRONMENT, LAYOUT, MEMBERS, SERVER_SECRET, World, item, keys, moment_ms,
    stream, token,
};

const OLDER: &str = "5e900000-aaaa-4d00-8000-000000000002";

async fn synced(world: &World, key: &str) -> Client {
    let mut client = world.browser().await;
    client.sync(&json!({"user": {"keyId": key}})).await;
    client
}

#[tokio::test]
async fn a_changed_flag_is_told_to_everybody() {
    let world = World::start().await;
    let mut server = world.server().await;
    server.sync(&json!({"timestamp": 0})).await;
    let (mut ann, mut bob) = (synced(&world, "ann").await, synced(&world, "bob").await);
    let mut silent = world.browser().await;
    silent.hears_nothing().await;
    world.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    let told = server.data().await;
    assert_eq!((told["eventType"].as_str(), keys(&told, "key")), (Some("patch"), vec![CHECKOUT]));
    assert_eq!(
        (&told["featureFlags"][0]["isEnabled"], &told["segments"]),
        (&json!(false), &json!([]))
    );
    for (client, key) in [(&mut ann, "ann"), (&mut bob, "bob")] {
        let told = client.data().await;
        assert_eq!(
            (told["eventType"].as_str(), told["userKeyId"].as_str()),
            (Some("patch"), Some(key))
        );
        assert_eq!(keys(&told, "id"), [CHECKOUT]);
        assert_eq!(item(&told, CHECKOUT)["variation"], "false");
        assert_eq!(item(&told, CHECKOUT)["matchReason"], "flag disabled");
        assert_eq!(item(&told, CHECKOUT)["timestamp"], moment_ms(1));
    }
    // Nobody said whom for.
    silent.hears_nothing().await;

    world.change_flag(CHECKOUT, 2, |it| it.is_archived = true);
    assert_eq!(server.data().await["featureFlags"][0]["isArchived"], true);
    let told = ann.data().await;
    assert_eq!(item(&told, CHECKOUT)["variation"], Value::Null);
    assert_eq!(item(&told, CHECKOUT)["matchReason"], "flag archived");
    silent.hears_nothing().await;
}

#[tokio::test]
async fn a_new_flag_is_told_too() {
    let world = World::start().await;
    let mut ann = synced(&world, "ann").await;
    let mut flag = world.flag(CHECKOUT);
    flag.key = "brand-new".to_owned();
    flag.updated_at = "2026-06-01T00:00:09Z".to_owned();
    assert!(world.board.change(ENVIRONMENT, vec![flag], vec![]));
    assert_eq!(keys(&ann.data().await, "id"), ["brand-new"]);
    assert!(!world.board.change(uuid::Uuid::nil(), vec![], vec![]), "there is no such environment");
}

#[tokio::test]
async fn a_changed_segment_is_told_with_the_flags_that_ask_about_it() {
    let world = World::start().await;
    let mut server = world.server().await;
    let mut ann = synced(&world, "ann").await;
    world.change_segment(MEMBERS, 1, |it| it.included.push("ann".to_owned()));
    let told = server.data().await;
    assert_eq!(told["featureFlags"], json!([]));
    assert_eq!(told["segments"][0]["included"][3], "ann");
    let told = ann.data().await;
    assert_eq!(keys(&told, "id"), [LAYOUT]);
    assert_eq!(item(&told, LAYOUT)["matchReason"], "members");
    assert_eq!(item(&told, LAYOUT)["timestamp"], moment_ms(1));

    // Now it asks about the other one too.
    world.change_flag(LAYOUT, 2, |it| it.rules.truncate(1));
    ann.data().await;
    world.change_segment(OLDER, 3, |it| it.included.push("x".to_owned()));
    assert_eq!(server.data().await["featureFlags"][0]["key"], LAYOUT);
    assert_eq!(server.data().await["segments"][0]["id"], OLDER);
    // No flag of the client asks about it.
    ann.hears_nothing().await;
    world.change_segment(MEMBERS, 4, |it| {
        let asks = Condition {
            property: IN_SEGMENT.to_owned(),
            value: format!("[\"{OLDER}\"]"),
            ..Condition::default()
        };
        it.rules.push(SegmentRule { conditions: vec![asks], ..SegmentRule::default() });
    });
    assert_eq!(keys(&ann.data().await, "id"), [LAYOUT]);
    world.change_segment(OLDER, 5, |it| it.included.push("y".to_owned()));
    assert_eq!(item(&ann.data().await, LAYOUT)["timestamp"], moment_ms(5));
}

#[tokio::test]
async fn what_is_told_twice_or_late_changes_nothing() {
    let world = World::start().await;
    let mut server = world.server().await;
    let before = world.flag(CHECKOUT);
    world.change_flag(CHECKOUT, 5, |it| it.is_enabled = false);
    server.data().await;
    let after = world.flag(CHECKOUT);
    for flag in [after.clone(), before] {
        assert!(world.board.change(ENVIRONMENT, vec![flag], vec![]));
        server.hears_nothing().await;
        assert_eq!(world.flag(CHECKOUT), after);
    }
    let segment = world.segment(MEMBERS);
    world.change_segment(MEMBERS, 6, |it| it.name.push('!'));
    server.data().await;
    let mut flag = after;
    flag.name.push('?');
    // What is late does not keep back what comes with it.
    assert!(world.board.change(ENVIRONMENT, vec![flag], vec![segment]));
    let told = server.data().await;
    assert_eq!((keys(&told, "key"), &told["segments"]), (vec![CHECKOUT], &json!([])));
    assert!(world.segment(MEMBERS).name.ends_with('!'));
}

#[tokio::test]
async fn environments_do_not_hear_of_each_other() {
    let world = World::start().await;
    let secret = "Bq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
    let mut other = crate::world::sample();
    other.id = uuid::Uuid::from_u128(7);
    other.secrets = vec![flags::Secret {
        kind: flags::SecretKind::Server,
        value: secret.to_owned(),
        expires_at_ms: None,
    }];
    world.board.put([other]);
    let mut here = world.server().await;
    let mut there = world.client(&stream("server", &token(secret))).await;
    there.hears_nothing().await;
    world.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    assert_eq!(keys(&here.data().await, "key"), [CHECKOUT]);
    there.hears_nothing().await;
}

#[tokio::test]
async fn an_environment_that_is_put_again_is_told_as_what_is_different() {
    let world = World::start().await;
    let mut server = world.server().await;
    let mut ann = synced(&world, "ann").await;
    let mut flag = world.flag(LAYOUT);
    flag.is_enabled = false;
    flag.updated_at = crate::world::moment(3);
    let mut again = crate::world::sample();
    again.snapshot = again.snapshot.with([flag], []);
    world.board.put([again.clone()]);
    assert_eq!(keys(&server.data().await, "key"), [LAYOUT]);
    assert_eq!(keys(&ann.data().await, "id"), [LAYOUT]);
    world.board.put([again]);
    server.hears_nothing().await;
}

/// Changes a flag so that it is large, and has one socket read of it and another not.
async fn flood(world: &World, reader: &mut Client) {
    for second in 1..=100 {
        world.change_flag(CHECKOUT, second, |it| {
            it.description =
                Some(char::from(b'a' + (second % 26) as u8).to_string().repeat(300_000));
        });
        assert_eq!(item(&reader.data().await, CHECKOUT)["updatedAt"], crate::world::moment(second));
    }
}

async fn slow(world: &World) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1_024).unwrap();
    let mut client = world.client_of(socket, &stream("server", &token(SERVER_SECRET))).await;
    client.hears_nothing().await;
    client
}

#[tokio::test]
async fn a_slow_reader_is_dropped_and_keeps_nobody_waiting() {
    let farewell_timeout = crate::world::PATIENCE;
    let settings = Settings { behind_max: 3, farewell_timeout, ..Settings::default() };
    let world = World::start_with(settings).await;
    let mut reader = world.server().await;
    reader.sync(&json!({"timestamp": 0})).await;
    let mut slow = slow(&world).await;
    flood(&world, &mut reader).await;
    let mut last = None;
    while let Some(message) = slow.next().await {
        last = Some(message);
    }
    let Some(Message::Close(Some(CloseFrame { code, .. }))) = last else { panic!("{last:?}") };
    assert_eq!(u16::from(code), 1011);
    reader.hears_nothing().await;
}

#[tokio::test]
async fn a_slow_reader_that_stays_away_is_let_go() {
    let settings = Settings {
        behind_max: 3,
        farewell_timeout: std::time::Duration::from_millis(20),
        ..Settings::default()
    };
    let world = World::start_with(settings).await;
    let mut reader = world.server().await;
    reader.hears_nothing().await;
    let slow = slow(&world).await;
    flood(&world, &mut reader).await;
    world.until_open(1).await;
    drop(slow);
}

#[tokio::test]
async fn a_socket_that_does_not_take_a_message_in_time_is_let_go() {
    let settings = Settings {
        write_timeout: std::time::Duration::from_millis(20),
        farewell_timeout: std::time::Duration::from_millis(20),
        ..Settings::default()
    };
    let world = World::start_with(settings).await;
    let slow = slow(&world).await;
    world.change_flag(CHECKOUT, 1, |it| it.description = Some("x".repeat(10_000_000)));
    world.until_open(0).await;
    drop(slow);
}

#[tokio::test]
async fn a_slow_reader_that_is_not_far_behind_gets_one_patch_with_everything() {
    let world = World::start().await;
    let mut slow = slow(&world).await;
    let mut reader = world.server().await;
    reader.hears_nothing().await;
    world.change_flag(CHECKOUT, 1, |it| it.description = Some("x".repeat(10_000_000)));
    // The one that reads was woken after the one that does not.
    reader.data().await;
    for second in 2..20 {
        let key = if second % 2 == 0 { LAYOUT } else { "banner" };
        world.change_flag(key, second, |it| it.name.push('!'));
        reader.data().await;
    }
    assert_eq!(keys(&slow.data().await, "key"), [CHECKOUT]);
    let rest = slow.data().await;
    assert_eq!(keys(&rest, "key"), ["banner", LAYOUT]);
    assert_eq!(item(&rest, "banner")["updatedAt"], crate::world::moment(19));
    assert_eq!(item(&rest, LAYOUT)["updatedAt"], crate::world::moment(18));
    slow.hears_nothing().await;
}
