//! What all routes share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::board::{Board, Grant};
use crate::limit::Sort;
use crate::reply::Refusal;
use crate::secret::SecretKind;
use crate::settings::Settings;
use crate::sockets::Open;
use crate::streaming::socket::Patience;

/// The secrets of SDKs.
pub(crate) const SDK: &[SecretKind] = &[SecretKind::Server, SecretKind::Client];

/// What all routes share.
pub(crate) struct Door {
    pub(crate) board: Arc<Board>,
    pub(crate) settings: Settings,
    pub(crate) patience: Arc<Patience>,
    /// Who listens to event streams.
    pub(crate) listeners: Arc<Open>,
    /// Room for streams whose secrets are not known yet.
    pub(crate) strangers: Semaphore,
}

impl Door {
    pub(crate) fn new(board: Arc<Board>, settings: Settings) -> Self {
        let patience = Arc::new(Patience {
            idle: settings.idle_timeout,
            write: settings.write_timeout,
            farewell: settings.farewell_timeout,
            behind_max: settings.behind_max,
        });
        let strangers = Semaphore::new(settings.strangers_max);
        Self { board, settings, patience, listeners: Arc::default(), strangers }
    }

    /// What a secret opens, if it is of one of these kinds and is not used too often. Asked before a
    /// request's body is read.
    pub(crate) fn open(
        &self,
        secret: Option<&str>,
        kinds: &[SecretKind],
        sort: Sort,
    ) -> Result<Arc<Grant>, Refusal> {
        if !self.board.is_available() {
            return Err(Refusal::Unavailable);
        }
        let grant = secret.and_then(|it| self.board.find(it));
        let grant = grant.filter(|it| kinds.contains(&it.kind())).ok_or(Refusal::Unauthorized)?;
        self.check_rate(&grant, sort)?;
        Ok(grant)
    }

    /// Refuses what comes too often with a secret.
    pub(crate) fn check_rate(&self, grant: &Grant, sort: Sort) -> Result<(), Refusal> {
        grant.check_rate(&self.settings.rate_limits, sort).map_err(Refusal::TooMany)
    }
}
