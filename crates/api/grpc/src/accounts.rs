//! `AccountService`: accounts and their payment methods.

use std::sync::Arc;

use domain::account::payment_method::CreatePaymentMethod;
use domain::account::{CreateAccount, Person};
use domain::command::AccountCommand;
use domain::reply::AccountReply;
use domain::{AccountId, Command, Reply};
use engine::ports::AccountView;
use tonic::{Request, Response, Status};

use crate::api::account_service_server::AccountService;
use crate::api::{
    self, Account, AccountServiceCreateRequest, AccountServiceCreateResponse,
    AccountServiceGetByKeyRequest, AccountServiceGetByKeyResponse, AccountServiceGetRequest,
    AccountServiceGetResponse, AddPaymentMethodRequest, AddPaymentMethodResponse,
};
use crate::call::{Call, ServiceContext};
use crate::refusal::{Refusal, Resource};
use crate::{fields, view};

/// The longest texts of a person, in characters.
const NAME_CHARS_MAX: usize = 100;
const EMAIL_CHARS_MAX: usize = 128;
const LOCALE_CHARS_MAX: usize = 5;
const ADDRESS_CHARS_MAX: usize = 255;
const SHORT_CHARS_MAX: usize = 50;

/// The longest name of a gateway, and reference at a gateway, in characters.
const GATEWAY_CHARS_MAX: usize = 255;

pub(crate) struct Accounts {
    context: Arc<ServiceContext>,
}

impl Accounts {
    pub(crate) const fn new(context: Arc<ServiceContext>) -> Self {
        Self { context }
    }
}

#[tonic::async_trait]
impl AccountService for Accounts {
    async fn create(
        &self,
        request: Request<AccountServiceCreateRequest>,
    ) -> Result<Response<AccountServiceCreateResponse>, Status> {
        let (call, it, idempotency) =
            Call::of_write(&self.context, request, ("Create", "account:create"))?;
        let new = create(&call, it)?;
        call.check_currency("currency_code", new.currency)?;
        let command = Command::Account(AccountCommand::Create(Box::new(new)));
        let Reply::Account(AccountReply::Created(id)) = call.submit(command, idempotency).await?
        else {
            unreachable!("the reply belongs to the command")
        };
        Ok(Response::new(AccountServiceCreateResponse { account_id: id.to_string() }))
    }

    async fn get(
        &self,
        request: Request<AccountServiceGetRequest>,
    ) -> Result<Response<AccountServiceGetResponse>, Status> {
        let (call, it) = Call::of(&self.context, request)?;
        let (id, tenant): (AccountId, _) =
            (fields::id("account_id", &it.account_id)?, call.tenant());
        let found = call.read(move |queries| queries.account(tenant, id)).await?;
        let account = Some(found_or_refused(found, it.account_id)?);
        Ok(Response::new(AccountServiceGetResponse { account }))
    }

    async fn get_by_key(
        &self,
        request: Request<AccountServiceGetByKeyRequest>,
    ) -> Result<Response<AccountServiceGetByKeyResponse>, Status> {
        let (call, it) = Call::of(&self.context, request)?;
        let key = call.key("account_key", it.account_key)?;
        let key = key.ok_or_else(|| Refusal::field("account_key", "needs to be set"))?;
        let (wanted, tenant) = (key.clone(), call.tenant());
        let found = call.read(move |queries| queries.account_by_key(tenant, &wanted)).await?;
        let account = Some(found_or_refused(found, key)?);
        Ok(Response::new(AccountServiceGetByKeyResponse { account }))
    }

    async fn add_payment_method(
        &self,
        request: Request<AddPaymentMethodRequest>,
    ) -> Result<Response<AddPaymentMethodResponse>, Status> {
        let (call, it, idempotency) =
            Call::of_write(&self.context, request, ("AddPaymentMethod", "payment_method:create"))?;
        let gateway = fields::optional_text("gateway", it.gateway, GATEWAY_CHARS_MAX)?;
        let command = Command::Account(AccountCommand::CreatePaymentMethod(CreatePaymentMethod {
            account: fields::id("account_id", &it.account_id)?,
            external_key: call.key("payment_method_key", it.payment_method_key)?,
            gateway: gateway.ok_or_else(|| Refusal::field("gateway", "needs to be set"))?,
            external_payment_method_id: fields::optional_text(
                "gateway_reference",
                it.gateway_reference,
                GATEWAY_CHARS_MAX,
            )?,
            properties: fields::properties(it.properties)?,
            is_default: it.is_default,
            is_attached: false,
        }));
        let Reply::Account(reply) = call.submit(command, idempotency).await? else {
            unreachable!("the reply belongs to the command")
        };
        match reply {
            AccountReply::PaymentMethodCreated(id) => {
                Ok(Response::new(AddPaymentMethodResponse { payment_method_id: id.to_string() }))
            }
            AccountReply::PaymentMethodPending(id) => Err(Refusal::MethodPending(id).into()),
            AccountReply::PaymentMethodRefused(it) => {
                Err(Refusal::MethodRefused { reason: it.message }.into())
            }
            AccountReply::Created(_) => unreachable!("the reply belongs to the command"),
        }
    }
}

fn found_or_refused(found: Option<AccountView>, name: String) -> Result<Account, Refusal> {
    let found = found.ok_or(Refusal::NotFound { what: Resource::Account, name })?;
    Ok(view::account(found))
}

fn create(call: &Call<'_>, it: AccountServiceCreateRequest) -> Result<CreateAccount, Refusal> {
    Ok(CreateAccount {
        external_key: call.key("account_key", it.account_key)?,
        person: person(it.person.unwrap_or_default())?,
        currency: fields::optional_currency("currency_code", &it.currency_code)?,
        ..CreateAccount::default()
    })
}

fn person(it: api::Person) -> Result<Person, Refusal> {
    let text = fields::optional_text;
    Ok(Person {
        name: text("person.name", it.name, NAME_CHARS_MAX)?,
        first_name_length: None,
        email: text("person.email", it.email, EMAIL_CHARS_MAX)?,
        address1: text("person.address1", it.address1, ADDRESS_CHARS_MAX)?,
        address2: text("person.address2", it.address2, ADDRESS_CHARS_MAX)?,
        postal_code: text("person.postal_code", it.postal_code, SHORT_CHARS_MAX)?,
        company: text("person.company", it.company, ADDRESS_CHARS_MAX)?,
        city: text("person.city", it.city, ADDRESS_CHARS_MAX)?,
        state: text("person.state", it.state, ADDRESS_CHARS_MAX)?,
        country: text("person.country", it.country, SHORT_CHARS_MAX)?,
        locale: text("person.locale", it.locale, LOCALE_CHARS_MAX)?,
        phone: text("person.phone", it.phone, SHORT_CHARS_MAX)?,
        notes: None,
    })
}
