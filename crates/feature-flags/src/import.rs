//! Many definitions at once: an import in FeatBit's shape, and copies from another environment.

use std::collections::{BTreeMap, BTreeSet};

use domain::flag::definition::{
    DEFINITIONS_MAX, Definition, DefinitionKind, Expected, NewDefinition,
};
use evaluation::{Condition, Flag, IN_SEGMENT, NOT_IN_SEGMENT, Segment};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::definition::{
    self, FlagIds, KEY_BYTES_MAX, check_flag_key, id_in_use, new_flag, new_segment,
};
use crate::document::{self, Unreadable};
use crate::error::{Error, WrongField};
use crate::validate::check;

/// The JSON of an import. Other fields than lists are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportJson {
    #[serde(default)]
    feature_flags: Vec<Value>,
    #[serde(default)]
    segments: Vec<Value>,
    /// Fields that the shape does not have.
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// An import, as far as it can be parsed.
#[derive(Clone, Default)]
pub struct Import {
    /// An empty flag in the place of one that cannot be parsed.
    flags: Vec<Flag>,
    /// A segment that cannot be parsed has only its id, so that conditions find it.
    segments: Vec<Segment>,
    /// Fields that have another type.
    wrong: Vec<WrongField>,
    /// The paths of documents that cannot be parsed: their other problems are not listed.
    unparsed: BTreeSet<String>,
}

impl Import {
    /// Parses an import.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it has a list of another name, which would be lost, or no or too many
    /// definitions.
    pub fn parse(json: ImportJson) -> Result<Self, Error> {
        if let Some((name, _)) = json.rest.iter().find(|(_, value)| value.is_array()) {
            let name: String = name.chars().take(KEY_BYTES_MAX).collect();
            return Err(Error::invalid(name, "there is no such list: `featureFlags`, `segments`"));
        }
        let mut import = Self::default();
        for (at, segment) in json.segments.into_iter().enumerate() {
            let id = segment["id"].as_str().unwrap_or_default().to_owned();
            let found = import.parse_one(format!("segments[{at}]"), segment);
            import.segments.push(found.unwrap_or_else(|| Segment { id, ..Segment::default() }));
        }
        for (at, flag) in json.feature_flags.into_iter().enumerate() {
            let found = import.parse_one(format!("featureFlags[{at}]"), flag);
            import.flags.push(found.unwrap_or_default());
        }
        if !(1..=DEFINITIONS_MAX).contains(&(import.flags.len() + import.segments.len())) {
            let reason = format!("1 to {DEFINITIONS_MAX} flags and segments were expected");
            return Err(Error::invalid("body", reason));
        }
        Ok(import)
    }

    fn parse_one<T: DeserializeOwned>(&mut self, path: String, value: Value) -> Option<T> {
        let found = definition::parse_lenient(value).map_err(|WrongField { field, reason }| {
            let field = if field.is_empty() { path.clone() } else { format!("{path}.{field}") };
            self.wrong.push(WrongField { field, reason });
            self.unparsed.insert(path);
        });
        found.ok()
    }

    /// How many flags and how many segments it has.
    #[must_use]
    pub const fn counts(&self) -> (usize, usize) {
        (self.flags.len(), self.segments.len())
    }

    /// Validates the import against the definitions of its environment; returns its rows.
    ///
    /// # Errors
    /// [`Error::WrongFields`] with all problems; [`Error::Invalid`]: the environment would have too
    /// many definitions.
    pub async fn validate(self, existing: &[Definition]) -> Result<Vec<NewDefinition>, Error> {
        let definitions = self.rows(existing).await?;
        let keys: BTreeSet<_> =
            existing.iter().map(|it| (it.key.kind, it.key.key.as_str())).collect();
        let new = definitions.iter().filter(|it| !keys.contains(&(it.kind, it.key.as_str())));
        if keys.len() + new.count() > DEFINITIONS_MAX {
            let reason = format!("the environment would have more than {DEFINITIONS_MAX}");
            return Err(Error::invalid("body", reason));
        }
        Ok(definitions)
    }

