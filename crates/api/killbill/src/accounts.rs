//! Accounts: create, read, update, list, search.

use domain::Account;
use domain::account::{CreateAccount, Person, UpdateAccount};
use domain::command::AccountCommand;
use domain::reply::AccountReply;
use domain::{AccountId, AccountRejection, AmountMinor, Command, Rejection, Reply};
use engine::ports::{AccountSums, AccountView, HistoryOf, HistoryRow, Queries, StoreError};
use engine::time::{rfc3339_millis, rfc3339_second};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::amount::Decimal;
use crate::audit::{AuditLevel, AuditLogJson};
use crate::call::{Call, unexpected};
use crate::currencies;
use crate::date;
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::json::{Json, Raw};
use crate::page::{self, RowFormat};
use crate::reply;
use crate::request::printable;

/// Names the fields of a request that was carried out without them.
const IGNORED: HeaderName = HeaderName::from_static("x-faregate-ignored");

pub(crate) const JSON: Json = Json("AccountJson");

/// The lengths of Kill Bill's columns, in characters. Ours are at least as long, so no value that Kill
/// Bill accepts is refused.
const NAME_CHARS_MAX: usize = 100;
const EMAIL_CHARS_MAX: usize = 128;
const LOCALE_CHARS_MAX: usize = 5;
const TIME_ZONE_CHARS_MAX: usize = 50;
const ADDRESS_CHARS_MAX: usize = 255;
const POSTAL_CODE_CHARS_MAX: usize = 50;
const COUNTRY_CHARS_MAX: usize = 50;
const PHONE_CHARS_MAX: usize = 50;
const NOTES_CHARS_MAX: usize = 4096;

/// The last day of a month.
const DAY_MAX: u8 = 31;

/// Kill Bill's `AccountJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccountJson<'a> {
    account_id: Uuid,
    name: Option<&'a str>,
    first_name_length: Option<i32>,
    external_key: String,
    email: Option<&'a str>,
    bill_cycle_day_local: u8,
    currency: Option<&'a str>,
    parent_account_id: Option<Uuid>,
    is_payment_delegated_to_parent: bool,
    payment_method_id: Option<Uuid>,
    reference_time: String,
    time_zone: &'a str,
    address1: Option<&'a str>,
    address2: Option<&'a str>,
    postal_code: Option<&'a str>,
    company: Option<&'a str>,
    city: Option<&'a str>,
    state: Option<&'a str>,
    country: Option<&'a str>,
    locale: Option<&'a str>,
    phone: Option<&'a str>,
    notes: Option<&'a str>,
    is_migrated: Option<bool>,
    /// What is to be paid of its invoices, less its credit; if the request asks for it.
    #[schema(value_type = Option<f64>)]
    account_balance: Option<Decimal>,
    /// Its credit, likewise.
    #[serde(rename = "accountCBA")]
    #[schema(value_type = Option<f64>)]
    account_cba: Option<Decimal>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// `AccountJson` of a request. The balances are ignored, and so is the id, except in a combo payment.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = AccountRequest)]
pub(crate) struct AccountBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    account_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<i32>)]
    first_name_length: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    external_key: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    email: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<i32>)]
    bill_cycle_day_local: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    currency: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    parent_account_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_payment_delegated_to_parent: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    payment_method_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    reference_time: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    time_zone: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    address1: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    address2: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    postal_code: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    company: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    city: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    state: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    country: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    locale: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    phone: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    notes: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_migrated: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    account_balance: Raw<'a>,
    #[serde(borrow, rename = "accountCBA")]
    #[schema(value_type = Option<f64>)]
    account_cba: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

