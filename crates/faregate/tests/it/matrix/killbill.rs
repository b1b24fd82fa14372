//! The rows of Kill Bill's API.

use std::sync::LazyLock;

use super::row::{Needs, Row, row};
use super::world::{PLUGIN, STATE_MACHINE, USER_KEY};

const fn may(permission: &'static str) -> Needs {
    Needs::OperatorAndTenant(Some(permission))
}

const fn installation(permission: &'static str) -> Needs {
    Needs::Operator(Some(permission))
}

/// Any operator with the credentials of the tenant: Kill Bill asks no permission for reads.
const READ: Needs = Needs::OperatorAndTenant(None);
/// Any operator: the route is about the installation.
const ANY: Needs = Needs::Operator(None);

const TRIGGER: Needs = may("payment:trigger");
const REFUND: Needs = may("payment:refund");
const CHARGEBACK: Needs = may("payment:chargeback");

/// The body of a request about a payment that it names by its key.
const BY_KEY: &str = r#"{"paymentExternalKey":"{paymentKey}","amount":"1"}"#;

static CATALOG: LazyLock<String> =
    LazyLock::new(|| crate::catalogs::simple("of-a", "2020-01-01T00:00:00Z"));
static LATER_CATALOG: LazyLock<String> =
    LazyLock::new(|| crate::catalogs::simple("of-a", "2021-01-01T00:00:00Z"));

