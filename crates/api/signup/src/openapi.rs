//! This API in the OpenAPI document. The handlers write their answers by hand, as the contract has
//! them; their shapes are described here.

use utoipa::openapi::OpenApi;
use utoipa::openapi::path::HttpMethod::{Delete, Post, Put};
use uuid::Uuid;
use web::openapi::{Body, Credentials, Operation, Refused, document};

/// A customer's access token.
const CUSTOMER: Credentials = Credentials::Scheme("accessToken");
const OPERATOR: Credentials = Credentials::Operator;

/// The routes and their bodies. A path that is served with a slash at its end, too, is described without it.
static OPERATIONS: [Operation; 30] = [
    Operation::get("/user", "Names the service").answers::<ServiceInfo>(),
    Operation::get("/user/health", "Whether users are served").answers::<ServiceHealth>(),
    Operation::get("/user/health/database", "Whether the database is there, and the tenant")
        .answers::<DatabaseHealth>(),
    Operation::new(Post, "/user/auth/register", "Registers a customer")
        .takes::<UserRegistration>()
        .with_status("201", "Registered; a mail with a link is sent")
        .answers::<UserRegistered>(),
    Operation::new(Post, "/user/auth/login", "Logs a customer in")
        .takes::<UserLogin>()
        .answers::<UserLoggedIn>(),
    Operation::new(Post, "/user/auth/logout", "Ends the session").needs(CUSTOMER).answers::<Done>(),
    Operation::get("/user/auth/me", "The customer").needs(CUSTOMER).answers::<UserProfile>(),
    Operation::new(Post, "/user/auth/verify-email", "Verifies an address by the mailed token")
        .takes::<MailedToken>()
        .answers::<UserVerified>(),
    Operation::new(Post, "/user/auth/resend-verification", "Mails a new link")
        .takes::<MailAddress>()
        .answers::<Done>(),
    Operation::new(Post, "/user/auth/password-reset", "Mails a link that resets the password")
        .takes::<MailAddress>()
        .answers::<Done>(),
    Operation::new(Post, "/user/auth/password-reset-complete", "Sets a password by such a link")
        .takes::<UserPasswordReset>()
        .answers::<Done>(),
    Operation::new(Post, "/user/auth/password-change", "Changes the password")
        .needs(CUSTOMER)
        .takes::<UserPasswordChange>()
        .answers::<Done>(),
    Operation::new(Post, "/user/auth/refresh-token", "Replaces the tokens of a session")
        .with_query(&[("refresh_token", "The token, where the body has none")])
        .may_take::<UserRefresh>()
        .answers::<UserRefreshed>(),
    Operation::get("/user/users/profile", "The customer").needs(CUSTOMER).answers::<UserProfile>(),
    Operation::new(Put, "/user/users/profile", "Changes the customer")
        .needs(CUSTOMER)
        .takes::<UserProfileChange>()
        .answers::<UserProfileChanged>(),
    Operation::get("/user/users/preferences", "The customer's preferences")
        .needs(CUSTOMER)
        .answers::<UserPreferences>(),
    Operation::new(Put, "/user/users/preferences", "Changes preferences: those that are sent")
        .needs(CUSTOMER)
        .takes::<UserPreferences>()
        .answers::<UserPreferences>(),
    Operation::get("/user/users/stats", "Counts about the customer")
        .needs(CUSTOMER)
        .answers::<UserStats>(),
    Operation::get("/user/users/sessions", "The open sessions")
        .needs(CUSTOMER)
        .answers::<UserSessions>(),
    Operation::new(Delete, "/user/users/sessions", "Ends all sessions")
        .needs(CUSTOMER)
        .answers::<Done>(),
    Operation::new(Delete, "/user/users/sessions/{id}", "Ends a session")
        .needs(CUSTOMER)
        .answers::<Done>(),
    Operation::get("/user/users/instances", "Instances: always none")
        .needs(CUSTOMER)
        .answers::<UserInstances>(),
    Operation::get("/user/users/billing", "The billing account")
        .needs(CUSTOMER)
        .answers::<UserBilling>(),
    Operation::new(Delete, "/user/users/account", "Erases the customer")
        .needs(CUSTOMER)
        .with_query(&[("confirmation", "`DELETE`")])
        .may_take::<UserErasure>()
        .answers::<Done>(),
    Operation::new(Post, "/user/users/deactivate", "Deactivates the customer")
        .needs(CUSTOMER)
        .answers::<Done>(),
    Operation::get("/user/users/internal/{customer}", "A customer, for other services")
        .needs(OPERATOR)
        .answers::<InternalCustomer>(),
    Operation::get("/billing/health", "Whether billing is served").answers::<BillingHealth>(),
    Operation::new(Post, "/billing/api/billing/accounts", "Creates a billing account, or finds it")
        .needs(OPERATOR)
        .takes::<BillingAccountRequest>()
        .answers::<BillingAccountCreated>(),
    Operation::get("/billing/api/billing/accounts/{customer}", "A customer's billing account")
        .needs(OPERATOR)
        .answers::<BillingAccountFound>(),
    Operation::get(
        "/billing/api/billing/accounts/overview/{customer}",
        "A customer's billing account, bundles with their subscriptions, payment methods and balance",
    )
    .needs(OPERATOR)
    .answers::<BillingOverview>(),
];