impl AccountBody<'_> {
    fn person(&self) -> Result<Person, Failure> {
        Ok(Person {
            name: JSON.text("name", self.name, NAME_CHARS_MAX)?,
            first_name_length: JSON.integer("firstNameLength", self.first_name_length)?,
            email: JSON.text("email", self.email, EMAIL_CHARS_MAX)?,
            address1: JSON.text("address1", self.address1, ADDRESS_CHARS_MAX)?,
            address2: JSON.text("address2", self.address2, ADDRESS_CHARS_MAX)?,
            postal_code: JSON.text("postalCode", self.postal_code, POSTAL_CODE_CHARS_MAX)?,
            company: JSON.text("company", self.company, ADDRESS_CHARS_MAX)?,
            city: JSON.text("city", self.city, ADDRESS_CHARS_MAX)?,
            state: JSON.text("state", self.state, ADDRESS_CHARS_MAX)?,
            country: JSON.text("country", self.country, COUNTRY_CHARS_MAX)?,
            locale: JSON.text("locale", self.locale, LOCALE_CHARS_MAX)?,
            phone: JSON.text("phone", self.phone, PHONE_CHARS_MAX)?,
            notes: JSON.lines("notes", self.notes, NOTES_CHARS_MAX)?,
        })
    }

    fn external_key(&self) -> Result<Option<String>, Failure> {
        JSON.key("externalKey", self.external_key, class::ACCOUNT)
    }

    fn bill_cycle_day(&self) -> Result<Option<u8>, Failure> {
        let field = "billCycleDayLocal";
        let Some(day) = JSON.integer(field, self.bill_cycle_day_local)? else { return Ok(None) };
        let day = u8::try_from(day).ok().filter(|day| *day <= DAY_MAX);
        day.map(Some).ok_or_else(|| {
            Failure::illegal(format!("AccountJson {field} should be between 0 and {DAY_MAX}"))
        })
    }

    fn time_zone(&self) -> Result<Option<String>, Failure> {
        let Some(name) = JSON.text("timeZone", self.time_zone, TIME_ZONE_CHARS_MAX)? else {
            return Ok(None);
        };
        if name == "UTC" || date::zone(&name).is_some() {
            return Ok(Some(name));
        }
        let name = printable(&name);
        Err(Failure::illegal(format!("The datetime zone id '{name}' is not recognised (timeZone)")))
    }

    /// Validates the ignored fields: an invalid id or number is refused.
    fn check_ignored(&self) -> Result<(), Failure> {
        self.id()?;
        JSON.amount("accountBalance", self.account_balance)?;
        JSON.amount("accountCBA", self.account_cba)?;
        let _audit_logs = self.audit_logs;
        Ok(())
    }

    pub(crate) fn id(&self) -> Result<Option<AccountId>, Failure> {
        JSON.id("accountId", self.account_id)
    }

    pub(crate) fn create(&self) -> Result<CreateAccount, Failure> {
        self.check_ignored()?;
        JSON.id::<domain::kind::PaymentMethod>("paymentMethodId", self.payment_method_id)?;
        let delegated =
            JSON.boolean("isPaymentDelegatedToParent", self.is_payment_delegated_to_parent)?;
        Ok(CreateAccount {
            external_key: self.external_key()?,
            person: self.person()?,
            currency: JSON.currency("currency", self.currency)?,
            bill_cycle_day_local: self.bill_cycle_day()?.unwrap_or(0),
            parent_account_id: JSON.id("parentAccountId", self.parent_account_id)?,
            is_payment_delegated_to_parent: delegated.unwrap_or(false),
            reference_time: JSON.time("referenceTime", self.reference_time)?,
            time_zone: self.time_zone()?,
            is_migrated: JSON.boolean("isMigrated", self.is_migrated)?,
            tags: vec![],
        })
    }

    fn update(&self, account: AccountId, reset: bool) -> Result<UpdateAccount, Failure> {
        self.check_ignored()?;
        JSON.boolean("isMigrated", self.is_migrated)?;
        let delegated =
            JSON.boolean("isPaymentDelegatedToParent", self.is_payment_delegated_to_parent)?;
        Ok(UpdateAccount {
            account,
            reset,
            person: self.person()?,
            external_key: self.external_key()?,
            currency: JSON.currency("currency", self.currency)?,
            bill_cycle_day_local: self.bill_cycle_day()?,
            parent_account_id: JSON.id("parentAccountId", self.parent_account_id)?,
            is_payment_delegated_to_parent: delegated,
            payment_method_id: JSON.id("paymentMethodId", self.payment_method_id)?,
            reference_time: JSON.time("referenceTime", self.reference_time)?,
            time_zone: self.time_zone()?,
            // Kill Bill accepts a new value and keeps the old one.
            is_migrated: None,
        })
    }
}

/// The parts that a response includes beside the account.
#[derive(Clone, Copy)]
pub(crate) struct ReadOptions {
    audit: AuditLevel,
    balance: bool,
    cba: bool,
}

impl RowFormat for ReadOptions {
    type Row = AccountView;
    type Audited = (AccountView, AccountSums, Vec<HistoryRow>);
    type Json<'a> = AccountJson<'a>;

    fn of(call: &Call) -> Result<Self, Failure> {
        let query = call.query();
        let cba = query.flag("accountWithBalanceAndCBA");
        let balance = cba || query.flag("accountWithBalance");
        Ok(Self { audit: AuditLevel::of(query)?, balance, cba })
    }

