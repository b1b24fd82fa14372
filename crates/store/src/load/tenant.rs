//! Loads tenants, and what each has once; users and roles; environments of feature flags and what is in them.

use std::collections::BTreeSet;

use domain::definition::DefinitionKey;
use domain::read::{AccessRead, FlagRead, TenantRead};
use domain::state::State;
use domain::{ChangeRequestId, EnvironmentId, SecretId, TagDefinitionId, TenantNo};
use engine::ports::StoreError;

use crate::driver::Reader;
use crate::tables::{
    APP_USER, CHANGE_REQUEST, DEFINITION, ENVIRONMENT, ENVIRONMENT_SECRET, PAYMENT_RULES, ROLE,
    TAG_DEFINITION, TENANT, TENANT_VALUE,
};

const VALUES_BYTES: &str = "SELECT COALESCE(CAST(sum(counted_bytes) AS BIGINT), 0) \
    FROM tenant_value WHERE tenant = ?1 AND value IS NOT NULL";

/// The keys of what belongs to tenants.
#[derive(Default)]
pub(super) struct TenantPlan {
    tenants: Vec<TenantNo>,
    values: Vec<(TenantNo, String)>,
    /// Tenants whose values are counted.
    values_bytes: Vec<TenantNo>,
    tag_definitions: Vec<(TenantNo, TagDefinitionId)>,
    /// Tenants whose rules for payments are looked at.
    pub(super) rules: BTreeSet<TenantNo>,
}

impl TenantPlan {
    pub(super) fn add(&mut self, read: &TenantRead) {
        match read {
            TenantRead::Tenant(no) => self.tenants.push(*no),
            TenantRead::Value(no, name) => self.values.push((*no, name.clone())),
            TenantRead::ValuesBytes(no) => self.values_bytes.push(*no),
            TenantRead::TagDefinition(no, id) => self.tag_definitions.push((*no, *id)),
            TenantRead::PaymentRules(no) => drop(self.rules.insert(*no)),
        }
    }

    /// Loads the rules for payments, which say what else is looked at.
    pub(super) fn load_rules(
        &mut self,
        reader: &Reader,
        state: &mut State,
    ) -> Result<(), StoreError> {
        let rules = std::mem::take(&mut self.rules);
        PAYMENT_RULES.load(reader, rules, &mut state.tenant.payment_rules)
    }

    pub(super) fn load(self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        let loaded = &mut state.tenant;
        TENANT.load(reader, self.tenants, &mut loaded.tenants)?;
        TENANT_VALUE.load(reader, self.values, &mut loaded.values)?;
        TAG_DEFINITION.load(reader, self.tag_definitions, &mut loaded.tag_definitions)?;
        for no in self.values_bytes {
            let counted = reader.query_one(VALUES_BYTES, &[no.into()], |cells| cells.length())?;
            loaded.values_bytes.insert(no, counted.unwrap_or_default());
        }
        Ok(())
    }
}

/// The keys of users and roles.
#[derive(Default)]
pub(super) struct AccessPlan {
    users: Vec<String>,
    roles: Vec<String>,
}

impl AccessPlan {
    pub(super) fn add(&mut self, read: &AccessRead) {
        match read {
            AccessRead::User(name) => self.users.push(name.clone()),
            AccessRead::Role(name) => self.roles.push(name.clone()),
        }
    }

    pub(super) fn load(self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        APP_USER.load(reader, self.users, &mut state.access.users)?;
        ROLE.load(reader, self.roles, &mut state.access.roles)
    }
}

/// The keys of feature flags.
#[derive(Default)]
pub(super) struct FlagPlan {
    environments: Vec<(TenantNo, EnvironmentId)>,
    secrets: Vec<(TenantNo, SecretId)>,
    definitions: Vec<(TenantNo, DefinitionKey)>,
    change_requests: Vec<(TenantNo, ChangeRequestId)>,
}

impl FlagPlan {
    pub(super) fn add(&mut self, read: &FlagRead) {
        match read {
            FlagRead::Environment(no, id) => self.environments.push((*no, *id)),
            FlagRead::Secret(no, id) => self.secrets.push((*no, *id)),
            FlagRead::Definition(no, key) => self.definitions.push((*no, key.clone())),
            FlagRead::ChangeRequest(no, id) => self.change_requests.push((*no, *id)),
        }
    }

    pub(super) fn load(self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        let loaded = &mut state.flag;
        ENVIRONMENT.load(reader, self.environments, &mut loaded.environments)?;
        ENVIRONMENT_SECRET.load(reader, self.secrets, &mut loaded.secrets)?;
        DEFINITION.load(reader, self.definitions, &mut loaded.definitions)?;
        CHANGE_REQUEST.load(reader, self.change_requests, &mut loaded.change_requests)
    }
}
