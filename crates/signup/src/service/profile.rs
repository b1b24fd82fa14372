//! What a customer may see and change of themselves, and how they are forgotten.

use domain::account::Person;
use domain::customer::{
    Customer, CustomerCommand, CustomerRefusal, EraseCustomer, Session, UpdateCustomer,
};
use domain::{CustomerId, SessionId, TenantNo, Timestamp};
use engine::ports::AccountView;
use engine::{Reason, Unavailable};

use super::{Asked, Error, SignUp, Who};
use crate::preferences::Preferences;
use crate::{Invalid, profile};

/// How often preferences are made of those that are there, which somebody else may change meanwhile.
const MERGES_MAX: usize = 32;

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
    /// What changes of their preferences; an object without names changes nothing.
    pub preferences: Preferences,
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

    /// Changes a customer. Of preferences that several change at once, each has what they named.
    ///
    /// # Errors
    /// [`Error::Fields`]; [`Reason::QueueFull`] where others were faster too often; [`Reason::Bug`]
    /// where the preferences that are stored cannot be read.
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
        let mut keep = |it: Option<Result<String, Invalid>>| {
            it.and_then(|it| it.map_err(|it| wrong.push(it)).ok())
        };
        let (first_name, last_name, phone) = (keep(first_name), keep(last_name), keep(phone));
        if !wrong.is_empty() {
            return Err(Error::Fields(wrong));
        }
        let person =
            Person { phone, company: change.company, country: change.country, ..Person::default() };
        let mut update = UpdateCustomer {
            first_name,
            last_name,
            person,
            is_active: change.is_active,
            ..UpdateCustomer::of(customer.reference())
        };
        merge(customer, &change.preferences, &mut update)?;
        for _ in 0..MERGES_MAX {
            let command = CustomerCommand::Update(Box::new(update.clone()));
            match self.submit(asked, command).await {
                Err(Error::Refused(CustomerRefusal::PreferencesChanged)) => {}
                done => return done.map(drop),
            }
            let known = self.customer(customer.tenant, customer.id).await?;
            let known = known.ok_or(Error::Refused(CustomerRefusal::NotFound))?;
            merge(&known, &change.preferences, &mut update)?;
        }
        Err(Unavailable::from(Reason::QueueFull).into())
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

/// Puts what changes of a customer's preferences into the update, upon those that are there.
fn merge(
    customer: &Customer,
    change: &Preferences,
    update: &mut UpdateCustomer,
) -> Result<(), Error> {
    if change.is_empty() {
        return Ok(());
    }
    let stored = &customer.profile.preferences;
    let known = Preferences::read(stored).map_err(|_| {
        // Nothing of them is overwritten: an operator may still make sense of it.
        tracing::error!(customer = %customer.id, "stored preferences are no object");
        Unavailable::from(Reason::Bug)
    })?;
    update.preferences = Some(known.merged(change).text()?);
    update.preferences_before = Some(stored.clone());
    Ok(())
}
