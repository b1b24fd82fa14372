//! The routes of sign-up.

use std::collections::BTreeMap;

use axum::body::Body;
use domain::Timestamp;
use domain::customer::TokenPurpose;
use futures_util::future::join_all;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use sign_up::passwords::{Cost, Hasher, Options};
use sign_up::totp::Secret;
use tempfile::tempdir;
use tower::ServiceExt as _;

use crate::world::{ADMIN, CLERK, PASSWORD, TENANT, World, form, login};

const ADA: &str = "ada@example.com";

#[tokio::test]
async fn registering_does_not_reveal_whether_an_address_has_a_customer() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut new = form(ADA);
    new["company"] = json!("Analytical Engines");
    new["preferences"] = json!({"theme": "dark"});
    let first = world.post("/v1/registrations", new).await;
    assert_eq!(
        (first.status.as_u16(), &first.body),
        (202, &json!({"status": "verification-sent"}))
    );
    let again = world.post("/v1/registrations", form("ADA@Example.com")).await;
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(again.headers, first.headers);

    let unverified = world.post("/v1/sessions", login(ADA, PASSWORD)).await;
    assert_eq!(unverified.outcome(), (401, "credentials-wrong"));
    let token = world.mailed(ADA, TokenPurpose::Verification).await;
    for email in [ADA, "unknown@example.com"] {
        let resent = world.post("/v1/registrations/resend", json!({"email": email})).await;
        assert_eq!((resent.status.as_u16(), &resent.body), (202, &first.body));
    }
    let verify = |token: String| world.post("/v1/registrations/verify", json!({"token": token}));
    assert_eq!(verify(token).await.outcome(), (400, "token-invalid"), "replaced by the next");
    let token = world.mailed(ADA, TokenPurpose::Verification).await;
    assert_eq!(verify(token.clone()).await.status, 204);
    assert_eq!(verify(token).await.outcome(), (400, "token-invalid"), "used");
    assert_eq!(world.post("/v1/sessions", login(ADA, PASSWORD)).await.status, 201);
    world.stop().await;
}

/// A login with the password of a registration fails alike, whether the address was free or not.
#[tokio::test]
async fn logging_in_does_not_reveal_whether_an_address_had_a_customer() {
    const FREE: &str = "grace@example.com";
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.logged_in(ADA).await;
    let mut answers = vec![];
    for email in [ADA, FREE] {
        let mut new = form(email);
        new["password"] = json!("Battery-Staple-8");
        assert_eq!(world.post("/v1/registrations", new).await.status, 202);
        answers.push(world.post("/v1/sessions", login(email, "Battery-Staple-8")).await);
    }
    let [taken, free] = &answers[..] else { unreachable!("two responses") };
    assert_eq!(taken.outcome(), (401, "credentials-wrong"));
    assert_eq!((taken.status, &taken.body), (free.status, &free.body));
    assert_eq!(taken.headers, free.headers);
    world.stop().await;
}

/// Commits are attempted only where the address has a customer, so that a failure must not show.
#[tokio::test]
async fn requesting_a_mail_has_the_same_response_where_commits_fail() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.post("/v1/registrations", form(ADA)).await;
    let router = world.router.clone();
    world.stop().await;
    for path in ["/v1/password-resets", "/v1/registrations/resend"] {
        let mut statuses = vec![];
        for email in [ADA, "unknown@example.com"] {
            let body = Body::from(json!({"email": email}).to_string());
            let request = Request::post(path).body(body).unwrap();
            statuses.push(router.clone().oneshot(request).await.unwrap().status());
        }
        assert_eq!(statuses, [StatusCode::ACCEPTED; 2], "{path}");
    }
}

