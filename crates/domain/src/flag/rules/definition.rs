//! Flags and segments: how an environment takes a new version of them.

use std::collections::BTreeSet;

use crate::change::FlagChange;
use crate::context::Context;
use crate::flag::definition::{
    DEFINITIONS_MAX, Definition, Expected, NewDefinition, PutDefinitions,
};
use crate::flag::environment::{DEFINITIONS_BYTES_MAX, Environment};
use crate::reply::{FlagReply, Outcome};
use crate::state::State;
use crate::{Accepted, Event, FlagRejection, Rejection, Reply, Revision};

pub(crate) fn put(state: &State, it: &PutDefinitions, cx: &mut Context) -> Outcome {
    let Some(environment) = state.environment(cx.tenant, it.environment) else {
        return Err(FlagRejection::EnvironmentNotFound { id: it.environment }.into());
    };
    if environment.changes_need_approval {
        return Err(FlagRejection::ApprovalNeeded { environment: environment.key.clone() }.into());
    }
    if it.definitions.is_empty() || it.definitions.len() > DEFINITIONS_MAX {
        return Err(Rejection::invalid("definitions", "there are none or too many"));
    }
    check_version(environment, it.version)?;
    let version = put_into(state, environment.clone(), &it.definitions, cx)?;
    Ok(Accepted::now(Reply::Flag(FlagReply::DefinitionsPut { version })))
}

/// Whether an environment is still in the version that it was looked at in, where it was.
pub(crate) fn check_version(
    environment: &Environment,
    expected: Option<i64>,
) -> Result<(), Rejection> {
    if expected.is_none_or(|it| it == environment.version) {
        return Ok(());
    }
    let (key, version) = (environment.key.clone(), Some(environment.version));
    Err(FlagRejection::DefinitionChanged { key, version }.into())
}

