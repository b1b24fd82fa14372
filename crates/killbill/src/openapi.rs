//! What this door serves, as OpenAPI.

use utoipa::OpenApi;

use crate::payments::{follow_up, read};
use crate::{
    accounts, admin, audit, payment_methods, payments, security, system, tenants, test_clock,
    transactions,
};

#[derive(OpenApi)]
#[openapi(paths(
    tenants::create,
    tenants::get,
    tenants::get_by_api_key,
    tenants::register_callback,
    tenants::get_callback,
    tenants::delete_callback,
    accounts::create,
    accounts::get,
    accounts::get_by_key,
    accounts::update,
    accounts::list,
    accounts::search,
    audit::account,
    audit::account_history,
    audit::payment_method_history,
    audit::payment_history,
    audit::transaction_history,
    payment_methods::create,
    payment_methods::list_of_account,
    payment_methods::get,
    payment_methods::get_by_key,
    payment_methods::list,
    payment_methods::search,
    payment_methods::set_default,
    payment_methods::refresh,
    payment_methods::delete,
    payments::start,
    payments::start_by_account_key,
    payments::list_of_account,
    follow_up::capture,
    follow_up::capture_by_key,
    follow_up::refund,
    follow_up::refund_by_key,
    follow_up::void,
    follow_up::void_by_key,
    follow_up::chargeback,
    follow_up::chargeback_by_key,
    follow_up::reverse_chargeback,
    follow_up::reverse_chargeback_by_key,
    follow_up::complete,
    follow_up::complete_by_key,
    read::get,
    read::get_by_key,
    read::list,
    read::search,
    transactions::get,
    transactions::get_by_key,
    transactions::notify,
    admin::fix_transaction,
    security::create_user,
    security::update_password,
    security::update_roles,
    security::delete_user,
    security::user_roles,
    security::create_role,
    security::update_role,
    security::role,
    security::roles,
    security::subject,
    security::permissions,
    system::nodes,
    system::plugins,
    system::health,
    test_clock::get,
    test_clock::set,
    test_clock::advance,
    test_clock::queues,
))]
struct Api;

/// The routes that this door serves.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    Api::openapi()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::routes;

    #[test]
    fn what_is_described_is_what_is_served() {
        let json = serde_json::to_value(openapi()).unwrap();
        let paths = json["paths"].as_object().unwrap();
        let described: BTreeSet<(&str, &str)> = paths
            .iter()
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().unwrap().keys();
                methods.map(move |method| (method.as_str(), path.as_str()))
            })
            .collect();
        let served: Vec<_> = routes::served().collect();
        let served = served.iter().map(|(method, path)| (method.as_str(), *path)).collect();
        assert_eq!(described, served);
    }
}
