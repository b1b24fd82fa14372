//! A billing day under kills: all subscriptions are due at once, the server is killed while it invoices them, clients
//! change, cancel and pay meanwhile. In the end each day of each subscription is charged once, and each invoice paid once.

mod days;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::http::{Connection, Identity, Request, Response};
use super::verdict::Verdict;
use super::{Options, Scene};
use crate::random::Random;

/// How soon billing goes on after the server is ready.
const GOES_ON_WITHIN: Duration = Duration::from_secs(2);

/// How soon everything is final after the last kill.
const FINAL_WITHIN: Duration = Duration::from_secs(60);

/// How old the server's metrics are at most, and a little more.
const METRICS_AGE: Duration = Duration::from_millis(1_200);

/// A month passes again after so many kills.
const KILLS_PER_MONTH: u32 = 20;

/// The plans that are changed between, with their prices in USD.
const PLANS: [(&str, &str, u32); 2] = [("monthly", "Basic", 20), ("better", "More", 35)];

/// An account with its subscription.
#[derive(Clone, Debug)]
struct Subscriber {
    account: String,
    subscription: String,
}

/// The clients that change, cancel and pay, and how to stop them.
struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Answers that say that the server is wrong.
    unexpected: Arc<Mutex<Vec<String>>>,
    done: Arc<AtomicUsize>,
}

/// Runs the test with so many subscriptions, and says what came of it; false where something is wrong.
///
/// # Errors
/// Where the test itself cannot run.
pub fn run(options: Options, subscriptions: usize, out: &mut impl Write) -> anyhow::Result<bool> {
    let Options { kills, seed, clients } = options;
    writeln!(out, "seed {seed}: {kills} kills on a billing day of {subscriptions} subscriptions")?;
    let mut scene = Scene::set(seed)?;
    let subscribers = Arc::new(subscribe(&scene, (subscriptions, clients), seed)?);
    let clients = Clients::gather(&scene, &subscribers, options);
    let mut random = Random::new(seed, "kills");
    let (mut slowest, mut months) = (Duration::ZERO, 0);
    for kill in 0..kills {
        if kill % KILLS_PER_MONTH == 0 {
            scene.clock.pass(32, 0)?;
            months += 1;
        }
        thread::sleep(Duration::from_millis(random.below(500) + 30));
        scene.strike(&mut random)?;
        slowest = slowest.max(goes_on(&scene)?);
    }
    let mut verdict = Verdict::default();
    clients.disperse(out, &mut verdict)?;
    let took = settle(&mut scene, &mut verdict)?;
    let counts = judge(&mut scene, &subscribers, &mut verdict)?;
    writeln!(
        out,
        "{months} months: {} invoices, {} of them paid by hand after a payment that failed; billing went on \
         {slowest:?} after ready at most; everything final {took:?} after the last kill",
        counts.invoices, counts.unpaid,
    )?;
    if slowest > GOES_ON_WITHIN {
        verdict.wrong.push(format!("billing went on only {slowest:?} after ready"));
    }
    for (what, list) in verdict.lists().into_iter().filter(|(_, list)| !list.is_empty()) {
        writeln!(out, "{} {what}", list.len())?;
        for line in list.iter().take(super::SHOWN_MAX) {
            writeln!(out, "  {line}")?;
        }
    }
    match verdict.is_sound() {
        true => drop(std::fs::remove_dir_all(&scene.dir)),
        false => writeln!(out, "logs and data: {}", scene.dir.display())?,
    }
    Ok(verdict.is_sound())
}

fn ask(
    (server, identity): (&mut Connection, &Identity),
    (method, target): (&'static str, String),
    body: &Value,
) -> anyhow::Result<Response> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = identity.request(method, target, body);
    server.send(&request).with_context(|| format!("{method} {}", request.target))
}

fn read(server: (&mut Connection, &Identity), target: String) -> anyhow::Result<Value> {
    let response = ask(server, ("GET", target.clone()), &Value::Null)?;
    match response.status {
        200 => Ok(response.json()),
        status => bail!("GET {target}: {status}"),
    }
}

/// Makes the accounts with their subscriptions, whose first invoices are paid.
fn subscribe(
    scene: &Scene,
    (count, clients): (usize, usize),
    seed: u64,
) -> anyhow::Result<Vec<Subscriber>> {
    let mut server = Connection::new(scene.settings.address);
    for (plan, product, amount) in PLANS {
        let body = json!({
            "planId": plan, "productName": product, "productCategory": "BASE", "currency": "USD",
            "amount": amount, "billingPeriod": "MONTHLY", "trialLength": 0,
            "trialTimeUnit": "UNLIMITED",
        });
        let target = ("POST", "/1.0/kb/catalog/simplePlan".to_owned());
        let made = ask((&mut server, &scene.identity), target, &body)?;
        anyhow::ensure!(made.status == 201, "the plan {plan}: {}", made.status);
    }
    let clients = clients.max(1);
    let makers: Vec<JoinHandle<anyhow::Result<Vec<Subscriber>>>> = (0..clients)
        .map(|maker| {
            let (address, identity) = (scene.settings.address, scene.identity.clone());
            let random = Random::new(seed, &format!("maker {maker}"));
            let share = (count + clients - 1 - maker) / clients;
            thread::spawn(move || make(share, Connection::new(address), (&identity, random)))
        })
        .collect();
    let mut all = Vec::with_capacity(count);
    for maker in makers {
        all.extend(maker.join().map_err(|_| anyhow::anyhow!("a maker panicked"))??);
    }
    Ok(all)
}

