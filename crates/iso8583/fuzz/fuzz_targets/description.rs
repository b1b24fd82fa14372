//! Fuzzes descriptions of formats in XML, TOML and JSON, and messages in the described formats.
#![no_main]

use iso8583::{Message, Packager};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((which, rest)) = data.split_first() else {
        return;
    };
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let Ok(text) = std::str::from_utf8(&rest[..end]) else {
        return;
    };
    let packager = match which % 3 {
        0 => Packager::from_jpos_xml(text),
        1 => Packager::from_toml(text),
        _ => Packager::from_json(text),
    };
    match packager {
        Ok(packager) => {
            let bytes = rest.get(end + 1..).unwrap_or_default();
            let mut message = Message::new(&packager);
            if message.load(bytes).is_ok() {
                let packed = message.pack().expect("a loaded message can be packed");
                // Comments and blanks of XML are not kept.
                assert!(packed == bytes || packed.starts_with(b"<"), "packed differently");
            }
        }
        Err(error) => drop(error.to_string()),
    }
});
