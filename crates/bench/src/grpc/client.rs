//! A client: a runtime for one thread, and a connection to each target.

use anyhow::Context as _;
use tokio::runtime::Runtime;

use super::channel::{Channel, Failure};
use super::plan::{Accounts, Heads, Plan, RequestKind};

/// A connected client.
pub struct Client {
    /// Drives the connections while a thread blocks on it.
    pub runtime: Runtime,
    /// One per target, in the targets' order.
    pub lanes: Vec<Lane>,
}

/// A connection to one target.
pub struct Lane {
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

    /// Creates the accounts.
    pub fn create_accounts(&self, plan: &Plan, count: u32) -> Result<Accounts, Failure> {
        let channels: Vec<_> = self.lanes.iter().map(|lane| lane.channel.clone()).collect();
        self.runtime.block_on(plan.create_accounts(&channels, count))
    }

    /// Reads one balance on each connection, so that its first use is not measured and the server's
    /// limit of calls at a time is known.
    pub fn probe(&mut self, plan: &Plan, accounts: &Accounts) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            for (lane, target) in self.lanes.iter_mut().zip(&plan.targets) {
                let body = accounts.request(RequestKind::Balance, 0);
                let answered = lane.channel.exchange(&lane.heads.probe, body, plan.timeout).await;
                let checked = RequestKind::Balance.check(answered);
                checked.map_err(|problem| anyhow::anyhow!("{}: {problem}", target.authority))?;
            }
            Ok(())
        })
    }
}
