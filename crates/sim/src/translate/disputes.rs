//! Disputes, in the words of the code under test.

use domain::command::PaymentCommand;
use domain::payment::dispute::{
    DisputeCase, DisputeSaid, DisputeStatus, DisputeTimer, RecordDispute,
};
use domain::{AmountMinor, Command, Timestamp};

use super::{currency_of, id};
use crate::ask::{Disputed, Late, Stage};

fn case_of(gateway: &str, case: u32) -> DisputeCase {
    DisputeCase::new(gateway, &format!("c-{case}")).expect("it is one")
}

pub(super) fn record(it: &Disputed) -> Command {
    Command::Payment(PaymentCommand::RecordDispute(Box::new(said(it))))
}

pub(super) fn book(it: &Late) -> Command {
    Command::Payment(PaymentCommand::BookDispute(late(it)))
}

pub(super) fn warn(it: &Late) -> Command {
    Command::Payment(PaymentCommand::WarnOfDispute(late(it)))
}

/// A gateway's report of a dispute, as a command.
fn said(it: &Disputed) -> RecordDispute {
    RecordDispute {
        payment: id(it.payment),
        transaction: id(it.transaction),
        case: case_of(it.gateway, it.case),
        said: DisputeSaid {
            status: status_of(it.stage),
            reason: None,
            amount: AmountMinor::ZERO,
            currency: currency_of(it.currency),
            evidence_due_by: it.due_by.map(Timestamp),
            withdrawn: AmountMinor(it.withdrawn),
            reinstated: AmountMinor(it.reinstated),
        },
        asked_at: Timestamp(it.asked_at),
    }
}

fn late(it: &Late) -> DisputeTimer {
    DisputeTimer {
        payment: id(it.payment),
        dispute: id(it.dispute),
        case: case_of(it.gateway, it.case),
        due: Timestamp(it.due),
    }
}

/// A stage in the code's own word.
pub fn status_of(stage: Stage) -> DisputeStatus {
    match stage {
        Stage::Asked => DisputeStatus::WarningNeedsResponse,
        Stage::AskedAndAnswered => DisputeStatus::WarningUnderReview,
        Stage::Disputed => DisputeStatus::NeedsResponse,
        Stage::Answered => DisputeStatus::UnderReview,
        Stage::Lost => DisputeStatus::Lost,
    }
}
