//! Commands about features, offers and what accounts may do.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::entitlement::account_user::{SetAccountUsers, USERS_MAX, spelled_account, user_claim};
use crate::entitlement::feature::PutFeature;
use crate::entitlement::offer::PutOffer;
use crate::entitlement::plan_features::PutPlanFeatures;
use crate::entitlement::usage::{
    ConfirmReservation, RecordUsage, RecordUsages, ReleaseReservation, Reserve, UsageItem,
};
use crate::entitlement::{ContinueEntitlements, GrantFeature, RevokeGrant};
use crate::partition::Subject;
use crate::read::{AccountRead, EntitlementRead, Read, UsageRead};
use crate::timer::{TimerKey, TimerKind};
use crate::{AccountId, ReservationId, TenantNo};

/// A command about features, offers or the grants of an account. An offer is bought by
/// [`crate::command::PaymentCommand::Buy`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntitlementCommand {
    PutFeature(Box<PutFeature>),
    PutOffer(Box<PutOffer>),
    PutPlanFeatures(Box<PutPlanFeatures>),
    Grant(Box<GrantFeature>),
    Revoke(RevokeGrant),
    /// Expires grants, and begins those whose time has come.
    Continue(ContinueEntitlements),
    SetUsers(Box<SetAccountUsers>),
    RecordUsage(Box<RecordUsage>),
    RecordUsages(Box<RecordUsages>),
    Reserve(Box<Reserve>),
    Confirm(ConfirmReservation),
    Release(ReleaseReservation),
}

