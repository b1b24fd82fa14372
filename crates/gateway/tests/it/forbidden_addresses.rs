//! Addresses that nothing may be sent to, in every spelling that a resolver or a parser may take, with listeners that
//! must see nothing.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::GatewayCall;
use domain::payment::GatewayAnswer;
use engine::ports::{ControlDecision, Gateway as _};
use gateway::http_gateway::Base;
use gateway::push::{self, Reach, Resolver, validate_callback, validate_request_callback};
use tempfile::tempdir;

use crate::calls::{inquiry, knowledge, perform, purchase};
use crate::http_gateway::{controlled, gateway_of};
use crate::push::World;

/// One in each line.
const HOSTS: &str = include_str!("../forbidden_hosts.txt");

/// Listens on all addresses of this machine, and counts connections.
struct Listener {
    port: u16,
    seen: Arc<AtomicUsize>,
}

impl Listener {
    fn start() -> Self {
        let v4 = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = v4.local_addr().unwrap().port();
        let seen = Arc::<AtomicUsize>::default();
        // Not every machine has IPv6.
        let v6 = TcpListener::bind(("::1", port)).ok();
        for listener in [Some(v4), v6].into_iter().flatten() {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                for _ in listener.incoming() {
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { port, seen }
    }

    /// Fails where anything has connected, but for one connection that shows that it is seen.
    fn saw_nothing(&self) {
        std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while self.seen.load(Ordering::Relaxed) == 0 && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(self.seen.load(Ordering::Relaxed), 1);
    }
}

/// The last part of what an error says, which is the same for all hosts.
const REFUSALS: [&str; 4] = [
    "leads to an address that is not public",
    "the host has no address, or none that may be called",
    "is not a URL",
    "must have no user or password",
];

fn is_refusal(error: &str) -> bool {
    REFUSALS.iter().any(|it| error.ends_with(it))
}

#[tokio::test]
async fn no_spelling_is_stored_or_called_by_a_gateway() {
    let listener = Listener::start();
    assert!(HOSTS.lines().count() > 60);
    for host in HOSTS.lines() {
        let url = format!("http://{host}:{}/cb", listener.port);
        for stored in [
            validate_callback(&url, Reach::Public),
            validate_request_callback(&url.replace("http:", "https:"), Reach::Public),
        ] {
            let error = stored.expect_err(host).to_string();
            assert!(is_refusal(&error), "{host}: {error}");
        }
        assert!(Base::parse(&url, Reach::Public).is_err(), "{host}");
    }
    listener.saw_nothing();
}

/// Each try checks the address again, because the URL may have been stored before, or by another program.
#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_is_delivered_to() {
    let listener = Listener::start();
    let dir = tempdir().unwrap();
    let world = World::start(dir.path(), Reach::Public);
    let mut tenants = vec![];
    for (number, host) in HOSTS.lines().enumerate() {
        let url = format!("http://{host}:{}/cb", listener.port);
        tenants.push(world.tenant(&format!("t{number}"), &url).await);
    }
    let waiting = world.postponed(HOSTS.lines().count()).await;
    for delivery in &waiting {
        assert!(is_refusal(&delivery.error), "{}", delivery.error);
    }
    world.forward(push::RETRY_DELAYS[0]);
    world.quiet().await;
    for tenant in tenants {
        // Once the retry is not in progress any more.
        let is_sent = async |world: &World| world.resend(tenant).await.done.await == Ok(1);
        world.until(async |world| is_sent(world).await.then_some(())).await;
    }
    for delivery in &world.postponed(HOSTS.lines().count()).await {
        assert!(is_refusal(&delivery.error), "{}", delivery.error);
        assert_eq!(delivery.attempts, 1, "sent again");
    }
    listener.saw_nothing();
    world.stop().await;
}

/// The first look-up gives a public address, the next ones this machine and metadata services.
#[tokio::test]
async fn a_gateway_whose_name_is_rebound_is_not_connected_to() {
    let listener = Listener::start();
    let looked_up = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&looked_up);
    let resolve = move |_: &str, port: u16| {
        let address = |octets: [u8; 4], port| SocketAddr::from((Ipv4Addr::from(octets), port));
        match count.fetch_add(1, Ordering::Relaxed) {
            0 => vec![address([192, 31, 196, 1], 9)],
            _ => vec![address([127, 0, 0, 1], port), address([169, 254, 169, 254], 80)],
        }
    };
    let url = format!("http://rebound.example:{}", listener.port);
    let resolver = Resolver::Function(Arc::new(resolve));
    let gateway =
        || gateway_of(Base::parse(&url, Reach::Public).unwrap().resolved_by(resolver.clone()));
    let short = || GatewayCall { timeout_us: 300_000, ..purchase(1, "") };
    let not_sent = |answer: GatewayAnswer| match answer {
        GatewayAnswer::NotSent { message, .. } => message,
        other @ (GatewayAnswer::TimedOut
        | GatewayAnswer::Outcome(_)
        | GatewayAnswer::Failed { .. }
        | GatewayAnswer::Nothing) => format!("{other:?}"),
    };
    let public = not_sent(perform(&gateway(), short()).await);
    assert!(!is_refusal(&public), "a public address is connected to: {public}");
    // Without the connection to the public address, which may stay open.
    let gateway = gateway();
    let rebound = not_sent(perform(&gateway, short()).await);
    assert!(is_refusal(&rebound), "{rebound}");
    assert_eq!(knowledge(&gateway.inquire(inquiry(1)).await), "unreachable");
    let deadline = engine::Deadline::within(&engine::Clock::new(false), Duration::from_secs(1));
    let decided: Result<ControlDecision, String> = gateway.control(controlled(), deadline).await;
    assert!(is_refusal(&decided.unwrap_err()));
    assert_eq!(looked_up.load(Ordering::Relaxed), 4, "each connection looks the name up");
    listener.saw_nothing();
}
