//! Recorded evaluations of FeatBit's server and five of its SDKs.

use std::path::Path;

use evaluation::{MissingAttribute, Snapshot, User, Vectors};

fn file() -> Vectors {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/flags");
    let text = std::fs::read_to_string(root.join("eval.json")).expect("the file exists");
    serde_json::from_str(&text).expect("the file has this shape")
}

fn user<'f>(file: &'f Vectors, key: &str) -> &'f User {
    file.users.iter().find(|user| user.key_id == key).expect("the user exists")
}

#[test]
fn evaluations_equal_those_of_the_server() {
    let file = file();
    let snapshot = Snapshot::new(MissingAttribute::Empty)
        .with(file.flags.iter().cloned(), file.segments.iter().cloned());
    for vector in &file.vectors {
        let it =
            snapshot.evaluate(&vector.flag, user(&file, &vector.user)).expect("the flag exists");
        let found = (
            it.variation.map(|it| it.value.clone()),
            it.variation.map(|it| it.id.clone()),
            it.reason.text(),
            it.send_to_experiment,
        );
        let expected = (
            vector.variation.clone(),
            vector.variation_id.clone(),
            vector.match_reason.as_str(),
            vector.send_to_experiment,
        );
        assert_eq!(found, expected, "{} for {}", vector.flag, vector.user);
    }
    assert_eq!(file.vectors.len(), 1_608);
}

#[test]
fn evaluations_equal_those_of_the_specification() {
    let file = file();
    let snapshot = Snapshot::new(MissingAttribute::Absent)
        .with(file.flags.iter().cloned(), file.segments.iter().cloned());
    let mut different = 0;
    for vector in &file.vectors {
        let it =
            snapshot.evaluate(&vector.flag, user(&file, &vector.user)).expect("the flag exists");
        let expected = vector.spec_missing_attr.as_ref().or(vector.variation.as_ref());
        different += usize::from(vector.spec_missing_attr.is_some());
        let found = it.variation.map(|it| &it.value);
        assert_eq!(found, expected, "{} for {}", vector.flag, vector.user);
    }
    assert!(different > 0, "the file has cases in which the two differ");
}
