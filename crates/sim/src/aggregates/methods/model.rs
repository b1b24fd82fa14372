//! The methods that the gateway has attached, beside those that are active here.

use std::collections::BTreeSet;

use domain::PaymentMethodId;
use domain::account::payment_method::MethodStep;

use crate::disk::Books;
use crate::kernel::Tally;

/// The methods that the gateway has, after the requests that reached it.
#[derive(Default)]
pub(super) struct Model {
    attached: BTreeSet<PaymentMethodId>,
}

impl Model {
    pub(super) fn attach(&mut self, id: PaymentMethodId) {
        self.attached.insert(id);
    }

    pub(super) fn detach(&mut self, id: PaymentMethodId) {
        self.attached.remove(&id);
    }

    pub(super) fn is_attached(&self, id: PaymentMethodId) -> bool {
        self.attached.contains(&id)
    }

    /// Checks that no step is left, that the gateway has exactly the active methods attached, and that every default
    /// method is active.
    pub(super) fn audit(&self, books: &Books, tally: &mut Tally) -> Result<(), String> {
        for it in &books.methods {
            let status = match (it.step, it.active) {
                (None, true) => "active",
                (None, false) => "deleted",
                (Some(MethodStep::Refused), false) => "refused",
                (Some(_), _) => return Err(format!("no step is left: {it:?}")),
            };
            tally.add(status, 1);
            if it.active != self.is_attached(it.id) {
                let there = if it.active { "is not" } else { "is" };
                return Err(format!("what is active here is attached there: {} {there}", it.id));
            }
        }
        let is_active =
            |id: &PaymentMethodId| books.methods.iter().any(|it| it.id == *id && it.active);
        let defaults = books.accounts.iter().filter_map(|(it, _)| it.payment_method_id.as_ref());
        match defaults.into_iter().find(|id| !is_active(id)) {
            Some(id) => Err(format!("a default method is active: {id}")),
            None => Ok(()),
        }
    }
}
