//! The list of all routes: each handler with what a request to it needs. Its method, its path and the rest of
//! its description stand above the handler (`#[utoipa::path]`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::object::ObjectType;
use utoipa::OpenApi;

use crate::catalog::{listings, simple_plan, subscribed};
use crate::media_types::{Gives, Takes};
use crate::payments::{combo, follow_up, read as payment_reads, retries};
use crate::route::{DescribedHandler, Resource, Route, on_test_clock, read, write};
use crate::subscriptions::{bulk, change, dry_run, events};
use crate::unserved::UNSERVED;
use crate::{
    account_emails, account_related, accounts, admin, audit, blocking_states, bundles, caches,
    catalog, custom_fields, export, gateway_notifications, hosted_form, invoice_items,
    invoice_payments, invoices, node_commands, overdue, payment_methods, payments, queues,
    security, subscriptions, system, tags, tenant_values, tenants, test_clock, test_plugin,
    transactions,
};

/// A handler with its description. A macro, because only a macro of utoipa finds the description by the handler's
/// name.
macro_rules! handler {
    ($($name:ident)::+) => {{
        #[derive(OpenApi)]
        #[openapi(paths($($name)::+))]
        struct Description;
        DescribedHandler { describe: Description::openapi, handle: |call| Box::pin($($name)::+(call)) }
    }};
}

/// The permissions are those that Kill Bill requires for the operation.
static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let all = [
        of_tenants(),
        of_accounts(),
        of_tags(),
        of_custom_fields(),
        of_payment_methods(),
        of_payments(),
        of_catalogs(),
        of_subscriptions(),
        of_security(),
        of_operations(),
        of_test_clock(),
    ];
    all.into_iter().flatten().collect()
});

fn of_tenants() -> Vec<Route> {
    vec![
        write("tenant:create", handler!(tenants::create)).of_installation(),
        read(handler!(tenants::get_by_api_key)).of_installation(),
        read(handler!(tenants::get)),
        write("tenant_kvs:add", handler!(tenants::register_callback)).taking(Takes::Nothing),
        read(handler!(tenants::get_callback)),
        write("tenant_kvs:delete", handler!(tenants::delete_callback)),
        write("tenant_kvs:add", handler!(tenant_values::set_settings)).taking(Takes::Text),
        read(handler!(tenant_values::settings)),
        write("tenant_kvs:delete", handler!(tenant_values::delete_settings)),
        read(handler!(tenant_values::search)),
        write("tenant_kvs:add", handler!(tenant_values::set_plugin)).taking(Takes::Text),
        read(handler!(tenant_values::plugin)),
        write("tenant_kvs:delete", handler!(tenant_values::delete_plugin)),
        write("tenant_kvs:add", handler!(tenant_values::set_state_machine)).taking(Takes::Text),
        read(handler!(tenant_values::state_machine)),
        write("tenant_kvs:delete", handler!(tenant_values::delete_state_machine)),
        write("tenant_kvs:add", handler!(tenant_values::append)).taking(Takes::Text),
        read(handler!(tenant_values::of_key)),
        write("tenant_kvs:delete", handler!(tenant_values::delete_key)),
    ]
}

fn of_accounts() -> Vec<Route> {
    vec![
        write("account:create", handler!(accounts::create)),
        read(handler!(accounts::get_by_key)),
        read(handler!(accounts::list)),
        read(handler!(accounts::search)),
        read(handler!(accounts::get)),
        write("account:update", handler!(accounts::update)),
        write("entitlement:pause_resume", handler!(blocking_states::close)),
        read(handler!(blocking_states::list)),
        write("entitlement:pause_resume", handler!(blocking_states::add)),
        read(handler!(blocking_states::history)),
        read(handler!(audit::account)),
        read(handler!(audit::account_history)),
        read(handler!(account_related::children)),
        read(handler!(account_related::timeline)),
        read(handler!(bundles::list_of_account)),
        read(handler!(bundles::page_of_account)),
        read(handler!(invoices::list_of_account)),
        read(handler!(invoices::page_of_account)),
        read(handler!(invoice_payments::list_of_account)),
        write("payment:trigger", handler!(invoice_payments::pay_all)).taking(Takes::Nothing),
        write("account:credit", handler!(account_related::rebalance_credit)).taking(Takes::Nothing),
        read(handler!(overdue::of_account)),
        read(handler!(overdue::configuration)).giving(Gives::JsonOrXml),
        read(handler!(overdue::xml)).giving(Gives::Xml),
        read(handler!(account_emails::list)),
        write("account:add_emails", handler!(account_emails::add)),
        write("account:delete_emails", handler!(account_emails::remove)),
        read(handler!(account_emails::history)),
    ]
}

