//! Features of subscriptions: brings what an account was granted to what its subscriptions should have.

use std::collections::BTreeSet;

use super::books::Books;
use super::plan::Sold;
use crate::account::blocking_state::BlockingState;
use crate::billing::blocking;
use crate::billing::features::{self, Active, Mapping, Wanted};
use crate::billing::invoice::{Invoice, InvoiceItem, InvoiceStatus};
use crate::billing::subscription::{GivenFeatures, PlanChoice, Subscription};
use crate::billing::timeline::Current;
use crate::context::Context;
use crate::entitlement::plan_features::FeaturesOf;
use crate::entitlement::rules::entitlement;
use crate::entitlement::{Entitlements, GRANTS_MAX, Grant, GrantSource};
use crate::rows::Keyed;
use crate::state::State;
use crate::{AccountId, AmountMinor, InvoiceId, Rejection, SubscriptionId};

/// Gives subscriptions what they wait for until an invoice is paid, or takes it back: of the accounts whose invoices the
/// command changed.
pub(super) fn follow(state: &State, cx: &mut Context) {
    let payers = &state.entitlement.payers;
    let is_payer = |it: &Invoice| payers.contains(&(it.tenant, it.account_id));
    let paid = cx.written::<Invoice>().filter(|it| is_payer(it)).map(|it| it.account_id);
    let paid: BTreeSet<AccountId> = paid.collect();
    if paid.is_empty() || !state.featured(cx.tenant).on_payment {
        return;
    }
    for account in paid {
        // An account without a currency has no subscription.
        if let Ok(books) = Books::open(state, account, cx) {
            books.close(cx);
        }
    }
}

/// Takes back what the subscriptions of an account have that is closed.
pub(crate) fn end(state: &State, account: AccountId, cx: &mut Context) {
    if state.featured(cx.tenant).any
        && let Ok(books) = Books::open(state, account, cx)
    {
        books.close(cx);
    }
}

