//! The table of all routes: method, path, permission and handler.

use std::collections::BTreeMap;

use http::Method;

use crate::media_types::{Gives, Takes};
use crate::payments::{combo, follow_up, read as payment_reads, retries};
use crate::request::Audited;
use crate::route::{Credentials, Handler, Resource, Route};
use crate::unserved::UNSERVED;
use crate::{
    account_emails, account_related, accounts, admin, audit, blocking_states, caches, catalog,
    custom_fields, export, gateway_notifications, hosted_form, node_commands, overdue,
    payment_methods, payments, queues, security, system, tags, tenant_values, tenants, test_clock,
    test_plugin, transactions,
};

const fn read(path: &'static str, handler: Handler) -> Route {
    plain(Method::GET, path, handler)
}

const fn plain(method: Method, path: &'static str, handler: Handler) -> Route {
    Route {
        method,
        path,
        credentials: Credentials::UserAndTenant,
        permission: None,
        is_open_to_its_user: false,
        audited: Audited::Not,
        takes: Takes::Nothing,
        gives: Gives::Json,
        handler,
    }
}

const fn post(path: &'static str, permission: &'static str, handler: Handler) -> Route {
    write(Method::POST, path, permission, handler)
}

const fn put(path: &'static str, permission: &'static str, handler: Handler) -> Route {
    write(Method::PUT, path, permission, handler)
}

const fn delete(path: &'static str, permission: &'static str, handler: Handler) -> Route {
    write(Method::DELETE, path, permission, handler)
}

const fn write(
    method: Method,
    path: &'static str,
    permission: &'static str,
    handler: Handler,
) -> Route {
    Route {
        method,
        path,
        credentials: Credentials::UserAndTenant,
        permission: Some(permission),
        is_open_to_its_user: false,
        audited: Audited::ByHeader,
        takes: Takes::Json,
        gives: Gives::Json,
        handler,
    }
}

impl Route {
    /// The route belongs to the installation, not to a tenant.
    const fn of_installation(mut self) -> Self {
        self.credentials = Credentials::User;
        self
    }

    /// The operator whom `{username}` names needs no permission.
    const fn open_to_its_user(mut self) -> Self {
        self.is_open_to_its_user = true;
        self
    }

    /// Without `X-Killbill-CreatedBy` the operator is the author: Kill Bill's clients do not send it here.
    const fn authored_by_its_user(mut self) -> Self {
        self.audited = Audited::ByHeaderOrUser;
        self
    }

    const fn without_credentials(mut self) -> Self {
        self.credentials = Credentials::None;
        self
    }

    /// The request has no body, so its media type is not checked.
    const fn without_body(mut self) -> Self {
        self.takes = Takes::Nothing;
        self
    }

    const fn giving(mut self, gives: Gives) -> Self {
        self.gives = gives;
        self
    }

    /// The permission that a read needs.
    const fn needing(mut self, permission: &'static str) -> Self {
        self.permission = Some(permission);
        self
    }

    const fn with_anything(mut self) -> Self {
        self.takes = Takes::Anything;
        self
    }

    const fn with_json(mut self) -> Self {
        self.takes = Takes::Json;
        self
    }

    const fn with_xml(mut self) -> Self {
        self.takes = Takes::Xml;
        self
    }

    const fn with_text(mut self) -> Self {
        self.takes = Takes::Text;
        self
    }
}

