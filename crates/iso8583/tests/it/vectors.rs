//! Tests of the comparison with golden vectors.

use std::path::Path;

use iso8583::vectors::{self, Stricter, VectorsError};

#[test]
fn results_equal_those_of_existing_packagers() {
    check_file(
        "ISO87A.json",
        "92 passed, 5 stricter, 0 failed; NotLatin1; UnknownField; OnlyMessageType; NoMessageType; BytesNotHex",
    );
    check_file(
        "ISO87B.json",
        "88 passed, 6 stricter, 0 failed; 2 NotDigits; NotLatin1; UnknownField; OnlyMessageType; NoMessageType",
    );
    check_file(
        "ISO93A.json",
        "77 passed, 4 stricter, 0 failed; NotLatin1; UnknownField; OnlyMessageType; NoMessageType",
    );
    check_file(
        "PostPackager.json",
        "89 passed, 4 stricter, 0 failed; NotLatin1; UnknownField; OnlyMessageType; NoMessageType",
    );
    check_file(
        "generic-iso87binary.json",
        "79 passed, 6 stricter, 0 failed; 2 NotDigits; NotLatin1; UnknownField; OnlyMessageType; NoMessageType",
    );
    check_file(
        "generic-iso93ascii.json",
        "77 passed, 4 stricter, 0 failed; NotLatin1; UnknownField; OnlyMessageType; NoMessageType",
    );
}

#[test]
fn results_equal_those_of_own_packagers() {
    check_file(
        "own-bcd-leftpad.json",
        "79 passed, 6 stricter, 0 failed; 2 NotDigits; NotLatin1; UnknownField; OnlyMessageType; NoMessageType",
    );
    check_file(
        "own-ebcdic-ebitmap.json",
        "82 passed, 3 stricter, 0 failed; NotLatin1; UnknownField; NoMessageType",
    );
    check_file("XMLPackager.json", "91 passed, 0 stricter, 0 failed");
    check_file("own-nested.json", "41 passed, 0 stricter, 0 failed");
    check_file("own-tertiary24-IFB_BITMAP.json", "29 passed, 1 stricter, 0 failed; UnknownField");
}

#[test]
fn results_equal_those_of_field_classes() {
    check_file(
        "field-classes.json",
        "1628 passed, 120 stricter, 0 failed; 87 NotDigits; 6 NotAscii; 27 TooLong",
    );
    check_file("field-class-lengths.json", "835 passed, 0 stricter, 0 failed");
    check_file(
        "field-classes-more.json",
        "295 passed, 14 stricter, 0 failed; 12 NotDigits; 2 TooLong",
    );
}

#[test]
fn results_equal_those_of_packager_files() {
    check_file("packager-files.json", "169 passed, 0 stricter, 0 failed");
}

#[test]
fn results_equal_those_of_channels_and_tags() {
    check_file("base1-header.json", "3 passed, 0 stricter, 0 failed");
    check_file("channel-frames.json", "27 passed, 0 stricter, 0 failed, 30 not judged");
    check_file("extras.json", "50 passed, 0 stricter, 0 failed, 75 not judged");
}

