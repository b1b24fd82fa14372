//! Disputes, in the words of the code under test.

use domain::command::PaymentCommand;
use domain::dispute::{DisputeCase, DisputeSaid, DisputeStatus, DisputeTimer, RecordDispute};
use domain::{AmountMinor, Command, Timestamp};

use super::{currency_of, id};
use crate::ask::{Disputed, Late, What};

fn case_of(gateway: &str, case: u32) -> DisputeCase {
    DisputeCase::new(gateway, &format!("c-{case}")).expect("it is one")
}

/// The command that a dispute's news or its timer is.
pub(super) fn command(what: &What) -> Command {
    if let What::BookDispute(it) = what {
        return late(it);
    }
    let What::Disputed(it) = what else { unreachable!("it is about a dispute") };
    said(it)
}

/// What a gateway says. Its status never changes here: only money is looked at.
fn said(it: &Disputed) -> Command {
    Command::Payment(PaymentCommand::RecordDispute(Box::new(RecordDispute {
        payment: id(it.payment),
        transaction: id(it.transaction),
        case: case_of(it.gateway, it.case),
        said: DisputeSaid {
            status: DisputeStatus::UnderReview,
            reason: None,
            amount: AmountMinor::ZERO,
            currency: currency_of(it.currency),
            evidence_due_by: None,
            withdrawn: AmountMinor(it.withdrawn),
            reinstated: AmountMinor(it.reinstated),
        },
        asked_at: Timestamp(0),
    })))
}

fn late(it: &Late) -> Command {
    Command::Payment(PaymentCommand::BookDispute(DisputeTimer {
        payment: id(it.payment),
        dispute: id(it.dispute),
        case: case_of(it.gateway, it.case),
        due: Timestamp(it.due),
    }))
}
