//! Reading, changing and erasing a customer.

use domain::account::Person;
use domain::command::CustomerCommand;
use domain::customer::{Customer, CustomerRejection, EraseCustomer, Session, UpdateCustomer};
use domain::{CustomerId, SessionId, TenantNo, Timestamp};
use engine::ports::AccountView;
use engine::{Reason, Unavailable};

use super::{AuthenticatedCustomer, Error, RequestContext, SignUp};
use crate::preferences::Preferences;
use crate::{Invalid, profile};

/// How often a change of preferences is merged again because of concurrent changes.
const MERGES_MAX: usize = 32;

/// A change that is not validated yet; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct ProfileChange {
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    pub phone: Option<String>,
    pub company: Option<String>,
    pub country: Option<String>,
    /// Changed preferences; an empty object changes nothing.
    pub preferences: Preferences,
    /// Whether the customer may log in.
    pub is_active: Option<bool>,
}

/// A session, as its customer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    pub id: SessionId,
    pub created_at: Timestamp,
    /// When its tokens were last renewed.
    pub renewed_at: Timestamp,
    /// When its access token expires.
    pub expires_at: Timestamp,
    /// Whether it is the session of the request.
    pub is_current: bool,
}

impl SignUp {
    /// A customer who is not erased.
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

    /// The account of a customer.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn account_of(&self, customer: &Customer) -> Result<Option<AccountView>, Error> {
        let (tenant, account) = (customer.tenant, customer.account);
        Ok(self.read(move |queries| queries.account(tenant, account)).await?)
    }

    /// The customer's current sessions, oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn sessions(
        &self,
        caller: &AuthenticatedCustomer,
    ) -> Result<Vec<SessionView>, Error> {
        let (tenant, id) = (caller.tenant, caller.customer.id);
        let file = self.read(move |queries| queries.customer_file(tenant, id)).await?;
        let now = self.engine().clock().now();
        let shown = |it: &Session| SessionView {
            id: it.id,
            created_at: it.created_at,
            renewed_at: it.renewed_at,
            expires_at: it.expires_at,
            is_current: it.id == caller.session.id,
        };
        let sessions = file.map(|file| file.sessions).unwrap_or_default();
        Ok(sessions.iter().filter(|it| it.refresh_until > now).map(shown).collect())
    }

    /// Changes a customer. Concurrent changes of preferences are merged by name.
    ///
    /// # Errors
    /// [`Error::Fields`]; [`Reason::QueueFull`] where concurrent changes won too often;
    /// [`Reason::Bug`] where the stored preferences cannot be read.
    pub async fn change(
        &self,
        context: &RequestContext,
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
            match self.submit(context, command).await {
                Err(Error::Refused(CustomerRejection::PreferencesChanged)) => {}
                done => return done.map(drop),
            }
            let known = self.customer(customer.tenant, customer.id).await?;
            let known = known.ok_or(Error::Refused(CustomerRejection::NotFound))?;
            merge(&known, &change.preferences, &mut update)?;
        }
        Err(Unavailable::from(Reason::QueueFull).into())
    }

    /// Verifies a customer's password, and a code where there is a second factor, and erases them.
    ///
    /// # Errors
    /// As [`SignUp::offer_second_factor`] and [`SignUp::erase`].
    pub async fn erase_confirmed(
        &self,
        context: &RequestContext,
        customer: &Customer,
        (password, code): (&str, Option<&str>),
    ) -> Result<(), Error> {
        self.check_password(context, customer, password).await?;
        self.proved_code(context, customer, code)?;
        self.erase(context, customer).await
    }

    /// Erases a customer.
    ///
    /// # Errors
    /// [`Error::Refused`] where the customer is erased already.
    pub async fn erase(&self, context: &RequestContext, customer: &Customer) -> Result<(), Error> {
        let customer = customer.reference();
        let command = CustomerCommand::Erase(EraseCustomer { customer, if_expired: false });
        self.submit(context, command).await.map(drop)
    }
}

/// Merges changed preferences into the stored ones for the update.
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
        // Unreadable preferences are not overwritten, so that an operator can repair them.
        tracing::error!(customer = %customer.id, "stored preferences are not an object; the change is refused");
        Unavailable::from(Reason::Bug)
    })?;
    update.preferences = Some(known.merged(change).text()?);
    update.preferences_before = Some(stored.clone());
    Ok(())
}
