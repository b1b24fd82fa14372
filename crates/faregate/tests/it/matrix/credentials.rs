//! The credentials that each kind of route must refuse with 401, and those that are right.

use super::row::{Needs, Row};
use super::world::{FORBIDDEN, PERMITTED, World};
use crate::client::Client;
use crate::signup::PASSWORD;

/// A client with a name for what it shows.
pub type Shown = (String, Client);

/// The name of the credentials that are right, of a tenant that is switched off.
pub const SWITCHED_OFF: &str = "a tenant that is switched off";

/// Every credential that the row refuses.
pub fn refused(world: &World, row: &Row) -> Vec<Shown> {
    let anonymous = anonymous(world);
    let none = ("no credentials".to_owned(), anonymous.clone());
    let operator = ("an operator".to_owned(), world.admin());
    match row.needs {
        Needs::Nothing(_) | Needs::Path(_) => vec![],
        Needs::TenantIfSent(_) => wrong_tenants(&anonymous),
        Needs::MetricsToken => {
            [vec![none, operator], tokens(world, &anonymous), secrets(world, row, &anonymous)]
                .concat()
        }
        Needs::Operator(_) => [vec![none], not_operators(world, row, &anonymous)].concat(),
        Needs::OperatorAndTenant(_) => {
            let of_tenant = anonymous.tenant("a", "the current secret");
            let lone = vec![none, ("the tenant alone".to_owned(), of_tenant.clone())];
            [lone, without_tenant(world), not_operators(world, row, &of_tenant)].concat()
        }
        Needs::Customer => [vec![none, operator], not_customers(world, row, &anonymous)].concat(),
        Needs::CustomerOrOperator(_) => {
            let of_tenant = anonymous.clone().tenant("a", "the current secret");
            [
                vec![none],
                without_tenant(world),
                not_customers(world, row, &anonymous),
                wrong_operators(&of_tenant),
            ]
            .concat()
        }
        Needs::Secret(kinds) => {
            let own = vec![none, operator, metrics_token(world, &anonymous)];
            [own, tokens(world, &anonymous), wrong_secrets(world, row, kinds)].concat()
        }
    }
}

/// A client without credentials.
fn anonymous(world: &World) -> Client {
    Client::new(&world.server.url).header("X-Killbill-CreatedBy", "it")
}

/// An operator with credentials that are no tenant's.
fn without_tenant(world: &World) -> Vec<Shown> {
    let operator = world.server.client();
    let key = operator.clone().header("X-Killbill-ApiKey", "a");
    let mut all = vec![
        ("an operator without a tenant".to_owned(), operator.clone()),
        ("an operator with the tenant's key alone".to_owned(), key),
    ];
    all.extend(wrong_tenants(&operator));
    all
}

/// Credentials that are no operator's.
fn not_operators(world: &World, row: &Row, client: &Client) -> Vec<Shown> {
    let metrics = vec![metrics_token(world, client)];
    [wrong_operators(client), tokens(world, client), secrets(world, row, client), metrics].concat()
}

/// Secrets that are none, have ended, or are of another type.
fn wrong_secrets(world: &World, row: &Row, kinds: &[&str]) -> Vec<Shown> {
    let with = |kind: &str, secret: &str| with_secret(row, &anonymous(world), (kind, secret));
    let mut all = vec![
        ("an expired secret".to_owned(), with("server", world.secret("a expired"))),
        ("a made-up secret".to_owned(), with("server", "made-up-secret")),
    ];
    for kind in ["server", "client", "relay-proxy"] {
        if !kinds.contains(&kind) {
            let secret = world.secret(&format!("a {kind}"));
            all.push((format!("a secret for {kind}"), with(kind, secret)));
        }
    }
    all
}

/// The client that may, with credentials of tenant `a`.
pub fn permitted(world: &World, row: &Row) -> Vec<Shown> {
    let anonymous = anonymous(world);
    let shown = |client: Client| vec![("the right credentials".to_owned(), client)];
    let operator = world.server.client().user(PERMITTED, PASSWORD);
    match row.needs {
        Needs::Nothing(_) | Needs::TenantIfSent(_) | Needs::Path(_) => shown(anonymous),
        Needs::MetricsToken => shown(world.server.scraper()),
        Needs::Operator(_) => shown(operator),
        Needs::OperatorAndTenant(_) => shown(operator.tenant("a", "the current secret")),
        Needs::Customer => shown(world.session(row.customer)),
        Needs::CustomerOrOperator(_) => {
            let operator = operator.tenant("a", "the current secret");
            vec![
                ("an operator".to_owned(), operator),
                ("the customer".to_owned(), world.session(row.customer)),
            ]
        }
        Needs::Secret(kinds) => kinds
            .iter()
            .map(|kind| {
                let secret = world.secret(&format!("a {kind}"));
                (format!("a secret for {kind}"), with_secret(row, &anonymous, (kind, secret)))
            })
            .collect(),
    }
}

