//! Each upload that was tried on Kill Bill 0.24.19, with its errors.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Verdict {
    file: String,
    stored: Vec<String>,
    validate: Validated,
    texts: Option<String>,
}

#[derive(Deserialize)]
struct Validated {
    errors: Option<Vec<String>>,
}

fn uploads() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.join("conformance/vectors/subscriptions/uploads")
}

fn mistakes(text: &str, others: &[Catalog]) -> Vec<Mistake> {
    compiled_beside(text.as_bytes(), others.iter()).err().unwrap_or_default()
}

fn text(file: &str) -> String {
    fs::read_to_string(uploads().join(file)).unwrap()
}

#[test]
fn each_recorded_upload_has_the_errors_that_kill_bill_finds() {
    let verdicts: Vec<Verdict> = serde_json::from_str(&text("verdicts.json")).unwrap();
    for Verdict { file, stored, validate, texts } in &verdicts {
        let others: Vec<_> = stored.iter().map(|it| compiled(&text(it)).unwrap()).collect();
        let found = mistakes(&text(file), &others);
        let found: Vec<_> = found.into_iter().map(|it| it.text).collect();
        let recorded = validate.errors.clone().unwrap_or_default();
        match texts.as_deref() {
            None | Some("same") => assert_eq!(found, recorded, "{file}"),
            Some("begins") => {
                assert_eq!(found.len(), recorded.len(), "{file}: {found:?}");
                assert!(found[0].starts_with(&recorded[0]), "{file}: {found:?}");
            }
            _ => assert!(!found.is_empty(), "{file}"),
        }
    }
    assert_eq!(verdicts.len(), 23);
}

#[test]
fn every_catalog_of_the_recordings_compiles() {
    for file in ["align", "core", "usage", "versions-1", "versions-2"] {
        let path = uploads().join(format!("../catalogs/{file}.xml"));
        let catalog = compiled(&fs::read_to_string(path).unwrap());
        assert!(catalog.is_ok(), "{file}: {:?}", catalog.err());
    }
}

#[test]
fn all_mistakes_are_listed_with_line_and_element() {
    let broken = "<catalog>
<effectiveDate>soon</effectiveDate>
<catalogName>Gold</catalogName>
<currencies><currency>ABC</currency></currencies>
<products><product name='Pro'><category>BASE</category><colour/></product></products>
<rules/>
<plans><plan name='Pro'><product>Nope</product></plan></plans>
<priceLists/>
</catalog>";
    let all: Vec<_> = mistakes(broken, &[]).iter().map(Mistake::shown).collect();
    expect![[r"
        line 2, effectiveDate: soon is no date with time (ISO 8601)
        line 4, currencies: should have recurringBillingMode next, not currencies
        line 4, currency: should be a currency of Kill Bill
        line 5, colour: should not be here, within product
        line 7, plan Pro: has the name of another element
        line 7, plan Pro: should have finalPhase next
        line 8, priceLists: should have defaultPriceList next
        line 7, product: refers to Nope, which is not there"]]
    .assert_eq(&all.join("\n"));
}

#[test]
fn a_text_that_is_no_document_is_refused_with_its_line() {
    let refused = |text: &str| {
        let all: Vec<_> = mistakes(text, &[]).iter().map(Mistake::shown).collect();
        all.join("\n")
    };
    assert_eq!(refused(""), "line 1, catalog: has no root");
    assert_eq!(refused("<catalog>\n<a>\n"), "line 3, catalog: has an element that is not closed");
    assert_eq!(
        refused("<!DOCTYPE a [<!ENTITY b \"c\">]>\n<catalog/>"),
        "line 1, catalog: has a document type"
    );
    let deep = "<a>".repeat(65);
    assert_eq!(refused(&deep), "line 1, catalog: is nested more than 64 deep");
    let many = format!("<catalog>{}</catalog>", "<a/>".repeat(50_001));
    assert_eq!(refused(&many), "line 1, catalog: has more than 50000 elements");
    let attributes: String = (0..65).map(|it| format!(" a{it}=''")).collect();
    assert_eq!(
        refused(&format!("<catalog{attributes}/>")),
        "line 1, catalog: has an element with more than 64 attributes"
    );
    let large = " ".repeat(1024 * 1024 + 1);
    assert_eq!(refused(&large), "line 1, catalog: has more than 1 MiB");
}