#[tokio::test]
async fn all_invalid_fields_are_reported_at_once_without_their_values() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let wrong = json!({
        "email": "malformed", "password": "short", "firstName": "", "lastName": "L",
        "acceptTerms": false, "phone": "0", "timeZone": "Mars", "company": "x".repeat(101),
        "country": "x".repeat(51), "language": "x".repeat(11), "preferences": [],
        "callback": {"url": "https://example.com", "secret": ""},
    });
    let refused = world.post("/v1/registrations", wrong).await;
    assert_eq!(refused.outcome(), (422, "wrong-fields"));
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    let problems = refused.body["problems"].as_array().unwrap();
    let mut fields: Vec<_> = problems.iter().map(|it| it["field"].as_str().unwrap()).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "acceptTerms",
            "callback",
            "company",
            "country",
            "email",
            "firstName",
            "language",
            "password",
            "phone",
            "preferences",
            "timeZone",
        ]
    );
    assert!(!refused.body.to_string().contains("malformed"));

    let field = async |body: Value| {
        let refused = world.post("/v1/registrations", body).await;
        assert_eq!(refused.outcome(), (400, "invalid-parameter"));
        refused.text("field")
    };
    assert_eq!(field(Value::Null).await, "body");
    assert_eq!(field(json!({"email": 1})).await, "email");
    assert_eq!(field(json!({"email": "a@b.example"})).await, "password");
    let mut odd = form(ADA);
    odd["admin"] = json!(true);
    assert_eq!(field(odd).await, "admin");
    let large = json!({"email": "x".repeat(80 * 1024)});
    let refused = world.post("/v1/registrations", large).await;
    assert_eq!(refused.outcome(), (413, "body-too-large"));
    let post = (Method::POST, "/v1/registrations");
    for key in ["", &"k".repeat(256)] {
        let refused = world.call(post.clone(), &[("idempotency-key", key)], form(ADA)).await;
        assert_eq!((refused.outcome().0, refused.text("field").as_str()), (400, "Idempotency-Key"));
    }
    let refused = world.call((Method::PUT, "/v1/registrations"), &[], Value::Null).await;
    assert_eq!(refused.outcome(), (405, "method-not-allowed"));
    world.stop().await;
}

#[tokio::test]
async fn a_request_with_an_idempotency_key_is_repeatable() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let key = [("idempotency-key", "one")];
    let post = |path: &'static str, body: Value| world.call((Method::POST, path), &key, body);
    for _ in 0..2 {
        assert_eq!(post("/v1/registrations", form(ADA)).await.status, 202);
    }
    let mut other = form(ADA);
    other["lastName"] = json!("Byron");
    let refused = post("/v1/registrations", other).await;
    assert_eq!(refused.outcome(), (422, "idempotency-key-reused"));
    let mails = world.engine.read(|queries| {
        queries.mails_due(domain::Timestamp(i64::MAX), 100).map(|mails| mails.len())
    });
    assert_eq!(mails.await.unwrap(), 2, "welcome and verification, and nothing of a taken address");

    let logged_in = world.logged_in("grace@example.com").await;
    let refresh = json!({"refreshToken": logged_in.text("refreshToken")});
    let [first, again] = [(); 2].map(|()| post("/v1/sessions/refresh", refresh.clone()));
    let (first, again) = (first.await, again.await);
    assert_eq!((first.status.as_u16(), &first.body), (200, &again.body));
    let [first, again] =
        [(); 2].map(|()| post("/v1/sessions", login("grace@example.com", PASSWORD)));
    let (first, again) = (first.await, again.await);
    assert_eq!((first.status.as_u16(), &first.body), (201, &again.body));
    world.stop().await;
}

