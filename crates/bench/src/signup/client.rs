//! Sends one request at a time per caller, on idle or new connections.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use super::requests::{Operation, Verdict};
use crate::connection::{Connection, Failure};
use command_line::Target;

/// How much of an unexpected response is shown.
const SHOWN_BYTES: usize = 300;

/// The settings and connections of a run.
pub struct Client {
    pub target: Target,
    /// The operation under load.
    pub operation: Operation,
    /// Whether each request opens a new connection.
    pub opens_anew: bool,
    /// The header lines with credentials, if the API requires some.
    pub credentials: Option<String>,
    timeout: Duration,
    run: u64,
    number: Cell<u64>,
    idle: RefCell<Vec<Connection>>,
}

/// The result of a request.
pub struct Answer {
    /// How it is counted.
    pub verdict: Verdict,
    /// The beginning of an unexpected response's body.
    pub body: Option<String>,
}

impl Answer {
    /// Without a response.
    pub const fn none(kind: String) -> Self {
        Self { verdict: Verdict::Failed(kind), body: None }
    }
}

impl Client {
    /// A client with users of its own: their names are unique to the run.
    pub fn new(target: Target, operation: Operation, timeout: Duration) -> Self {
        Self {
            target,
            operation,
            opens_anew: false,
            credentials: None,
            timeout,
            // The second half of such an id is random.
            run: uuid::Uuid::now_v7().as_u64_pair().1,
            number: Cell::new(0),
            idle: RefCell::default(),
        }
    }

    /// Sends the request of the next user.
    pub async fn send_next(&self) -> Answer {
        let number = self.number.get();
        self.number.set(number + 1);
        let credentials = self.credentials.as_deref();
        let request = self.operation.request(&self.target, credentials, (self.run, number));
        match self.exchange(&request).await {
            Ok(answer) => answer,
            Err(failure) => Answer::none(failure.to_string()),
        }
    }

    async fn exchange(&self, request: &[u8]) -> Result<Answer, Failure> {
        let deadline = Instant::now() + self.timeout;
        let idle = self.idle.borrow_mut().pop();
        let mut connection = Connection::reuse(idle, self.target.address, self.timeout).await?;
        let response = connection.exchange(request, deadline).await?;
        let body = response.body(connection.received());
        let verdict = self.operation.verdict(response.status, &body);
        let shown = (verdict != Verdict::Done).then(|| {
            let shown = &body[..body.len().min(SHOWN_BYTES)];
            String::from_utf8_lossy(shown).into_owned()
        });
        if !self.opens_anew && !response.close {
            self.idle.borrow_mut().push(connection);
        }
        Ok(Answer { verdict, body: shown })
    }
}