/// The types of objects that have tags; all types have custom fields.
const WITH_TAGS: [ObjectType; 7] = [
    ObjectType::Account,
    ObjectType::Bundle,
    ObjectType::Invoice,
    ObjectType::InvoiceItem,
    ObjectType::Payment,
    ObjectType::Subscription,
    ObjectType::Transaction,
];

fn of_tags() -> Vec<Route> {
    let of_objects = WITH_TAGS.into_iter().flat_map(|kind| {
        [
            read(handler!(tags::list)).of(kind),
            write("tag:add", handler!(tags::add)).of(kind),
            write("tag:delete", handler!(tags::remove)).of(kind),
        ]
    });
    let others = [
        read(handler!(tags::page)),
        read(handler!(tags::search)),
        read(handler!(tags::list_of_all)),
        read(handler!(tags::definitions)),
        write("tag:create_tag_definition", handler!(tags::define)),
        read(handler!(tags::definition)),
        write("tag:delete_tag_definition", handler!(tags::undefine)),
        read(handler!(tags::definition_history)),
        read(handler!(audit::tag_history)),
    ];
    of_objects.chain(others).collect()
}

fn of_custom_fields() -> Vec<Route> {
    let of_objects = ObjectType::ALL.into_iter().flat_map(|kind| {
        [
            read(handler!(custom_fields::list)).of(kind),
            write("custom_field:add", handler!(custom_fields::add)).of(kind),
            write("custom_field:update", handler!(custom_fields::update)).of(kind),
            write("custom_field:delete", handler!(custom_fields::remove)).of(kind),
        ]
    });
    let others = [
        read(handler!(custom_fields::list_of_all)),
        read(handler!(custom_fields::page)),
        read(handler!(custom_fields::search_by_name)),
        read(handler!(custom_fields::search)),
        read(handler!(audit::custom_field_history)),
    ];
    of_objects.chain(others).collect()
}

fn of_payment_methods() -> Vec<Route> {
    vec![
        write("payment_method:create", handler!(payment_methods::create)),
        read(handler!(payment_methods::list_of_account)),
        write("payment_method:update", handler!(payment_methods::refresh)).taking(Takes::Nothing),
        write("payment_method:update", handler!(payment_methods::set_default))
            .taking(Takes::Nothing),
        read(handler!(payment_methods::get_by_key)),
        read(handler!(payment_methods::list)),
        read(handler!(payment_methods::search)),
        read(handler!(payment_methods::get)),
        write("payment_method:delete", handler!(payment_methods::delete)),
        read(handler!(audit::payment_method_history)),
        write("payment:notification", handler!(gateway_notifications::process))
            .taking(Takes::Anything),
        write("payment:trigger", handler!(hosted_form::of_account)),
        write("payment:trigger", handler!(hosted_form::with_account)),
    ]
}

fn of_payments() -> Vec<Route> {
    vec![
        write("payment:trigger", handler!(payments::start_by_account_key)),
        write("payment:trigger", handler!(payments::start)),
        read(handler!(payments::list_of_account)),
        read(handler!(payment_reads::get_by_key)),
        write("payment:trigger", handler!(follow_up::capture_by_key)),
        write("payment:trigger", handler!(follow_up::complete_by_key)),
        write("payment:trigger", handler!(follow_up::void_by_key)).taking(Takes::Json),
        read(handler!(payment_reads::list)),
        read(handler!(payment_reads::search)),
        write("payment:trigger", handler!(combo::start)),
        write("payment:refund", handler!(follow_up::refund_by_key)),
        write("payment:chargeback", handler!(follow_up::chargeback_by_key)),
        write("payment:chargeback", handler!(follow_up::reverse_chargeback_by_key)),
        read(handler!(payment_reads::get)),
        write("payment:trigger", handler!(follow_up::capture)),
        write("payment:trigger", handler!(follow_up::complete)),
        write("payment:trigger", handler!(follow_up::void)).taking(Takes::Json),
        write("payment:refund", handler!(follow_up::refund)),
        write("payment:chargeback", handler!(follow_up::chargeback)),
        write("payment:chargeback", handler!(follow_up::reverse_chargeback)),
        read(handler!(audit::payment_history)),
        write("payment:trigger", handler!(retries::cancel)),
        write("payment:trigger", handler!(retries::cancel_by_key)),
        read(handler!(audit::attempt_history)),
        read(handler!(transactions::get_by_key)),
        read(handler!(transactions::get)),
        write("payment:transition", handler!(transactions::notify)),
        read(handler!(audit::transaction_history)),
    ]
}

