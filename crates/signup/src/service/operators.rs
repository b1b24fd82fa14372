//! What operators ask about customers: it is done in the operator's name, not the customer's.

use domain::TenantNo;
use domain::customer::{Customer, CustomerCommand, EraseCustomer, NewSecondFactor, UpdateCustomer};
use domain::payment::Actor;
use engine::ports::Page;

use super::{Asked, Error, SignUp, actor};

impl SignUp {
    /// A tenant's customers, oldest first, those that are forgotten too.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn customers(&self, tenant: TenantNo, page: Page) -> Result<Vec<Customer>, Error> {
        Ok(self.read(move |queries| queries.customers(tenant, page)).await?)
    }

    /// Lets a customer log in, or does not; their sessions end where they may not.
    ///
    /// # Errors
    /// [`Error::Refused`] where they are forgotten.
    pub async fn set_active(
        &self,
        asked: &Asked,
        operator: &str,
        customer: &Customer,
        is_active: bool,
    ) -> Result<(), Error> {
        let update = UpdateCustomer {
            is_active: Some(is_active),
            ..UpdateCustomer::of(customer.reference())
        };
        let command = CustomerCommand::Update(Box::new(update));
        self.submit_as(asked, named(asked, operator), command, None).await.map(drop)
    }

    /// Takes the second factor of a customer away who has lost it, with its recovery codes.
    ///
    /// # Errors
    /// [`Error::Refused`] where they are forgotten.
    pub async fn remove_second_factor_for(
        &self,
        asked: &Asked,
        operator: &str,
        customer: &Customer,
    ) -> Result<(), Error> {
        let second_factor = Some(NewSecondFactor::Removed);
        let update = UpdateCustomer { second_factor, ..UpdateCustomer::of(customer.reference()) };
        let command = CustomerCommand::Update(Box::new(update));
        self.submit_as(asked, named(asked, operator), command, None).await.map(drop)
    }

    /// Forgets a customer.
    ///
    /// # Errors
    /// [`Error::Refused`] where they are forgotten already.
    pub async fn erase_for(
        &self,
        asked: &Asked,
        operator: &str,
        customer: &Customer,
    ) -> Result<(), Error> {
        let customer = customer.reference();
        let command = CustomerCommand::Erase(EraseCustomer { customer, if_expired: false });
        self.submit_as(asked, named(asked, operator), command, None).await.map(drop)
    }
}

fn named(asked: &Asked, operator: &str) -> Actor {
    Actor { user: operator.to_owned(), ..actor(asked, None) }
}
