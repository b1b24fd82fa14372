//! Fuzzes BER-TLV: a list keeps its bytes, except for a TLV that is changed.
#![no_main]

use iso8583::tlv::{Tags, TlvList};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for tlv in Tags::new(data) {
        let _ = format!("{tlv:?}");
    }
    let Ok(mut list) = TlvList::read(data) else {
        return;
    };
    assert_eq!(list.as_bytes(), data);
    let tags: Vec<_> = list.iter().map(|it| (it.tag, it.value.to_vec())).collect();
    let Some((changed, _)) = tags.first().cloned() else {
        return;
    };
    list.set(changed, b"new");
    assert_eq!(list.get(changed), Some(b"new".as_slice()));
    let now: Vec<_> = list.iter().map(|it| (it.tag, it.value.to_vec())).collect();
    assert_eq!(now[1..], tags[1..], "another TLV has changed");
    assert!(list.remove(changed));
    assert_eq!(list.iter().count(), tags.len() - 1);
});
