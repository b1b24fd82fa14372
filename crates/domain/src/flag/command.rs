//! Commands about feature flags: environments, their secrets, definitions and change requests.

use serde::{Deserialize, Serialize};

use crate::TenantNo;
use crate::flag::change_request::{ApplyChange, DecideChange, RequestChange};
use crate::flag::definition::PutDefinitions;
use crate::flag::environment::{
    self, AddSecret, AddSecrets, CreateEnvironment, ExpireSecret, ExpireSecrets, UpdateEnvironment,
};
use crate::read::{FlagRead, Read};

/// A command about feature flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlagCommand {
    CreateEnvironment(CreateEnvironment),
    UpdateEnvironment(UpdateEnvironment),
    AddSecret(AddSecret),
    ExpireSecret(ExpireSecret),
    AddSecrets(AddSecrets),
    ExpireSecrets(ExpireSecrets),
    PutDefinitions(PutDefinitions),
    RequestChange(RequestChange),
    DecideChange(DecideChange),
    ApplyChange(ApplyChange),
}

impl FlagCommand {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreateEnvironment(_) => "CreateEnvironment",
            Self::UpdateEnvironment(_) => "UpdateEnvironment",
            Self::AddSecret(_) => "AddSecret",
            Self::ExpireSecret(_) => "ExpireSecret",
            Self::AddSecrets(_) => "AddSecrets",
            Self::ExpireSecrets(_) => "ExpireSecrets",
            Self::PutDefinitions(_) => "PutDefinitions",
            Self::RequestChange(_) => "RequestChange",
            Self::DecideChange(_) => "DecideChange",
            Self::ApplyChange(_) => "ApplyChange",
        }
    }

    /// See [`crate::command::Command::is_marked`].
    pub(crate) const fn is_marked(&self) -> bool {
        match self {
            Self::UpdateEnvironment(_)
            | Self::AddSecret(_)
            | Self::ExpireSecret(_)
            | Self::AddSecrets(_)
            | Self::ExpireSecrets(_)
            | Self::PutDefinitions(_)
            | Self::RequestChange(_)
            | Self::DecideChange(_)
            | Self::ApplyChange(_) => true,
            Self::CreateEnvironment(_) => false,
        }
    }

    /// The rows that executing it may look at.
    pub(crate) fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        match self {
            Self::CreateEnvironment(it) => {
                read(FlagRead::Environment(tenant, it.id).into());
                read(Read::Claim(environment::claim(tenant, &it.project, &it.key)));
            }
            Self::UpdateEnvironment(it) => {
                read(FlagRead::Environment(tenant, it.environment).into())
            }
            Self::AddSecret(it) => read(FlagRead::Environment(tenant, it.environment).into()),
            Self::ExpireSecret(it) => read_secret(it, tenant, read),
            Self::AddSecrets(it) => {
                it.secrets
                    .iter()
                    .for_each(|it| read(FlagRead::Environment(tenant, it.environment).into()));
            }
            Self::ExpireSecrets(it) => {
                it.secrets.iter().for_each(|it| read_secret(it, tenant, read));
            }
            Self::PutDefinitions(it) => {
                read(FlagRead::Environment(tenant, it.environment).into());
                it.keys().for_each(|key| read(FlagRead::Definition(tenant, key).into()));
            }
            Self::RequestChange(it) => {
                read(FlagRead::Environment(tenant, it.key.environment).into())
            }
            Self::DecideChange(it) => {
                read(FlagRead::Environment(tenant, it.environment).into());
                read(FlagRead::ChangeRequest(tenant, it.change).into());
                let seen = it.seen.iter();
                seen.for_each(|seen| read(FlagRead::Definition(tenant, seen.key.clone()).into()));
            }
            Self::ApplyChange(it) => {
                read(FlagRead::Environment(tenant, it.key.environment).into());
                read(FlagRead::ChangeRequest(tenant, it.change).into());
                read(FlagRead::Definition(tenant, it.key.clone()).into());
            }
        }
    }
}

fn read_secret(it: &ExpireSecret, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(FlagRead::Environment(tenant, it.environment).into());
    read(FlagRead::Secret(tenant, it.secret).into());
}
