//! Payments: the machine that says which transaction may follow which.

mod action;
mod amounts;
mod answer;
mod buy;
mod cascade;
mod combo;
mod complete;
mod control;
mod dispute;
mod follow_up;
mod import;
mod initiate;
mod inquiry;
mod late;
mod outcome;
mod retry;
mod route;
mod routing;
mod schedule;
#[cfg(test)]
mod tests;

pub(crate) use action::expire as expire_action;
pub(crate) use answer::{gateway_inquired, gateway_replied};
pub(crate) use buy::{begin as begin_purchase, buy};
pub(crate) use combo::initiate_combo;
pub(crate) use complete::{complete, fix, resolve_pending};
pub(crate) use control::follow;
pub(crate) use dispute::{
    book_waiting as book_dispute, record as record_dispute, warn as warn_of_dispute,
};
pub(crate) use follow_up::{follow_up, reverse_chargeback};
pub(crate) use import::import;
pub(crate) use initiate::initiate;
pub(crate) use late::{note_late_successes, refund_late};
pub(crate) use retry::{cancel_retries, retry};
