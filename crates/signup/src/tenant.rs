//! Which tenant a request is for: the one whose headers it sends, or the one that the door serves.

use std::sync::{Arc, OnceLock};

use domain::TenantNo;
use engine::access::{Access, AccessError, ClientAddress};
use engine::{Engine, Unavailable};
use http::HeaderMap;

/// The tenant's headers: ours, or those that Kill Bill's clients send.
const API_KEY: [&str; 2] = ["x-faregate-apikey", "x-killbill-apikey"];
const API_SECRET: [&str; 2] = ["x-faregate-apisecret", "x-killbill-apisecret"];

/// Finds tenants. Cheap to clone; clones share what they remember.
#[derive(Clone)]
pub struct Tenants {
    access: Access,
    engine: Engine,
    name: Arc<str>,
    /// The number of the one that the door serves: it never changes once there is one.
    found: Arc<OnceLock<TenantNo>>,
}

/// Why it is not known for which tenant a request is.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TenantError {
    /// One of the two headers was sent without the other, or is not text.
    #[error("X-Faregate-ApiKey and X-Faregate-ApiSecret need to be set")]
    Incomplete,
    /// The headers are wrong.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// There are no headers, and no tenant has the name that the door is set up with.
    #[error("the tenant of sign-up does not exist: make it, or set `signup.tenant`")]
    Nobody,
    /// It could not be looked up.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Tenants {
    /// Finds tenants by their headers, or the one with this external key or API key.
    #[must_use]
    pub fn new(access: Access, engine: Engine, name: &str) -> Self {
        Self { access, engine, name: name.into(), found: Arc::default() }
    }

    /// The tenant of a request. Headers are checked where any is there: whoever sends them wrong is
    /// not served as if they had sent none.
    ///
    /// # Errors
    /// [`TenantError`].
    pub async fn of(
        &self,
        headers: &HeaderMap,
        from: ClientAddress,
    ) -> Result<TenantNo, TenantError> {
        match self.shown(headers, from).await? {
            Some(tenant) => Ok(tenant),
            None => self.served().await,
        }
    }

    /// The tenant whose headers a request sends, if it sends any.
    ///
    /// # Errors
    /// [`TenantError`].
    pub async fn shown(
        &self,
        headers: &HeaderMap,
        from: ClientAddress,
    ) -> Result<Option<TenantNo>, TenantError> {
        let (key, secret) = match (text(headers, API_KEY)?, text(headers, API_SECRET)?) {
            (None, None) => return Ok(None),
            (Some(key), Some(secret)) => (key, secret),
            (Some(_), None) | (None, Some(_)) => return Err(TenantError::Incomplete),
        };
        Ok(Some(self.access.tenant(from, key, secret).await?.no))
    }

    /// The tenant that the door serves.
    ///
    /// # Errors
    /// [`TenantError::Nobody`], [`TenantError::Unavailable`].
    pub async fn served(&self) -> Result<TenantNo, TenantError> {
        if let Some(no) = self.found.get() {
            return Ok(*no);
        }
        let name = Arc::clone(&self.name);
        let found = self.engine.read(move |queries| queries.tenant_named(&name)).await?;
        let no = found.ok_or(TenantError::Nobody)?.no;
        Ok(*self.found.get_or_init(|| no))
    }

    /// Who may call for a tenant.
    #[must_use]
    pub const fn access(&self) -> &Access {
        &self.access
    }
}

fn text<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Result<Option<&'a str>, TenantError> {
    let Some(value) = names.iter().find_map(|name| headers.get(*name)) else { return Ok(None) };
    let text = value.to_str().map_err(|_| TenantError::Incomplete)?;
    if text.is_empty() { Err(TenantError::Incomplete) } else { Ok(Some(text)) }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn headers_are_read_by_either_name() {
        let headers = |name: &'static str, value: HeaderValue| {
            HeaderMap::from_iter([(http::HeaderName::from_static(name), value)])
        };
        for name in API_KEY {
            let headers = headers(name, HeaderValue::from_static("bob"));
            assert_eq!(text(&headers, API_KEY).unwrap(), Some("bob"));
        }
        assert_eq!(text(&HeaderMap::new(), API_KEY).unwrap(), None);
        for wrong in ["", "\u{e9}"] {
            let value = HeaderValue::from_bytes(wrong.as_bytes()).unwrap();
            let headers = headers(API_KEY[0], value);
            assert!(matches!(text(&headers, API_KEY), Err(TenantError::Incomplete)), "{wrong}");
        }
    }
}
