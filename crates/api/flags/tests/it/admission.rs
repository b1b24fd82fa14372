//! Which streams are admitted. Refused ones become WebSockets first, too.

use feature_flags::{Environment, Secret, SecretKind};
use flags::{Settings, Token};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::fixture::{
    CLIENT_SECRET, Fixture, RELAY_SECRET, SERVER_SECRET, TIMEOUT, now_ms, sample, stream, token,
};

const INVALID: (u16, &str) = (4003, "invalid request, close by server");
const TRY_AGAIN_LATER: (u16, &str) = (1013, "too many requests");
const UNAVAILABLE: (u16, &str) = (1011, "service unavailable, close by server");

async fn check(fixture: &Fixture, path: &str, expected: (u16, &str)) {
    let (code, reason) = fixture.client(path).await.ended().await;
    assert_eq!((code, reason.as_str()), expected, "{path}");
}

async fn is_admitted(fixture: &Fixture, path: &str) {
    fixture.client(path).await.receives_nothing().await;
}

#[tokio::test]
async fn invalid_tokens_and_secrets_close_with_4003() {
    let fixture = Fixture::start().await;
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
        check(&fixture, &path, INVALID).await;
    }
    assert_eq!(fixture.cache.open_sockets(), 0);
}

#[tokio::test]
async fn valid_tokens_and_secrets_are_admitted() {
    let fixture = Fixture::start().await;
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
        is_admitted(&fixture, &path).await;
    }
}

