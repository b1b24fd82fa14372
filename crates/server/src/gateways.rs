//! The payment gateways of a process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Clock;
use engine::ports::Gateway;
use gateway::external::External;
use gateway::http_gateway::HttpGateway;
use gateway::simulator::pages::{Paged, Pages};
use gateway::simulator::script::{Scripted, Scripts};
use gateway::simulator::{self, Notification, Remote, Simulator};
use gateway::stripe::{self, Stripe};
use gateway::tenants::Tenants;
use secrets::Sealer;
use tokio::sync::mpsc;

use crate::engine_parts::Gateways;
use config::Config;

/// Where the simulator keeps its journal, within the data directory.
pub const SIMULATOR_DIR: &str = "simulator";

/// The gateways, before there is an engine.
pub struct GatewaySetup {
    pub gateways: Gateways,
    /// Those of the simulator, where it answers.
    pub notifications: Option<mpsc::Receiver<Notification>>,
    /// Gateways read tenants with it, once it has an engine.
    pub tenants: Arc<Tenants>,
    /// The tenants' scripts for the simulator.
    pub scripts: Scripts,
}

impl GatewaySetup {
    /// Sets up the gateways of the configuration. The simulator is among them only where somebody wants it: a
    /// production tenant must not be able to fake a payment.
    ///
    /// # Errors
    /// Where the simulator's journal or URL cannot be used.
    pub fn new(
        config: &Config,
        clock: &Clock,
        sealer: Option<&Arc<Sealer>>,
    ) -> Result<Self, gateway::Error> {
        let (mut gateways, tenants) = (Gateways::new(), Arc::<Tenants>::default());
        let scripts = Scripts::new(config.gateway.simulator.attaches_methods);
        gateways.insert(domain::EXTERNAL_PAYMENT.to_owned(), Arc::new(External));
        for name in stripe::NAMES {
            let reads = (clock.clone(), Arc::clone(&tenants));
            let own = (sealer.cloned(), config.public_url.clone());
            let options = config.gateway.stripe.options(name, reads, own);
            gateways.insert(name.to_owned(), Arc::new(Stripe::new(options)));
        }
        for (name, settings) in &config.gateway.http {
            let reads = (clock.clone(), Arc::clone(&tenants));
            let options = settings.options(config.test_clock, reads, sealer.cloned());
            gateways.insert(name.clone(), Arc::new(HttpGateway::new(options)));
        }
        let notifications = match config.simulates() {
            true => {
                let pages = Pages {
                    base_url: config.base_url(),
                    sealer: sealer.cloned(),
                    clock: clock.clone(),
                    action_timeout: config.gateway.simulator.action_timeout.0,
                };
                Some(simulator(config, pages, (&mut gateways, &scripts))?)
            }
            false => None,
        };
        Ok(Self { gateways, notifications, tenants, scripts })
    }
}

/// The simulator under its two names, and its notifications.
fn simulator(
    config: &Config,
    pages: Pages,
    (gateways, scripts): (&mut BTreeMap<String, Arc<dyn Gateway>>, &Scripts),
) -> Result<mpsc::Receiver<Notification>, gateway::Error> {
    let (url, options) =
        (&config.gateway.simulator.url, simulator_options(config, pages.clock.clone()));
    let (gateway, notifications): (Arc<dyn Gateway>, _) = if url.is_empty() {
        let simulator = Simulator::open(&simulator_dir(&config.data_dir), options)?;
        let notifications = simulator.notifications();
        (Arc::new(simulator), notifications)
    } else {
        let remote = Remote::new(url, options)?;
        let notifications = remote.notifications();
        (Arc::new(remote), notifications)
    };
    let gateway: Arc<dyn Gateway> = Arc::new(Scripted::new(gateway, scripts.clone()));
    let gateway: Arc<dyn Gateway> = Arc::new(Paged::new(gateway, pages));
    for name in [simulator::NAME, simulator::KILL_BILL_NAME] {
        gateways.insert(name.to_owned(), Arc::clone(&gateway));
    }
    Ok(notifications)
}

/// Where the simulator keeps its journal.
#[must_use]
pub fn simulator_dir(data_dir: &Path) -> PathBuf {
    data_dir.join(SIMULATOR_DIR)
}

/// How the simulator is set up.
#[must_use]
pub fn simulator_options(config: &Config, clock: Clock) -> simulator::Options {
    let wanted = &config.gateway.simulator;
    simulator::Options {
        timeout: wanted.timeout.0,
        settle_after: wanted.settle_after.0,
        attaches_methods: wanted.attaches_methods,
        clock,
    }
}
