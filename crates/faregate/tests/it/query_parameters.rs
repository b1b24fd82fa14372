//! Every query parameter of Kill Bill's reads that the OpenAPI document has: it changes the answer.

use serde_json::{Value, json};

use crate::catalogs;
use crate::client::Client;
use crate::process::{Launch, Server};

const NOTHING: &str = "0192aabb-ccdd-7000-8000-000000000001";
/// The gateway whose methods have details, and the one whose payments have.
const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";
const SIMULATOR: &str = "faregate-simulator";
const CONTROLLED: &str = "controlPluginName=faregate-rules";

/// The beginning of the description of a parameter that has no effect.
const TAKEN: &str = "Taken for Kill Bill's clients";

/// Parameters whose effect is shown elsewhere, or cannot be seen in an answer; `*` is each of a path.
const ELSEWHERE: [(&str, &str); 7] = [
    // The trial's invoice has no payment; those that have are in `killbill_invoice_payments`.
    ("/1.0/kb/invoices/{invoiceId}/payments", "*"),
    // Each is in `killbill_admin::queues_list_events_to_deliver_and_outcomes_to_ask_for`.
    ("/1.0/kb/admin/queues", "*"),
    // A wait.
    ("/1.0/kb/test/queues", "timeoutSec"),
    // Each is in `killbill_simple_plan::a_subscription_has_its_plan_at_a_date`.
    ("/1.0/kb/catalog/plan", "requestedDate"),
    ("/1.0/kb/catalog/phase", "requestedDate"),
    ("/1.0/kb/catalog/product", "requestedDate"),
    ("/1.0/kb/catalog/priceList", "requestedDate"),
];

/// Two queries for each name of a parameter, whose answers differ: without it or with one value, and with another.
const PROBES: [(&str, &str, &str); 28] = [
    ("audit", "", "audit=FULL"),
    ("offset", "", "offset=1"),
    ("limit", "", "limit=0"),
    ("accountWithBalance", "", "accountWithBalance=true"),
    ("accountWithBalanceAndCBA", "", "accountWithBalanceAndCBA=true"),
    ("withPluginInfo", "", "withPluginInfo=true"),
    ("withAttempts", "", "withAttempts=true"),
    ("includedDeleted", "", "includedDeleted=true"),
    ("pluginName", "", "pluginName=none"),
    ("externalKey", "", "externalKey=nothing"),
    ("transactionExternalKey", "", "transactionExternalKey=nothing"),
    ("apiKey", "", "apiKey=nothing"),
    ("objectType", "", "objectType=PAYMENT"),
    ("fieldName", "", "fieldName=nothing"),
    ("fieldValue", "", "fieldValue=nothing"),
    ("blockingStateTypes", "", "blockingStateTypes=SUBSCRIPTION"),
    ("blockingStateSvcs", "", "blockingStateSvcs=nothing"),
    ("requestedDate", "", "requestedDate=2020-06-01"),
    ("accountId", "", "accountId=0192aabb-ccdd-7000-8000-000000000001"),
    ("bundlesFilter", "", "bundlesFilter=0192aabb-ccdd-7000-8000-000000000001"),
    ("timeZone", "", "timeZone=Asia/Tokyo"),
    ("parallel", "", "parallel=true"),
    ("includeInvoiceComponents", "", "includeInvoiceComponents=true"),
    ("unpaidInvoicesOnly", "", "unpaidInvoicesOnly=true"),
    ("subscriptionId", "", "subscriptionId=0192aabb-ccdd-7000-8000-000000000001"),
    ("baseProductName", "", "baseProductName=nothing"),
    ("priceListName", "", "priceListName=nothing"),
    ("includeVoidedInvoices", "", "includeVoidedInvoices=true"),
];

