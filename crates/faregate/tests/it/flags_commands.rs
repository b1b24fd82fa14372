//! `faregate flags` against a running server: what it prints, what it changes, and how it ends.

use std::process::Output;

use expect_test::expect;
use serde_json::{Value, json};

use crate::client::Client;
use crate::process::{Server, TempDir, faregate};

/// A flag that is for Ada, and for a part of the others.
fn dark_mode() -> Value {
    json!({
        "id": "0b3ff6f2-2f42-4f0c-8a3c-1f6f8b7f1001",
        "key": "dark-mode",
        "name": "Dark mode",
        "variationType": "boolean",
        "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
        "rules": [{ "id": "r", "name": "staff", "conditions": [
            { "property": "mail", "op": "EndsWith", "value": "@example.com" },
        ], "variations": [{ "id": "on", "rollout": [0, 1], "exptRollout": 1 }] }],
        "isEnabled": true,
        "disabledVariationId": "off",
        "fallthrough": { "variations": [
            { "id": "on", "rollout": [0, 0.25], "exptRollout": 1 },
            { "id": "off", "rollout": [0.25, 1], "exptRollout": 1 },
        ] },
        "tags": ["ui", "shop"],
    })
}

fn start() -> (Server, Client) {
    let server = Server::start();
    let client = server.tenant();
    let documents = json!({ "featureFlags": [dark_mode()], "segments": [] });
    assert_eq!(client.post("/v1/environments/dev/import", &documents).status, 200);
    (server, client)
}

/// Runs `faregate flags` on a server, as its administrator.
fn flags(server: &Server, arguments: &[&str]) -> Output {
    let mut command = faregate(&["flags"]);
    command.args(arguments).args(["--url", &server.url]);
    command.envs([("FAREGATE_PASSWORD", "password"), ("FAREGATE_API_SECRET", "lazar")]);
    command.env("FAREGATE_API_KEY", "bob").output().unwrap()
}

/// The exit code, and what was printed.
fn ended(output: &Output) -> (Option<i32>, String) {
    let said = String::from_utf8([&*output.stdout, &*output.stderr].concat()).unwrap();
    (output.status.code(), said)
}

#[test]
fn flags_are_listed() {
    let (server, client) = start();
    let flag = client.get("/v1/flags/dark-mode").json();
    let updated = flag["updatedAt"].as_str().unwrap();
    let (code, said) = ended(&flags(&server, &["ls"]));
    assert_eq!(code, Some(0), "{said}");
    expect![[r#"
        KEY        TYPE     STATE  DEFAULT                GATE  TAGS     UPDATED
        dark-mode  boolean  on     25 % true, 75 % false        ui,shop  UPDATED
    "#]]
    .assert_eq(&said.replace(updated, "UPDATED"));
    let (code, said) = ended(&flags(&server, &["ls", "--json"]));
    assert_eq!((code, serde_json::from_str::<Value>(&said).unwrap()), (Some(0), json!([flag])));
    let (_, said) = ended(&flags(&server, &["ls", "--json", "--environment", "prod"]));
    assert_eq!(said, "[]\n");
    let (_, said) = ended(&flags(&server, &["ls", "--json", "--archived"]));
    assert_eq!(said, "[]\n");
}

#[test]
fn more_flags_than_a_page_are_all_listed() {
    let (server, client) = start();
    let flag = |n: usize| {
        let mut flag = dark_mode();
        flag["key"] = json!(format!("{n:04}"));
        flag.as_object_mut().unwrap().remove("id");
        flag
    };
    let documents = json!({ "featureFlags": (0..1_001).map(flag).collect::<Vec<_>>() });
    let imported = client.post("/v1/environments/prod/import", &documents);
    assert_eq!(imported.status, 200, "{}", imported.text());
    let (_, said) = ended(&flags(&server, &["ls", "--json", "--environment", "prod"]));
    let listed: Value = serde_json::from_str(&said).unwrap();
    let keys: Vec<&str> =
        listed.as_array().unwrap().iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert_eq!((keys.len(), keys[0], keys[1_000]), (1_001, "0000", "1000"));
}

#[test]
fn a_flag_is_switched() {
    let (server, client) = start();
    let is_enabled = || client.get("/v1/flags/dark-mode").json()["isEnabled"].clone();
    let check = |arguments: &[&str], expected: &str| {
        let (code, said) = ended(&flags(&server, arguments));
        assert_eq!((code, said.as_str()), (Some(0), expected), "{arguments:?}");
    };
    check(&["toggle", "dark-mode"], "dark-mode in dev: on -> off\n");
    assert_eq!(is_enabled(), false);
    check(&["toggle", "dark-mode", "--off"], "dark-mode in dev: is off already\n");
    check(&["toggle", "dark-mode", "--on"], "dark-mode in dev: off -> on\n");
    assert_eq!(is_enabled(), true);
    let (code, said) = ended(&flags(&server, &["toggle", "dark-mode", "--json"]));
    let shown: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &shown["isEnabled"]), (Some(0), &json!(false)));
    let (code, said) = ended(&flags(&server, &["toggle", "nothing"]));
    let missing = "faregate: 404 Not Found: there is no flag nothing\n";
    assert_eq!((code, said.as_str()), (Some(1), missing));
}

