//! A client: a runtime for one thread, and a connection to each target.

use anyhow::Context as _;
use tokio::runtime::Runtime;

use super::channel::{Channel, Failure};
use super::plan::{Accounts, Ask, Heads, Plan};

/// A client that is connected.
pub struct Client {
    /// Drives the connections while it is waited in.
    pub runtime: Runtime,
    /// One per target, in their order.
    pub lanes: Vec<Lane>,
}

/// A connection to one target.
pub struct Lane {
    /// The connection.
    pub channel: Channel,
    /// The heads of the requests to it.
    pub heads: Heads,
}

impl Client {
    /// Connects to each target.
    pub fn open(plan: &Plan) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context("starting a runtime")?;
        let lanes = runtime.block_on(async {
            let mut lanes = Vec::new();
            for target in &plan.targets {
                let opened = Channel::open(target, plan.timeout).await;
                let channel = opened.with_context(|| format!("--targets {}", target.authority))?;
                lanes.push(Lane { channel, heads: plan.heads(target) });
            }
            anyhow::Ok(lanes)
        })?;
        Ok(Self { runtime, lanes })
    }

    /// Makes the accounts.
    pub fn make_accounts(&self, plan: &Plan, count: u32) -> Result<Accounts, Failure> {
        let channels: Vec<_> = self.lanes.iter().map(|lane| lane.channel.clone()).collect();
        self.runtime.block_on(plan.make_accounts(&channels, count))
    }

    /// Asks for one balance on each connection: what a connection costs at first is paid then, and
    /// the client has heard how many calls the server takes at a time.
    pub fn probe(&mut self, plan: &Plan, accounts: &Accounts) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            for (lane, target) in self.lanes.iter_mut().zip(&plan.targets) {
                let body = accounts.request(Ask::Balance, 0);
                let answered = lane.channel.exchange(&lane.heads.probe, body, plan.timeout).await;
                let checked = Ask::Balance.check(answered);
                checked.map_err(|problem| anyhow::anyhow!("{}: {problem}", target.authority))?;
            }
            Ok(())
        })
    }
}