fn of_catalogs() -> Vec<Route> {
    vec![
        write("catalog:config_upload", handler!(catalog::upload)).taking(Takes::Xml),
        read(handler!(catalog::get)).giving(Gives::JsonOrXml),
        read(handler!(catalog::versions)),
        write("catalog:delete", handler!(catalog::delete)),
        write("catalog:config_upload", handler!(catalog::upload_xml)).taking(Takes::Xml),
        write("catalog:config_upload", handler!(catalog::validate)).taking(Takes::Xml),
        read(handler!(catalog::xml)).giving(Gives::Xml),
        read(handler!(listings::base_plans)),
        read(handler!(listings::add_ons)),
        read(handler!(subscribed::plan)),
        read(handler!(subscribed::phase)),
        read(handler!(subscribed::product)),
        read(handler!(subscribed::price_list)),
        write("catalog:config_upload", handler!(simple_plan::add)),
    ]
}

fn of_subscriptions() -> Vec<Route> {
    vec![
        write("entitlement:create", handler!(subscriptions::create)),
        write("entitlement:create", handler!(bulk::with_add_ons)),
        write("entitlement:create", handler!(bulk::several_with_add_ons)),
        read(handler!(subscriptions::get_by_key)),
        read(handler!(subscriptions::get)),
        read(handler!(audit::subscription_history)),
        read(handler!(events::history)),
        write("entitlement:change_plan", handler!(change::plan)),
        write("entitlement:change_plan", handler!(change::undo)).taking(Takes::Nothing),
        write("entitlement:cancel", handler!(change::cancel)),
        write("entitlement:cancel", handler!(change::uncancel)).taking(Takes::Nothing),
        write("entitlement:change_plan", handler!(change::bill_cycle_day)),
        write("entitlement:change_plan", handler!(change::quantity)),
        read(handler!(bundles::get_by_key)),
        read(handler!(bundles::list)),
        read(handler!(bundles::search)),
        read(handler!(bundles::get)),
        write("entitlement:create", handler!(bundles::rename)),
        read(handler!(audit::bundle_history)),
        write("entitlement:pause_resume", handler!(blocking_states::add_to_bundle)),
        write("entitlement:pause_resume", handler!(blocking_states::pause)),
        write("entitlement:pause_resume", handler!(blocking_states::resume)),
        write("entitlement:pause_resume", handler!(blocking_states::add_to_subscription)),
        write("invoice:trigger", handler!(invoices::create)).taking(Takes::Nothing),
        read(handler!(invoices::list)),
        read(handler!(invoices::search)),
        write("invoice:trigger", handler!(invoices::create_group)).taking(Takes::Nothing),
        read(handler!(invoices::group)),
        read(handler!(audit::invoice_history)),
        read(handler!(audit::invoice_item_history)),
        read(handler!(invoices::get)),
        read(handler!(invoices::get_by_number)),
        read(handler!(invoice_items::invoice_by_item)),
        write("invoice:dry_run", handler!(dry_run::dry_run)),
        write("account:credit", handler!(invoice_items::credit)),
        read(handler!(invoice_items::get_credit)),
        write("account:charge", handler!(invoice_items::charge)),
        write("account:charge", handler!(invoice_items::tax)),
        write("invoice:item_adjust", handler!(invoice_items::adjust)),
        write("invoice:delete_cba", handler!(invoice_items::delete_credit)),
        write("invoice:commit", handler!(invoices::commit)).taking(Takes::Nothing),
        write("invoice:void", handler!(invoices::void)).taking(Takes::Nothing),
        write("payment:trigger", handler!(invoice_payments::pay)),
        read(handler!(invoice_payments::list_of_invoice)),
        read(handler!(invoice_payments::get)),
        read(handler!(invoice_payments::history)),
    ]
}

