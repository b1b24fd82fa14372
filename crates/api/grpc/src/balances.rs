//! `BalanceService`: an account's balances in the ledger.

use std::sync::Arc;

use domain::AccountId;
use engine::ports::LedgerTotal;
use tonic::{Request, Response, Status};

use crate::api::balance_service_server::BalanceService;
use crate::api::{Balance, GetBalanceRequest, GetBalanceResponse};
use crate::call::{Call, ServiceContext};
use crate::fields;
use crate::refusal::{Refusal, Resource};

pub(crate) struct Balances {
    context: Arc<ServiceContext>,
}

impl Balances {
    pub(crate) const fn new(context: Arc<ServiceContext>) -> Self {
        Self { context }
    }
}

#[tonic::async_trait]
impl BalanceService for Balances {
    async fn get_balance(
        &self,
        request: Request<GetBalanceRequest>,
    ) -> Result<Response<GetBalanceResponse>, Status> {
        let (call, it) = Call::of(&self.context, request)?;
        let account: AccountId = fields::id("account_id", &it.account_id)?;
        let work = call.simulated_work()?;
        let found = self.context.engine.balance(call.tenant(), account, work).await;
        let found = found.map_err(Refusal::from)?;
        let name = it.account_id;
        let totals = found.ok_or(Refusal::NotFound { what: Resource::Account, name })?;
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
    fn a_sum_above_64_bits_is_refused() {
        let total = |debit, credit| LedgerTotal {
            account: domain::ledger::LedgerAccount::Customer,
            gateway: String::new(),
            currency: domain::Currency::parse("USD").unwrap(),
            debit,
            credit,
        };
        assert_eq!(balance(&total(3, 5)).unwrap().balance_minor_units, -2);
        let refusal = balance(&total(i128::from(i64::MAX) + 1, 0)).unwrap_err();
        assert_eq!(refusal.to_string(), "the balance in USD does not fit 64 bits");
    }
}
