//! Sends one request at a time per caller, on connections that rest between them or on new ones.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use super::requests::{Sort, Verdict};
use crate::bench::connection::{Connection, Failure};
use crate::bench::target::Target;

/// How much of an unexpected answer is shown.
const SHOWN_BYTES: usize = 300;

/// What all requests of a run share.
pub struct Client {
    /// Where requests go.
    pub target: Target,
    /// What is asked for.
    pub sort: Sort,
    /// Whether each request has a connection of its own.
    pub opens_anew: bool,
    /// As whom, where anybody has to be: the value of `Authorization`.
    pub authorization: Option<String>,
    timeout: Duration,
    run: u64,
    number: Cell<u64>,
    resting: RefCell<Vec<Connection>>,
}

/// What became of a request, and what the server said where that was unexpected.
pub struct Answer {
    /// What is counted.
    pub verdict: Verdict,
    /// What the server said, shortened.
    pub said: Option<String>,
}

impl Answer {
    /// Nothing was sent, or nothing came back.
    pub const fn none(kind: String) -> Self {
        Self { verdict: Verdict::Failed(kind), said: None }
    }
}

impl Client {
    /// A client whose users are nobody else's.
    pub fn new(target: Target, sort: Sort, timeout: Duration) -> Self {
        Self {
            target,
            sort,
            opens_anew: false,
            authorization: None,
            timeout,
            // The second half of such an id is random.
            run: uuid::Uuid::now_v7().as_u64_pair().1,
            number: Cell::new(0),
            resting: RefCell::default(),
        }
    }

    /// Asks for the next user.
    pub async fn ask(&self) -> Answer {
        let number = self.number.get();
        self.number.set(number + 1);
        let authorization = self.authorization.as_deref();
        let request = self.sort.request(&self.target, authorization, (self.run, number));
        match self.exchange(&request).await {
            Ok(answer) => answer,
            Err(failure) => Answer::none(failure.to_string()),
        }
    }

    async fn exchange(&self, request: &[u8]) -> Result<Answer, Failure> {
        let deadline = Instant::now() + self.timeout;
        let rested = self.resting.borrow_mut().pop().filter(|resting| !resting.is_stale());
        let mut connection = match rested {
            Some(connection) => connection,
            None => Connection::open(self.target.address, self.timeout).await?,
        };
        let response = connection.exchange(request, deadline).await?;
        let body = response.body(connection.received());
        let verdict = self.sort.judge(response.status, &body);
        let said = (verdict != Verdict::Done).then(|| {
            let shown = &body[..body.len().min(SHOWN_BYTES)];
            String::from_utf8_lossy(shown).into_owned()
        });
        if !self.opens_anew && !response.close {
            self.resting.borrow_mut().push(connection);
        }
        Ok(Answer { verdict, said })
    }
}
