//! Validates new definitions against the environment that they are written to.

use std::collections::BTreeSet;

use domain::DefinitionId;
use domain::flag::definition::{Definition, DefinitionKind, Expected, NewDefinition};
use evaluation::{CompiledSegment, Flag, Segment, Snapshot};
use serde_json::Value;
use uuid::Uuid;

use crate::definition::{
    self, FLAG_FIELDS, FlagIds, SEGMENT_FIELDS, check_flag_key, id_in_use, new_flag, new_segment,
};
use crate::document::Unreadable;
use crate::error::{Error, WrongField};

/// How many wrong fields are listed; the rest is listed once these are right.
const WRONG_FIELDS_MAX: usize = 1_000;

/// The contents of an environment on which the validity of a definition depends.
pub struct Basis {
    /// The flags, where the id of a new flag is compared.
    flags: FlagIds,
    /// The segments, or stubs with only their ids, which suffice for flags.
    segments: Vec<Segment>,
}

impl Basis {
    /// From rows.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn of(definitions: &[Definition]) -> Result<Self, Unreadable> {
        let segments = definition::segments(definitions)?;
        Ok(Self { flags: FlagIds::of(definitions), segments })
    }

    /// From a snapshot, for any definition.
    #[must_use]
    pub fn of_snapshot(snapshot: &Snapshot) -> Self {
        let flags = snapshot.flags().filter_map(|it| {
            let id = Uuid::try_parse(&it.flag().id).ok()?;
            Some((it.flag().key.clone(), DefinitionId::new(id)))
        });
        let segments = snapshot.segments().map(CompiledSegment::segment).cloned().collect();
        Self { flags: flags.collect(), segments }
    }

    /// From a snapshot, for a flag whose id is not compared. A flag's problems depend on segments
    /// only by their existence.
    #[must_use]
    pub fn of_segment_ids(snapshot: &Snapshot) -> Self {
        let ids = snapshot.segments().map(|it| it.segment().id.clone());
        let segments = ids.map(|id| Segment { id, ..Segment::default() }).collect();
        Self { flags: FlagIds::default(), segments }
    }
}

/// Validates the document of a definition; returns its row. Wrong fields are named as in the document.
///
/// # Errors
/// [`Error::Invalid`]: it is no object; [`Error::WrongFields`] with all of them.
pub async fn validate(
    (kind, value): (DefinitionKind, Value),
    expected: Expected,
    basis: Basis,
) -> Result<NewDefinition, Error> {
    let Basis { mut flags, segments } = basis;
    match kind {
        DefinitionKind::Flag => {
            let flag: Flag = definition::parse(value, FLAG_FIELDS)?;
            let is_new = match expected {
                Expected::Nothing => true,
                Expected::Version(_) => false,
                Expected::Anything => !flags.has(&flag.key),
            };
            let key = check_flag_key(&flag.key, is_new);
            let new = new_flag("", &flag, expected).and_then(|new| match flags.claim(&new) {
                true => Ok(new),
                false => Err(Error::WrongFields(vec![id_in_use("")])),
            });
            let rules = check(vec![flag], vec![], segments).await;
            all([key, rules], new, "featureFlags[0].")
        }
        DefinitionKind::Segment => {
            let segment: Segment = definition::parse(value, SEGMENT_FIELDS)?;
            let new = new_segment("", &segment, expected);
            let rules = check(vec![], vec![segment], segments).await;
            all([Ok(()), rules], new, "segments[0].")
        }
    }
}

/// A new definition that passes all checks, or all of its wrong fields, each once and without the
/// `place` that it would have in an import.
fn all(
    checks: [Result<(), Error>; 2],
    new: Result<NewDefinition, Error>,
    place: &str,
) -> Result<NewDefinition, Error> {
    let (new, id) = match new {
        Ok(new) => (Some(new), Ok(())),
        Err(error) => (None, Err(error)),
    };
    let [key, rules] = checks;
    let mut wrong: Vec<WrongField> = vec![];
    for check in [key, id, rules] {
        let found = match check {
            Ok(()) => vec![],
            Err(Error::Invalid { field, reason }) => vec![WrongField { field, reason }],
            Err(Error::WrongFields(found)) => found,
            Err(error) => return Err(error),
        };
        for WrongField { field, reason } in found {
            let field = field.strip_prefix(place).unwrap_or(&field).to_owned();
            // An empty key is no key, and is empty.
            if !wrong.iter().any(|it| it.field == field) || field != "key" {
                wrong.push(WrongField { field, reason });
            }
        }
    }
    match new {
        Some(new) if wrong.is_empty() => Ok(new),
        Some(_) | None => Err(Error::WrongFields(wrong)),
    }
}

/// Checks flags and segments that are written to an environment with these `existing` segments, whose
/// own problems are not listed. Runs on a blocking thread: thousands of regular expressions take
/// long to compile.
///
/// # Errors
/// [`Error::WrongFields`].
pub async fn check(
    flags: Vec<Flag>,
    segments: Vec<Segment>,
    existing: Vec<Segment>,
) -> Result<(), Error> {
    let checking = tokio::task::spawn_blocking(move || wrong_fields(&flags, segments, existing));
    match checking.await.map_err(|_| Error::bug())? {
        found if found.is_empty() => Ok(()),
        found => Err(Error::WrongFields(found)),
    }
}

fn wrong_fields(flags: &[Flag], segments: Vec<Segment>, existing: Vec<Segment>) -> Vec<WrongField> {
    let new = segments.len();
    let mut all = segments;
    let replaced: BTreeSet<String> = all.iter().map(|it| it.id.clone()).collect();
    all.extend(existing.into_iter().filter(|it| !replaced.contains(&it.id)));
    let is_existing = |path: &str| {
        let number = path.strip_prefix("segments[").and_then(|rest| rest.split(']').next());
        number.and_then(|number| number.parse::<usize>().ok()).is_some_and(|at| at >= new)
    };
    let found = evaluation::problems(flags, &all);
    found
        .into_iter()
        .filter(|it| !is_existing(&it.path))
        .take(WRONG_FIELDS_MAX)
        .map(|it| WrongField { field: it.path, reason: it.kind.to_string() })
        .collect()
}
