//! Authentication: its cost, its cache and the limits on failed logins.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir, eventually};

/// A resource that requires a user, but no tenant.
const WHO: &str = "/1.0/kb/security/subject";
/// A resource that requires a user and a tenant.
const ACCOUNTS: &str = "/1.0/kb/accounts/pagination";
/// The same, of the native API.
const LEDGER: &str = "/v1/ledger/accounts";

/// Wrong credentials that one name may have from one address in a minute.
const WRONG_OF_NAME_MAX: usize = 20;
/// Wrong credentials that one address may send in a minute.
const WRONG_OF_ADDRESS_MAX: usize = 200;

/// Passwords hashed so far.
fn hashes(server: &Server) -> u64 {
    let metrics = server.metrics();
    let line = metrics.lines().find_map(|it| it.strip_prefix("faregate_password_hashes_total "));
    line.map_or(0, |count| count.parse().unwrap())
}

/// A user who may do nothing but log in.
fn add_user(server: &Server, name: &str) {
    let user = json!({ "username": name, "password": "right", "roles": [] });
    assert_eq!(server.client().post("/1.0/kb/security/users", &user).status, 201);
}

#[test]
fn one_gives_only_what_one_holds() {
    let server = Server::start();
    let admin = server.client();
    let role =
        |name: &str, permissions: &[&str]| json!({ "role": name, "permissions": permissions });
    let user = |name: &str, roles: &[&str]| json!({ "username": name, "password": "right", "roles": roles });
    let (roles, users) = ("/1.0/kb/security/roles", "/1.0/kb/security/users");
    assert_eq!(admin.post(roles, &role("clerks", &["user:create", "payment:*"])).status, 201);
    assert_eq!(admin.post(roles, &role("owners", &["*:*"])).status, 201);
    assert_eq!(admin.post(users, &user("clerk", &["clerks"])).status, 201);
    assert_eq!(admin.post(users, &user("owner", &["owners"])).status, 201);
    let clerk = admin.clone().user("clerk", "right");
    let on = |name: &str, what: &str| format!("{users}/{name}/{what}");

    assert_eq!(clerk.post(roles, &role("refunds", &["payment:refund"])).status, 201);
    assert_eq!(clerk.post(users, &user("new", &["clerks", "refunds"])).status, 201);
    assert_eq!(clerk.put(&on("new", "password"), &json!({ "password": "x" })).status, 204);
    assert_eq!(clerk.put(&on("new", "roles"), &json!({ "roles": ["refunds"] })).status, 204);
    let refused = [
        clerk.post(roles, &role("more", &["account:create"])),
        clerk.post(roles, &role("all", &["*"])),
        clerk.put(roles, &role("clerks", &["payment:*", "account"])),
        clerk.put(roles, &role("owners", &["payment:*"])),
        clerk.post(users, &user("other", &["owners"])),
        clerk.post(users, &user("other", &["made later"])),
        clerk.put(&on("clerk", "roles"), &json!({ "roles": ["owners"] })),
        clerk.put(&on("owner", "roles"), &json!({ "roles": [] })),
        clerk.put(&on("owner", "password"), &json!({ "password": "x" })),
        clerk.delete(&format!("{users}/owner")),
    ];
    for (at, answer) in refused.iter().enumerate() {
        assert_eq!(answer.status, 401, "{at}: {}", answer.text());
        assert!(answer.text().contains("does not have permission"), "{at}: {}", answer.text());
    }
    assert_eq!(admin.clone().user("owner", "right").get(WHO).status, 200);

    // One's own password needs no permission.
    add_user(&server, "joe");
    let joe = admin.clone().user("joe", "right");
    assert_eq!(joe.put(&on("joe", "password"), &json!({ "password": "newer" })).status, 204);
    assert_eq!(joe.get(WHO).status, 401);
    let joe = admin.user("joe", "newer");
    assert_eq!(joe.get(WHO).status, 200);
    assert_eq!(joe.put(&on("new", "password"), &json!({ "password": "x" })).status, 401);
    assert_eq!(joe.put(&on("joe", "roles"), &json!({ "roles": ["owners"] })).status, 401);
}

