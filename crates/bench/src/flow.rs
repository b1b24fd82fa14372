//! One flow: a new account, a payment method on it, a purchase with it; in three requests or in one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::connection::{Connection, Failure};
use super::outcome::{Created, Done, Outcome, Problem, Step};
use super::request::{ID_BYTES, IdText, Identity, Template, Unsendable, flow_key, id_of};
use super::response::Response;
use super::tally::Tally;
use command_line::Target;

/// Connections being opened at one time: more would overrun the server's listen queue, and a dropped
/// SYN is retransmitted only after a second.
const CONNECTING_MAX: usize = 64;
/// A longer `Retry-After` is shortened to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// How much of an unexpected response is shown.
const SAMPLE_BYTES: usize = 300;

/// The requests of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// One for each step.
    Three,
    /// One combo payment.
    Combo,
}

/// The gateway that a flow's payment goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// Settles within the request.
    External,
    /// Answers after a delay.
    Simulator(Duration),
    /// Another program, whose name is `bench` in the server's configuration.
    Http,
    /// Stripe, or a fake of it.
    Stripe,
    /// The gateway that the tenant's rules choose.
    Router,
    /// Declines at once a controlled call, which is retried.
    Declining,
}

impl Gateway {
    const fn name(self) -> &'static str {
        match self {
            Self::External => "__EXTERNAL_PAYMENT__",
            Self::Http => "bench",
            Self::Stripe => "faregate-stripe",
            Self::Router => "faregate-router",
            Self::Simulator(_) | Self::Declining => "faregate-simulator",
        }
    }

    /// The status of a payment's answer.
    const fn status(self) -> u16 {
        match self {
            Self::External | Self::Simulator(_) | Self::Http | Self::Stripe | Self::Router => 201,
            Self::Declining => 402,
        }
    }

    /// The query of every payment, whatever names its plugin properties.
    const fn control(self) -> &'static str {
        match self {
            Self::External | Self::Simulator(_) | Self::Http | Self::Stripe | Self::Router => "",
            Self::Declining => "?controlPluginName=faregate-rules",
        }
    }

    /// The query that the payment's path gets.
    fn query(self) -> String {
        match self {
            Self::External | Self::Http | Self::Stripe | Self::Router => String::new(),
            Self::Simulator(delay) => format!("?pluginProperty=delayMs%3D{}", delay.as_millis()),
            Self::Declining => {
                let properties =
                    "pluginProperty=IPCD_RETRIES%3Dtrue&pluginProperty=outcome%3DERROR";
                format!("{}&{properties}", self.control())
            }
        }
    }

    /// The plugin properties of a combo payment.
    fn properties(self) -> String {
        match self {
            Self::External | Self::Http | Self::Stripe | Self::Router => "[]".to_owned(),
            Self::Simulator(delay) => {
                format!(r#"[{{"key":"delayMs","value":"{}"}}]"#, delay.as_millis())
            }
            Self::Declining => {
                r#"[{"key":"IPCD_RETRIES","value":"true"},{"key":"outcome","value":"ERROR"}]"#
                    .to_owned()
            }
        }
    }
}

/// The flows of a run.
pub struct Flows<'a> {
    pub gateway: Gateway,
    /// The JSON that each payment method has for its gateway.
    pub plugin_info: &'a str,
    pub requests: Requests,
}

/// The settings and templates that all clients of a run share.
pub struct Plan {
    /// Where requests go.
    pub target: Target,
    /// How long a client waits for a response.
    pub timeout: Duration,
    /// Whether a refused request is retried after its `Retry-After`.
    pub honours_retry_after: bool,
    /// The steps that have a request, in order.
    templates: Vec<(Step, Template)>,
    /// The status of a payment's answer; other steps are answered with 201.
    payment_status: u16,
    run: u64,
    flows: AtomicU64,
    connecting: Semaphore,
}