#[tokio::test]
async fn sessions_are_renewed_listed_and_ended() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let first = world.logged_in(ADA).await;
    assert_eq!(first.headers["cache-control"], "no-store");
    for (email, password) in [(ADA, "Wrong-Horse-7"), ("unknown@example.com", PASSWORD), ("", "")] {
        let refused = world.post("/v1/sessions", login(email, password)).await;
        assert_eq!(refused.outcome(), (401, "credentials-wrong"));
        assert_eq!(refused.headers["www-authenticate"], "Bearer realm=\"faregate\"");
    }
    let refresh = async |token: &str| {
        world.post("/v1/sessions/refresh", json!({"refreshToken": token})).await
    };
    let renewed = refresh(&first.text("refreshToken")).await;
    assert_eq!(renewed.status, 200);
    let list = async |token: &str| {
        world.as_customer(token, (Method::GET, "/v1/sessions"), Value::Null).await
    };
    assert_eq!(list(&first.text("accessToken")).await.outcome(), (401, "not-logged-in"));
    let token = renewed.text("accessToken");
    let listed = list(&token).await;
    assert_eq!(listed.body["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(listed.body["sessions"][0]["current"], true);
    // Another tab renews at once: it gets the same tokens.
    let same = refresh(&first.text("refreshToken")).await;
    assert_eq!(same.status, 200);
    assert_eq!(same.text("accessToken"), token);
    let token = refresh(&renewed.text("refreshToken")).await.text("accessToken");
    // A copy of a token that was used before that: the session ends for both.
    assert_eq!(refresh(&first.text("refreshToken")).await.outcome(), (400, "token-invalid"));
    assert_eq!(list(&token).await.outcome(), (401, "not-logged-in"));
    assert_eq!(refresh("nonsense").await.outcome(), (400, "token-invalid"));

    let log_in =
        async || world.post("/v1/sessions", login(ADA, PASSWORD)).await.text("accessToken");
    let (one, two, three) = (log_in().await, log_in().await, log_in().await);
    let delete = async |token: &str, path: &str| {
        world.as_customer(token, (Method::DELETE, path), Value::Null).await
    };
    assert_eq!(delete(&one, "/v1/sessions/current").await.status, 204);
    assert_eq!(list(&one).await.outcome(), (401, "not-logged-in"));
    let listed = list(&two).await;
    let of_three = listed.body["sessions"].as_array().unwrap();
    let of_three = of_three.iter().find(|it| it["current"] == false).unwrap();
    let path = format!("/v1/sessions/{}", of_three["id"].as_str().unwrap());
    assert_eq!(delete(&two, &path).await.status, 204);
    assert_eq!(list(&three).await.outcome(), (401, "not-logged-in"));
    for gone in [path.as_str(), "/v1/sessions/x"] {
        assert_eq!(delete(&two, gone).await.outcome(), (404, "not-found"));
    }
    assert_eq!(delete(&two, "/v1/sessions").await.status, 204);
    assert_eq!(list(&two).await.outcome(), (401, "not-logged-in"));
    world.stop().await;
}

#[tokio::test]
async fn passwords_are_set_by_a_mailed_token_or_the_current_password() {
    const NEXT: &str = "Battery-Staple-8";
    const LAST: &str = "Paper-Clip-Box-9";
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    for email in [ADA, "unknown@example.com"] {
        let context = world.post("/v1/password-resets", json!({"email": email})).await;
        assert_eq!(context.status, 202);
        assert_eq!(context.body, json!({"status": "mail-sent-if-known"}));
    }
    let refused = world.post("/v1/password-resets", json!({"email": "none"})).await;
    assert_eq!(refused.outcome(), (422, "wrong-fields"));
    let mailed = world.mailed(ADA, TokenPurpose::PasswordReset).await;
    let complete = async |token: &str, password: &str| {
        let body = json!({"token": token, "newPassword": password});
        world.post("/v1/password-resets/complete", body).await
    };
    assert_eq!(complete("nonsense", NEXT).await.outcome(), (400, "token-invalid"));
    let refused = complete(&mailed, "short").await;
    assert_eq!(refused.outcome(), (422, "wrong-fields"));
    assert_eq!(refused.body["problems"][0]["field"], "newPassword");
    assert_eq!(complete(&mailed, NEXT).await.status, 204);
    assert_eq!(complete(&mailed, NEXT).await.outcome(), (400, "token-invalid"));
    let me = async |token: &str, current: &str, new: &str| {
        let body = json!({"currentPassword": current, "newPassword": new});
        world.as_customer(token, (Method::PUT, "/v1/me/password"), body).await
    };
    assert_eq!(me(&token, NEXT, LAST).await.outcome(), (401, "not-logged-in"), "sessions ended");
    let token = world.post("/v1/sessions", login(ADA, NEXT)).await.text("accessToken");
    assert_eq!(me(&token, PASSWORD, LAST).await.outcome(), (401, "credentials-wrong"));
    assert_eq!(me(&token, NEXT, "short").await.outcome(), (422, "wrong-fields"));
    assert_eq!(me(&token, NEXT, LAST).await.status, 204);
    assert_eq!(world.post("/v1/sessions", login(ADA, LAST)).await.status, 201);
    world.stop().await;
}

/// Such a token is refused before the password is validated.
#[tokio::test]
async fn tokens_that_are_expired_or_of_another_tenant_are_refused() {
    const LATER_US: i64 = 2 * Timestamp::DAY_US;
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.logged_in(ADA).await;
    world.post("/v1/password-resets", json!({"email": ADA})).await;
    let token = world.mailed(ADA, TokenPurpose::PasswordReset).await;
    world.post("/v1/registrations", form("grace@example.com")).await;
    let unverified = world.mailed("grace@example.com", TokenPurpose::Verification).await;
    let other = [(TENANT[0].0, "main"), TENANT[1]];
    let check = async |headers: &[(&str, &str)], password: &str, outcome: (u16, &str)| {
        let body = json!({"token": token, "newPassword": password});
        let path = "/v1/password-resets/complete";
        let answer = world.call((Method::POST, path), headers, body).await;
        assert_eq!(answer.outcome(), outcome);
    };
    check(&other, "Battery-Staple-8", (400, "token-invalid")).await;
    check(&[], "weak", (422, "wrong-fields")).await;
    let clock = world.engine.clock();
    clock.set(clock.now().plus_us(LATER_US));
    check(&[], "weak", (400, "token-invalid")).await;
    check(&[], "Battery-Staple-8", (400, "token-invalid")).await;
    let verify = json!({"token": unverified});
    let refused = world.post("/v1/registrations/verify", verify).await;
    assert_eq!(refused.outcome(), (400, "token-invalid"));
    clock.reset();
    check(&[], "Battery-Staple-8", (204, "")).await;
    world.stop().await;
}

#[tokio::test]
async fn logging_in_replaces_hashes_of_other_algorithms_or_parameters() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.logged_in(ADA).await;
    let stored = async || world.customer(ADA).await.unwrap().credentials.password_hash;
    let parameters = |hash: &str| hash.split('$').nth(3).unwrap().to_owned();
    let ours = parameters(&stored().await);
    let options = Options { threads: 1, cost: Cost::new(16, 2, 1).unwrap(), ..Options::default() };
    let other = Hasher::new(options).unwrap().hash(PASSWORD.to_owned()).await.unwrap();
    let bcrypt = bcrypt::hash_with_salt(PASSWORD, 4, [3; 16]).unwrap();
    let bcrypt = bcrypt.format_for_version(bcrypt::Version::TwoB);
    for old in [bcrypt, other.into_string()] {
        assert_ne!(parameters(&old), ours);
        world.store_hash(ADA, &old).await;
        let wrong = world.post("/v1/sessions", login(ADA, "Wrong-Horse-7")).await;
        assert_eq!(wrong.outcome(), (401, "credentials-wrong"));
        assert_eq!(stored().await, old);
        for _ in 0..2 {
            assert_eq!(world.post("/v1/sessions", login(ADA, PASSWORD)).await.status, 201);
            assert_eq!(parameters(&stored().await), ours);
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn customers_read_change_and_erase_their_data() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    let me = async |method, body| world.as_customer(&token, (method, "/v1/me"), body).await;
    let shown = me(Method::GET, Value::Null).await;
    assert_eq!((shown.text("email").as_str(), shown.text("firstName").as_str()), (ADA, "Ada"));
    assert_eq!(shown.body["secondFactor"], false);
    let change = json!({"phone": "+263771234567", "preferences": {"theme": "dark"}});
    let changed = me(Method::PATCH, change).await;
    assert_eq!(
        (changed.status.as_u16(), &changed.body["preferences"]),
        (200, &json!({"theme": "dark"}))
    );
    assert_eq!(
        (changed.text("phone").as_str(), changed.text("lastName").as_str()),
        ("+263771234567", "Lovelace")
    );
    let change = json!({"preferences": {"timezone": "UTC", "digest": {"hour": 7}}});
    assert_eq!(me(Method::PATCH, change).await.text("timeZone"), "UTC");
    let changed = me(Method::PATCH, json!({"preferences": {"theme": null}})).await;
    assert_eq!(
        changed.body["preferences"],
        json!({"timezone": "UTC", "digest": {"hour": 7}}),
        "what is not named stays, and null takes away"
    );
    let half = |name: &str| json!({"preferences": {name: "x".repeat(9000)}});
    assert_eq!(me(Method::PATCH, half("a")).await.status, 200);
    let both = me(Method::PATCH, half("b")).await;
    assert_eq!(both.outcome(), (422, "wrong-fields"), "16 KiB are the most, also together");
    for wrong in
        [json!({"phone": "x"}), json!({"firstName": ""}), json!({"company": "x".repeat(101)})]
    {
        assert_eq!(me(Method::PATCH, wrong).await.outcome(), (422, "wrong-fields"));
    }
    let anonymous = world.call((Method::GET, "/v1/me"), &[], Value::Null).await;
    assert_eq!(anonymous.outcome(), (401, "not-logged-in"));
    let wrong = me(Method::DELETE, json!({"password": "Wrong-Horse-7"})).await;
    assert_eq!(wrong.outcome(), (401, "credentials-wrong"));
    assert_eq!(me(Method::DELETE, Value::Null).await.outcome(), (400, "invalid-parameter"));
    assert_eq!(me(Method::DELETE, json!({"password": PASSWORD})).await.status, 204);
    assert_eq!(me(Method::GET, Value::Null).await.outcome(), (401, "not-logged-in"));
    assert!(world.customer(ADA).await.is_none());
    world.stop().await;
}

#[tokio::test]
async fn concurrent_changes_of_preferences_are_merged() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    let put = async |name: String| {
        let change = json!({"preferences": {&name: true}});
        let answered = world.as_customer(&token, (Method::PATCH, "/v1/me"), change).await;
        (name, answered)
    };
    let stored = async || -> BTreeMap<String, bool> {
        let stored = world.customer(ADA).await.unwrap().profile.preferences;
        serde_json::from_str(&stored).unwrap()
    };
    let all = join_all((0..16).map(|no| put(format!("a{no}")))).await;
    assert!(all.iter().all(|(_, answered)| answered.status == 200));
    assert_eq!(stored().await.len(), 16);
    // Of more than a client would ever send, each is stored or refused.
    let (made, late): (Vec<_>, Vec<_>) = join_all((0..100).map(|no| put(format!("b{no}"))))
        .await
        .into_iter()
        .partition(|(_, answered)| answered.status == 200);
    assert!(late.iter().all(|(_, it)| it.status == 503 && it.headers.contains_key("retry-after")));
    let stored = stored().await;
    assert_eq!(stored.len(), 16 + made.len());
    assert!(made.iter().all(|(name, _)| stored.contains_key(name)));
    world.stop().await;
}

#[tokio::test]
async fn preferences_that_cannot_be_read_are_not_overwritten() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    let change = json!({"preferences": {"theme": "dark"}});
    let patch = |change| world.as_customer(&token, (Method::PATCH, "/v1/me"), change);
    world.store_preferences(ADA, "{broken").await;
    assert_eq!(patch(change).await.status, 500);
    assert_eq!(patch(json!({"phone": "+263771234567"})).await.status, 200, "the rest is theirs");
    assert_eq!(world.customer(ADA).await.unwrap().profile.preferences, "{broken");
    world.stop().await;
}