/// Sends one request per client, all at the same time.
fn all_at_once(clients: &[Client], path: &str) -> Vec<(Answer, Duration)> {
    let start = Barrier::new(clients.len());
    std::thread::scope(|scope| {
        let ask = |client: &Client| {
            start.wait();
            let began = Instant::now();
            (client.get(path), began.elapsed())
        };
        let asking = clients.iter().map(|client| scope.spawn(move || ask(client)));
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

#[test]
fn a_thousand_requests_cost_a_hash_for_the_user_and_one_for_the_tenant() {
    let dir = TempDir::new();
    Server::start_in(dir.path(), Launch::usual()).tenant();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    for path in [ACCOUNTS, LEDGER] {
        (0..500).for_each(|_| assert_eq!(client.get(path).status, 200, "{path}"));
    }
    assert_eq!(hashes(&server), 2);
}

#[test]
fn the_same_credential_is_verified_once_however_many_show_it_at_once() {
    let server = Server::start();
    for (password, status) in [("password", 200), ("wrong", 401)] {
        let before = hashes(&server);
        let client = server.client().user("admin", password);
        for (answer, _) in all_at_once(&vec![client.clone(); 64], WHO) {
            assert_eq!(answer.status, status, "{}", answer.text());
        }
        assert_eq!(client.get(WHO).status, status);
        assert_eq!(hashes(&server) - before, 1, "{password}");
    }
}

#[test]
fn changed_user_counts_from_the_next_request_on() {
    let server = Server::start();
    add_user(&server, "joe");
    let (old, new) = (server.client().user("joe", "right"), server.client().user("joe", "new"));
    assert_eq!((old.get(WHO).status, new.get(WHO).status), (200, 401));
    let path = "/1.0/kb/security/users/joe/password";
    assert_eq!(server.client().put(path, &json!({ "password": "new" })).status, 204);
    assert_eq!((old.get(WHO).status, new.get(WHO).status), (401, 200));
    let before = hashes(&server);
    let roles = json!({ "roles": ["admin"] });
    assert_eq!(server.client().put("/1.0/kb/security/users/joe/roles", &roles).status, 204);
    assert_eq!(new.get("/1.0/kb/security/permissions").json(), json!(["*:*"]));
    assert_eq!(hashes(&server), before, "the password is still the one that was verified");
}

/// Every API that takes a tenant's credentials: what it answers a request with them.
fn statuses(client: &Client) -> [u16; 3] {
    [ACCOUNTS, LEDGER, "/v1/customers"].map(|path| client.get(path).status)
}

#[test]
fn replaced_tenant_secret_is_taken_until_its_overlap_ends() {
    let server = Server::start();
    let old = server.tenant();
    let id = old.get("/1.0/kb/tenants?apiKey=bob").json()["tenantId"].as_str().unwrap().to_owned();
    let (tenant, operator) = (format!("/v1/tenants/{id}"), server.client());
    let rotate = |body| operator.post(&format!("{tenant}/secrets"), &body);

    let drawn = rotate(json!({ "overlapSeconds": 86_400 }));
    assert_eq!(drawn.status, 201, "{}", drawn.text());
    let first = drawn.json()["apiSecret"].as_str().unwrap().to_owned();
    let until = drawn.json()["previousSecretUntil"].clone();
    assert_eq!(operator.get(&tenant).json()["previousSecretUntil"], until);
    let new = old.clone().tenant("bob", &first);
    assert_eq!((statuses(&old), statuses(&new)), ([200; 3], [200; 3]));

    // The end of the overlap counts for what is cached, too.
    let moved = new.put("/1.0/kb/test/clock?days=1", &json!({}));
    assert_eq!(moved.status, 200, "{}", moved.text());
    assert_eq!((statuses(&old), statuses(&new)), ([401; 3], [200; 3]));
    assert_eq!(operator.get(&tenant).json().get("previousSecretUntil"), None);

    let given = "chosen by the operator";
    assert_eq!(rotate(json!({ "apiSecret": given })).json().get("apiSecret"), None);
    let given = new.clone().tenant("bob", given);
    assert_eq!((statuses(&new), statuses(&given)), ([200; 3], [200; 3]));
    let withdrawn = operator.delete(&format!("{tenant}/secrets/previous"));
    assert_eq!(withdrawn.status, 204, "{}", withdrawn.text());
    assert_eq!((statuses(&new), statuses(&given)), ([401; 3], [200; 3]));

    assert_eq!(rotate(json!({ "overlapSeconds": 0 })).status, 201);
    assert_eq!(statuses(&given), [401; 3], "without an overlap");
}

#[test]
fn tenant_that_is_switched_off_is_refused_everywhere() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_SIGNUP_TENANT", "bob"));
    let client = server.tenant();
    let id =
        client.get("/1.0/kb/tenants?apiKey=bob").json()["tenantId"].as_str().unwrap().to_owned();
    let tenant = format!("/v1/tenants/{id}");
    let switch = |active: bool| {
        let body = json!({ "active": active }).to_string();
        let switched = server.client().send("PATCH", &tenant, Some(body.as_bytes()));
        assert_eq!(switched.json()["active"], active, "{}", switched.text());
    };
    // Sign-up takes its tenant from the settings.
    let login = || {
        let body = json!({ "email": "ana@example.com", "password": "does not matter" });
        Client::new(&server.url).post("/v1/sessions", &body).status
    };
    assert_eq!((statuses(&client), login()), ([200; 3], 401));
    switch(false);
    assert_eq!((statuses(&client), login()), ([401, 403, 403], 403));
    let wrong = client.clone().tenant("bob", "wrong");
    assert_eq!(statuses(&wrong), [401; 3], "who lacks the secret learns nothing");
    switch(true);
    assert_eq!((statuses(&client), login()), ([200; 3], 401));
}

#[test]
fn tenants_are_administered_with_a_permission_of_its_own() {
    let server = Server::start();
    let client = server.tenant();
    add_user(&server, "joe");
    let id =
        client.get("/1.0/kb/tenants?apiKey=bob").json()["tenantId"].as_str().unwrap().to_owned();
    let tenant = format!("/v1/tenants/{id}");
    let routes = |client: &Client| {
        [("GET", ""), ("PATCH", ""), ("POST", "/secrets"), ("DELETE", "/secrets/previous")]
            .map(|(method, rest)| client.send(method, &format!("{tenant}{rest}"), None).status)
    };
    assert_eq!(routes(&Client::new(&server.url)), [401; 4]);
    assert_eq!(routes(&Client::new(&server.url).tenant("bob", "lazar")), [401; 4]);
    assert_eq!(routes(&client.clone().user("joe", "right")), [403; 4]);
    assert_eq!(statuses(&client), [200; 3], "nothing was changed");
    let absent = format!("/v1/tenants/{}/secrets", uuid::Uuid::nil());
    assert_eq!(client.post(&absent, &json!({})).status, 404);
    for (body, field) in [
        (json!({ "overlapSeconds": 7_776_001 }), "overlapSeconds"),
        (json!({ "apiSecret": "eleven char" }), "apiSecret"),
        (json!({ "apiSecret": "x".repeat(257) }), "apiSecret"),
        (json!({ "secret": "misspelt" }), "secret"),
    ] {
        let refused = client.post(&format!("{tenant}/secrets"), &body);
        assert_eq!((refused.status, &refused.json()["field"]), (400, &json!(field)), "{body}");
    }
}

#[test]
fn cached_credential_is_refreshed_before_it_expires() {
    let launch = Launch::usual().env("FAREGATE_ACCESS_CACHE_LIFE", "2s");
    let server = Server::start_with(launch.env("FAREGATE_LOG_LEVEL", "engine=debug"));
    let client = server.client();
    assert_eq!(client.get(WHO).status, 200);
    let (began, before) = (Instant::now(), hashes(&server));
    // Long enough for a look after one and a half seconds, and for one after three.
    while began.elapsed() < Duration::from_secs(4) {
        assert_eq!(client.get(WHO).status, 200);
    }
    assert_eq!(hashes(&server), before);
    let (_, log) = server.stop();
    let looks = log.matches("a credential was looked at again before it expired").count();
    assert!((1..=2).contains(&looks), "{looks} times: {log}");
}

/// Guesses the password of `name` until there may be no more guesses.
fn guess(client: &Client, name: &str) {
    for wrong in 0..WRONG_OF_NAME_MAX {
        let answer = client.clone().user(name, &format!("guess {wrong}")).get(WHO);
        assert_eq!(answer.status, 401, "guess {wrong}: {}", answer.text());
    }
}

#[test]
fn failed_logins_lock_out_the_guessing_client_only() {
    let server = Server::start();
    add_user(&server, "joe");
    let joe = server.client().user("joe", "right");
    guess(&server.client(), "joe");

    let before = hashes(&server);
    let refused = joe.get(WHO);
    assert_eq!(refused.status, 429, "{}", refused.text());
    let retry_after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry_after), "{retry_after}");
    assert!(refused.json()["className"].is_string(), "{}", refused.text());
    let native = joe.get(LEDGER);
    assert_eq!((native.status, native.header("retry-after").is_some()), (429, true));
    assert_eq!(native.json()["type"], "urn:faregate:problem:too-many-attempts");
    assert_eq!(hashes(&server), before, "what is refused is not hashed");

    assert_eq!(server.client().get(WHO).status, 200, "another name from there");
    assert_eq!(joe.clone().from("127.0.0.2").get(WHO).status, 200, "the name from elsewhere");
    // A credential that is known to be right is no guess, wherever it comes from, and however much
    // has to be read again.
    assert_eq!(joe.get(WHO).status, 200);
    add_user(&server, "ann");
    assert_eq!(joe.get(WHO).status, 200);
    assert_eq!(joe.user("joe", "another guess").get(WHO).status, 429);
    let metrics = server.metrics();
    assert!(metrics.contains("faregate_refused_total{reason=\"guessing\"} 3\n"), "{metrics}");
}