impl Plan {
    /// Builds the templates of all requests.
    pub fn new(
        target: Target,
        identity: &Identity,
        Flows { gateway, plugin_info, requests }: Flows<'_>,
        timeout: Duration,
    ) -> Result<Self, Unsendable> {
        let account = r#"{"name":"Bench {key}","externalKey":"a-{key}","email":"{key}@example.com","currency":"USD"}"#;
        let method = format!(
            r#"{{"pluginName":"{}","externalKey":"m-{{key}}","pluginInfo":{plugin_info}}}"#,
            gateway.name()
        );
        let payment = r#"{"transactionType":"PURCHASE","amount":"10.00","currency":"USD","paymentExternalKey":"p-{key}","transactionExternalKey":"t-{key}"}"#;
        let payments = format!("/1.0/kb/accounts/{{account}}/payments{}", gateway.query());
        let methods = "/1.0/kb/accounts/{account}/paymentMethods?isDefault=true";
        let combo = format!(
            r#"{{"account":{account},"paymentMethod":{method},"transaction":{payment},"transactionPluginProperties":{}}}"#,
            gateway.properties()
        );
        let template = |path: &str, body: &str| Template::new(identity, &target, path, body);
        let templates = match requests {
            Requests::Three => vec![
                (Step::Account, template("/1.0/kb/accounts", account)?),
                (Step::PaymentMethod, template(methods, &method)?),
                (Step::Payment, template(&payments, payment)?),
            ],
            Requests::Combo => {
                let path = format!("/1.0/kb/payments/combo{}", gateway.control());
                vec![(Step::Payment, template(&path, &combo)?)]
            }
        };
        Ok(Self {
            target,
            timeout,
            honours_retry_after: true,
            templates,
            payment_status: gateway.status(),
            // The second half of such an id is random.
            run: uuid::Uuid::now_v7().as_u64_pair().1,
            flows: AtomicU64::new(0),
            connecting: Semaphore::new(CONNECTING_MAX),
        })
    }

    /// Opens a connection, at most [`CONNECTING_MAX`] at a time.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        let _permit = self.connecting.acquire().await.expect("the semaphore is never closed");
        Connection::open(self.target.address, self.timeout).await
    }
}

/// A client with one connection that runs one flow at a time.
pub struct Client<'a> {
    plan: &'a Plan,
    tally: &'a Mutex<Tally>,
    connection: Option<Connection>,
    request: Vec<u8>,
    flow_number: u64,
}

enum Stop {
    Problem(Problem),
    Abandoned,
}

impl<'a> Client<'a> {
    /// A client that has not connected yet.
    pub fn new(plan: &'a Plan, tally: &'a Mutex<Tally>) -> Self {
        Self { plan, tally, connection: None, request: Vec::with_capacity(1024), flow_number: 0 }
    }

    /// Connects ahead of the first request.
    pub async fn connect(&mut self) -> Result<(), Failure> {
        self.connection = Some(self.plan.connect().await?);
        Ok(())
    }

    /// Runs one flow. Its first step counts from `due`, which may have passed a while ago; a
    /// refused step is sent again until `until`.
    pub async fn flow(&mut self, due: Instant, until: Instant) -> Outcome {
        let plan = self.plan;
        self.flow_number = plan.flows.fetch_add(1, Ordering::Relaxed);
        let key = flow_key(plan.run, self.flow_number);
        let mut created = Created { key, account: [b'0'; ID_BYTES], payment: [b'0'; ID_BYTES] };
        let mut took = [None; 3];
        let mut started = due;
        for (step, template) in &plan.templates {
            let step = *step;
            template.fill(&created.key, &created.account, &mut self.request);
            match self.step(step, until).await {
                Ok(id) => match step {
                    Step::Account => created.account = id,
                    Step::PaymentMethod => {}
                    Step::Payment => created.payment = id,
                },
                Err(Stop::Abandoned) => return Outcome::Abandoned(step),
                Err(Stop::Problem(problem)) => return Outcome::Failed(problem),
            }
            let answered = Instant::now();
            took[step as usize] = Some(answered.saturating_duration_since(started));
            started = answered;
        }
        Outcome::Done(Done { took, created })
    }

