//! Streams that are not let in: all of them become WebSockets first.

use flags::{Environment, Secret, SecretKind, Settings, Token};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::world::{
    CLIENT_SECRET, PATIENCE, RELAY_SECRET, SERVER_SECRET, World, now_ms, sample, stream, token,
};

const INVALID: (u16, &str) = (4003, "invalid request, close by server");
const UNAVAILABLE: (u16, &str) = (1011, "service unavailable, close by server");

async fn check(world: &World, path: &str, expected: (u16, &str)) {
    let (code, reason) = world.client(path).await.ended().await;
    assert_eq!((code, reason.as_str()), expected, "{path}");
}

async fn is_let_in(world: &World, path: &str) {
    world.client(path).await.hears_nothing().await;
}

#[tokio::test]
async fn every_wrong_kind_of_token() {
    let world = World::start().await;
    let good = token(SERVER_SECRET);
    let aged = |seconds: i64| Token::encode(SERVER_SECRET, now_ms() - seconds * 1_000, 9);
    let unknown = "Zq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
    for path in [
        "/streaming".to_owned(),
        format!("/streaming?token={good}"),
        "/streaming?type=server".to_owned(),
        stream("server", ""),
        stream("server", "abc"),
        stream("server", SERVER_SECRET),
        stream("server", &good[1..]),
        stream("server", &token(&SERVER_SECRET[..40])),
        stream("server", &token(unknown)),
        stream("server", &token(CLIENT_SECRET)),
        stream("client", &good),
        stream("relay-proxy", &good),
        stream("relay-proxy", SERVER_SECRET),
        stream("relay-proxy", "rp-nobody"),
        stream("server", RELAY_SECRET),
        stream("mobile", &good),
        stream("Server", &good),
        stream("server", &aged(31)),
        stream("server", &aged(-31)),
        format!("{}&version=3", stream("server", &good)),
        format!("{}%FF", stream("server", &good)),
    ] {
        check(&world, &path, INVALID).await;
    }
    assert_eq!(world.board.open_sockets(), 0);
}

#[tokio::test]
async fn what_is_let_in() {
    let world = World::start().await;
    let good = token(SERVER_SECRET);
    let aged = |seconds: i64| Token::encode(SERVER_SECRET, now_ms() - seconds * 1_000, 9);
    for path in [
        stream("server", &good),
        stream("client", &token(CLIENT_SECRET)),
        stream("relay-proxy", RELAY_SECRET),
        format!("/streaming?token={good}&type=server"),
        format!("/streaming/?type=server&token={good}"),
        format!("/streaming/more?type=server&token={good}"),
        format!("{}&version=", stream("server", &good)),
        format!("{}&version=1", stream("server", &good)),
        format!("{}&version=2&other=x", stream("server", &good)),
        stream("server", &good.replace('-', "%2D")),
        stream("server", &aged(25)),
        stream("server", &aged(-25)),
    ] {
        is_let_in(&world, &path).await;
    }
}

#[tokio::test]
async fn how_old_a_token_may_be_is_a_setting() {
    let settings =
        Settings { token_age_max: std::time::Duration::from_secs(3_600), ..Settings::default() };
    let world = World::start_with(settings).await;
    let aged = |seconds: i64| Token::encode(SERVER_SECRET, now_ms() - seconds * 1_000, 9);
    is_let_in(&world, &stream("server", &aged(3_500))).await;
    check(&world, &stream("server", &aged(3_700)), INVALID).await;
}

#[tokio::test]
async fn without_the_store_clients_come_again() {
    let world = World::start().await;
    world.board.set_available(false);
    check(&world, &stream("server", &token(SERVER_SECRET)), UNAVAILABLE).await;
    check(&world, "/streaming", UNAVAILABLE).await;
    world.board.set_available(true);
    is_let_in(&world, &stream("server", &token(SERVER_SECRET))).await;
}

/// Another process may have made it, and answered before this one was told.
#[tokio::test]
async fn a_secret_that_becomes_known_in_time_is_let_in() {
    let settings = Settings { secret_patience: PATIENCE, ..Settings::default() };
    let world = World::start_with(settings).await;
    let rotated = "Aq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
    let made = async {
        let mut other = world.server().await;
        for _ in 0..3 {
            other.hears_nothing().await;
        }
        let secrets = vec![
            secret(SecretKind::Server, SERVER_SECRET, None),
            secret(SecretKind::Server, rotated, None),
        ];
        world.board.put([Environment { secrets, ..sample() }]);
    };
    let path = stream("server", &token(rotated));
    let (mut new, ()) = tokio::join!(world.client(&path), made);
    new.hears_nothing().await;
    // One that ended is known: nobody waits for it.
    let ended = vec![secret(SecretKind::Server, rotated, Some(now_ms() - 1))];
    world.board.put([Environment { secrets: ended, ..sample() }]);
    check(&world, &path, INVALID).await;
}