    async fn rows(self, existing: &[Definition]) -> Result<Vec<NewDefinition>, Error> {
        let (mut found, mut ids) = (vec![], FlagIds::of(existing));
        let mut new = Vec::with_capacity(self.flags.len() + self.segments.len());
        for (at, segment) in self.segments.iter().enumerate() {
            let path = format!("segments[{at}]");
            collect(new_segment(&path, segment, Expected::Anything), &mut new, &mut found)?;
        }
        for (at, flag) in self.flags.iter().enumerate() {
            let path = format!("featureFlags[{at}]");
            let is_new = !ids.has(&flag.key);
            if let Err(Error::Invalid { reason, .. }) = check_flag_key(&flag.key, is_new) {
                found.push(WrongField { field: format!("{path}.key"), reason });
            }
            let flag = new_flag(&path, flag, Expected::Anything);
            if flag.as_ref().is_ok_and(|it| !ids.claim(it)) {
                found.push(id_in_use(&path));
            }
            collect(flag, &mut new, &mut found)?;
        }
        let Self { flags, segments, mut wrong, unparsed } = self;
        match check(flags, segments, definition::segments(existing)?).await {
            Err(Error::WrongFields(more)) => found.extend(more),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        let is_unparsed =
            |field: &str| field.split('.').next().is_some_and(|it| unparsed.contains(it));
        wrong.extend(found.into_iter().filter(|it| !is_unparsed(&it.field)));
        if wrong.is_empty() { Ok(new) } else { Err(Error::WrongFields(wrong)) }
    }
}

/// Collects a row, or its wrong fields, so that all problems are listed.
fn collect(
    found: Result<NewDefinition, Error>,
    new: &mut Vec<NewDefinition>,
    wrong: &mut Vec<WrongField>,
) -> Result<(), Error> {
    match found {
        Ok(found) => new.push(found),
        Err(Error::WrongFields(more)) => wrong.extend(more),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The ids of the segments that a flag or a segment refers to.
///
/// # Errors
/// [`Unreadable`].
pub fn referenced_segments(definition: &Definition) -> Result<Vec<String>, Unreadable> {
    let conditions: Vec<Condition> = match definition.key.kind {
        DefinitionKind::Flag => {
            let rules = document::flag(definition)?.rules;
            rules.into_iter().flat_map(|rule| rule.conditions).collect()
        }
        DefinitionKind::Segment => {
            let rules = document::segment(definition)?.rules;
            rules.into_iter().flat_map(|rule| rule.conditions).collect()
        }
    };
    let is_reference = |it: &&Condition| it.property == IN_SEGMENT || it.property == NOT_IN_SEGMENT;
    let ids = conditions.iter().filter(is_reference);
    Ok(ids
        .flat_map(|it| serde_json::from_str::<Vec<String>>(&it.value).unwrap_or_default())
        .collect())
}

/// The rows of definitions that are copied from another environment, validated against this one. A
/// copied flag gets an id of its own; a segment keeps its id, which conditions contain.
///
/// # Errors
/// [`Error::WrongFields`].
pub async fn validate_copies(
    copied: &[&Definition],
    existing: &[Definition],
) -> Result<Vec<NewDefinition>, Error> {
    let (mut flags, mut segments): (Vec<Flag>, Vec<Segment>) = (vec![], vec![]);
    let mut new = Vec::with_capacity(copied.len());
    for it in copied {
        match it.key.kind {
            DefinitionKind::Flag => {
                let flag = Flag { id: String::new(), ..document::flag(it)? };
                new.push(new_flag("", &flag, Expected::Anything)?);
                flags.push(flag);
            }
            DefinitionKind::Segment => {
                let segment = document::segment(it)?;
                new.push(new_segment("", &segment, Expected::Anything)?);
                segments.push(segment);
            }
        }
    }
    check(flags, segments, definition::segments(existing)?).await?;
    Ok(new)
}
