//! The model of combo payments: the account, the payment method and the payment are all made, or none is.

use super::paying::field;
use super::{Expected, Model, Moment, Tenant};
use crate::ask::{Combo, Created, Means, Payer, Reason, Said, Start, Uid};

impl Model {
    pub(super) fn combo(
        &mut self,
        (tenant_no, it): (u32, &Combo),
        moment: Moment,
        created: Created,
    ) -> Expected {
        let before = self.tenant(tenant_no).clone();
        let expected = match self.tenant(tenant_no).prepare(it, (moment.0.domain, created)) {
            Ok((account, method)) => {
                let start = Start { account, method, ..it.start.clone() };
                self.start((tenant_no, &start), moment, created)
            }
            Err(refused) => refused,
        };
        if matches!(expected, Expected::Refused(_)) {
            *self.tenant(tenant_no) = before;
        }
        expected
    }
}

impl Tenant {
    /// The account and the payment method, made where they are new.
    fn prepare(
        &mut self,
        it: &Combo,
        (made_at, created): (i64, Created),
    ) -> Result<(Uid, Option<Uid>), Expected> {
        let account = match &it.payer {
            Payer::Known { account, currency } => {
                let known = self.accounts.get(account);
                let known = known.ok_or_else(|| Expected::refused(Reason::NoAccount))?;
                if currency.is_some() && known.currency.is_some() && *currency != known.currency {
                    return Err(Expected::refused(field("account.currency")));
                }
                *account
            }
            Payer::New { key, currency } => {
                made(self.new_account(key.as_ref(), *currency, created))?
            }
        };
        let method = match &it.means {
            None => None,
            Some(Means::Known(method)) => match self.method_is_wrong(account, Some(*method)) {
                Some(reason) => return Err(Expected::refused(reason)),
                None => Some(*method),
            },
            Some(Means::Named { key, gateway }) => {
                Some(self.named_method(account, (key.as_ref(), gateway), (made_at, created))?)
            }
        };
        Ok((account, method))
    }

    fn named_method(
        &mut self,
        account: Uid,
        (key, gateway): (Option<&String>, &'static str),
        (made_at, created): (i64, Created),
    ) -> Result<Uid, Expected> {
        let mut methods = self.methods.iter();
        let own = methods.find(|(_, it)| {
            key.is_some() && it.key.as_ref() == key && it.account == account && it.active
        });
        match own {
            Some((_, it)) if it.gateway != gateway => {
                Err(Expected::refused(field("paymentMethod.pluginName")))
            }
            Some((id, _)) => Ok(*id),
            None => {
                let is_first = self.accounts[&account].default.is_none();
                made(self.new_method(account, key, (gateway, is_first), (made_at, created)))
            }
        }
    }
}

fn made(expected: Expected) -> Result<Uid, Expected> {
    match expected {
        Expected::Said(Said::Made(id)) => Ok(id),
        refused @ (Expected::Refused(_) | Expected::Said(_)) => Err(refused),
    }
}
