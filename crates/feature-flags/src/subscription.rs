//! A stream's place among the subscribers of its environments.

use std::sync::Arc;

use crate::cache::Grant;
use crate::subscribers::Subscriber;

/// A subscriber of all environments of a grant; dropping it ends that.
pub struct Subscription {
    grant: Arc<Grant>,
    /// Its slot in each of them.
    slots: Vec<usize>,
}

impl Subscription {
    /// Subscribes, unless one of the environments has `environment_max` subscribers.
    pub fn new(
        grant: &Arc<Grant>,
        subscriber: &Arc<Subscriber>,
        environment_max: usize,
    ) -> Option<Self> {
        let environments = grant.environments();
        let slots = Vec::with_capacity(environments.len());
        let mut subscription = Self { grant: Arc::clone(grant), slots };
        for environment in environments {
            let Some(slot) = environment.subscribers.add(subscriber, environment_max) else {
                metrics::counter!("faregate_refused_total", "reason" => "environment_streams")
                    .increment(1);
                return None;
            };
            subscription.slots.push(slot);
        }
        Some(subscription)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        for (environment, slot) in self.grant.environments().iter().zip(&self.slots) {
            environment.subscribers.remove(*slot);
        }
    }
}
