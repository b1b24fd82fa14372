//! Every query parameter of the OpenAPI document does something: another value of a read changes its answer, and a
//! wrong value of a write is refused. Kill Bill's reads are in `query_parameters`.

use serde_json::json;

use super::credentials;
use super::declared::Declared;
use super::row::Row;
use super::send::Sender;
use super::world::World;
use crate::process::eventually;

/// The beginning of the description of a parameter that has no effect.
const TAKEN: &str = "Taken for Kill Bill's clients";

/// An id that nothing has.
const NOTHING: &str = "0192aabb-ccdd-7000-8000-000000000001";

/// The value that a parameter is tried with, of routes that begin so.
const PROBES: [(&str, &str, &str); 65] = [
    ("GET /v1/billing/forecast", "to", "2000-01-01"),
    ("GET /v1/billing/forecast", "after", "ffffffff-ffff-7fff-bfff-ffffffffffff"),
    ("GET /v1/ledger/entries", "from", "2100-01-01"),
    ("GET /v1/ledger/entries", "to", "2000-01-01"),
    ("GET /v1/ledger/entries", "invoice", NOTHING),
    ("GET /v1/analytics/", "from", "2100-01-01"),
    ("GET /v1/analytics/", "to", "2000-01-01"),
    ("GET /v1/analytics/payments", "gateway", "none"),
    ("GET /v1/analytics/payments", "currency", "EUR"),
    ("GET /v1/analytics/payments", "type", "REFUND"),
    ("GET /v1/analytics/payments", "status", "PENDING"),
    ("GET /v1/environments/{key}/diff", "from", "dev"),
    ("GET /v1/environments/{key}/insights/metrics", "event", "none"),
    ("GET /v1/", "from", "2100-01-01"),
    ("GET /v1/", "to", "2000-01-01"),
    ("GET /v1/changes", "status", "rejected"),
    ("GET /v1/disputes", "status", "WON"),
    ("GET /v1/webhooks/deliveries", "status", "given-up"),
    ("GET /v1/webhooks/deliveries", "endpoint", "{endpointId}"),
    ("GET /v1/webhooks/deliveries", "event", "{eventId}"),
    ("GET /v1/events", "after", ""),
    ("GET /v1/accounts/{accountId}/usage", "feature", "feature-of-a"),
    ("GET /v1/flags/{key}/explain", "user", "grace"),
    ("GET /v1/offers/{offerKey}", "version", "2"),
    ("GET /v1/plans/{planName}/features", "version", "2"),
    ("GET /v1/products/{productName}/features", "version", "2"),
    ("GET /v1/operations/", "proof", "made-up"),
    ("GET /v1/", "archived", "true"),
    ("GET /v1/", "account", NOTHING),
    ("GET /v1/", "payment", NOTHING),
    ("GET /v1/", "offset", "1"),
    ("GET /v1/", "limit", "0"),
    ("GET /api/", "timestamp", "4102444800000"),
    // Of writes each of these is refused with its name or value.
    ("POST /v1/environments/{key}/import", "dryRun", "maybe"),
    ("DELETE /v1/", "after", "soon"),
    ("", "gateway", "killbill-stripe"),
    ("", "environment", "nowhere"),
    ("", "project", "nowhere"),
    ("POST /api/", "timestamp", "soon"),
    ("POST /1.0/kb/tenants/registerNotificationCallback", "cb", "nowhere"),
    ("", "requestedDate", "soon"),
    ("", "entitlementDate", "soon"),
    ("", "billingDate", "soon"),
    ("", "effectiveFromDate", "soon"),
    ("", "billingPolicy", "SOON"),
    ("", "entitlementPolicy", "SOON"),
    ("POST /1.0/kb/invoices", "accountId", NOTHING),
    ("POST /1.0/kb/admin/invoices", "offset", "-1"),
    ("POST /1.0/kb/admin/invoices", "limit", "some"),
    ("", "targetDate", "soon"),
    ("", "paymentAmount", "some"),
    ("", "timeoutSec", "soon"),
    ("", "timeZone", "Nowhere/Nothing"),
    ("", "days", "some"),
    ("", "weeks", "some"),
    ("", "months", "some"),
    ("", "years", "some"),
    ("", "cacheName", "made-up"),
    ("", "tagDef", "made-up"),
    ("", "customField", "made-up"),
    ("POST /1.0/kb/paymentGateways/", "paymentMethodId", "made-up"),
    ("", "paymentMethodId", NOTHING),
    ("", "pluginName", "made-up"),
    ("", "controlPluginName", "made-up"),
    ("", "transactionExternalKey", "made-up"),
];

