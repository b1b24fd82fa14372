//! What a customer may see and change of themselves, and how they are forgotten.

use domain::account::Person;
use domain::customer::{Customer, CustomerCommand, EraseCustomer, Session, UpdateCustomer};
use domain::{CustomerId, SessionId, TenantNo, Timestamp};
use engine::ports::AccountView;

use super::{Asked, Error, SignUp, Who};
use crate::profile;

/// What is to be changed: what is `None` stays. Nothing of it is checked.
#[derive(Clone, Debug, Default)]
pub struct ProfileChange {
    /// First name.
    pub first_name: Option<String>,
    /// Last name.
    pub last_name: Option<String>,
    /// Phone.
    pub phone: Option<String>,
    /// Company.
    pub company: Option<String>,
    /// Country.
    pub country: Option<String>,
    /// The customer's preferences, as the door keeps them.
    pub preferences: Option<String>,
    /// Whether they may log in.
    pub is_active: Option<bool>,
}

/// A session, as its customer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionShown {
    /// Its id.
    pub id: SessionId,
    /// When it began.
    pub created_at: Timestamp,
    /// When its tokens were last renewed.
    pub renewed_at: Timestamp,
    /// When its access token ends.
    pub expires_at: Timestamp,
    /// Whether it is the one that asks.
    pub is_current: bool,
}

impl SignUp {
    /// A customer by id.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn customer(
        &self,
        tenant: TenantNo,
        id: CustomerId,
    ) -> Result<Option<Customer>, Error> {
        let found = self.read(move |queries| queries.customer(tenant, id)).await?;
        Ok(found.filter(|it| !it.profile.email.is_empty()))
    }

    /// What a customer's account says.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn account_of(&self, customer: &Customer) -> Result<Option<AccountView>, Error> {
        let (tenant, account) = (customer.tenant, customer.account);
        Ok(self.read(move |queries| queries.account(tenant, account)).await?)
    }

    /// The customer's sessions that have not ended, oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn sessions(&self, who: &Who) -> Result<Vec<SessionShown>, Error> {
        let (tenant, id) = (who.tenant, who.customer.id);
        let file = self.read(move |queries| queries.customer_file(tenant, id)).await?;
        let now = self.engine().clock().now();
        let shown = |it: &Session| SessionShown {
            id: it.id,
            created_at: it.created_at,
            renewed_at: it.renewed_at,
            expires_at: it.expires_at,
            is_current: it.id == who.session.id,
        };
        let sessions = file.map(|file| file.sessions).unwrap_or_default();
        Ok(sessions.iter().filter(|it| it.refresh_until > now).map(shown).collect())
    }

    /// Changes a customer.
    ///
    /// # Errors
    /// [`Error::Fields`].
    pub async fn change(
        &self,
        asked: &Asked,
        customer: &Customer,
        change: ProfileChange,
    ) -> Result<(), Error> {
        let mut wrong = vec![];
        let first_name = change.first_name.map(|it| profile::first_name(&it));
        let last_name = change.last_name.map(|it| profile::last_name(&it));
        let phone = change.phone.map(|it| profile::phone(&it).map(str::to_owned));
        let mut keep = |it: Option<Result<String, crate::Invalid>>| {
            it.and_then(|it| it.map_err(|it| wrong.push(it)).ok())
        };
        let (first_name, last_name, phone) = (keep(first_name), keep(last_name), keep(phone));
        if !wrong.is_empty() {
            return Err(Error::Fields(wrong));
        }
        let person =
            Person { phone, company: change.company, country: change.country, ..Person::default() };
        let command = CustomerCommand::Update(Box::new(UpdateCustomer {
            customer: customer.reference(),
            first_name,
            last_name,
            preferences: change.preferences,
            person,
            is_active: change.is_active,
            second_factor: None,
        }));
        self.submit(asked, command).await.map(drop)
    }

    /// Forgets a customer.
    ///
    /// # Errors
    /// [`Error::Refused`] where they are forgotten already.
    pub async fn erase(&self, asked: &Asked, customer: &Customer) -> Result<(), Error> {
        let customer = customer.reference();
        let command = CustomerCommand::Erase(EraseCustomer { customer, if_expired: false });
        self.submit(asked, command).await.map(drop)
    }
}