#[test]
fn too_many_unknown_api_keys_are_refused_whatever_the_key() {
    let server = Server::start();
    let client = server.tenant();
    assert_eq!(client.get(ACCOUNTS).status, 200);
    add_tenant(&server, "eve");
    let before = hashes(&server);
    for wrong in 0..WRONG_OF_ADDRESS_MAX {
        let unknown = client.clone().tenant(&format!("key {wrong}"), "secret");
        for _ in 0..2 {
            let path = if wrong % 2 == 0 { ACCOUNTS } else { LEDGER };
            let answer = unknown.get(path);
            assert_eq!(answer.status, 401, "key {wrong}: {}", answer.text());
        }
    }
    let unknown = client.clone().tenant("one more", "secret");
    for path in [ACCOUNTS, LEDGER] {
        assert_eq!(unknown.get(path).status, 429, "{path}");
    }
    let eve = server.client().tenant("eve", "adam");
    assert_eq!(eve.get(ACCOUNTS).status, 429, "what is not known yet may be a guess");
    assert_eq!(hashes(&server), before);
    assert_eq!(client.get(ACCOUNTS).status, 200, "what is known is none");
    assert_eq!(unknown.from("127.0.0.2").get(ACCOUNTS).status, 401);
    assert_eq!(eve.from("127.0.0.2").get(ACCOUNTS).status, 200);
}

