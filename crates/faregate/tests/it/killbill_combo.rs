//! Combo payments through Kill Bill's API: what they make, what they take, and what a refusal leaves.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir};

const COMBO: &str = "/1.0/kb/payments/combo";
const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";
const SIMULATOR: &str = "faregate-simulator";
const NOBODY: &str = "00000000-0000-0000-0000-00000000000a";

/// A purchase of 5 by the account `ann`, with the method `card` of the simulated gateway.
fn purchase() -> Value {
    json!({
        "account": { "externalKey": "ann", "currency": "USD", "name": "Ann" },
        "paymentMethod": { "externalKey": "card", "pluginName": SIMULATOR, "pluginInfo": {} },
        "transaction": { "transactionType": "PURCHASE", "amount": 5, "paymentExternalKey": "first" },
    })
}

/// The same through the gateway that settles at once, without the method's key.
fn external() -> Value {
    let mut body = purchase();
    body["paymentMethod"] = json!({ "pluginName": EXTERNAL });
    body
}

fn with_outcome(mut body: Value, outcome: &str) -> Value {
    body["transactionPluginProperties"] = json!([{ "key": "outcome", "value": outcome }]);
    body
}

/// How many accounts, payment methods and payments there are.
fn counts(client: &Client) -> [String; 3] {
    ["accounts", "paymentMethods", "payments"].map(|list| {
        let page = client.get(&format!("/1.0/kb/{list}/pagination?limit=1"));
        page.header("x-killbill-pagination-maxnbrecords").unwrap().to_owned()
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn shown(answer: &Answer) -> String {
    let body = answer.json();
    let class = body["className"].as_str().unwrap().rsplit('.').next().unwrap().to_owned();
    let message = body["message"].as_str().unwrap();
    let mask = |word| if uuid::Uuid::try_parse(word).is_ok() { "<id>" } else { word };
    let masked: Vec<_> = message.split(' ').map(mask).collect();
    let masked = masked.join(" ").replace("org.killbill.billing.", "");
    format!("{} {} {class}: {masked}", answer.status, body["code"])
}

#[test]
fn account_method_and_payment_are_made_and_read_at_once() {
    let server = Server::start();
    let client = server.tenant();
    let payment = client.create(COMBO, &purchase());
    assert_eq!(payment["paymentExternalKey"], json!("first"));
    assert_eq!(payment["purchasedAmount"], json!(5.0));
    let account = client.get("/1.0/kb/accounts?externalKey=ann").json();
    assert_eq!(account["accountId"], payment["accountId"]);
    assert_eq!(account["name"], json!("Ann"));
    let method = client.get("/1.0/kb/paymentMethods?externalKey=card").json();
    assert_eq!(method["paymentMethodId"], payment["paymentMethodId"]);
    assert_eq!(method["isDefault"], json!(true));
    assert_eq!(counts(&client), ["1", "1", "1"]);
    let path = format!("/1.0/kb/accounts/{}/auditLogsWithHistory", text(&account["accountId"]));
    let history = client.get(&path).json();
    assert_eq!(history.as_array().unwrap().len(), 1, "{history}");
    assert_eq!(history[0]["history"]["paymentMethodId"], payment["paymentMethodId"]);
}

#[test]
fn what_exists_is_taken_by_id_and_by_key() {
    let server = Server::start();
    let client = server.tenant();
    let first = client.create(COMBO, &purchase());
    let (account, method) = (text(&first["accountId"]), text(&first["paymentMethodId"]));
    let pays = |account: Value, method: Value| {
        let transaction = json!({ "transactionType": "PURCHASE", "amount": "1.50" });
        let body = json!({
            "account": account, "paymentMethod": method, "transaction": transaction,
        });
        let made = client.create(COMBO, &body);
        assert_eq!(made["accountId"], first["accountId"], "{body}");
        assert_eq!(made["paymentMethodId"], first["paymentMethodId"], "{body}");
        assert_eq!(made["currency"], json!("USD"), "{body}");
    };
    pays(json!({ "accountId": account }), Value::Null);
    pays(json!({ "externalKey": "ann" }), json!({ "paymentMethodId": method }));
    pays(json!({ "externalKey": "ann" }), json!({ "externalKey": "card" }));
    let both = json!({ "accountId": account, "externalKey": "ann", "currency": "USD" });
    pays(both, json!({ "externalKey": "card", "pluginName": SIMULATOR, "pluginInfo": {} }));
    assert_eq!(counts(&client), ["1", "1", "5"]);

    // What has no key is shown under its id, which clients send back as the key.
    let mut nameless = external();
    nameless["account"] = json!({ "currency": "USD" });
    nameless["transaction"]["paymentExternalKey"] = Value::Null;
    let made = client.create(COMBO, &nameless);
    nameless["account"] = json!({ "externalKey": made["accountId"] });
    nameless["paymentMethod"] = json!({ "externalKey": made["paymentMethodId"] });
    let again = client.create(COMBO, &nameless);
    assert_eq!(again["accountId"], made["accountId"]);
    assert_eq!(again["paymentMethodId"], made["paymentMethodId"]);
    assert_eq!(counts(&client), ["2", "2", "7"]);
}

#[test]
fn new_method_of_an_account_with_a_default_is_none() {
    let server = Server::start();
    let client = server.tenant();
    let first = client.create(COMBO, &purchase());
    let second = client.create(COMBO, &{
        let mut body = external();
        body["transaction"]["paymentExternalKey"] = json!("second");
        body
    });
    assert_eq!(second["accountId"], first["accountId"]);
    assert_ne!(second["paymentMethodId"], first["paymentMethodId"]);
    let account = client.get("/1.0/kb/accounts?externalKey=ann").json();
    assert_eq!(account["paymentMethodId"], first["paymentMethodId"]);
}

#[test]
fn each_outcome_has_its_status_and_leaves_account_and_method() {
    let server = Server::start();
    let client = server.tenant();
    for (nth, (outcome, status)) in
        [("PENDING", 201), ("ERROR", 402), ("CANCELED", 502), ("UNDEFINED", 503)]
            .into_iter()
            .enumerate()
    {
        let mut body = with_outcome(purchase(), outcome);
        body["account"]["externalKey"] = json!(format!("account-{outcome}"));
        body["paymentMethod"]["externalKey"] = json!(format!("method-{outcome}"));
        body["transaction"]["paymentExternalKey"] = json!(outcome);
        let answer = client.post(COMBO, &body);
        assert_eq!(answer.status, status, "{outcome}: {}", answer.text());
        let payment = client.get(&format!("/1.0/kb/payments?externalKey={outcome}")).json();
        let location = answer.header("location").unwrap();
        assert!(location.contains(&text(&payment["paymentId"])), "{outcome}: {location}");
        let made = (nth + 1).to_string();
        assert_eq!(counts(&client), [made.clone(), made.clone(), made], "{outcome}");
    }
    // The declined payment is tried again, by the same account with the same method.
    let mut body = purchase();
    body["account"]["externalKey"] = json!("account-ERROR");
    body["paymentMethod"]["externalKey"] = json!("method-ERROR");
    body["transaction"]["paymentExternalKey"] = json!("ERROR");
    let again = client.create(COMBO, &body);
    assert_eq!(again["transactions"].as_array().unwrap().len(), 2);
    assert_eq!(counts(&client), ["4", "4", "4"]);
}

#[test]
fn repeated_request_gets_its_answer_again_and_makes_nothing() {
    let data = TempDir::new();
    let server = Server::start_in(data.path(), Launch::usual());
    let keyed = server.tenant().header("Idempotency-Key", "one");
    let first = keyed.post(COMBO, &purchase());
    let second = keyed.post(COMBO, &purchase());
    assert_eq!((first.status, second.status), (201, 201), "{}", second.text());
    assert_eq!(first.header("location"), second.header("location"));
    let other = keyed.post(COMBO, &external());
    assert_eq!(other.status, 422, "{}", other.text());
    // An account without a key would be another one each time.
    let mut nameless = purchase();
    nameless["account"] = json!({ "currency": "EUR" });
    nameless["paymentMethod"] = json!({ "pluginName": SIMULATOR });
    nameless["transaction"]["paymentExternalKey"] = Value::Null;
    let keyed = keyed.header("Idempotency-Key", "two");
    let third = keyed.post(COMBO, &nameless);
    assert_eq!((third.status, counts(&keyed)), (201, ["2", "2", "2"].map(str::to_owned)));
    assert_eq!(keyed.post(COMBO, &nameless).header("location"), third.header("location"));
    assert_eq!(counts(&keyed), ["2", "2", "2"]);
}

#[test]
fn account_that_two_requests_name_at_once_is_made_once() {
    let server = Server::start();
    let client = server.tenant();
    let pays = |nth: usize| {
        let client = client.clone();
        std::thread::spawn(move || {
            let mut body = purchase();
            body["transaction"]["paymentExternalKey"] = json!(format!("payment-{nth}"));
            body["paymentMethod"]["externalKey"] = json!(format!("method-{nth}"));
            client.post(COMBO, &body).status
        })
    };
    let all: Vec<_> = (0..16).map(pays).collect();
    let statuses: Vec<u16> = all.into_iter().map(|it| it.join().unwrap()).collect();
    assert_eq!(statuses, [201; 16]);
    assert_eq!(counts(&client), ["1", "16", "16"]);
}

/// A tenant with the account `ann` and its method `card`, and what is refused there.
struct Shop {
    client: Client,
    made: Value,
    _server: Server,
}

impl Shop {
    fn open() -> Self {
        let server = Server::start();
        let client = server.tenant();
        let made = client.create(COMBO, &purchase());
        Self { client, made, _server: server }
    }

    /// Sends a purchase of the account `bob` with a new method that differs from a good one by `change`.
    fn check(&self, change: impl FnOnce(&mut Value), expected: Expect) {
        let mut body = purchase();
        body["account"]["externalKey"] = json!("bob");
        body["paymentMethod"]["externalKey"] = json!("purse");
        body["transaction"]["paymentExternalKey"] = json!("second");
        change(&mut body);
        self.send(COMBO, body.to_string(), expected);
    }

    fn send(&self, path: &str, body: impl AsRef<[u8]>, expected: Expect) {
        let answer = self.client.send("POST", path, Some(body.as_ref()));
        expected.assert_eq(&shown(&answer));
        let body = String::from_utf8_lossy(body.as_ref()).into_owned();
        assert_eq!(counts(&self.client), ["1", "1", "1"], "{body}");
    }
}

#[test]
fn bodies_without_a_required_part_are_refused() {
    let shop = Shop::open();
    shop.send(COMBO, "", expect!["400 null IllegalArgumentException: ComboPaymentTransactionJson body should be specified"]);
    shop.send(COMBO, "null", expect!["400 null IllegalArgumentException: ComboPaymentTransactionJson body should be specified"]);
    shop.send(COMBO, "[]", expect!["400 null MismatchedInputException: Cannot deserialize value of type `ComboPaymentTransactionJson`: it is no JSON object"]);
    shop.send(COMBO, "{", expect!["400 null JsonParseException: ComboPaymentTransactionJson: malformed JSON: EOF while parsing an object at line 1 column 1"]);
    shop.check(
        |it| it["account"] = Value::Null,
        expect![
            "400 null IllegalArgumentException: ComboPaymentTransactionJson account needs to be set"
        ],
    );
    shop.check(|it| it["account"] = json!("bob"), expect!["400 null MismatchedInputException: Cannot deserialize value of type `ComboPaymentTransactionJson`: account should be an object"]);
    shop.check(|it| it["paymentMethod"] = json!(5), expect!["400 null MismatchedInputException: Cannot deserialize value of type `ComboPaymentTransactionJson`: paymentMethod should be an object"]);
    shop.check(|it| it["paymentMethod"] = json!({}), expect!["400 7031 PaymentApiException: Invalid parameter paymentMethod.pluginName: should be specified, because there is no such payment method"]);
    shop.check(
        |it| it["paymentMethod"] = Value::Null,
        expect![
            "400 7031 PaymentApiException: Invalid parameter paymentMethodId: should not be null"
        ],
    );
    shop.check(|it| it["transaction"] = Value::Null, expect!["400 null IllegalArgumentException: ComboPaymentTransactionJson transaction needs to be set"]);
    shop.check(|it| it["transaction"] = json!([]), expect!["400 null MismatchedInputException: Cannot deserialize value of type `ComboPaymentTransactionJson`: transaction should be an object"]);
    shop.check(|it| it["transaction"]["transactionType"] = Value::Null, expect!["400 null IllegalArgumentException: PaymentTransactionJson transactionType needs to be set"]);
    shop.check(
        |it| it["transaction"]["amount"] = Value::Null,
        expect!["400 7031 PaymentApiException: Invalid parameter amount: needs to be set"],
    );
    shop.check(|it| it["foo"] = json!(1), expect![[r#"400 null UnrecognizedPropertyException: Unrecognized field "foo" (class jaxrs.json.ComboPaymentTransactionJson), not marked as ignorable (6 known properties: ["account", "paymentMethod", "paymentMethodPluginProperties", "transaction", "transactionPluginProperties", "auditLogs"])"#]]);
    shop.check(|it| it["account"]["foo"] = json!(1), expect![[r#"400 null UnrecognizedPropertyException: Unrecognized field "foo" (class jaxrs.json.AccountJson), not marked as ignorable (26 known properties: ["accountId", "name", "firstNameLength", "externalKey", "email", "billCycleDayLocal", "currency", "parentAccountId", "isPaymentDelegatedToParent", "paymentMethodId", "referenceTime", "timeZone", "address1", "address2", "postalCode", "company", "city", "state", "country", "locale", "phone", "notes", "isMigrated", "accountBalance", "accountCBA", "auditLogs"])"#]]);
}

#[test]
fn fields_of_wrong_types_are_refused() {
    let shop = Shop::open();
    shop.check(|it| it["account"]["currency"] = json!("XXZ"), expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `catalog.api.Currency` from String "XXZ" (through reference chain: jaxrs.json.AccountJson["currency"])"#]]);
    shop.check(|it| it["account"]["accountId"] = json!("x"), expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `java.util.UUID` from String "x" (through reference chain: jaxrs.json.AccountJson["accountId"])"#]]);
    shop.check(
        |it| it["account"]["externalKey"] = json!("x".repeat(256)),
        expect!["400 5 AccountApiException: External key exceeded 255 characters (externalKey)"],
    );
    shop.check(|it| it["account"]["billCycleDayLocal"] = json!(32), expect!["400 null IllegalArgumentException: AccountJson billCycleDayLocal should be between 0 and 31"]);
    shop.check(|it| it["paymentMethod"]["paymentMethodId"] = json!("x"), expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `java.util.UUID` from String "x" (through reference chain: jaxrs.json.PaymentMethodJson["paymentMethodId"])"#]]);
    shop.check(|it| it["paymentMethod"]["isDefault"] = json!("maybe"), expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `java.lang.Boolean` from String "maybe" (through reference chain: jaxrs.json.PaymentMethodJson["isDefault"])"#]]);
    shop.check(|it| it["paymentMethod"]["pluginInfo"] = json!([]), expect!["400 null MismatchedInputException: Cannot deserialize value of type `PaymentMethodPluginDetailJson`: it is no JSON object"]);
    shop.check(|it| it["paymentMethodPluginProperties"] = json!({}), expect!["400 null MismatchedInputException: Cannot deserialize value of type `ComboPaymentTransactionJson`: paymentMethodPluginProperties should be an array"]);
    shop.check(|it| it["transaction"]["transactionType"] = json!("purchase"), expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `payment.api.TransactionType` from String "purchase" (through reference chain: jaxrs.json.PaymentTransactionJson["transactionType"])"#]]);
    shop.check(|it| it["transaction"]["amount"] = json!("many"), expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `java.math.BigDecimal` from String "many" (through reference chain: jaxrs.json.PaymentTransactionJson["amount"])"#]]);
    shop.check(|it| it["transaction"]["paymentId"] = json!("x"), expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `java.util.UUID` from String "x" (through reference chain: jaxrs.json.PaymentTransactionJson["paymentId"])"#]]);
    shop.check(|it| it["transactionPluginProperties"] = json!("x"), expect!["400 null MismatchedInputException: Cannot deserialize value of type `ComboPaymentTransactionJson`: transactionPluginProperties should be an array"]);
    let property = json!([{ "key": "cvv", "value": "123" }]);
    shop.check(|it| it["paymentMethodPluginProperties"] = property.clone(), expect!["400 7031 PaymentApiException: Invalid parameter paymentMethodPluginProperties[0].value: holds a card number or security code, which is not taken: send a token of a vault"]);
    shop.check(|it| it["transactionPluginProperties"] = property, expect!["400 7031 PaymentApiException: Invalid parameter transactionPluginProperties[0].value: holds a card number or security code, which is not taken: send a token of a vault"]);
    let number = json!([{ "key": "note", "value": "4111111111111111" }]);
    shop.check(|it| it["transactionPluginProperties"] = number, expect!["400 7031 PaymentApiException: Invalid parameter transactionPluginProperties[0].value: holds a card number or security code, which is not taken: send a token of a vault"]);
}

#[test]
fn what_the_rules_refuse_leaves_nothing() {
    let shop = Shop::open();
    let (account, method) = (shop.made["accountId"].clone(), shop.made["paymentMethodId"].clone());
    shop.check(
        |it| it["account"] = json!({ "externalKey": "ann", "currency": "EUR" }),
        expect!["400 7031 PaymentApiException: Invalid parameter account.currency: should be USD, which the account has"],
    );
    shop.check(|it| it["account"]["accountId"] = account, expect!["400 7031 PaymentApiException: Invalid parameter account.externalKey: is not that of the account"]);
    shop.check(
        |it| it["account"]["accountId"] = json!(NOBODY),
        expect!["404 3002 AccountApiException: Account does not exist for id <id>"],
    );
    shop.check(
        |it| it["account"]["parentAccountId"] = json!(NOBODY),
        expect!["404 3002 AccountApiException: Account does not exist for id <id>"],
    );
    shop.check(
        |it| it["paymentMethod"] = json!({ "paymentMethodId": NOBODY }),
        expect!["404 7000 PaymentApiException: Payment method <id> does not exist"],
    );
    shop.check(
        |it| it["paymentMethod"] = json!({ "paymentMethodId": method }),
        expect!["404 7000 PaymentApiException: Payment method <id> does not exist"],
    );
    shop.check(|it| it["paymentMethod"]["externalKey"] = json!("card"), expect!["400 7031 PaymentApiException: Invalid parameter externalKey: card is taken by another payment method"]);
    shop.check(
        |it| it["paymentMethod"]["pluginName"] = json!("nope"),
        expect!["400 7028 PaymentApiException: Payment plugin nope is not registered"],
    );
    let of_ann = |it: &mut Value, plugin| {
        it["account"]["externalKey"] = json!("ann");
        it["paymentMethod"] = json!({ "externalKey": "card", "pluginName": plugin });
    };
    shop.check(|it| of_ann(it, EXTERNAL), expect!["400 7031 PaymentApiException: Invalid parameter paymentMethod.pluginName: should be faregate-simulator, which the payment method has"]);
    shop.check(|it| it["paymentMethod"] = json!({ "externalKey": "purse" }), expect!["400 7031 PaymentApiException: Invalid parameter paymentMethod.pluginName: should be specified, because there is no such payment method"]);
    shop.check(|it| it["transaction"]["amount"] = json!("1.234"), expect!["400 7031 PaymentApiException: Invalid parameter amount: 1.234: more decimals than the currency has (2)"]);
    shop.check(
        |it| it["transaction"]["amount"] = json!(-1),
        expect![
            "400 7031 PaymentApiException: Invalid parameter amount: -1: should be greater than 0"
        ],
    );
    shop.check(|it| it["account"]["currency"] = Value::Null, expect!["400 7031 PaymentApiException: Invalid parameter currency: should not be null: neither request nor account has one"]);
    shop.check(
        |it| it["transaction"]["paymentExternalKey"] = json!("first"),
        expect!["400 7034 PaymentApiException: Payment first has a different account id"],
    );
    shop.check(
        |it| it["transaction"]["paymentId"] = json!(NOBODY),
        expect!["404 7020 PaymentApiException: Payment <id> does not exist"],
    );
    let controlled = format!("{COMBO}?controlPluginName=nope");
    shop.send(&controlled, purchase().to_string(), expect!["400 7031 PaymentApiException: Invalid parameter controlPluginName: there is no control plugin nope"]);
    let controlled = format!("{COMBO}?controlPluginName=__INVOICE_PAYMENT_CONTROL_PLUGIN__");
    shop.send(&controlled, purchase().to_string(), expect!["400 7031 PaymentApiException: Invalid parameter controlPluginName: there is no control plugin __INVOICE_PAYMENT_CONTROL_PLUGIN__"]);
}

#[test]
fn transaction_types_that_start_no_payment_are_refused() {
    let shop = Shop::open();
    for kind in ["CAPTURE", "REFUND", "VOID", "CHARGEBACK"] {
        let mut body = purchase();
        body["account"]["externalKey"] = json!("bob");
        body["transaction"]["transactionType"] = json!(kind);
        let answer = shop.client.post(COMBO, &body);
        assert_eq!(answer.status, 412, "{kind}");
        assert_eq!(counts(&shop.client), ["1", "1", "1"], "{kind}");
    }
}

#[test]
fn another_tenants_account_and_method_are_not_there() {
    let server = Server::start();
    let client = server.tenant();
    let made = client.create(COMBO, &purchase());
    let tenant = json!({ "apiKey": "other", "apiSecret": "secret" });
    assert_eq!(client.post("/1.0/kb/tenants", &tenant).status, 201);
    let other = client.tenant("other", "secret");
    let mut body = purchase();
    body["account"] = json!({ "accountId": made["accountId"] });
    expect!["404 3002 AccountApiException: Account does not exist for id <id>"]
        .assert_eq(&shown(&other.post(COMBO, &body)));
    let mut body = purchase();
    body["paymentMethod"] = json!({ "paymentMethodId": made["paymentMethodId"] });
    expect!["404 7000 PaymentApiException: Payment method <id> does not exist"]
        .assert_eq(&shown(&other.post(COMBO, &body)));
    assert_eq!(counts(&other), ["0", "0", "0"]);
    // Keys are a tenant's own.
    assert_ne!(other.create(COMBO, &purchase())["accountId"], made["accountId"]);
}

#[test]
fn account_and_method_are_made_by_whom_may_make_them() {
    let server = Server::start();
    let admin = server.tenant();
    let with = |name: &str, permissions: &[&str]| {
        let role = json!({ "role": name, "permissions": permissions });
        assert_eq!(admin.post("/1.0/kb/security/roles", &role).status, 201);
        let user = json!({ "username": name, "password": "pw", "roles": [name] });
        assert_eq!(admin.post("/1.0/kb/security/users", &user).status, 201);
        admin.clone().user(name, "pw")
    };
    let refused = |client: &Client, body: &Value, permission: &str| {
        let answer = client.post(COMBO, body);
        let message = format!("Subject does not have permission [{permission}]");
        assert_eq!((answer.status, &answer.json()["message"]), (401, &json!(message)));
    };
    let payer = with("payer", &["payment:trigger"]);
    let opener = with("opener", &["payment:trigger", "account:create"]);
    let adder = with("adder", &["payment:trigger", "payment_method:create"]);
    let maker = with("maker", &["account:create", "payment_method:create"]);
    refused(&maker, &purchase(), "payment:trigger");
    refused(&opener, &purchase(), "payment_method:create");
    refused(&adder, &purchase(), "account:create");
    assert_eq!(counts(&admin), ["0", "0", "0"]);
    let made = admin.create(COMBO, &purchase());
    let mut by_key = purchase();
    by_key["transaction"]["paymentExternalKey"] = Value::Null;
    assert_eq!(payer.post(COMBO, &by_key).status, 201);
    let mut by_id = by_key.clone();
    by_id["account"] = json!({ "accountId": made["accountId"] });
    by_id["paymentMethod"] = json!({ "paymentMethodId": made["paymentMethodId"] });
    assert_eq!(payer.post(COMBO, &by_id).status, 201);
    by_id["paymentMethod"] = Value::Null;
    assert_eq!(payer.post(COMBO, &by_id).status, 201);
    by_id["paymentMethod"] = json!({ "pluginName": EXTERNAL });
    refused(&payer, &by_id, "payment_method:create");
    assert_eq!(adder.post(COMBO, &by_id).status, 201);
    by_key["account"] = json!({ "currency": "USD" });
    refused(&payer, &by_key, "account:create");
    assert_eq!(counts(&admin), ["1", "2", "5"]);
}
