//! The rows of Faregate's own API, and of health and metrics.

use super::row::{Needs, Row, row};

const fn may(permission: &'static str) -> Needs {
    Needs::OperatorAndTenant(Some(permission))
}

/// Any operator with the credentials of the tenant.
const READ: Needs = Needs::OperatorAndTenant(None);
const ADMINISTER: Needs = Needs::Operator(Some("tenant:administer"));
const RELEASE: Needs = Needs::Operator(Some("account:release"));
const READ_FLAGS: Needs = may("flag:read");
const WRITE_FLAGS: Needs = may("flag:write");
const SECRETS: Needs = may("flag:secrets");
const READ_CUSTOMERS: Needs = may("customer:read");
const WRITE_CUSTOMERS: Needs = may("customer:write");

const BY_MAIL: Needs = Needs::TenantIfSent("the token in the mail is the credential");
const BEFORE_LOGIN: Needs = Needs::TenantIfSent("customers have no session yet");

pub fn rows() -> Vec<Row> {
    [
        payments(),
        entitlements(),
        plans(),
        webhooks(),
        gateways(),
        tenants(),
        environments(),
        flags(),
        segments(),
        changes(),
        sign_up(),
        me(),
        customers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub fn operations() -> Vec<Row> {
    let probes = Needs::Nothing("orchestrators and load balancers have no credentials");
    let pages = Needs::Nothing("it has no data");
    vec![
        row("GET /health/live", probes),
        row("GET /health/ready", probes),
        row("GET /health/liveness", probes),
        row("GET /health/readiness", probes),
        // Until the first one has ended.
        row("GET /health/synthetic", probes).or(503),
        row("GET /metrics", Needs::MetricsToken),
        row("GET /", pages),
        row("GET /docs", pages),
        row("GET /openapi.json", pages),
    ]
}

fn plans() -> Vec<Row> {
    let given = r#"{"features":{"feature-of-a":{"value":true}}}"#;
    vec![
        row("GET /v1/plans/{planName}/features", may("offer:read")).of_object(),
        row("GET /v1/plans/{planName}/features/versions", may("offer:read")).of_object(),
        row("PUT /v1/plans/{planName}/features", may("offer:write"))
            .at("/v1/plans/plan-of-a/features")
            .body(given),
        row("GET /v1/products/{productName}/features", may("offer:read")).of_object(),
        row("GET /v1/products/{productName}/features/versions", may("offer:read")).of_object(),
        row("PUT /v1/products/{productName}/features", may("offer:write"))
            .at("/v1/products/product-of-a/features")
            .body(given),
    ]
}

fn entitlements() -> Vec<Row> {
    let feature = r#"{"name":"Seats","kind":"limit","unit":"seats"}"#;
    let offer =
        r#"{"name":"Free","features":{"feature-of-a":true},"again":"extend","lasts":{"days":1}}"#;
    vec![
        row("GET /v1/features", may("feature:read")),
        row("GET /v1/features/{featureKey}", may("feature:read")).of_object(),
        row("PUT /v1/features/{featureKey}", may("feature:write"))
            .at("/v1/features/seats")
            .body(feature),
        row("GET /v1/offers", may("offer:read")),
        row("GET /v1/offers/{offerKey}", may("offer:read")).of_object(),
        row("GET /v1/offers/{offerKey}/versions", may("offer:read")).of_object(),
        row("PUT /v1/offers/{offerKey}", may("offer:write"))
            .at("/v1/offers/offer-of-a")
            .body(offer),
        row("GET /v1/accounts/{accountId}/purchases", may("entitlement:read")).of_object(),
        row("POST /v1/accounts/{accountId}/purchases", may("entitlement:create"))
            .body(r#"{"offer":"offer-of-a"}"#)
            .of_object(),
        row("GET /v1/accounts/{accountId}/purchases/{purchaseId}", may("entitlement:read"))
            .of_object(),
        row("POST /v1/accounts/{accountId}/grants", may("entitlement:grant"))
            .body(r#"{"feature":"feature-of-a","value":true,"reason":"goodwill"}"#)
            .of_object(),
        row("DELETE /v1/accounts/{accountId}/grants/{grantId}", may("entitlement:grant"))
            .of_object()
            .last(),
        row("GET /v1/accounts/{accountId}/entitlements", may("entitlement:read")).of_object(),
        row("GET /v1/accounts/{accountId}/entitlements/{featureKey}", may("entitlement:read"))
            .of_object(),
        row("GET /v1/accounts/{accountId}/users", may("entitlement:users")).of_object(),
        row("PUT /v1/accounts/{accountId}/users", may("entitlement:users"))
            .body(r#"{"users":["user-of-a"]}"#)
            .of_object(),
        row("GET /v1/users/{keyId}/entitlements", may("entitlement:read")).of_object(),
        row("GET /v1/keys", Needs::Nothing("public halves of keys")),
        row("GET /v1/accounts/{accountId}/usage", may("usage:read"))
            .at("/v1/accounts/{accountId}/usage?feature=limit-of-a")
            .of_object(),
        row("POST /v1/accounts/{accountId}/usage", may("usage:write"))
            .body(r#"{"feature":"limit-of-a","quantity":1,"eventId":"another"}"#)
            .of_object(),
        row("POST /v1/accounts/{accountId}/reservations", may("usage:write"))
            .body(r#"{"feature":"limit-of-a","quantity":1,"ttlSeconds":60}"#)
            .of_object(),
        row("GET /v1/accounts/{accountId}/reservations/{reservationId}", may("usage:read"))
            .of_object(),
        row(
            "POST /v1/accounts/{accountId}/reservations/{reservationId}/confirm",
            may("usage:write"),
        )
        .of_object()
        .last(),
        row(
            "POST /v1/accounts/{accountId}/reservations/{reservationId}/release",
            may("usage:write"),
        )
        .of_object()
        .last(),
    ]
}

fn payments() -> Vec<Row> {
    vec![
        row("GET /v1/ledger/accounts", READ)
            .at("/v1/ledger/accounts?account={accountId}")
            .of_object(),
        row("GET /v1/ledger/entries", READ).at("/v1/ledger/entries?payment={paymentId}"),
        row("POST /v1/accounts/{accountId}/erase", may("account:erase")).of_object().last(),
        row("GET /v1/events", may("event:read")),
        row("GET /v1/events/{eventId}", may("event:read")).of_object(),
        row("POST /v1/events/{eventId}/resend", may("event:resend")).of_object(),
        row("GET /v1/payments/unresolved", READ),
        row("GET /v1/billing", READ),
        row("GET /v1/billing/forecast", READ).at("/v1/billing/forecast?to=9000-01-01"),
        row("GET /v1/invoices/{id}/explain", READ)
            .at("/v1/invoices/{invoiceId}/explain")
            .of_object(),
        row("GET /v1/disputes", may("dispute:read")),
        row("GET /v1/disputes/{disputeId}", may("dispute:read")).of_object(),
        // The account's method is not routed.
        row("POST /v1/routing/explain", may("routing:read"))
            .body(r#"{"accountId":"{accountId}","amount":"1"}"#)
            .or(400),
        row("GET /v1/analytics/payments", READ),
        row("GET /v1/analytics/accounts", READ),
        row("GET /v1/analytics/accounts/{account}", READ)
            .at("/v1/analytics/accounts/{accountId}")
            .of_object(),
        row("GET /v1/mails", may("mail:read")),
        row("POST /v1/mails/{id}/resend", may("mail:send"))
            .at("/v1/mails/{mailId}/resend")
            .of_object()
            // A mail that was sent is none any more, and they are sent at once.
            .or(404),
    ]
}

fn webhooks() -> Vec<Row> {
    let (read, write) = (may("webhook:read"), may("webhook:write"));
    vec![
        row("GET /v1/webhooks/endpoints", read),
        row("POST /v1/webhooks/endpoints", write).body(r#"{"url":"https://example.com/in"}"#),
        row("GET /v1/webhooks/endpoints/{endpointId}", read).of_object(),
        row("PATCH /v1/webhooks/endpoints/{endpointId}", write).body("{}").of_object(),
        row("POST /v1/webhooks/endpoints/{endpointId}/secret", write).of_object(),
        row("DELETE /v1/webhooks/endpoints/{endpointId}", write).of_object().last(),
        row("GET /v1/webhooks/deliveries", read),
        row("POST /v1/webhooks/replays", may("event:resend"))
            .body(r#"{"from":"2026-01-01T00:00:00Z"}"#),
        row("GET /v1/webhooks/replays/{replayId}", may("event:resend")).of_object(),
    ]
}

fn gateways() -> Vec<Row> {
    vec![
        row("GET /v1/gateways/http/{name}/endpoint", may("gateway:read"))
            .at("/v1/gateways/http/{gateway}/endpoint"),
        row("GET /v1/gateways/stripe/endpoint", may("gateway:read")),
        // What they withdraw is in other rows.
        row("DELETE /v1/gateways/http/{name}/endpoint", may("gateway:write"))
            .at("/v1/gateways/http/{gateway}/endpoint")
            .last(),
        row("DELETE /v1/gateways/stripe/endpoint", may("gateway:write")).last(),
        // The program is away.
        row("POST /v1/gateways/http/{name}/{endpoint}", Needs::Path("endpoint"))
            .at("/v1/gateways/http/{gateway}/{endpoint}")
            .or(503),
        // The tenant has no key of Stripe.
        row("POST /v1/gateways/stripe/{endpoint}", Needs::Path("Stripe endpoint"))
            .at("/v1/gateways/stripe/{Stripe endpoint}")
            .or(503),
        row("GET /v1/pay/{back}/return", Needs::Path("way back"))
            .at("/v1/pay/{way back}/return")
            .or(303),
        row("GET /v1/simulator/pages/{page}", Needs::Path("page")),
        row("POST /v1/simulator/pages/{page}", Needs::Path("page")).body("card=approved"),
    ]
}

fn tenants() -> Vec<Row> {
    vec![
        row("GET /v1/tenant", READ),
        row("PATCH /v1/tenant", may("tenant:update")).body(r#"{"numericKeys":"checked"}"#),
        row("GET /v1/quarantine", RELEASE),
        // It is in service.
        row("DELETE /v1/quarantine/{accountId}", RELEASE).or(404),
        row("GET /v1/users", Needs::Operator(Some("user:create"))),
        row("GET /v1/tenants", ADMINISTER),
        row("POST /v1/tenants", Needs::Operator(Some("tenant:create")))
            .body(r#"{"apiKey":"another","apiSecret":"a secret of the matrix"}"#),
        row("GET /v1/tenants/{tenantId}", ADMINISTER),
        row("PATCH /v1/tenants/{tenantId}", ADMINISTER)
            .at("/v1/tenants/{spareTenantId}")
            .body("{}"),
        row("POST /v1/tenants/{tenantId}/secrets", ADMINISTER)
            .at("/v1/tenants/{spareTenantId}/secrets")
            .body("{}"),
        row("DELETE /v1/tenants/{tenantId}/secrets/previous", ADMINISTER)
            .at("/v1/tenants/{spareTenantId}/secrets/previous"),
    ]
}

fn environments() -> Vec<Row> {
    let read = may("environment:read");
    vec![
        row("GET /v1/environments", read),
        row("POST /v1/environments", may("environment:create")).body(r#"{"key":"another"}"#),
        row("GET /v1/environments/{key}", read).at("/v1/environments/{envKey}").of_object(),
        row("PATCH /v1/environments/{key}", may("environment:update"))
            .at("/v1/environments/{envKey}")
            .body(r#"{"name":"changed"}"#)
            .of_object(),
        row("POST /v1/environments/{key}/secrets", SECRETS)
            .at("/v1/environments/{envKey}/secrets")
            .body(r#"{"type":"server","name":"another"}"#)
            .of_object(),
        row("DELETE /v1/environments/{key}/secrets/{id}", SECRETS)
            .at("/v1/environments/{envKey}/secrets/{secretId}")
            .of_object(),
        row("POST /v1/environments/{key}/import", WRITE_FLAGS)
            .at("/v1/environments/{envKey}/import?dryRun=true")
            .body(r#"{"featureFlags":[],"segments":[]}"#)
            .of_object(),
        row("GET /v1/environments/{key}/export", READ_FLAGS)
            .at("/v1/environments/{envKey}/export")
            .of_object(),
        row("GET /v1/environments/{key}/insights/metrics", READ_FLAGS)
            .at("/v1/environments/{envKey}/insights/metrics?event=e")
            .of_object(),
        row("GET /v1/environments/{key}/diff", READ_FLAGS)
            .at("/v1/environments/{envKey}/diff?from={envKey}")
            .of_object(),
        row("POST /v1/environments/{key}/copy", WRITE_FLAGS)
            .at("/v1/environments/prod/copy")
            .body(r#"{"from":"{envKey}","flags":["{flagKey}"]}"#)
            .of_object(),
        row("GET /v1/relay-proxies", SECRETS),
        row("POST /v1/relay-proxies", SECRETS)
            .body(r#"{"name":"another","environments":["{envKey}"]}"#)
            .of_object(),
        row("DELETE /v1/relay-proxies/{id}", SECRETS).at("/v1/relay-proxies/{relayId}").of_object(),
    ]
}

fn flags() -> Vec<Row> {
    const FLAG: &str = "/v1/flags/{flagKey}?environment={envKey}";
    vec![
        row("GET /v1/flags", READ_FLAGS).at("/v1/flags?environment={envKey}").of_object(),
        row("POST /v1/flags", WRITE_FLAGS)
            .at("/v1/flags?environment={envKey}")
            .body("{newFlag}")
            .of_object(),
        row("POST /v1/flags/evaluate", READ_FLAGS)
            .at("/v1/flags/evaluate?environment={envKey}")
            .body(r#"{"user":{"keyId":"ada"}}"#)
            .of_object(),
        row("GET /v1/flags/{key}", READ_FLAGS).at(FLAG).of_object(),
        row("PUT /v1/flags/{key}", WRITE_FLAGS).at(FLAG).body("{flag}").of_object(),
        row("DELETE /v1/flags/{key}", WRITE_FLAGS).at(FLAG).of_object(),
        row("PATCH /v1/flags/{key}", WRITE_FLAGS)
            .at(FLAG)
            .body(r#"{"isEnabled":true}"#)
            .of_object(),
        row("GET /v1/flags/{key}/explain", READ_FLAGS)
            .at("/v1/flags/{flagKey}/explain?environment={envKey}&user=ada")
            .of_object(),
        row("POST /v1/flags/{key}/explain", READ_FLAGS)
            .at("/v1/flags/{flagKey}/explain?environment={envKey}")
            .body(r#"{"keyId":"ada"}"#)
            .of_object(),
        row("GET /v1/flags/{key}/history", READ_FLAGS)
            .at("/v1/flags/{flagKey}/history?environment={envKey}")
            .of_object(),
        row("GET /v1/flags/{key}/insights", READ_FLAGS)
            .at("/v1/flags/{flagKey}/insights?environment={envKey}")
            .of_object(),
    ]
}

fn segments() -> Vec<Row> {
    const SEGMENT: &str = "/v1/segments/{segmentId}?environment={envKey}";
    vec![
        row("GET /v1/segments", READ_FLAGS).at("/v1/segments?environment={envKey}").of_object(),
        row("POST /v1/segments", WRITE_FLAGS)
            .at("/v1/segments?environment={envKey}")
            .body(r#"{"name":"another"}"#)
            .of_object(),
        row("GET /v1/segments/{id}", READ_FLAGS).at(SEGMENT).of_object(),
        row("PUT /v1/segments/{id}", WRITE_FLAGS).at(SEGMENT).body("{segment}").of_object(),
        row("PATCH /v1/segments/{id}", WRITE_FLAGS)
            .at(SEGMENT)
            .body(r#"{"description":"changed"}"#)
            .of_object(),
        row("DELETE /v1/segments/{id}", WRITE_FLAGS).at(SEGMENT).of_object(),
        row("GET /v1/segments/{id}/history", READ_FLAGS)
            .at("/v1/segments/{segmentId}/history?environment={envKey}")
            .of_object(),
    ]
}

fn changes() -> Vec<Row> {
    let approve = may("flag:approve");
    vec![
        row("GET /v1/changes", READ_FLAGS).at("/v1/changes?environment={envKey}").of_object(),
        row("POST /v1/changes", WRITE_FLAGS)
            .at("/v1/changes?environment={envKey}")
            .body(r#"{"flag":"{flagKey}","patch":{"isEnabled":false},"needsApproval":true}"#)
            .of_object(),
        row("GET /v1/changes/{id}", READ_FLAGS).at("/v1/changes/{changeId}").of_object(),
        row("POST /v1/changes/{id}/approve", approve)
            .at("/v1/changes/{changeId}/approve")
            .of_object(),
        row("POST /v1/changes/{id}/reject", approve)
            .at("/v1/changes/{otherChangeId}/reject")
            .of_object(),
        row("POST /v1/changes/{id}/withdraw", WRITE_FLAGS)
            .at("/v1/changes/{ownChangeId}/withdraw")
            .of_object(),
    ]
}

fn sign_up() -> Vec<Row> {
    let operation = Needs::TenantIfSent("the operation's id is the credential of its client");
    vec![
        row("POST /v1/registrations", BEFORE_LOGIN).body(
            r#"{"email":"new@example.com","password":"{password}","firstName":"N","lastName":"N","acceptTerms":true}"#,
        ),
        row("POST /v1/registrations/verify", BY_MAIL).body(r#"{"token":"made-up"}"#),
        row("POST /v1/registrations/resend", BEFORE_LOGIN).body(r#"{"email":"{email}"}"#),
        row("POST /v1/sessions", BEFORE_LOGIN)
            .body(r#"{"email":"{email}","password":"{password}"}"#)
            .foreign(401),
        row("POST /v1/sessions/refresh", Needs::TenantIfSent("the refresh token is the credential"))
            .body(r#"{"refreshToken":"{refreshToken}"}"#)
            .foreign(400),
        row("POST /v1/password-resets", BEFORE_LOGIN).body(r#"{"email":"{email}"}"#),
        row("POST /v1/password-resets/complete", BY_MAIL)
            .body(r#"{"token":"made-up","newPassword":"{password}"}"#),
        row("GET /verify-email", BY_MAIL).at("/verify-email?token=made-up"),
        row("POST /verify-email", BY_MAIL).body("token=made-up"),
        row("GET /reset-password", BY_MAIL).at("/reset-password?token=made-up"),
        row("POST /reset-password", BY_MAIL).body("token=made-up&password=Correct-Horse-7"),
        row("GET /v1/operations/{id}", operation).at("/v1/operations/{operationId}").of_object(),
        row("GET /v1/operations/{id}/events", operation)
            .at("/v1/operations/{operationId}/events")
            .of_object()
            .stream(),
    ]
}

fn me() -> Vec<Row> {
    vec![
        row("GET /v1/sessions", Needs::Customer),
        row("DELETE /v1/sessions", Needs::Customer),
        row("DELETE /v1/sessions/current", Needs::Customer),
        row("DELETE /v1/sessions/{id}", Needs::Customer).at("/v1/sessions/{sessionId}").of_object(),
        row("GET /v1/me", Needs::Customer),
        row("GET /v1/me/entitlements", Needs::Customer),
        row("PATCH /v1/me", Needs::Customer).body(r#"{"company":"changed"}"#),
        row("DELETE /v1/me", Needs::Customer).body(r#"{"password":"{password}"}"#).last(),
        row("PUT /v1/me/password", Needs::Customer)
            .body(r#"{"currentPassword":"{password}","newPassword":"{password}"}"#),
        row("POST /v1/me/second-factor", Needs::Customer).body(r#"{"password":"{password}"}"#),
        row("PUT /v1/me/second-factor", Needs::Customer).body(r#"{"code":"000000"}"#).or(401),
        row("DELETE /v1/me/second-factor", Needs::Customer).body(r#"{"password":"{password}"}"#),
    ]
}

fn customers() -> Vec<Row> {
    vec![
        row("GET /v1/customers", READ_CUSTOMERS),
        row("GET /v1/customers/{id}", READ_CUSTOMERS).at("/v1/customers/{customerId}").of_object(),
        row("POST /v1/customers/{id}/deactivate", WRITE_CUSTOMERS)
            .at("/v1/customers/{customerId}/deactivate")
            .of_object(),
        row("POST /v1/customers/{id}/activate", WRITE_CUSTOMERS)
            .at("/v1/customers/{customerId}/activate")
            .of_object(),
        row("DELETE /v1/customers/{id}/second-factor", WRITE_CUSTOMERS)
            .at("/v1/customers/{customerId}/second-factor")
            .of_object(),
        row("DELETE /v1/customers/{id}", WRITE_CUSTOMERS)
            .at("/v1/customers/{customerId}")
            .of_object()
            .last(),
    ]
}