fn add_tenant(server: &Server, key: &str) {
    let tenant = json!({ "apiKey": key, "apiSecret": "adam" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &tenant).status, 201);
}

#[test]
fn forwarded_address_counts_behind_trusted_proxies_only() {
    let launch = Launch::usual().env("FAREGATE_ACCESS_TRUSTED_PROXIES", "127.0.0.1");
    let server = Server::start_with(launch);
    let via = |peer: &str, forwarded_for: &str, secret: usize| {
        let client = server.client().from(peer).header("X-Forwarded-For", forwarded_for);
        client.tenant("nobody", &format!("secret {secret}")).get(ACCOUNTS).status
    };
    for wrong in 0..WRONG_OF_NAME_MAX {
        assert_eq!(via("127.0.0.1", "192.0.2.1", wrong), 401);
    }
    assert_eq!(via("127.0.0.1", "192.0.2.1", 100), 429);
    assert_eq!(via("127.0.0.1", "192.0.2.2, 192.0.2.1", 101), 429, "only the proxy is believed");
    assert_eq!(via("127.0.0.1", "192.0.2.2", 102), 401);
    for wrong in 200..200 + WRONG_OF_NAME_MAX {
        assert_eq!(via("127.0.0.2", &format!("192.0.2.{wrong}"), wrong), 401);
    }
    assert_eq!(via("127.0.0.2", "192.0.2.9", 300), 429, "an untrusted peer's header is ignored");
}