#[tokio::test]
async fn the_time_zone_is_stored_in_the_preferences() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut new = form(ADA);
    new["timeZone"] = json!("Africa/Harare");
    new["preferences"] = json!({"theme": "dark"});
    assert_eq!(world.post("/v1/registrations", new).await.status, 202);
    let stored = world.customer(ADA).await.unwrap().profile.preferences;
    assert_eq!(stored, r#"{"theme":"dark","timezone":"Africa/Harare"}"#);
    let verified = json!({"token": world.mailed(ADA, TokenPurpose::Verification).await});
    assert_eq!(world.post("/v1/registrations/verify", verified).await.status, 204);
    let token = world.post("/v1/sessions", login(ADA, PASSWORD)).await.text("accessToken");
    let shown = world.as_customer(&token, (Method::GET, "/v1/me"), Value::Null).await;
    assert_eq!(shown.text("timeZone"), "Africa/Harare");
    world.stop().await;
}

#[tokio::test]
async fn a_second_factor_is_offered_activated_required_and_removed() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    let factor = async |method, body| {
        world.as_customer(&token, (method, "/v1/me/second-factor"), body).await
    };
    let none = factor(Method::PUT, json!({"code": "123456"})).await;
    assert_eq!(none.outcome(), (409, "no-second-factor"));
    let refused = factor(Method::POST, json!({"password": "Wrong-Horse-7"})).await;
    assert_eq!(refused.outcome(), (401, "credentials-wrong"));
    let offered = factor(Method::POST, json!({"password": PASSWORD})).await;
    assert_eq!(offered.status, 201);
    let codes = offered.body["recoveryCodes"].as_array().unwrap().clone();
    let wrong = factor(Method::PUT, json!({"code": "no code"})).await;
    assert_eq!(wrong.outcome(), (401, "code-wrong"));
    let secret = waiting_secret(&world, ADA).await;
    assert_eq!(secret.base32(), offered.text("secret"));
    let code = code_now(&world, &secret);
    assert_eq!(factor(Method::PUT, json!({"code": code})).await.status, 204);
    assert_eq!(
        world.post("/v1/sessions", login(ADA, PASSWORD)).await.outcome(),
        (401, "code-needed")
    );
    let with = async |code: &Value| {
        let mut login = login(ADA, PASSWORD);
        login["code"] = code.clone();
        world.post("/v1/sessions", login).await
    };
    assert_eq!(with(&json!(code)).await.outcome(), (401, "code-wrong"), "used to confirm");
    assert_eq!(with(&codes[0]).await.status, 201);
    assert_eq!(with(&codes[0]).await.outcome(), (401, "code-wrong"), "each once");
    let refused = factor(Method::DELETE, json!({"password": "Wrong-Horse-7"})).await;
    assert_eq!(refused.outcome(), (401, "credentials-wrong"));
    let remove = async |code: &Value| {
        factor(Method::DELETE, json!({"password": PASSWORD, "code": code})).await
    };
    assert_eq!(remove(&Value::Null).await.outcome(), (401, "code-needed"));
    assert_eq!(remove(&codes[0]).await.outcome(), (401, "code-wrong"));
    assert_eq!(remove(&codes[1]).await.status, 204);
    assert_eq!(world.post("/v1/sessions", login(ADA, PASSWORD)).await.status, 201);
    world.stop().await;
}

