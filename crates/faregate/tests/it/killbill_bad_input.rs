//! Bad input to Kill Bill's API: every refusal has its status, its code and the field's name,
//! and nothing is written.

use expect_test::{Expect, expect};
use serde_json::json;

use crate::client::{Answer, Client};
use crate::process::Server;

/// Status, code, class and message of a refusal; ids are masked, packages cut.
fn shown(answer: &Answer) -> String {
    if answer.body.is_empty() {
        return format!("{} (no body)", answer.status);
    }
    let body = answer.json();
    let class = body["className"].as_str().and_then(|it| it.rsplit('.').next());
    let class = class.unwrap_or("container");
    let message = body["message"].as_str().unwrap_or_default();
    let mask = |word| if uuid::Uuid::try_parse(word).is_ok() { "<id>" } else { word };
    let masked: Vec<_> = message.split(' ').map(mask).collect();
    let masked = masked.join(" ").replace("org.killbill.billing.", "");
    format!("{} {} {class}: {masked}", answer.status, body["code"])
}

/// An account with a default payment method, and what it takes to talk about them.
struct Shop {
    client: Client,
    account: String,
    server: Server,
}

impl Shop {
    fn open() -> Self {
        let server = Server::start();
        let client = server.tenant();
        let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
        let account = account["accountId"].as_str().unwrap().to_owned();
        let path = format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true");
        client.create(&path, &json!({ "pluginName": "__EXTERNAL_PAYMENT__" }));
        Self { client, account, server }
    }

    fn check(&self, method: &str, path: &str, body: impl AsRef<[u8]>, expected: Expect) {
        let path = path.replace("{account}", &self.account);
        let answer = self.client.send(method, &path, Some(body.as_ref()));
        expected.assert_eq(&shown(&answer));
    }

    fn account(&self, body: impl AsRef<[u8]>, expected: Expect) {
        self.check("POST", "/1.0/kb/accounts", body, expected);
    }

    fn payment(&self, body: impl AsRef<[u8]>, expected: Expect) {
        self.check("POST", "/1.0/kb/accounts/{account}/payments", body, expected);
    }

    fn count(&self, list: &str) -> String {
        let page = self.client.get(&format!("/1.0/kb/{list}/pagination?limit=1"));
        page.header("x-killbill-pagination-maxnbrecords").unwrap().to_owned()
    }
}