#[tokio::test]
async fn the_age_of_a_token_is_bounded_by_a_setting() {
    let settings =
        Settings { token_age_max: std::time::Duration::from_secs(3_600), ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    let aged = |seconds: i64| Token::encode(SERVER_SECRET, now_ms() - seconds * 1_000, 9);
    is_admitted(&fixture, &stream("server", &aged(3_500))).await;
    check(&fixture, &stream("server", &aged(3_700)), INVALID).await;
}

#[tokio::test]
async fn an_unavailable_cache_closes_with_1011() {
    let fixture = Fixture::start().await;
    fixture.cache.set_available(false);
    check(&fixture, &stream("server", &token(SERVER_SECRET)), UNAVAILABLE).await;
    check(&fixture, "/streaming", UNAVAILABLE).await;
    fixture.cache.set_available(true);
    is_admitted(&fixture, &stream("server", &token(SERVER_SECRET))).await;
}

/// Another process may have made it, and answered before it was published here.
#[tokio::test]
async fn a_secret_that_becomes_known_in_time_is_admitted() {
    let settings = Settings { secret_timeout: TIMEOUT, ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    let rotated = "Aq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
    let made = async {
        let mut other = fixture.server().await;
        for _ in 0..3 {
            other.receives_nothing().await;
        }
        let secrets = vec![
            secret(SecretKind::Server, SERVER_SECRET, None),
            secret(SecretKind::Server, rotated, None),
        ];
        fixture.cache.upsert([Environment { secrets, ..sample() }]);
    };
    let path = stream("server", &token(rotated));
    let (mut new, ()) = tokio::join!(fixture.client(&path), made);
    new.receives_nothing().await;
    // An expired secret is known: the stream does not wait for it.
    let ended = vec![secret(SecretKind::Server, rotated, Some(now_ms() - 1))];
    fixture.cache.upsert([Environment { secrets: ended, ..sample() }]);
    check(&fixture, &path, INVALID).await;
}

/// A stream without a permit to wait is asked to reconnect.
#[tokio::test]
async fn streams_above_the_bound_of_unknown_secrets_close_with_1013() {
    let settings =
        Settings { secret_timeout: TIMEOUT, unknown_secrets_max: 2, ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    let unknown = |number: usize| {
        let secret = format!("{number:022}DjchZ8arFUDk-fHCuNkOGn");
        stream("server", &token(&secret))
    };
    let paths: Vec<String> = (0..3).map(unknown).collect();
    let third = async {
        let mut other = fixture.server().await;
        for _ in 0..3 {
            other.receives_nothing().await;
        }
        fixture.client(&paths[2]).await.ended().await.0
    };
    tokio::select! {
        biased;
        _ = fixture.client(&paths[0]) => panic!("the stream does not wait"),
        _ = fixture.client(&paths[1]) => panic!("the stream does not wait"),
        code = third => assert_eq!(code, 1013),
    }
    is_admitted(&fixture, &stream("server", &token(SERVER_SECRET))).await;
}

#[tokio::test]
async fn sockets_above_their_bound_close_with_1011() {
    let fixture = Fixture::start_with(Settings { sockets_max: 2, ..Settings::default() }).await;
    let (mut one, mut two) = (fixture.server().await, fixture.server().await);
    one.receives_nothing().await;
    two.receives_nothing().await;
    check(&fixture, &stream("server", &token(SERVER_SECRET)), UNAVAILABLE).await;
    drop(two);
    fixture.until_open(1).await;
    is_admitted(&fixture, &stream("server", &token(SERVER_SECRET))).await;
}

#[tokio::test]
async fn a_prefix_stands_before_the_path() {
    let settings = Settings { prefix: "/flags".to_owned(), ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    is_admitted(&fixture, &format!("/flags{}", stream("server", &token(SERVER_SECRET)))).await;
}

fn secret(kind: SecretKind, value: &str, expires_at_ms: Option<i64>) -> Secret {
    Secret { kind, value: value.to_owned(), expires_at_ms }
}

#[tokio::test]
async fn rotated_secrets_overlap_and_expire() {
    let fixture = Fixture::start().await;
    let rotated = "Aq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
    let put = |old_ends_at_ms| {
        let secrets = vec![
            secret(SecretKind::Server, SERVER_SECRET, Some(old_ends_at_ms)),
            secret(SecretKind::Server, rotated, None),
        ];
        fixture.cache.upsert([Environment { secrets, ..sample() }]);
    };
    let mut old = fixture.server().await;
    old.receives_nothing().await;
    put(now_ms() + 3_600_000);
    old.receives_nothing().await;
    is_admitted(&fixture, &stream("server", &token(SERVER_SECRET))).await;
    let mut new = fixture.client(&stream("server", &token(rotated))).await;
    new.receives_nothing().await;
    put(now_ms() - 1);
    assert_eq!(old.ended().await.0, 4003);
    assert!(fixture.cache.find(SERVER_SECRET).is_none() && fixture.cache.find(rotated).is_some());
    check(&fixture, &stream("server", &token(SERVER_SECRET)), INVALID).await;
    new.receives_nothing().await;
}

#[tokio::test]
async fn a_removed_secret_closes_only_its_sockets() {
    let fixture = Fixture::start().await;
    let (mut server, mut browser) = (fixture.server().await, fixture.browser().await);
    server.receives_nothing().await;
    browser.receives_nothing().await;
    let secrets = vec![secret(SecretKind::Server, SERVER_SECRET, None)];
    fixture.cache.upsert([Environment { secrets, ..sample() }]);
    assert_eq!(browser.ended().await.0, 4003);
    server.receives_nothing().await;
    fixture.cache.remove(sample().id);
    assert_eq!(server.ended().await.0, 4003);
    check(&fixture, &stream("server", &token(SERVER_SECRET)), INVALID).await;
}

#[tokio::test]
async fn a_secret_of_two_environments_grants_neither() {
    let fixture = Fixture::start().await;
    let id = Uuid::from_u128(7);
    let other = Environment {
        id,
        secrets: vec![secret(SecretKind::Server, SERVER_SECRET, None)],
        ..sample()
    };
    fixture.cache.upsert([other]);
    check(&fixture, &stream("server", &token(SERVER_SECRET)), INVALID).await;
    assert!(fixture.cache.find(CLIENT_SECRET).is_some());
    fixture.cache.remove(id);
    is_admitted(&fixture, &stream("server", &token(SERVER_SECRET))).await;
}

#[tokio::test]
async fn requests_without_a_valid_handshake_are_refused() {
    let fixture = Fixture::start().await;
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
        let mut stream = TcpStream::connect(fixture.address).await.unwrap();
        stream.write_all(format!("{request}Host: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer, format!("HTTP/1.1 {status}"), "{request}");
    }
}

#[tokio::test]
async fn sockets_above_the_environments_limit_close_with_1013() {
    let settings = Settings { environment_streams_max: 2, ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    let (mut one, mut two) = (fixture.server().await, fixture.server().await);
    one.receives_nothing().await;
    two.receives_nothing().await;
    let url = stream("server", &token(SERVER_SECRET));
    check(&fixture, &url, TRY_AGAIN_LATER).await;
    // A relay proxy follows this environment and others, none of which keeps a part of it.
    check(&fixture, &stream("relay-proxy", RELAY_SECRET), TRY_AGAIN_LATER).await;
    drop(two);
    fixture.until_open(1).await;
    is_admitted(&fixture, &url).await;
}
