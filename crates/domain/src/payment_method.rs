//! Payment methods: how an account pays, through which gateway.

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::execute::{Accepted, Outcome};
use crate::state::{Change, ClaimKey, ClaimKind, State};
use crate::{
    Account, AccountId, EXTERNAL_PAYMENT, Event, PaymentMethodId, Properties, Rejection, Reply,
    Revision, TenantNo, Timestamp,
};

/// A means of payment on an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentMethod {
    /// Whose.
    pub tenant: TenantNo,
    /// Its id.
    pub id: PaymentMethodId,
    /// The account that pays with it.
    pub account_id: AccountId,
    /// The client's name for it, unique per tenant for ever; `None` reads as the id.
    pub external_key: Option<String>,
    /// The gateway it goes through (Kill Bill: plugin name).
    pub gateway: String,
    /// The gateway's own name for it.
    pub external_payment_method_id: Option<String>,
    /// What the client stored with it for the gateway. Card data was refused at the door.
    pub properties: Properties,
    /// False once it was deleted.
    pub active: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Its history.
    pub revision: Revision,
}

/// Adds a payment method to an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatePaymentMethod {
    /// The account.
    pub account: AccountId,
    /// See [`PaymentMethod::external_key`].
    pub external_key: Option<String>,
    /// See [`PaymentMethod::gateway`].
    pub gateway: String,
    /// See [`PaymentMethod::external_payment_method_id`].
    pub external_payment_method_id: Option<String>,
    /// See [`PaymentMethod::properties`].
    pub properties: Properties,
    /// Whether it becomes the account's default.
    pub is_default: bool,
}

/// Makes a payment method the account's default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDefaultPaymentMethod {
    /// The account.
    pub account: AccountId,
    /// One of its methods.
    pub payment_method: PaymentMethodId,
}

/// Deletes a payment method. The default one only where `even_if_default`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletePaymentMethod {
    /// Which.
    pub payment_method: PaymentMethodId,
    /// Kill Bill's `deleteDefaultPmWithAutoPayOff` or `forceDefaultPmDeletion`.
    pub even_if_default: bool,
}

pub(crate) fn create(state: &State, it: &CreatePaymentMethod, cx: &mut Context) -> Outcome {
    let Some(account) = state.account(cx.tenant, it.account) else {
        return Err(Rejection::AccountNotFound { id: it.account });
    };
    if cx.settings.gateway(&it.gateway).is_none() {
        return Err(Rejection::GatewayNotRegistered { gateway: it.gateway.clone() });
    }
    let external = it.gateway == EXTERNAL_PAYMENT;
    if external && account.external_payment_method.is_some() {
        return Err(Rejection::ExternalPaymentMethodExists { account: account.id });
    }
    let id: PaymentMethodId = cx.mint();
    if let Some(key) = &it.external_key {
        let claim = ClaimKey::new(cx.tenant, ClaimKind::PaymentMethod, key);
        if state.claim(&claim).is_some() {
            return Err(Rejection::InvalidParameter {
                field: "externalKey".to_owned(),
                reason: format!("{key} is taken by another payment method"),
            });
        }
        cx.claim(claim, id.uuid(), Some(account.id));
    }
    cx.change(Change::PaymentMethod(PaymentMethod {
        tenant: cx.tenant,
        id,
        account_id: account.id,
        external_key: it.external_key.clone(),
        gateway: it.gateway.clone(),
        external_payment_method_id: it.external_payment_method_id.clone(),
        properties: it.properties.clone(),
        active: true,
        created_at: cx.now,
        updated_at: cx.now,
        revision: Revision::first(cx.seq),
    }));
    let mut account = account.clone();
    if external {
        account.external_payment_method = Some(id);
    }
    if it.is_default {
        change_default(account, Some(id), cx);
    } else if external {
        cx.change(Change::Account(account));
    }
    Ok(Accepted::now(Reply::PaymentMethodCreated(id)))
}

pub(crate) fn set_default(
    state: &State,
    it: &SetDefaultPaymentMethod,
    cx: &mut Context,
) -> Outcome {
    let Some(account) = state.account(cx.tenant, it.account) else {
        return Err(Rejection::AccountNotFound { id: it.account });
    };
    let method = state.payment_method(cx.tenant, it.payment_method);
    if method.is_none_or(|method| method.account_id != account.id || !method.active) {
        return Err(Rejection::PaymentMethodNotFound { id: it.payment_method });
    }
    change_default(account.clone(), Some(it.payment_method), cx);
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn delete(state: &State, it: &DeletePaymentMethod, cx: &mut Context) -> Outcome {
    let method = state.payment_method(cx.tenant, it.payment_method).filter(|m| m.active);
    let Some(method) = method else {
        return Err(Rejection::PaymentMethodNotFound { id: it.payment_method });
    };
    let account = state
        .account(cx.tenant, method.account_id)
        .expect("a payment method is loaded with its account");
    let is_default = account.payment_method_id == Some(method.id);
    if is_default && !it.even_if_default {
        return Err(Rejection::DefaultPaymentMethodInUse { account: account.id });
    }
    cx.change(Change::PaymentMethod(PaymentMethod {
        active: false,
        updated_at: cx.now,
        revision: method.revision.next(cx.seq),
        ..method.clone()
    }));
    let mut account = account.clone();
    let external = account.external_payment_method == Some(method.id);
    if external {
        account.external_payment_method = None;
    }
    if is_default {
        change_default(account, None, cx);
    } else if external {
        cx.change(Change::Account(account));
    }
    Ok(Accepted::now(Reply::Done))
}

fn change_default(mut account: Account, method: Option<PaymentMethodId>, cx: &mut Context) {
    account.payment_method_id = method;
    account.updated_at = cx.now;
    account.revision = account.revision.next(cx.seq);
    cx.event(Event::AccountChanged { account: account.id });
    cx.change(Change::Account(account));
}
