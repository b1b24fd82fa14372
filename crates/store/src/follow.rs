//! Follows the chain of an entity through the journal, from its row back to its first image.

use domain::change::{Change, Image};
use domain::{Event, Seq};
use engine::ports::StoreError;

use crate::driver::{Load, Reader};
use crate::table::JOURNAL;

/// The command that brings a payment over from another system.
const IMPORT: &str = "ImportPayment";

/// How many images an entity has, or its name and what is wrong with its chain.
pub(crate) type Followed = Result<u64, (String, String)>;

/// Follows the chain of a row's entity. `newest` is the row as the journal would have it.
pub(crate) fn entity<T: Image>(
    newest: T,
    records: &mut Records<'_>,
    each: &mut dyn FnMut(&T, &Record) -> Result<(), String>,
) -> Result<Followed, StoreError> {
    let name = newest.name();
    Ok(walk(newest, records, each)?.map_err(|what| (name, what)))
}

/// Walks the chain of an entity back to its first image. `Ok(Err(_))` tells what is wrong with it.
fn walk<T: Image>(
    mut newest: T,
    records: &mut Records<'_>,
    each: &mut dyn FnMut(&T, &Record) -> Result<(), String>,
) -> Result<Result<u64, String>, StoreError> {
    let key = newest.key();
    let mut next = Some(newest.revision().seq);
    let mut images = 0;
    while let Some(seq) = next {
        let record = records.of(seq)?;
        let image = record.and_then(|record| {
            let mut images = record.changes.iter().filter_map(T::of);
            Some((record, images.find(|it| it.key() == key)?))
        });
        let Some((record, image)) = image else {
            return Ok(Err(format!("journal row {} has no image of it", seq.0)));
        };
        let at = image.revision();
        if at.seq != seq {
            return Ok(Err(format!("its image in journal row {} is of another row", seq.0)));
        }
        if images == 0 {
            // Only the journal knows the revision before.
            newest.revision_mut().previous = at.previous;
            if *image != newest {
                return Ok(Err(format!("it is not what journal row {} says", seq.0)));
            }
        }
        if at.previous.is_some_and(|previous| previous >= seq) {
            return Ok(Err(format!("its image in journal row {} follows on a later one", seq.0)));
        }
        if let Err(what) = each(image, record) {
            return Ok(Err(format!("its image in journal row {} {what}", seq.0)));
        }
        images += 1;
        next = at.previous;
    }
    Ok(Ok(images))
}

/// The changes and events of a journal row.
pub(crate) struct Record {
    pub(crate) changes: Vec<Change>,
    pub(crate) events: Vec<Event>,
    /// Whether the row imports data from another system: an import has no event.
    pub(crate) is_import: bool,
}

/// Journal rows by number. Those read last are kept: what changed together is asked for together.
pub(crate) struct Records<'c> {
    load: Load<'c>,
    kept: Vec<Option<(Seq, Record)>>,
}

impl<'c> Records<'c> {
    /// How many are kept: each number has one place.
    const KEPT: usize = 64;

    pub(crate) fn prepare(reader: &'c Reader) -> Result<Self, StoreError> {
        let load = reader.load("SELECT changes, events, command FROM journal WHERE seq = ?1")?;
        Ok(Self { load, kept: std::iter::repeat_with(|| None).take(Self::KEPT).collect() })
    }

    pub(crate) fn of(&mut self, seq: Seq) -> Result<Option<&Record>, StoreError> {
        let place = usize::try_from(seq.0).unwrap_or_default() % Self::KEPT;
        let kept = &mut self.kept[place];
        if kept.as_ref().is_none_or(|(at, _)| *at != seq) {
            let read = self.load.first(&[seq.into()], |cells| {
                cells.of(&JOURNAL);
                let changes = cells.opt_json()?.unwrap_or_default();
                let events = cells.opt_json()?.unwrap_or_default();
                Ok(Record { changes, events, is_import: cells.string()? == IMPORT })
            })?;
            *kept = read.map(|record| (seq, record));
        }
        Ok(kept.as_ref().map(|(_, record)| record))
    }
}
