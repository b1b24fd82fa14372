//! The objects of the matrix's requests: tenants, operators, customers, secrets, and one object of
//! each kind of tenant `a`.

use std::cell::Cell;

use domain::access::PERMISSIONS;
use domain::{PaymentId, TenantNo, TransactionId};
use gateway::customer_return::CustomerReturn;
use secrets::Sealer;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::catalogs;
use crate::client::{Answer, Client};
use crate::disputes;
use crate::flags::checkout;
use crate::native;
use crate::process::{Launch, Server, TempDir, eventually};
use crate::signup::{PASSWORD, launch, mailed_token};

/// In every text of tenant `a` that no request of the matrix names: no other tenant may see it.
pub const CANARY: &str = "canary";

/// The paths of tenant `a`'s values.
pub const STATE_MACHINE: &str = "/1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/stripe";
pub const PLUGIN: &str = "/1.0/kb/tenants/uploadPluginConfig/stripe";
pub const USER_KEY: &str = "/1.0/kb/tenants/userKeyValue/PRIVATE";

/// The environment, and the user whose permission is the one that a route needs.
const ENVIRONMENT: &str = "env-of-a";
pub const PERMITTED: &str = "permitted";
/// The operator who has all permissions but the one that a route needs.
pub const FORBIDDEN: &str = "forbidden";

/// The address of the customer of tenant `b`.
const FOREIGN_EMAIL: &str = "bea@other.example";

/// The objects of tenant `a` by the names that rows have for them.
#[derive(Default)]
pub struct Objects(Vec<(&'static str, String)>);

impl Objects {
    pub fn add(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push((name, value.into()));
    }

    pub fn get(&self, name: &str) -> String {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no object {name}")).1.clone()
    }

    /// The text with the objects in place of their names.
    pub fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
    }

    /// The random ids among them: each belongs to tenant `a` alone.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let is_random =
            |it: &&str| uuid::Uuid::try_parse(it).is_ok_and(|it| it.get_version_num() > 0);
        self.0.iter().map(|(_, value)| value.as_str()).filter(is_random)
    }
}

/// The running server with all of it.
pub struct World {
    pub server: Server,
    pub objects: Objects,
    /// Access tokens of customers, by what became of their sessions.
    pub tokens: Vec<(&'static str, String)>,
    assigned: Cell<Option<&'static str>>,
    /// Secrets of environments, by the tenant and type.
    pub secrets: Vec<(String, String)>,
}

impl World {
    pub fn start() -> Self {
        let launch = Launch { arguments: Launch::usual().grpc().arguments, ..launch() };
        let config = TempDir::new();
        let path = config.path().join("faregate.toml");
        // Nobody answers there.
        let gateway = "[gateway.http.acme]\nurl = \"http://127.0.0.1:9\"\nsecret = \"{SECRET}\"\n";
        std::fs::write(&path, gateway.replace("{SECRET}", crate::gateways::SECRET)).unwrap();
        let launch = launch.env("FAREGATE_CONFIG", path.to_str().unwrap());
        let server = Server::start_with(launch.env("FAREGATE_SIGNUP_TENANT", "a"));
        let objects = Objects::default();
        let mut world =
            Self { server, objects, assigned: Cell::default(), tokens: vec![], secrets: vec![] };
        world.add_tenants();
        world.add_operators();
        world.add_payments();
        world.add_catalog();
        world.add_subscription();
        world.add_flags();
        world.add_changes();
        world.add_customers();
        for (name, of) in [("endpoint", "http/acme"), ("Stripe endpoint", "stripe")] {
            let endpoint = world.admin().get(&format!("/v1/gateways/{of}/endpoint")).json();
            let id = text(&endpoint, "path").rsplit('/').next().unwrap().to_owned();
            world.objects.add(name, id);
        }
        world.objects.add("gateway", "acme");
        world.objects.add("way back", world.way_back());
        world.objects.add("page", world.page());
        world
    }

    /// A page of the simulator on which a customer of tenant `a` enters a card.
    fn page(&self) -> String {
        let account = self.objects.get("accountId");
        let path =
            format!("/1.0/kb/paymentGateways/hosted/form/{account}?pluginName=faregate-simulator");
        let form = self.admin().post(&path, &json!({})).json();
        text(&form, "formUrl").rsplit('/').next().unwrap().to_owned()
    }

