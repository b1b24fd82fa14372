//! The versions of a tenant's catalog, each as it was uploaded and as the API compiled it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::entity::{Entity, Facts};
use crate::rows::{Keyed, Part};
use crate::{CatalogVersionId, Revision, TenantNo, Timestamp};

/// How many versions of a tenant are sold from at most.
pub const VERSIONS_MAX: usize = 100;

/// How long the text of a version is at most, in bytes.
pub const VERSION_BYTES_MAX: usize = 1024 * 1024;

/// How long the texts of a tenant's versions are together at most, in bytes, those that are withdrawn among them.
pub const VERSIONS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A version of a tenant's catalog. It stays for the subscriptions that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogVersion {
    pub tenant: TenantNo,
    pub id: CatalogVersionId,
    /// That of the catalog.
    pub effective_at: Timestamp,
    /// Whether nothing more is sold from it.
    pub is_withdrawn: bool,
    /// How long its text is, in bytes; about as long, where simple plans were added.
    pub bytes: u64,
    /// Never journalled.
    #[serde(skip)]
    pub catalog: Arc<Catalog>,
    pub revision: Revision,
}

impl Keyed for CatalogVersion {
    type Key = (TenantNo, CatalogVersionId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Part for CatalogVersion {
    type Owner = TenantNo;

    fn owner(&self) -> TenantNo {
        self.tenant
    }

    fn is_active(&self) -> bool {
        true
    }
}

impl Entity for CatalogVersion {
    fn facts(&self) -> Facts {
        Facts::new("catalog version", self.id, self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn journalled(self) -> Self {
        Self { catalog: Arc::default(), ..self }
    }
}

/// The text of a version, as it was uploaded. It is empty where simple plans were added: then the version has no text,
/// and an API writes one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogText {
    pub tenant: TenantNo,
    pub id: CatalogVersionId,
    /// Never journalled.
    #[serde(skip)]
    pub text: String,
}

impl Keyed for CatalogText {
    type Key = (TenantNo, CatalogVersionId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

/// Adds a version to the catalog of the request's tenant. The API has compiled it, and found no mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadCatalog {
    pub text: String,
    pub catalog: Box<Catalog>,
}
