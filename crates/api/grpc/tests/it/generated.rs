//! The committed code is up to date with the protos.

use std::collections::BTreeMap;

use crate::generation::{committed, generate};

#[test]
fn committed_code_equals_generated_code() {
    let mut found = BTreeMap::new();
    for entry in committed().read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        found.insert(name, std::fs::read(&path).unwrap());
    }
    let generated = generate().unwrap();
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&generated));
    for (name, content) in &generated {
        assert!(found[name] == *content, "{name}: run `cargo run -p grpc --example generate`");
    }
}
