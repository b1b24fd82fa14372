//! Erases customers who did not verify their address in time, with their queued mails.

use std::future::Future;
use std::time::Duration;

use domain::command::CustomerCommand;
use domain::customer::{Customer, EraseCustomer};
use domain::payment::Actor;
use domain::{Command, Request};
use engine::periodic::{Pass, Periodic};
use engine::{Answer, Engine, Unavailable};
use futures_util::future::join_all;

use crate::operations::OwnsAccount;

/// How often expired customers are erased.
const ERASE_EVERY: Duration = Duration::from_secs(60);

/// Customers per read.
const PAGE_CUSTOMERS: usize = 64;

/// Customers that are erased concurrently.
const CONCURRENT_MAX: usize = 32;

/// The user in the audit records.
const USER: &str = "sign-up";

/// Erases unverified customers whose account belongs to a partition, until `stop` is ready. Its owner runs this.
pub async fn run(engine: Engine, owns_account: OwnsAccount, stop: impl Future<Output = ()>) {
    let job = || async {
        match pass(&engine, &owns_account).await {
            Ok(0) => Pass::Idle,
            Ok(erased) => {
                tracing::info!(erased, "erased customers who did not verify their address in time");
                Pass::Idle
            }
            Err(error) => {
                tracing::warn!(error = %error, "failed to erase unverified customers; retrying");
                Pass::Failed
            }
        }
    };
    // A stop drops the pass; commands that it has submitted are executed regardless.
    Periodic::every(ERASE_EVERY).run(stop, job).await;
}

/// Erases all unverified customers of a partition whose deadline has passed, and returns their number.
///
/// # Errors
/// [`Unavailable`]: some customers may remain.
pub async fn pass(engine: &Engine, owns_account: &OwnsAccount) -> Result<usize, Unavailable> {
    let (now, mut after, mut erased) = (engine.clock().now(), None, 0);
    // Pages over all partitions. A customer whose erasure fails is left for the next pass.
    loop {
        let read =
            engine.read(move |queries| queries.customers_expired(now, after, PAGE_CUSTOMERS));
        let found = read.await?;
        let is_last = found.len() < PAGE_CUSTOMERS;
        after = found.last().and_then(|it| Some((it.expires_at?, it.id)));
        let mine: Vec<Customer> =
            found.into_iter().filter(|it| owns_account(it.tenant, it.account)).collect();
        for chunk in mine.chunks(CONCURRENT_MAX) {
            let done = join_all(chunk.iter().map(|customer| erase(engine, customer))).await;
            erased += done.into_iter().filter(|is_erased| *is_erased).count();
        }
        if is_last {
            return Ok(erased);
        }
    }
}

/// Whether a customer was erased. One who verified meanwhile is not: the command is refused.
async fn erase(engine: &Engine, customer: &Customer) -> bool {
    let id = engine.mint();
    let command = EraseCustomer { customer: customer.reference(), if_expired: true };
    let request = Request {
        id,
        tenant: customer.tenant,
        actor: Actor::new(USER, USER, id.0),
        idempotency: None,
        command: Command::Customer(CustomerCommand::Erase(command)),
    };
    match engine.submit_own(request).await {
        Ok(Answer::Replied(_)) => true,
        Ok(Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) => false,
        Err(error) => {
            let (tenant, id) = (customer.tenant.0, customer.id);
            tracing::warn!(error = %error, tenant, customer.id = %id, "failed to erase an unverified customer; retrying in the next pass");
            false
        }
    }
}