impl Books<'_> {
    /// Whether the tenant has features of plans.
    fn has_features(&self) -> bool {
        self.state.featured(self.account.tenant).any
    }

    /// Notes the invoice with these items as the first one that charges each subscription something.
    pub(super) fn note_first_charges(&mut self, items: &[InvoiceItem]) {
        for it in self.subscriptions.iter_mut().filter(|it| it.first_charged.is_none()) {
            let is_of = |item: &&InvoiceItem| {
                let of = item.of.as_ref();
                item.amount > AmountMinor::ZERO
                    && item.kind.charges()
                    && of.is_some_and(|of| of.subscription == it.id)
            };
            it.first_charged = items.iter().find(is_of).map(|item| item.invoice_id);
        }
    }

    /// Lets the next invoice be the first one, where this one is void.
    pub(super) fn forget_first_charge(&mut self, invoice: InvoiceId) {
        let of = self.subscriptions.iter_mut().filter(|it| it.first_charged == Some(invoice));
        of.for_each(|it| it.first_charged = None);
    }

    /// Brings what the account was granted to what its subscriptions should have now.
    pub(super) fn give_features(&mut self, cx: &mut Context) {
        if !self.has_features() || self.subscriptions.is_empty() {
            return;
        }
        let mut entitled: Option<Entitlements> = None;
        let is_closed = self.is_closed();
        for at in 0..self.subscriptions.len() {
            let it = &self.subscriptions[at];
            let is_paid = self.is_paid(it, cx);
            let blocks = blocking::blocks_at(&blocking::states_of(&self.states, Some(it)), cx.now);
            let active = features::active(it, blocks, is_paid, cx.now).filter(|_| !is_closed);
            let given = match (active, it.given) {
                (None, None) => continue,
                (Some(_), Some(given)) if given.is_paid == is_paid && !self.is_touched(it) => {
                    continue;
                }
                (Some(_) | None, _) => active.map(|active| (active, is_paid)),
            };
            let known = entitled
                .get_or_insert_with(|| entitlement::of_account(self.state, self.account.id, cx));
            let given = match given {
                Some((active, is_paid)) => {
                    let grants = self.give(it, active, known, cx);
                    Some(GivenFeatures { is_paid, ..grants })
                }
                None => {
                    take_back(it.id, known, cx);
                    None
                }
            };
            self.subscriptions[at].given = given;
        }
        if let Some(entitled) = entitled {
            entitlement::put(self.state, entitled, cx);
        }
    }

    /// Brings the grants of an active subscription to what it should have.
    fn give(
        &self,
        it: &Subscription,
        active: Active,
        entitled: &mut Entitlements,
        cx: &mut Context,
    ) -> GivenFeatures {
        let stages = features::stages(it, |current| self.mapping(current));
        let wanted = features::wanted(&stages, active);
        let now = cx.now;
        let is_over = |grant: &Grant| grant.term().is_over(now);
        let is_held = |grant: &Grant| grant.subscription() == Some(it.id) && !is_over(grant);
        let held: Vec<Grant> = entitled.grants.iter().filter(|it| is_held(it)).cloned().collect();
        let live = entitled.grants.iter().filter(|it| !is_over(it)).count();
        let mut room = GRANTS_MAX.saturating_sub(live - held.len());
        let mut given = GivenFeatures { grants: 0, until: None, is_paid: false };
        let (mut kept, mut new) = (vec![], vec![]);
        for it in wanted.into_iter().map(|wanted| (it.id, wanted)) {
            let held = held.iter().find(|grant| grant.feature == it.1.feature);
            let Some(grant) = self.grant(&it, held, cx).filter(|_| room > 0) else { continue };
            room -= 1;
            given.grants += 1;
            given.until = given.until.into_iter().chain(grant.until).min();
            let is_kept = held.is_some_and(|held| held.id == grant.id);
            if is_kept { kept.push(grant) } else { new.push(grant) }
        }
        // What was granted keeps its place: where the latest value counts, that is the one of what came since.
        entitled.grants.retain_mut(|grant| {
            if !is_held(grant) {
                return true;
            }
            let known = kept.iter().find(|it| it.id == grant.id);
            known.is_some_and(|known| {
                grant.clone_from(known);
                true
            })
        });
        entitled.grants.extend(new);
        given
    }

    /// The grant that a subscription should have: the one that it has, where that gives the same. `None`: the feature
    /// is archived, and it does not have it.
    fn grant(
        &self,
        (subscription, it): &(SubscriptionId, Wanted<'_>),
        held: Option<&Grant>,
        cx: &mut Context,
    ) -> Option<Grant> {
        let source = GrantSource::Subscription {
            subscription: *subscription,
            plan: it.plan.to_owned(),
            phase: it.phase,
            given_by: it.given_by.of.kind,
            version: it.given_by.version,
        };
        if let Some(held) = held.filter(|held| held.value == it.value) {
            return Some(Grant { source, until: it.until, ..held.clone() });
        }
        // What the batch did not load comes with the next period.
        let key = (cx.tenant, it.feature.to_owned());
        let feature = self.state.entitlement.features.find(&key)?;
        if feature.archived && held.is_none() {
            return None;
        }
        Some(Grant {
            id: cx.mint(),
            feature: it.feature.to_owned(),
            value: it.value.clone(),
            terms: feature.terms.clone(),
            source,
            from: it.from,
            until: it.until,
        })
    }

    /// Whether a command changed the course of a subscription, or charged it for a period.
    fn is_touched(&self, it: &Subscription) -> bool {
        let known = self.state.billing.subscriptions.of(&self.account.key());
        known.get(&it.key()).is_none_or(|known| {
            (&known.transitions, known.in_effect) != (&it.transitions, it.in_effect)
                || (known.entitled_from, known.entitled_until)
                    != (it.entitled_from, it.entitled_until)
                || (known.charged_through, known.next_due) != (it.charged_through, it.next_due)
        })
    }

    /// Whether the account is closed, as the command leaves it.
    fn is_closed(&self) -> bool {
        let of_account = self.states.iter().filter(|it| it.closes().is_some());
        let newest = of_account.max_by_key(|it| it.ordinal);
        newest.and_then(BlockingState::closes).unwrap_or(false)
    }

    /// Whether the first invoice that charges a subscription is paid: its balance is zero, or was and some of the money
    /// is still there.
    fn is_paid(&self, it: &Subscription, cx: &Context) -> bool {
        let Some(invoice) = it.first_charged.and_then(|id| self.invoice(id, cx)) else {
            return false;
        };
        let was_paid = it.given.is_some_and(|it| it.is_paid);
        invoice.status == InvoiceStatus::Committed
            && (invoice.balance() <= AmountMinor::ZERO
                || was_paid && invoice.paid() > AmountMinor::ZERO)
    }

    /// The features of a plan and its product. What the batch did not load has none.
    fn mapping<'a>(&'a self, of: Current<'_>) -> Mapping<'a> {
        let tenant = self.account.tenant;
        let all = &self.state.entitlement.plan_features;
        let product = of.plan_at(&self.versions, of.chosen_at).map(|it| &it.plan.product);
        Mapping {
            plan: all.find(&(tenant, FeaturesOf::plan(of.plan))),
            product: product.and_then(|it| all.find(&(tenant, FeaturesOf::product(it)))),
        }
    }

    /// Refuses to sell a plan with features beyond what an account may have. `instead_of`: the subscription that gets
    /// the plan.
    pub(super) fn refuse_beyond_grants(
        &mut self,
        (chosen, choice): (&Sold<'_>, &PlanChoice),
        instead_of: Option<SubscriptionId>,
        cx: &Context,
    ) -> Result<(), Rejection> {
        if !self.has_features() {
            return Ok(());
        }
        let all = &self.state.entitlement.plan_features;
        let tenant = cx.tenant;
        let mapping = Mapping {
            plan: all.find(&(tenant, FeaturesOf::plan(&chosen.plan.name))),
            product: all.find(&(tenant, FeaturesOf::product(&chosen.product.name))),
        };
        let more = mapping.size();
        if more == 0 {
            return Ok(());
        }
        let sold = match self.features_sold {
            Some(sold) => sold,
            None => self.count_features(cx),
        };
        let before = instead_of.and_then(|id| self.subscriptions.iter().find(|it| it.id == id));
        let before = before.map_or(0, |it| self.size_of(it));
        if more > before && sold - before + more > GRANTS_MAX {
            let field = match choice {
                PlanChoice::Named(_) => "planName",
                PlanChoice::Offered { .. } => "productName",
            };
            let reason = "gives features, and the account would have more than 1000 grants";
            return Err(Rejection::invalid(field, reason));
        }
        self.features_sold = Some(sold - before + more);
        Ok(())
    }

    /// How many grants the account has and may get from its subscriptions.
    fn count_features(&self, cx: &Context) -> usize {
        let entitled = self.state.entitlements(cx.tenant, self.account.id);
        let grants = entitled.into_iter().flat_map(|it| &it.grants);
        let others = grants.filter(|it| it.subscription().is_none() && !it.term().is_over(cx.now));
        let of_subscriptions = self.subscriptions.iter().filter(|it| !it.has_ended());
        others.count() + of_subscriptions.map(|it| self.size_of(it)).sum::<usize>()
    }

    /// How many features the plan gives that a subscription has last.
    fn size_of(&self, it: &Subscription) -> usize {
        it.after(it.transitions.len()).map_or(0, |current| self.mapping(current).size())
    }
}

/// Ends what a subscription has.
fn take_back(subscription: SubscriptionId, entitled: &mut Entitlements, cx: &Context) {
    let is_of = |it: &Grant| it.subscription() == Some(subscription) && !it.term().is_over(cx.now);
    entitled.grants.retain(|it| !is_of(it));
}
