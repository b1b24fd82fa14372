//! `docs/reference` has the OpenAPI document.

use server::openapi;

#[test]
fn the_repository_has_the_document() {
    let document = serde_json::to_value(openapi()).unwrap();
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    expect_test::expect_file!["../../../../docs/reference/openapi.json"].assert_eq(&text);
}