#[test]
fn a_flag_is_created_rolled_out_and_rolled_back() {
    let (server, client) = start();
    let run = |arguments: &[&str]| {
        let (code, said) = ended(&flags(&server, arguments));
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let now = || client.get("/v1/flags/colour").json();
    run(&["create", "colour", "--type", "string", "--value", "red", "--value", "blue"]);
    assert_eq!(now()["isEnabled"], false);
    run(&["rollout", "colour", "10%"]);
    let parts = now()["fallthrough"]["variations"].clone();
    assert_eq!(
        (&parts[0]["rollout"], &parts[1]["rollout"]),
        (&json!([0.0, 0.1]), &json!([0.1, 1.0]))
    );
    run(&["rollout", "colour", "100%"]);
    assert_eq!(now()["fallthrough"]["variations"].as_array().unwrap().len(), 1);
    assert_eq!(run(&["history", "colour"]).lines().count(), 4);
    run(&["rollback", "colour", "--reason", "too blue"]);
    assert_eq!(now()["fallthrough"]["variations"], parts);
    assert!(run(&["history", "colour"]).contains("too blue"));
    let shown = run(&["show", "colour"]);
    let shown = shown.lines().filter(|line| !line.starts_with("updated"));
    expect![[r#"
        key          colour
        type         string
        state        on
        default      10 % blue, 90 % red
        variation    v0 = red
        variation    v1 = blue"#]]
    .assert_eq(&shown.collect::<Vec<_>>().join("\n"));
    let history = run(&["history", "colour", "--limit", "1"]);
    let newest = history.lines().nth(1).unwrap().split(' ').next().unwrap();
    let said = run(&["rollback", "colour", "--to", newest]);
    assert!(said.contains("already as in version"), "{said}");
}

#[test]
fn users_are_targeted_and_a_rollout_says_so() {
    let (server, _) = start();
    let run = |arguments: &[&str]| ended(&flags(&server, arguments));
    let values = ["--value", "red", "--value", "green", "--value", "blue"];
    run(&[&["create", "colour", "--type", "string"], &values[..]].concat());
    let check = |arguments: &[&str], expected: &str| {
        assert_eq!(run(arguments), (Some(0), format!("{expected}\n")), "{arguments:?}");
    };
    check(
        &["target", "colour", "--value", "blue", "ann", "bob"],
        "colour in dev: blue for ann, bob, once it is on",
    );
    check(
        &["target", "colour", "--value", "green", "bob"],
        "colour in dev: blue for ann; green for bob, once it is on",
    );
    check(
        &["rollout", "colour", "100%", "--value", "green"],
        "colour in dev: green for 100 % of the users whom no target and no rule names",
    );
    let versions = |limit| run(&["history", "colour", "--limit", limit]).1.lines().count() - 1;
    assert_eq!(versions("0"), 4);
    check(
        &["target", "colour", "--value", "blue", "ann"],
        "colour in dev: blue for ann; green for bob",
    );
    assert_eq!(versions("0"), 4, "nothing changed");
    let (_, explained) = run(&["explain", "colour", "--for", "ann"]);
    assert!(explained.starts_with("colour in dev is blue for ann"), "{explained}");
    let (_, shown) = run(&["show", "colour"]);
    assert!(shown.contains("target       blue for ann\n"), "{shown}");
    check(&["target", "colour", "--remove", "ann", "bob"], "colour in dev: no user is targeted");
    for (arguments, expected) in [
        (
            &["target", "colour", "--value", "pink", "ann"][..],
            "--value pink: the flag has no such value; one of: red, green, blue",
        ),
        (
            &["rollout", "colour", "30%", "--value", "red"],
            "--value red: the others get it, it is the value of the flag that is off; one of: green, blue",
        ),
        (
            &["rollout", "colour", "30%", "--value", "pink"],
            "--value pink: the flag has no such value; one of: green, blue",
        ),
        (&["rollout", "colour", "30%"], "which value? --value, one of: green, blue"),
    ] {
        let (code, said) = run(arguments);
        assert_eq!((code, said), (Some(2), format!("faregate: {expected}\n")), "{arguments:?}");
    }
}

/// Each switches what it saw, or nothing: as many as were made have taken turns.
#[test]
fn concurrent_toggles_do_not_undo_each_other() {
    let (server, client) = start();
    let toggle = || ended(&flags(&server, &["toggle", "dark-mode"]));
    let ends: Vec<_> = std::thread::scope(|scope| {
        let switching: Vec<_> = (0..8).map(|_| scope.spawn(toggle)).collect();
        switching.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let (made, refused): (Vec<_>, Vec<_>) = ends.iter().partition(|(code, _)| *code == Some(0));
    for (code, said) in refused {
        assert!(*code == Some(1) && said.contains("412"), "{said}");
    }
    let is_enabled = client.get("/v1/flags/dark-mode").json()["isEnabled"].clone();
    assert_eq!(is_enabled, made.len() % 2 == 0, "{made:?}");
}

#[test]
fn a_decision_is_explained_in_sentences() {
    let (server, _client) = start();
    let mail = "mail=ada@example.com";
    let arguments = ["explain", "dark-mode", "--for", "ada", "--property", mail];
    let (code, said) = ended(&flags(&server, &arguments));
    assert_eq!(code, Some(0), "{said}");
    expect![[r#"
        dark-mode in dev is true for ada (variation on): staff
          rule "staff" is met
            mail EndsWith @example.com: holds, found "ada@example.com"
          "dark-modeada" falls on 0.4564 of 0 to 1: this value is for 0 to 1
    "#]]
    .assert_eq(&said);
    let (_, said) = ended(&flags(&server, &["explain", "dark-mode", "--for", "ada"]));
    assert!(said.contains("mail EndsWith @example.com: does not hold, found"), "{said}");
    let (_, said) = ended(&flags(&server, &["explain", "dark-mode", "--for", "ada", "--json"]));
    let explained: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(explained["rules"][0]["isMet"], false);
    let wrong = flags(&server, &["explain", "dark-mode", "--for", "ada", "--property", "mail"]);
    let (code, said) = ended(&wrong);
    assert!(code == Some(2) && said.contains("NAME=VALUE was expected"), "{said}");
}

#[test]
fn export_is_imported_unless_invalid() {
    let (server, client) = start();
    let exported = flags(&server, &["export"]);
    assert_eq!(exported.status.code(), Some(0));
    let mut documents: Value = serde_json::from_slice(&exported.stdout).unwrap();
    assert_eq!(documents, client.get("/v1/environments/dev/export").json());
    let dir = TempDir::new();
    let (path, prod) = (dir.path().join("flags.json"), || {
        client.get("/v1/environments/prod/export").json()["featureFlags"].clone()
    });
    let file = path.to_str().unwrap();
    let import = |more: &[&str]| {
        let arguments = [&["import", file, "--environment", "prod"], more].concat();
        let (code, said) = ended(&flags(&server, &arguments));
        (code, said.replace(file, "FILE"))
    };
    std::fs::write(&path, &exported.stdout).unwrap();
    let (code, said) = import(&["--dry-run"]);
    let could = "FILE: 1 flags and 0 segments can be taken into prod\n";
    assert_eq!((code, said.as_str()), (Some(0), could));
    assert_eq!(prod(), json!([]));
    let (code, said) = import(&[]);
    assert!(said.starts_with("FILE: 1 flags and 0 segments are in prod now, in the version "));
    assert_eq!((code, &prod()[0]["key"]), (Some(0), &json!("dark-mode")));

    let flag = &mut documents["featureFlags"][0];
    flag["name"] = json!("changed");
    flag["disabledVariationId"] = json!("nothing");
    flag["variationType"] = json!("colour");
    std::fs::write(&path, documents.to_string()).unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let (code, said) = import(more);
        assert_eq!(code, Some(1));
        expect![[r#"
            FILE: nothing was taken in
              featureFlags[0].variationType: boolean, string, number or json was expected
              featureFlags[0].disabledVariationId: there is no variation "nothing"
        "#]]
        .assert_eq(&said);
    }
    assert_eq!(prod()[0]["name"], "Dark mode");
    std::fs::write(&path, "[").unwrap();
    let (code, said) = import(&[]);
    assert!(code == Some(1) && said.contains("400 Bad Request: body: "), "{said}");
    std::fs::remove_file(&path).unwrap();
    let (code, said) = import(&[]);
    assert!(code == Some(2) && said.contains("cannot read FILE"), "{said}");
}

#[test]
fn credentials_come_from_files_or_the_environment() {
    let (server, _client) = start();
    let dir = TempDir::new();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ls = |more: &[&str]| {
        let arguments = ["flags", "ls", "--json", "--url", &server.url, "--api-key", "bob"];
        ended(&faregate(&arguments).args(more).output().unwrap())
    };
    let (password, secret) = (file("password", "password\n"), file("secret", "lazar"));
    let (code, said) = ls(&["--password-file", &password, "--api-secret-file", &secret]);
    assert_eq!(code, Some(0), "{said}");
    let wrong = ls(&["--password-file", &secret, "--api-secret-file", &secret]);
    let refused = "faregate: 401 Unauthorized: user or password is wrong\n";
    assert_eq!(wrong, (Some(1), refused.to_owned()));
    let (code, said) = ls(&["--password-file", &password]);
    let missing = "faregate: set FAREGATE_API_SECRET, name a file: --api-secret-file, or set api_secret in a profile\n";
    assert_eq!((code, said.as_str()), (Some(2), missing));
    let large = file("large", &"x".repeat(5_000));
    let (code, said) = ls(&["--password-file", &large]);
    assert!(code == Some(2) && said.ends_with("has more than 4096 bytes\n"), "{said}");
    let away = ["--url", "http://127.0.0.1:9", "--api-key", "bob", "--password-file", &password];
    let mut away =
        faregate(&["flags", "export"]).args(away).env("FAREGATE_API_SECRET", "x").output();
    let (code, said) = ended(away.as_mut().unwrap());
    assert!(code == Some(2) && said.contains("cannot connect to http://127.0.0.1:9"), "{said}");
}