/// Every served route. The permissions are those that Kill Bill requires for the operation.
static ROUTES: &[Route] = &[
    post("/1.0/kb/tenants", "tenant:create", |it| Box::pin(tenants::create(it))).of_installation(),
    read("/1.0/kb/tenants", |it| Box::pin(tenants::get_by_api_key(it))).of_installation(),
    read("/1.0/kb/tenants/{tenantId}", |it| Box::pin(tenants::get(it))),
    post(CALLBACK, "tenant_kvs:add", |it| Box::pin(tenants::register_callback(it))).without_body(),
    read(CALLBACK, |it| Box::pin(tenants::get_callback(it))),
    delete(CALLBACK, "tenant_kvs:delete", |it| Box::pin(tenants::delete_callback(it)))
        .without_body(),
    post(SETTINGS, "tenant_kvs:add", |it| Box::pin(tenant_values::set_settings(it))).with_text(),
    read(SETTINGS, |it| Box::pin(tenant_values::settings(it))),
    delete(SETTINGS, "tenant_kvs:delete", |it| Box::pin(tenant_values::delete_settings(it)))
        .without_body(),
    read("/1.0/kb/tenants/uploadPerTenantConfig/{keyPrefix}/search", |it| {
        Box::pin(tenant_values::search(it))
    }),
    post(PLUGIN, "tenant_kvs:add", |it| Box::pin(tenant_values::set_plugin(it))).with_text(),
    read(PLUGIN, |it| Box::pin(tenant_values::plugin(it))),
    delete(PLUGIN, "tenant_kvs:delete", |it| Box::pin(tenant_values::delete_plugin(it)))
        .without_body(),
    post(STATE_MACHINE, "tenant_kvs:add", |it| Box::pin(tenant_values::set_state_machine(it)))
        .with_text(),
    read(STATE_MACHINE, |it| Box::pin(tenant_values::state_machine(it))),
    delete(STATE_MACHINE, "tenant_kvs:delete", |it| {
        Box::pin(tenant_values::delete_state_machine(it))
    })
    .without_body(),
    post(USER_KEY, "tenant_kvs:add", |it| Box::pin(tenant_values::append(it))).with_text(),
    read(USER_KEY, |it| Box::pin(tenant_values::of_key(it))),
    delete(USER_KEY, "tenant_kvs:delete", |it| Box::pin(tenant_values::delete_key(it)))
        .without_body(),
    post("/1.0/kb/accounts", "account:create", |it| Box::pin(accounts::create(it))),
    read("/1.0/kb/accounts", |it| Box::pin(accounts::get_by_key(it))),
    read("/1.0/kb/accounts/pagination", |it| Box::pin(accounts::list(it))),
    read("/1.0/kb/accounts/search/{searchKey}", |it| Box::pin(accounts::search(it))),
    read(ACCOUNT, |it| Box::pin(accounts::get(it))),
    put(ACCOUNT, "account:update", |it| Box::pin(accounts::update(it))),
    delete(ACCOUNT, "entitlement:pause_resume", |it| Box::pin(blocking_states::close(it)))
        .without_body(),
    read(STATES_OF_ACCOUNT, |it| Box::pin(blocking_states::list(it))),
    post(STATES_OF_ACCOUNT, "entitlement:pause_resume", |it| Box::pin(blocking_states::add(it))),
    read("/1.0/kb/accounts/block/{blockingId}/auditLogsWithHistory", |it| {
        Box::pin(blocking_states::history(it))
    }),
    read("/1.0/kb/accounts/{accountId}/auditLogs", |it| Box::pin(audit::account(it))),
    read("/1.0/kb/accounts/{accountId}/auditLogsWithHistory", |it| {
        Box::pin(audit::account_history(it))
    }),
    read("/1.0/kb/accounts/{accountId}/children", |it| Box::pin(account_related::children(it))),
    read("/1.0/kb/accounts/{accountId}/timeline", |it| Box::pin(account_related::timeline(it))),
    read("/1.0/kb/accounts/{accountId}/bundles", |it| Box::pin(account_related::bundles(it))),
    read("/1.0/kb/accounts/{accountId}/bundles/pagination", |it| {
        Box::pin(account_related::bundles_page(it))
    }),
    read("/1.0/kb/accounts/{accountId}/invoices", |it| Box::pin(account_related::invoices(it))),
    read("/1.0/kb/accounts/{accountId}/invoices/pagination", |it| {
        Box::pin(account_related::invoices_page(it))
    }),
    read("/1.0/kb/accounts/{accountId}/invoicePayments", |it| {
        Box::pin(account_related::invoice_payments(it))
    }),
    put("/1.0/kb/accounts/{accountId}/cbaRebalancing", "account:credit", |it| {
        Box::pin(account_related::rebalance_credit(it))
    })
    .without_body(),
    read("/1.0/kb/accounts/{accountId}/overdue", |it| Box::pin(overdue::of_account(it))),
    read("/1.0/kb/overdue", |it| Box::pin(overdue::configuration(it))).giving(Gives::JsonOrXml),
    read("/1.0/kb/overdue/xml", |it| Box::pin(overdue::xml(it))).giving(Gives::Xml),
    read(TAGS_OF_ACCOUNT, |it| Box::pin(tags::of_account::list(it))),
    post(TAGS_OF_ACCOUNT, "tag:add", |it| Box::pin(tags::of_account::add(it))),
    delete(TAGS_OF_ACCOUNT, "tag:delete", |it| Box::pin(tags::of_account::remove(it)))
        .without_body(),
    read(TAGS_OF_PAYMENT, |it| Box::pin(tags::of_payment::list(it))),
    post(TAGS_OF_PAYMENT, "tag:add", |it| Box::pin(tags::of_payment::add(it))),
    delete(TAGS_OF_PAYMENT, "tag:delete", |it| Box::pin(tags::of_payment::remove(it)))
        .without_body(),
    read(TAGS_OF_TRANSACTION, |it| Box::pin(tags::of_transaction::list(it))),
    post(TAGS_OF_TRANSACTION, "tag:add", |it| Box::pin(tags::of_transaction::add(it))),
    delete(TAGS_OF_TRANSACTION, "tag:delete", |it| Box::pin(tags::of_transaction::remove(it)))
        .without_body(),
    read("/1.0/kb/tags/pagination", |it| Box::pin(tags::page(it))),
    read("/1.0/kb/tags/search/{searchKey}", |it| Box::pin(tags::search(it))),
    read("/1.0/kb/accounts/{accountId}/allTags", |it| Box::pin(tags::list_of_all(it))),
    read(EMAILS, |it| Box::pin(account_emails::list(it))),
    post(EMAILS, "account:add_emails", |it| Box::pin(account_emails::add(it))),
    delete("/1.0/kb/accounts/{accountId}/emails/{email}", "account:delete_emails", |it| {
        Box::pin(account_emails::remove(it))
    })
    .without_body(),
    read("/1.0/kb/accounts/{accountId}/emails/{accountEmailId}/auditLogsWithHistory", |it| {
        Box::pin(account_emails::history(it))
    }),
    read(FIELDS_OF_ACCOUNT, |it| Box::pin(custom_fields::of_account::list(it))),
    post(FIELDS_OF_ACCOUNT, "custom_field:add", |it| Box::pin(custom_fields::of_account::add(it))),
    put(FIELDS_OF_ACCOUNT, "custom_field:update", |it| {
        Box::pin(custom_fields::of_account::update(it))
    }),
    delete(FIELDS_OF_ACCOUNT, "custom_field:delete", |it| {
        Box::pin(custom_fields::of_account::remove(it))
    })
    .without_body(),
    read("/1.0/kb/accounts/{accountId}/allCustomFields", |it| {
        Box::pin(custom_fields::list_of_all(it))
    }),
    read(FIELDS_OF_METHOD, |it| Box::pin(custom_fields::of_payment_method::list(it))),
    post(FIELDS_OF_METHOD, "custom_field:add", |it| {
        Box::pin(custom_fields::of_payment_method::add(it))
    }),
    put(FIELDS_OF_METHOD, "custom_field:update", |it| {
        Box::pin(custom_fields::of_payment_method::update(it))
    }),
    delete(FIELDS_OF_METHOD, "custom_field:delete", |it| {
        Box::pin(custom_fields::of_payment_method::remove(it))
    })
    .without_body(),
    read(FIELDS_OF_PAYMENT, |it| Box::pin(custom_fields::of_payment::list(it))),
    post(FIELDS_OF_PAYMENT, "custom_field:add", |it| Box::pin(custom_fields::of_payment::add(it))),
    put(FIELDS_OF_PAYMENT, "custom_field:update", |it| {
        Box::pin(custom_fields::of_payment::update(it))
    }),
    delete(FIELDS_OF_PAYMENT, "custom_field:delete", |it| {
        Box::pin(custom_fields::of_payment::remove(it))
    })
    .without_body(),
    read(FIELDS_OF_TRANSACTION, |it| Box::pin(custom_fields::of_transaction::list(it))),
    post(FIELDS_OF_TRANSACTION, "custom_field:add", |it| {
        Box::pin(custom_fields::of_transaction::add(it))
    }),
    put(FIELDS_OF_TRANSACTION, "custom_field:update", |it| {
        Box::pin(custom_fields::of_transaction::update(it))
    }),
    delete(FIELDS_OF_TRANSACTION, "custom_field:delete", |it| {
        Box::pin(custom_fields::of_transaction::remove(it))
    })
    .without_body(),
    read("/1.0/kb/customFields/pagination", |it| Box::pin(custom_fields::page(it))),
    read("/1.0/kb/customFields/search", |it| Box::pin(custom_fields::search_by_name(it))),
    read("/1.0/kb/customFields/search/{searchKey}", |it| Box::pin(custom_fields::search(it))),
    read("/1.0/kb/customFields/{customFieldId}/auditLogsWithHistory", |it| {
        Box::pin(audit::custom_field_history(it))
    }),
    read("/1.0/kb/tagDefinitions", |it| Box::pin(tags::definitions(it))),
    post("/1.0/kb/tagDefinitions", "tag:create_tag_definition", |it| Box::pin(tags::define(it))),
    read(TAG_DEFINITION, |it| Box::pin(tags::definition(it))),
    delete(TAG_DEFINITION, "tag:delete_tag_definition", |it| Box::pin(tags::undefine(it)))
        .without_body(),
    read("/1.0/kb/tagDefinitions/{tagDefinitionId}/auditLogsWithHistory", |it| {
        Box::pin(tags::definition_history(it))
    }),
    read("/1.0/kb/tags/{tagId}/auditLogsWithHistory", |it| Box::pin(audit::tag_history(it))),
    post(METHODS_OF_ACCOUNT, "payment_method:create", |it| Box::pin(payment_methods::create(it))),
    read(METHODS_OF_ACCOUNT, |it| Box::pin(payment_methods::list_of_account(it))),
    put("/1.0/kb/accounts/{accountId}/paymentMethods/refresh", "payment_method:update", |it| {
        Box::pin(payment_methods::refresh(it))
    })
    .without_body(),
    put(
        "/1.0/kb/accounts/{accountId}/paymentMethods/{paymentMethodId}/setDefault",
        "payment_method:update",
        |it| Box::pin(payment_methods::set_default(it)),
    )
    .without_body(),
    read("/1.0/kb/paymentMethods", |it| Box::pin(payment_methods::get_by_key(it))),
    read("/1.0/kb/paymentMethods/pagination", |it| Box::pin(payment_methods::list(it))),
    read("/1.0/kb/paymentMethods/search/{searchKey}", |it| Box::pin(payment_methods::search(it))),
    read(METHOD, |it| Box::pin(payment_methods::get(it))),
    delete(METHOD, "payment_method:delete", |it| Box::pin(payment_methods::delete(it)))
        .without_body(),
    read("/1.0/kb/paymentMethods/{paymentMethodId}/auditLogsWithHistory", |it| {
        Box::pin(audit::payment_method_history(it))
    }),
    post("/1.0/kb/accounts/payments", "payment:trigger", |it| {
        Box::pin(payments::start_by_account_key(it))
    }),
    post(PAYMENTS_OF_ACCOUNT, "payment:trigger", |it| Box::pin(payments::start(it))),
    read(PAYMENTS_OF_ACCOUNT, |it| Box::pin(payments::list_of_account(it))),
    read(PAYMENTS, |it| Box::pin(payment_reads::get_by_key(it))),
    post(PAYMENTS, "payment:trigger", |it| Box::pin(follow_up::capture_by_key(it))),
    put(PAYMENTS, "payment:trigger", |it| Box::pin(follow_up::complete_by_key(it))),
    delete(PAYMENTS, "payment:trigger", |it| Box::pin(follow_up::void_by_key(it))),
    read("/1.0/kb/payments/pagination", |it| Box::pin(payment_reads::list(it))),
    read("/1.0/kb/payments/search/{searchKey}", |it| Box::pin(payment_reads::search(it))),
    post("/1.0/kb/payments/combo", "payment:trigger", |it| Box::pin(combo::start(it))),
    post("/1.0/kb/payments/refunds", "payment:refund", |it| Box::pin(follow_up::refund_by_key(it))),
    post("/1.0/kb/payments/chargebacks", "payment:chargeback", |it| {
        Box::pin(follow_up::chargeback_by_key(it))
    }),
    post("/1.0/kb/payments/chargebackReversals", "payment:chargeback", |it| {
        Box::pin(follow_up::reverse_chargeback_by_key(it))
    }),
    read(PAYMENT, |it| Box::pin(payment_reads::get(it))),
    post(PAYMENT, "payment:trigger", |it| Box::pin(follow_up::capture(it))),
    put(PAYMENT, "payment:trigger", |it| Box::pin(follow_up::complete(it))),
    delete(PAYMENT, "payment:trigger", |it| Box::pin(follow_up::void(it))),
    post("/1.0/kb/payments/{paymentId}/refunds", "payment:refund", |it| {
        Box::pin(follow_up::refund(it))
    }),
    post("/1.0/kb/payments/{paymentId}/chargebacks", "payment:chargeback", |it| {
        Box::pin(follow_up::chargeback(it))
    }),
    post("/1.0/kb/payments/{paymentId}/chargebackReversals", "payment:chargeback", |it| {
        Box::pin(follow_up::reverse_chargeback(it))
    }),
    read("/1.0/kb/payments/{paymentId}/auditLogsWithHistory", |it| {
        Box::pin(audit::payment_history(it))
    }),
    delete(
        "/1.0/kb/payments/{paymentTransactionId}/cancelScheduledPaymentTransaction",
        "payment:trigger",
        |it| Box::pin(retries::cancel(it)),
    )
    .without_body(),
    delete("/1.0/kb/payments/cancelScheduledPaymentTransaction", "payment:trigger", |it| {
        Box::pin(retries::cancel_by_key(it))
    })
    .without_body(),
    read("/1.0/kb/payments/attempts/{paymentAttemptId}/auditLogsWithHistory", |it| {
        Box::pin(audit::attempt_history(it))
    }),
    read("/1.0/kb/paymentTransactions", |it| Box::pin(transactions::get_by_key(it))),
    read(TRANSACTION, |it| Box::pin(transactions::get(it))),
    post(TRANSACTION, "payment:transition", |it| Box::pin(transactions::notify(it))),
    read("/1.0/kb/paymentTransactions/{transactionId}/auditLogsWithHistory", |it| {
        Box::pin(audit::transaction_history(it))
    }),
    put(
        "/1.0/kb/admin/payments/{paymentId}/transactions/{paymentTransactionId}",
        "admin:update",
        |it| Box::pin(admin::fix_transaction(it)),
    ),
    delete(ROTATION, "admin:*", |it| Box::pin(admin::leave_rotation(it)))
        .of_installation()
        .without_body()
        .authored_by_its_user(),
    put(ROTATION, "admin:*", |it| Box::pin(admin::join_rotation(it)))
        .of_installation()
        .without_body()
        .authored_by_its_user(),
    delete("/1.0/kb/admin/cache", "admin:*", |it| Box::pin(caches::drop_all(it)))
        .of_installation()
        .without_body()
        .authored_by_its_user(),
    delete("/1.0/kb/admin/cache/accounts/{accountId}", "admin:*", |it| {
        Box::pin(caches::drop_of_account(it))
    })
    .without_body()
    .authored_by_its_user(),
    delete("/1.0/kb/admin/cache/tenants", "admin:*", |it| Box::pin(caches::drop_of_tenant(it)))
        .without_body()
        .authored_by_its_user(),
    read("/1.0/kb/admin/queues", |it| Box::pin(queues::list(it)))
        .needing("admin:*")
        .giving(Gives::Octets),
    read("/1.0/metrics", |it| Box::pin(system::metrics(it))).of_installation().needing("admin:*"),
    post("/1.0/kb/security/users", "user:create", |it| Box::pin(security::create_user(it)))
        .of_installation(),
    put("/1.0/kb/security/users/{username}/password", "user:create", |it| {
        Box::pin(security::update_password(it))
    })
    .of_installation()
    .open_to_its_user(),
    read("/1.0/kb/security/users/{username}/roles", |it| Box::pin(security::user_roles(it)))
        .of_installation(),
    put("/1.0/kb/security/users/{username}/roles", "user:create", |it| {
        Box::pin(security::update_roles(it))
    })
    .of_installation(),
    delete("/1.0/kb/security/users/{username}", "user:create", |it| {
        Box::pin(security::delete_user(it))
    })
    .of_installation()
    .without_body(),
    post(ROLES, "user:create", |it| Box::pin(security::create_role(it))).of_installation(),
    put(ROLES, "user:create", |it| Box::pin(security::update_role(it))).of_installation(),
    read(ROLES, |it| Box::pin(security::roles(it))).of_installation(),
    read("/1.0/kb/security/roles/{role}", |it| Box::pin(security::role(it))).of_installation(),
    read("/1.0/kb/security/subject", |it| Box::pin(security::subject(it))).of_installation(),
    read("/1.0/kb/security/permissions", |it| Box::pin(security::permissions(it)))
        .of_installation(),
    read("/1.0/kb/export/{accountId}", |it| Box::pin(export::account(it)))
        .needing("admin:export")
        .giving(Gives::Text),
    post(CATALOG, "catalog:config_upload", |it| Box::pin(catalog::upload(it))).with_xml(),
    read(CATALOG, |it| Box::pin(catalog::versions(it))).giving(Gives::JsonOrXml),
    delete(CATALOG, "catalog:delete", |it| Box::pin(catalog::delete(it))).without_body(),
    post(CATALOG_XML, "catalog:config_upload", |it| Box::pin(catalog::upload_xml(it))).with_xml(),
    read(CATALOG_XML, |it| Box::pin(catalog::xml(it))).giving(Gives::Xml),
    post(NOTIFICATION, "payment:notification", |it| Box::pin(gateway_notifications::process(it)))
        .with_anything(),
    post(HOSTED_FORM, "payment:trigger", |it| Box::pin(hosted_form::of_account(it))),
    post(HOSTED_FORM_WITH_ACCOUNT, "payment:trigger", |it| Box::pin(hosted_form::with_account(it))),
    read("/1.0/kb/nodesInfo", |it| Box::pin(system::nodes(it))).of_installation(),
    post("/1.0/kb/nodesInfo", "admin:*", |it| Box::pin(node_commands::execute(it)))
        .of_installation(),
    read("/1.0/kb/pluginsInfo", |it| Box::pin(system::plugins(it))).of_installation(),
    read("/1.0/healthcheck", |it| Box::pin(system::health(it))).without_credentials(),
];