pub fn rows() -> Vec<Row> {
    [
        tenants(),
        accounts(),
        emails(),
        custom_fields(),
        methods(),
        payments(),
        transactions(),
        security(),
        billed(),
        of_bundles(),
        of_subscriptions(),
        of_invoices(),
        catalogs(),
        others(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn tenants() -> Vec<Row> {
    vec![
        row("POST /1.0/kb/tenants", installation("tenant:create"))
            .body(r#"{"apiKey":"another-key","apiSecret":"another-secret"}"#),
        row("GET /1.0/kb/tenants", ANY).at("/1.0/kb/tenants?apiKey=a"),
        row("GET /1.0/kb/tenants/{tenantId}", READ).of_object(),
        row("POST /1.0/kb/tenants/registerNotificationCallback", may("tenant_kvs:add"))
            .at("/1.0/kb/tenants/registerNotificationCallback?cb=http://127.0.0.1:9/other"),
        row("GET /1.0/kb/tenants/registerNotificationCallback", READ),
        row("DELETE /1.0/kb/tenants/registerNotificationCallback", may("tenant_kvs:delete")),
        row("POST /1.0/kb/tenants/uploadPerTenantConfig", may("tenant_kvs:add")).text("{}"),
        row("GET /1.0/kb/tenants/uploadPerTenantConfig", READ),
        row("DELETE /1.0/kb/tenants/uploadPerTenantConfig", may("tenant_kvs:delete")),
        row("GET /1.0/kb/tenants/uploadPerTenantConfig/{keyPrefix}/search", READ)
            .at("/1.0/kb/tenants/uploadPerTenantConfig/P/search"),
        row("POST /1.0/kb/tenants/uploadPluginConfig/{pluginName}", may("tenant_kvs:add"))
            .at(PLUGIN)
            .text("a=b"),
        row("GET /1.0/kb/tenants/uploadPluginConfig/{pluginName}", READ).at(PLUGIN),
        row("DELETE /1.0/kb/tenants/uploadPluginConfig/{pluginName}", may("tenant_kvs:delete"))
            .at(PLUGIN),
        // The tests have no payment state machine that is accepted.
        row(
            "POST /1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/{pluginName}",
            may("tenant_kvs:add"),
        )
        .at(STATE_MACHINE)
        .text("<a/>"),
        row("GET /1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/{pluginName}", READ)
            .at(STATE_MACHINE),
        row(
            "DELETE /1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/{pluginName}",
            may("tenant_kvs:delete"),
        )
        .at(STATE_MACHINE),
        row("POST /1.0/kb/tenants/userKeyValue/{keyName}", may("tenant_kvs:add"))
            .at(USER_KEY)
            .text("blue"),
        row("GET /1.0/kb/tenants/userKeyValue/{keyName}", READ).at(USER_KEY),
        row("DELETE /1.0/kb/tenants/userKeyValue/{keyName}", may("tenant_kvs:delete")).at(USER_KEY),
    ]
}

fn accounts() -> Vec<Row> {
    vec![
        row("POST /1.0/kb/accounts", may("account:create")).body(r#"{"currency":"USD"}"#),
        row("GET /1.0/kb/accounts", READ)
            .at("/1.0/kb/accounts?externalKey={accountKey}")
            .of_object(),
        row("GET /1.0/kb/accounts/pagination", READ),
        row("GET /1.0/kb/accounts/search/{searchKey}", READ),
        row("GET /1.0/kb/accounts/{accountId}", READ).of_object(),
        row("PUT /1.0/kb/accounts/{accountId}", may("account:update"))
            .body(r#"{"company":"changed"}"#)
            .of_object(),
        row("DELETE /1.0/kb/accounts/{accountId}", may("entitlement:pause_resume"))
            .at("/1.0/kb/accounts/{spareAccountId}")
            .of_object(),
        row("GET /1.0/kb/accounts/{accountId}/block", READ).of_object(),
        row("POST /1.0/kb/accounts/{accountId}/block", may("entitlement:pause_resume"))
            .body(r#"{"stateName":"OD2","service":"overdue-service"}"#)
            .of_object(),
        row("GET /1.0/kb/accounts/block/{blockingId}/auditLogsWithHistory", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/auditLogs", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/auditLogsWithHistory", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/children", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/overdue", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/timeline", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/bundles", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/bundles/pagination", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/invoices", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/invoices/pagination", READ).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/invoicePayments", READ).of_object(),
        row("POST /1.0/kb/accounts/{accountId}/invoicePayments", TRIGGER).of_object(),
        row("PUT /1.0/kb/accounts/{accountId}/cbaRebalancing", may("account:credit")).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/tags", READ).of_object(),
        row("POST /1.0/kb/accounts/{accountId}/tags", may("tag:add"))
            .body(r#"["00000000-0000-0000-0000-000000000002"]"#)
            .of_object(),
        row("DELETE /1.0/kb/accounts/{accountId}/tags", may("tag:delete"))
            .at("/1.0/kb/accounts/{accountId}/tags?tagDef=00000000-0000-0000-0000-000000000001")
            .of_object(),
        row("GET /1.0/kb/accounts/{accountId}/allTags", READ).of_object(),
        row("GET /1.0/kb/payments/{paymentId}/tags", READ).of_object(),
        row("POST /1.0/kb/payments/{paymentId}/tags", may("tag:add"))
            .body(r#"["{tagDefinitionId}"]"#)
            .of_object(),
        row("DELETE /1.0/kb/payments/{paymentId}/tags", may("tag:delete")).of_object(),
        row("GET /1.0/kb/paymentTransactions/{transactionId}/tags", READ).of_object(),
        row("POST /1.0/kb/paymentTransactions/{transactionId}/tags", may("tag:add"))
            .body(r#"["{tagDefinitionId}"]"#)
            .of_object(),
        row("DELETE /1.0/kb/paymentTransactions/{transactionId}/tags", may("tag:delete"))
            .of_object(),
        row("GET /1.0/kb/tags/pagination", READ),
        row("GET /1.0/kb/tags/search/{searchKey}", READ),
        row("GET /1.0/kb/tagDefinitions", READ),
        row("POST /1.0/kb/tagDefinitions", may("tag:create_tag_definition"))
            .body(r#"{"name":"new","description":"d","applicableObjectTypes":["ACCOUNT"]}"#),
        row("GET /1.0/kb/tagDefinitions/{tagDefinitionId}", READ).of_object(),
        row("DELETE /1.0/kb/tagDefinitions/{tagDefinitionId}", may("tag:delete_tag_definition"))
            .of_object()
            // Something is tagged with it.
            .or(400),
        row("GET /1.0/kb/tagDefinitions/{tagDefinitionId}/auditLogsWithHistory", READ).of_object(),
        row("GET /1.0/kb/tags/{tagId}/auditLogsWithHistory", READ).of_object(),
    ]
}

fn emails() -> Vec<Row> {
    vec![
        row("GET /1.0/kb/accounts/{accountId}/emails", READ).of_object(),
        row("POST /1.0/kb/accounts/{accountId}/emails", may("account:add_emails"))
            .body(r#"{"email":"new@x.org"}"#)
            .of_object(),
        row("DELETE /1.0/kb/accounts/{accountId}/emails/{email}", may("account:delete_emails"))
            .at("/1.0/kb/accounts/{accountId}/emails/new@x.org")
            .of_object(),
        row("GET /1.0/kb/accounts/{accountId}/emails/{accountEmailId}/auditLogsWithHistory", READ)
            .of_object(),
    ]
}

fn custom_fields() -> Vec<Row> {
    const NEW: &str = r#"[{"name":"n","value":"v"}]"#;
    const CHANGED: &str = r#"[{"customFieldId":"{customFieldId}","value":"v"}]"#;
    let add = may("custom_field:add");
    let update = may("custom_field:update");
    let delete = may("custom_field:delete");
    vec![
        row("GET /1.0/kb/accounts/{accountId}/customFields", READ).of_object(),
        row("POST /1.0/kb/accounts/{accountId}/customFields", add).body(NEW).of_object(),
        row("PUT /1.0/kb/accounts/{accountId}/customFields", update).body(CHANGED).of_object(),
        row("DELETE /1.0/kb/accounts/{accountId}/customFields", delete)
            .at("/1.0/kb/accounts/{accountId}/customFields?customField={accountId}")
            .of_object(),
        row("GET /1.0/kb/accounts/{accountId}/allCustomFields", READ).of_object(),
        row("GET /1.0/kb/paymentMethods/{paymentMethodId}/customFields", READ).of_object(),
        row("POST /1.0/kb/paymentMethods/{paymentMethodId}/customFields", add)
            .body(NEW)
            .of_object(),
        // The field is the account's.
        row("PUT /1.0/kb/paymentMethods/{paymentMethodId}/customFields", update)
            .body(CHANGED)
            .of_object()
            .or(400),
        row("DELETE /1.0/kb/paymentMethods/{paymentMethodId}/customFields", delete).of_object(),
        row("GET /1.0/kb/payments/{paymentId}/customFields", READ).of_object(),
        row("POST /1.0/kb/payments/{paymentId}/customFields", add).body(NEW).of_object(),
        row("PUT /1.0/kb/payments/{paymentId}/customFields", update)
            .body(CHANGED)
            .of_object()
            .or(400),
        row("DELETE /1.0/kb/payments/{paymentId}/customFields", delete).of_object(),
        row("GET /1.0/kb/paymentTransactions/{transactionId}/customFields", READ).of_object(),
        row("POST /1.0/kb/paymentTransactions/{transactionId}/customFields", add)
            .body(NEW)
            .of_object(),
        row("PUT /1.0/kb/paymentTransactions/{transactionId}/customFields", update)
            .body(CHANGED)
            .of_object()
            .or(400),
        row("DELETE /1.0/kb/paymentTransactions/{transactionId}/customFields", delete).of_object(),
        row("GET /1.0/kb/customFields/pagination", READ),
        row("GET /1.0/kb/customFields/search", READ)
            .at("/1.0/kb/customFields/search?objectType=ACCOUNT&fieldName=canary"),
        row("GET /1.0/kb/customFields/search/{searchKey}", READ),
        row("GET /1.0/kb/customFields/{customFieldId}/auditLogsWithHistory", READ).of_object(),
    ]
}

fn methods() -> Vec<Row> {
    vec![
        row("POST /1.0/kb/accounts/{accountId}/paymentMethods", may("payment_method:create"))
            .body(r#"{"pluginName":"__EXTERNAL_PAYMENT__","pluginInfo":{}}"#)
            .of_object(),
        row("GET /1.0/kb/accounts/{accountId}/paymentMethods", READ).of_object(),
        row(
            "PUT /1.0/kb/accounts/{accountId}/paymentMethods/refresh",
            may("payment_method:update"),
        )
        .of_object(),
        row(
            "PUT /1.0/kb/accounts/{accountId}/paymentMethods/{paymentMethodId}/setDefault",
            may("payment_method:update"),
        )
        .of_object(),
        row("GET /1.0/kb/paymentMethods", READ)
            .at("/1.0/kb/paymentMethods?externalKey={methodKey}")
            .of_object(),
        row("GET /1.0/kb/paymentMethods/pagination", READ),
        row("GET /1.0/kb/paymentMethods/search/{searchKey}", READ),
        row("GET /1.0/kb/paymentMethods/{paymentMethodId}", READ).of_object(),
        row("DELETE /1.0/kb/paymentMethods/{paymentMethodId}", may("payment_method:delete"))
            .of_object(),
        row("GET /1.0/kb/paymentMethods/{paymentMethodId}/auditLogsWithHistory", READ).of_object(),
    ]
}

fn payments() -> Vec<Row> {
    const PURCHASE: &str = r#"{"transactionType":"PURCHASE","amount":"1"}"#;
    vec![
        row("POST /1.0/kb/accounts/payments", TRIGGER)
            .at("/1.0/kb/accounts/payments?externalKey={accountKey}")
            .body(PURCHASE)
            .of_object(),
        row("POST /1.0/kb/accounts/{accountId}/payments", TRIGGER).body(PURCHASE).of_object(),
        row("GET /1.0/kb/accounts/{accountId}/payments", READ).of_object(),
        row("GET /1.0/kb/payments", READ)
            .at("/1.0/kb/payments?externalKey={paymentKey}")
            .of_object(),
        row("POST /1.0/kb/payments", TRIGGER)
            .body(r#"{"paymentExternalKey":"{paymentKey}","amount":"50"}"#)
            .of_object(),
        row("PUT /1.0/kb/payments", TRIGGER).body(BY_KEY).of_object(),
        row("DELETE /1.0/kb/payments", TRIGGER).body(BY_KEY).of_object(),
        row("GET /1.0/kb/payments/pagination", READ),
        row("GET /1.0/kb/payments/search/{searchKey}", READ),
        row("POST /1.0/kb/payments/refunds", REFUND).body(BY_KEY).of_object(),
        row("POST /1.0/kb/payments/chargebacks", CHARGEBACK)
            .body(r#"{"paymentExternalKey":"{paymentKey}","amount":"1","transactionExternalKey":"first"}"#)
            .of_object(),
        row("POST /1.0/kb/payments/chargebackReversals", CHARGEBACK)
            .body(r#"{"paymentExternalKey":"{paymentKey}","transactionExternalKey":"first"}"#)
            .of_object(),
        row("POST /1.0/kb/payments/combo", TRIGGER)
            .body(r#"{"account":{"accountId":"{accountId}"},"transaction":{"transactionType":"PURCHASE","amount":"1"}}"#)
            .of_object(),
        row("GET /1.0/kb/payments/{paymentId}", READ).of_object(),
        row("POST /1.0/kb/payments/{paymentId}", TRIGGER).body(r#"{"amount":"1"}"#).of_object(),
        row("PUT /1.0/kb/payments/{paymentId}", TRIGGER).body(r#"{"amount":"1"}"#).of_object(),
        row("DELETE /1.0/kb/payments/{paymentId}", TRIGGER).body("{}").of_object(),
        row(
            "DELETE /1.0/kb/payments/{paymentTransactionId}/cancelScheduledPaymentTransaction",
            TRIGGER,
        )
        .of_object(),
        row("DELETE /1.0/kb/payments/cancelScheduledPaymentTransaction", TRIGGER)
            .at("/1.0/kb/payments/cancelScheduledPaymentTransaction\
                 ?transactionExternalKey={transactionKey}")
            .of_object(),
        row("POST /1.0/kb/payments/{paymentId}/refunds", REFUND)
            .body(r#"{"amount":"1"}"#)
            .of_object(),
        row("POST /1.0/kb/payments/{paymentId}/chargebacks", CHARGEBACK)
            .body(r#"{"amount":"1","transactionExternalKey":"second"}"#)
            .of_object(),
        row("POST /1.0/kb/payments/{paymentId}/chargebackReversals", CHARGEBACK)
            .body(r#"{"transactionExternalKey":"second"}"#)
            .of_object(),
        row("GET /1.0/kb/payments/attempts/{paymentAttemptId}/auditLogsWithHistory", READ)
            .of_object(),
        row("GET /1.0/kb/payments/{paymentId}/auditLogsWithHistory", READ).of_object(),
    ]
}

fn transactions() -> Vec<Row> {
    vec![
        row("GET /1.0/kb/paymentTransactions", READ)
            .at("/1.0/kb/paymentTransactions?transactionExternalKey={transactionKey}")
            .of_object(),
        row("GET /1.0/kb/paymentTransactions/{transactionId}", READ).of_object(),
        row("POST /1.0/kb/paymentTransactions/{transactionId}", may("payment:transition"))
            .body(r#"{"paymentId":"{paymentId}","status":"SUCCESS"}"#)
            .of_object()
            // It is not pending.
            .or(404),
        row("GET /1.0/kb/paymentTransactions/{transactionId}/auditLogsWithHistory", READ)
            .of_object(),
        row("DELETE /1.0/kb/admin/healthcheck", installation("admin:*")),
        row("PUT /1.0/kb/admin/healthcheck", installation("admin:*")),
        row("GET /1.0/kb/admin/queues", may("admin:*"))
            .at("/1.0/kb/admin/queues?accountId={accountId}")
            .accepting("*/*")
            .of_object(),
        row("GET /1.0/metrics", installation("admin:*")),
        row("DELETE /1.0/kb/admin/cache", installation("admin:*")),
        row("DELETE /1.0/kb/admin/cache/accounts/{accountId}", may("admin:*")).of_object(),
        row("DELETE /1.0/kb/admin/cache/tenants", may("admin:*")),
        row("POST /1.0/kb/admin/invoices", may("invoice:trigger")),
        row(
            "PUT /1.0/kb/admin/payments/{paymentId}/transactions/{paymentTransactionId}",
            may("admin:update"),
        )
        .body(r#"{"transactionStatus":"SUCCESS"}"#)
        .of_object(),
    ]
}

fn security() -> Vec<Row> {
    let change = installation("user:create");
    vec![
        row("POST /1.0/kb/security/users", change)
            .body(r#"{"username":"another","password":"x","roles":[]}"#),
        row("PUT /1.0/kb/security/users/{username}/password", change).body(r#"{"password":"y"}"#),
        row("GET /1.0/kb/security/users/{username}/roles", ANY),
        row("PUT /1.0/kb/security/users/{username}/roles", change).body(r#"{"roles":[]}"#),
        row("DELETE /1.0/kb/security/users/{username}", change),
        row("POST /1.0/kb/security/roles", change).body(r#"{"role":"another","permissions":[]}"#),
        row("PUT /1.0/kb/security/roles", change).body(r#"{"role":"{role}","permissions":[]}"#),
        row("GET /1.0/kb/security/roles", ANY),
        row("GET /1.0/kb/security/roles/{role}", ANY),
        row("GET /1.0/kb/security/subject", ANY),
        row("GET /1.0/kb/security/permissions", ANY),
    ]
}

/// Tags and custom fields of what an account is billed by.
fn billed() -> Vec<Row> {
    const OWN_TAG: &str = r#"["{tagDefinitionId}"]"#;
    const NEW: &str = r#"[{"name":"n","value":"v"}]"#;
    // The field is an account's.
    const CHANGED: &str = r#"[{"customFieldId":"{customFieldId}","value":"v"}]"#;
    let add = may("custom_field:add");
    let update = may("custom_field:update");
    let delete = may("custom_field:delete");
    vec![
        row("GET /1.0/kb/bundles/{bundleId}/tags", READ).of_object(),
        row("POST /1.0/kb/bundles/{bundleId}/tags", may("tag:add")).body(OWN_TAG).of_object(),
        row("DELETE /1.0/kb/bundles/{bundleId}/tags", may("tag:delete")).of_object(),
        row("GET /1.0/kb/invoices/{invoiceId}/tags", READ).of_object(),
        row("POST /1.0/kb/invoices/{invoiceId}/tags", may("tag:add")).body(OWN_TAG).of_object(),
        row("DELETE /1.0/kb/invoices/{invoiceId}/tags", may("tag:delete")).of_object(),
        row("GET /1.0/kb/invoiceItems/{invoiceItemId}/tags", READ).of_object(),
        row("POST /1.0/kb/invoiceItems/{invoiceItemId}/tags", may("tag:add"))
            .body(OWN_TAG)
            .of_object(),
        row("DELETE /1.0/kb/invoiceItems/{invoiceItemId}/tags", may("tag:delete")).of_object(),
        row("GET /1.0/kb/subscriptions/{subscriptionId}/tags", READ).of_object(),
        row("POST /1.0/kb/subscriptions/{subscriptionId}/tags", may("tag:add"))
            .body(OWN_TAG)
            .of_object(),
        row("DELETE /1.0/kb/subscriptions/{subscriptionId}/tags", may("tag:delete")).of_object(),
        row("GET /1.0/kb/bundles/{bundleId}/customFields", READ).of_object(),
        row("POST /1.0/kb/bundles/{bundleId}/customFields", add).body(NEW).of_object(),
        row("PUT /1.0/kb/bundles/{bundleId}/customFields", update)
            .body(CHANGED)
            .of_object()
            .or(400),
        row("DELETE /1.0/kb/bundles/{bundleId}/customFields", delete).of_object(),
        row("GET /1.0/kb/invoices/{invoiceId}/customFields", READ).of_object(),
        row("POST /1.0/kb/invoices/{invoiceId}/customFields", add).body(NEW).of_object(),
        row("PUT /1.0/kb/invoices/{invoiceId}/customFields", update)
            .body(CHANGED)
            .of_object()
            .or(400),
        row("DELETE /1.0/kb/invoices/{invoiceId}/customFields", delete).of_object(),
        row("GET /1.0/kb/invoiceItems/{invoiceItemId}/customFields", READ).of_object(),
        row("POST /1.0/kb/invoiceItems/{invoiceItemId}/customFields", add).body(NEW).of_object(),
        row("PUT /1.0/kb/invoiceItems/{invoiceItemId}/customFields", update)
            .body(CHANGED)
            .of_object()
            .or(400),
        row("DELETE /1.0/kb/invoiceItems/{invoiceItemId}/customFields", delete).of_object(),
        row("GET /1.0/kb/subscriptions/{subscriptionId}/customFields", READ).of_object(),
        row("POST /1.0/kb/subscriptions/{subscriptionId}/customFields", add).body(NEW).of_object(),
        row("PUT /1.0/kb/subscriptions/{subscriptionId}/customFields", update)
            .body(CHANGED)
            .of_object()
            .or(400),
        row("DELETE /1.0/kb/subscriptions/{subscriptionId}/customFields", delete).of_object(),
    ]
}

fn of_bundles() -> Vec<Row> {
    vec![
        row("GET /1.0/kb/bundles", READ).at("/1.0/kb/bundles?externalKey=bundle-of-a").of_object(),
        row("GET /1.0/kb/bundles/pagination", READ),
        row("GET /1.0/kb/bundles/search/{searchKey}", READ),
        row("GET /1.0/kb/bundles/{bundleId}/auditLogsWithHistory", READ).of_object(),
        row("PUT /1.0/kb/bundles/{bundleId}/renameKey", may("entitlement:create"))
            .body(r#"{"externalKey":"bundle-of-a"}"#)
            .of_object(),
        row("GET /1.0/kb/subscriptions", READ)
            .at("/1.0/kb/subscriptions?externalKey=subscription-of-a")
            .of_object(),
        row("GET /1.0/kb/subscriptions/{subscriptionId}/auditLogsWithHistory", READ).of_object(),
        row("GET /1.0/kb/subscriptions/events/{eventId}/auditLogsWithHistory", READ)
            .at("/1.0/kb/subscriptions/events/{subscriptionEventId}/auditLogsWithHistory")
            .of_object(),
    ]
}

fn of_subscriptions() -> Vec<Row> {
    vec![
        row("POST /1.0/kb/subscriptions", may("entitlement:create"))
            .body(r#"{"accountId":"{accountId}","planName":"pro-monthly"}"#)
            .of_object(),
        row("POST /1.0/kb/subscriptions/createSubscriptionWithAddOns", may("entitlement:create"))
            .body(r#"[{"accountId":"{accountId}","planName":"pro-monthly"}]"#)
            .of_object(),
        row("POST /1.0/kb/subscriptions/createSubscriptionsWithAddOns", may("entitlement:create"))
            .body(r#"[{"baseEntitlementAndAddOns":[{"accountId":"{accountId}","planName":"pro-monthly"}]}]"#)
            .of_object(),
        row("GET /1.0/kb/subscriptions/{subscriptionId}", READ).of_object(),
        row("GET /1.0/kb/catalog/plan", READ)
            .at("/1.0/kb/catalog/plan?subscriptionId={subscriptionId}")
            .of_object(),
        row("GET /1.0/kb/catalog/phase", READ)
            .at("/1.0/kb/catalog/phase?subscriptionId={subscriptionId}")
            .of_object(),
        row("GET /1.0/kb/catalog/product", READ)
            .at("/1.0/kb/catalog/product?subscriptionId={subscriptionId}")
            .of_object(),
        row("GET /1.0/kb/catalog/priceList", READ)
            .at("/1.0/kb/catalog/priceList?subscriptionId={subscriptionId}")
            .of_object(),
        row("PUT /1.0/kb/subscriptions/{subscriptionId}/quantity", may("entitlement:change_plan"))
            .body(r#"{"quantity":2}"#)
            .of_object(),
        row("PUT /1.0/kb/subscriptions/{subscriptionId}/bcd", may("entitlement:change_plan"))
            .body(r#"{"billCycleDayLocal":7}"#)
            .of_object(),
        row("PUT /1.0/kb/subscriptions/{subscriptionId}", may("entitlement:change_plan"))
            .body(r#"{"planName":"pro-monthly"}"#)
            .of_object(),
        row(
            "PUT /1.0/kb/subscriptions/{subscriptionId}/undoChangePlan",
            may("entitlement:change_plan"),
        )
        .of_object(),
        row("DELETE /1.0/kb/subscriptions/{subscriptionId}", may("entitlement:cancel")).of_object(),
        row("PUT /1.0/kb/subscriptions/{subscriptionId}/uncancel", may("entitlement:cancel"))
            .of_object(),
        row("GET /1.0/kb/bundles/{bundleId}", READ).of_object(),
        row("POST /1.0/kb/bundles/{bundleId}/block", may("entitlement:pause_resume"))
            .body(r#"{"stateName":"S","service":"bundle-service"}"#)
            .of_object(),
        row("PUT /1.0/kb/bundles/{bundleId}/pause", may("entitlement:pause_resume")).of_object(),
        row("PUT /1.0/kb/bundles/{bundleId}/resume", may("entitlement:pause_resume")).of_object(),
        row("POST /1.0/kb/subscriptions/{subscriptionId}/block", may("entitlement:pause_resume"))
            .body(r#"{"stateName":"S","service":"own-service"}"#)
            .of_object(),
    ]
}

fn of_invoices() -> Vec<Row> {
    vec![
        row("POST /1.0/kb/invoices", may("invoice:trigger"))
            .at("/1.0/kb/invoices?accountId={accountId}")
            .of_object(),
        row("POST /1.0/kb/invoices/group", may("invoice:trigger"))
            .at("/1.0/kb/invoices/group?accountId={accountId}")
            .of_object()
            // There is nothing left to invoice.
            .or(404),
        row("GET /1.0/kb/invoices/{groupId}/group", READ)
            .at("/1.0/kb/invoices/{invoiceId}/group?accountId={subscriberId}")
            .of_object(),
        row("GET /1.0/kb/invoices/pagination", READ),
        row("GET /1.0/kb/invoices/search/{searchKey}", READ),
        row("GET /1.0/kb/invoices/{invoiceId}/auditLogsWithHistory", READ).of_object(),
        row("GET /1.0/kb/invoiceItems/{invoiceItemId}/auditLogsWithHistory", READ)
            .at("/1.0/kb/invoiceItems/{itemId}/auditLogsWithHistory")
            .of_object(),
        row("GET /1.0/kb/invoices/{invoiceId}", READ).of_object(),
        row("GET /1.0/kb/invoices/byNumber/{invoiceNumber}", READ),
        row("GET /1.0/kb/invoices/byItemId/{itemId}", READ).of_object(),
        row("POST /1.0/kb/invoices/dryRun", may("invoice:dry_run"))
            .at("/1.0/kb/invoices/dryRun?accountId={subscriberId}")
            .body(r#"{"dryRunType":"UPCOMING_INVOICE"}"#)
            .of_object(),
        row("POST /1.0/kb/credits", may("account:credit"))
            .body(r#"[{"accountId":"{subscriberId}","amount":1,"description":"canary credit"}]"#)
            .of_object(),
        row("GET /1.0/kb/credits/{creditId}", READ).of_object(),
        row("POST /1.0/kb/invoices/charges/{accountId}", may("account:charge"))
            .at("/1.0/kb/invoices/charges/{subscriberId}")
            .body(r#"[{"amount":1,"description":"canary charge","itemDetails":"canary details"}]"#)
            .of_object(),
        row("POST /1.0/kb/invoices/taxes/{accountId}", may("account:charge"))
            .at("/1.0/kb/invoices/taxes/{subscriberId}")
            .body(r#"[{"amount":1,"description":"canary tax"}]"#)
            .of_object(),
        row("POST /1.0/kb/invoices/{invoiceId}", may("invoice:item_adjust"))
            .body(r#"{"invoiceItemId":"{itemId}","amount":0.01,"description":"canary adjustment"}"#)
            .of_object(),
        row("DELETE /1.0/kb/invoices/{invoiceId}/{invoiceItemId}/cba", may("invoice:delete_cba"))
            .at("/1.0/kb/invoices/{creditInvoiceId}/{creditItemId}/cba?accountId={subscriberId}")
            .of_object(),
        row("PUT /1.0/kb/invoices/{invoiceId}/commitInvoice", may("invoice:commit")).of_object(),
        row("PUT /1.0/kb/invoices/{invoiceId}/voidInvoice", may("invoice:void")).of_object(),
        row("POST /1.0/kb/invoices/{invoiceId}/payments", TRIGGER)
            .body(r#"{"accountId":"{subscriberId}"}"#)
            .of_object(),
        row("GET /1.0/kb/invoices/{invoiceId}/payments", READ).of_object(),
        row("GET /1.0/kb/invoicePayments/{paymentId}", READ).of_object(),
        row("GET /1.0/kb/invoicePayments/{invoicePaymentId}/auditLogsWithHistory", READ)
            .at("/1.0/kb/invoicePayments/{paymentId}/auditLogsWithHistory")
            .of_object(),
    ]
}

fn catalogs() -> Vec<Row> {
    vec![
        row("POST /1.0/kb/catalog", may("catalog:config_upload")).xml(&CATALOG),
        row("GET /1.0/kb/catalog", READ).at("/1.0/kb/catalog?accountId={accountId}").of_object(),
        row("DELETE /1.0/kb/catalog", may("catalog:delete")),
        row("GET /1.0/kb/catalog/versions", READ)
            .at("/1.0/kb/catalog/versions?accountId={accountId}")
            .of_object(),
        row("POST /1.0/kb/catalog/xml", may("catalog:config_upload")).xml(&LATER_CATALOG),
        row("POST /1.0/kb/catalog/xml/validate", may("catalog:config_upload")).xml(&CATALOG),
        row("POST /1.0/kb/catalog/simplePlan", may("catalog:config_upload"))
            .body(r#"{"planId":"simple","productName":"Simple","productCategory":"BASE","currency":"USD","amount":"1","billingPeriod":"MONTHLY"}"#),
        row("GET /1.0/kb/catalog/availableBasePlans", READ)
            .at("/1.0/kb/catalog/availableBasePlans?accountId={accountId}")
            .of_object(),
        row("GET /1.0/kb/catalog/availableAddons", READ)
            .at("/1.0/kb/catalog/availableAddons?baseProductName=Pro&accountId={accountId}")
            .of_object(),
        row("GET /1.0/kb/catalog/xml", READ)
            .at("/1.0/kb/catalog/xml?accountId={accountId}")
            .accepting("text/xml")
            .of_object(),
    ]
}

/// The clock is the installation's and every other row depends on it, so the requests that would move
/// it are wrong ones.
fn others() -> Vec<Row> {
    vec![
        row("GET /1.0/kb/export/{accountId}", may("admin:export"))
            .accepting("text/plain")
            .of_object(),
        row("GET /1.0/kb/overdue", READ),
        row("GET /1.0/kb/overdue/xml", READ).accepting("text/xml"),
        row("POST /1.0/kb/paymentGateways/hosted/form/{accountId}", may("payment:trigger"))
            // The tenant has no key of Stripe.
            .at("/1.0/kb/paymentGateways/hosted/form/{accountId}?pluginName=faregate-stripe")
            .body(r#"{"formFields":[{"key":"successUrl","value":"https://shop.example.com"}]}"#)
            .of_object()
            .or(503),
        row("POST /1.0/kb/paymentGateways/hosted/form", may("payment:trigger"))
            .body(r#"{"account":{"accountId":"{accountId}"},"paymentMethod":{"pluginName":"faregate-simulator"}}"#)
            .of_object(),
        row("POST /1.0/kb/paymentGateways/notification/{pluginName}", may("payment:notification"))
            .at("/1.0/kb/paymentGateways/notification/faregate-simulator")
            .body(
                r#"{"paymentId":"0192aabb-ccdd-7000-8000-000000000001","transactionId":"0192aabb-ccdd-7000-8000-000000000002"}"#,
            ),
        row("GET /1.0/kb/nodesInfo", ANY),
        row("POST /1.0/kb/nodesInfo", installation("admin:*")).body(
            r#"{"nodeCommandType":"START_PLUGIN","nodeCommandProperties":[{"key":"pluginName","value":"faregate-simulator"}]}"#,
        ),
        row("GET /1.0/kb/pluginsInfo", ANY),
        row("GET /1.0/healthcheck", Needs::Nothing("load balancers have no credentials")),
        row("GET /1.0/kb/test/clock", READ),
        row("POST /1.0/kb/test/clock", READ).at("/1.0/kb/test/clock?requestedDate=never"),
        row("PUT /1.0/kb/test/clock", READ).at("/1.0/kb/test/clock?days=never"),
        row("GET /1.0/kb/test/queues", READ),
        row("POST /plugins/killbill-payment-test/configure", READ)
            .body(r#"{"CONFIGURE_ACTION":"ACTION_CLEAR"}"#),
    ]
}
