//! Who may sign up, and what becomes of their address, password and data.

mod lookup;
mod sessions;
#[cfg(test)]
mod tests;

use crate::account::rules::account;
use crate::account::rules::tag;
use crate::account::tag::ControlTag;
use crate::change::{AccountChange, ClaimChange, CustomerChange};
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::customer::mail::MailKind;
use crate::customer::operation::OperationStatus;
use crate::customer::rules::mail;
use crate::customer::rules::operation;
use crate::customer::{
    Credentials, Customer, CustomerRef, CustomerRejection as R, CustomerReply, CustomerStatus,
    EraseCustomer, Issued, NewSecondFactor, PasswordProof, Profile, Proposal, Register,
    RequestToken, SecondFactor, SetPassword, Taken, TokenPurpose, UpdateCustomer, Verification,
    VerifyEmail, email_claim,
};
use crate::entitlement::rules::purchase;
use crate::payment::rules as payment;
use crate::reply::Outcome;
use crate::state::State;
use crate::{
    Accepted, Account, AccountId, AccountRejection, Currency, CustomerId, Event, Person, Rejection,
    Reply, Revision,
};
use lookup::{changed, find};

pub(crate) use sessions::{close_sessions, open_session, refresh_session};

/// How many times the time of a token somebody has to verify their address, however often they ask for
/// another one.
const VERIFICATIONS: i64 = 7;

pub(crate) fn register(state: &State, it: &Register, cx: &mut Context) -> Outcome {
    // An account is the first thing that is minted: its partition executes this.
    let (account, id): (AccountId, CustomerId) = (cx.mint(), cx.mint());
    let operation = it.operation.map(|id| operation::waiting(state, id, cx)).transpose()?.cloned();
    let claim = email_claim(cx.tenant, &it.profile.email_key);
    if it.password_hash.is_empty() {
        return Err(Rejection::Customer(R::EmailTaken));
    }
    if let Some(owner) = state.claim(&claim) {
        return match it.taken {
            Taken::Refuse => Err(Rejection::Customer(R::EmailTaken)),
            Taken::NotifyByMail | Taken::Silent => {
                // A concurrent erasure on another partition takes the address first, or waits:
                // nothing is left to be mailed to nobody.
                cx.claim(claim, owner.owner, owner.account);
                if it.taken == Taken::NotifyByMail {
                    mail::put(CustomerId::new(owner.owner), MailKind::AlreadyRegistered, None, cx);
                }
                if let Some(operation) = operation {
                    operation::settle(operation, OperationStatus::Succeeded(None), cx);
                }
                Ok(Accepted::now(Reply::Customer(CustomerReply::Notified)))
            }
        };
    }
    cx.claim(claim, id.uuid(), Some(account));
    open_account(it, (account, id), cx);
    let (verification, expires_at) = match it.verification {
        Verification::Given => (None, None),
        Verification::Mailed { within_us } => {
            let expires_at = cx.now.plus_us(within_us);
            (Some(Issued { id: cx.mint(), expires_at }), Some(expires_at))
        }
    };
    cx.change(CustomerChange::Customer(Customer {
        tenant: cx.tenant,
        id,
        account,
        profile: it.profile.clone(),
        credentials: Credentials { password_hash: it.password_hash.clone(), second_factor: None },
        status: CustomerStatus::Active,
        is_verified: verification.is_none(),
        password_version: 0,
        verification,
        reset: None,
        expires_at,
        created_at: cx.now,
        updated_at: cx.now,
        revision: Revision::first(cx.seq),
    }));
    if let Some(issued) = verification {
        mail::put(id, MailKind::Welcome, None, cx);
        mail::put(id, MailKind::Verification, Some(issued.id), cx);
    }
    if let Some(operation) = operation {
        operation::settle(operation, OperationStatus::Succeeded(Some(id)), cx);
    }
    cx.event(Event::CustomerRegistered { customer: id, account });
    grant_offer(state, (account, it.currency), cx);
    Ok(Accepted::now(Reply::Customer(CustomerReply::Registered(CustomerRef { id, account }))))
}

/// Makes a customer's billing account, from which nothing is paid by itself for now.
fn open_account(it: &Register, (account, id): (AccountId, CustomerId), cx: &mut Context) {
    let key = id.to_string();
    cx.claim(ClaimKey::new(cx.tenant, ClaimKind::Account, &key), account.uuid(), Some(account));
    cx.change(AccountChange::Account(Account {
        tenant: cx.tenant,
        id: account,
        external_key: Some(key),
        currency: it.currency,
        bill_cycle_day_local: 0,
        parent_account_id: None,
        is_payment_delegated_to_parent: false,
        payment_method_id: None,
        external_payment_method: None,
        reference_time: cx.now,
        time_zone: "UTC".to_owned(),
        is_migrated: None,
        created_at: cx.now,
        updated_at: cx.now,
        erased_at: None,
        revision: Revision::first(cx.seq),
    }));
    let person = named(it.person.clone(), &it.profile);
    cx.change(AccountChange::Person { account, person: Box::new(person) });
    cx.event(Event::AccountCreated { account });
    tag::put_control((account, ControlTag::AutoPayOff), None, cx);
}

