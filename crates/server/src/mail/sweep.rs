//! Forgets customers who did not verify their address in time, with the mails that wait for them.

use std::future::Future;
use std::time::Duration;

use domain::customer::{Customer, CustomerCommand, EraseCustomer};
use domain::payment::Actor;
use domain::{Command, Request};
use engine::{Answer, Engine, Unavailable};
use futures_util::future::join_all;
use store::Share;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How many customers it asks for at a time.
const CUSTOMERS: usize = 64;

/// How many are forgotten at the same time.
const TOGETHER: usize = 32;

/// In whose name they are forgotten.
const USER: &str = "sign-up";

/// Forgets those whose account is in this share, until `stop` is ready. Each owner of a partition
/// runs this for its own.
pub async fn run(engine: Engine, share: Share, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    loop {
        let pass = async {
            match pass(&engine, share).await {
                Ok(0) => {}
                Ok(forgotten) => {
                    tracing::info!(forgotten, "customers did not verify their address in time");
                }
                Err(error) => tracing::warn!(error = %error, "customers wait to be forgotten"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        // A command that was begun is carried out or not, whether somebody waits for it or not.
        tokio::select! {
            () = pass => {}
            () = &mut stop => return,
        }
    }
}

/// Forgets all whose time is over; how many.
pub(super) async fn pass(engine: &Engine, share: Share) -> Result<usize, Unavailable> {
    let (now, mut after, mut all) = (engine.clock().now(), None, 0);
    // Each is looked at once, those of other shares too, and those that cannot be forgotten now.
    loop {
        let read = engine.read(move |queries| queries.customers_expired(now, after, CUSTOMERS));
        let found = read.await?;
        let is_last = found.len() < CUSTOMERS;
        after = found.last().and_then(|it| Some((it.expires_at?, it.id)));
        let mine: Vec<Customer> =
            found.into_iter().filter(|it| share.has(it.tenant, it.account)).collect();
        for together in mine.chunks(TOGETHER) {
            let done = join_all(together.iter().map(|customer| forget(engine, customer))).await;
            all += done.into_iter().filter(|is_done| *is_done).count();
        }
        if is_last {
            return Ok(all);
        }
    }
}

/// Whether a customer is forgotten. One who was quicker is not, which is as it should be.
async fn forget(engine: &Engine, customer: &Customer) -> bool {
    let id = engine.mint();
    let erase = EraseCustomer { customer: customer.reference(), if_expired: true };
    let request = Request {
        id,
        tenant: customer.tenant,
        actor: Actor {
            user: USER.to_owned(),
            created_by: USER.to_owned(),
            reason: None,
            comments: None,
            token: id.0,
        },
        idempotency: None,
        command: Command::Customer(CustomerCommand::Erase(erase)),
    };
    match engine.submit_own(request).await {
        Ok(Answer::Replied(_)) => true,
        Ok(Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) => false,
        Err(error) => {
            let (tenant, id) = (customer.tenant.0, customer.id);
            tracing::warn!(error = %error, tenant, customer.id = %id, "a customer is not forgotten");
            false
        }
    }
}
