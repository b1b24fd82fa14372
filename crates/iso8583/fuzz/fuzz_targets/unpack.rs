//! Fuzzes messages of the built-in packagers. The first byte selects the packager and the validation.
//!
//! Messages that `Strict` accepts are packed to the same bytes, their values can be set and read back,
//! and every field can be read and displayed.
#![no_main]

use std::fmt::Write as _;
use std::sync::LazyLock;

use iso8583::{Index, Message, Packager, Validation};
use libfuzzer_sys::fuzz_target;

static STRICT: LazyLock<Vec<Packager>> = LazyLock::new(|| {
    let names = Packager::built_in_names().iter();
    names.map(|name| Packager::built_in(name).expect("the name is listed")).collect()
});
static LENIENT: LazyLock<Vec<Packager>> = LazyLock::new(|| {
    STRICT.iter().map(|it| it.with_validation(Validation::Lenient)).collect()
});

fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else {
        return;
    };
    let number = usize::from(first & 0x7f) % STRICT.len();
    let is_strict = first & 0x80 == 0;
    let packager = if is_strict { &STRICT[number] } else { &LENIENT[number] };
    let mut message = Message::new(packager);
    let mut shown = String::new();
    if let Err(error) = message.load(bytes) {
        write!(shown, "{error} {error:?}").expect("writing to a String cannot fail");
        return;
    }
    write!(shown, "{message} {message:?}").expect("writing to a String cannot fail");
    let mut index = Index::new();
    let view = packager.unpack(bytes, &mut index).expect("the message has been loaded");
    for field in view.fields() {
        let _ = (field.text(), field.content());
    }
    if !is_strict {
        return;
    }
    let packed = message.pack().expect("a loaded message can be packed");
    // Comments and blanks of XML are not kept.
    if packager.name() != "xml" {
        assert_eq!(packed, bytes, "packed differently");
    }
    let values: Vec<_> = view.fields().map(|it| (it.number(), it.to_bytes())).collect();
    if values.iter().all(|(number, _)| *number == 0) {
        return;
    }
    let mut rebuilt = Message::new(packager);
    for (number, value) in &values {
        rebuilt.set_bytes(*number, value).expect("a read value can be set");
    }
    let mut again = Message::new(packager);
    again.load(&rebuilt.pack().expect("a built message can be packed")).expect("a packed message can be loaded");
    let found: Vec<_> = again.view().fields().map(|it| (it.number(), it.to_bytes())).collect();
    assert_eq!(found, values);
});
