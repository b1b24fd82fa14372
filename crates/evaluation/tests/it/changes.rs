//! Snapshots that follow one another.

use evaluation::{
    Condition, Flag, IN_SEGMENT, MissingAttribute, Rule, Segment, SegmentRule, Snapshot, User,
};

fn asks(ids: &str) -> Condition {
    Condition { property: IN_SEGMENT.to_owned(), value: ids.to_owned(), ..Condition::default() }
}

fn segment(id: &str, second: u8, inner: &str) -> Segment {
    Segment {
        id: id.to_owned(),
        updated_at: format!("2026-01-01T00:00:{second:02}.250Z"),
        rules: vec![SegmentRule { conditions: vec![asks(inner)], ..SegmentRule::default() }],
        ..Segment::default()
    }
}

fn flag(key: &str, second: u8, segments: &str) -> Flag {
    Flag {
        key: key.to_owned(),
        updated_at: format!("2026-01-01T00:00:{second:02}Z"),
        rules: vec![Rule { conditions: vec![asks(segments)], ..Rule::default() }],
        ..Flag::default()
    }
}

const START_MS: i64 = 1_767_225_600_000;

#[test]
fn a_flag_is_as_new_as_the_newest_segment_it_asks_about() {
    let snapshot = Snapshot::new(MissingAttribute::Empty).with(
        [flag("plain", 9, "[]"), flag("direct", 1, r#"["outer"]"#), flag("absent", 3, r#"["x"]"#)],
        [segment("outer", 2, r#"["inner"]"#), segment("inner", 5, r#"["outer"]"#)],
    );
    let changed = |key: &str| {
        let flag = snapshot.flag(key).expect("it is there");
        snapshot.changed_at_ms(flag) - START_MS
    };
    assert_eq!(changed("plain"), 9_000);
    assert_eq!(changed("direct"), 5_250);
    assert_eq!(changed("absent"), 3_000);
    let uses =
        |key: &str, id: &str| snapshot.uses_segment(snapshot.flag(key).expect("it is there"), id);
    assert!(uses("direct", "inner") && uses("direct", "outer"));
    assert!(!uses("plain", "inner"));
}

#[test]
fn segments_that_go_round_in_a_circle_have_nobody() {
    let snapshot = Snapshot::new(MissingAttribute::Empty)
        .with([], [segment("a", 0, r#"["b"]"#), segment("b", 0, r#"["a"]"#)]);
    assert!(!snapshot.is_in_segment("a", &User::new("ann")));
    assert_eq!(snapshot.segment("b").map(|it| it.segment().id.as_str()), Some("b"));
    assert!(snapshot.segment("c").is_none());
}

#[test]
fn the_snapshot_before_a_change_stays_as_it_was() {
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
