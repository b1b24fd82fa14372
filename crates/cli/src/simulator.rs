//! `faregate simulator`: the simulated gateway as a process of its own, for crash tests and clusters.

use std::net::SocketAddr;
use std::path::PathBuf;

use config::Config;
use engine::Clock;
use gateway::simulator;
use server::serve::{self, Error, Signals};
use server::{gateways, node};

/// Options of `faregate simulator`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// Directory of its journal
    #[arg(long, value_name = "DIR", default_value = "faregate-simulator")]
    data_dir: PathBuf,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If it cannot listen or open its journal.
pub fn run(args: Args) -> Result<(), Error> {
    let config = Config::default();
    serve::raise_open_files();
    serve::runtime(&config)?.block_on(async {
        let mut signals = Signals::new().map_err(Error::Signals)?;
        let options = gateways::simulator_options(&config, Clock::new(false));
        let bound = simulator::bind(args.listen, &args.data_dir, options);
        let bound = bound.map_err(node::Error::from)?;
        let address = bound.address();
        if !address.ip().is_loopback() {
            tracing::warn!(
                %address,
                "the simulated gateway listens beyond this machine: each client that reaches it can charge, refund and read \
                 its transactions, without credentials"
            );
        }
        serve::say(&format!("listening on http://{address}"));
        let stop = async move { signals.wait().await };
        bound.run(stop).await;
        Ok(())
    })
}