/// Routes that exist only if the clock is a test clock. They need no permission and are not audited.
static TEST_ROUTES: &[Route] = &[
    read(CLOCK, |it| Box::pin(test_clock::get(it))),
    plain(Method::POST, CLOCK, |it| Box::pin(test_clock::set(it))),
    plain(Method::PUT, CLOCK, |it| Box::pin(test_clock::advance(it))),
    read("/1.0/kb/test/queues", |it| Box::pin(test_clock::queues(it))),
    plain(Method::POST, TEST_PLUGIN, |it| Box::pin(test_plugin::configure(it))).with_json(),
];

const ACCOUNT: &str = "/1.0/kb/accounts/{accountId}";
const STATES_OF_ACCOUNT: &str = "/1.0/kb/accounts/{accountId}/block";
const TAGS_OF_ACCOUNT: &str = "/1.0/kb/accounts/{accountId}/tags";
const TAGS_OF_PAYMENT: &str = "/1.0/kb/payments/{paymentId}/tags";
const TAGS_OF_TRANSACTION: &str = "/1.0/kb/paymentTransactions/{transactionId}/tags";
const TAG_DEFINITION: &str = "/1.0/kb/tagDefinitions/{tagDefinitionId}";
const EMAILS: &str = "/1.0/kb/accounts/{accountId}/emails";
const FIELDS_OF_ACCOUNT: &str = "/1.0/kb/accounts/{accountId}/customFields";
const FIELDS_OF_METHOD: &str = "/1.0/kb/paymentMethods/{paymentMethodId}/customFields";
const FIELDS_OF_PAYMENT: &str = "/1.0/kb/payments/{paymentId}/customFields";
const FIELDS_OF_TRANSACTION: &str = "/1.0/kb/paymentTransactions/{transactionId}/customFields";
const METHODS_OF_ACCOUNT: &str = "/1.0/kb/accounts/{accountId}/paymentMethods";
const PAYMENTS_OF_ACCOUNT: &str = "/1.0/kb/accounts/{accountId}/payments";
const METHOD: &str = "/1.0/kb/paymentMethods/{paymentMethodId}";
const PAYMENTS: &str = "/1.0/kb/payments";
const PAYMENT: &str = "/1.0/kb/payments/{paymentId}";
const TRANSACTION: &str = "/1.0/kb/paymentTransactions/{transactionId}";
const CALLBACK: &str = "/1.0/kb/tenants/registerNotificationCallback";
const SETTINGS: &str = "/1.0/kb/tenants/uploadPerTenantConfig";
const PLUGIN: &str = "/1.0/kb/tenants/uploadPluginConfig/{pluginName}";
const STATE_MACHINE: &str = "/1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/{pluginName}";
const USER_KEY: &str = "/1.0/kb/tenants/userKeyValue/{keyName}";
const ROTATION: &str = "/1.0/kb/admin/healthcheck";
const ROLES: &str = "/1.0/kb/security/roles";
const CATALOG: &str = "/1.0/kb/catalog";
const CATALOG_XML: &str = "/1.0/kb/catalog/xml";
const HOSTED_FORM_WITH_ACCOUNT: &str = "/1.0/kb/paymentGateways/hosted/form";
const HOSTED_FORM: &str = "/1.0/kb/paymentGateways/hosted/form/{accountId}";
const NOTIFICATION: &str = "/1.0/kb/paymentGateways/notification/{pluginName}";
const CLOCK: &str = "/1.0/kb/test/clock";
const TEST_PLUGIN: &str = "/plugins/killbill-payment-test/configure";

