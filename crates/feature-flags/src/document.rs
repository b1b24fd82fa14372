//! Flags and segments as documents and as rows. A row has the key, the id, the times of creation and
//! change and whether it is archived; its body is the document without these.

use domain::Timestamp;
use domain::flag::definition::{Definition, DefinitionKind};
use evaluation::{Flag, Segment};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The fields of a flag that are columns of its row.
const OF_FLAG_ROW: &[&str] = &["id", "key", "envId", "createdAt", "updatedAt", "isArchived"];

/// The fields of a segment that are columns of its row.
const OF_SEGMENT_ROW: &[&str] = &["id", "envId", "createdAt", "updatedAt", "isArchived"];

/// A row whose body is no document of its kind.
#[derive(Debug, thiserror::Error)]
#[error("the document of {key} cannot be read, at byte {at}")]
pub struct Unreadable {
    key: String,
    at: usize,
}

/// A flag from its row.
///
/// # Errors
/// [`Unreadable`].
pub fn flag(row: &Definition) -> Result<Flag, Unreadable> {
    Ok(Flag {
        id: row.id.to_string(),
        key: row.key.key.clone(),
        env_id: row.key.environment.to_string(),
        created_at: created_at(row),
        updated_at: updated_at(row),
        is_archived: row.is_archived,
        ..read(row)?
    })
}

/// A segment from its row. Its id is its key: conditions name it as it is written there.
///
/// # Errors
/// [`Unreadable`].
pub fn segment(row: &Definition) -> Result<Segment, Unreadable> {
    Ok(Segment {
        id: row.key.key.clone(),
        env_id: row.key.environment.to_string(),
        created_at: created_at(row),
        updated_at: updated_at(row),
        is_archived: row.is_archived,
        ..read(row)?
    })
}

/// The flags and the segments among definitions, in their order.
///
/// # Errors
/// [`Unreadable`].
pub fn split(definitions: &[Definition]) -> Result<(Vec<Flag>, Vec<Segment>), Unreadable> {
    let (mut flags, mut segments) = (vec![], vec![]);
    for it in definitions {
        match it.key.kind {
            DefinitionKind::Flag => flags.push(flag(it)?),
            DefinitionKind::Segment => segments.push(segment(it)?),
        }
    }
    Ok((flags, segments))
}

/// The body of a flag's row.
#[must_use]
pub fn body_of_flag(flag: &Flag) -> String {
    body(flag, OF_FLAG_ROW)
}

/// The body of a segment's row.
#[must_use]
pub fn body_of_segment(segment: &Segment) -> String {
    body(segment, OF_SEGMENT_ROW)
}

/// Equal documents have equal bodies: fields are sorted by name.
fn body(document: &impl Serialize, of_row: &[&str]) -> String {
    let mut value = serde_json::to_value(document).expect("a document is plain data");
    if let Value::Object(fields) = &mut value {
        fields.retain(|name, _| !of_row.contains(&name.as_str()));
    }
    value.to_string()
}

fn read<T: DeserializeOwned>(row: &Definition) -> Result<T, Unreadable> {
    serde_json::from_str(&row.body)
        .map_err(|error| Unreadable { key: row.key.key.clone(), at: error.column() })
}

fn created_at(row: &Definition) -> String {
    rfc3339(row.created_at.millis())
}

fn updated_at(row: &Definition) -> String {
    rfc3339(row.version)
}

/// A time in milliseconds as RFC 3339 with three digits of them, as FeatBit writes it and some parsers
/// require it.
fn rfc3339(millis: i64) -> String {
    engine::time::rfc3339_millis(Timestamp(millis.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use domain::flag::definition::DefinitionKey;
    use domain::{Id, Revision, Seq, TenantNo};
    use expect_test::expect;
    use uuid::Uuid;

    use super::*;

    fn row(kind: DefinitionKind, key: &str, body: String) -> Definition {
        let environment = Id::new(Uuid::from_u128(1));
        Definition {
            tenant: TenantNo(1),
            key: DefinitionKey { environment, kind, key: key.to_owned() },
            id: Id::new(Uuid::from_u128(2)),
            body,
            is_archived: true,
            version: 1_674_813_283_583,
            created_at: Timestamp(1_673_841_716_630_999),
            revision: Revision::first(Seq(1)),
        }
    }

    #[test]
    fn a_flag_round_trips_through_its_row() {
        let flag = Flag {
            name: "Dark mode".to_owned(),
            key: "elsewhere".to_owned(),
            updated_at: "yesterday".to_owned(),
            is_enabled: true,
            ..Flag::default()
        };
        let body = body_of_flag(&flag);
        expect![[
            r#"{"creatorId":"","disabledVariationId":"","exptIncludeAllTargets":false,"fallthrough":{"dispatchKey":null,"includedInExpt":false,"variations":[]},"isEnabled":true,"name":"Dark mode","rules":[],"tags":[],"targetUsers":[],"updatorId":"","variationType":"","variations":[]}"#
        ]]
        .assert_eq(&body);
        let read = super::flag(&row(DefinitionKind::Flag, "dark-mode", body)).unwrap();
        let expected = Flag {
            id: "00000000-0000-0000-0000-000000000002".to_owned(),
            key: "dark-mode".to_owned(),
            env_id: "00000000-0000-0000-0000-000000000001".to_owned(),
            created_at: "2023-01-16T04:01:56.630Z".to_owned(),
            updated_at: "2023-01-27T09:54:43.583Z".to_owned(),
            is_archived: true,
            ..flag
        };
        assert_eq!(read, expected);
        assert_eq!(
            body_of_flag(&read),
            row(DefinitionKind::Flag, "", body_of_flag(&expected)).body
        );
        let error = super::flag(&row(DefinitionKind::Flag, "x", "{".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "the document of x cannot be read, at byte 1");
    }

    #[test]
    fn a_segment_round_trips_through_its_row() {
        let segment = Segment { included: vec!["ada".to_owned()], ..Segment::default() };
        let body = body_of_segment(&segment);
        expect![[r#"{"description":"","excluded":[],"included":["ada"],"name":"","rules":[]}"#]]
            .assert_eq(&body);
        let read = super::segment(&row(DefinitionKind::Segment, "AB", body)).unwrap();
        assert_eq!((read.id.as_str(), read.included.len(), read.is_archived), ("AB", 1, true));
    }
}
