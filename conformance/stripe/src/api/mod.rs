//! One file per resource: its state, how it is rendered, its routes.

pub mod balance_transaction;
pub mod charge;
pub mod checkout_session;
pub mod confirm;
pub mod customer;
pub mod dispute;
pub mod event;
pub mod payment_intent;
pub mod payment_method;
pub mod refund;
pub mod route;
pub mod search;
pub mod setup_intent;
pub mod webhook_endpoint;