    /// Sends the request until it is not refused. Returns the id at the end of its `Location`.
    async fn step(&mut self, step: Step, until: Instant) -> Result<IdText, Stop> {
        let problem = |kind: &dyn std::fmt::Display, answer| {
            Stop::Problem(Problem { kind: format!("{} {kind}", step.name()), answer })
        };
        let expected = match step {
            Step::Account | Step::PaymentMethod => 201,
            Step::Payment => self.plan.payment_status,
        };
        loop {
            let sent = Instant::now();
            let response = match self.exchange(sent + self.plan.timeout).await {
                Ok(response) => response,
                Err(failure) => return Err(problem(&failure, None)),
            };
            if response.is_refusal() && self.plan.honours_retry_after {
                self.close_if(response.close);
                let now = Instant::now();
                self.tally.lock().expect(TALLY).refused(now, now - sent);
                let wait = self.wait(response.retry_after);
                if now + wait >= until {
                    return Err(Stop::Abandoned);
                }
                tokio::time::sleep(wait).await;
                continue;
            }
            let received = self.connection.as_ref().map_or(&[][..], Connection::received);
            let answered = match (response.status, &response.location) {
                (status, Some(location)) if status == expected => {
                    id_of(&received[location.clone()]).ok_or_else(|| {
                        problem(&format!("{status} with a Location that ends in no id"), None)
                    })
                }
                (201, None) => Err(problem(&"201 without Location", None)),
                (503, Some(_)) => Err(problem(&"503, outcome unknown", None)),
                (status, _) => Err(problem(&status, Some(sample(&response.body(received))))),
            };
            self.close_if(response.close);
            return answered;
        }
    }

    async fn exchange(&mut self, deadline: Instant) -> Result<Response, Failure> {
        let mut connection = match self.connection.take() {
            Some(connection) if !connection.is_stale() => connection,
            Some(_) | None => self.plan.connect().await?,
        };
        let response = connection.exchange(&self.request, deadline).await?;
        self.connection = Some(connection);
        Ok(response)
    }

    fn close_if(&mut self, close: bool) {
        if close {
            self.connection = None;
        }
    }

    /// The server's `Retry-After` plus up to a quarter, so that requests refused together are not
    /// retried together.
    fn wait(&self, retry_after: Option<Duration>) -> Duration {
        let requested = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        // Flow numbers times an odd constant are spread evenly over the range.
        let [spread, ..] = self.flow_number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        requested + requested / 4 * u32::from(spread) / 256
    }
}

const TALLY: &str = "no panic while locked";

