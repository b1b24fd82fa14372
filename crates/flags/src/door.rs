//! What all routes share.

use std::sync::Arc;

use crate::board::Board;
use crate::settings::Settings;
use crate::streaming::socket::Patience;

/// What all routes share.
pub(crate) struct Door {
    pub(crate) board: Arc<Board>,
    pub(crate) settings: Settings,
    pub(crate) patience: Arc<Patience>,
}

impl Door {
    pub(crate) fn new(board: Arc<Board>, settings: Settings) -> Self {
        let patience = Arc::new(Patience {
            idle: settings.idle_timeout,
            write: settings.write_timeout,
            farewell: settings.farewell_timeout,
            behind_max: settings.behind_max,
        });
        Self { board, settings, patience }
    }
}