#[tokio::test]
async fn wrong_codes_do_not_lock_out_a_recovery_code() {
    let dir = tempdir().unwrap();
    let limits = sign_up::limits::Settings { codes_per_hour: 1, ..sign_up::limits::Settings::OFF };
    let world = World::start_with(dir.path(), limits).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    let (code, recovery) = with_second_factor(&world, &token).await;
    let with = async |code: &Value| {
        let mut login = login(ADA, PASSWORD);
        login["code"] = code.clone();
        world.post("/v1/sessions", login).await
    };
    assert_eq!(with(&json!(code)).await.outcome(), (401, "code-wrong"));
    assert_eq!(with(&json!(code)).await.outcome(), (429, "too-many-requests"));
    assert_eq!(with(&recovery[0]).await.status, 201);
    world.stop().await;
}

/// Activates a second factor: the code that did, which is used up, and the recovery codes.
async fn with_second_factor(world: &World, token: &str) -> (String, Value) {
    let factor =
        async |method, body| world.as_customer(token, (method, "/v1/me/second-factor"), body).await;
    let offered = factor(Method::POST, json!({"password": PASSWORD})).await;
    let code = code_now(world, &waiting_secret(world, ADA).await);
    assert_eq!(factor(Method::PUT, json!({"code": code})).await.status, 204);
    (code, offered.body["recoveryCodes"].clone())
}

