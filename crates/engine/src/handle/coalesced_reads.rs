//! Questions that are answered together: those that come while one read runs are the next read, which looks at each
//! thing once, however many ask for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::ports::{Queries, StoreError};
use crate::{Engine, Reason, Unavailable};

/// How many things one read looks at, at most.
const READ_MAX: usize = 1_024;

/// Answers questions all at once, in their order.
type Read<K, T> = fn(&dyn Queries, &[K]) -> Result<Vec<T>, StoreError>;

/// Questions about things of one kind.
pub(crate) struct CoalescedReads<K, T> {
    waiting: Mutex<Waiting<K, T>>,
    read: Read<K, T>,
    /// Where an engine has these.
    of: fn(&Engine) -> &Self,
}

struct Waiting<K, T> {
    questions: Vec<Question<K, T>>,
    is_being_read: bool,
}

struct Question<K, T> {
    key: K,
    answer: oneshot::Sender<Result<T, Unavailable>>,
}

impl<K, T> CoalescedReads<K, T>
where
    K: Clone + Ord + Send + 'static,
    T: Clone + Send + 'static,
{
    pub(crate) const fn new(read: Read<K, T>, of: fn(&Engine) -> &Self) -> Self {
        let waiting = Mutex::new(Waiting { questions: vec![], is_being_read: false });
        Self { waiting, read, of }
    }

    /// Asks, and waits for the answer; refused where `most` wait already.
    pub(crate) async fn ask(&self, engine: &Engine, key: K, most: usize) -> Result<T, Unavailable> {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut waiting = self.lock();
            if waiting.questions.len() >= most {
                return Err(Reason::ReadersFull.into());
            }
            waiting.questions.push(Question { key, answer });
            !std::mem::replace(&mut waiting.is_being_read, true)
        };
        if begins {
            tokio::spawn(read_all(engine.clone(), self.of));
        }
        answered.await.unwrap_or_else(|_| Err(Reason::Bug.into()))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<K, T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that wait; where there are none, reading ends.
    fn next(&self) -> Vec<Question<K, T>> {
        let mut waiting = self.lock();
        waiting.is_being_read = !waiting.questions.is_empty();
        std::mem::take(&mut waiting.questions)
    }
}

async fn read_all<K, T>(engine: Engine, of: fn(&Engine) -> &CoalescedReads<K, T>)
where
    K: Clone + Ord + Send + 'static,
    T: Clone + Send + 'static,
{
    loop {
        let mut questions = of(&engine).next();
        if questions.is_empty() {
            return;
        }
        questions.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let mut asked: Vec<Vec<Question<K, T>>> = vec![];
        for question in questions {
            match asked.last_mut() {
                Some(same) if same[0].key == question.key => same.push(question),
                _ => asked.push(vec![question]),
            }
        }
        for part in asked.chunks_mut(READ_MAX) {
            read_some(&engine, of(&engine).read, part).await;
        }
    }
}

/// Answers the questions about some things.
async fn read_some<K, T>(engine: &Engine, read: Read<K, T>, asked: &mut [Vec<Question<K, T>>])
where
    K: Clone + Ord + Send + 'static,
    T: Clone + Send + 'static,
{
    let keys: Vec<K> = asked.iter().map(|same| same[0].key.clone()).collect();
    let answers = match engine.read(move |queries| read(queries, &keys)).await {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(unavailable) => vec![Err(unavailable); asked.len()],
    };
    for (same, answer) in asked.iter_mut().zip(answers) {
        for question in same.drain(..) {
            // The caller may have gone away.
            drop(question.answer.send(answer.clone()));
        }
    }
}
