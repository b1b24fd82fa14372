//! `docs/reference` has the OpenAPI document and a page of each resource.

mod reference;

use server::openapi;

#[test]
fn the_repository_has_the_document() {
    let document = serde_json::to_value(openapi()).unwrap();
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    expect_test::expect_file!["../../../../docs/reference/openapi.json"].assert_eq(&text);
}

#[test]
fn the_repository_has_a_reference_page_of_each_resource() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/api");
    let pages = reference::pages(&serde_json::to_value(openapi()).unwrap());
    for (name, text) in &pages {
        expect_test::expect_file![format!("{directory}/{name}")].assert_eq(text);
    }
    for file in std::fs::read_dir(directory).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(pages.contains_key(&name), "{name} is the page of no resource: remove it");
    }
}