/// The target without the parameter, where the row's request finds too few rows or is invalid itself.
const BASES: [(&str, &str); 3] = [
    ("PUT /1.0/kb/test/clock", "/1.0/kb/test/clock"),
    ("GET /v1/events", "/v1/events?after=first"),
    ("GET /v1/ledger/entries", "/v1/ledger/entries"),
];

/// Parameters whose effect other tests show; `*` is each of a route, or each route.
const ELSEWHERE: [(&str, &str); 31] = [
    // In `simulator_methods`, `routing` and `conformance/stripe-gateway`: gateways read it.
    ("*", "pluginProperty"),
    // In `conformance/replay`.
    ("PUT /1.0/kb/accounts/{accountId}", "treatNullAsReset"),
    ("POST /1.0/kb/accounts/{accountId}/paymentMethods", "isDefault"),
    ("DELETE /1.0/kb/paymentMethods/{paymentMethodId}", "deleteDefaultPmWithAutoPayOff"),
    ("DELETE /1.0/kb/paymentMethods/{paymentMethodId}", "forceDefaultPmDeletion"),
    ("POST /1.0/kb/accounts/payments", "externalKey"),
    // In `conformance/subscriptions`.
    (
        "PUT /1.0/kb/subscriptions/{subscriptionId}/quantity",
        "forceNewQuantityWithPastEffectiveDate",
    ),
    ("PUT /1.0/kb/subscriptions/{subscriptionId}/bcd", "forceNewBcdWithPastEffectiveDate"),
    ("DELETE /1.0/kb/subscriptions/{subscriptionId}", "useRequestedDateForBilling"),
    ("DELETE /1.0/kb/invoices/{invoiceId}/{invoiceItemId}/cba", "accountId"),
    ("POST /1.0/kb/credits", "autoCommit"),
    ("POST /1.0/kb/invoices/charges/{accountId}", "autoCommit"),
    ("POST /1.0/kb/invoices/taxes/{accountId}", "autoCommit"),
    // In `killbill_invoice_payments`.
    ("POST /1.0/kb/invoices/{invoiceId}/payments", "externalPayment"),
    ("POST /1.0/kb/invoices/{invoiceId}/payments", "paymentMethodId"),
    ("POST /1.0/kb/accounts/{accountId}/invoicePayments", "externalPayment"),
    ("POST /1.0/kb/accounts/{accountId}/invoicePayments", "paymentMethodId"),
    // In `domain`'s `closing_an_account_ends_its_subscriptions_where_that_is_asked`.
    ("DELETE /1.0/kb/accounts/{accountId}", "cancelAllSubscriptions"),
    // In `killbill_retries`.
    ("DELETE /1.0/kb/accounts/{accountId}", "removeFutureNotifications"),
    // In `resources_commands::events_are_printed_as_they_are_committed`.
    ("GET /v1/events", "before"),
    // In `webhooks`.
    ("GET /v1/webhooks/deliveries", "before"),
    // In `native`, `mails` and `faults`: nothing is in doubt here, waits to be sent, or is out of service.
    ("GET /v1/payments/unresolved", "*"),
    ("GET /v1/mails", "*"),
    ("GET /v1/quarantine", "*"),
    // In `billing_status`: no account is parked here.
    ("GET /v1/billing", "*"),
    // In `billing_forecast`: one account has something to come here.
    ("GET /v1/billing/forecast", "limit"),
    // Both names are a gateway's.
    ("DELETE /v1/gateways/stripe/endpoint", "gateway"),
    // In `mail_pages`.
    ("GET /verify-email", "token"),
    ("GET /reset-password", "token"),
    // In `signup`.
    ("POST /user/auth/refresh-token", "refresh_token"),
    ("DELETE /user/users/account", "confirmation"),
];

