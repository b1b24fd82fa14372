//! One connection to the server, and the accounts that are made by many of them.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::request::Identity;
use command_line::Target;

/// The longest wait for a response.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Connections that make accounts.
const MAKERS: usize = 32;

/// The grants and the payment method of each account.
#[derive(Clone, Debug, Default)]
pub struct Furniture {
    /// Grants, as `POST /v1/accounts/{id}/grants` takes them.
    pub grants: Vec<Value>,
    /// Its default payment method.
    pub method: Option<Method>,
}

/// A payment method.
#[derive(Clone, Copy, Debug)]
pub enum Method {
    /// Settles at once.
    External,
    /// The simulated gateway answers after a delay.
    Simulator { delay_ms: u32 },
}

/// The heads of requests, up to and without `Content-Length`; `{path}` stands for the path.
#[derive(Clone)]
struct Heads {
    get: String,
    post: String,
    put: String,
}

/// Status, body, and the path of `Location`.
pub type Answer = (u16, String, Option<String>);

/// A client with one connection, opened when it is needed.
pub struct Client {
    heads: Heads,
    target: Target,
    connection: Option<Connection>,
}

impl Client {
    /// A client of a server and a tenant.
    ///
    /// # Errors
    /// Where the credentials do not fit into a header.
    pub fn new(target: &Target, identity: &Identity) -> anyhow::Result<Self> {
        let head = |method| identity.head(target, method, "{path}");
        let heads = Heads { get: head("GET")?, post: head("POST")?, put: head("PUT")? };
        Ok(Self { heads, target: target.clone(), connection: None })
    }

    /// Another client of the same server and tenant.
    pub fn another(&self) -> Self {
        Self { heads: self.heads.clone(), target: self.target.clone(), connection: None }
    }

    /// Makes accounts; their ids.
    ///
    /// # Errors
    /// Where the server does not make one.
    pub async fn accounts(&self, count: u32, of: &Furniture) -> anyhow::Result<Vec<String>> {
        let wanted = usize::try_from(count)?;
        let mut makers = tokio::task::JoinSet::new();
        for maker in 0..MAKERS.min(wanted) {
            let share = (wanted - maker).div_ceil(MAKERS);
            let (mut client, of) = (self.another(), of.clone());
            makers.spawn(async move {
                let mut made = Vec::with_capacity(share);
                for _ in 0..share {
                    made.push(client.account(&of).await?);
                }
                anyhow::Ok(made)
            });
        }
        let mut accounts = Vec::with_capacity(wanted);
        while let Some(made) = makers.join_next().await {
            accounts.extend(made.context("a client panicked")??);
        }
        Ok(accounts)
    }

    async fn account(&mut self, of: &Furniture) -> anyhow::Result<String> {
        let accounts = "/1.0/kb/accounts";
        let location = match self.exchange("POST", accounts, &json!({ "currency": "USD" })).await {
            Ok((201, _, Some(location))) => location,
            other => anyhow::bail!("making an account: {other:?}"),
        };
        let id = location.rsplit('/').next().unwrap_or_default().to_owned();
        if let Some(method) = of.method {
            self.add_method(&id, method).await?;
        }
        for grant in &of.grants {
            self.expect("POST", &format!("/v1/accounts/{id}/grants"), grant).await?;
        }
        Ok(id)
    }

    /// Gives an account its default payment method.
    ///
    /// # Errors
    /// As [`Client::expect`].
    pub async fn add_method(&mut self, account: &str, method: Method) -> anyhow::Result<()> {
        let method = match method {
            Method::External => json!({ "pluginName": "__EXTERNAL_PAYMENT__" }),
            Method::Simulator { delay_ms } => {
                let delay = json!({ "key": "delayMs", "value": delay_ms.to_string() });
                let info = json!({ "properties": [delay] });
                json!({ "pluginName": "faregate-simulator", "pluginInfo": info })
            }
        };
        let path = format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true");
        self.expect("POST", &path, &method).await
    }

    /// Sends a request, and expects success.
    ///
    /// # Errors
    /// Where the answer is another one.
    pub async fn expect(&mut self, method: &str, path: &str, body: &Value) -> anyhow::Result<()> {
        let answer = self.exchange(method, path, body).await;
        anyhow::ensure!(matches!(answer, Ok((200..=299, ..))), "{method} {path}: {answer:?}");
        Ok(())
    }

    /// Sends a request; what it was answered with, or the kind of the failure.
    pub async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Answer, String> {
        let mut open = Connection::reuse(self.connection.take(), self.target.address, TIMEOUT)
            .await
            .map_err(|failure| failure.to_string())?;
        let head = match method {
            "GET" => &self.heads.get,
            "PUT" => &self.heads.put,
            _ => &self.heads.post,
        };
        let head = head.replacen("{path}", path, 1);
        let request = match method {
            "GET" => format!("{head}\r\n"),
            _ => {
                let body = body.to_string();
                format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
            }
        };
        let response = open
            .exchange(request.as_bytes(), Instant::now() + TIMEOUT)
            .await
            .map_err(|failure| failure.to_string())?;
        let received = open.received();
        let body = String::from_utf8_lossy(&response.body(received)).into_owned();
        let location = location(received);
        if !response.close {
            self.connection = Some(open);
        }
        Ok((response.status, body, location))
    }
}

/// The path of a response's `Location`.
fn location(received: &[u8]) -> Option<String> {
    let head = received.split(|byte| *byte == b'\n').take_while(|line| line.len() > 1);
    for line in head {
        let line = std::str::from_utf8(line).ok()?.trim_end();
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("location") {
            let path =
                value.find("://").and_then(|at| value[at + 3..].find('/').map(|it| at + 3 + it));
            return Some(value[path.unwrap_or_default()..].to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_path() {
        let of =
            |line: &str| location(format!("HTTP/1.1 201 Created\r\n{line}\r\n\r\n").as_bytes());
        assert_eq!(of("Location: /v1/a").as_deref(), Some("/v1/a"));
        assert_eq!(of("location: http://h:1/v1/a").as_deref(), Some("/v1/a"));
        assert_eq!(of("Date: x"), None);
    }
}
