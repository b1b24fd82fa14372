//! Registering: creates a customer with an account in one commit.

use domain::account::Person;
use domain::command::CustomerCommand;
use domain::customer::{
    CustomerRef, CustomerRejection, CustomerReply, Profile, Register, Taken, Verification,
};
use domain::{Currency, OperationId, Reply};
use serde::{Deserialize, Serialize};

use super::metrics::{AccountCall, RegistrationTimer};
use super::{Error, RequestContext, SignUp, micros};
use crate::email::EmailAddress;
use crate::limits::Action;
use crate::{Invalid, password_policy, profile};

/// A registration that is not validated yet.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct RegistrationForm {
    pub email: String,
    pub password: String,
    pub first_name: String,
    pub last_name: String,
    pub phone: Option<String>,
    pub company: Option<String>,
    pub country: Option<String>,
    /// A name of the IANA database.
    pub time_zone: Option<String>,
    pub language: Option<String>,
    /// The customer's preferences as JSON text.
    pub preferences: String,
}

/// A validated registration.
pub struct NewCustomer {
    email: EmailAddress,
    password: String,
    profile: Profile,
    person: Person,
}

impl NewCustomer {
    #[must_use]
    pub const fn email(&self) -> &EmailAddress {
        &self.email
    }
}

/// The result of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// `None` where the address has a customer already, who is notified by mail.
    pub customer: Option<CustomerRef>,
    pub email: String,
    pub first_name: String,
    pub last_name: String,
}

/// Options of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationOptions {
    /// The handling of an address that has a customer.
    pub taken: Taken,
    /// The operation that the registration ends.
    pub operation: Option<OperationId>,
    /// Whether it is a probe: it mails nothing, is not counted, and its address needs no
    /// verification.
    pub is_probe: bool,
}

impl RegistrationOptions {
    /// Discloses whether an address has a customer.
    pub const OPEN: Self = Self { taken: Taken::Refuse, operation: None, is_probe: false };
    /// Does not disclose it.
    pub const DISCREET: Self = Self { taken: Taken::NotifyByMail, ..Self::OPEN };
}

/// Validates a registration.
///
/// # Errors
/// All broken rules.
pub fn validate_registration(form: &RegistrationForm) -> Result<NewCustomer, Vec<Invalid>> {
    let mut wrong = vec![];
    let mut keep =
        |it: Result<String, Invalid>| it.map_err(|it| wrong.push(it)).unwrap_or_default();
    let first_name = keep(profile::first_name(&form.first_name));
    let last_name = keep(profile::last_name(&form.last_name));
    let password = keep(password_policy::check(&form.password).map(|()| form.password.clone()));
    let phone = form.phone.as_deref().map(|it| keep(profile::phone(it).map(str::to_owned)));
    if let Some(zone) = &form.time_zone {
        keep(profile::time_zone(zone));
    }
    let email = EmailAddress::parse(form.email.trim());
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
        preferences: form.preferences.clone(),
    };
    let person = Person {
        phone,
        company: form.company.clone(),
        country: form.country.clone(),
        locale: form.language.clone(),
        ..Person::default()
    };
    Ok(NewCustomer { email, password, profile, person })
}

/// The route of idempotency keys: a response that discloses customers is not repeated to a request
/// that must not disclose them, nor the other way round.
const fn route(taken: Taken) -> &'static str {
    match taken {
        Taken::Refuse => "register",
        Taken::NotifyByMail | Taken::Silent => "register-discreet",
    }
}

impl SignUp {
    /// Registers a customer.
    ///
    /// # Errors
    /// [`Error::Busy`] at once where the password would wait too long to be hashed;
    /// [`CustomerRejection::EmailTaken`] where the address has a customer, if `options` disclose it;
    /// [`Error::TooManyRequests`], except for probes and stored registrations.
    pub async fn register(
        &self,
        context: &RequestContext,
        new: NewCustomer,
        options: RegistrationOptions,
    ) -> Result<Registered, Error> {
        let counted = (!options.is_probe).then(RegistrationTimer::start);
        let done = self.register_uncounted(context, new, options).await;
        if let Some(counted) = counted {
            counted.end(&done);
        }
        done
    }

    async fn register_uncounted(
        &self,
        context: &RequestContext,
        new: NewCustomer,
        options: RegistrationOptions,
    ) -> Result<Registered, Error> {
        let NewCustomer { email, password, profile, person } = new;
        let mut taken = options.taken;
        if !options.is_probe && options.operation.is_none() {
            self.limit(context, Action::Register, Some(&email))?;
            taken = self.limit_notices(context, &email, taken);
        }
        // No password is hashed for a taken address. The domain recognizes a repeated request by
        // its key and repeats its answer; it refuses any other request without a hash.
        let password_hash =
            match options.taken == Taken::Refuse && self.is_taken(context, &email).await? {
                true if context.idempotency_key.is_none() => {
                    return Err(CustomerRejection::EmailTaken.into());
                }
                true => String::new(),
                false => self.inner.hasher.hash(password).await?.into_string(),
            };
        let route = (route(options.taken), &*profile.email_key);
        let fields = [&*profile.first_name, &profile.last_name];
        let idempotency = self.idempotency(context, route, &fields);
        let verification = match options.is_probe {
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
            operation: options.operation,
        }));
        let account = (!options.is_probe).then(AccountCall::of_registration);
        let reply = self.submit_repeatable(context, command, idempotency).await;
        if let Some(account) = account {
            account.end(reply.as_ref().is_err_and(Error::is_server_error));
        }
        let reply = reply?;
        let customer = if let Reply::Customer(CustomerReply::Registered(customer)) = reply {
            Some(customer)
        } else {
            None
        };
        Ok(Registered { customer, email, first_name, last_name })
    }

    /// Counts a registration that notifies the owner of a taken address, and suppresses the notice
    /// above the limit. It is counted and committed whether the address is taken or not, so that
    /// the result does not reveal it; a free address is registered in any case.
    pub(crate) fn limit_notices(
        &self,
        context: &RequestContext,
        email: &EmailAddress,
        taken: Taken,
    ) -> Taken {
        match taken {
            Taken::NotifyByMail
                if self.limit(context, Action::NotifyOwner, Some(email)).is_err() =>
            {
                Taken::Silent
            }
            Taken::Refuse | Taken::NotifyByMail | Taken::Silent => taken,
        }
    }

    async fn is_taken(
        &self,
        context: &RequestContext,
        email: &EmailAddress,
    ) -> Result<bool, Error> {
        let (tenant, key) = (context.tenant, email.folded().to_owned());
        Ok(self.read(move |queries| queries.is_email_taken(tenant, &key)).await?)
    }
}
