//! The rules: what each command checks and changes. They import rows, commands and the context; only
//! [`crate::execute`] imports them.

pub(crate) mod access;
pub(crate) mod account;
pub(crate) mod account_email;
mod attempt;
pub(crate) mod blocking_state;
pub(crate) mod change_request;
pub(crate) mod custom_field;
pub(crate) mod customer;
pub(crate) mod definition;
pub(crate) mod environment;
pub(crate) mod import;
mod ledger;
mod mail;
mod object;
pub(crate) mod operation;
pub(crate) mod payment;
pub(crate) mod payment_method;
mod routing_rules;
pub(crate) mod tag;
pub(crate) mod tenant;
mod timer;
