//! Questions for balances, answered together: those that come while one read runs are the next read,
//! which looks at each account once, however many ask for it.

use std::sync::{Mutex, PoisonError};

use domain::{AccountId, TenantNo};
use tokio::sync::oneshot;

use crate::ports::LedgerTotal;
use crate::{Engine, Reason, Unavailable};

/// How many accounts one read looks at, at most.
const ACCOUNTS_MAX: usize = 1_024;

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

    /// All that wait; where there are none, reading ends.
    fn next(&self) -> Vec<Question> {
        let mut waiting = self.lock();
        waiting.is_being_read = !waiting.questions.is_empty();
        std::mem::take(&mut waiting.questions)
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
        let mut questions = engine.shared().balances.next();
        if questions.is_empty() {
            return;
        }
        questions.sort_unstable_by_key(|question| question.account);
        let mut asked: Vec<Vec<Question>> = vec![];
        for question in questions {
            match asked.last_mut() {
                Some(same) if same[0].account == question.account => same.push(question),
                _ => asked.push(vec![question]),
            }
        }
        for part in asked.chunks_mut(ACCOUNTS_MAX) {
            read(&engine, part).await;
        }
    }
}

/// Answers the questions for each of some accounts.
async fn read(engine: &Engine, asked: &mut [Vec<Question>]) {
    let accounts: Vec<(TenantNo, AccountId)> = asked.iter().map(|same| same[0].account).collect();
    let answers = match engine.read(move |queries| queries.balances(&accounts)).await {
        Ok(balances) => balances.into_iter().map(Ok).collect(),
        Err(unavailable) => vec![Err(unavailable); asked.len()],
    };
    for (same, answer) in asked.iter_mut().zip(answers) {
        for question in same.drain(..) {
            // The caller may have gone away.
            drop(question.answer.send(answer.clone()));
        }
    }
}
