//! Bytes for each of the built-in packagers: the first says which, and how much is demanded.
//!
//! What `Strict` accepts is packed to the same bytes again, and its values, set one by one, are read
//! back as they were; every field can be read and shown.
#![no_main]

use std::fmt::Write as _;
use std::sync::LazyLock;

use iso8583::{Index, Message, Packager, Validation};
use libfuzzer_sys::fuzz_target;

static STRICT: LazyLock<Vec<Packager>> = LazyLock::new(|| {
    let names = Packager::built_in_names().iter();
    names.map(|name| Packager::built_in(name).expect("it is listed")).collect()
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
        write!(shown, "{error} {error:?}").expect("a string takes all");
        return;
    }
    write!(shown, "{message} {message:?}").expect("a string takes all");
    let mut index = Index::new();
    let view = packager.unpack(bytes, &mut index).expect("it was read before");
    for field in view.fields() {
        let _ = (field.text(), field.content());
    }
    if !is_strict {
        return;
    }
    let packed = message.pack().expect("what was read can be packed");
    // Comments and blanks of XML are not kept.
    if packager.name() != "xml" {
        assert_eq!(packed, bytes, "packed otherwise");
    }
    let values: Vec<_> = view.fields().map(|it| (it.number(), it.to_bytes())).collect();
    if values.iter().all(|(number, _)| *number == 0) {
        return;
    }
    let mut rebuilt = Message::new(packager);
    for (number, value) in &values {
        rebuilt.set_bytes(*number, value).expect("a value that was read can be set");
    }
    let mut again = Message::new(packager);
    again.load(&rebuilt.pack().expect("what was set can be packed")).expect("and read");
    let found: Vec<_> = again.view().fields().map(|it| (it.number(), it.to_bytes())).collect();
    assert_eq!(found, values);
});
