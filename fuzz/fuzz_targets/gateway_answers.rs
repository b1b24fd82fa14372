//! Answers of gateways that are other programs, to every message: none breaks the reader, an amount has a
//! currency, a page is one of the web, and an answer is only about the transaction that it names.
#![no_main]

use gateway::fuzzing::http_answer;
use libfuzzer_sys::fuzz_target;
use uuid::Uuid;

const TRANSACTION: Uuid = Uuid::from_u128(0x0192_aabb_ccdd_7000_8000_0000_0000_0001);

fuzz_target!(|data: &[u8]| {
    let is_about_it = http_answer(data, TRANSACTION);
    let text = String::from_utf8_lossy(data).to_ascii_lowercase();
    // With escapes or without hyphens it can be written in other ways.
    let may_name_it = text.contains("0192aabb") || text.contains('\\');
    assert!(!is_about_it || may_name_it);
});