/// Whoever finds no room to wait for that is told to come again, not to stay away.
#[tokio::test]
async fn so_many_wait_for_secrets_to_become_known() {
    let settings = Settings { secret_patience: PATIENCE, strangers_max: 2, ..Settings::default() };
    let world = World::start_with(settings).await;
    let unknown = |number: usize| {
        let secret = format!("{number:022}DjchZ8arFUDk-fHCuNkOGn");
        stream("server", &token(&secret))
    };
    let paths: Vec<String> = (0..3).map(unknown).collect();
    let third = async {
        let mut other = world.server().await;
        for _ in 0..3 {
            other.hears_nothing().await;
        }
        world.client(&paths[2]).await.ended().await.0
    };
    tokio::select! {
        biased;
        _ = world.client(&paths[0]) => panic!("it does not wait"),
        _ = world.client(&paths[1]) => panic!("it does not wait"),
        code = third => assert_eq!(code, 1013),
    }
    is_let_in(&world, &stream("server", &token(SERVER_SECRET))).await;
}

#[tokio::test]
async fn no_more_sockets_than_may_be() {
    let world = World::start_with(Settings { sockets_max: 2, ..Settings::default() }).await;
    let (mut one, mut two) = (world.server().await, world.server().await);
    one.hears_nothing().await;
    two.hears_nothing().await;
    check(&world, &stream("server", &token(SERVER_SECRET)), UNAVAILABLE).await;
    drop(two);
    world.until_open(1).await;
    is_let_in(&world, &stream("server", &token(SERVER_SECRET))).await;
}

#[tokio::test]
async fn a_prefix_stands_before_the_path() {
    let settings = Settings { prefix: "/flags".to_owned(), ..Settings::default() };
    let world = World::start_with(settings).await;
    is_let_in(&world, &format!("/flags{}", stream("server", &token(SERVER_SECRET)))).await;
}

fn secret(kind: SecretKind, value: &str, expires_at_ms: Option<i64>) -> Secret {
    Secret { kind, value: value.to_owned(), expires_at_ms }
}

#[tokio::test]
async fn rotated_secrets_overlap_and_end() {
    let world = World::start().await;
    let rotated = "Aq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
    let put = |old_ends_at_ms| {
        let secrets = vec![
            secret(SecretKind::Server, SERVER_SECRET, Some(old_ends_at_ms)),
            secret(SecretKind::Server, rotated, None),
        ];
        world.board.put([Environment { secrets, ..sample() }]);
    };
    let mut old = world.server().await;
    old.hears_nothing().await;
    put(now_ms() + 3_600_000);
    old.hears_nothing().await;
    is_let_in(&world, &stream("server", &token(SERVER_SECRET))).await;
    let mut new = world.client(&stream("server", &token(rotated))).await;
    new.hears_nothing().await;
    put(now_ms() - 1);
    assert_eq!(old.ended().await.0, 4003);
    assert!(world.board.find(SERVER_SECRET).is_none() && world.board.find(rotated).is_some());
    check(&world, &stream("server", &token(SERVER_SECRET)), INVALID).await;
    new.hears_nothing().await;
}

#[tokio::test]
async fn a_secret_that_is_taken_away_closes_its_sockets_only() {
    let world = World::start().await;
    let (mut server, mut browser) = (world.server().await, world.browser().await);
    server.hears_nothing().await;
    browser.hears_nothing().await;
    let secrets = vec![secret(SecretKind::Server, SERVER_SECRET, None)];
    world.board.put([Environment { secrets, ..sample() }]);
    assert_eq!(browser.ended().await.0, 4003);
    server.hears_nothing().await;
    world.board.remove(sample().id);
    assert_eq!(server.ended().await.0, 4003);
    check(&world, &stream("server", &token(SERVER_SECRET)), INVALID).await;
}

#[tokio::test]
async fn a_secret_that_two_environments_claim_opens_neither() {
    let world = World::start().await;
    let id = Uuid::from_u128(7);
    let other = Environment {
        id,
        secrets: vec![secret(SecretKind::Server, SERVER_SECRET, None)],
        ..sample()
    };
    world.board.put([other]);
    check(&world, &stream("server", &token(SERVER_SECRET)), INVALID).await;
    assert!(world.board.find(CLIENT_SECRET).is_some());
    world.board.remove(id);
    is_let_in(&world, &stream("server", &token(SERVER_SECRET))).await;
}

#[tokio::test]
async fn requests_that_are_for_no_websocket() {
    let world = World::start().await;
    let upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n";
    let key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    let version = "Sec-WebSocket-Version: 13\r\n";
    for (request, status) in [
        (format!("GET /streaming HTTP/1.1\r\n{upgrade}{key}{version}"), "101"),
        (format!("GET /streaming HTTP/1.1\r\n{key}{version}"), "400"),
        (format!("POST /streaming HTTP/1.1\r\n{upgrade}{key}{version}"), "400"),
        (format!("GET /streaming HTTP/1.1\r\n{upgrade}{version}"), "400"),
        (
            format!("GET /streaming HTTP/1.1\r\n{upgrade}Sec-WebSocket-Key: AAAA\r\n{version}"),
            "400",
        ),
        (format!("GET /streaming HTTP/1.1\r\n{upgrade}{key}Sec-WebSocket-Version: 8\r\n"), "426"),
        (format!("GET /streaming HTTP/1.1\r\n{upgrade}{key}"), "426"),
        (format!("GET /streamings HTTP/1.1\r\n{upgrade}{key}{version}"), "404"),
    ] {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        stream.write_all(format!("{request}Host: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer, format!("HTTP/1.1 {status}"), "{request}");
    }
}
