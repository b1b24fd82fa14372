//! Puts definitions that were judged by what is there, also where others change that all the time.

use domain::definition::PutDefinitions;
use domain::{Command, Reply};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::find;
use crate::native::Native;
use crate::native::caller::Asking;
use crate::problem::Problem;

/// A place among those who change definitions: beside the others, or alone.
pub struct Turn<'n> {
    native: &'n Native,
    alone: Option<RwLockWriteGuard<'n, ()>>,
}

impl<'n> Turn<'n> {
    /// A place beside the others.
    pub const fn new(native: &'n Native) -> Self {
        Self { native, alone: None }
    }

    /// Puts definitions.
    ///
    /// # Errors
    /// Where it is refused.
    pub async fn put(&self, asking: &Asking, put: PutDefinitions) -> Result<Reply, Problem> {
        let _beside: Option<RwLockReadGuard<'_, ()>> = match self.alone {
            Some(_) => None,
            None => Some(self.native.turns.read().await),
        };
        find::submit(self.native, asking, Command::PutDefinitions(put)).await
    }

    /// Keeps the others of this process waiting from now on: they were quicker once, and would be
    /// again and again. Other processes do not wait, so that it can happen once more.
    pub async fn wait_to_be_alone(&mut self) {
        if self.alone.is_none() {
            self.alone = Some(self.native.turns.write().await);
        }
    }
}