fn make(
    count: usize,
    mut server: Connection,
    (identity, mut random): (&Identity, Random),
) -> anyhow::Result<Vec<Subscriber>> {
    let mut post = |target: String, body: &Value| {
        let made = ask((&mut server, identity), ("POST", target.clone()), body)?;
        let id = made.made().filter(|_| made.status == 201);
        id.with_context(|| format!("POST {target}: {}", made.status))
    };
    let mut made = Vec::with_capacity(count);
    for _ in 0..count {
        let account =
            post("/1.0/kb/accounts".to_owned(), &json!({ "currency": "USD", "timeZone": "UTC" }))?;
        let delay = if random.chance(300) { random.below(150) } else { 0 };
        let delay = json!({ "key": "delayMs", "value": delay.to_string() });
        let method =
            json!({ "pluginName": "faregate-simulator", "pluginInfo": { "properties": [delay] } });
        post(format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true"), &method)?;
        let body = json!({ "accountId": account, "planName": PLANS[0].0 });
        let subscription = post("/1.0/kb/subscriptions".to_owned(), &body)?;
        made.push(Subscriber { account, subscription });
    }
    Ok(made)
}

impl Clients {
    fn gather(scene: &Scene, of: &Arc<Vec<Subscriber>>, options: Options) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let unexpected = Arc::new(Mutex::new(vec![]));
        let done = Arc::new(AtomicUsize::new(0));
        let client = |no: usize| {
            let (address, identity) = (scene.settings.address, scene.identity.clone());
            let mut random = Random::new(options.seed, &format!("client {no}"));
            let (stop, of) = (Arc::clone(&stop), Arc::clone(of));
            let (unexpected, done) = (Arc::clone(&unexpected), Arc::clone(&done));
            thread::spawn(move || {
                let mut server = Connection::new(address);
                while !stop.load(Ordering::Relaxed) {
                    let (request, body) = random_request(&mut random, &of);
                    let what = request.1.clone();
                    match ask((&mut server, &identity), request, &body) {
                        Ok(answer) => {
                            done.fetch_add(1, Ordering::Relaxed);
                            if answer.status == 500 {
                                let body = String::from_utf8_lossy(&answer.body).into_owned();
                                let mut list = unexpected.lock().expect("no panic while locked");
                                list.push(format!("{what}: 500 {body}"));
                            }
                        }
                        // The server was killed.
                        Err(_) => thread::sleep(Duration::from_millis(20)),
                    }
                }
            })
        };
        let threads = (0..options.clients).map(client).collect();
        Self { stop, threads, unexpected, done }
    }

    fn disperse(self, out: &mut impl Write, verdict: &mut Verdict) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.threads {
            if client.join().is_err() {
                verdict.wrong.push("a client panicked".to_owned());
            }
        }
        let unexpected = self.unexpected.lock().expect("no panic while locked").clone();
        verdict.wrong.extend(unexpected);
        writeln!(out, "{} requests of clients were answered", self.done.load(Ordering::Relaxed))?;
        Ok(())
    }
}

