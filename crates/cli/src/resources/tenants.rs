//! Tenants of the installation.

use bytes::Bytes;
use clap::{ArgMatches, FromArgMatches as _};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::lists::List;
use super::{
    Action, ByKey, EXPORT, Field, Operand, Request, Resource, Rows, body, filled, find,
    print_answer,
};
use crate::remote::{ReasonArgs, Remote, Scope, succeeded};

const TENANTS_LIST: &str = "/v1/tenants";

const TENANT: Operand = Operand {
    name: "tenant",
    help: "The tenant's id or API key",
    by_key: Some(ByKey {
        path: TENANTS_LIST,
        rows: Rows::Named("tenants"),
        key: "/apiKey",
        id: "/tenantId",
    }),
};

pub(super) static TENANTS: Resource = Resource {
    name: "tenants",
    alias: None,
    about: "List and create tenants, replace their secrets",
    scope: Scope::Installation,
    actions: &[
        Action::list(
            "ls",
            "List the tenants, the oldest first",
            &[],
            List {
                path: TENANTS_LIST,
                rows: Rows::Named("tenants"),
                columns: &[
                    ("ID", "/tenantId"),
                    ("API KEY", "/apiKey"),
                    ("EXTERNAL KEY", "/externalKey"),
                    ("ACTIVE", "/active"),
                    ("CREATED", "/createdAt"),
                ],
            },
        ),
        Action::show("Show a tenant", &[TENANT], "/v1/tenants/{tenant}"),
        Action {
            name: "create",
            about: "Create a tenant and draw its API secret, which is shown once",
            operands: &[],
            options: &[
                Field::text("key", "apiKey", "Its API key, which its requests send").required(),
                Field::text("external-key", "externalKey", "A name of your own for it"),
            ],
            request: Request::Credentials { path: TENANTS_LIST },
        },
        Action {
            name: "rotate-secret",
            about: "Draw a new API secret; the one before stays valid for another day",
            operands: &[TENANT],
            options: &[Field::integer(
                "overlap-seconds",
                "overlapSeconds",
                "How many seconds the secret before stays valid [default: 86400]",
            )],
            request: Request::Credentials { path: "/v1/tenants/{tenant}/secrets" },
        },
    ],
};

/// Sends the options, and prints the credentials in the answer, which are shown this once.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(super) async fn credentials(
    remote: &mut Remote,
    (action, path): (&Action, &str),
    matches: &ArgMatches,
    json: bool,
) -> anyhow::Result<()> {
    let path = filled(remote, path, action, matches).await?;
    let body = Bytes::from(Value::from(body(action, &[], matches)?).to_string());
    remote.set_reason(&ReasonArgs::from_arg_matches(matches)?)?;
    let answer = remote.send(Method::POST, &path, None, body).await?;
    let is_taken = answer.status == StatusCode::CONFLICT;
    let key = matches.try_get_one::<String>("key").ok().flatten().filter(|_| is_taken);
    let answer = succeeded(answer).map_err(|refused| match key {
        Some(key) => {
            refused.with(&format!("eval \"$(faregate tenants rotate-secret {key} --export)\""))
        }
        None => refused,
    })?;
    match matches.get_flag(EXPORT) {
        true => println!("{}", exports(&answer.json()?)),
        false => print_answer(&answer, json)?,
    }
    Ok(())
}

/// A tenant's credentials as a command of a shell.
fn exports(answer: &Value) -> String {
    let variables = [("FAREGATE_API_KEY", "/apiKey"), ("FAREGATE_API_SECRET", "/apiSecret")];
    let export = |(name, at): (&str, &str)| {
        let value = find(answer, at)?.as_str()?.replace('\'', r"'\''");
        Some(format!(" {name}='{value}'"))
    };
    let exports: String = variables.into_iter().filter_map(export).collect();
    format!("export{exports}")
}
