//! `BalanceService`: what an account adds up to in the ledger.

use std::sync::Arc;

use domain::AccountId;
use engine::ports::LedgerTotal;
use tonic::{Request, Response, Status};

use crate::api::balance_service_server::BalanceService;
use crate::api::{Balance, GetBalanceRequest, GetBalanceResponse};
use crate::call::Call;
use crate::fields;
use crate::gate::Core;
use crate::refusal::{Refusal, Thing};

/// The service.
pub(crate) struct Balances {
    core: Arc<Core>,
}

impl Balances {
    pub(crate) const fn new(core: Arc<Core>) -> Self {
        Self { core }
    }
}

#[tonic::async_trait]
impl BalanceService for Balances {
    async fn get_balance(
        &self,
        request: Request<GetBalanceRequest>,
    ) -> Result<Response<GetBalanceResponse>, Status> {
        let (call, it) = Call::of(&self.core, request)?;
        let account: AccountId = fields::id("account_id", &it.account_id)?;
        let work = call.simulated_work()?;
        let found = self.core.engine.balance(call.tenant(), account, work).await;
        let found = found.map_err(Refusal::from)?;
        let name = it.account_id;
        let totals = found.ok_or(Refusal::NotFound { what: Thing::Account, name })?;
        let balances = totals.iter().map(balance).collect::<Result<_, _>>()?;
        Ok(Response::new(GetBalanceResponse { account_id: account.to_string(), balances }))
    }
}

fn balance(total: &LedgerTotal) -> Result<Balance, Refusal> {
    let narrow =
        |sum: i128| i64::try_from(sum).map_err(|_| Refusal::BalanceTooLarge(total.currency));
    Ok(Balance {
        currency_code: total.currency.to_string(),
        debit_minor_units: narrow(total.debit)?,
        credit_minor_units: narrow(total.credit)?,
        balance_minor_units: narrow(total.debit - total.credit)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_beyond_64_bits_is_refused_and_not_cut() {
        let total = |debit, credit| LedgerTotal {
            account: domain::ledger::LedgerAccount::Customer,
            gateway: String::new(),
            currency: domain::Currency::parse("USD").unwrap(),
            debit,
            credit,
        };
        assert_eq!(balance(&total(3, 5)).unwrap().balance_minor_units, -2);
        assert!(balance(&total(i128::from(i64::MAX) + 1, 0)).is_err());
    }
}
