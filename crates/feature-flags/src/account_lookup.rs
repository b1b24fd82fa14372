//! Looks up what users of feature flags are entitled to, for those who connect or ask.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Unavailable};

use crate::accounts::{Account, Accounts, UserKey, WANTED_MAX};

/// How long to wait after a look-up that failed.
pub const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// How often it is seen which connected users are to be looked up again.
const AGAIN_EVERY: Duration = Duration::from_secs(15);

/// The result of a look-up: the account of each user, where it has one.
pub type Found = Vec<(UserKey, Option<Account>)>;

/// Looks up users as they are wanted, until `stop` is ready.
pub async fn look_up(engine: Engine, accounts: Arc<Accounts>, stop: impl Future<Output = ()>) {
    let look_up = async {
        loop {
            let wanted = accounts.wanted(WANTED_MAX).await;
            match find(&engine, wanted.clone()).await {
                Ok(found) => accounts.learn(found),
                Err(error) => {
                    tracing::warn!(error = %error, "failed to look up users of feature flags; retried");
                    accounts.failed(wanted);
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    };
    tokio::select! {
        () = stop => {}
        () = look_up => {}
        () = look_again(&accounts) => {}
    }
}

/// Has connected users of whom nobody says what has changed looked up again, from time to time.
pub async fn look_again(accounts: &Accounts) {
    let mut every = tokio::time::interval(AGAIN_EVERY);
    loop {
        every.tick().await;
        accounts.want_outdated();
    }
}

/// Reads the accounts of users.
///
/// # Errors
/// [`Unavailable`]: the database cannot be read.
pub async fn find(engine: &Engine, wanted: Vec<UserKey>) -> Result<Found, Unavailable> {
    let now = engine.clock().now();
    engine
        .read(move |queries| {
            let found = |user: UserKey| {
                let account = Account::read(queries, (user.tenant, &user.key), now)?;
                Ok((user, account))
            };
            wanted.into_iter().map(found).collect()
        })
        .await
}
