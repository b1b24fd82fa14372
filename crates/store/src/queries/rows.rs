//! Reads of the rows that commands look at.

use std::collections::BTreeSet;

use domain::read::Read;
use domain::state::State;
use engine::ports::{RowQueries, StoreError};

use super::SqlQueries;
use crate::load;
use crate::recent::Recent;
use crate::share::Share;

impl RowQueries for SqlQueries {
    fn rows(&self, reads: &BTreeSet<Read>) -> Result<State, StoreError> {
        // Holds nothing: each row is read.
        let recent = &mut Recent::new(0, Share::WHOLE);
        self.snapshot(|reader| load::state(reader, reads, recent, &self.claims, &self.catalogs))
    }
}