    /// Where a customer of tenant `a` comes back to: the URL that Stripe gets.
    fn way_back(&self) -> String {
        let key = std::fs::read(self.server.data_dir.join("secrets.key")).unwrap();
        let back = CustomerReturn {
            tenant: TenantNo(2),
            payment: PaymentId::new(Uuid::from_u128(1)),
            transaction: TransactionId::new(Uuid::from_u128(2)),
            url: "https://shop.example.com/done".to_owned(),
        };
        let path = back.path(&Sealer::new(&key.try_into().unwrap()));
        path.split('/').nth(3).unwrap().to_owned()
    }

    /// The administrator, of tenant `a`.
    pub fn admin(&self) -> Client {
        self.server.client().tenant("a", "the current secret")
    }

    /// The administrator, of tenant `b`.
    pub fn foreign_admin(&self) -> Client {
        self.server.client().tenant("b", "the secret of b")
    }

    pub fn token(&self, of: &str) -> &str {
        &self.tokens.iter().find(|(known, _)| *known == of).unwrap_or_else(|| panic!("{of}")).1
    }

    pub fn secret(&self, of: &str) -> &str {
        &self.secrets.iter().find(|(known, _)| known == of).unwrap_or_else(|| panic!("{of}")).1
    }

    /// A client that is a customer with this access token.
    pub fn bearer(&self, token: &str) -> Client {
        Client::new(&self.server.url).header("Authorization", &format!("Bearer {token}"))
    }

    /// A new session of the customer with this address.
    pub fn session(&self, email: &str) -> Client {
        let client = Client::new(&self.server.url);
        self.bearer(text(&log_in(&client, &self.objects.get(email)), "accessToken"))
    }

    /// A new session of the customer of another tenant, with the credentials of that tenant.
    pub fn foreign_session(&self) -> Client {
        let of_tenant = Client::new(&self.server.url).tenant("b", "the secret of b");
        let session = log_in(&of_tenant, FOREIGN_EMAIL);
        self.bearer(text(&session, "accessToken")).tenant("b", "the secret of b")
    }

    /// Makes a new session of the customer the one that rows name.
    pub fn renew_session(&mut self) {
        let sessions = self.session("email").get("/v1/sessions").json();
        let newest = sessions["sessions"].as_array().unwrap().last().unwrap();
        self.objects.0.retain(|(name, _)| *name != "sessionId");
        self.objects.add("sessionId", text(newest, "id"));
    }

    /// Everything of tenant `a` that a request of another tenant might change: paths, and what they
    /// answer.
    pub fn state(&self) -> Vec<(String, String)> {
        let paths = [
            "/1.0/kb/accounts/pagination",
            "/1.0/kb/accounts/{accountId}/allTags",
            "/1.0/kb/accounts/{accountId}/allCustomFields",
            "/1.0/kb/accounts/{accountId}/emails",
            "/1.0/kb/accounts/{accountId}/block",
            "/1.0/kb/accounts/{spareAccountId}/block",
            "/1.0/kb/tagDefinitions",
            "/1.0/kb/accounts/{accountId}/paymentMethods",
            "/1.0/kb/accounts/{accountId}/payments",
            "/1.0/kb/accounts/{accountId}/auditLogs",
            "/1.0/kb/tenants/registerNotificationCallback",
            "/v1/tenants/{tenantId}",
            "/v1/tenant",
            "/v1/environments",
            "/v1/environments/{envKey}/export",
            "/v1/changes?environment={envKey}",
            "/v1/relay-proxies",
            "/v1/customers",
            "/v1/customers/{customerId}",
            "/v1/ledger/entries",
        ];
        let admin = self.admin();
        let read = |path: &&str| {
            let path = self.objects.fill(path);
            let read = admin.get(&path);
            (path, format!("{} {}", read.status, read.text()))
        };
        paths.iter().map(read).collect()
    }

    /// Gives the operators their roles for routes that need this permission.
    pub fn assign(&self, permission: Option<&'static str>) {
        let Some(permission) = permission else { return };
        if self.assigned.replace(Some(permission)) == Some(permission) {
            return;
        }
        for operator in [PERMITTED, FORBIDDEN] {
            let roles = json!({ "roles": [format!("{operator} {permission}")] });
            let path = format!("/1.0/kb/security/users/{operator}/roles");
            let put = self.server.client().put(&path, &roles);
            assert_eq!(put.status, 204, "{}", put.text());
        }
    }

