//! Tests of the observed behaviour of jPOS that `Lenient` has as well.

use iso8583::{Index, Message, Packager, Problem, Validation};

use crate::tables::packager;

/// A jPOS file with a message type, a bitmap and one field.
fn lenient(number: u16, attributes: &str) -> Packager {
    let field = |id, rest: &str| format!("<isofield id=\"{id}\" name=\"\" {rest}/>");
    let xml = format!(
        "<isopackager>{}{}{}</isopackager>",
        field(0, "length=\"4\" class=\"IFA_NUMERIC\""),
        field(1, "length=\"16\" class=\"IFB_BITMAP\""),
        field(number, attributes)
    );
    let packager = Packager::from_jpos_xml(&xml).expect("the file compiles");
    packager.with_validation(Validation::Lenient)
}

#[test]
fn odd_digits_are_padded_on_the_right() {
    let check = |attributes: &str, value: &str, expected: &[u8]| {
        let mut message = Message::new(&lenient(2, attributes));
        message.set(0, "0200").unwrap();
        message.set(2, value).unwrap();
        let packed = message.pack().unwrap();
        assert_eq!(packed[12..], *expected, "{attributes}");
    };
    check("length=\"4\" class=\"IFA_LLBNUM\"", "123", b"04\x12\x30");
    check("length=\"3\" class=\"IFB_HEX\"", "AB", &[0x0A, 0xBF]);
    check("length=\"3\" class=\"IFB_HEX\" pad=\"true\"", "AB", &[0x00, 0xAB]);
    check("length=\"4\" class=\"IFB_HEX\"", "ABC", &[0x0A, 0xBC]);
    check("length=\"4\" class=\"IFA_LLBNUM\" pad=\"true\"", "123", b"04\x01\x23");
}

/// Some hosts send a field of fields with nothing in it, not even a bitmap.
#[test]
fn an_empty_composite_field_with_a_bitmap_has_no_fields() {
    for (frame, content) in [
        ("IFA_LLLCHAR 99", &b"000"[..]),
        ("IFE_LLLCHAR 99", b"\xF0\xF0\xF0"),
        ("IFB_LLHBINARY 99", b"\0"),
        ("IF_CHAR 20", &[b' '; 20]),
    ] {
        let text = format!(
            "0 IFA_NUMERIC 4\n1 IFB_BITMAP 8\n39 IF_CHAR 2\n48 {frame}\n  0 IFA_BITMAP 8\n  2 IF_CHAR 2"
        );
        let strict = packager(&text);
        let packager = strict.clone().with_validation(Validation::Lenient);
        let wire = [b"0200\0\0\0\0\x02\x01\0\0", &b"00"[..], content].concat();
        let (mut index, mut inner) = (Index::new(), Index::new());
        let view = packager.unpack(&wire, &mut index).unwrap();
        let nested = view.field(48).unwrap().nested(&mut inner).unwrap();
        assert_eq!(nested.fields().count(), 0, "{frame}");
        assert!(!view.to_string().is_empty());
        let mut message = Message::new(&packager);
        message.load(&wire).unwrap();
        assert_eq!(message.pack().unwrap(), wire, "{frame}");
        message.set([48, 2], "AB").unwrap();
        let changed = message.pack().unwrap();
        let view = packager.unpack(&changed, &mut index).unwrap();
        assert_eq!(
            view.field(48).unwrap().nested(&mut inner).unwrap().text(2).as_deref(),
            Some("AB")
        );
        assert!(strict.unpack(&wire, &mut index).is_err(), "{frame}");
    }
    // The message itself is something else.
    let packager = packager("0 IFA_NUMERIC 4\n1 IFB_BITMAP 8\n39 IF_CHAR 2");
    let packager = packager.with_validation(Validation::Lenient);
    assert!(packager.unpack(b"", &mut Index::new()).is_err());
    assert!(packager.unpack(b"0200", &mut Index::new()).is_err());
}

#[test]
fn odd_hexadecimal_digits_are_read_back() {
    let packager = packager("0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n2 IFB_HEX 3");
    let mut message = Message::new(&packager);
    message.set(0, "0200").unwrap();
    message.set(2, "1AB").unwrap();
    let mut packed = message.pack().unwrap();
    assert_eq!((message.text(2).as_deref(), &packed[12..]), (Some("1AB"), &[0x1A, 0xBF][..]));
    let mut index = Index::new();
    assert_eq!(packager.unpack(&packed, &mut index).unwrap().text(2).as_deref(), Some("1AB"));
    packed[13] = 0xB0;
    let error = packager.unpack(&packed, &mut index).err().unwrap().to_string();
    assert!(error.starts_with("field 2 at byte 13: "), "{error}");
}

#[test]
fn missing_bytes_are_not_filled_up() {
    let text =
        "0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n48 IFA_LLCHAR 30\n  1 IFB_BINARY 3\n  2 IF_CHAR 2";
    let mut message = Message::new(&packager(text).with_validation(Validation::Lenient));
    message.set(0, "0200").unwrap();
    let error = message.set([48, 2], "AB").unwrap_err();
    assert_eq!((error.path, error.problem), (Some([48, 1].into()), Problem::Gap { position: 1 }));
    message.set_bytes([48, 1], &[1, 2, 3]).unwrap();
    message.set([48, 2], "AB").unwrap();
}

/// Otherwise the tag of field 120 would be 20.
#[test]
fn a_field_number_above_its_tag_is_refused() {
    let packager =
        packager("0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n99 IFMC_LLCHAR 9\n120 IFMC_LLCHAR 9");
    let mut message = Message::new(&packager);
    message.set(99, "a").unwrap();
    let error = message.set(120, "a").unwrap_err().to_string();
    assert_eq!(error, "field 120: fields are numbered up to 99");
}
