//! Snapshots, their changes and their segments.

use evaluation::{
    Condition, Flag, IN_SEGMENT, MissingAttribute, Rule, Segment, SegmentRule, Snapshot, User,
};

fn in_segments(ids: &str) -> Condition {
    Condition { property: IN_SEGMENT.to_owned(), value: ids.to_owned(), ..Condition::default() }
}

fn segment(id: &str, second: u8, inner: &str) -> Segment {
    Segment {
        id: id.to_owned(),
        updated_at: format!("2026-01-01T00:00:{second:02}.250Z"),
        rules: vec![SegmentRule { conditions: vec![in_segments(inner)], ..SegmentRule::default() }],
        ..Segment::default()
    }
}

fn flag(key: &str, second: u8, segments: &str) -> Flag {
    Flag {
        key: key.to_owned(),
        updated_at: format!("2026-01-01T00:00:{second:02}Z"),
        rules: vec![Rule { conditions: vec![in_segments(segments)], ..Rule::default() }],
        ..Flag::default()
    }
}

const START_MS: i64 = 1_767_225_600_000;

#[test]
fn a_flag_changes_when_a_segment_that_it_uses_changes() {
    let snapshot = Snapshot::new(MissingAttribute::Empty).with(
        [flag("plain", 9, "[]"), flag("direct", 1, r#"["outer"]"#), flag("absent", 3, r#"["x"]"#)],
        [segment("outer", 2, r#"["inner"]"#), segment("inner", 5, r#"["outer"]"#)],
    );
    let changed = |key: &str| {
        let flag = snapshot.flag(key).expect("the flag exists");
        snapshot.changed_at_ms(flag) - START_MS
    };
    assert_eq!(changed("plain"), 9_000);
    assert_eq!(changed("direct"), 5_250);
    assert_eq!(changed("absent"), 3_000);
    let uses = |key: &str, id: &str| {
        snapshot.uses_segment(snapshot.flag(key).expect("the flag exists"), id)
    };
    assert!(uses("direct", "inner") && uses("direct", "outer"));
    assert!(!uses("plain", "inner"));
}

#[test]
fn segments_on_a_cycle_contain_no_one() {
    let snapshot = Snapshot::new(MissingAttribute::Empty)
        .with([], [segment("a", 0, r#"["b"]"#), segment("b", 0, r#"["a"]"#)]);
    assert!(!snapshot.is_in_segment("a", &User::new("ann")));
    assert_eq!(snapshot.segment("b").map(|it| it.segment().id.as_str()), Some("b"));
    assert!(snapshot.segment("c").is_none());
}

#[test]
fn a_change_leaves_the_old_snapshot_unchanged() {
    let on = Flag { is_enabled: true, ..flag("beta", 1, "[]") };
    let before = Snapshot::new(MissingAttribute::Empty).with([on], []);
    let after = before.with([flag("beta", 2, "[]"), flag("other", 2, "[]")], []);
    let reason = |snapshot: &Snapshot| {
        let evaluation = snapshot.evaluate("beta", &User::new("ann"));
        evaluation.map(|it| it.reason.text().to_owned())
    };
    assert_eq!(reason(&before).as_deref(), Some("default"));
    assert_eq!(reason(&after).as_deref(), Some("flag disabled"));
    assert_eq!(before.flags().count(), 1);
    assert_eq!(after.without_flag("beta").flags().count(), 1);
    assert_eq!(reason(&after.without_flag("beta")), None);
}
