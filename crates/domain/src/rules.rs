//! The rules: what each command checks and changes. They import rows, commands and the context; only
//! [`crate::execute`] imports them.

pub(crate) mod access;
pub(crate) mod account;
pub(crate) mod account_email;
pub(crate) mod account_user;
mod attempt;
pub(crate) mod blocking_state;
pub(crate) mod change_request;
pub(crate) mod custom_field;
pub(crate) mod customer;
mod default_method;
pub(crate) mod definition;
pub(crate) mod entitlement;
pub(crate) mod environment;
mod gateway_text;
pub(crate) mod import;
mod ledger;
mod mail;
mod merchant_account;
pub(crate) mod method_step;
mod object;
pub(crate) mod offer;
pub(crate) mod operation;
pub(crate) mod payment;
pub(crate) mod payment_method;
pub(crate) mod purchase;
mod routing_rules;
pub(crate) mod tag;
pub(crate) mod tenant;
mod timer;
pub(crate) mod usage;
