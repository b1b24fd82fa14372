//! Addresses that no gateway may be called at, with a listener that must see nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::GatewayCall;
use domain::payment::GatewayAnswer;
use engine::ports::{ControlDecision, Gateway as _};
use outbound::{Base, Reach, Resolver};

use crate::calls::{inquiry, knowledge, perform, purchase};
use crate::http_gateway::{controlled, gateway_of};
use crate::listener::Listener;

/// The last part of the error for a host that may not be called.
const REFUSAL: &str = "the host has no address, or none that may be called";

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
    assert!(!public.ends_with(REFUSAL), "a public address is connected to: {public}");
    // Without the connection to the public address, which may stay open.
    let gateway = gateway();
    let rebound = not_sent(perform(&gateway, short()).await);
    assert!(rebound.ends_with(REFUSAL), "{rebound}");
    assert_eq!(knowledge(&gateway.inquire(inquiry(1)).await), "unreachable");
    let deadline = engine::Deadline::within(&engine::Clock::new(false), Duration::from_secs(1));
    let decided: Result<ControlDecision, String> = gateway.control(controlled(), deadline).await;
    assert!(decided.unwrap_err().ends_with(REFUSAL));
    assert_eq!(looked_up.load(Ordering::Relaxed), 4, "each connection looks the name up");
    listener.saw_nothing();
}
