//! A batch on its way to the partition: what it has to do, and who waits for which part of it.

use std::time::Instant;

use domain::{Command, TransactionId};
use tokio::sync::oneshot;

use crate::partition::{Answer, Work};
use crate::queue::Place;
use crate::{Reason, Unavailable};

/// A batch as it was offered.
#[derive(Default)]
pub(crate) struct Offered {
    pub(crate) works: Vec<Work>,
    /// One for each of the first works.
    pub(crate) askers: Vec<Asker>,
}

impl Offered {
    pub(crate) fn add(
        &mut self,
        work: Work,
        answer: oneshot::Sender<Result<Answer, Unavailable>>,
        place: Option<Place>,
        now: Instant,
    ) {
        let offset = place.map(|place| place.offset);
        let outcome_of = outcome_of(&work);
        let expired = place.filter(|place| place.expires_at.is_some_and(|at| at < now));
        self.works.push(expired.map_or(work, |place| Work::ReadOn(place.offset + 1)));
        let expired = expired.is_some();
        self.askers.push(Asker { answer, outcome_of, offset, expired });
    }

    /// Where to read on in the queue afterwards.
    pub(crate) fn read_on(&self) -> Option<i64> {
        self.askers.iter().filter_map(|asker| asker.offset).max().map(|offset| offset + 1)
    }

    /// Its second half, which is to come after the first.
    pub(crate) fn split_off(&mut self) -> Self {
        let at = self.askers.len() / 2;
        self.works.truncate(self.askers.len());
        Self { works: self.works.split_off(at), askers: self.askers.split_off(at) }
    }

    /// Leaves out what a queue brought.
    pub(crate) fn turn_away_queued(self) -> Self {
        let mut left = Self::default();
        for (work, asker) in self.works.into_iter().zip(self.askers) {
            if asker.offset.is_some() {
                drop(asker.answer.send(Err(Reason::NotOwner.into())));
            } else {
                left.works.push(work);
                left.askers.push(asker);
            }
        }
        left
    }
}

/// What a work's answer goes to: whoever asked, and for an outcome also whoever waits for it.
pub(crate) struct Asker {
    pub(crate) answer: oneshot::Sender<Result<Answer, Unavailable>>,
    pub(crate) outcome_of: Option<TransactionId>,
    /// Where the work was, if a queue brought it.
    pub(crate) offset: Option<i64>,
    /// Whoever asked had stopped waiting before it was begun: its place is passed, and that is all.
    pub(crate) expired: bool,
}

/// The transaction whose outcome a work brings. An inquiry's answer goes to whoever inquired: who
/// waits for a call is answered by the call.
fn outcome_of(work: &Work) -> Option<TransactionId> {
    let Work::Request(request) = work else { return None };
    match &request.command {
        Command::GatewayReplied(it) => Some(it.transaction),
        Command::CreateTenant(_)
        | Command::SetTenantValue(_)
        | Command::CreateUser(_)
        | Command::UpdateUser(_)
        | Command::PutRole(_)
        | Command::CreateEnvironment(_)
        | Command::UpdateEnvironment(_)
        | Command::AddSecret(_)
        | Command::ExpireSecret(_)
        | Command::AddSecrets(_)
        | Command::ExpireSecrets(_)
        | Command::PutDefinitions(_)
        | Command::RequestChange(_)
        | Command::DecideChange(_)
        | Command::ApplyChange(_)
        | Command::Customer(_)
        | Command::CreateAccount(_)
        | Command::UpdateAccount(_)
        | Command::AddTags(_)
        | Command::RemoveTags(_)
        | Command::CreatePaymentMethod(_)
        | Command::SetDefaultPaymentMethod(_)
        | Command::DeletePaymentMethod(_)
        | Command::Authorize(_)
        | Command::Purchase(_)
        | Command::Credit(_)
        | Command::Capture(_)
        | Command::Refund(_)
        | Command::Void(_)
        | Command::Chargeback(_)
        | Command::ReverseChargeback(_)
        | Command::Complete(_)
        | Command::ResolvePending(_)
        | Command::FixTransaction(_)
        | Command::GatewayInquired(_) => None,
    }
}
