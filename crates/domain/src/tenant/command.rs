//! Commands about tenants.

use serde::{Deserialize, Serialize};

use crate::account::tag::CreateTagDefinition;
use crate::catalog::simple_plan::SimplePlan;
use crate::claim::{ClaimKey, ClaimKind};
use crate::import::{ImportTagDefinition, id_claim};
use crate::read::{AccountRead, Read, TenantRead, TenantRow};
use crate::tenant::catalog::UploadCatalog;
use crate::tenant::webhook::SetWebhookEndpoints;
use crate::tenant::{
    AppendTenantValue, CreateTenant, RotateTenantSecret, RulesSource, SetTenantValue,
    WEBHOOK_ENDPOINTS,
};
use crate::{TagDefinitionId, TenantNo};

/// A command about a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TenantCommand {
    Create(CreateTenant),
    SetValue(SetTenantValue),
    AppendValue(AppendTenantValue),
    RotateSecret(RotateTenantSecret),
    DefineTag(CreateTagDefinition),
    /// Deletes a definition of tags.
    UndefineTag(TagDefinitionId),
    /// Brings a definition of tags over from another system.
    ImportTagDefinition(ImportTagDefinition),
    /// Refuses the secret that was replaced from now on.
    WithdrawPreviousSecret,
    /// Serves or refuses requests with the tenant's credentials.
    SetActive(bool),
    SetWebhookEndpoints(SetWebhookEndpoints),
    UploadCatalog(UploadCatalog),
    /// Adds to the version of the catalog that is in force; where there is none, to a new one.
    AddSimplePlan(Box<SimplePlan>),
    /// Sells nothing more from the versions of the catalog.
    WithdrawCatalog,
}

impl TenantCommand {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "CreateTenant",
            Self::SetValue(_) => "SetTenantValue",
            Self::AppendValue(_) => "AppendTenantValue",
            Self::DefineTag(_) => "CreateTagDefinition",
            Self::UndefineTag(_) => "DeleteTagDefinition",
            Self::ImportTagDefinition(_) => "ImportTagDefinition",
            Self::RotateSecret(_) => "RotateTenantSecret",
            Self::WithdrawPreviousSecret => "WithdrawPreviousTenantSecret",
            Self::SetActive(_) => "SetTenantActive",
            Self::SetWebhookEndpoints(_) => "SetWebhookEndpoints",
            Self::UploadCatalog(_) => "UploadCatalog",
            Self::AddSimplePlan(_) => "AddSimplePlan",
            Self::WithdrawCatalog => "WithdrawCatalog",
        }
    }

    /// See [`crate::command::Command::is_marked`].
    pub(crate) const fn is_marked(&self) -> bool {
        match self {
            Self::SetValue(_)
            | Self::AppendValue(_)
            | Self::DefineTag(_)
            | Self::UndefineTag(_)
            | Self::RotateSecret(_)
            | Self::WithdrawPreviousSecret
            | Self::SetActive(_)
            | Self::SetWebhookEndpoints(_)
            | Self::AddSimplePlan(_)
            | Self::WithdrawCatalog => true,
            Self::UploadCatalog(_) | Self::Create(_) | Self::ImportTagDefinition(_) => false,
        }
    }

    /// The rows that executing it may look at.
    pub(crate) fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        match self {
            Self::Create(it) => {
                let system = TenantNo::SYSTEM;
                read(Read::Claim(ClaimKey::new(system, ClaimKind::TenantApiKey, &it.api_key)));
                if let Some(id) = it.id {
                    let key = ClaimKey::new(system, ClaimKind::TenantId, &id.to_string());
                    read(Read::Claim(key));
                }
            }
            Self::SetValue(it) => {
                read(TenantRow::Value(tenant, it.key.clone()).into());
                read(TenantRead::ValuesBytes(tenant).into());
                if RulesSource::of(&it.key).is_some() {
                    read(TenantRead::PaymentRules(tenant).into());
                }
            }
            Self::AppendValue(it) => {
                read(TenantRow::Value(tenant, it.key.clone()).into());
                read(TenantRead::ValuesBytes(tenant).into());
            }
            Self::SetWebhookEndpoints(_) => {
                read(TenantRow::Value(tenant, WEBHOOK_ENDPOINTS.to_owned()).into());
            }
            Self::DefineTag(it) => {
                read(Read::Claim(ClaimKey::new(tenant, ClaimKind::TagDefinition, &it.name)));
            }
            Self::ImportTagDefinition(it) => {
                read(Read::Claim(id_claim(tenant, it.id.uuid())));
                read(Read::Claim(ClaimKey::new(tenant, ClaimKind::TagDefinition, &it.name)));
            }
            Self::UndefineTag(id) => {
                read(TenantRow::TagDefinition(tenant, *id).into());
                read(AccountRead::TagDefinitionUse(tenant, *id).into());
            }
            Self::UploadCatalog(_) | Self::AddSimplePlan(_) | Self::WithdrawCatalog => {
                read(TenantRow::CatalogVersions(tenant).into());
            }
            Self::RotateSecret(_) | Self::WithdrawPreviousSecret | Self::SetActive(_) => {
                read(TenantRow::Tenant(tenant).into());
            }
        }
    }
}
