//! A payment's amounts, as plain sums over its transactions.

use super::{Move, Payment};
use crate::ask::{Kind, Status};

/// Sums of what succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Reserved; nothing once it was voided.
    pub authorized: i64,
    /// The sum of captures.
    pub captured: i64,
    /// The sum of purchases.
    pub purchased: i64,
    /// The sum of refunds.
    pub refunded: i64,
    /// The sum of credits.
    pub credited: i64,
    /// The sum of chargebacks, less reversals.
    pub charged_back: i64,
}

impl Payment {
    /// The sums of the transactions that succeeded so far, in minor units.
    #[must_use]
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        let mut voided = vec![];
        for it in self.moves.iter().filter(|it| it.status == Status::Success) {
            if it.kind == Kind::Void {
                voided.push((it.gateway, it.method));
            }
        }
        for it in self.moves.iter().filter(|it| it.status == Status::Success) {
            match it.kind {
                // A void lets go of what was reserved where it went.
                Kind::Authorize if voided.contains(&(it.gateway, it.method)) => {}
                Kind::Authorize => sums.authorized += it.processed,
                Kind::Capture => sums.captured += it.processed,
                Kind::Purchase => sums.purchased += it.processed,
                Kind::Refund => sums.refunded += it.processed,
                Kind::Credit => sums.credited += it.processed,
                Kind::Void => {}
                Kind::Chargeback => sums.charged_back += it.processed,
                Kind::Reversal => sums.charged_back -= it.processed,
            }
        }
        sums.charged_back = sums.charged_back.max(0);
        sums
    }

    /// The amount that may still be captured, in minor units; open captures count as captured.
    #[must_use]
    pub fn left_to_capture(&self) -> i64 {
        (self.sums().authorized - self.used(Kind::Capture)).max(0)
    }

    /// The amount that may still be refunded or charged back, in minor units; open refunds count as
    /// refunded.
    #[must_use]
    pub fn left_to_return(&self) -> i64 {
        let sums = self.sums();
        let taken = sums.captured + sums.purchased;
        (taken - self.used(Kind::Refund) - sums.charged_back).max(0)
    }

    /// The sum of the transactions of one kind that succeeded or still may, in minor units.
    pub(super) fn used(&self, kind: Kind) -> i64 {
        let of_kind = self.moves.iter().filter(|it| it.kind == kind);
        of_kind.map(Move::used).sum()
    }
}

impl Move {
    fn used(&self) -> i64 {
        match self.status {
            Status::Success => self.processed,
            Status::Running | Status::Pending | Status::Unknown => self.asked.unwrap_or(0),
            Status::Declined | Status::Failed => 0,
        }
    }

    /// The net amount that the customer paid by it, in minor units; negative where the customer received it.
    #[must_use]
    pub fn paid(&self) -> i64 {
        if self.status != Status::Success {
            return 0;
        }
        match self.kind {
            Kind::Capture | Kind::Purchase | Kind::Reversal => self.processed,
            Kind::Refund | Kind::Credit | Kind::Chargeback => -self.processed,
            Kind::Authorize | Kind::Void => 0,
        }
    }
}