/// A stolen access token and password are not enough to erase somebody with a second factor.
#[tokio::test]
async fn erasure_needs_a_code_of_an_active_second_factor() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    let (code, recovery) = with_second_factor(&world, &token).await;
    let erase = async |code: &Value| {
        let body = json!({"password": PASSWORD, "code": code});
        world.as_customer(&token, (Method::DELETE, "/v1/me"), body).await
    };
    assert_eq!(erase(&Value::Null).await.outcome(), (401, "code-needed"));
    assert_eq!(erase(&json!(code)).await.outcome(), (401, "code-wrong"), "used to confirm");
    assert_eq!(erase(&recovery[0]).await.status, 204);
    world.stop().await;
}

/// A stolen access token and password are not enough to replace the second factor.
#[tokio::test]
async fn a_second_factor_stays_active_until_another_one_is_activated() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    let factor = async |method, body| {
        world.as_customer(&token, (method, "/v1/me/second-factor"), body).await
    };
    let offer = async |code: &Value| {
        factor(Method::POST, json!({"password": PASSWORD, "code": code})).await
    };
    let confirm = async || {
        let code = code_now(&world, &waiting_secret(&world, ADA).await);
        factor(Method::PUT, json!({"code": code})).await
    };
    let log_in = async |code: &Value| {
        let mut login = login(ADA, PASSWORD);
        login["code"] = code.clone();
        world.post("/v1/sessions", login).await
    };
    let first = offer(&Value::Null).await.body["recoveryCodes"].clone();
    assert_eq!(confirm().await.status, 204);

    assert_eq!(offer(&Value::Null).await.outcome(), (401, "code-needed"));
    assert_eq!(offer(&json!("no code")).await.outcome(), (401, "code-wrong"));
    let second = offer(&first[0]).await;
    assert_eq!(second.status, 201);
    assert_eq!(log_in(&Value::Null).await.outcome(), (401, "code-needed"));
    assert_eq!(log_in(&first[1]).await.status, 201, "the first one holds");
    assert_eq!(log_in(&second.body["recoveryCodes"][0]).await.outcome(), (401, "code-wrong"));
    assert_eq!(confirm().await.status, 204);
    assert_eq!(log_in(&first[2]).await.outcome(), (401, "code-wrong"));
    assert_eq!(log_in(&second.body["recoveryCodes"][0]).await.status, 201);

    // An operator can remove a second factor that is lost with its recovery codes.
    let path = format!("/v1/customers/{}/second-factor", world.customer(ADA).await.unwrap().id);
    let remove = async |user| {
        let headers = [("authorization", user), TENANT[0], TENANT[1]];
        world.call((Method::DELETE, &path), &headers, Value::Null).await
    };
    assert_eq!(remove(CLERK).await.outcome(), (403, "permission-missing"));
    assert_eq!(remove(ADMIN).await.status, 204);
    assert_eq!(log_in(&Value::Null).await.status, 201);
    world.stop().await;
}

