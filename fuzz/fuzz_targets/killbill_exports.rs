//! Kill Bill's exports, and answers of its API: what is read of them, however broken, ends in records or in an
//! error that names the record.
#![no_main]

use import::api::{self, Answers};
use import::dump::Dump;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    if let Ok(dump) = Dump::read(text) {
        for id in dump.accounts().flatten() {
            drop(dump.found(id));
        }
        drop(dump.orphans());
        drop(dump.definitions());
    }
    let Ok(answer) = serde_json::from_str::<Value>(text) else { return };
    drop(api::definitions(&answer));
    let part = |name: &str| answer.get(name).cloned().unwrap_or_default();
    let answers = Answers {
        account: part("account"),
        methods: part("methods"),
        emails: part("emails"),
        tags: part("tags"),
        fields: part("fields"),
        payments: part("payments"),
    };
    drop(api::found(&answers));
});
