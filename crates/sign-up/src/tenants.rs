//! Which tenant a request is for: the one whose credentials it has, or the configured one.

use std::sync::{Arc, Mutex, PoisonError};

use domain::TenantNo;
use domain::tenant::Tenant;
use engine::access::{Access, AccessError, ClientAddress};
use engine::{Engine, Unavailable, client};

/// Finds tenants. Cheap to clone; clones share what is cached.
#[derive(Clone)]
pub struct Tenants {
    access: Access,
    engine: Engine,
    name: Arc<str>,
    /// The configured tenant as it was read last.
    configured: Arc<Mutex<Option<Configured>>>,
}

/// The configured tenant as it was read.
#[derive(Clone, Copy)]
struct Configured {
    /// Its number and whether it is active; `None` where no tenant has the configured name.
    tenant: Option<(TenantNo, bool)>,
    /// [`Engine::access_generation`] before it was read: it may have been made or switched off since.
    generation: i64,
}

/// The API key and the secret of a tenant.
#[derive(Clone, Copy)]
pub struct TenantCredentials<'a> {
    pub api_key: &'a str,
    pub secret: &'a str,
}

/// The tenant of a request cannot be determined.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TenantError {
    /// The credentials are wrong.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The request has no credentials, and no tenant has the configured name.
    #[error("the tenant of sign-up does not exist: make it, or set `signup.tenant`")]
    NotFound,
    /// The tenant could not be read.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl TenantError {
    /// Whether it says nothing of the credentials: they cannot be checked now.
    #[must_use]
    pub const fn is_for_now(&self) -> bool {
        match self {
            Self::Access(AccessError::Unavailable(_) | AccessError::Throttled { .. })
            | Self::Unavailable(_) => true,
            Self::Access(
                AccessError::Missing
                | AccessError::Invalid
                | AccessError::UnknownApiKey
                | AccessError::WrongSecret
                | AccessError::TenantInactive,
            )
            | Self::NotFound => false,
        }
    }
}

impl Tenants {
    /// `name` is the external key or the API key of the configured tenant.
    #[must_use]
    pub fn new(access: Access, engine: Engine, name: &str) -> Self {
        Self { access, engine, name: name.into(), configured: Arc::default() }
    }

    /// The tenant with these credentials, or the configured one without any. Wrong credentials are
    /// refused, not ignored.
    ///
    /// # Errors
    /// [`TenantError`].
    pub async fn find(
        &self,
        credentials: Option<TenantCredentials<'_>>,
        from: ClientAddress,
    ) -> Result<TenantNo, TenantError> {
        match credentials {
            Some(credentials) => Ok(self.authenticate(credentials, from).await?),
            None => self.configured().await,
        }
    }

    /// The tenant with these credentials.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn authenticate(
        &self,
        TenantCredentials { api_key, secret }: TenantCredentials<'_>,
        from: ClientAddress,
    ) -> Result<TenantNo, AccessError> {
        Ok(self.access.tenant(from, api_key, secret).await?.no)
    }

    /// The configured tenant. Read again only after a change of users or tenants.
    ///
    /// # Errors
    /// [`TenantError::NotFound`], [`TenantError::Unavailable`].
    pub async fn configured(&self) -> Result<TenantNo, TenantError> {
        let generation = self.engine.access_generation();
        let known = *self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        let configured = match known.filter(|it| it.generation == generation) {
            Some(known) => known,
            None => {
                let name = Arc::clone(&self.name);
                let found = self.engine.read(move |queries| queries.tenant_named(&name)).await?;
                let tenant = found.map(|Tenant { no, is_active, .. }| (no, is_active));
                let read = Configured { tenant, generation };
                *self.configured.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
                read
            }
        };
        match configured.tenant.ok_or(TenantError::NotFound)? {
            (no, true) => {
                client::serves(no);
                Ok(no)
            }
            (_, false) => Err(AccessError::TenantInactive.into()),
        }
    }

    /// Authenticates operators and tenants.
    #[must_use]
    pub const fn access(&self) -> &Access {
        &self.access
    }
}