/// A refusal is justified only if the case proves the reason.
#[test]
fn refusals_without_a_reason_fail() {
    let check =
        |case: &str, expected: &str| check_cases(&format!(r#""vectors":[{case}]"#), expected);
    let letters = r#"{"fields":{"0":"0200","3":"12AB"},"packed":"020020000000000000000012AB""#;
    check(
        &format!(r#"{letters},"unpacked":{{"0":"0200","3":"001212"}},"unpack_note":"differs"}}"#),
        "1 passed, 1 stricter, 0 failed; NotDigits",
    );
    check(
        &format!(r#"{letters},"unpacked":{{"0":"0200","3":"12AB"}}}}"#),
        "1 passed, 0 stricter, 1 failed",
    );
    let beyond = r#"{"fields":{"0":"0200","5":"1"},"packed":"02000800000000000000""#;
    check(
        &format!(r#"{beyond},"unpack_note":"lost"}}"#),
        "1 passed, 1 stricter, 0 failed; UnknownField",
    );
    check(
        &format!(r#"{beyond},"unpacked":{{"0":"0200","5":"1"}}}}"#),
        "0 passed, 1 stricter, 1 failed; UnknownField",
    );
    let only = r#"{"fields":{"0":"0800"},"packed":"0800""#;
    check(
        &format!(r#"{only},"unpack_note":"lost"}}"#),
        "1 passed, 1 stricter, 0 failed; OnlyMessageType",
    );
    check(&format!(r#"{only},"unpacked":{{"0":"0800"}}}}"#), "0 passed, 0 stricter, 2 failed");
    let refused = r#"{"fields":{"0":"0200","3":"1234567"},"pack_error":"too long"}"#;
    check(refused, "1 passed, 0 stricter, 0 failed");
    let accepted = r#"{"fields":{"0":"0200","3":"123456"},"pack_error":"too long"}"#;
    check(accepted, "0 passed, 0 stricter, 1 failed");
    let beyond_latin1 =
        r#"{"fields":{"0":"0200","4":"\u20ac"},"packed":"020010000000000000003F20"}"#;
    check(beyond_latin1, "0 passed, 1 stricter, 1 failed; NotLatin1");
}

#[test]
fn unpacked_fields_and_lengths_are_compared() {
    let check =
        |case: &str, expected: &str| check_cases(&format!(r#""malformed":[{case}]"#), expected);
    let whole = r#""hex":"02002000000000000000123456AA""#;
    let read = r#""unpacked":{"0":"0200","3":"123456"}"#;
    check(&format!(r#"{{{whole},{read},"consumed":13}}"#), "1 passed, 0 stricter, 0 failed");
    check(&format!(r#"{{{whole},{read},"consumed":14}}"#), "0 passed, 0 stricter, 1 failed");
    let other = r#""unpacked":{"0":"0200","3":"123457"}"#;
    check(&format!(r#"{{{whole},{other},"consumed":13}}"#), "0 passed, 0 stricter, 1 failed");
    check(&format!(r#"{{{whole},"error":"no"}}"#), "0 passed, 0 stricter, 1 failed");
    let short = r#""hex":"020020000000000000001234""#;
    check(&format!(r#"{{{short},"error":"no"}}"#), "1 passed, 0 stricter, 0 failed");
    check(&format!(r#"{{{short},{read},"consumed":12}}"#), "0 passed, 0 stricter, 1 failed");
    let unknown = r#""hex":"02000800000000000000""#;
    let length = r#""hex":"02000200000000000000AA""#;
    let none = r#""unpacked":{"0":"0200"},"consumed":10"#;
    check(&format!("{{{unknown},{none}}}"), "0 passed, 1 stricter, 0 failed; UnknownField");
    check(&format!("{{{length},{none}}}"), "0 passed, 1 stricter, 0 failed; LengthNotDigits");
}

#[test]
fn invalid_files_and_cases_are_reported() {
    assert!(matches!(vectors::check("{"), Err(VectorsError::Json(_))));
    for text in ["{}", "[]", "3", r#"{"vectors":[],"table":{}}"#, r#"{"cases":3}"#] {
        assert!(matches!(vectors::check(text), Err(VectorsError::Empty)), "{text}");
    }
    let failed = |text: &str| vectors::check(text).map_or(0, |outcome| outcome.failed.len());
    assert_eq!(failed(r#"{"vectors":[{}]}"#), 1);
    assert_eq!(failed(r#"{"vectors":[{}],"table":{"x":{"class":"IFA_NUMERIC","len":4}}}"#), 1);
    assert_eq!(failed(r#"{"vectors":[{}],"table":{"0":{"class":"IFX_NUMERIC","len":4}}}"#), 1);
    assert_eq!(failed(r#"{"vectors":[{}],"table":{"0":{"class":"IFA_NUMERIC","len":4}}}"#), 1);
    assert_eq!(
        failed(r#"{"malformed":[{"hex":"3"}],"table":{"0":{"class":"IFA_NUMERIC","len":4}}}"#),
        1
    );
    assert_eq!(failed(r#"{"cases":[{"class":"IFA_NUMERIC"},{"kind":"tlv","hex":"8"}]}"#), 2);
    assert_eq!(failed(r#"{"frames":[{"channel":"nac"},{"channel":"x"}],"headers":[{}]}"#), 3);
    assert_eq!(failed(r#"{"frames":[{"channel":"nac","frame":"00","case":"header 6012"}]}"#), 1);
}

/// Refusals of different fields are listed, but are not failures.
#[test]
fn refusals_of_different_fields_are_listed() {
    let check = |list: &str, case: &str, expected: &[&str]| {
        let table = r#"{"0":{"class":"IFB_NUMERIC","len":4},"1":{"class":"IFB_BITMAP","len":16},
            "3":{"class":"IFB_NUMERIC","len":6}}"#;
        let outcome = vectors::check(&format!(r#"{{"table":{table},"{list}":[{case}]}}"#));
        let outcome = outcome.expect("the file has a case");
        assert_eq!((outcome.passed, outcome.failed.len()), (1, 0), "{case}");
        assert_eq!(outcome.other_fields, expected, "{case}");
    };
    let long = |error: &str| {
        let fields = r#"{"0":"0200","3":"1234567"}"#;
        format!(r#"{{"id":"a","fields":{fields},"pack_error":"{error}"}}"#)
    };
    check("vectors", &long("error packing field 3 | nested field 4"), &[]);
    check("vectors", &long("Field length 7 too long"), &[]);
    let other = "a pack: the other refuses field 4, we field 3";
    check("vectors", &long("error packing field 4"), &[other]);
    let short =
        |error: &str| format!(r#"{{"id":"b","hex":"020020000000000000001234","error":"{error}"}}"#);
    check("malformed", &short("Problem unpacking field 3 (no)"), &[]);
    let other = "b malformed: the other refuses field 35, we field 3";
    check("malformed", &short("Problem unpacking field 35 (no) unpacking field=35"), &[other]);
}

#[test]
fn unknown_sections_are_refused() {
    let text = r#"{"suite":"x","note":{"a":[]},"headers":[{}],"vektors":[{}]}"#;
    let error = vectors::check(text).expect_err("a section is unknown").to_string();
    let expected = "`vektors` is unknown; the known sections are vectors, malformed, cases, frames, \
                    reactions, headers, suites";
    assert_eq!(error, expected);
    let read = r#""unpacked":{"0":"0200","3":"123456"}"#;
    let case = format!(r#"{{"id":"c","hex":"02002000000000000000123456",{read},"consumed":14}}"#);
    let table = r#"{"0":{"class":"IFB_NUMERIC","len":4},"1":{"class":"IFB_BITMAP","len":16},
        "3":{"class":"IFB_NUMERIC","len":6}}"#;
    let outcome = vectors::check(&format!(r#"{{"table":{table},"malformed":[{case}]}}"#));
    let outcome = outcome.expect("the file has a case");
    assert_eq!(outcome.failed, ["c malformed: 14 bytes should be read, 13 were"]);
}

#[test]
fn reasons_have_different_texts() {
    let mut texts: Vec<&str> = Stricter::ALL.iter().map(|reason| reason.text()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), Stricter::ALL.len());
}

fn check_file(name: &str, expected: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/iso8583");
    let text = std::fs::read_to_string(root.join(name)).expect("the file exists");
    assert_eq!(summary(&text), expected, "{name}");
}

/// Checks cases of a small packager.
fn check_cases(cases: &str, expected: &str) {
    let table = r#"{"0":{"class":"IFB_NUMERIC","len":4},"1":{"class":"IFB_BITMAP","len":16},
        "3":{"class":"IFB_NUMERIC","len":6},"4":{"class":"IF_CHAR","len":2},
        "7":{"class":"IFB_LLNUM","len":19}}"#;
    let text = format!(r#"{{"packager":"GenericPackager","table":{table},{cases}}}"#);
    assert_eq!(summary(&text), expected, "{cases}");
}

/// The results, and the numbers of justified refusals by reason.
fn summary(text: &str) -> String {
    let outcome = vectors::check(text).expect("the file has vectors");
    let mut summary = outcome.to_string();
    for (reason, cases) in &outcome.stricter {
        summary += &match cases.len() {
            1 => format!("; {reason:?}"),
            count => format!("; {count} {reason:?}"),
        };
    }
    summary
}