    fn reads_audit(self) -> bool {
        self.audit != AuditLevel::None || self.balance
    }

    fn with_audit(
        self,
        queries: &dyn Queries,
        view: AccountView,
    ) -> Result<Self::Audited, StoreError> {
        let of = HistoryOf::new::<Account>(view.account.id.uuid());
        let tenant = view.account.tenant;
        let rows = self.audit.read(queries, tenant, of)?;
        let sums = self.balance.then(|| queries.sums(tenant, view.account.id)).transpose()?;
        Ok((view, sums.unwrap_or_default(), rows))
    }

    fn json(self, (view, sums, rows): &Self::Audited) -> AccountJson<'_> {
        let (account, person) = (&view.account, &view.person);
        let sum = |amount: AmountMinor| {
            let currency = account.currency.filter(|_| !amount.is_zero());
            Decimal::new(amount, currency)
        };
        // A reference time from the client keeps its milliseconds.
        let reference_time = if account.reference_time == account.created_at {
            rfc3339_second(account.reference_time)
        } else {
            rfc3339_millis(account.reference_time)
        };
        let key = account.external_key.clone();
        AccountJson {
            account_id: account.id.uuid(),
            name: person.name.as_deref(),
            first_name_length: person.first_name_length,
            external_key: key.unwrap_or_else(|| account.id.to_string()),
            email: person.email.as_deref(),
            bill_cycle_day_local: account.bill_cycle_day_local,
            currency: account.currency.as_ref().map(domain::Currency::code),
            parent_account_id: account.parent_account_id.map(AccountId::uuid),
            is_payment_delegated_to_parent: account.is_payment_delegated_to_parent,
            payment_method_id: account.payment_method_id.map(domain::PaymentMethodId::uuid),
            reference_time,
            time_zone: &account.time_zone,
            address1: person.address1.as_deref(),
            address2: person.address2.as_deref(),
            postal_code: person.postal_code.as_deref(),
            company: person.company.as_deref(),
            city: person.city.as_deref(),
            state: person.state.as_deref(),
            country: person.country.as_deref(),
            locale: person.locale.as_deref(),
            phone: person.phone.as_deref(),
            notes: person.notes.as_deref(),
            is_migrated: account.is_migrated,
            account_balance: self.balance.then(|| sum(sums.balance())),
            account_cba: self.cba.then(|| sum(sums.credit)),
            audit_logs: self.audit.logs(rows),
        }
    }
}

impl ReadOptions {
    /// The parameters of the next page's URL.
    fn parameters(self) -> [(&'static str, &'static str); 3] {
        let text = |flag| if flag { "true" } else { "false" };
        [
            ("accountWithBalance", text(self.balance && !self.cba)),
            ("accountWithBalanceAndCBA", text(self.cba)),
            ("audit", self.audit.name()),
        ]
    }
}

