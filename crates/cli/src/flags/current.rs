//! A flag as it is on the server, and changes of it that are refused where another came first.

use anyhow::Context as _;
use bytes::Bytes;
use evaluation::Flag;
use hyper::Method;
use serde_json::Value;

use crate::client::NOT_JSON;
use crate::remote::{ReasonArgs, Remote, RemoteArgs, encoded, succeeded};

/// A flag with its version.
pub(super) struct Current {
    remote: Remote,
    path: String,
    version: String,
    pub document: Value,
}

impl Current {
    /// Reads a flag; changes of it have the reason.
    ///
    /// # Errors
    /// If there is no such flag, or the server cannot be reached or refuses.
    pub async fn read(args: &RemoteArgs, key: &str, reason: &ReasonArgs) -> anyhow::Result<Self> {
        let mut remote = args.connect().await?;
        remote.set_reason(reason)?;
        let path = format!("/v1/flags/{}?{}", encoded(key), args.parameters());
        let found = remote.get(&path).await?;
        let version = found.etag.clone().context("the server's answer has no version")?;
        Ok(Self { remote, path, version, document: found.json()? })
    }

    /// Its definition.
    ///
    /// # Errors
    /// If the server answered with something else.
    pub fn flag(&self) -> anyhow::Result<Flag> {
        serde_json::from_value(self.document.clone()).context(NOT_JSON)
    }

    /// Changes these fields, and returns the flag as it is then.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses, also because another client has changed the flag
    /// meanwhile.
    pub async fn patch(mut self, fields: &Value) -> anyhow::Result<Value> {
        let body = Bytes::from(fields.to_string());
        let answer = self.remote.send(Method::PATCH, &self.path, Some(&self.version), body).await?;
        succeeded(answer)?.json()
    }
}
