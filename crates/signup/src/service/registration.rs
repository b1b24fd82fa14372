//! Registering: what was entered becomes a customer with an account, in one commit.

use domain::account::Person;
use domain::customer::{
    CustomerCommand, CustomerRef, CustomerRefusal, CustomerReply, Profile, Register, Taken,
    Verification,
};
use domain::{Currency, OperationId, Reply};

use super::figures::{AccountAsked, Registering};
use super::{Asked, Error, SignUp, micros};
use crate::email::EmailAddress;
use crate::limits::Action;
use crate::{Invalid, password_policy, profile};

/// What somebody entered to register; nothing of it is checked.
#[derive(Clone, Default)]
pub struct Entered {
    /// E-mail address.
    pub email: String,
    /// Password.
    pub password: String,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// Phone.
    pub phone: Option<String>,
    /// Company.
    pub company: Option<String>,
    /// Country.
    pub country: Option<String>,
    /// IANA time zone.
    pub time_zone: Option<String>,
    /// Language.
    pub language: Option<String>,
    /// The customer's preferences, as the door keeps them.
    pub preferences: String,
}

/// Somebody to register: every field keeps its rule, and the password may be.
pub struct NewCustomer {
    email: EmailAddress,
    password: String,
    profile: Profile,
    person: Person,
}

impl NewCustomer {
    /// Their address.
    #[must_use]
    pub const fn email(&self) -> &EmailAddress {
        &self.email
    }
}

/// Somebody who is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Who; `None` where the address has a customer already, who is told by mail.
    pub customer: Option<CustomerRef>,
    /// Their address.
    pub email: String,
    /// Their first name.
    pub first_name: String,
    /// Their last name.
    pub last_name: String,
}

/// How somebody is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Whether the answer may tell that an address has a customer.
    pub taken: Taken,
    /// The operation that this ends.
    pub operation: Option<OperationId>,
    /// Whether it is a probe: nothing is mailed or counted, and the address needs no verification.
    pub is_probe: bool,
}

impl How {
    /// By a door that tells whether an address has a customer.
    pub const OPENLY: Self = Self { taken: Taken::Refuse, operation: None, is_probe: false };
    /// By a door that does not.
    pub const DISCREETLY: Self = Self { taken: Taken::TellByMail, ..Self::OPENLY };
}

/// Checks what somebody entered.
///
/// # Errors
/// Every field that breaks its rule.
pub fn registration(entered: &Entered) -> Result<NewCustomer, Vec<Invalid>> {
    let mut wrong = vec![];
    let mut keep =
        |it: Result<String, Invalid>| it.map_err(|it| wrong.push(it)).unwrap_or_default();
    let first_name = keep(profile::first_name(&entered.first_name));
    let last_name = keep(profile::last_name(&entered.last_name));
    let password =
        keep(password_policy::check(&entered.password).map(|()| entered.password.clone()));
    let phone = entered.phone.as_deref().map(|it| keep(profile::phone(it).map(str::to_owned)));
    if let Some(zone) = &entered.time_zone {
        keep(profile::time_zone(zone));
    }
    let email = EmailAddress::parse(entered.email.trim());
    let email = match email {
        Ok(email) if wrong.is_empty() => email,
        Ok(_) => return Err(wrong),
        Err(invalid) => {
            wrong.push(invalid);
            return Err(wrong);
        }
    };
    let profile = Profile {
        email: email.shown().to_owned(),
        email_key: email.folded().to_owned(),
        first_name,
        last_name,
        preferences: entered.preferences.clone(),
    };
    let person = Person {
        phone,
        company: entered.company.clone(),
        country: entered.country.clone(),
        locale: entered.language.clone(),
        ..Person::default()
    };
    Ok(NewCustomer { email, password, profile, person })
}

/// Where an idempotency key is of: an answer that tells is not given again by a door that does not,
/// nor the other way round.
const fn route(taken: Taken) -> &'static str {
    match taken {
        Taken::Refuse => "register",
        Taken::TellByMail | Taken::TellNobody => "register-discreet",
    }
}

impl SignUp {
    /// Registers somebody.
    ///
    /// # Errors
    /// [`Error::Busy`] at once where the password would wait too long to be hashed;
    /// [`CustomerRefusal::EmailTaken`] where the address has a customer, if `how` may tell;
    /// [`Error::TooMany`], but for a probe and for what was accepted before.
    pub async fn register(
        &self,
        asked: &Asked,
        new: NewCustomer,
        how: How,
    ) -> Result<Registered, Error> {
        let counted = (!how.is_probe).then(Registering::begin);
        let done = self.register_uncounted(asked, new, how).await;
        if let Some(counted) = counted {
            counted.end(&done);
        }
        done
    }

    async fn register_uncounted(
        &self,
        asked: &Asked,
        new: NewCustomer,
        how: How,
    ) -> Result<Registered, Error> {
        let NewCustomer { email, password, profile, person } = new;
        let mut taken = how.taken;
        if !how.is_probe && how.operation.is_none() {
            self.limit(asked, Action::Register, Some(&email))?;
            taken = self.within_mails(asked, &email, taken);
        }
        // Nobody waits for a hash to be told that an address has a customer. A repetition is answered
        // as the first one was: the core knows it by its key, and refuses whom nothing was hashed for.
        let password_hash = match how.taken == Taken::Refuse && self.is_taken(asked, &email).await?
        {
            true if asked.idempotency_key.is_none() => {
                return Err(CustomerRefusal::EmailTaken.into());
            }
            true => String::new(),
            false => self.inner.hasher.hash(password).await?.into_string(),
        };
        let says = [&*profile.email, &profile.first_name, &profile.last_name];
        let idempotency = self.idempotency(asked, route(how.taken), &says);
        let verification = match how.is_probe {
            true => Verification::Given,
            false => Verification::Mailed { within_us: micros(self.settings().verify_within) },
        };
        let (email, first_name) = (profile.email.clone(), profile.first_name.clone());
        let last_name = profile.last_name.clone();
        let command = CustomerCommand::Register(Box::new(Register {
            profile,
            person,
            currency: Currency::parse(&self.settings().currency),
            password_hash,
            taken,
            verification,
            operation: how.operation,
        }));
        let account = (!how.is_probe).then(AccountAsked::by_registration);
        let reply = self.submit_repeatable(asked, command, idempotency).await;
        if let Some(account) = account {
            account.end(reply.as_ref().is_err_and(Error::is_ours));
        }
        let reply = reply?;
        let customer = if let Reply::Customer(CustomerReply::Registered(customer)) = reply {
            Some(customer)
        } else {
            None
        };
        Ok(Registered { customer, email, first_name, last_name })
    }

    /// Counts a registration whose address is told of it where it has a customer, and says whether
    /// they still are. It is counted whoever has the address, and what is over the limit is committed
    /// like all else, so that no answer tells; an address that is free is registered in any case.
    pub(crate) fn within_mails(&self, asked: &Asked, email: &EmailAddress, taken: Taken) -> Taken {
        match taken {
            Taken::TellByMail if self.limit(asked, Action::TellOwner, Some(email)).is_err() => {
                Taken::TellNobody
            }
            Taken::Refuse | Taken::TellByMail | Taken::TellNobody => taken,
        }
    }

    async fn is_taken(&self, asked: &Asked, email: &EmailAddress) -> Result<bool, Error> {
        let (tenant, key) = (asked.tenant, email.folded().to_owned());
        Ok(self.read(move |queries| queries.is_email_taken(tenant, &key)).await?)
    }
}
