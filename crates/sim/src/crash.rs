//! Crash tests: the real binary, killed at random moments under load, must lose nothing, charge
//! nothing twice, and leave nothing open.

pub mod billing_day;
mod client;
mod clock;
mod http;
mod journal;
mod processes;
mod shop;
mod verdict;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use self::client::Client;
use self::clock::TestClock;
use self::http::{Connection, Identity};
use self::journal::Journal;
use self::processes::{Launch, Process};
use self::shop::Shared;
use self::verdict::Verdict;
use crate::random::Random;

/// How soon a process must be ready after its start.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// How many days pass after the last client, one after the other: more than a schedule of retries has steps.
const LAST_DAYS: u32 = 12;

/// How long what is due on one of these days may take until the next one comes.
const DUE_WITHIN_S: u32 = 5;

/// The pause between these days, so that open outcomes are not asked about for the last time too early.
const BETWEEN_DAYS: Duration = Duration::from_millis(500);

/// How many starts that were slow are shown.
const SHOWN_MAX: usize = 10;

/// `admin:password` in Base64 (RFC 4648).
const AUTHORIZATION: &str = "Basic YWRtaW46cGFzc3dvcmQ=";

/// The options of a crash test.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How often the server is killed.
    pub kills: u32,
    /// Everything random follows from it; the operating system's timing does not.
    pub seed: u64,
    /// Clients at the same time.
    pub clients: usize,
}

/// The server and the simulator that run during a test, with the state of the test.
struct Scene {
    dir: PathBuf,
    server: Process,
    simulator: Process,
    identity: Identity,
    shared: Vec<Shared>,
    clock: TestClock,
    settings: Launch,
    starts: Vec<Duration>,
}

/// The clients and how to stop them.
struct Crowd {
    stop: Arc<AtomicBool>,
    journal: Arc<Journal>,
    threads: Vec<JoinHandle<()>>,
}

/// Runs a crash test and says what came of it; false where something is wrong.
///
/// # Errors
/// Where the test itself cannot run.
pub fn run(options: Options, out: &mut impl Write) -> anyhow::Result<bool> {
    let Options { kills, seed, clients } = options;
    writeln!(out, "seed {seed}: {kills} kills under the load of {clients} clients")?;
    let started = Instant::now();
    let mut scene = Scene::set(seed)?;
    let crowd = Crowd::gather(&scene, options)?;
    let mut random = Random::new(seed, "kills");
    let mut simulator_kills = 0;
    for kill in 1..=kills {
        thread::sleep(Duration::from_millis(random.below(1_200) + 100));
        if random.chance(500) {
            // The retries that are due now are begun when the server is killed.
            scene.clock.pass_a_day(0)?;
            thread::sleep(Duration::from_millis(random.below(80)));
        }
        simulator_kills += u32::from(scene.strike(&mut random)?);
        if kill % 10 == 0 {
            let replies = crowd.journal.lock().replies;
            writeln!(out, "{kill} kills, {replies} replies, {:?}", started.elapsed())?;
        }
    }
    thread::sleep(Duration::from_secs(1));
    let journal = crowd.disperse();
    for _ in 0..LAST_DAYS {
        scene.clock.pass_a_day(DUE_WITHIN_S)?;
        thread::sleep(BETWEEN_DAYS);
    }
    let mut verdict = Verdict::default();
    scene.judge(&journal, &mut verdict)?;
    let sound = report(&verdict, &scene, Run { journal: &journal, options, simulator_kills }, out)?;
    if sound {
        drop(std::fs::remove_dir_all(&scene.dir));
    } else {
        writeln!(out, "logs, data and the clients' journal: {}", scene.dir.display())?;
    }
    Ok(sound)
}