/// Grants the tenant's offer for newcomers, where it is for accounts with this currency.
fn grant_offer(
    state: &State,
    (account, currency): (AccountId, Option<Currency>),
    cx: &mut Context,
) {
    let offer = state.newcomers_offer(cx.tenant).filter(|it| it.is_for_newcomer(currency));
    if let Some(offer) = offer {
        let purchase = payment::begin_purchase(state, account, offer, cx);
        purchase::book_for_newcomer(purchase, cx);
    }
}

/// The personal data of an account, with the name and the e-mail address of a profile.
fn named(person: Person, profile: &Profile) -> Person {
    let length = profile.first_name.chars().count();
    Person {
        name: Some(format!("{} {}", profile.first_name, profile.last_name)),
        first_name_length: i32::try_from(length).ok(),
        email: Some(profile.email.clone()),
        ..person
    }
}

pub(crate) fn verify_email(state: &State, it: &VerifyEmail, cx: &mut Context) -> Outcome {
    let before = &find(state, it.customer, cx)?.customer;
    take_token(before, TokenPurpose::Verification, it.token, cx)?;
    cx.change(CustomerChange::Customer(Customer {
        is_verified: true,
        verification: None,
        expires_at: None,
        ..changed(before, cx)
    }));
    cx.event(Event::CustomerVerified { customer: before.id, account: before.account });
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn request_token(state: &State, it: &RequestToken, cx: &mut Context) -> Outcome {
    let before = &find(state, it.customer, cx)?.customer;
    let mut issued = Issued { id: cx.mint(), expires_at: cx.now.plus_us(it.within_us) };
    let after = match it.purpose {
        TokenPurpose::Verification if before.is_verified => {
            return Err(Rejection::Customer(R::AlreadyVerified));
        }
        // The time to verify is counted from the last token, up to an end that no token puts off: who
        // never verifies is not kept for as long as somebody asks.
        TokenPurpose::Verification => {
            let longest_us = it.within_us.saturating_mul(VERIFICATIONS);
            issued.expires_at = issued.expires_at.min(before.created_at.plus_us(longest_us));
            let (verification, expires_at) = (Some(issued), Some(issued.expires_at));
            Customer { verification, expires_at, ..changed(before, cx) }
        }
        TokenPurpose::PasswordReset => {
            if before.status == CustomerStatus::Deactivated {
                return Err(Rejection::Customer(R::Deactivated));
            }
            Customer { reset: Some(issued), ..changed(before, cx) }
        }
    };
    cx.change(CustomerChange::Customer(after));
    mail::put(before.id, it.purpose.mail(), Some(issued.id), cx);
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn set_password(state: &State, it: &SetPassword, cx: &mut Context) -> Outcome {
    let file = find(state, it.customer, cx)?;
    let before = &file.customer;
    let mut after = changed(before, cx);
    match it.by {
        PasswordProof::Token(token) => {
            take_token(before, TokenPurpose::PasswordReset, token, cx)?;
            // A token mailed to an address proves control of that address.
            if !before.is_verified {
                after.is_verified = true;
                after.verification = None;
                after.expires_at = None;
                cx.event(Event::CustomerVerified { customer: before.id, account: before.account });
            }
        }
        PasswordProof::Password { version } if version == before.password_version => {}
        PasswordProof::Password { .. } => return Err(Rejection::Customer(R::PasswordChanged)),
    }
    after.credentials.password_hash.clone_from(&it.password_hash);
    after.password_version += 1;
    after.reset = None;
    cx.change(CustomerChange::Customer(after));
    sessions::end_all(file, cx);
    mail::put(before.id, MailKind::PasswordChanged, None, cx);
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn update(state: &State, it: &UpdateCustomer, cx: &mut Context) -> Outcome {
    let file = find(state, it.customer, cx)?;
    let before = &file.customer;
    let mut after = changed(before, cx);
    let profile = &mut after.profile;
    let pick = |field: &mut String, new: &Option<String>| {
        new.iter().for_each(|new| field.clone_from(new));
    };
    pick(&mut profile.first_name, &it.first_name);
    pick(&mut profile.last_name, &it.last_name);
    if it.preferences_before.as_ref().is_some_and(|read| *read != profile.preferences) {
        return Err(Rejection::Customer(R::PreferencesChanged));
    }
    pick(&mut profile.preferences, &it.preferences);
    let known = state.person(cx.tenant, before.account);
    let merged = account::merge(known.clone(), &it.person);
    // An operator may have written another name there, which stays unless the customer has a new one.
    let is_renamed = it.first_name.is_some() || it.last_name.is_some();
    let person = if is_renamed { named(merged, profile) } else { merged };
    if person != known {
        let seen = state.account(cx.tenant, before.account);
        let seen =
            seen.ok_or(Rejection::Account(AccountRejection::NotFound { id: before.account }))?;
        cx.change(AccountChange::Person { account: before.account, person: Box::new(person) });
        cx.change(AccountChange::Account(Account {
            updated_at: cx.now,
            revision: seen.revision.next(cx.seq),
            ..seen.clone()
        }));
        cx.event(Event::AccountChanged { account: before.account });
    }
    if let Some(is_active) = it.is_active {
        after.status = if is_active { CustomerStatus::Active } else { CustomerStatus::Deactivated };
        if !is_active {
            sessions::end_all(file, cx);
        }
    }
    if let Some(new) = &it.second_factor {
        let second_factor = &mut after.credentials.second_factor;
        *second_factor = change_second_factor(second_factor.take(), new)?;
    }
    cx.change(CustomerChange::Customer(after));
    cx.event(Event::CustomerChanged { customer: before.id, account: before.account });
    Ok(Accepted::now(Reply::Done))
}

fn change_second_factor(
    before: Option<SecondFactor>,
    new: &NewSecondFactor,
) -> Result<Option<SecondFactor>, Rejection> {
    let absent = Rejection::Customer(R::NoSecondFactor);
    match new {
        NewSecondFactor::Removed => Ok(None),
        NewSecondFactor::GivenUp { code } => {
            sessions::take_code(before.as_ref(), code.as_ref()).map(|_| None)
        }
        NewSecondFactor::Proposed { sealed, recovery_hashes } => {
            // Without a code, nothing takes the place of the one that holds.
            sessions::take_code(before.as_ref(), None)?;
            let (sealed, recovery_hashes) = (sealed.clone(), recovery_hashes.clone());
            let (is_confirmed, last_step, proposed) = (false, 0, None);
            let it = SecondFactor { sealed, is_confirmed, last_step, recovery_hashes, proposed };
            Ok(Some(it))
        }
        NewSecondFactor::Replaced { sealed, recovery_hashes, code } => {
            let left = sessions::take_code(before.as_ref(), Some(code))?;
            let holds = left.filter(|it| it.is_confirmed).ok_or(absent)?;
            let (sealed, recovery_hashes) = (sealed.clone(), recovery_hashes.clone());
            let proposed = Some(Proposal { sealed, recovery_hashes });
            Ok(Some(SecondFactor { proposed, ..holds }))
        }
        NewSecondFactor::Confirmed { step } => {
            let before = before.ok_or_else(|| absent.clone())?;
            let proposal = match before.is_confirmed {
                true => before.proposed.ok_or(absent)?,
                false => {
                    Proposal { sealed: before.sealed, recovery_hashes: before.recovery_hashes }
                }
            };
            Ok(Some(SecondFactor {
                sealed: proposal.sealed,
                is_confirmed: true,
                last_step: *step,
                recovery_hashes: proposal.recovery_hashes,
                proposed: None,
            }))
        }
    }
}

pub(crate) fn erase(state: &State, it: &EraseCustomer, cx: &mut Context) -> Outcome {
    let file = find(state, it.customer, cx)?;
    let before = &file.customer;
    if it.if_expired && before.expires_at.is_none_or(|at| at > cx.now) {
        return Err(Rejection::Customer(R::NotExpired));
    }
    cx.change(ClaimChange::Released { key: email_claim(cx.tenant, &before.profile.email_key) });
    cx.change(CustomerChange::Customer(Customer {
        profile: Profile::default(),
        credentials: Credentials::default(),
        status: CustomerStatus::Erased,
        verification: None,
        reset: None,
        expires_at: None,
        ..changed(before, cx)
    }));
    sessions::end_all(file, cx);
    if let Some(account) = state.account(cx.tenant, before.account) {
        // Its name is the customer's id, which says nothing of them.
        account::erase_person(state, account, account.external_key.clone(), cx);
    }
    cx.change(CustomerChange::MailsErased { customer: before.id });
    cx.event(Event::CustomerErased { customer: before.id, account: before.account });
    Ok(Accepted::now(Reply::Done))
}

fn take_token(
    customer: &Customer,
    purpose: TokenPurpose,
    token: crate::TokenId,
    cx: &Context,
) -> Result<(), Rejection> {
    let issued = customer.issued(purpose);
    match issued {
        Some(issued) if issued.id == token && issued.expires_at > cx.now => Ok(()),
        Some(_) | None => Err(Rejection::Customer(R::TokenInvalid)),
    }
}
