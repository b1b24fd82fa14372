//! Commands about features, offers and what accounts may do.

use serde::{Deserialize, Serialize};

use crate::account_user::{SetAccountUsers, USERS_MAX, spelled_account, user_claim};
use crate::entitlement::{ContinueEntitlements, GrantFeature, RevokeGrant};
use crate::feature::PutFeature;
use crate::offer::PutOffer;
use crate::partition::Subject;
use crate::read::Read;
use crate::timer::{TimerKey, TimerKind};
use crate::{AccountId, TenantNo};

/// A command about features, offers or the grants of an account. An offer is bought by
/// [`crate::command::PaymentCommand::Buy`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntitlementCommand {
    PutFeature(Box<PutFeature>),
    PutOffer(Box<PutOffer>),
    Grant(Box<GrantFeature>),
    Revoke(RevokeGrant),
    /// Expires grants, and begins those whose time has come.
    Continue(ContinueEntitlements),
    SetUsers(Box<SetAccountUsers>),
}

impl EntitlementCommand {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PutFeature(_) => "PutFeature",
            Self::PutOffer(_) => "PutOffer",
            Self::Grant(_) => "GrantFeature",
            Self::Revoke(_) => "RevokeGrant",
            Self::Continue(_) => "ContinueEntitlements",
            Self::SetUsers(_) => "SetAccountUsers",
        }
    }

    /// The account that it names.
    #[must_use]
    pub const fn account(&self) -> Option<AccountId> {
        match self {
            Self::PutFeature(_) | Self::PutOffer(_) => None,
            Self::Grant(it) => Some(it.account),
            Self::Revoke(it) => Some(it.account),
            Self::Continue(it) => Some(it.account),
            Self::SetUsers(it) => Some(it.account),
        }
    }

    pub(super) fn subject(&self) -> Subject {
        self.account().map_or(Subject::System, Subject::Account)
    }

    /// See [`super::Command::is_marked`].
    pub(super) const fn is_marked(&self) -> bool {
        match self {
            // An older copy would take back what was put since.
            Self::PutFeature(_) | Self::PutOffer(_) | Self::SetUsers(_) => true,
            // A grant has its id from the request, and is revoked once; a timer's command comes from no queue.
            Self::Grant(_) => true,
            Self::Revoke(_) | Self::Continue(_) => false,
        }
    }

    /// The rows that executing it may look at.
    pub(super) fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        match self {
            Self::PutFeature(it) => {
                read(Read::Feature(tenant, it.key.clone()));
                read(Read::CatalogSize(tenant));
            }
            Self::PutOffer(it) => {
                read(Read::Offer(tenant, it.key.clone()));
                let features = it.terms.features.keys();
                features.for_each(|key| read(Read::Feature(tenant, key.clone())));
                read(Read::NewcomersOffer(tenant));
                read(Read::CatalogSize(tenant));
            }
            Self::Grant(it) => {
                read(Read::Account(tenant, it.account));
                read(Read::Entitlements(tenant, it.account));
                read(Read::Feature(tenant, it.feature.clone()));
            }
            Self::Revoke(it) => read(Read::Entitlements(tenant, it.account)),
            Self::Continue(it) => {
                let object = it.account.uuid();
                read(Read::Timer(tenant, TimerKey { kind: TimerKind::Entitlements, object }));
                read(Read::Entitlements(tenant, it.account));
            }
            Self::SetUsers(it) => {
                read(Read::Account(tenant, it.account));
                read(Read::Entitlements(tenant, it.account));
                read(Read::AccountUsers(tenant, it.account));
                for user in it.users.iter().take(USERS_MAX) {
                    read(Read::Claim(user_claim(tenant, user)));
                    let spelled = spelled_account(user);
                    spelled.into_iter().for_each(|id| read(Read::Account(tenant, id)));
                }
            }
        }
    }
}