/// Operators who lack the permission that the row needs.
pub fn forbidden(world: &World, row: &Row) -> Vec<Shown> {
    let operator = world.server.client().user(FORBIDDEN, PASSWORD);
    let name = "an operator with all other permissions".to_owned();
    match row.needs {
        Needs::Operator(Some(_)) => vec![(name, operator)],
        Needs::OperatorAndTenant(Some(_)) | Needs::CustomerOrOperator(_) => {
            vec![(name, operator.tenant("a", "the current secret"))]
        }
        Needs::Nothing(_)
        | Needs::TenantIfSent(_)
        | Needs::MetricsToken
        | Needs::Operator(None)
        | Needs::OperatorAndTenant(None)
        | Needs::Customer
        | Needs::Secret(_)
        | Needs::Path(_) => vec![],
    }
}

/// Right credentials of another tenant; of another customer.
pub fn foreign(world: &World, row: &Row) -> Vec<Shown> {
    let anonymous = anonymous(world);
    let admin = || ("the administrator of another tenant".to_owned(), world.foreign_admin());
    let customer = || ("a customer of another tenant".to_owned(), world.foreign_session());
    // Without an object of the other customer, it is a request about the own data.
    let neighbour = || {
        let name = "another customer of the tenant".to_owned();
        row.foreign.is_some().then(|| (name, world.session("otherEmail")))
    };
    match row.needs {
        Needs::Nothing(_) | Needs::MetricsToken | Needs::Operator(_) | Needs::Path(_) => vec![],
        Needs::TenantIfSent(_) => {
            vec![("another tenant".to_owned(), anonymous.tenant("b", "the secret of b"))]
        }
        Needs::OperatorAndTenant(_) => vec![admin()],
        // It would end the other customer, and is about nothing else.
        Needs::Customer if row.is_last => vec![],
        Needs::Customer => [customer()].into_iter().chain(neighbour()).collect(),
        Needs::CustomerOrOperator(_) => {
            [admin(), customer()].into_iter().chain(neighbour()).collect()
        }
        Needs::Secret(kinds) => kinds
            .iter()
            .map(|kind| {
                let secret = world.secret(&format!("b {kind}"));
                let name = format!("a secret of another tenant for {kind}");
                (name, with_secret(row, &anonymous, (kind, secret)))
            })
            .collect(),
    }
}

/// The secret as the API of the row takes it.
fn with_secret(row: &Row, client: &Client, (kind, secret): (&str, &str)) -> Client {
    let is_featbit = row.route.contains("/api/public/");
    let value = if is_featbit { secret.to_owned() } else { format!("Bearer {secret}") };
    client.clone().header("Authorization", &value).header("X-Type", kind)
}

/// A client with the secret of this name, as FeatBit's SDKs send it.
pub fn with_raw_secret(world: &World, name: &str) -> Client {
    anonymous(world).header("Authorization", world.secret(name))
}

fn wrong_tenants(client: &Client) -> Vec<Shown> {
    [
        ("a wrong secret of the tenant", "a", "a wrong secret"),
        ("another tenant's secret", "a", "the secret of b"),
        ("the tenant's withdrawn secret", "a", "the withdrawn secret"),
        ("a tenant that does not exist", "none", "the current secret"),
        (SWITCHED_OFF, "off", "the secret of off"),
    ]
    .map(|(name, key, secret)| (name.to_owned(), client.clone().tenant(key, secret)))
    .into()
}

fn wrong_operators(client: &Client) -> Vec<Shown> {
    [
        ("a wrong password", "admin", "wrong"),
        ("an unknown operator", "unknown", "password"),
        ("a deleted operator", "deleted", PASSWORD),
        ("the tenant's credentials as an operator's", "a", "the current secret"),
        ("a customer's password", "ann@canary.example", PASSWORD),
    ]
    .map(|(name, user, password)| (name.to_owned(), client.clone().user(user, password)))
    .into()
}

/// The access token of a customer, which other APIs do not take.
fn tokens(world: &World, client: &Client) -> Vec<Shown> {
    let value = format!("Bearer {}", world.token("ann"));
    vec![("a customer's access token".to_owned(), client.clone().header("Authorization", &value))]
}

fn metrics_token(world: &World, client: &Client) -> Shown {
    let token = std::fs::read_to_string(world.server.data_dir.join("metrics.token")).unwrap();
    let value = format!("Bearer {}", token.trim_end());
    ("the token for metrics".to_owned(), client.clone().header("Authorization", &value))
}

fn secrets(world: &World, row: &Row, client: &Client) -> Vec<Shown> {
    let secret = world.secret("a server");
    let raw = client.clone().header("Authorization", secret);
    vec![
        ("an environment's secret".to_owned(), with_secret(row, client, ("server", secret))),
        ("an environment's secret without a scheme".to_owned(), raw),
    ]
}

/// Tokens that are no access token of an open session of the request's tenant.
fn not_customers(world: &World, row: &Row, anonymous: &Client) -> Vec<Shown> {
    let mut all = vec![metrics_token(world, anonymous)];
    for (name, token) in [
        ("an ended session", "logged-out"),
        ("a deactivated customer", "deactivated"),
        ("an erased customer", "erased"),
        ("a refresh token", "refresh"),
        ("a session of another tenant", "bea"),
    ] {
        all.push((name.to_owned(), world.bearer(world.token(token))));
    }
    let own = world.bearer(world.token("ann"));
    all.push((
        "a session with another tenant's credentials".to_owned(),
        own.clone().tenant("b", "the secret of b"),
    ));
    all.extend(
        wrong_tenants(&own).into_iter().map(|(name, it)| (format!("a session with {name}"), it)),
    );
    all.extend(secrets(world, row, anonymous));
    all
}
