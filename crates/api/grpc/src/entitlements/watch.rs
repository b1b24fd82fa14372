//! A stream of what an account may do: the newest document after each change, read when the client takes it.

use std::sync::Arc;
use std::time::Duration;

use domain::{AccountId, Timestamp};
use engine::Reason;
use engine::access::AccessError;
use engine::watched_accounts::{AccountWatch, NotWatched};
use futures_util::{Stream, StreamExt as _, stream};
use http::HeaderMap;
use tokio::time::{Instant, Interval};
use tonic::Status;
use web::NetworkPermit;

use super::{READ, read};
use crate::api::{EntitlementServiceWatchResponse, Entitlements};
use crate::call::{Authenticated, ServiceContext};
use crate::refusal::Refusal;

/// How often a stream checks whether its caller may still read the account, and whether its document has to be sent
/// again: less than half of the shortest time for which a document may be held.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// How long to wait after a read that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A stream, between two documents.
pub(super) struct Watch {
    context: Arc<ServiceContext>,
    caller: Authenticated,
    /// The metadata that authenticates the caller, and the generation of users and tenants with which it did; `None`
    /// until the first check, because they may have changed since the call was admitted.
    credentials: (HeaderMap, Option<i64>),
    account: AccountId,
    watch: AccountWatch,
    checks: Interval,
    /// The document that is not sent yet: the first.
    first: Option<Entitlements>,
    /// The version that was sent last.
    version: i64,
    /// When the document is sent again, and until when the client may hold it.
    renewed_at: Timestamp,
    valid_until: Timestamp,
    /// Whether the account may have changed since it was read.
    is_stale: bool,
    _permit: NetworkPermit,
}

impl Watch {
    /// Begins with a read: a call that is refused has no stream.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such account, too many streams are open, or the account cannot be read.
    pub(super) async fn begin(
        context: Arc<ServiceContext>,
        (caller, metadata): (Authenticated, HeaderMap),
        account: AccountId,
    ) -> Result<Self, Refusal> {
        let Some(permit) = context.streams.acquire(caller.client) else {
            metrics::counter!("faregate_refused_total", "reason" => "network_streams").increment(1);
            return Err(Refusal::Full);
        };
        // Before the read: what changes after it wakes the watch.
        let watch = context.watched.watch(caller.tenant.no, account);
        let watch = watch.map_err(|it| match it {
            NotWatched::Full => Refusal::Full,
            NotWatched::Ended => Refusal::Unavailable(Reason::Stopping.into()),
        })?;
        let (document, holding) = read(&context, &caller.tenant, account).await?;
        Ok(Self {
            context,
            caller,
            credentials: (metadata, None),
            account,
            watch,
            checks: tokio::time::interval_at(Instant::now() + CHECK_EVERY, CHECK_EVERY),
            version: document.version,
            renewed_at: holding.now.plus_us(holding.held_us / 2),
            valid_until: holding.until(),
            first: Some(document),
            is_stale: false,
            _permit: permit,
        })
    }

    /// The documents; a status ends them.
    pub(super) fn responses(
        self,
    ) -> impl Stream<Item = Result<EntitlementServiceWatchResponse, Status>> + Send {
        let documents = stream::try_unfold(self, |mut watch| async move {
            let document = watch.next().await?;
            Ok::<_, Refusal>(Some((document, watch)))
        });
        documents.map(|it| {
            let document = it.map_err(Status::from)?;
            Ok(EntitlementServiceWatchResponse { entitlements: Some(document) })
        })
    }

    /// The next document that differs, or is sent again.
    async fn next(&mut self) -> Result<Entitlements, Refusal> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        loop {
            tokio::select! {
                is_there = self.watch.changed() => match is_there {
                    true => self.is_stale = true,
                    false => return Err(Refusal::Unavailable(Reason::Stopping.into())),
                },
                _ = self.checks.tick() => self.check().await?,
                () = tokio::time::sleep(AGAIN_AFTER), if self.is_stale => {}
            }
            let now = self.context.engine.clock().now();
            if !self.is_stale && now < self.renewed_at {
                continue;
            }
            match read(&self.context, &self.caller.tenant, self.account).await {
                Ok((document, holding)) => {
                    self.is_stale = false;
                    if document.version == self.version && now < self.renewed_at {
                        continue;
                    }
                    self.version = document.version;
                    self.renewed_at = holding.now.plus_us(holding.held_us / 2);
                    self.valid_until = holding.until();
                    return Ok(document);
                }
                // What the client holds is still valid, and the store may be back soon.
                Err(Refusal::Unavailable(_)) if now < self.valid_until => self.is_stale = true,
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// Whether the caller may still read the account, where users, roles or tenants changed.
    async fn check(&mut self) -> Result<(), Refusal> {
        let (metadata, known) = &self.credentials;
        let generation = self.context.engine.access_generation();
        if *known == Some(generation) {
            return Ok(());
        }
        match Authenticated::of(&self.context.access, self.caller.client, metadata).await {
            Ok(caller) => (self.caller, self.credentials.1) = (caller, Some(generation)),
            // Not known now: asked again.
            Err(Refusal::Access(AccessError::Unavailable(_) | AccessError::Throttled { .. })) => {}
            Err(refusal) => return Err(refusal),
        }
        self.caller.require(READ)
    }
}
