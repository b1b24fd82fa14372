//! Payments that come with their account and their payment method.

use super::{CARD, WALLET, Workload};
use crate::ask::{CURRENCIES, Combo, Means, Payer, ROUTER, Start, Uid, What};
use crate::model::{EXTERNAL, Model, Tenant};

impl Workload {
    pub(super) fn combo(&mut self, model: &Model, no: u32) -> What {
        let tenant = &model.tenants[&no];
        let What::Start(start) = self.start(model, no) else { unreachable!("it starts a payment") };
        let own = tenant.accounts.get(&start.account).and_then(|account| account.currency);
        let payer = if self.random.chance(600) {
            let old = tenant.accounts.values().filter_map(|account| account.key.clone());
            let key = self.key("a", old.collect(), 150);
            Payer::New { key, currency: start.currency.or(own) }
        } else {
            let wrong = Some(self.random.pick(&CURRENCIES).0);
            let currency = if self.random.chance(100) { wrong } else { own };
            Payer::Known { account: start.account, currency }
        };
        let means = self.means(tenant, (&payer, start.method));
        What::Combo(Combo { payer, means, start: Start { method: None, ..start } })
    }

    fn means(&mut self, tenant: &Tenant, (payer, method): (&Payer, Option<Uid>)) -> Option<Means> {
        let usual = match payer {
            Payer::Known { .. } => 300,
            Payer::New { .. } => 950,
        };
        if !self.random.chance(usual) {
            return method.map(Means::Known);
        }
        let gateway = self.random.weighted(&[(50, CARD), (30, WALLET), (20, EXTERNAL)]);
        let old: Vec<(String, &str)> =
            tenant.methods.values().filter_map(|it| Some((it.key.clone()?, it.gateway))).collect();
        if !old.is_empty() && self.random.chance(150) {
            let (key, own) = self.random.pick(&old).clone();
            let gateway = match [CARD, WALLET, EXTERNAL, ROUTER].into_iter().find(|it| *it == own) {
                Some(own) if self.random.chance(800) => own,
                Some(_) | None => gateway,
            };
            return Some(Means::Named { key: Some(key), gateway });
        }
        let key = self.key("m", vec![], 0);
        Some(Means::Named { key, gateway })
    }
}
