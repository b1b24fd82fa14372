//! `faregate flags eval`: evaluations compared with vectors.

use std::path::Path;

use serde_json::{Value, json};

use crate::process::{TempDir, run};

fn vectors() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("conformance/vectors/flags/eval.json").display().to_string()
}

/// Runs `flags eval` on a file; its exit code and its report.
fn eval(file: &str, rule: &str) -> (Option<i32>, Value) {
    let output = run(&["flags", "eval", "--vectors", file, "--missing-attribute", rule, "--json"]);
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

#[test]
fn vectors_are_checked_with_either_rule() {
    let passed = json!({"passed": 1608, "failed": 0, "failures": []});
    let both = json!({"empty": passed, "absent": passed});
    assert_eq!(eval(&vectors(), "both"), (Some(0), both));
    assert_eq!(eval(&vectors(), "absent"), (Some(0), json!({"absent": passed})));
    assert_eq!(eval(&vectors(), "empty"), (Some(0), json!({"empty": passed})));
}

#[test]
fn differences_are_listed() {
    let text = std::fs::read_to_string(vectors()).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let vectors = file["vectors"].as_array_mut().unwrap();
    vectors.truncate(4);
    vectors[0]["variation"] = json!("Z");
    vectors[1]["matchReason"] = json!("Z");
    vectors[2]["sendToExperiment"] = json!(true);
    vectors[2]["variationId"] = json!("Z");
    let dir = TempDir::new();
    let path = dir.path().join("vectors.json");
    std::fs::write(&path, file.to_string()).unwrap();
    let (code, report) = eval(path.to_str().unwrap(), "empty");
    assert_eq!((code, &report["empty"]["passed"]), (Some(1), &json!(1)));
    let failures = report["empty"]["failures"].as_array().unwrap();
    let shown: Vec<&str> = failures.iter().filter_map(Value::as_str).collect();
    let ends = [r#", not Some("Z")"#, r#", not "Z""#, r#", not Some("Z")"#];
    assert!(shown.iter().zip(ends).all(|(shown, end)| shown.ends_with(end)), "{shown:?}");
    assert_eq!(shown.len(), 3);

    file["vectors"][0]["user"] = json!("nobody");
    std::fs::write(&path, file.to_string()).unwrap();
    let output = run(&["flags", "eval", "--vectors", path.to_str().unwrap()]);
    let shown = String::from_utf8(output.stderr).unwrap();
    assert_eq!(shown, "faregate: there is no user nobody\n");
    assert_eq!(output.status.code(), Some(2));
}
