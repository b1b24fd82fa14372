//! The time that long texts take: an input is repeated until it is as long as a large request. What takes
//! time in proportion to the square of that is stopped by the fuzzer's limit for one input.
#![no_main]

use domain::card_data::{NumericKeys, contains_pan, mask_pans};
use libfuzzer_sys::fuzz_target;
use web::card_data::find_in_json;
use web::query::Query;

const LONG_BYTES: usize = 256 * 1_024;

fuzz_target!(|text: &str| {
    if text.is_empty() {
        return;
    }
    let long = text.repeat(LONG_BYTES / text.len());
    let is_found = contains_pan(&long);
    assert_eq!(mask_pans(&long).len(), long.len());
    drop(find_in_json(long.as_bytes(), NumericKeys::Checked));
    let body = serde_json::json!({ "note": long }).to_string();
    let found = find_in_json(body.as_bytes(), NumericKeys::Checked);
    assert_eq!(found.as_deref(), is_found.then_some("note"));
    drop(Query::parse(&long));
    // A long name over many values, and an escape: the search looks at each of them.
    let half = &long[..long.floor_char_boundary(long.len() / 2)];
    let zeros = vec![0; LONG_BYTES / 4];
    let body = serde_json::json!({ half: zeros, "\u{1}": half }).to_string();
    drop(find_in_json(body.as_bytes(), NumericKeys::Checked));
});