/// Creates an account.
#[utoipa::path(post, path = "/1.0/kb/accounts", tag = "Account",
    request_body = AccountBody<'static>,
    responses((status = 201, description = "Created; Location names it"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn create(call: Call) -> HandlerResult {
    let body = call.body::<AccountBody<'_>>(JSON)?;
    let it = body.create()?;
    let names_method =
        JSON.id::<domain::kind::PaymentMethod>("paymentMethodId", body.payment_method_id)?;
    let currency = it.currency;
    currencies::check(&call, currency)?;
    let Reply::Account(AccountReply::Created(id)) =
        call.submit(Command::Account(AccountCommand::Create(Box::new(it)))).await?
    else {
        unexpected()
    };
    let id = id.to_string();
    let mut created = reply::created(call.location(&["/1.0/kb/accounts/", &id]));
    // Kill Bill's clients send whole accounts. A new one has no method that it could name.
    if names_method.is_some() {
        created.headers_mut().insert(IGNORED, HeaderValue::from_static("paymentMethodId"));
    }
    Ok(currencies::warn(&call, currency, created))
}

/// Reads an account.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}", tag = "Account",
    params(("accountId" = Uuid, Path), ("audit" = Option<String>, Query), ("accountWithBalance" = Option<bool>, Query), ("accountWithBalanceAndCBA" = Option<bool>, Query)),
    responses((status = 200, body = AccountJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id = call.param_id("accountId")?;
    let options = ReadOptions::of(&call)?;
    match page::read_one(&call, options, move |queries, tenant| queries.account(tenant, id)).await?
    {
        Some(found) => Ok(reply::ok(&options.json(&found))),
        None => Err(not_found(id)),
    }
}

/// Reads an account by its key.
#[utoipa::path(get, path = "/1.0/kb/accounts", tag = "Account",
    params(("externalKey" = String, Query), ("audit" = Option<String>, Query), ("accountWithBalance" = Option<bool>, Query), ("accountWithBalanceAndCBA" = Option<bool>, Query)),
    responses((status = 200, body = AccountJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_key(call: Call) -> HandlerResult {
    let key = call.query().text("externalKey")?.map(|key| key.into_owned());
    let options = ReadOptions::of(&call)?;
    let Some(key) = key else { return Err(no_account_with_key("null")) };
    let wanted = key.clone();
    let find = move |queries: &dyn Queries, tenant| queries.account_by_key(tenant, &wanted);
    match page::read_one(&call, options, find).await? {
        Some(found) => Ok(reply::ok(&options.json(&found))),
        None => Err(no_account_with_key(&key)),
    }
}

/// The refusal if no account has this key.
pub(crate) fn no_account_with_key(key: &str) -> Failure {
    let message = format!("Account does not exist for key {key}");
    Failure::coded(code::ACCOUNT_NOT_FOUND_BY_KEY, message)
}

/// Changes an account.
#[utoipa::path(put, path = "/1.0/kb/accounts/{accountId}", tag = "Account",
    params(
        ("accountId" = Uuid, Path),
        ("treatNullAsReset" = Option<bool>, Query,
            description = "Fields that are `null` or absent are emptied")),
    request_body = AccountBody<'static>,
    responses((status = 204, description = "Changed"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn update(call: Call) -> HandlerResult {
    let id = call.param_id("accountId")?;
    let reset = call.query().flag("treatNullAsReset");
    let it = call.body::<AccountBody<'_>>(JSON)?.update(id, reset)?;
    let currency = it.currency;
    currencies::check(&call, currency)?;
    call.submit_change(Command::Account(AccountCommand::Update(Box::new(it)))).await?;
    Ok(currencies::warn(&call, currency, reply::no_content()))
}

/// Lists accounts.
#[utoipa::path(get, path = "/1.0/kb/accounts/pagination", tag = "Account",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query), ("accountWithBalance" = Option<bool>, Query), ("accountWithBalanceAndCBA" = Option<bool>, Query)),
    responses((status = 200, body = [AccountJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let window = page::parse(call.query())?;
    let options = ReadOptions::of(&call)?;
    let url = ("/1.0/kb/accounts/pagination", &options.parameters()[..]);
    page::list(&call, options, window, url, |queries, tenant, page| queries.accounts(tenant, page))
        .await
}

/// Searches accounts.
///
/// Finds one by its id, its whole key or its whole e-mail address. Where there is none, finds all whose name,
/// e-mail address, key or company contains the text, which looks at every account of the tenant.
#[utoipa::path(get, path = "/1.0/kb/accounts/search/{searchKey}", tag = "Account",
    params(("searchKey" = String, Path), ("offset" = Option<u64>, Query),
        ("limit" = Option<u64>, Query), ("audit" = Option<String>, Query), ("accountWithBalance" = Option<bool>, Query), ("accountWithBalanceAndCBA" = Option<bool>, Query)),
    responses((status = 200, body = [AccountJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> HandlerResult {
    let text = call.param("searchKey")?.into_owned();
    let window = page::parse(call.query())?;
    let options = ReadOptions::of(&call)?;
    let path = format!("/1.0/kb/accounts/search/{}", reply::segment(&text));
    let name = text.clone();
    let find = (
        move |queries: &dyn Queries, tenant, page| queries.accounts_named(tenant, &name, page),
        move |queries: &dyn Queries, tenant, page| queries.search_accounts(tenant, &text, page),
    );
    page::search(&call, options, window, (&path, &options.parameters()), find).await
}

/// Refuses an account that the tenant does not have.
pub(crate) async fn check_account(call: &Call) -> Result<(), Failure> {
    check_account_of(call, call.param_id("accountId")?).await
}

/// The same, of an account that the path does not name.
pub(crate) async fn check_account_of(call: &Call, account: AccountId) -> Result<(), Failure> {
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.account(tenant, account)).await?;
    found.map(|_| ()).ok_or_else(|| not_found(account))
}

pub(crate) fn not_found(account: AccountId) -> Failure {
    Failure::Refused(Box::new(Rejection::Account(AccountRejection::NotFound { id: account })))
}