#[test]
fn malformed_account_bodies_are_refused() {
    let shop = Shop::open();
    shop.account(
        "",
        expect!["400 null IllegalArgumentException: AccountJson body should be specified"],
    );
    shop.account(
        "null",
        expect!["400 null IllegalArgumentException: AccountJson body should be specified"],
    );
    shop.account("hello", expect!["400 null JsonParseException: AccountJson: malformed JSON: expected value at line 1 column 1"]);
    shop.account(r#"{"currency":"#, expect!["400 null JsonParseException: AccountJson: malformed JSON: EOF while parsing a value at line 1 column 12"]);
    shop.account("[]", expect!["400 null MismatchedInputException: Cannot deserialize value of type `AccountJson`: it is no JSON object"]);
    shop.account(b"{\"name\":\"\xff\"}", expect!["400 null JsonParseException: AccountJson: malformed JSON: the body is not valid UTF-8 (byte 9)"]);
    shop.account(r#"{"foo":1}"#, expect![[r#"400 null UnrecognizedPropertyException: Unrecognized field "foo" (class jaxrs.json.AccountJson), not marked as ignorable (26 known properties: ["accountId", "name", "firstNameLength", "externalKey", "email", "billCycleDayLocal", "currency", "parentAccountId", "isPaymentDelegatedToParent", "paymentMethodId", "referenceTime", "timeZone", "address1", "address2", "postalCode", "company", "city", "state", "country", "locale", "phone", "notes", "isMigrated", "accountBalance", "accountCBA", "auditLogs"])"#]]);
    shop.account(r#"{"name":"a","name":"b"}"#, expect![[r#"400 null JsonParseException: AccountJson: malformed JSON: the field "name" comes twice"#]]);
    assert_eq!(shop.count("accounts"), "1");
}

#[test]
fn invalid_account_fields_are_refused() {
    let shop = Shop::open();
    let long = |field: &str, chars: usize| json!({ field: "x".repeat(chars) }).to_string();
    shop.account(r#"{"currency":"XXZ"}"#, expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `catalog.api.Currency` from String "XXZ" (through reference chain: jaxrs.json.AccountJson["currency"])"#]]);
    shop.account(r#"{"firstNameLength":"abc"}"#, expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `java.lang.Integer` from String "abc" (through reference chain: jaxrs.json.AccountJson["firstNameLength"])"#]]);
    shop.account(r#"{"isMigrated":"maybe"}"#, expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `java.lang.Boolean` from String "maybe" (through reference chain: jaxrs.json.AccountJson["isMigrated"])"#]]);
    shop.account(r#"{"parentAccountId":"abc"}"#, expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `java.util.UUID` from String "abc" (through reference chain: jaxrs.json.AccountJson["parentAccountId"])"#]]);
    shop.account(r#"{"timeZone":"Mars/Base"}"#, expect!["400 null IllegalArgumentException: The datetime zone id 'Mars/Base' is not recognised (timeZone)"]);
    shop.account(r#"{"referenceTime":"10000-01-01T00:00:00Z"}"#, expect![[r#"400 null JsonMappingException: Invalid format: "10000-01-01T00:00:00Z" (through reference chain: jaxrs.json.AccountJson["referenceTime"])"#]]);
    shop.account(r#"{"billCycleDayLocal":32}"#, expect!["400 null IllegalArgumentException: AccountJson billCycleDayLocal should be between 0 and 31"]);
    shop.account(
        r#"{"name":"a\u0000b"}"#,
        expect!["400 null IllegalArgumentException: AccountJson name has a control character"],
    );
    shop.account(
        long("externalKey", 256),
        expect!["400 5 AccountApiException: External key exceeded 255 characters (externalKey)"],
    );
    shop.account(
        long("name", 101),
        expect![
            "400 null IllegalArgumentException: AccountJson name should have at most 100 characters"
        ],
    );
    shop.account(long("email", 129), expect!["400 null IllegalArgumentException: AccountJson email should have at most 128 characters"]);
    shop.account(long("company", 256), expect!["400 null IllegalArgumentException: AccountJson company should have at most 255 characters"]);
    shop.account(long("notes", 4097), expect!["400 null IllegalArgumentException: AccountJson notes should have at most 4096 characters"]);
    assert_eq!(shop.count("accounts"), "1");
}

#[test]
fn invalid_payments_are_refused() {
    let shop = Shop::open();
    let long = |field: &str| {
        let mut body = json!({ "transactionType": "PURCHASE", "amount": 1 });
        body[field] = "x".repeat(256).into();
        body.to_string()
    };
    shop.payment(r#"{"amount":1}"#, expect!["400 null IllegalArgumentException: PaymentTransactionJson transactionType needs to be set"]);
    shop.payment(r#"{"transactionType":"purchase","amount":1}"#, expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `payment.api.TransactionType` from String "purchase" (through reference chain: jaxrs.json.PaymentTransactionJson["transactionType"])"#]]);
    shop.payment(
        r#"{"transactionType":"PURCHASE"}"#,
        expect!["400 7031 PaymentApiException: Invalid parameter amount: needs to be set"],
    );
    shop.payment(r#"{"transactionType":"PURCHASE","amount":1,"currency":"usd"}"#, expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `catalog.api.Currency` from String "usd" (through reference chain: jaxrs.json.PaymentTransactionJson["currency"])"#]]);
    shop.payment(
        long("paymentExternalKey"),
        expect![
            "400 5 PaymentApiException: External key exceeded 255 characters (paymentExternalKey)"
        ],
    );
    shop.payment(long("transactionExternalKey"), expect!["400 5 PaymentApiException: External key exceeded 255 characters (transactionExternalKey)"]);
    assert_eq!(shop.count("payments"), "0");
}

#[test]
fn invalid_amounts_are_refused() {
    let shop = Shop::open();
    let with = |amount: &str| format!(r#"{{"transactionType":"PURCHASE","amount":{amount}}}"#);
    shop.payment(with(r#""abc""#), expect![[r#"400 null InvalidFormatException: Cannot deserialize value of type `java.math.BigDecimal` from String "abc" (through reference chain: jaxrs.json.PaymentTransactionJson["amount"])"#]]);
    shop.payment(with("1.234"), expect!["400 7031 PaymentApiException: Invalid parameter amount: 1.234: more decimals than the currency has (2)"]);
    shop.payment(
        with("0"),
        expect![
            "400 7031 PaymentApiException: Invalid parameter amount: 0: should be greater than 0"
        ],
    );
    shop.payment(
        with("-1"),
        expect![
            "400 7031 PaymentApiException: Invalid parameter amount: -1: should be greater than 0"
        ],
    );
    shop.payment(
        with("123456789012345678"),
        expect![
            "400 7031 PaymentApiException: Invalid parameter amount: 123456789012345678: too large"
        ],
    );
    shop.payment(
        with("1e999999999"),
        expect!["400 7031 PaymentApiException: Invalid parameter amount: 1e999999999: too large"],
    );
    shop.payment(with(&"9".repeat(65)), expect!["400 7031 PaymentApiException: Invalid parameter amount: should have at most 64 characters"]);
    assert_eq!(shop.count("payments"), "0");
}

#[test]
fn card_data_and_control_plugins_are_refused() {
    let shop = Shop::open();
    let purchase = r#"{"transactionType":"PURCHASE","amount":1}"#;
    let payments = "/1.0/kb/accounts/{account}/payments";
    let with = |query: &str| format!("{payments}?{query}");
    shop.check("POST", &with("pluginProperty=cvv%3D123"), purchase, expect!["400 7031 PaymentApiException: Invalid parameter pluginProperty: cvv holds card data, which is not taken: send a token of a vault"]);
    shop.check("POST", &with("pluginProperty=note%3D4111+1111+1111+1111"), purchase, expect!["400 7031 PaymentApiException: Invalid parameter pluginProperty: holds a card number or security code, which is not taken: send a token of a vault"]);
    shop.check("POST", &with("controlPluginName=nope"), purchase, expect!["400 7031 PaymentApiException: Invalid parameter controlPluginName: there is no control plugin nope"]);
    shop.check(
        "POST",
        &with("paymentMethodId=abc"),
        purchase,
        expect!["400 null IllegalArgumentException: paymentMethodId: Invalid UUID string: abc"],
    );
    let method = json!({
        "pluginName": "__EXTERNAL_PAYMENT__",
        "pluginInfo": { "properties": [{ "key": "ccNumber", "value": "4111111111111111" }] },
    });
    let methods = "/1.0/kb/accounts/{account}/paymentMethods";
    shop.check("POST", methods, method.to_string(), expect!["400 7031 PaymentApiException: Invalid parameter pluginInfo.properties[0].value: holds a card number or security code, which is not taken: send a token of a vault"]);
    assert_eq!(shop.count("paymentMethods"), "1");
    assert_eq!(shop.count("payments"), "0");
}

/// Kill Bill's clients send whole accounts.
#[test]
fn what_is_dropped_of_a_new_account_is_named() {
    let shop = Shop::open();
    let create = |body: serde_json::Value| shop.client.post("/1.0/kb/accounts", &body);
    let plain = create(json!({ "currency": "USD" }));
    assert_eq!((plain.status, plain.header("x-faregate-ignored")), (201, None));
    let method = "00000000-0000-0000-0000-000000000001";
    let named = create(json!({ "currency": "USD", "paymentMethodId": method }));
    assert_eq!((named.status, named.header("x-faregate-ignored")), (201, Some("paymentMethodId")));
    assert_eq!(create(json!({ "paymentMethodId": "x" })).status, 400);
}

#[test]
fn invalid_paths_and_parameters_are_refused() {
    let shop = Shop::open();
    let get = |path: &str, expected: Expect| shop.check("GET", path, "", expected);
    get(
        "/1.0/kb/accounts/abc",
        expect!["400 null IllegalArgumentException: accountId: Invalid UUID string: abc"],
    );
    get(
        "/1.0/kb/accounts/00000000-0000-0000-0000-000000000001",
        expect!["404 3002 AccountApiException: Account does not exist for id <id>"],
    );
    get(
        "/1.0/kb/accounts/{account}?audit=SOME",
        expect!["400 null IllegalArgumentException: audit=SOME: should be NONE, MINIMAL or FULL"],
    );
    get(
        "/1.0/kb/accounts/pagination?offset=-1",
        expect!["400 null IllegalArgumentException: offset should not be negative"],
    );
    get(
        "/1.0/kb/accounts/pagination?limit=x",
        expect!["400 null IllegalArgumentException: limit is not a number"],
    );
    get(
        "/1.0/kb/accounts/search/%ff",
        expect!["400 null IllegalArgumentException: searchKey is not valid UTF-8"],
    );
    get("/1.0/kb/nosuch", expect!["404 null container: Not Found"]);
    get(
        "/1.0/kb/invoices/template",
        expect![
            "501 null UnsupportedOperationException: GET /1.0/kb/invoices/template is not served here"
        ],
    );
    get(
        "/1.0/kb/test/clock?timeZone=Mars",
        expect![
            "400 null IllegalArgumentException: The datetime zone id 'Mars' is not recognised (timeZone)"
        ],
    );
    shop.check(
        "POST",
        "/1.0/kb/test/clock?requestedDate=10000-01-01",
        "",
        expect![[
            r#"400 null IllegalArgumentException: Invalid format: "10000-01-01" (requestedDate)"#
        ]],
    );
    shop.check(
        "PUT",
        "/1.0/kb/test/clock?years=x",
        "",
        expect!["400 null IllegalArgumentException: years is no number of years, or too many"],
    );
    shop.check("PATCH", "/1.0/kb/accounts/{account}", "{}", expect!["405 (no body)"]);
    shop.check("POST", "/1.0/kb/tenants/registerNotificationCallback", "", expect!["400 null IllegalArgumentException: cb should be an http or https URL of at most 2048 characters"]);
}

#[test]
fn invalid_headers_are_refused() {
    let shop = Shop::open();
    let check = |name: &str, value: &str, expected: Expect| {
        let client = shop.client.clone().header(name, value);
        let answer = client.send("POST", "/1.0/kb/accounts", Some(b"{}"));
        expected.assert_eq(&shown(&answer));
    };
    check("Authorization", "Basic bm9ib2R5Om5vcGU=", expect!["401 (no body)"]);
    check(
        "X-Killbill-ApiKey",
        "nosuch",
        expect!["401 null container: No account found for user [nosuch]"],
    );
    check(
        "X-Killbill-ApiSecret",
        "wrong",
        expect![
            "401 null container: Submitted credentials for token [org.apache.shiro.authc.UsernamePasswordToken - bob, rememberMe=false] did not match the expected credentials."
        ],
    );
    check(
        "X-Killbill-CreatedBy",
        &"x".repeat(51),
        expect![
            "400 null IllegalArgumentException: Header x-killbill-createdby should have at most 50 characters"
        ],
    );
    check(
        "X-Killbill-Reason",
        &"x".repeat(256),
        expect![
            "400 null IllegalArgumentException: Header x-killbill-reason should have at most 255 characters"
        ],
    );
    check("Content-Type", "text/plain", expect!["415 null container: Unsupported Media Type"]);
    check(
        "Idempotency-Key",
        "\"\"",
        expect!["400 null IllegalArgumentException: Header Idempotency-Key should not be empty"],
    );
    check(
        "Idempotency-Key",
        "\"abc",
        expect![
            "400 null IllegalArgumentException: Header Idempotency-Key has an opening quote but no closing one"
        ],
    );
    check(
        "Idempotency-Key",
        &"k".repeat(256),
        expect![
            "400 null IllegalArgumentException: Header Idempotency-Key should have at most 255 characters"
        ],
    );
    let unauthenticated = Client::new(&shop.server.url);
    expect!["401 (no body)"].assert_eq(&shown(&unauthenticated.get("/1.0/kb/accounts")));
    let of_no_tenant = unauthenticated.user("admin", "password");
    expect!["401 null container: Make sure to set the X-Killbill-ApiKey and X-Killbill-ApiSecret headers"].assert_eq(&shown(&of_no_tenant.get("/1.0/kb/accounts")));
    assert_eq!(shop.count("accounts"), "1");
}