fn of_security() -> Vec<Route> {
    vec![
        write("user:create", handler!(security::create_user)).of_installation(),
        write("user:create", handler!(security::update_password))
            .of_installation()
            .open_to_its_user(),
        read(handler!(security::user_roles)).of_installation(),
        write("user:create", handler!(security::update_roles)).of_installation(),
        write("user:create", handler!(security::delete_user)).of_installation(),
        write("user:create", handler!(security::create_role)).of_installation(),
        write("user:create", handler!(security::update_role)).of_installation(),
        read(handler!(security::roles)).of_installation(),
        read(handler!(security::role)).of_installation(),
        read(handler!(security::subject)).of_installation(),
        read(handler!(security::permissions)).of_installation(),
    ]
}

fn of_operations() -> Vec<Route> {
    vec![
        write("admin:update", handler!(admin::fix_transaction)),
        write("invoice:trigger", handler!(admin::bill_parked)).taking(Takes::Nothing),
        write("admin:*", handler!(admin::leave_rotation)).of_installation().authored_by_its_user(),
        write("admin:*", handler!(admin::join_rotation))
            .of_installation()
            .taking(Takes::Nothing)
            .authored_by_its_user(),
        write("admin:*", handler!(caches::drop_all)).of_installation().authored_by_its_user(),
        write("admin:*", handler!(caches::drop_of_account)).authored_by_its_user(),
        write("admin:*", handler!(caches::drop_of_tenant)).authored_by_its_user(),
        read(handler!(queues::list)).needing("admin:*").giving(Gives::Octets),
        read(handler!(system::metrics)).needing("admin:*").of_installation(),
        read(handler!(export::account)).needing("admin:export").giving(Gives::Text),
        read(handler!(system::nodes)).of_installation(),
        write("admin:*", handler!(node_commands::execute)).of_installation(),
        read(handler!(system::plugins)).of_installation(),
        read(handler!(system::health)).without_credentials(),
    ]
}

fn of_test_clock() -> Vec<Route> {
    vec![
        on_test_clock(handler!(test_clock::get)),
        on_test_clock(handler!(test_clock::set)),
        on_test_clock(handler!(test_clock::advance)),
        on_test_clock(handler!(test_clock::queues)),
        on_test_clock(handler!(test_plugin::configure)).taking(Takes::Json),
    ]
}

/// Every served route, including those of the test clock.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter()
}

/// All resources; those of the test clock only if `test`.
pub(crate) fn resources(test: bool) -> Vec<Resource> {
    let mut resources = BTreeMap::new();
    for route in all().filter(|route| test || !route.is_of_test_clock) {
        let path = route.path.as_str();
        let resource = resources.entry(path).or_insert_with(|| Resource::new(path));
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
    use http::Method;

    use super::*;
    use crate::request::Audited;
    use crate::route::RouteMatch;

    #[test]
    fn reads_need_no_permission_and_writes_need_a_known_one() {
        for route in all().filter(|route| !route.is_of_test_clock) {
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
        let account =
            resources.iter().find(|it| it.path == "/1.0/kb/accounts/{accountId}").unwrap();
        assert_eq!(account.allow(), "DELETE,GET,OPTIONS,PUT");
        assert_eq!(account.options(), "HEAD,DELETE,GET,OPTIONS,PUT");
        assert!(matches!(account.find(&Method::HEAD), RouteMatch::Route(_)));
        assert!(matches!(account.find(&Method::DELETE), RouteMatch::Route(_)));
        assert!(matches!(account.find(&Method::PATCH), RouteMatch::OtherMethods));
        assert!(resources.iter().all(|it| it.path != "/1.0/kb/test/clock"));
        let refunds = resources.iter().find(|it| it.path == "/1.0/kb/payments/refunds").unwrap();
        assert_eq!(refunds.options(), "OPTIONS,POST");
        assert!(matches!(Resource::new("unknown").find(&Method::GET), RouteMatch::NoPath));
    }
}