/// Every served route, including those of the test clock.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().chain(TEST_ROUTES)
}

/// Whether a route is there on a test clock only.
#[cfg(test)]
pub(crate) fn is_of_test_clock(route: &Route) -> bool {
    TEST_ROUTES.iter().any(|it| (&it.method, it.path) == (&route.method, route.path))
}

/// All resources; those of the test clock only if `test`.
pub(crate) fn resources(test: bool) -> Vec<Resource> {
    let mut resources = BTreeMap::new();
    let test_routes = if test { TEST_ROUTES } else { &[] };
    for route in ROUTES.iter().chain(test_routes) {
        let resource = resources.entry(route.path).or_insert_with(|| Resource::new(route.path));
        resource.routes.push(route);
    }
    for (path, methods) in UNSERVED {
        resources.entry(path).or_insert_with(|| Resource::new(path)).unserved = methods;
    }
    resources.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::access::normalize_permission;

    use super::*;
    use crate::route::RouteMatch;

    #[test]
    fn reads_need_no_permission_and_writes_need_a_known_one() {
        for route in ROUTES {
            let name = format!("{} {}", route.method, route.path);
            match route.permission {
                Some(permission) => {
                    let normal = normalize_permission(permission);
                    assert_eq!(normal.as_deref(), Some(permission), "{name}");
                }
                None => assert_eq!(route.method, Method::GET, "{name}"),
            }
            let is_audited = route.audited != Audited::Not;
            assert_eq!(is_audited, route.method != Method::GET, "{name}");
        }
    }

    #[test]
    fn each_method_of_a_path_is_listed_once() {
        let mut seen = BTreeSet::new();
        for resource in resources(true) {
            let served = resource.routes.iter().map(|route| &route.method);
            for method in served.chain(resource.unserved) {
                assert!(seen.insert(format!("{method} {}", resource.path)), "{}", resource.path);
            }
        }
        assert_eq!(seen.len(), 281);
    }

    #[test]
    fn a_resource_lists_its_methods() {
        let resources = resources(false);
        let account = resources.iter().find(|it| it.path == ACCOUNT).unwrap();
        assert_eq!(account.allow(), "DELETE,GET,OPTIONS,PUT");
        assert_eq!(account.options(), "HEAD,DELETE,GET,OPTIONS,PUT");
        assert!(matches!(account.find(&Method::HEAD), RouteMatch::Route(_)));
        assert!(matches!(account.find(&Method::DELETE), RouteMatch::Route(_)));
        assert!(matches!(account.find(&Method::PATCH), RouteMatch::OtherMethods));
        assert!(resources.iter().all(|it| it.path != CLOCK));
        let refunds = resources.iter().find(|it| it.path == "/1.0/kb/payments/refunds").unwrap();
        assert_eq!(refunds.options(), "OPTIONS,POST");
        assert!(matches!(Resource::new("unknown").find(&Method::GET), RouteMatch::NoPath));
    }
}