impl Scene {
    fn set(seed: u64) -> anyhow::Result<Self> {
        let binary = processes::find_binary()?;
        let dir =
            std::env::temp_dir().join(format!("faregate-crash-{}-{seed}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let path = |name: &str| dir.join(name).display().to_string();
        let mut free = processes::free_addresses();
        let (Some(server_at), Some(simulator_at)) = (free.next(), free.next()) else {
            bail!("no port is free for the server and the gateway");
        };
        let arguments = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let simulator = Launch {
            binary: binary.clone(),
            arguments: arguments(&[
                "simulator",
                "--listen",
                &simulator_at.to_string(),
                "--data-dir",
                &path("simulator"),
            ]),
            environment: vec![],
            address: simulator_at,
            ready_path: "/health",
            log: dir.join("simulator.log"),
        };
        let data = path("data");
        let server = Launch {
            binary,
            arguments: arguments(&[
                "serve",
                "--test-clock",
                "--listen",
                &server_at.to_string(),
                "--data-dir",
                &data,
            ]),
            environment: environment(&simulator_at.to_string()),
            address: server_at,
            ready_path: "/health/ready",
            log: dir.join("server.log"),
        };
        let settings = server.clone();
        let (simulator, _) = Process::start(simulator)?;
        let (server, first) = Process::start(server)?;
        let identity = make_tenant(server_at)?;
        let shared = shop::open(&mut Connection::new(server_at), &identity)?;
        let clock = TestClock::new(server_at, identity.clone());
        Ok(Self { dir, server, simulator, identity, shared, clock, settings, starts: vec![first] })
    }

    /// Kills the server, now and then the gateway too, and starts them again; says whether the
    /// gateway was killed.
    fn strike(&mut self, random: &mut Random) -> anyhow::Result<bool> {
        let strikes_simulator = random.chance(250);
        let simulator_first = random.chance(500);
        if strikes_simulator && simulator_first {
            self.simulator.kill()?;
            thread::sleep(Duration::from_millis(random.below(200)));
        }
        self.server.kill()?;
        if strikes_simulator && !simulator_first {
            self.simulator.kill()?;
        }
        if strikes_simulator {
            thread::sleep(Duration::from_millis(random.below(100)));
            self.simulator.start_again()?;
        }
        self.starts.push(self.server.start_again()?);
        self.clock.restore()?;
        Ok(strikes_simulator)
    }

    /// Compares what the clients, the store and the gateway say.
    fn judge(&mut self, journal: &Journal, verdict: &mut Verdict) -> anyhow::Result<()> {
        let journal = journal.lock();
        let mut server = Connection::new(self.settings.address);
        let now = self.clock.now()?;
        let stored = verdict::payments((&mut server, &self.identity), (&journal, &now), verdict);
        verdict::clients(&journal, &stored, verdict);
        verdict::combos((&mut server, &self.identity), &journal, &stored, verdict);
        verdict::retries(&journal, &stored, verdict);
        let bought = verdict::bought((&mut server, &self.identity), &journal, verdict);
        verdict::purchases(&journal, &bought, [&now, &self.clock.now()?], verdict);
        verdict::usage((&mut server, &self.identity), &journal, verdict);
        let mut simulator = Connection::new(self.address_of_simulator()?);
        verdict::gateway(&mut simulator, &journal, (&stored, &bought), verdict);
        drop(journal);
        self.server.stop()?;
        self.check("verify", verdict)?;
        self.check("reconcile", verdict)?;
        self.simulator.stop()
    }

    /// Runs a check of the binary's own on the data that the server has left.
    fn check(&self, command: &'static str, verdict: &mut Verdict) -> anyhow::Result<()> {
        let data = self.dir.join("data").display().to_string();
        let arguments = [command, "--json", "--data-dir", &data].map(str::to_owned).to_vec();
        let (sound, printed) =
            processes::output_of(&Launch { arguments, ..self.settings.clone() })?;
        let found: Value = serde_json::from_str(&printed).unwrap_or_default();
        let problems =
            ["problemsFound", "differencesFound"].iter().find_map(|name| found[*name].as_i64());
        if !sound || problems != Some(0) {
            verdict.wrong.push(format!("faregate {command}: {printed}"));
        }
        Ok(())
    }

    fn address_of_simulator(&self) -> anyhow::Result<std::net::SocketAddr> {
        let mut environment = self.settings.environment.iter();
        let url = environment.find(|(name, _)| *name == SIMULATOR_URL);
        let address = url.and_then(|(_, url)| url.strip_prefix("http://"));
        address.context("the simulator has an address")?.parse().context("of a socket")
    }
}

const SIMULATOR_URL: &str = "FAREGATE_GATEWAY_SIMULATOR_URL";

/// Short timeouts and quick questions, so that a test does not take hours.
fn environment(simulator: &str) -> Vec<(&'static str, String)> {
    vec![
        ("FAREGATE_ADMIN_PASSWORD", "password".to_owned()),
        ("FAREGATE_LOG_LEVEL", "warn".to_owned()),
        ("FAREGATE_GATEWAY_SIMULATOR_ENABLED", "true".to_owned()),
        (SIMULATOR_URL, format!("http://{simulator}")),
        ("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "2s".to_owned()),
        ("FAREGATE_GATEWAY_SIMULATOR_SETTLE_AFTER", "1s".to_owned()),
        // A client that was not answered sends its key again, and days pass meanwhile.
        ("FAREGATE_IDEMPOTENCY_KEEP", "30d".to_owned()),
        ("FAREGATE_RESOLVER_UNKNOWN_DELAYS", "250ms,1s,1s,2s,4s,8s,16s,16s".to_owned()),
        ("FAREGATE_RESOLVER_PENDING_DELAYS", "1s,2s,4s,8s,16s,16s".to_owned()),
    ]
}

/// A tenant for the clients, whose controlled payments are retried.
fn make_tenant(server: std::net::SocketAddr) -> anyhow::Result<Identity> {
    let identity = Identity {
        authorization: AUTHORIZATION.to_owned(),
        api_key: "crash".to_owned(),
        api_secret: "crash".to_owned(),
    };
    let body = json!({ "apiKey": "crash", "apiSecret": "crash" }).to_string();
    let tenant = identity.request("POST", "/1.0/kb/tenants".to_owned(), body);
    let settings = json!({
        "faregate.payment.retry.api": "true",
        "org.killbill.payment.retry.days": verdict::RETRY_DAYS,
    });
    let target = "/1.0/kb/tenants/uploadPerTenantConfig".to_owned();
    let mut settings = identity.request("POST", target, settings.to_string());
    settings.headers.push(("Content-Type", "text/plain".to_owned()));
    let mut connection = Connection::new(server);
    for request in [tenant, settings] {
        let response = connection.send(&request).context("making a tenant")?;
        if response.status != 201 {
            let body = String::from_utf8_lossy(&response.body);
            bail!("the tenant was not made: {}: {} {body}", request.target, response.status);
        }
    }
    Ok(identity)
}

impl Crowd {
    fn gather(scene: &Scene, options: Options) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let journal = Journal::create(&scene.dir.join("clients.journal"));
        let journal = Arc::new(journal.context("the clients' journal")?);
        let mut threads = vec![];
        for no in 0..options.clients {
            let name = format!("c{no}");
            let random = Random::new(options.seed, &name);
            let (stop, journal) = (Arc::clone(&stop), Arc::clone(&journal));
            let connection = Connection::new(scene.settings.address);
            let identity = (scene.identity.clone(), scene.shared.clone());
            let mut client = Client::new((name, random), identity, connection, journal, stop);
            threads.push(thread::spawn(move || client.work()));
        }
        Ok(Self { stop, journal, threads })
    }

    /// Waits until every client has brought to an end what it has begun.
    fn disperse(self) -> Arc<Journal> {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.threads {
            if client.join().is_err() {
                self.journal.unexpected("a client panicked".to_owned());
            }
        }
        self.journal
    }
}

/// A run that has ended.
struct Run<'a> {
    journal: &'a Journal,
    options: Options,
    /// How often the gateway's process was killed.
    simulator_kills: u32,
}

fn report(
    verdict: &Verdict,
    scene: &Scene,
    Run { journal, options, simulator_kills }: Run<'_>,
    out: &mut impl Write,
) -> anyhow::Result<bool> {
    let slowest = scene.starts.iter().max().copied().unwrap_or_default();
    let slow = scene.starts.iter().filter(|took| **took > READY_WITHIN).count();
    let journal = journal.lock();
    writeln!(
        out,
        "seed {}: {} kills of the server, {simulator_kills} of the gateway; {} replies, {} requests \
         sent again; {} payments, {} of them combos, {} successes, {} charges, {} retries",
        options.seed,
        options.kills,
        journal.replies,
        journal.resent,
        verdict.payments,
        verdict.combos,
        verdict.successes,
        verdict.charges,
        verdict.retries,
    )?;
    writeln!(
        out,
        "{} purchases; {} events counted, {} reservations confirmed, {} left by clients that died",
        verdict.purchases, verdict.events, verdict.confirmed, verdict.dead,
    )?;
    writeln!(
        out,
        "ready after {slowest:?} at most ({slow} of {} starts took more than {READY_WITHIN:?}); \
         everything final {:?} after the last client",
        scene.starts.len(),
        verdict.settled_after,
    )?;
    for (what, list) in verdict.lists() {
        writeln!(out, "{} {what}", list.len())?;
        for line in list.iter().take(SHOWN_MAX) {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(verdict.is_sound() && slow == 0)
}