/// A client that did not receive the response repeats the request and gets the same session.
#[tokio::test]
async fn a_login_with_a_code_is_repeatable_with_its_idempotency_key() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    let factor = async |method, body| {
        world.as_customer(&token, (method, "/v1/me/second-factor"), body).await
    };
    let offered = factor(Method::POST, json!({"password": PASSWORD})).await;
    let code = code_now(&world, &waiting_secret(&world, ADA).await);
    assert_eq!(factor(Method::PUT, json!({"code": code})).await.status, 204);
    let log_in = async |key: &str, code: &Value| {
        let mut login = login(ADA, PASSWORD);
        login["code"] = code.clone();
        world.call((Method::POST, "/v1/sessions"), &[("idempotency-key", key)], login).await
    };
    let codes = &offered.body["recoveryCodes"];
    let first = log_in("one", &codes[0]).await;
    let again = log_in("one", &codes[0]).await;
    assert_eq!((first.status.as_u16(), &first.body), (201, &again.body));
    // The key alone is not a second factor.
    assert_eq!(log_in("one", &Value::Null).await.outcome(), (401, "code-needed"));
    assert_eq!(log_in("one", &json!("no code")).await.outcome(), (422, "idempotency-key-reused"));
    assert_eq!(log_in("one", &codes[1]).await.outcome(), (422, "idempotency-key-reused"));
    assert_eq!(log_in("two", &codes[0]).await.outcome(), (401, "code-wrong"), "it was taken");
    assert_eq!(log_in("three", &codes[1]).await.status, 201, "it was not");
    world.stop().await;
}

