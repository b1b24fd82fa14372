//! The decision about the answer to an inquiry: the most delicate one about money, as one pure table.

use super::outcome::worth_booking;
use crate::payment::TransactionStatus;

/// The gateway's answer about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) status: TransactionStatus,
    /// The transaction had failed, and now money may move after all.
    pub(super) reopens: bool,
}

/// The call that the transaction was sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// It may still be answered: its deadline is not over, and nothing was asked before.
    MayRun,
    Over,
}

/// The age of the inquiry's answer beside what was booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Newest,
    /// The transaction was settled by the answer to a later inquiry.
    Outdated,
}

/// The result of an inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inquired {
    /// Nothing is booked, and the call may still answer: it is waited for.
    Wait,
    /// Nothing is booked: the waiting ends, or goes on by its schedule.
    Continue,
    /// The call is over without an answer: the transaction is unknown from now on.
    Unanswered,
    /// It is booked. The waiting ends, or goes on by the new status.
    Book,
    /// It is booked while the call may still answer: the row that waits for the call stays.
    BookEarly,
    /// It is booked against another outcome, and the gateway is asked once more.
    BookAndConfirm,
    /// It is against the outcome that was booked, which is newer: the gateway is asked once more.
    Confirm,
}

/// Decides about an answer by the transaction's present status, by what the gateway says, by the call and by the
/// age of the answer.
pub(super) fn decide(
    status: TransactionStatus,
    said: Option<Said>,
    call: Call,
    age: Age,
) -> Inquired {
    let news = said.filter(|said| said.reopens || worth_booking(status, said.status));
    match (news, call, age) {
        (None, Call::MayRun, _) | (Some(_), Call::MayRun, Age::Outdated) => Inquired::Wait,
        (None, Call::Over, _) if status == TransactionStatus::InFlight => Inquired::Unanswered,
        (None, Call::Over, _) => Inquired::Continue,
        (Some(_), Call::Over, Age::Outdated) => Inquired::Confirm,
        // A call that may run is the better witness of what is not decided yet.
        (Some(said), Call::MayRun, Age::Newest) => match said.status.is_open() && !said.reopens {
            true => Inquired::Wait,
            false => Inquired::BookEarly,
        },
        (Some(said), Call::Over, Age::Newest) => {
            let contradicts = !status.is_open() && !said.status.is_open();
            if contradicts { Inquired::BookAndConfirm } else { Inquired::Book }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TransactionStatus as S;

    /// The decisions about a status and the gateway's answer.
    fn check(call: Call, age: Age, expected: &[(S, Option<S>, Inquired)]) {
        for &(status, said, inquired) in expected {
            let said = said.map(|status| Said { status, reopens: false });
            let actual = decide(status, said, call, age);
            assert_eq!(actual, inquired, "{status:?}, said {said:?}, {call:?}, {age:?}");
        }
    }

    #[test]
    fn the_answer_after_the_call_is_booked_where_it_says_something_new() {
        check(
            Call::Over,
            Age::Newest,
            &[
                (S::InFlight, None, Inquired::Unanswered),
                (S::InFlight, Some(S::Unknown), Inquired::Book),
                (S::InFlight, Some(S::Pending), Inquired::Book),
                (S::InFlight, Some(S::Success), Inquired::Book),
                (S::Unknown, None, Inquired::Continue),
                (S::Unknown, Some(S::Unknown), Inquired::Continue),
                (S::Unknown, Some(S::Pending), Inquired::Book),
                (S::Unknown, Some(S::PluginFailure), Inquired::Book),
                (S::Pending, Some(S::Pending), Inquired::Continue),
                (S::Pending, Some(S::PaymentFailure), Inquired::Book),
                (S::Success, None, Inquired::Continue),
                (S::Success, Some(S::Success), Inquired::Continue),
                (S::Success, Some(S::Pending), Inquired::Continue),
                (S::Success, Some(S::PaymentFailure), Inquired::BookAndConfirm),
                (S::PaymentFailure, Some(S::Success), Inquired::BookAndConfirm),
                (S::PluginFailure, Some(S::PaymentFailure), Inquired::Continue),
            ],
        );
    }

    #[test]
    fn while_the_call_may_answer_only_ends_are_booked() {
        check(
            Call::MayRun,
            Age::Newest,
            &[
                (S::InFlight, None, Inquired::Wait),
                (S::InFlight, Some(S::Unknown), Inquired::Wait),
                (S::InFlight, Some(S::Pending), Inquired::Wait),
                (S::InFlight, Some(S::Success), Inquired::BookEarly),
                (S::InFlight, Some(S::PaymentFailure), Inquired::BookEarly),
                (S::Success, Some(S::PaymentFailure), Inquired::BookEarly),
                (S::Success, Some(S::Success), Inquired::Wait),
            ],
        );
    }

    #[test]
    fn an_outdated_answer_is_never_booked() {
        check(
            Call::Over,
            Age::Outdated,
            &[
                (S::Success, Some(S::PaymentFailure), Inquired::Confirm),
                (S::PaymentFailure, Some(S::Success), Inquired::Confirm),
                (S::Success, Some(S::Success), Inquired::Continue),
                (S::Success, None, Inquired::Continue),
            ],
        );
        check(
            Call::MayRun,
            Age::Outdated,
            &[(S::Success, Some(S::PaymentFailure), Inquired::Wait)],
        );
    }

    #[test]
    fn a_failure_that_money_may_follow_on_after_all_is_open_again() {
        let said = Some(Said { status: S::Unknown, reopens: true });
        for failed in [S::PaymentFailure, S::PluginFailure] {
            assert_eq!(decide(failed, said, Call::Over, Age::Newest), Inquired::Book);
            assert_eq!(decide(failed, said, Call::MayRun, Age::Newest), Inquired::BookEarly);
            assert_eq!(decide(failed, said, Call::Over, Age::Outdated), Inquired::Confirm);
            assert_eq!(decide(failed, said, Call::MayRun, Age::Outdated), Inquired::Wait);
        }
    }
}
