//! Dry runs: the invoice that there would be, of which nothing is written.

use std::collections::BTreeSet;

use jiff::civil::Date;

use super::command::BillingCommand;
use super::invoice::{Invoice, InvoiceItem};
use super::reads::{read_chosen, read_run, read_since};
use super::rules;
use super::subscription::{CancelSubscription, ChangePlan, InvoiceUntil, Subscribe, When};
use crate::command::{Command, Request};
use crate::context::{Sequences, Settings, Stamp};
use crate::payment::Actor;
use crate::payment::health::Health;
use crate::read::Read;
use crate::state::State;
use crate::{AccountId, BundleId, Rejection, RequestId, Seq, SubscriptionId, TenantNo, Timestamp};

/// What is asked: which invoice an account would get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRun {
    pub account: AccountId,
    pub of: DryRunOf,
}

/// Which invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunOf {
    /// Of what is due until a day; `None`: today.
    Target(Option<Date>),
    /// The next one, of a bundle or a subscription where one is given.
    Upcoming { bundle: Option<BundleId>, subscription: Option<SubscriptionId> },
    /// After something was done, until a day; `None`: the day of that.
    After(Box<DryRunAction>, Option<Date>),
}

/// What would be done before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunAction {
    Subscribe(Subscribe),
    Change(ChangePlan),
    Cancel(CancelSubscription),
}

/// An invoice that nobody wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryInvoice {
    pub invoice: Invoice,
    pub items: Vec<InvoiceItem>,
}

impl DryRun {
    /// The rows that it may look at.
    #[must_use]
    pub fn reads(&self, tenant: TenantNo) -> BTreeSet<Read> {
        let mut reads = BTreeSet::new();
        let mut read = |it| {
            reads.insert(it);
        };
        read_run(tenant, self.account, &mut read);
        if let DryRunOf::After(action, _) = &self.of {
            let since: Option<When> = match &**action {
                DryRunAction::Subscribe(it) => {
                    let command = BillingCommand::Subscribe(Box::new(it.clone()));
                    command.reads(tenant, &mut read);
                    None
                }
                DryRunAction::Change(it) => {
                    read_chosen(&it.plan, tenant, &mut read);
                    it.requested
                }
                DryRunAction::Cancel(it) => it.requested,
            };
            read_since(since, (tenant, self.account), &mut read);
        }
        reads
    }

    /// The invoice that there would be at a time; `None`: there is nothing to invoice.
    ///
    /// # Errors
    /// As what would be done is refused, and where the account cannot be billed.
    pub fn run(
        &self,
        state: &State,
        (tenant, now, id): (TenantNo, Timestamp, RequestId),
    ) -> Result<Option<DryInvoice>, Rejection> {
        let settings = Settings::without_gateways(0, 1);
        let health = Health::default();
        let of_account = InvoiceUntil { account: self.account, target: None };
        let request = Request {
            id,
            tenant,
            actor: Actor::new("", "", id.0),
            idempotency: None,
            command: Command::Billing(BillingCommand::InvoiceUntil(of_account)),
        };
        let stamp = Stamp {
            now,
            real_now: now,
            seq: Seq(0),
            settings: &settings,
            health: &health,
            sequences: Sequences { payment_number: 0, tenant_no: 0 },
        };
        rules::dry_run(state, self, (&request, stamp))
    }
}
