//! Evaluation of the sample's flags for users that a client sends: it is the same each time, gives one of
//! the flag's variations, agrees with its explanation, and the order of other properties does not matter.
#![no_main]

use std::sync::LazyLock;

use evaluation::{MissingAttribute, Property, Snapshot, User};
use faregate_fuzz::snapshot;
use libfuzzer_sys::fuzz_target;

static SNAPSHOTS: LazyLock<[Snapshot; 2]> =
    LazyLock::new(|| [MissingAttribute::Empty, MissingAttribute::Absent].map(snapshot));

/// A user in lines: the key, the name, and properties as `name=value`; without `=` they have none.
fn user(text: &str) -> User {
    let mut lines = text.split('\n');
    let key_id = lines.next().unwrap_or_default().to_owned();
    let name = lines.next().filter(|it| !it.is_empty()).map(str::to_owned);
    let property = |line: &str| match line.split_once('=') {
        Some((name, value)) => Property { name: name.to_owned(), value: Some(value.to_owned()) },
        None => Property { name: line.to_owned(), value: None },
    };
    let customized_properties = lines.map(property).collect();
    User { key_id, name, customized_properties, ..User::default() }
}

fuzz_target!(|text: &str| {
    let user = user(text);
    let mut more = user.clone();
    more.customized_properties.push(Property { name: "\n".to_owned(), value: None });
    let rotation = more.customized_properties.len() - 1;
    more.customized_properties.rotate_left(rotation);
    for snapshot in SNAPSHOTS.iter() {
        for flag in snapshot.flags() {
            let evaluation = snapshot.evaluate_flag(flag, &user);
            let shown = format!("{evaluation:?}");
            assert_eq!(format!("{:?}", snapshot.evaluate(&flag.flag().key, &user).unwrap()), shown);
            assert_eq!(format!("{:?}", snapshot.evaluate_flag(flag, &more)), shown);
            let explanation = snapshot.explain(flag, &user);
            assert_eq!(format!("{:?}", explanation.evaluation), shown);
            assert!(explanation.dispatch.is_none_or(|it| (0.0..=1.0).contains(&it.bucket)));
            let variations = &flag.flag().variations;
            let is_known =
                evaluation.variation.is_none_or(|it| it.id.is_empty() || variations.contains(it));
            assert!(is_known, "{shown}");
            assert_eq!(evaluation.variation.is_none(), flag.flag().is_archived);
        }
    }
});