/// The beginning of a body, on one line.
fn sample(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SAMPLE_BYTES)]);
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::schedule::Times;
    use crate::tally::Counted;

    const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nLocation: http://h/1.0/kb/x/01890a5d-ac96-774b-bcce-b302099a8057/\r\n\r\n";
    const LAST: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\nLocation: http://h/1.0/kb/x/01890a5d-ac96-774b-bcce-b302099a8057/\r\n\r\n";
    const REFUSED: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    const REFUSED_LONG: &str = "HTTP/1.1 429 Busy\r\nRetry-After: 99\r\nContent-Length: 0\r\n\r\n";
    const UNKNOWN: &str = "HTTP/1.1 503 Unknown\r\nLocation: http://h/1.0/kb/payments/x/\r\nContent-Length: 0\r\n\r\n";
    const CLOSE: &str = "";

    /// Runs one flow against a server that answers with `script`, one response per request, and
    /// shows the requests' targets and the outcome.
    async fn check(script: &'static [&'static str], honours: bool, expected: Expect) {
        check_requests(Requests::Three, (script, honours), expected).await;
    }

    async fn check_requests(
        requests: Requests,
        (script, honours): (&'static [&'static str], bool),
        expected: Expect,
    ) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let mut seen = Vec::new();
            let mut script = script.iter();
            while script.len() > 0 {
                let (mut stream, _) = listener.accept().await.unwrap();
                for response in script.by_ref() {
                    let mut request = [0; 2048];
                    let count = stream.read(&mut request).await.unwrap();
                    let text = String::from_utf8(request[..count].to_vec()).unwrap();
                    seen.push(text.lines().next().unwrap().to_owned());
                    stream.write_all(response.as_bytes()).await.unwrap();
                    if response.is_empty() || response.contains("close") {
                        break;
                    }
                }
            }
            seen
        });
        let identity = Identity {
            user: "admin".to_owned(),
            password: "password".to_owned(),
            api_key: "bob".to_owned(),
            api_secret: "lazar".to_owned(),
        };
        let target = Target { authority: address.to_string(), address };
        let gateway = Gateway::Simulator(Duration::from_secs(1));
        let timeout = Duration::from_secs(20);
        let mut plan =
            Plan::new(target, &identity, Flows { gateway, plugin_info: "{}", requests }, timeout)
                .unwrap();
        plan.honours_retry_after = honours;
        let tally = Mutex::new(Tally::new(Counted::ByEnd));
        let start = Instant::now();
        let end = start + Duration::from_secs(20);
        tally.lock().unwrap().set_times(Times { start, measured_from: start, end });
        let outcome = Client::new(&plan, &tally).flow(start, end).await;
        let shown = match outcome {
            Outcome::Done(done) => {
                assert!(done.took.iter().flatten().sum::<Duration>() <= start.elapsed());
                format!("made payment {}", String::from_utf8_lossy(&done.created.payment))
            }
            Outcome::Failed(problem) => format!("failed: {} {:?}", problem.kind, problem.answer),
            Outcome::Abandoned(step) => format!("abandoned at {}", step.name()),
        };
        let seen = server.await.unwrap().join("\n");
        let refused = tally.lock().unwrap().refusals.count();
        expected.assert_eq(&format!("{seen}\n{shown}, {refused} refused\n"));
    }

    #[tokio::test]
    async fn flow_creates_account_method_and_payment() {
        check(&[CREATED, CREATED, LAST], true, expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/payments?pluginProperty=delayMs%3D1000 HTTP/1.1
            made payment 01890a5d-ac96-774b-bcce-b302099a8057, 0 refused
        "#]]).await;
    }

    #[tokio::test]
    async fn combo_flow_is_one_request() {
        check_requests(
            Requests::Combo,
            (&[REFUSED, LAST], true),
            expect![[r#"
            POST /1.0/kb/payments/combo HTTP/1.1
            POST /1.0/kb/payments/combo HTTP/1.1
            made payment 01890a5d-ac96-774b-bcce-b302099a8057, 1 refused
        "#]],
        )
        .await;
    }

    #[tokio::test]
    async fn refused_steps_are_retried() {
        check(&[REFUSED, CREATED, REFUSED, REFUSED, CREATED, LAST], true, expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            POST /1.0/kb/accounts HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/payments?pluginProperty=delayMs%3D1000 HTTP/1.1
            made payment 01890a5d-ac96-774b-bcce-b302099a8057, 3 refused
        "#]]).await;
        check(&[CREATED, REFUSED], false, expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            failed: payment_method 503 Some(""), 0 refused
        "#]]).await;
    }

    #[tokio::test]
    async fn retry_after_the_end_is_abandoned() {
        check(&[CREATED, CREATED, REFUSED_LONG], true, expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/payments?pluginProperty=delayMs%3D1000 HTTP/1.1
            abandoned at payment, 1 refused
        "#]]).await;
    }

    /// The payment was taken: a retry could charge twice.
    #[tokio::test]
    async fn unknown_outcome_is_a_failure() {
        check(&[CREATED, CREATED, UNKNOWN], true, expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/payments?pluginProperty=delayMs%3D1000 HTTP/1.1
            failed: payment 503, outcome unknown None, 0 refused
        "#]]).await;
    }

    #[tokio::test]
    async fn closed_connections_are_reopened() {
        check(&[LAST, CREATED, LAST], true, expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/payments?pluginProperty=delayMs%3D1000 HTTP/1.1
            made payment 01890a5d-ac96-774b-bcce-b302099a8057, 0 refused
        "#]]).await;
        check(&[CREATED, CLOSE], true, expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            failed: payment_method closed by the server None, 0 refused
        "#]]).await;
    }

    #[tokio::test]
    async fn other_responses_are_failures() {
        const NOT_FOUND: &str =
            "HTTP/1.1 404 x\r\nContent-Length: 15\r\n\r\n{\"a\":\n\"gone\"}\r\n";
        check(&[CREATED, NOT_FOUND], true, expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            POST /1.0/kb/accounts/01890a5d-ac96-774b-bcce-b302099a8057/paymentMethods?isDefault=true HTTP/1.1
            failed: payment_method 404 Some("{\"a\": \"gone\"}  "), 0 refused
        "#]]).await;
        check(
            &["HTTP/1.1 201 x\r\nContent-Length: 0\r\n\r\n"],
            true,
            expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            failed: account 201 without Location None, 0 refused
        "#]],
        )
        .await;
        const NO_ID: &str =
            "HTTP/1.1 201 x\r\nLocation: /1.0/kb/accounts\r\nContent-Length: 0\r\n\r\n";
        check(
            &[NO_ID],
            true,
            expect![[r#"
            POST /1.0/kb/accounts HTTP/1.1
            failed: account 201 with a Location that ends in no id None, 0 refused
        "#]],
        )
        .await;
    }
}
