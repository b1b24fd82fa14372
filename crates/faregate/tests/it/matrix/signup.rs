//! The rows of sign-up's paths under `/user` and `/billing`.

use super::row::{Needs, Row, row};

const PROBES: Needs = Needs::Nothing("load balancers have no credentials");
const BY_MAIL: Needs = Needs::TenantIfSent("the token in the mail is the credential");
const BEFORE_LOGIN: Needs = Needs::TenantIfSent("customers have no session yet");
const READ_CUSTOMERS: Needs = Needs::CustomerOrOperator("customer:read");

pub fn rows() -> Vec<Row> {
    [auth(), users(), billing()].into_iter().flatten().collect()
}

fn auth() -> Vec<Row> {
    vec![
        row("GET /user", PROBES),
        row("GET /user/", PROBES),
        row("GET /user/health", PROBES),
        row("GET /user/health/database", PROBES),
        row("POST /user/auth/register", BEFORE_LOGIN).body(
            r#"{"email":"more@example.com","password":"{password}","first_name":"N","last_name":"N","accept_terms":true}"#,
        ),
        row("POST /user/auth/login", BEFORE_LOGIN)
            .body(r#"{"email":"{email}","password":"{password}"}"#)
            .foreign(401),
        row("POST /user/auth/logout", Needs::Customer),
        row("GET /user/auth/me", Needs::Customer),
        row("POST /user/auth/verify-email", BY_MAIL).body(r#"{"token":"made-up"}"#),
        row("POST /user/auth/resend-verification", BEFORE_LOGIN).body(r#"{"email":"{email}"}"#),
        row("POST /user/auth/password-reset", BEFORE_LOGIN).body(r#"{"email":"{email}"}"#),
        row("POST /user/auth/password-reset-complete", BY_MAIL).body(
            r#"{"token":"made-up","new_password":"{password}","confirm_password":"{password}"}"#,
        ),
        // Before the password changes, which ends sessions.
        row("POST /user/auth/refresh-token", Needs::TenantIfSent("the refresh token is the credential"))
            .body(r#"{"refresh_token":"{otherRefreshToken}"}"#)
            .foreign(401),
        row("POST /user/auth/password-change", Needs::Customer).body(
            r#"{"current_password":"{password}","new_password":"{password}","confirm_password":"{password}"}"#,
        ),
    ]
}

fn users() -> Vec<Row> {
    vec![
        row("GET /user/users/profile", Needs::Customer),
        row("PUT /user/users/profile", Needs::Customer).body(r#"{"company":"changed"}"#),
        row("GET /user/users/preferences", Needs::Customer),
        row("PUT /user/users/preferences", Needs::Customer).body(r#"{"theme":"dark"}"#),
        row("GET /user/users/stats", Needs::Customer),
        row("GET /user/users/sessions", Needs::Customer),
        row("DELETE /user/users/sessions", Needs::Customer),
        row("DELETE /user/users/sessions/{id}", Needs::Customer)
            .at("/user/users/sessions/{sessionId}")
            .of_object(),
        row("GET /user/users/instances", Needs::Customer),
        row("GET /user/users/billing", Needs::Customer),
        // Without the confirmation: the customer is needed by other rows.
        row("DELETE /user/users/account", Needs::Customer),
        row("POST /user/users/deactivate", Needs::Customer).by("otherEmail").last(),
        row("GET /user/users/internal/{customer}", READ_CUSTOMERS)
            .at("/user/users/internal/{me}")
            .of_object(),
    ]
}

fn billing() -> Vec<Row> {
    const NEW: &str = r#"{"customer_id":"{me}","email":"n@example.com","name":"N"}"#;
    let create = Needs::CustomerOrOperator("account:create");
    vec![
        row("GET /billing/health", PROBES),
        row("GET /billing/api/billing/accounts/{customer}", READ_CUSTOMERS)
            .at("/billing/api/billing/accounts/{me}")
            .of_object(),
        row("GET /billing/api/billing/accounts/overview/{customer}", READ_CUSTOMERS)
            .at("/billing/api/billing/accounts/overview/{me}")
            .of_object(),
        // Ids of customers are another service's: any tenant may have an account for one.
        row("POST /billing/api/billing/accounts/", create).body(NEW),
        row("POST /billing/api/billing/accounts", create).body(NEW),
    ]
}
