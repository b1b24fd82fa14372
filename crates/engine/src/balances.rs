//! Questions for balances, answered together: those that come while one read runs are the next read.

use std::sync::{Mutex, PoisonError};

use domain::{AccountId, TenantNo};
use tokio::sync::oneshot;

use crate::ports::LedgerTotal;
use crate::{Engine, Reason, Unavailable};

/// How many questions one read answers at most.
const QUESTIONS_MAX: usize = 1_024;

/// What an account adds up to, per currency; `None` where there is no such account.
type Balance = Option<Vec<LedgerTotal>>;

/// The questions that wait.
#[derive(Default)]
pub(crate) struct Balances(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    questions: Vec<Question>,
    is_being_read: bool,
}

struct Question {
    account: (TenantNo, AccountId),
    answer: oneshot::Sender<Result<Balance, Unavailable>>,
}

impl Balances {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next questions; where there are none, nobody reads any more.
    fn next(&self) -> Vec<Question> {
        let mut waiting = self.lock();
        let count = waiting.questions.len().min(QUESTIONS_MAX);
        waiting.is_being_read = count > 0;
        waiting.questions.drain(..count).collect()
    }
}

/// Asks, and waits for the answer; refused where `most` wait already.
pub(crate) async fn ask(
    engine: &Engine,
    account: (TenantNo, AccountId),
    most: usize,
) -> Result<Balance, Unavailable> {
    let (answer, answered) = oneshot::channel();
    let begins = {
        let mut waiting = engine.shared().balances.lock();
        if waiting.questions.len() >= most {
            return Err(Reason::ReadersFull.into());
        }
        waiting.questions.push(Question { account, answer });
        !std::mem::replace(&mut waiting.is_being_read, true)
    };
    if begins {
        tokio::spawn(read_all(engine.clone()));
    }
    answered.await.unwrap_or_else(|_| Err(Reason::Bug.into()))
}

async fn read_all(engine: Engine) {
    loop {
        let questions = engine.shared().balances.next();
        if questions.is_empty() {
            return;
        }
        let accounts: Vec<(TenantNo, AccountId)> = questions.iter().map(|it| it.account).collect();
        let read = engine.read(move |queries| queries.balances(&accounts)).await;
        match read {
            Ok(balances) => {
                for (question, balance) in questions.into_iter().zip(balances) {
                    // Whoever asked may have gone away.
                    drop(question.answer.send(Ok(balance)));
                }
            }
            Err(unavailable) => {
                for question in questions {
                    drop(question.answer.send(Err(unavailable.clone())));
                }
            }
        }
    }
}
