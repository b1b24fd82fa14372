//! Calls of operators about customers, in the operator's name.

use domain::TenantNo;
use domain::command::CustomerCommand;
use domain::customer::{Customer, EraseCustomer, NewSecondFactor, UpdateCustomer};
use domain::payment::Actor;
use engine::ports::{Page, Queries};

use super::{Error, RequestContext, SignUp, actor};

impl SignUp {
    /// A tenant's customers, oldest first, including erased ones.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn customers(&self, tenant: TenantNo, page: Page) -> Result<Vec<Customer>, Error> {
        let read = move |queries: &dyn Queries| queries.customers(tenant, page);
        Ok(self.engine().read_page((tenant, page), read).await?)
    }

    /// Allows a customer to log in, or ends their sessions and forbids it.
    ///
    /// # Errors
    /// [`Error::Refused`] where the customer is erased.
    pub async fn set_active(
        &self,
        context: &RequestContext,
        operator: &str,
        customer: &Customer,
        is_active: bool,
    ) -> Result<(), Error> {
        let update = UpdateCustomer {
            is_active: Some(is_active),
            ..UpdateCustomer::of(customer.reference())
        };
        self.submit_for(context, operator, CustomerCommand::Update(Box::new(update))).await
    }

    /// Removes the second factor and the recovery codes of a customer who has lost them.
    ///
    /// # Errors
    /// [`Error::Refused`] where the customer is erased.
    pub async fn remove_second_factor_for(
        &self,
        context: &RequestContext,
        operator: &str,
        customer: &Customer,
    ) -> Result<(), Error> {
        let second_factor = Some(NewSecondFactor::Removed);
        let update = UpdateCustomer { second_factor, ..UpdateCustomer::of(customer.reference()) };
        self.submit_for(context, operator, CustomerCommand::Update(Box::new(update))).await
    }

    /// Erases a customer.
    ///
    /// # Errors
    /// [`Error::Refused`] where the customer is erased already.
    pub async fn erase_for(
        &self,
        context: &RequestContext,
        operator: &str,
        customer: &Customer,
    ) -> Result<(), Error> {
        let customer = customer.reference();
        let command = CustomerCommand::Erase(EraseCustomer { customer, if_expired: false });
        self.submit_for(context, operator, command).await
    }

    /// Submits a command in an operator's name.
    async fn submit_for(
        &self,
        context: &RequestContext,
        operator: &str,
        command: CustomerCommand,
    ) -> Result<(), Error> {
        let actor = Actor { user: operator.to_owned(), ..actor(context, None) };
        self.submit_as(context, actor, command, None).await.map(drop)
    }
}
