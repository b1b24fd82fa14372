//! What `Lenient` does as jPOS does it, as it was seen to behave.

use iso8583::{Message, Packager, Validation};

use crate::tables::packager;

/// A jPOS file with one field beside message type and bitmap.
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
fn odd_digits_are_filled_up_on_the_right() {
    let check = |attributes: &str, value: &str, expected: &[u8]| {
        let mut message = Message::new(&lenient(2, attributes));
        message.set(0, "0200").unwrap();
        message.set(2, value).unwrap();
        let packed = message.pack().unwrap();
        assert_eq!(packed[12..], *expected, "{attributes}");
    };
    check("length=\"4\" class=\"IFA_LLBNUM\"", "123", b"04\x12\x30");
    check("length=\"4\" class=\"IFA_LLBNUM\" pad=\"true\"", "123", b"04\x01\x23");
}

/// In any validation: 120 would be written as 20.
#[test]
fn a_number_has_to_fit_its_tag() {
    let packager =
        packager("0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n99 IFMC_LLCHAR 9\n120 IFMC_LLCHAR 9");
    let mut message = Message::new(&packager);
    message.set(99, "a").unwrap();
    let error = message.set(120, "a").unwrap_err().to_string();
    assert_eq!(error, "field 120: fields are numbered up to 99");
}