/// The secret of a second factor that waits for its first code.
async fn waiting_secret(world: &World, email: &str) -> Secret {
    let customer = world.customer(email).await.unwrap();
    let factor = customer.credentials.second_factor.unwrap();
    let purpose = secrets::Purpose::TotpSecret;
    let sealed = factor.waiting().unwrap();
    let opened = world.sign_up.sealer().open(purpose, customer.id.uuid(), sealed).unwrap();
    Secret::from_bytes(&opened).unwrap()
}

/// The current code of a second factor.
fn code_now(world: &World, secret: &Secret) -> String {
    let now = world.engine.clock().real_now().0.unsigned_abs() / 1_000_000;
    secret.code_at(now)
}

#[tokio::test]
async fn operators_read_deactivate_and_erase_customers_of_their_tenant() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let token = world.logged_in(ADA).await.text("accessToken");
    let id = world.customer(ADA).await.unwrap().id.to_string();
    let admin = [("authorization", ADMIN), TENANT[0], TENANT[1]];
    let call = async |method, path: &str| world.call((method, path), &admin, Value::Null).await;
    let listed = call(Method::GET, "/v1/customers?limit=10").await;
    assert_eq!(listed.body["customers"][0]["id"], id.as_str());
    assert_eq!(listed.body["customers"][0]["status"], "active");
    assert_eq!(call(Method::GET, "/v1/customers?limit=1001").await.text("field"), "limit");
    assert_eq!(call(Method::GET, "/v1/customers?x=1").await.text("field"), "x");
    let path = format!("/v1/customers/{id}");
    assert_eq!(call(Method::GET, &path).await.text("email"), ADA);
    for path in ["/v1/customers/x", "/v1/customers/0192aabb-ccdd-7123-9456-789abcdef012"] {
        assert_eq!(call(Method::GET, path).await.outcome(), (404, "not-found"));
    }
    assert_eq!(call(Method::POST, &format!("{path}/deactivate")).await.status, 204);
    let me = world.as_customer(&token, (Method::GET, "/v1/me"), Value::Null).await;
    assert_eq!(me.outcome(), (401, "not-logged-in"));
    assert_eq!(
        world.post("/v1/sessions", login(ADA, PASSWORD)).await.outcome(),
        (403, "deactivated")
    );
    assert_eq!(call(Method::POST, &format!("{path}/activate")).await.status, 204);
    assert_eq!(world.post("/v1/sessions", login(ADA, PASSWORD)).await.status, 201);

    let refused = async |headers: Vec<(&'static str, &'static str)>| {
        world.call((Method::DELETE, &path), &headers, Value::Null).await
    };
    let outcome = refused(vec![TENANT[0], TENANT[1]]).await;
    assert_eq!(outcome.outcome(), (401, "credentials-missing"));
    assert!(outcome.headers["www-authenticate"].to_str().unwrap().starts_with("Basic"));
    assert_eq!(refused(vec![("authorization", ADMIN)]).await.outcome(), (401, "tenant-missing"));
    let clerk = vec![("authorization", CLERK), TENANT[0], TENANT[1]];
    assert_eq!(refused(clerk).await.outcome(), (403, "permission-missing"));
    let half = vec![("authorization", ADMIN), TENANT[0]];
    assert_eq!(refused(half).await.outcome(), (401, "tenant-missing"));
    let wrong = vec![("authorization", ADMIN), TENANT[0], (TENANT[1].0, "wrong")];
    assert_eq!(refused(wrong).await.outcome(), (401, "tenant-unknown"));
    let other = vec![("authorization", ADMIN), (TENANT[0].0, "main"), TENANT[1]];
    assert_eq!(refused(other).await.outcome(), (404, "not-found"), "another tenant's");

    assert_eq!(call(Method::DELETE, &path).await.status, 204);
    assert_eq!(call(Method::GET, &path).await.outcome(), (404, "not-found"));
    let listed = call(Method::GET, "/v1/customers").await;
    assert_eq!(listed.body["customers"][0]["status"], "erased");
    assert!(listed.body["customers"][0]["email"].is_null());
    world.stop().await;
}