/// The document of `/user` and `/billing`.
#[must_use]
pub fn openapi() -> OpenApi {
    let error = Refused::Json(Body::of::<UserError>());
    let errors = [
        ("4XX", "Refused; invalid fields are in `detail`", error),
        ("5XX", "Not served now; Retry-After where a retry may help", error),
    ];
    document("Sign-up, SaaSOdoo's paths", &OPERATIONS, &errors)
}

web::shapes! {
    /// An error. `message` and `status_code` are there under /user; `detail`, a text or a list of
    /// invalid fields, under /billing and where fields are invalid.
    UserError {
        error: Option<bool>,
        message: Option<String>,
        status_code: Option<u16>,
        #[schema(value_type = Option<Value>)]
        detail: Option<()>,
    }
    /// A success.
    Done { success: bool, message: String, }
    /// The service.
    ServiceInfo { service: String, version: String, status: String, }
    /// `healthy` or `unhealthy`.
    ServiceHealth { status: String, service: String, version: String, }
    /// `healthy` or `unhealthy`, also of the payments' server, which is in the same process.
    BillingHealth { status: String, service: String, killbill: KillBillHealth, }
    /// `healthy` or `unhealthy`, and why.
    KillBillHealth { status: String, error: Option<String>, }
    /// `healthy` or `unhealthy`, and why.
    DatabaseHealth {
        status: String,
        database: String,
        test_query: Option<String>,
        error: Option<String>,
    }
    /// A registration.
    UserRegistration {
        /// Must be true.
        accept_terms: bool,
        company: Option<String>,
        country: Option<String>,
        email: String,
        first_name: String,
        language: Option<String>,
        last_name: String,
        marketing_consent: Option<bool>,
        /// 8 to 128 characters: an upper and a lower case letter, a digit and another character.
        password: String,
        phone: Option<String>,
        /// A name of the IANA database, such as `Europe/Paris`.
        timezone: Option<String>,
    }
    /// A registered customer.
    UserRegistered { success: bool, message: String, customer: RegisteredCustomer, }
    /// A customer who has to verify the address.
    RegisteredCustomer {
        id: Option<Uuid>,
        email: String,
        first_name: String,
        last_name: String,
        requires_verification: bool,
    }
    /// A login.
    UserLogin {
        email: String,
        password: String,
        /// The second factor's code, or a recovery code.
        code: Option<String>,
        remember_me: Option<bool>,
    }
    /// A customer who is logged in.
    UserLoggedIn { success: bool, message: String, customer: UserCustomer, tokens: UserTokens, }
    /// A customer whose address is verified.
    UserVerified { success: bool, message: String, customer: UserCustomer, }
    /// A customer.
    UserCustomer {
        id: Uuid,
        email: String,
        first_name: String,
        last_name: String,
        is_verified: bool,
    }
    /// The tokens of a session.
    UserTokens {
        access_token: String,
        refresh_token: String,
        /// ISO 8601 in UTC, without a zone.
        expires_at: String,
        token_type: String,
    }
    /// New tokens.
    UserRefreshed { success: bool, tokens: UserTokens, }
    /// The refresh token of a session.
    UserRefresh { refresh_token: Option<String>, }
    /// A token that was mailed.
    MailedToken { token: String, }
    /// An e-mail address.
    MailAddress { email: String, }
    /// A new password, by a mailed token.
    UserPasswordReset { token: String, new_password: String, confirm_password: String, }
    /// A new password.
    UserPasswordChange {
        current_password: String,
        new_password: String,
        confirm_password: String,
    }
    /// The fields that all answers about a customer have.
    UserFields {
        id: Uuid,
        email: String,
        first_name: String,
        last_name: String,
        phone: Option<String>,
        company: Option<String>,
        country: Option<String>,
        timezone: Option<String>,
        language: Option<String>,
        avatar_url: Option<String>,
        created_at: String,
        instance_count: u32,
        subscription_status: Option<String>,
    }
    /// The customer.
    UserProfile {
        #[serde(flatten)]
        fields: UserFields,
        subscription_plan: Option<String>,
        #[schema(value_type = Option<Object>)]
        billing_info: Option<()>,
    }
    /// The customer after a change.
    UserProfileChanged {
        #[serde(flatten)]
        fields: UserFields,
        role: String,
        status: String,
        last_login: String,
        updated_at: String,
    }
    /// Fields of the customer that change.
    UserProfileChange {
        first_name: Option<String>,
        last_name: Option<String>,
        phone: Option<String>,
        company: Option<String>,
        country: Option<String>,
        timezone: Option<String>,
        language: Option<String>,
    }
    /// Preferences; those that are absent keep their values.
    UserPreferences {
        timezone: Option<String>,
        language: Option<String>,
        email_notifications: Option<bool>,
        sms_notifications: Option<bool>,
        marketing_emails: Option<bool>,
        /// `light`, `dark` or `auto`.
        theme: Option<String>,
        /// `DD/MM/YYYY`, `MM/DD/YYYY` or `YYYY-MM-DD`.
        date_format: Option<String>,
        /// `12` or `24`.
        time_format: Option<String>,
        currency: Option<String>,
    }
    /// Counts about a customer; there are no instances here.
    UserStats {
        total_instances: u32,
        active_instances: u32,
        total_storage_used: f64,
        total_bandwidth_used: f64,
        last_login: String,
        account_age_days: i64,
        subscription_days_remaining: Option<i64>,
    }
    /// The open sessions.
    UserSessions { success: bool, sessions: Vec<UserSession>, total_count: u32, }
    /// An open session.
    UserSession {
        id: Uuid,
        created_at: String,
        renewed_at: String,
        expires_at: String,
        is_current: bool,
    }
    /// Instances: none.
    UserInstances {
        success: bool,
        #[schema(value_type = Vec<Object>)]
        instances: Vec<()>,
        total_count: u32,
    }
    /// The billing account of a customer.
    UserBilling { success: bool, billing: UserBillingAccount, }
    /// The account in Kill Bill's shape, and subscriptions: none.
    UserBillingAccount {
        #[schema(value_type = Option<Object>)]
        account: Option<()>,
        #[schema(value_type = Vec<Object>)]
        subscriptions: Vec<()>,
    }
    /// The credentials that confirm a customer's erasure.
    UserErasure {
        password: String,
        /// The second factor's code, where there is one.
        code: Option<String>,
    }
    /// A customer, for other services.
    InternalCustomer {
        id: Uuid,
        email: String,
        first_name: String,
        last_name: String,
        /// `active`, `pending` or `inactive`.
        status: String,
    }
    /// A billing account to create.
    BillingAccountRequest {
        /// The customer's id, which becomes the account's external key.
        customer_id: String,
        email: String,
        name: String,
        company: Option<String>,
        /// ISO 4217; USD by default.
        currency: Option<String>,
    }
    /// The account that was created or found.
    BillingAccountCreated {
        success: bool,
        killbill_account_id: Option<Uuid>,
        customer_id: String,
        message: String,
    }
    /// A billing account, in Kill Bill's shape.
    BillingAccountFound {
        success: bool,
        #[schema(value_type = Object)]
        account: (),
    }
    /// A billing account with what belongs to it.
    BillingOverview {
        success: bool,
        customer_id: String,
        #[schema(value_type = Object)]
        account: (),
        #[schema(value_type = Vec<Object>)]
        bundles: Vec<()>,
        #[schema(value_type = Vec<Object>)]
        instances: Vec<()>,
        payment_methods: Vec<BillingPaymentMethod>,
        balance: Vec<BillingBalance>,
    }
    /// A payment method.
    BillingPaymentMethod {
        #[schema(rename = "paymentMethodId")]
        payment_method_id: Uuid,
        #[schema(rename = "pluginName")]
        plugin_name: String,
        #[schema(rename = "isDefault")]
        is_default: bool,
    }
    /// The balance in a currency.
    BillingBalance {
        currency: String,
        /// In the currency's minor unit.
        minor: String,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ROUTES;

    #[test]
    fn described_and_served_routes_are_the_same() {
        let described = OPERATIONS.iter().map(|it| {
            let (method, path) = it.route();
            let method = serde_json::to_value(method).unwrap();
            (method.as_str().unwrap().to_uppercase(), path)
        });
        let served = ROUTES.iter().map(|it| (it.method.to_string(), it.path));
        let served = served.map(|(method, path)| (method, path.trim_end_matches('/')));
        let (described, served): (BTreeSet<_>, BTreeSet<_>) =
            (described.collect(), served.collect());
        assert_eq!(described, served);
    }
}