/// The parameters in the query that a row's operation declares, but for those that say that they have no effect.
fn parameters(document: &serde_json::Value, row: &Row) -> Vec<String> {
    let Some((method, path)) = row.route.split_once(' ') else { return vec![] };
    let operation = &document["paths"][path.replace("{*", "{")][method.to_lowercase()];
    let all = operation["parameters"].as_array().into_iter().flatten();
    let is_effective = |it: &&serde_json::Value| {
        it["in"] == "query" && !it["description"].as_str().unwrap_or_default().starts_with(TAKEN)
    };
    all.filter(is_effective).map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

/// The target with this value of a parameter.
fn with(target: &str, name: &str, value: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let others = query.split('&').filter(|it| it.split('=').next() != Some(name) && !it.is_empty());
    let query: Vec<&str> = others.collect();
    format!("{path}?{}", [&query[..], &[&format!("{name}={value}")]].concat().join("&"))
}

/// Reports an evaluation and a measurement, and waits for what is counted later.
fn fill_counts(world: &World, rows: &[Row], sender: &mut Sender) {
    let sdk = credentials::with_raw_secret(world, "a server");
    let user = json!({ "keyId": "ada", "name": "Ada", "customizedProperties": [] });
    let insight = json!([{
        "user": user,
        "variations": [{ "featureFlagKey": "flag-of-a", "variation": { "id": "on", "value": "" } }],
        "metrics": [{ "type": "CustomEvent", "eventName": "e", "numericValue": 1 }],
    }]);
    assert_eq!(sdk.post("/api/public/insight/track", &insight).status, 200);
    for (route, list) in [
        ("GET /v1/environments/{key}/insights/metrics", "metrics"),
        ("GET /v1/flags/{key}/insights", "insights"),
        ("GET /v1/analytics/payments", "payments"),
        ("GET /v1/analytics/accounts", "accounts"),
        ("GET /v1/webhooks/deliveries", "deliveries"),
    ] {
        let row = rows.iter().find(|it| it.route == route).unwrap();
        eventually(route, || {
            let answer = sender.send(world, row, &world.admin());
            let json = answer.json();
            let rows = json[list].as_array().unwrap_or_else(|| panic!("{route}: {json}"));
            (!rows.is_empty()).then_some(())
        });
    }
}

#[test]
fn every_query_parameter_does_something() {
    let world = World::start();
    let rows: Vec<Row> = super::rows();
    let document = world.server.client().get("/openapi.json").json();
    let mut sender = Sender::new(Declared::new(document.clone()));
    fill_counts(&world, &rows, &mut sender);
    let (mut tried, mut ignored) = (0, vec![]);
    for row in &rows {
        let is_read = row.method() == "GET";
        if is_read && row.route.contains(" /1.0/") {
            continue;
        }
        for name in parameters(&document, row) {
            let is_elsewhere = ELSEWHERE
                .iter()
                .any(|(of, which)| [row.route, "*"].contains(of) && [&*name, "*"].contains(which));
            if is_elsewhere {
                continue;
            }
            let probe =
                PROBES.iter().find(|(of, known, _)| *known == name && row.route.starts_with(of));
            let Some((_, _, value)) = probe else {
                ignored.push(format!("{}: no probe for {name}", row.route));
                continue;
            };
            tried += 1;
            world.assign(row.permission());
            let (_, client) = credentials::permitted(&world, row).remove(0);
            let target = BASES.iter().find(|(of, _)| *of == row.route);
            let target = target.map_or_else(|| row.target(&world.objects), |it| it.1.to_owned());
            let probing = with(&target, &name, &world.objects.fill(value));
            let probed = sender.send_to(&world, row, (&client, &probing));
            let ok = if is_read {
                let before = sender.send_to(&world, row, (&client, &target));
                let before = (before.status, before.text());
                [200, 404].contains(&probed.status) && before != (probed.status, probed.text())
            } else {
                // It is refused for this value, and not as another wrong request.
                let said = probed.text();
                let is_named = said.contains(&name)
                    || said.contains(&world.objects.fill(value))
                    // Of another project.
                    || (name == "project" && said.contains("there is no environment"));
                (400..500).contains(&probed.status) && is_named
            };
            if !ok {
                let text = probed.text().chars().take(200).collect::<String>();
                ignored.push(format!("{} {probing}: {} {text}", row.route, probed.status));
            }
        }
    }
    assert!(ignored.is_empty(), "{tried} tried; without effect:\n{}", ignored.join("\n"));
    let undeclared: Vec<_> = sender.undeclared.into_iter().collect();
    assert!(undeclared.is_empty(), "not in the document:\n{}", undeclared.join("\n"));
}