/// Makes definitions in an environment, as it is to be but for what this changes of it, or puts them
/// in the place of those that are there; their version. Where it is refused, nothing was changed.
pub(crate) fn put_into(
    state: &State,
    environment: Environment,
    new: &[NewDefinition],
    cx: &mut Context,
) -> Result<i64, Rejection> {
    let version = cx.now.millis().max(environment.version + 1);
    let (mut there, mut bytes) = (environment.definitions, environment.definitions_bytes);
    let mut keys = BTreeSet::new();
    let mut definitions = Vec::with_capacity(new.len());
    for new in new {
        let key = new.key(environment.id);
        let before = state.definition(cx.tenant, &key);
        let is_expected = match (new.expected, before) {
            (Expected::Anything, _) | (Expected::Nothing, None) => true,
            (Expected::Nothing, Some(_)) | (Expected::Version(_), None) => false,
            (Expected::Version(version), Some(before)) => before.version == version,
        };
        if !is_expected {
            let version = before.map(|before| before.version);
            return Err(FlagRejection::DefinitionChanged { key: new.key.clone(), version }.into());
        }
        if !keys.insert(key.clone()) {
            return Err(Rejection::invalid("definitions", "a key is there twice"));
        }
        there += u32::from(before.is_none());
        bytes = bytes.saturating_sub(before.map_or(0, |before| before.body.len() as u64));
        bytes += new.body.len() as u64;
        definitions.push(Definition {
            tenant: cx.tenant,
            key,
            id: before.map_or(new.id, |before| before.id),
            body: new.body.clone(),
            is_archived: new.is_archived,
            version,
            created_at: before.map_or(cx.now, |before| before.created_at),
            revision: before.map_or(Revision::first(cx.seq), |before| before.revision.next(cx.seq)),
        });
    }
    if usize::try_from(there).unwrap_or(usize::MAX) > DEFINITIONS_MAX {
        return Err(Rejection::invalid("definitions", "the environment has too many"));
    }
    // One that has more already may still become smaller.
    if bytes > DEFINITIONS_BYTES_MAX.max(environment.definitions_bytes) {
        return Err(Rejection::invalid(
            "definitions",
            "would have more than 8 MiB in the environment",
        ));
    }
    let id = environment.id;
    cx.change(FlagChange::Environment(Environment {
        version,
        definitions: there,
        definitions_bytes: bytes,
        revision: environment.revision.next(cx.seq),
        ..environment
    }));
    definitions.into_iter().for_each(|it| cx.change(FlagChange::Definition(it)));
    cx.event(Event::DefinitionsChanged { environment: id, version });
    Ok(version)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::Command;
    use crate::command::FlagCommand;
    use crate::flag::definition::{DefinitionKey, DefinitionKind};
    use crate::flag::environment::CreateEnvironment;
    use crate::testing::{Rows, TENANT};
    use crate::{DefinitionId, EnvironmentId, Timestamp};

    const HERE: EnvironmentId = EnvironmentId::new(Uuid::from_u128(1));

    fn rows() -> Rows {
        let mut rows = Rows::new();
        let text = str::to_owned;
        rows.run(Command::Flag(FlagCommand::CreateEnvironment(CreateEnvironment {
            id: HERE,
            project: text("default"),
            key: text("dev"),
            name: text("Dev"),
            secrets: vec![],
        })))
        .unwrap();
        rows
    }

    /// Puts flags; the version that they have then.
    fn put(rows: &mut Rows, flags: &[(&str, &str, Expected)]) -> Result<i64, Rejection> {
        let id = DefinitionId::new(Uuid::from_u128(u128::from(rows.seq.unsigned_abs())));
        let new = |&(key, body, expected): &(&str, &str, Expected)| NewDefinition {
            kind: DefinitionKind::Flag,
            key: key.to_owned(),
            id,
            body: body.to_owned(),
            is_archived: false,
            expected,
        };
        let definitions = flags.iter().map(new).collect();
        put_upon(rows, None, definitions)
    }

    fn put_upon(
        rows: &mut Rows,
        version: Option<i64>,
        definitions: Vec<NewDefinition>,
    ) -> Result<i64, Rejection> {
        let put = PutDefinitions { environment: HERE, version, definitions };
        match rows.run(Command::Flag(FlagCommand::PutDefinitions(put)))?.reply {
            Some(Reply::Flag(FlagReply::DefinitionsPut { version })) => Ok(version),
            other => panic!("{other:?}"),
        }
    }

    fn flag(rows: &Rows, key: &str) -> Option<Definition> {
        let key =
            DefinitionKey { environment: HERE, kind: DefinitionKind::Flag, key: key.to_owned() };
        rows.state.definition(TENANT, &key).cloned()
    }

    #[test]
    fn versions_grow_whatever_the_clock_says() {
        let mut rows = rows();
        let first = put(&mut rows, &[("a", "1", Expected::Nothing)]).unwrap();
        assert_eq!(first, Timestamp(rows.now).millis());
        assert_eq!(put(&mut rows, &[("b", "1", Expected::Anything)]), Ok(first + 1));
        rows.now -= 1_000 * Timestamp::SECOND_US;
        assert_eq!(put(&mut rows, &[("a", "2", Expected::Version(first))]), Ok(first + 2));
        rows.now += 2_000 * Timestamp::SECOND_US;
        let last = put(&mut rows, &[("a", "3", Expected::Anything)]).unwrap();
        assert_eq!(last, Timestamp(rows.now).millis());
        let a = flag(&rows, "a").unwrap();
        assert_eq!((a.body.as_str(), a.version), ("3", last));
        // Made once.
        assert_eq!(a.id, DefinitionId::new(Uuid::from_u128(2)));
    }

    #[test]
    fn an_environment_that_was_changed_is_not_the_one_that_was_looked_at() {
        let mut rows = rows();
        let segment = || NewDefinition {
            kind: DefinitionKind::Segment,
            key: "s".to_owned(),
            id: DefinitionId::new(Uuid::from_u128(9)),
            body: "{}".to_owned(),
            is_archived: false,
            expected: Expected::Anything,
        };
        let first = put_upon(&mut rows, Some(0), vec![segment()]).unwrap();
        let second = put(&mut rows, &[("a", "1", Expected::Nothing)]).unwrap();
        let changed = Rejection::Flag(FlagRejection::DefinitionChanged {
            key: "dev".to_owned(),
            version: Some(second),
        });
        assert_eq!(put_upon(&mut rows, Some(first), vec![segment()]), Err(changed));
        put_upon(&mut rows, Some(second), vec![segment()]).unwrap();
    }

    /// Sent by a process that did not know of the version.
    #[test]
    fn a_command_without_a_version_is_read() {
        let text = r#"{"environment":"00000000-0000-0000-0000-000000000001","definitions":[]}"#;
        let read: PutDefinitions = serde_json::from_str(text).unwrap();
        assert_eq!((read.environment, read.version), (HERE, None));
    }

    #[test]
    fn an_environment_takes_so_many() {
        let mut rows = rows();
        let keys: Vec<String> = (0..=DEFINITIONS_MAX).map(|n| n.to_string()).collect();
        let flags: Vec<_> = keys.iter().map(|it| (it.as_str(), "1", Expected::Anything)).collect();
        put(&mut rows, &flags[..DEFINITIONS_MAX]).unwrap();
        let refused = put(&mut rows, &flags[DEFINITIONS_MAX..]);
        let full = Rejection::invalid("definitions", "the environment has too many");
        assert_eq!(refused, Err(full));
        put(&mut rows, &flags[..1]).unwrap();
    }

    #[test]
    fn an_environment_takes_so_many_bytes() {
        let mut rows = rows();
        let half = " ".repeat(4 * 1024 * 1024);
        put(&mut rows, &[("a", &half, Expected::Nothing)]).unwrap();
        put(&mut rows, &[("b", &half[1..], Expected::Nothing)]).unwrap();
        let refused = put(&mut rows, &[("c", "12", Expected::Nothing)]);
        let full =
            Rejection::invalid("definitions", "would have more than 8 MiB in the environment");
        assert_eq!(refused, Err(full.clone()));
        put(&mut rows, &[("b", &half, Expected::Anything)]).unwrap();
        assert_eq!(put(&mut rows, &[("c", "1", Expected::Nothing)]), Err(full));
        put(&mut rows, &[("a", "1", Expected::Anything), ("c", "1", Expected::Nothing)]).unwrap();
    }

    #[test]
    fn all_or_none() {
        let mut rows = rows();
        let version = put(&mut rows, &[("a", "1", Expected::Nothing)]).unwrap();
        let changed = Rejection::Flag(FlagRejection::DefinitionChanged {
            key: "a".to_owned(),
            version: Some(version),
        });
        let both = [("b", "1", Expected::Nothing), ("a", "2", Expected::Nothing)];
        assert_eq!(put(&mut rows, &both), Err(changed.clone()));
        assert_eq!(flag(&rows, "b"), None);
        let stale = [("a", "2", Expected::Version(version - 1))];
        assert_eq!(put(&mut rows, &stale), Err(changed));
        let gone = Rejection::Flag(FlagRejection::DefinitionChanged {
            key: "b".to_owned(),
            version: None,
        });
        assert_eq!(put(&mut rows, &[("b", "2", Expected::Version(version))]), Err(gone));
        let twice = [("c", "1", Expected::Anything), ("c", "2", Expected::Anything)];
        let refused = put(&mut rows, &twice);
        assert!(matches!(refused, Err(Rejection::InvalidParameter { .. })), "{refused:?}");
        let refused = put(&mut rows, &[]);
        assert!(matches!(refused, Err(Rejection::InvalidParameter { .. })), "{refused:?}");
    }
}
