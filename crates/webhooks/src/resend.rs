//! Has events delivered again: reads them from the journal and hands them to the follower, which treats them as it
//! treats first attempts. Only those that fail cost a row.

use std::sync::Arc;

use domain::{Seq, WebhookEndpointId};
use engine::ports::{JournalRow, Queries, StoreError};
use engine::webhooks::Replay;
use engine::{Engine, Unavailable};
use tokio::sync::{mpsc, oneshot};

use crate::endpoint::wants;
use crate::event::{EventOfRow, event_of, events_of};
use crate::targets::{Target, Targets};

/// Journal rows that were read to be delivered again.
pub struct ResentPage {
    /// The last one of them.
    pub upto: Seq,
    /// Whether it is the last one of the journal.
    pub is_last: bool,
    /// The number of deliveries, once each has succeeded, is postponed or is given up. Closed where the follower
    /// stopped before that.
    pub done: oneshot::Receiver<usize>,
}

/// Has a partition's events delivered again by its follower.
#[derive(Clone)]
pub struct Resender {
    engine: Engine,
    targets: Arc<Targets>,
    pages: mpsc::Sender<(Resent, Done)>,
}

/// Events of a tenant that are delivered again.
pub(crate) struct Resent {
    events: Vec<(Arc<JournalRow>, u16)>,
    targets: Arc<Vec<Arc<Target>>>,
    /// The only one of them that is meant, if any.
    endpoint: Option<WebhookEndpointId>,
}

/// Takes the number of a page's deliveries once each of them is done.
pub(crate) type Done = oneshot::Sender<usize>;

/// Pages for the follower.
pub(crate) type ResentPages = mpsc::Receiver<(Resent, Done)>;

/// Why events cannot be delivered again now.
#[derive(Debug, thiserror::Error)]
pub enum ResendError {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("the follower has stopped")]
    Stopped,
}

impl Resender {
    pub(crate) fn new(engine: Engine, targets: Arc<Targets>) -> (Self, ResentPages) {
        let (pages, resent) = mpsc::channel(1);
        (Self { engine, targets, pages }, resent)
    }

    /// Has delivered again what a replay asks for of up to `rows_max` journal rows behind `after`.
    ///
    /// # Errors
    /// [`ResendError`]; nothing is delivered then.
    pub async fn resend(
        &self,
        replay: &Replay,
        after: Seq,
        rows_max: usize,
    ) -> Result<ResentPage, ResendError> {
        let (wanted, of_tenants) = (replay.clone(), Arc::clone(&self.targets));
        let read = self.engine.read(move |queries| {
            let (rows, upto, is_last) = rows(queries, after, rows_max)?;
            let targets = of_tenants.of(queries, wanted.tenant)?;
            let events = rows.iter().flat_map(|row| asked_for(row, &wanted)).collect();
            Ok((events, targets, upto, is_last))
        });
        let (events, targets, upto, is_last) = read.await?;
        let (sender, done) = oneshot::channel();
        let resent = Resent { events, targets, endpoint: replay.endpoint };
        self.pages.send((resent, sender)).await.map_err(|_| ResendError::Stopped)?;
        Ok(ResentPage { upto, is_last, done })
    }
}

impl Resent {
    /// The events.
    pub(crate) fn events(&self) -> impl Iterator<Item = EventOfRow<'_>> {
        self.events.iter().filter_map(|(row, ordinal)| event_of(row, *ordinal))
    }

    /// Where to they are delivered.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Arc<Target>> {
        self.targets.iter().filter(|it| self.endpoint.is_none_or(|only| only == it.endpoint))
    }
}

/// Rows behind a row, how far they reach, and whether that is the end of the journal.
fn rows(
    queries: &dyn Queries,
    after: Seq,
    rows_max: usize,
) -> Result<(Vec<Arc<JournalRow>>, Seq, bool), StoreError> {
    let head = queries.journal_head()?;
    let (rows, upto) = queries.journal_after(after, rows_max)?;
    Ok((rows, upto, upto >= head))
}

/// The events of a row that a replay asks for.
fn asked_for<'r>(
    row: &'r Arc<JournalRow>,
    replay: &'r Replay,
) -> impl Iterator<Item = (Arc<JournalRow>, u16)> + use<'r> {
    let (from, to) = replay.times;
    let is_meant = row.tenant == replay.tenant && row.at >= from && row.at < to;
    let events = is_meant.then(|| events_of(row)).into_iter().flatten();
    let events = events.filter(|it| wants(&replay.events, it.kind));
    let events =
        events.filter(|it| replay.account.is_none_or(|only| Some(only) == it.event.account()));
    events.map(|it| (Arc::clone(row), it.ordinal))
}
