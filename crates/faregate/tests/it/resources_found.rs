//! `faregate payments|features|offers|purchases|flags` finds, makes and explains objects.

use crate::process::Server;
use crate::resources_commands::{paying_account, tenant};

#[test]
fn payments_are_found_by_what_is_known_of_them() {
    let server = Server::start();
    let tenant = tenant(&server);
    let account = |name: &str, email: &str| {
        let made = ["accounts", "create", "--name", name, "--email", email, "--currency", "USD"];
        let account = tenant.json(&made)["accountId"].as_str().unwrap().to_owned();
        let gateway = ["--gateway", "killbill-payment-test", "--default", "--token", "tok_1"];
        let method = tenant.json(&[&["methods", "create", &account][..], &gateway].concat());
        assert!(method["paymentMethodId"].is_string(), "{method}");
        let client = server.client().tenant("shop", &tenant.secret).header("Accept", "text/plain");
        let exported = client.get(&format!("/1.0/kb/export/{account}")).text();
        assert!(exported.contains("tok_1"), "{exported}");
        account
    };
    let (ada, joe) = (account("Ada", "ada@example.com"), account("Joe", "joe@example.com"));
    let pay = |account: &str, key: &str, outcome: Option<&str>| {
        let property = outcome.map(|it| format!("outcome={it}"));
        let mut arguments = vec!["payments", "create", account, "--amount", "1", "--key", key];
        arguments.extend(property.iter().flat_map(|it| ["--property", it]));
        tenant.run(&arguments)
    };
    assert_eq!(pay(&ada, "first", None).0, Some(0));
    assert_ne!(pay(&ada, "declined", Some("ERROR")).0, Some(0));
    assert_ne!(pay(&joe, "unknown", Some("UNDEFINED")).0, Some(0));
    assert_eq!(pay(&joe, "pending", Some("PENDING")).0, Some(0));
    let keys = |arguments: &[&str]| -> Vec<String> {
        let rows = tenant.json(&[&["payments"][..], arguments].concat());
        let rows = rows.as_array().unwrap().iter();
        rows.map(|it| it["paymentExternalKey"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&["ls"]), ["pending", "unknown", "declined", "first"]);
    assert_eq!(keys(&["ls", "--limit", "1"]), ["pending"]);
    assert_eq!(keys(&["find", "ada@example.com"]), ["declined", "first"]);
    assert_eq!(keys(&["find", "joe@example.com", "--limit", "1"]), ["pending"]);
    assert_eq!(keys(&["find", "declined"]), ["declined"], "a status");
    assert_eq!(keys(&["find", "PENDING"]), ["pending"]);
    assert_eq!(keys(&["find", "unknown"]), ["unknown"]);
    assert_eq!(keys(&["find", "first"]), ["first"], "a key");
    assert_eq!(keys(&["find", &joe]), ["pending", "unknown"]);
    let (code, said) = tenant.run(&["payments", "unresolved"]);
    assert!(code == Some(0) && said.contains("UNKNOWN") && said.contains("PENDING"), "{said}");
    assert_eq!(said.lines().count(), 3, "{said}");
}

#[test]
fn an_offer_is_made_and_bought_and_plans_give_features_without_another_client() {
    let server = Server::start();
    let tenant = tenant(&server);
    tenant.json(&["features", "set", "pro", "--kind", "switch", "--name", "Pro"]);
    let limit =
        ["features", "set", "seats", "--kind", "limit", "--name", "Seats", "--unit", "seats"];
    tenant.json(&limit);
    let (code, said) = tenant.run(&["features", "ls"]);
    assert!(code == Some(0) && said.contains("pro") && said.contains("seats"), "{said}");
    let offer = ["offers", "set", "monthly", "--name", "Monthly", "--months", "1"];
    let price = ["--price", "19.00", "--currency", "USD"];
    let gives = ["--feature", "pro=true", "--feature", "seats=2"];
    let made = tenant.json(&[&offer[..], &price, &gives].concat());
    assert_eq!(made["price"]["amount"], "19.00", "{made}");
    assert_eq!(made["features"], serde_json::json!({ "pro": true, "seats": 2 }));
    assert_eq!(tenant.json(&["offers", "show", "monthly"])["lasts"]["months"], 1);
    assert_eq!(tenant.json(&["offers", "versions", "monthly"]).as_array().unwrap().len(), 1);
    let entry = "seats={\"value\": 5, \"timesQuantity\": true}";
    for of in ["plans", "products"] {
        let made = tenant.json(&[of, "set", "team", "--feature", entry]);
        assert_eq!(made["features"]["seats"]["value"], 5, "{made}");
        tenant.json(&[of, "set", "team", "--feature", "pro={\"value\": true}"]);
        assert_eq!(tenant.json(&[of, "show", "team"])["features"]["pro"]["value"], true);
        let first = tenant.json(&[of, "show", "team", "--features-version", "1"]);
        assert_eq!(first["features"]["seats"]["timesQuantity"], true, "{first}");
        assert_eq!(tenant.json(&[of, "versions", "team"]).as_array().unwrap().len(), 2);
    }
    let account = &paying_account(&tenant);
    let buy = ["purchases", "create", account, "--offer", "monthly"];
    let (code, said) = tenant.run(&[&buy[..], &["--price", "9", "--currency", "USD"]].concat());
    assert!(code == Some(1) && said.contains("costs 19.00 USD"), "{said}");
    let bought = tenant.json(&[&buy[..], &price].concat());
    assert_eq!(bought["purchase"]["status"], "ACTIVE", "{bought}");
    let id = bought["purchase"]["purchaseId"].as_str().unwrap();
    let (code, said) = tenant.run(&["purchases", "ls", account]);
    assert!(code == Some(0) && said.contains(id) && said.contains("ACTIVE"), "{said}");
    assert_eq!(tenant.json(&["purchases", "show", account, id])["offer"], "monthly");

    let flag = ["flags", "create", "export", "--gate", "pro", "--environment", "dev"];
    assert_eq!(tenant.run(&flag).0, Some(0));
    assert_eq!(tenant.run(&["flags", "rollout", "export", "100%"]).0, Some(0));
    let (_, said) = tenant.run(&["flags", "ls"]);
    assert!(said.contains("GATE") && said.contains("pro"), "{said}");
    let (_, said) = tenant.run(&["flags", "show", "export"]);
    assert!(said.contains("gate         pro\n"), "{said}");
    let explain = |key: &str| tenant.run(&["flags", "explain", "export", "--for", key]).1;
    assert!(explain(account).contains("export in dev is true"), "{}", explain(account));
    let other = tenant.json(&["accounts", "create", "--name", "Joe"])["accountId"].clone();
    let said = explain(other.as_str().unwrap());
    assert!(
        said.contains("not bought: pro") && said.contains("is a user of the account"),
        "{said}"
    );
    let said = explain("nobody");
    assert!(said.contains("not bought: pro"), "{said}");
    assert!(said.contains("nobody is no account's user"), "{said}");
}
