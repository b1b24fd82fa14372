//! Tenants: who shares this installation, and the values that each of them stores.

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::execute::{Accepted, Outcome};
use crate::state::{Change, ClaimKey, ClaimKind, State};
use crate::{Event, Rejection, Reply, Revision, TenantId, TenantNo, TenantValueId, Timestamp};

/// The key under which a tenant's push callback is stored (Kill Bill's name for it).
pub const PUSH_CALLBACK: &str = "PUSH_NOTIFICATION_CB";

/// The key under which a tenant's templates for mails are stored.
pub const MAIL_TEMPLATES: &str = "MAIL_TEMPLATES";

/// One company on this installation. All its data carries `no` first in its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// The number that rows carry.
    pub no: TenantNo,
    /// The id that clients see.
    pub id: TenantId,
    /// The client's own name for it; not unique, as in Kill Bill.
    pub external_key: Option<String>,
    /// Sent as `X-Killbill-ApiKey`; unique.
    pub api_key: String,
    /// argon2id hash (PHC string) of what is sent as `X-Killbill-ApiSecret`. Never journalled.
    #[serde(skip)]
    pub secret_hash: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Its history.
    pub revision: Revision,
}

/// A value that a tenant stored under a key, such as its push callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantValue {
    /// Whose it is.
    pub tenant: TenantNo,
    /// Its id: the object of its `TENANT_CONFIG_CHANGE` event.
    pub id: TenantValueId,
    /// What it is stored under; one value per key.
    pub key: String,
    /// The value; `None` once it was deleted.
    pub value: Option<String>,
    /// Its history.
    pub revision: Revision,
}

/// Makes a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateTenant {
    /// Given by the client, else minted from the request.
    pub id: Option<TenantId>,
    /// See [`Tenant::external_key`].
    pub external_key: Option<String>,
    /// See [`Tenant::api_key`].
    pub api_key: String,
    /// See [`Tenant::secret_hash`].
    pub secret_hash: String,
}

/// Stores a value under a key of the request's tenant, in place of the one before; `None` deletes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTenantValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Option<String>,
}

pub(crate) fn create(state: &State, it: &CreateTenant, cx: &mut Context) -> Outcome {
    // Of nobody, a claim says that it was released.
    if it.id.is_some_and(|id| id.uuid().is_nil()) {
        return Err(Rejection::invalid("tenantId", "it must not be all zeros"));
    }
    let claim = ClaimKey::new(TenantNo::SYSTEM, ClaimKind::TenantApiKey, &it.api_key);
    if state.claim(&claim).is_some() {
        return Err(Rejection::TenantAlreadyExists {
            key: it.external_key.clone().unwrap_or_else(|| it.api_key.clone()),
        });
    }
    let id = it.id.unwrap_or_else(|| cx.mint());
    let by_id = ClaimKey::new(TenantNo::SYSTEM, ClaimKind::TenantId, &id.to_string());
    if it.id.is_some() && state.claim(&by_id).is_some() {
        return Err(Rejection::TenantAlreadyExists { key: id.to_string() });
    }
    let tenant = Tenant {
        no: cx.next_tenant_no(),
        id,
        external_key: it.external_key.clone(),
        api_key: it.api_key.clone(),
        secret_hash: it.secret_hash.clone(),
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    };
    cx.claim(claim, id.uuid(), None);
    cx.claim(by_id, id.uuid(), None);
    cx.change(Change::Tenant(tenant));
    Ok(Accepted::now(Reply::TenantCreated(id)))
}

pub(crate) fn set_value(state: &State, it: &SetTenantValue, cx: &mut Context) -> Outcome {
    let before = state.tenant_value(cx.tenant, &it.key);
    if it.value.is_none() && before.is_none_or(|value| value.value.is_none()) {
        return Ok(Accepted::now(Reply::Done));
    }
    let value = match before {
        Some(before) => TenantValue {
            value: it.value.clone(),
            revision: before.revision.next(cx.seq),
            ..before.clone()
        },
        None => TenantValue {
            tenant: cx.tenant,
            id: cx.mint(),
            key: it.key.clone(),
            value: it.value.clone(),
            revision: Revision::first(cx.seq),
        },
    };
    if value.value.is_some() {
        cx.event(Event::TenantConfigChanged { value: value.id, key: value.key.clone() });
    }
    cx.change(Change::TenantValue(value));
    Ok(Accepted::now(Reply::Done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use crate::testing::Rows;

    #[test]
    fn nobody_has_the_id_that_means_nobody() {
        let mut rows = Rows::new();
        let mut create = |id: u128| {
            rows.run(Command::CreateTenant(CreateTenant {
                id: Some(TenantId::new(uuid::Uuid::from_u128(id))),
                external_key: None,
                api_key: format!("key {id}"),
                secret_hash: String::new(),
            }))
        };
        let refused = Rejection::invalid("tenantId", "it must not be all zeros");
        assert_eq!(create(0), Err(refused));
        assert!(create(1).is_ok());
    }
}