/// A change of plan, a cancellation or a payment of one of the subscribers.
fn random_request(random: &mut Random, of: &[Subscriber]) -> ((&'static str, String), Value) {
    let at = random.below(u64::try_from(of.len()).unwrap_or(u64::MAX));
    let Subscriber { account, subscription } = &of[usize::try_from(at).unwrap_or_default()];
    let path = format!("/1.0/kb/subscriptions/{subscription}");
    match random.below(10) {
        0..=3 => {
            let (plan, ..) = PLANS[usize::from(random.chance(500))];
            let body = json!({ "accountId": account, "planName": plan });
            (("PUT", format!("{path}?billingPolicy=IMMEDIATE")), body)
        }
        4 => (("DELETE", format!("{path}?billingPolicy=END_OF_TERM")), Value::Null),
        _ => (("POST", format!("/1.0/kb/accounts/{account}/invoicePayments")), Value::Null),
    }
}

/// How long it takes a server that is ready until it has billed an account of those that are due.
fn goes_on(scene: &Scene) -> anyhow::Result<Duration> {
    let mut server = Connection::new(scene.settings.address);
    let mut due = || {
        let status = read((&mut server, &scene.identity), "/v1/billing".to_owned())?;
        status["due"].as_i64().context("/v1/billing has due")
    };
    let (ready, first) = (Instant::now(), due()?);
    while first > 0 && due()? >= first && ready.elapsed() < 2 * GOES_ON_WITHIN {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(ready.elapsed())
}

/// Waits until nothing is due or on its way any more.
fn settle(scene: &mut Scene, verdict: &mut Verdict) -> anyhow::Result<Duration> {
    let mut server = Connection::new(scene.settings.address);
    let began = Instant::now();
    loop {
        // What the metrics say is up to a second old.
        thread::sleep(METRICS_AGE);
        let status = read((&mut server, &scene.identity), "/v1/billing".to_owned())?;
        let (due, open) = (status["due"].as_i64(), outstanding(scene, &mut server)?);
        if (due, open) == (Some(0), Some(0)) {
            return Ok(began.elapsed());
        }
        if began.elapsed() > FINAL_WITHIN {
            verdict.open.push(format!("{due:?} accounts are due, {open:?} payments open"));
            return Ok(began.elapsed());
        }
    }
}

/// How many payments have no outcome, calls that run among them.
fn outstanding(scene: &Scene, server: &mut Connection) -> anyhow::Result<Option<u64>> {
    let token = std::fs::read_to_string(scene.dir.join("data/metrics.token"));
    let headers = vec![("Authorization", format!("Bearer {}", token.context("a token")?.trim()))];
    let target = "/metrics".to_owned();
    let request = Request { method: "GET", target, headers, body: String::new() };
    let metrics = String::from_utf8(server.send(&request)?.body)?;
    let mut lines = metrics.lines();
    let line = lines.find_map(|it| it.strip_prefix("faregate_outstanding_transactions "));
    Ok(line.and_then(|it| it.parse().ok()))
}

#[derive(Default)]
struct Counts {
    invoices: usize,
    /// Those whose payment failed, because the gateway was away.
    unpaid: usize,
}

/// Looks at every account's invoices, pays what is left, and has the store checked.
fn judge(scene: &mut Scene, of: &[Subscriber], verdict: &mut Verdict) -> anyhow::Result<Counts> {
    let mut server = Connection::new(scene.settings.address);
    let identity = scene.identity.clone();
    let today = scene.clock.now()?;
    let today = days::day(&today).context("the clock shows a date")?;
    let mut counts = Counts::default();
    for it in of {
        let invoices = invoices_of((&mut server, &identity), it)?;
        counts.invoices += invoices.len();
        let unpaid: Vec<_> =
            invoices.iter().filter(|it| it["balance"].as_f64() != Some(0.0)).collect();
        for invoice in &unpaid {
            check_unpaid((&mut server, &identity), invoice, verdict)?;
        }
        counts.unpaid += unpaid.len();
        if !unpaid.is_empty() {
            let pay = format!("/1.0/kb/accounts/{}/invoicePayments", it.account);
            ask((&mut server, &identity), ("POST", pay), &Value::Null)?;
            let left = invoices_of((&mut server, &identity), it)?;
            let left = left.iter().filter(|it| it["balance"].as_f64() != Some(0.0)).count();
            if left > 0 {
                verdict.unpaid.push(format!("{left} invoices of {} cannot be paid", it.account));
            }
        }
        let path = format!("/1.0/kb/subscriptions/{}", it.subscription);
        let subscription = read((&mut server, &identity), path)?;
        let is_cancelled = subscription["cancelledDate"].is_string();
        let wrong = days::check(&invoices, (!is_cancelled).then_some(today));
        verdict.charged_twice.extend(wrong.map(|wrong| format!("{}: {wrong}", it.subscription)));
    }
    scene.server.stop()?;
    scene.check("verify", verdict)?;
    scene.check("reconcile", verdict)?;
    scene.simulator.stop()?;
    Ok(counts)
}

fn invoices_of(
    server: (&mut Connection, &Identity),
    it: &Subscriber,
) -> anyhow::Result<Vec<Value>> {
    let query = "includeInvoiceComponents=true";
    let all = read(server, format!("/1.0/kb/accounts/{}/invoices?{query}", it.account))?;
    all.as_array().cloned().context("invoices are a list")
}

/// An invoice is unpaid where its payments failed, not where nobody tried, and it is never paid too much.
fn check_unpaid(
    server: (&mut Connection, &Identity),
    invoice: &Value,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let id = invoice["invoiceId"].as_str().unwrap_or_default();
    if invoice["balance"].as_f64() < Some(0.0) {
        verdict.charged_twice.push(format!("invoice {id} is paid too much: {invoice}"));
    }
    let payments = read(server, format!("/1.0/kb/invoices/{id}/payments"))?;
    let mut by_status: BTreeMap<String, usize> = BTreeMap::new();
    for payment in payments.as_array().into_iter().flatten() {
        for transaction in payment["transactions"].as_array().into_iter().flatten() {
            let status = transaction["status"].as_str().unwrap_or_default();
            *by_status.entry(status.to_owned()).or_default() += 1;
        }
    }
    let failed = ["PAYMENT_FAILURE", "PLUGIN_FAILURE", "PAYMENT_SYSTEM_OFF"];
    if !by_status.keys().any(|status| failed.contains(&status.as_str())) {
        verdict.forgotten.push(format!("invoice {id} is unpaid, and nobody tried: {by_status:?}"));
    }
    Ok(())
}