/// The query that a path always needs.
const ALWAYS: [(&str, &str); 14] = [
    ("/1.0/kb/invoices/{groupId}/group", "accountId={accountId}"),
    ("/1.0/kb/bundles", "externalKey=walk-bundle"),
    ("/1.0/kb/subscriptions", "externalKey=walk-subscription"),
    ("/1.0/kb/accounts", "externalKey=walk-account"),
    ("/1.0/kb/paymentMethods", "externalKey=walk-method"),
    ("/1.0/kb/payments", "externalKey=walk-payment"),
    ("/1.0/kb/paymentTransactions", "transactionExternalKey=walk-transaction"),
    ("/1.0/kb/customFields/search", "objectType=ACCOUNT&fieldName=colour"),
    ("/1.0/kb/tenants", "apiKey={apiKey}"),
    ("/1.0/kb/catalog/availableAddons", "baseProductName=Pro"),
    ("/1.0/kb/catalog/plan", "subscriptionId={subscriptionId}"),
    ("/1.0/kb/catalog/phase", "subscriptionId={subscriptionId}"),
    ("/1.0/kb/catalog/product", "subscriptionId={subscriptionId}"),
    ("/1.0/kb/catalog/priceList", "subscriptionId={subscriptionId}"),
];

/// An object's name in the document, and its id or text here.
type Objects = Vec<(&'static str, String)>;

fn id(made: &Value, field: &str) -> String {
    made[field].as_str().unwrap_or_else(|| panic!("{field}: {made}")).to_owned()
}

/// Gives an object a custom field, and a tag, and another tag that is removed again.
fn decorate(client: &Client, object: &str, definitions: Option<&[&String; 2]>) {
    let fields = json!([{ "name": "colour", "value": "blue" }]);
    assert_eq!(client.post(&format!("{object}/customFields"), &fields).status, 201);
    let Some([stays, goes]) = definitions else { return };
    let tags = format!("{object}/tags");
    assert_eq!(client.post(&tags, &json!([stays, goes])).status, 201);
    assert_eq!(client.delete(&format!("{tags}?tagDef={goes}")).status, 204);
}

/// Adds a default payment method with this key and of this gateway.
fn method(client: &Client, account: &str, (key, gateway): (&str, &str)) -> String {
    let body = json!({ "externalKey": key, "pluginName": gateway, "pluginInfo": {} });
    let methods = format!("{account}/paymentMethods?isDefault=true");
    id(&client.create(&methods, &body), "paymentMethodId")
}

/// A controlled payment by a method with these keys, its own and its transaction's.
fn pay(
    client: &Client,
    (account, method): (&str, &str),
    (key, transaction): (&str, &str),
) -> Value {
    let purchase = json!({
        "transactionType": "PURCHASE", "amount": 10, "paymentExternalKey": key,
        "transactionExternalKey": transaction,
    });
    let payments = format!("{account}/payments?paymentMethodId={method}&{CONTROLLED}");
    client.create(&payments, &purchase)
}

/// Pays the first month after the trial with the method that pays.
fn pay_a_month(client: &Client, objects: &Objects) {
    let of = |name: &str| &objects.iter().find(|it| it.0 == name).unwrap().1;
    let (account, method) = (of("accountId"), of("payingMethodId"));
    let default = format!("/1.0/kb/accounts/{account}/paymentMethods/{method}/setDefault");
    assert_eq!(client.put(&default, &json!({})).status, 204);
    let month = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(31 * 24);
    let day = month.to_string()[..10].to_owned();
    let invoice = format!("/1.0/kb/invoices?accountId={account}&targetDate={day}");
    assert_eq!(client.post(&invoice, &json!({})).status, 201);
    // One that counts no more.
    let charges = format!("/1.0/kb/invoices/charges/{account}");
    let draft = client.post(&charges, &json!([{ "amount": 1 }])).json()[0].clone();
    let void = format!("/1.0/kb/invoices/{}/voidInvoice", id(&draft, "invoiceId"));
    assert_eq!(client.put(&void, &json!({})).status, 204);
}

/// A tenant that has one of each, so that no list is empty.
fn world(client: &Client) -> Objects {
    let define = |name: &str| {
        let types = [
            "ACCOUNT",
            "PAYMENT",
            "TRANSACTION",
            "BUNDLE",
            "SUBSCRIPTION",
            "INVOICE",
            "INVOICE_ITEM",
        ];
        let body = json!({ "name": name, "description": name, "applicableObjectTypes": types });
        id(&client.create("/1.0/kb/tagDefinitions", &body), "id")
    };
    let (stays, goes) = (define("walk-stays"), define("walk-goes"));
    let tags = Some(&[&stays, &goes]);
    let account = json!({ "externalKey": "walk-account", "currency": "USD" });
    let account = id(&client.create("/1.0/kb/accounts", &account), "accountId");
    let path = format!("/1.0/kb/accounts/{account}");
    client.create("/1.0/kb/accounts", &json!({ "parentAccountId": account }));
    decorate(client, &path, tags);
    let email = json!({ "accountId": account, "email": "walk@example.com" });
    assert_eq!(client.post(&format!("{path}/emails"), &email).status, 201);
    let state = json!({ "stateName": "OD1", "service": "overdue-service" });
    assert_eq!(client.post(&format!("{path}/block"), &state).status, 201);
    let deleted = method(client, &path, ("walk-deleted", SIMULATOR));
    let paying = method(client, &path, ("walk-paying", SIMULATOR));
    for year in [2020, 2021] {
        let xml = catalogs::simple("walk", &format!("{year}-01-01T00:00:00Z"));
        let xml_client = client.clone().header("Content-Type", "text/xml");
        let made = xml_client.send("POST", "/1.0/kb/catalog/xml", Some(xml.as_bytes()));
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let add_on = json!({
        "planId": "extra", "productName": "Extra", "productCategory": "ADD_ON", "currency": "USD",
        "amount": 5, "billingPeriod": "MONTHLY", "availableBaseProducts": ["Pro"],
    });
    assert_eq!(client.post("/1.0/kb/catalog/simplePlan", &add_on).status, 201);
    let billed = subscribe(client, &account, ["walk-bundle", "walk-subscription"]);
    for (name, id) in billed.iter().filter(|it| it.0 != "groupId") {
        let collection = name.trim_end_matches("Id");
        decorate(client, &format!("/1.0/kb/{collection}s/{id}"), tags);
    }
    let of_account = method(client, &path, ("walk-method", EXTERNAL));
    assert_eq!(client.delete(&format!("/1.0/kb/paymentMethods/{deleted}")).status, 204);
    decorate(client, &format!("/1.0/kb/paymentMethods/{of_account}"), None);
    let paid = pay(client, (&path, &paying), ("walk-payment", "walk-transaction"));
    let (payment, transaction) =
        (id(&paid, "paymentId"), id(&paid["transactions"][0], "transactionId"));
    decorate(client, &format!("/1.0/kb/payments/{payment}"), tags);
    decorate(client, &format!("/1.0/kb/paymentTransactions/{transaction}"), tags);
    let mut objects = vec![
        ("accountId", account),
        ("paymentMethodId", of_account),
        ("deletedMethodId", deleted),
        ("payingMethodId", paying),
        ("paymentId", payment),
        ("transactionId", transaction),
        ("tagDefinitionId", stays),
    ];
    objects.extend(billed);
    objects
}

/// Subscribes an account: the bundle and the subscription with these keys, and the first invoice with its item.
fn subscribe(client: &Client, account: &str, [bundle, key]: [&str; 2]) -> Objects {
    let subscription = json!({
        "accountId": account, "planName": "pro-monthly", "externalKey": key,
        "bundleExternalKey": bundle,
    });
    let made = client.create("/1.0/kb/subscriptions", &subscription);
    let invoices = format!("/1.0/kb/accounts/{account}/invoices?includeInvoiceComponents=true");
    let invoice = client.get(&invoices).json()[0].clone();
    vec![
        ("bundleId", id(&made, "bundleId")),
        ("subscriptionId", id(&made, "subscriptionId")),
        ("invoiceId", id(&invoice, "invoiceId")),
        ("groupId", id(&invoice, "invoiceId")),
        ("invoiceItemId", id(&invoice["items"][0], "invoiceItemId")),
    ]
}

/// The search key of a path that has one.
fn search_key(path: &str) -> &'static str {
    match path {
        "/1.0/kb/customFields/search/{searchKey}" => "colour",
        "/1.0/kb/invoices/search/{searchKey}" => "USD",
        _ => "walk-",
    }
}

/// The path and the queries without and with a parameter.
fn requests(path: &str, name: &str, objects: &Objects) -> [String; 2] {
    // A method that was deleted is read with the parameter only.
    let template = match (path, name) {
        ("/1.0/kb/paymentMethods/{paymentMethodId}", "includedDeleted") => {
            "/1.0/kb/paymentMethods/{deletedMethodId}"
        }
        (path, _) => path,
    };
    let always = ALWAYS.iter().find(|(of, _)| *of == path).map_or("", |(_, query)| query);
    let always = match (path, name) {
        ("/1.0/kb/paymentMethods", "includedDeleted") => "externalKey=walk-deleted",
        ("/1.0/kb/bundles", "includedDeleted") => "externalKey=nothing",
        _ => always,
    };
    let probe = PROBES.iter().find(|(of, ..)| *of == name);
    let (_, without, with) = probe.unwrap_or_else(|| panic!("no probe for {name} of {path}"));
    let fill = |text: String| {
        let text = text.replace("{searchKey}", search_key(path));
        objects.iter().fold(text, |text, (name, id)| text.replace(&format!("{{{name}}}"), id))
    };
    // Of two parameters of a name the first counts.
    [without, with].map(|query| fill(format!("{template}?{query}&{always}")))
}

/// An answer as it is compared: status, what its pages are, and body.
fn shown(client: &Client, path: &str, request: &str) -> String {
    let client = client.clone().header(
        "Accept",
        match path {
            "/1.0/kb/catalog/xml" => "text/xml",
            _ => "application/json",
        },
    );
    let answer = client.get(request);
    assert!([200, 404].contains(&answer.status), "{request}: {}", answer.text());
    let body = answer.text();
    // The time goes on.
    let body = match path {
        "/1.0/kb/test/clock" => body.replace(|letter: char| letter.is_ascii_digit(), ""),
        _ => body.to_owned(),
    };
    let offset = answer.header("x-killbill-pagination-currentoffset").unwrap_or("-");
    format!("{} {offset} {body}", answer.status)
}

#[test]
fn every_query_parameter_of_a_read_changes_its_answer() {
    let server = Server::start_with(Launch::usual());
    let client = server.tenant();
    let mut objects = world(&client);
    pay_a_month(&client, &objects);
    let api_key = client.headers().iter().find(|it| it.0 == "X-Killbill-ApiKey").unwrap();
    objects.push(("apiKey", api_key.1.clone()));
    let item = objects.iter().find(|it| it.0 == "invoiceItemId").unwrap().1.clone();
    objects.extend([("itemId", item), ("invoiceNumber", "1".to_owned())]);
    let document = client.get("/openapi.json").json();
    let (mut tried, mut ignored) = (0, vec![]);
    for (path, item) in document["paths"].as_object().unwrap() {
        let parameters = item["get"]["parameters"].as_array();
        if !path.starts_with("/1.0/") {
            continue;
        }
        for parameter in parameters.into_iter().flatten().filter(|it| it["in"] == "query") {
            let name = parameter["name"].as_str().unwrap();
            let is_taken = parameter["description"].as_str().unwrap().starts_with(TAKEN);
            let is_elsewhere =
                ELSEWHERE.iter().any(|(of, which)| of == path && [name, "*"].contains(which));
            if is_taken || is_elsewhere {
                continue;
            }
            let [without, with] = requests(path, name, &objects);
            let before = shown(&client, path, &without);
            assert_eq!(before, shown(&client, path, &without), "{path} is not the same twice");
            tried += 1;
            if before == shown(&client, path, &with) {
                ignored.push(format!("{name} of {path}: {before}"));
            }
        }
    }
    assert!(tried > 90, "{tried} were tried");
    assert!(ignored.is_empty(), "without effect:\n{}", ignored.join("\n"));
}

/// The next page of a list is asked for with all that the first one was asked for with.
#[test]
fn the_next_page_keeps_every_parameter() {
    let server = Server::start();
    let client = server.tenant();
    world(&client);
    let second = json!({ "externalKey": "walk-second", "currency": "USD" });
    let second = id(&client.create("/1.0/kb/accounts", &second), "accountId");
    let second = format!("/1.0/kb/accounts/{second}");
    let paying = method(&client, &second, ("walk-paying-2", SIMULATOR));
    method(&client, &second, ("walk-method-2", EXTERNAL));
    pay(&client, (&second, &paying), ("walk-payment-2", "walk-transaction-2"));
    decorate(&client, &second, None);
    let id = second.trim_start_matches("/1.0/kb/accounts/");
    subscribe(&client, id, ["walk-bundle-2", "walk-subscription-2"]);
    let info = "withPluginInfo=true";
    let of_payments =
        format!("pluginName={SIMULATOR}&withAttempts=true&{info}&pluginProperty=a%3Db");
    let of_methods = format!("pluginName={EXTERNAL}&{info}");
    let balance = "accountWithBalance=true";
    for (path, query) in [
        ("/1.0/kb/accounts/pagination", balance),
        ("/1.0/kb/accounts/search/walk-", balance),
        ("/1.0/kb/payments/pagination", &of_payments),
        ("/1.0/kb/payments/search/alk-pay", &of_payments),
        ("/1.0/kb/payments/search/PURCHASE_SUCCESS", &of_payments),
        ("/1.0/kb/paymentMethods/pagination", &of_methods),
        ("/1.0/kb/paymentMethods/search/alk-met", &of_methods),
        ("/1.0/kb/customFields/pagination", ""),
        ("/1.0/kb/customFields/search/colour", ""),
        ("/1.0/kb/customFields/search", "objectType=ACCOUNT&fieldName=colour&fieldValue=blue"),
        ("/1.0/kb/tags/pagination", ""),
        ("/1.0/kb/tags/search/walk-", ""),
        ("/1.0/kb/bundles/pagination", ""),
        ("/1.0/kb/bundles/search/walk-", ""),
        ("/1.0/kb/invoices/pagination", ""),
        ("/1.0/kb/invoices/search/USD", ""),
    ] {
        let full = format!("{path}?limit=1&offset=0&audit=FULL&{query}");
        let first = client.get(&full);
        assert_eq!(first.status, 200, "{full}: {}", first.text());
        let next = first.header("x-killbill-pagination-nextpageuri").expect(&full);
        let kept = |pair: &str| next.split(['?', '&']).any(|it| it == pair);
        let sent = query.split('&').filter(|it| !it.is_empty());
        let sent = sent.chain(["audit=FULL", "limit=1", "offset=1"]);
        let lost: Vec<&str> = sent.filter(|pair| !kept(pair)).collect();
        assert_eq!(lost, [""; 0], "{next}");
        let second = client.get(next);
        assert_eq!(second.status, 200, "{next}: {}", second.text());
        assert_ne!(second.text(), first.text(), "{next}");
    }
}

#[test]
fn payments_are_found_by_a_part_of_their_key_and_by_their_method() {
    let server = Server::start();
    let client = server.tenant();
    let objects = world(&client);
    let of = |name: &str| &objects.iter().find(|it| it.0 == name).unwrap().1;
    let found = |text: &str| {
        let json = client.get(&format!("/1.0/kb/payments/search/{text}")).json();
        let ids = json.as_array().unwrap().iter().map(|it| id(it, "paymentId"));
        ids.collect::<Vec<_>>()
    };
    for text in ["walk-payment", "lk-PAYM", of("payingMethodId"), of("accountId"), of("paymentId")]
    {
        assert_eq!(found(text), [of("paymentId").clone()], "{text}");
    }
    for text in ["walk_payment", "walk-transaction", of("deletedMethodId"), NOTHING] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
    let other = client.get("/1.0/kb/payments/search/lk-pay?pluginName=another");
    assert_eq!(other.json(), json!([]));
}