#[test]
fn flood_of_wrong_passwords_does_not_delay_known_users() {
    let launch = Launch::usual().env("FAREGATE_ACCESS_HASHING_THREADS", "1");
    let server = Server::start_with(launch);
    let neighbour = server.tenant();
    assert_eq!(neighbour.get(LEDGER).status, 200);
    let client = |number: usize| server.client().user(&format!("user {number}"), "guess");
    let flood: Vec<Client> = (0..120).map(client).collect();
    let before = hashes(&server);
    let answers = std::thread::scope(|scope| {
        let flooding = scope.spawn(|| all_at_once(&flood, WHO));
        eventually("passwords are hashed", || (hashes(&server) > before).then_some(()));
        while !flooding.is_finished() {
            assert_eq!(neighbour.get(LEDGER).status, 200);
        }
        flooding.join().unwrap()
    });
    let (refused, wrong): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|(answer, _)| answer.status == 503);
    assert!(wrong.iter().all(|(answer, _)| answer.status == 401) && wrong.len() >= 64);
    assert_eq!(hashes(&server) - before, wrong.len() as u64);
    assert!(refused.iter().all(|(answer, _)| answer.header("retry-after") == Some("1")));
    let slowest = |answers: &[(Answer, Duration)]| answers.iter().map(|it| it.1).max().unwrap();
    assert!(slowest(&refused) < slowest(&wrong) / 2, "refused at once, not after waiting");
    let metrics = server.metrics();
    let counted = format!("faregate_refused_total{{reason=\"hashers_full\"}} {}\n", refused.len());
    assert!(metrics.contains(&counted), "{metrics}");
}

#[test]
fn a_repeated_request_is_known_again_by_all_but_its_secret() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let keyed = |server: &Server| server.client().header("Idempotency-Key", "k");
    let user = |name: &str, password: &str| json!({ "username": name, "password": password });
    let tenant = |key: &str, secret: &str| json!({ "apiKey": key, "apiSecret": secret });
    let (users, tenants) = ("/1.0/kb/security/users", "/1.0/kb/tenants");
    let keyed_tenant = |server: &Server| server.client().header("Idempotency-Key", "t");
    let made = keyed(&server).post(users, &user("joe", "right"));
    let made_tenant = keyed_tenant(&server).post(tenants, &tenant("eve", "adam"));
    assert_eq!((made.status, made_tenant.status), (201, 201));
    server.kill();

    let server = Server::start_in(dir.path(), Launch::usual());
    for password in ["right", "other"] {
        let again = keyed(&server).post(users, &user("joe", password));
        assert_eq!((again.status, path_of(&again)), (201, path_of(&made)));
    }
    assert_eq!(keyed(&server).post(users, &user("ann", "right")).status, 422);
    assert_eq!(keyed(&server).post(tenants, &tenant("eve", "adam")).status, 422);
    let again = keyed_tenant(&server).post(tenants, &tenant("eve", "eden"));
    assert_eq!((again.status, path_of(&again)), (201, path_of(&made_tenant)));
    assert_eq!(keyed_tenant(&server).post(tenants, &tenant("ann", "adam")).status, 422);
    // The first one counts.
    assert_eq!(server.client().user("joe", "right").get(WHO).status, 200);
    assert_eq!(server.client().user("joe", "other").get(WHO).status, 401);
}

/// The `Location` without the server's address, which is another one after a restart.
fn path_of(made: &Answer) -> &str {
    made.header("location").unwrap().splitn(4, '/').nth(3).unwrap()
}
