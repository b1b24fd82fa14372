//! Bytes as BER-TLV: what is read is kept byte for byte, also around a TLV that changes.
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
    assert_eq!(now[1..], tags[1..], "another one changed");
    assert!(list.remove(changed));
    assert_eq!(list.iter().count(), tags.len() - 1);
});