    fn add_tenants(&mut self) {
        let admin = self.server.client();
        let mut add = |name: Option<&'static str>, key: &str, secret: &str| {
            let tenant = json!({ "apiKey": key, "apiSecret": secret });
            let of_tenant = admin.clone().tenant(key, secret);
            let id = text(&of_tenant.create("/1.0/kb/tenants", &tenant), "tenantId").to_owned();
            if let Some(name) = name {
                self.objects.add(name, id);
            }
        };
        add(Some("tenantId"), "a", "the withdrawn secret");
        add(None, "b", "the secret of b");
        add(Some("spareTenantId"), "spare", "the secret of spare");
        add(Some("offTenantId"), "off", "the secret of off");
        let path = self.objects.fill("/v1/tenants/{tenantId}/secrets");
        let new = json!({ "apiSecret": "the current secret", "overlapSeconds": 0 });
        made(&admin.post(&path, &new));
        let path = self.objects.fill("/v1/tenants/{offTenantId}");
        let off = admin.send("PATCH", &path, Some(br#"{"active":false}"#));
        assert_eq!(off.status, 200, "{}", off.text());
    }

    /// One role of each operator for each permission, so that a change of roles is one request.
    fn add_operators(&mut self) {
        let admin = self.server.client();
        let add_role = |role: &str, permissions: &[&str]| {
            let role = json!({ "role": role, "permissions": permissions });
            assert_eq!(admin.post("/1.0/kb/security/roles", &role).status, 201);
        };
        for permission in PERMISSIONS.iter().chain(&["admin:*"]) {
            let others = PERMISSIONS.iter().filter(|it| *it != permission);
            let others: Vec<&str> = others.copied().collect();
            add_role(&format!("{PERMITTED} {permission}"), &[permission]);
            add_role(&format!("{FORBIDDEN} {permission}"), &others);
        }
        add_role("spare-role", &[]);
        for name in [PERMITTED, FORBIDDEN, "deleted", "spare-user"] {
            let user = json!({ "username": name, "password": PASSWORD, "roles": ["spare-role"] });
            assert_eq!(admin.post("/1.0/kb/security/users", &user).status, 201);
        }
        // Verified once, so that its credential is remembered when it is deleted.
        let deleted = admin.clone().user("deleted", PASSWORD);
        assert_eq!(deleted.get("/1.0/kb/security/subject").status, 200);
        assert_eq!(admin.delete("/1.0/kb/security/users/deleted").status, 204);
        self.objects.add("username", "spare-user");
        self.objects.add("role", "spare-role");
    }

    fn add_payments(&mut self) {
        let admin = self.admin();
        let account = json!({
            "currency": "USD",
            "externalKey": "account-of-a",
            "name": "canary name",
            "email": "canary@example.org",
            "company": "canary company",
        });
        let account = text(&admin.create("/1.0/kb/accounts", &account), "accountId").to_owned();
        let path = format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true");
        let method = json!({
            "externalKey": "method-of-a", "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {},
        });
        let method = admin.create(&path, &method);
        let authorization = json!({
            "transactionType": "AUTHORIZE",
            "amount": "100",
            "paymentExternalKey": "payment-of-a",
            "transactionExternalKey": "transaction-of-a",
        });
        let payments =
            format!("/1.0/kb/accounts/{account}/payments?controlPluginName=faregate-rules");
        let payment = admin.create(&payments, &authorization);
        native::purchase(&admin, &account, "7.77", "");
        self.add_dispute();
        let tags = format!("/1.0/kb/accounts/{account}/tags");
        let added = admin.post(&tags, &json!(["00000000-0000-0000-0000-000000000001"]));
        assert_eq!(added.status, 201, "{}", added.text());
        let definition = json!({
            "name": CANARY, "description": CANARY,
            "applicableObjectTypes": [
                "ACCOUNT", "PAYMENT", "TRANSACTION", "BUNDLE", "SUBSCRIPTION", "INVOICE", "INVOICE_ITEM",
            ],
        });
        let made = admin.post("/1.0/kb/tagDefinitions", &definition);
        let definition = made.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
        assert_eq!(admin.post(&tags, &json!([definition])).status, 201);
        let fields = format!("/1.0/kb/accounts/{account}/customFields");
        let added = admin.post(&fields, &json!([{ "name": CANARY, "value": CANARY }]));
        assert_eq!(added.status, 201, "{added:?}");
        let field = text(&admin.get(&fields).json()[0], "customFieldId").to_owned();
        let tag = text(&admin.get(&tags).json()[0], "tagId").to_owned();
        let callback = "/1.0/kb/tenants/registerNotificationCallback?cb=http://127.0.0.1:9/canary";
        assert_eq!(admin.send("POST", callback, None).status, 201);
        for path in [PLUGIN, USER_KEY] {
            let text = admin.clone().header("Content-Type", "text/plain");
            assert_eq!(text.send("POST", path, Some(CANARY.as_bytes())).status, 201);
        }
        let transaction = text(&payment["transactions"][0], "transactionId");
        let objects = &mut self.objects;
        objects.add("tagDefinitionId", definition);
        objects.add("customFieldId", field);
        objects.add("accountId", account);
        objects.add("accountKey", "account-of-a");
        objects.add("paymentMethodId", text(&method, "paymentMethodId"));
        objects.add("methodKey", "method-of-a");
        objects.add("paymentId", text(&payment, "paymentId"));
        objects.add("paymentKey", "payment-of-a");
        objects.add("transactionId", transaction);
        objects.add("paymentTransactionId", transaction);
        objects.add("transactionKey", "transaction-of-a");
        objects.add("tagId", tag);
        objects.add("searchKey", "of-a");
        self.add_entitlements();
        self.add_parts_of_account();
    }

    /// A feature, a free offer that the account bought, and a grant.
    fn add_entitlements(&mut self) {
        let admin = self.admin();
        let feature = json!({ "name": CANARY, "kind": "switch" });
        assert_eq!(admin.put("/v1/features/feature-of-a", &feature).status, 201);
        let offer = json!({
            "name": CANARY, "features": { "feature-of-a": true }, "again": "extend",
            "lasts": { "days": 1 },
        });
        assert_eq!(admin.put("/v1/offers/offer-of-a", &offer).status, 201);
        let given = json!({ "features": { "feature-of-a": { "value": true } } });
        assert_eq!(admin.put("/v1/plans/plan-of-a/features", &given).status, 201);
        assert_eq!(admin.put("/v1/products/product-of-a/features", &given).status, 201);
        let account = self.objects.fill("/v1/accounts/{accountId}");
        let bought = admin.post(&format!("{account}/purchases"), &json!({ "offer": "offer-of-a" }));
        assert_eq!(bought.status, 201, "{}", bought.text());
        let grant = json!({ "feature": "feature-of-a", "value": true, "reason": "goodwill" });
        let granted = admin.post(&format!("{account}/grants"), &grant);
        assert_eq!(granted.status, 201, "{}", granted.text());
        let users = admin.put(&format!("{account}/users"), &json!({ "users": ["user-of-a"] }));
        assert_eq!(users.status, 200, "{}", users.text());
        self.objects.add("keyId", "user-of-a");
        let limit = json!({ "name": CANARY, "kind": "limit", "unit": "calls", "resets": "month" });
        assert_eq!(admin.put("/v1/features/limit-of-a", &limit).status, 201);
        let limit = json!({ "feature": "limit-of-a", "value": 1_000, "reason": "goodwill" });
        assert_eq!(admin.post(&format!("{account}/grants"), &limit).status, 201);
        let used = json!({ "feature": "limit-of-a", "quantity": 1, "eventId": "event-of-a" });
        assert_eq!(admin.post(&format!("{account}/usage"), &used).status, 200);
        let reserved = json!({ "feature": "limit-of-a", "quantity": 1, "ttlSeconds": 86_400 });
        let reserved = admin.post(&format!("{account}/reservations"), &reserved);
        assert_eq!(reserved.status, 201, "{}", reserved.text());
        self.objects.add("reservationId", text(&reserved.json(), "reservationId"));
        self.objects.add("featureKey", "feature-of-a");
        self.objects.add("offerKey", "offer-of-a");
        self.objects.add("planName", "plan-of-a");
        self.objects.add("productName", "product-of-a");
        self.objects.add("purchaseId", text(&bought.json()["purchase"], "purchaseId"));
        self.objects.add("grantId", text(&granted.json(), "grantId"));
    }

    /// A dispute of a payment through the simulator.
    fn add_dispute(&mut self) {
        let admin = self.admin();
        let (payment, transaction) = disputes::paid(&admin, "faregate-simulator");
        let mut dispute = disputes::said(&transaction, "NEEDS_RESPONSE", "10", "0");
        dispute["reason"] = json!(CANARY);
        let body =
            json!({ "paymentId": payment, "transactionId": transaction, "dispute": dispute });
        let path = "/1.0/kb/paymentGateways/notification/faregate-simulator";
        assert_eq!(admin.post(path, &body).status, 200);
        let all = admin.get("/v1/disputes").json();
        self.objects.add("disputeId", text(&all["disputes"][0], "disputeId"));
    }

    /// Adds objects whose ids only the audit logs have, and an account that a row may close.
    fn add_parts_of_account(&mut self) {
        let admin = self.admin();
        let account = self.objects.fill("/1.0/kb/accounts/{accountId}");
        let further = json!({ "email": "canary@further.example" });
        assert_eq!(admin.post(&format!("{account}/emails"), &further).status, 201);
        let state = json!({ "stateName": "OD1", "service": "overdue-service" });
        assert_eq!(admin.post(&format!("{account}/block"), &state).status, 201);
        let logs = admin.get(&format!("{account}/auditLogs")).json();
        let logs = logs.as_array().unwrap();
        let named = |kind: &str| {
            let log = logs.iter().find(|it| it["objectType"] == kind).unwrap();
            text(log, "objectId").to_owned()
        };
        let spare = admin.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
        self.objects.add("accountEmailId", named("ACCOUNT_EMAIL"));
        self.objects.add("paymentAttemptId", named("PAYMENT_ATTEMPT"));
        self.objects.add("blockingId", named("BLOCKING_STATES"));
        self.objects.add("spareAccountId", text(&spare, "accountId"));
    }

    /// A subscription with its invoice, which is paid, of an account of its own.
    fn add_subscription(&mut self) {
        let admin = self.admin();
        let account = admin.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
        let methods = format!(
            "/1.0/kb/accounts/{}/paymentMethods?isDefault=true",
            text(&account, "accountId")
        );
        admin.create(&methods, &json!({ "pluginName": "__EXTERNAL_PAYMENT__" }));
        let subscription = json!({
            "accountId": text(&account, "accountId"),
            "planName": "pro-monthly",
            "phaseType": "EVERGREEN",
            "externalKey": "subscription-of-a",
            "bundleExternalKey": "bundle-of-a",
        });
        let subscription = admin.create("/1.0/kb/subscriptions", &subscription);
        self.objects.add("subscriberId", text(&account, "accountId"));
        self.objects.add("subscriptionId", text(&subscription, "subscriptionId"));
        self.objects.add("bundleId", text(&subscription, "bundleId"));
        self.objects.add("subscriptionEventId", text(&subscription["events"][0], "eventId"));
        let invoices = format!(
            "/1.0/kb/accounts/{}/invoices?includeInvoiceComponents=true",
            text(&account, "accountId")
        );
        let invoice = admin.get(&invoices).json()[0].clone();
        self.objects.add("invoiceId", text(&invoice, "invoiceId"));
        self.objects.add("invoiceNumber", text(&invoice, "invoiceNumber"));
        let account = text(&account, "accountId");
        let credit = json!([{ "accountId": account, "amount": 1, "description": "canary credit" }]);
        let credit = admin.post("/1.0/kb/credits?autoCommit=true", &credit).json()[0].clone();
        self.objects.add("creditId", text(&credit, "invoiceItemId"));
        let of_credit = format!("/1.0/kb/invoices/byItemId/{}", text(&credit, "invoiceItemId"));
        let of_credit = admin.get(&of_credit).json();
        let items = of_credit["items"].as_array().unwrap();
        let made = items.iter().find(|it| it["itemType"] == "CBA_ADJ").unwrap();
        self.objects.add("creditInvoiceId", text(&of_credit, "invoiceId"));
        self.objects.add("creditItemId", text(made, "invoiceItemId"));
        let found = admin.get(&format!("/1.0/kb/invoices/{}", text(&invoice, "invoiceId"))).json();
        self.objects.add("itemId", text(&found["items"][0], "invoiceItemId"));
        self.objects.add("invoiceItemId", text(&invoice["items"][0], "invoiceItemId"));
    }

    fn add_catalog(&self) {
        let catalog = catalogs::simple("of-a", "2019-01-01T00:00:00Z");
        let xml = self.admin().header("Content-Type", "text/xml");
        assert_eq!(xml.send("POST", "/1.0/kb/catalog", Some(catalog.as_bytes())).status, 201);
    }

    fn add_flags(&mut self) {
        let admin = self.admin();
        made(&admin.post("/v1/environments", &json!({ "key": ENVIRONMENT, "name": CANARY })));
        let segment = json!({ "name": "canary segment", "included": ["grace"] });
        let segments = format!("/v1/segments?environment={ENVIRONMENT}");
        let segment = made(&admin.post(&segments, &segment));
        let mut flag = checkout();
        flag["name"] = json!("canary flag");
        flag["key"] = json!("flag-of-a");
        flag["rules"] = json!([]);
        flag.as_object_mut().unwrap().remove("unknownToUs");
        let flag = made(&admin.post(&format!("/v1/flags?environment={ENVIRONMENT}"), &flag));
        let mut new = flag.clone();
        new["key"] = json!("another-flag");
        new["name"] = json!("Another");
        new.as_object_mut().unwrap().remove("id");
        let secrets = format!("/v1/environments/{ENVIRONMENT}/secrets");
        let spare = made(&admin.post(&secrets, &json!({ "type": "server", "name": "spare" })));
        let relay = json!({ "name": "canary relay", "environments": [ENVIRONMENT] });
        let relay = made(&admin.post("/v1/relay-proxies", &relay));
        let endpoint = json!({ "url": "https://example.com/in", "description": CANARY });
        let endpoint = made(&admin.post("/v1/webhooks/endpoints", &endpoint));
        let replay = json!({ "from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z" });
        let replay = admin.post("/v1/webhooks/replays", &replay).json();
        let events = admin.get("/v1/events?after=first").json();
        let objects = &mut self.objects;
        objects.add("endpointId", text(&endpoint, "id"));
        objects.add("replayId", text(&replay, "id"));
        objects.add("eventId", text(&events["events"][0], "id"));
        objects.add("envKey", ENVIRONMENT);
        objects.add("segmentId", text(&segment, "id"));
        objects.add("segment", segment.to_string());
        objects.add("flagKey", "flag-of-a");
        objects.add("flag", flag.to_string());
        objects.add("newFlag", new.to_string());
        objects.add("secretId", text(&spare, "id"));
        objects.add("relayId", text(&relay, "id"));
        self.secrets.push(("a relay-proxy".to_owned(), text(&relay, "value").to_owned()));
        self.add_secrets();
    }

    /// Secrets of both tenants, of both types for SDKs, one of them expired, and a channel.
    fn add_secrets(&mut self) {
        let (admin, foreign) = (self.admin(), self.foreign_admin());
        for (tenant, client, environment) in [("a", &admin, ENVIRONMENT), ("b", &foreign, "dev")] {
            let path = format!("/v1/environments/{environment}/secrets");
            for kind in ["server", "client", "expired"] {
                let sent = if kind == "expired" { "server" } else { kind };
                let new = json!({ "type": sent, "name": format!("for {kind}") });
                let secret = made(&client.post(&path, &new));
                let (id, value) = (text(&secret, "id"), text(&secret, "value"));
                if kind == "expired" {
                    let path = format!("{path}/{id}");
                    let expired = client.delete(&path);
                    assert!((200..300).contains(&expired.status), "{}", expired.text());
                }
                self.secrets.push((format!("{tenant} {kind}"), value.to_owned()));
            }
        }
        let relay = json!({ "name": "relay of b", "environments": ["dev"] });
        let relay = made(&foreign.post("/v1/relay-proxies", &relay));
        self.secrets.push(("b relay-proxy".to_owned(), text(&relay, "value").to_owned()));
        let ask = json!({ "context": { "targetingKey": "ada" } });
        let channel = eventually("a new secret is known", || {
            let sdk = self.bearer(self.secret("a client"));
            let all = sdk.post("/ofrep/v1/evaluate/flags", &ask);
            let text = all.text();
            let (_, rest) = text.split_once("/ofrep/v1/events/")?;
            Some(
                rest.chars()
                    .take_while(|it| it.is_alphanumeric() || "-_".contains(*it))
                    .collect::<String>(),
            )
        });
        self.objects.add("channel", channel);
    }

    /// Changes of flags: of the administrator, and of the operator with one permission.
    fn add_changes(&mut self) {
        self.assign(Some("flag:write"));
        let (admin, path) = (self.admin(), format!("/v1/changes?environment={ENVIRONMENT}"));
        let own = admin.clone().user(PERMITTED, PASSWORD);
        for (name, client) in
            [("changeId", &admin), ("otherChangeId", &admin), ("ownChangeId", &own)]
        {
            let change = json!({
                "flag": "flag-of-a",
                "patch": { "tags": [CANARY] },
                "needsApproval": true,
                "reason": "canary reason",
            });
            let change = made(&client.post(&path, &change));
            self.objects.add(name, text(&change, "id"));
        }
    }

    /// Customers whose sessions are open or have ended, of both tenants.
    fn add_customers(&mut self) {
        let client = Client::new(&self.server.url);
        for name in ["ann", "carl", "logged-out", "deactivated", "erased"] {
            let email = format!("{name}@canary.example");
            let session = self.customer(&client, (&email, CANARY));
            self.tokens.push((name, text(&session, "accessToken").to_owned()));
            let id = text(&session, "customerId").to_owned();
            if name == "ann" {
                self.objects.add("me", id);
                self.objects.add("email", email);
                self.tokens.push(("refresh", text(&session, "refreshToken").to_owned()));
            } else if name == "carl" {
                self.objects.add("customerId", id);
                self.objects.add("otherEmail", email);
            }
        }
        let of_tenant = client.clone().tenant("b", "the secret of b");
        let bea = self.customer(&of_tenant, (FOREIGN_EMAIL, "Bea"));
        self.tokens.push(("bea", text(&bea, "accessToken").to_owned()));
        let ended = |name: &str| self.bearer(self.token(name));
        assert_eq!(ended("logged-out").delete("/v1/sessions/current").status, 204);
        assert_eq!(ended("deactivated").send("POST", "/user/users/deactivate", None).status, 200);
        let confirmation = "/user/users/account?confirmation=DELETE";
        let password = json!({ "password": PASSWORD }).to_string();
        assert_eq!(
            ended("erased").send("DELETE", confirmation, Some(password.as_bytes())).status,
            200
        );
        for name in ["refreshToken", "otherRefreshToken"] {
            let session = log_in(&client, &self.objects.get("email"));
            self.objects.add(name, text(&session, "refreshToken"));
        }
        self.objects.add("password", PASSWORD);
        self.renew_session();
        self.add_operation_and_mail(&client.header("Prefer", "respond-async"));
    }

    /// A registration that was accepted with 202, and a mail that waits to be sent.
    fn add_operation_and_mail(&mut self, hasty: &Client) {
        let queued = hasty.post("/v1/registrations", &registration("later@canary.example", CANARY));
        assert_eq!(queued.status, 202, "{}", queued.text());
        let location = queued.header("location").unwrap();
        let id = location.split('?').next().unwrap().rsplit('/').next().unwrap();
        self.objects.add("operationId", id);
        let mails = self.admin().get("/v1/mails").json();
        let mail = mails["mails"][0]["id"].as_str();
        self.objects.add("mailId", mail.unwrap_or("00000000-0000-0000-0000-000000000000"));
    }

    /// A new customer who verified the address, and their session.
    fn customer(&self, client: &Client, (email, name): (&str, &str)) -> Value {
        let registered = client.post("/v1/registrations", &registration(email, name));
        assert!((200..300).contains(&registered.status), "{}", registered.text());
        let token = mailed_token(&self.server.data_dir, email, "verify-email");
        let verified = client.post("/v1/registrations/verify", &json!({ "token": token }));
        assert!((200..300).contains(&verified.status), "{}", verified.text());
        log_in(client, email)
    }
}

fn registration(email: &str, name: &str) -> Value {
    json!({
        "email": email,
        "password": PASSWORD,
        "firstName": name,
        "lastName": name,
        "acceptTerms": true,
    })
}

/// A new session, with its tokens.
fn log_in(client: &Client, email: &str) -> Value {
    made(&client.post("/v1/sessions", &json!({ "email": email, "password": PASSWORD })))
}

/// The body of a response that is a success.
fn made(answer: &Answer) -> Value {
    assert!((200..300).contains(&answer.status), "{}: {}", answer.status, answer.text());
    answer.json()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}
