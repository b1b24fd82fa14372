//! Reads of the payment methods that an account has.

use std::collections::BTreeSet;

use domain::state::State;
use domain::{AccountId, PaymentMethodId, TenantNo};

use super::Tables;

impl Tables {
    pub(super) fn read_methods(
        &self,
        of: (TenantNo, AccountId),
        state: &mut State,
    ) -> BTreeSet<PaymentMethodId> {
        let own = self.methods.values().filter(|it| (it.tenant, it.account_id) == of && it.active);
        let ids: BTreeSet<PaymentMethodId> = own.map(|it| it.id).collect();
        ids.iter().for_each(|id| self.read_method(of.0, *id, state));
        ids
    }

    pub(super) fn read_methods_to_choose(&self, of: (TenantNo, AccountId), state: &mut State) {
        let rules = state.payment_rules.get(&of.0).and_then(Option::as_ref);
        let limits = rules.and_then(|it| it.limits.as_ref());
        if limits.is_some_and(|it| !it.method_gateways.is_empty()) {
            let ids = self.read_methods(of, state);
            state.methods_to_choose.insert(of, ids);
        }
    }
}