impl EntitlementCommand {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PutFeature(_) => "PutFeature",
            Self::PutOffer(_) => "PutOffer",
            Self::PutPlanFeatures(_) => "PutPlanFeatures",
            Self::Grant(_) => "GrantFeature",
            Self::Revoke(_) => "RevokeGrant",
            Self::Continue(_) => "ContinueEntitlements",
            Self::SetUsers(_) => "SetAccountUsers",
            Self::RecordUsage(_) => "RecordUsage",
            Self::RecordUsages(_) => "RecordUsages",
            Self::Reserve(_) => "Reserve",
            Self::Confirm(_) => "ConfirmReservation",
            Self::Release(_) => "ReleaseReservation",
        }
    }

    /// The account that it names.
    #[must_use]
    pub const fn account(&self) -> Option<AccountId> {
        match self {
            Self::PutFeature(_) | Self::PutOffer(_) | Self::PutPlanFeatures(_) => None,
            Self::Grant(it) => Some(it.account),
            Self::Revoke(it) => Some(it.account),
            Self::Continue(it) => Some(it.account),
            Self::SetUsers(it) => Some(it.account),
            Self::RecordUsage(it) => Some(it.account),
            Self::RecordUsages(it) => Some(it.account),
            Self::Reserve(it) => Some(it.account),
            Self::Confirm(it) => Some(it.account),
            Self::Release(it) => Some(it.account),
        }
    }

    pub(crate) fn subject(&self) -> Subject {
        self.account().map_or(Subject::System, Subject::Account)
    }

    /// See [`crate::command::Command::is_marked`].
    pub(crate) const fn is_marked(&self) -> bool {
        match self {
            // An older copy would take back what was put since.
            Self::PutFeature(_)
            | Self::PutOffer(_)
            | Self::PutPlanFeatures(_)
            | Self::SetUsers(_) => true,
            // A grant has its id from the request, and is revoked once; a timer's command comes from no queue.
            Self::Grant(_) => true,
            Self::Revoke(_) | Self::Continue(_) => false,
            // Events are known by their keys; a reservation has its id from the request, and ends once.
            Self::RecordUsage(_)
            | Self::RecordUsages(_)
            | Self::Reserve(_)
            | Self::Confirm(_)
            | Self::Release(_) => false,
        }
    }

    /// The rows that executing it may look at.
    pub(crate) fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        match self {
            Self::PutFeature(it) => {
                read(EntitlementRead::Feature(tenant, it.key.clone()).into());
                read(EntitlementRead::CatalogSize(tenant).into());
            }
            Self::PutOffer(it) => {
                read(EntitlementRead::Offer(tenant, it.key.clone()).into());
                let features = it.terms.features.keys();
                features.for_each(|key| read(EntitlementRead::Feature(tenant, key.clone()).into()));
                read(EntitlementRead::NewcomersOffer(tenant).into());
                read(EntitlementRead::CatalogSize(tenant).into());
            }
            Self::PutPlanFeatures(it) => {
                read(EntitlementRead::PlanFeatures(tenant, it.of.clone()).into());
                let features = it.features.keys();
                features.for_each(|key| read(EntitlementRead::Feature(tenant, key.clone()).into()));
                read(EntitlementRead::CatalogSize(tenant).into());
            }
            Self::Grant(it) => {
                read(AccountRead::Account(tenant, it.account).into());
                read(EntitlementRead::Entitlements(tenant, it.account).into());
                read(EntitlementRead::Feature(tenant, it.feature.clone()).into());
            }
            Self::Revoke(it) => read(EntitlementRead::Entitlements(tenant, it.account).into()),
            Self::Continue(it) => {
                let object = it.account.uuid();
                read(Read::Timer(tenant, TimerKey { kind: TimerKind::Entitlements, object }));
                read(EntitlementRead::Entitlements(tenant, it.account).into());
            }
            Self::SetUsers(it) => {
                read(AccountRead::Account(tenant, it.account).into());
                read(EntitlementRead::Entitlements(tenant, it.account).into());
                read(EntitlementRead::Users(tenant, it.account).into());
                for user in it.users.iter().take(USERS_MAX) {
                    read(Read::Claim(user_claim(tenant, user)));
                    let spelled = spelled_account(user);
                    spelled
                        .into_iter()
                        .for_each(|id| read(AccountRead::Account(tenant, id).into()));
                }
            }
            Self::RecordUsage(it) => read_items((tenant, it.account), &[&it.item], read),
            Self::RecordUsages(it) => {
                let items: Vec<&UsageItem> = it.items.iter().collect();
                read_items((tenant, it.account), &items, read);
            }
            Self::Reserve(it) => {
                read(AccountRead::Account(tenant, it.account).into());
                read(EntitlementRead::Entitlements(tenant, it.account).into());
                read(EntitlementRead::Feature(tenant, it.feature.clone()).into());
                read(
                    EntitlementRead::Usage(UsageRead::Feature(
                        tenant,
                        it.account,
                        it.feature.clone(),
                    ))
                    .into(),
                );
            }
            Self::Confirm(it) => read_reservation((tenant, it.account), it.reservation, read),
            Self::Release(it) => read_reservation((tenant, it.account), it.reservation, read),
        }
    }
}

fn read_items(
    (tenant, account): (TenantNo, AccountId),
    items: &[&UsageItem],
    read: &mut impl FnMut(Read),
) {
    read(AccountRead::Account(tenant, account).into());
    read(EntitlementRead::Entitlements(tenant, account).into());
    let features: BTreeSet<&String> = items.iter().map(|it| &it.feature).collect();
    for feature in features {
        read(EntitlementRead::Feature(tenant, feature.clone()).into());
        read(EntitlementRead::Usage(UsageRead::Feature(tenant, account, feature.clone())).into());
    }
    for item in items {
        read(EntitlementRead::Usage(UsageRead::Event(tenant, account, item.event)).into());
    }
}

fn read_reservation(
    (tenant, account): (TenantNo, AccountId),
    reservation: ReservationId,
    read: &mut impl FnMut(Read),
) {
    read(AccountRead::Account(tenant, account).into());
    read(EntitlementRead::Entitlements(tenant, account).into());
    read(EntitlementRead::Usage(UsageRead::Reservation(tenant, account, reservation)).into());
}
