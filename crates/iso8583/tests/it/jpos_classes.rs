//! Tests of jPOS's field classes and packagers beside the golden vectors: the table of the document,
//! malformed values and bytes, and values that are read back.
#![expect(clippy::unwrap_used, reason = "whatever is missing here fails the test")]

use iso8583::class::FieldFormat;
use iso8583::packager::{FieldDescription, Table};
use iso8583::{FieldPath, Index, Message, Packager, Validation};
use proptest::prelude::*;

const DOCUMENT: &str = include_str!("../../../../docs/reference/iso8583-packagers.md");

/// The line that the document must have about a class.
fn expected(class: &str) -> String {
    let length = if class.contains("BITMAP") { 16 } else { 8 };
    if let Err(problem) = FieldFormat::from_class(class, length, false) {
        let reason = problem.to_string();
        let reason = reason.strip_prefix("the class is not supported: ");
        return format!("refused: {}", reason.unwrap_or("it is unknown"));
    }
    let field = |class: &str, length| FieldDescription {
        class: class.to_owned(),
        length,
        ..FieldDescription::default()
    };
    let table: Table =
        [(0, field("IFA_NUMERIC", 4)), (1, field(class, length))].into_iter().collect();
    let described = Packager::from_table(&table).unwrap().description();
    // What is unused has no row.
    let row = described.lines().find_map(|line| line.strip_prefix("1 = "));
    format!("`{}`", row.unwrap_or("{ content = \"unused\" }"))
}

#[test]
fn the_document_has_every_class() {
    let section = DOCUMENT.split("### Classes of jPOS").nth(1).unwrap();
    let section = section.split("###").next().unwrap();
    let mut count = 0;
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [class, found] = cells[..] else { panic!("{row}") };
        let class = class.trim_matches('`');
        assert_eq!(found, expected(class), "{class}");
        count += 1;
    }
    // The field classes in the jar of jPOS 2.1.10.
    assert_eq!(count, 134);
}

fn file(fields: &str) -> Packager {
    let usual = "<isofield id='0' class='IFA_NUMERIC' length='4'/>\
                 <isofield id='1' class='IFB_BITMAP' length='16'/>";
    Packager::from_jpos_xml(&format!("<isopackager>{usual}{fields}</isopackager>")).unwrap()
}

fn field(number: u16, class: &str, length: usize) -> Packager {
    file(&format!("<isofield id='{number}' class='{class}' length='{length}'/>"))
}

fn set(packager: &Packager, values: &[(&str, &str)]) -> Result<Vec<u8>, iso8583::Error> {
    let mut message = Message::new(packager);
    for (path, value) in values {
        message.set(path.parse::<FieldPath>().unwrap(), value)?;
    }
    message.pack()
}

#[test]
fn malformed_amounts_are_refused() {
    for (class, content, offset) in [
        ("IFB_AMOUNT2003", &b"\x84\xA2\x00\x00\x00\x00\x01\x00"[..], 13),
        ("IFB_AMOUNT2003", b"\xD4\x02\x00\x00\x00\x00\x01\x00", 12),
        ("IFA_AMOUNT2003", b"8402000000000A00", 25),
        ("IFA_AMOUNT2003", b"D402000000000100", 12),
    ] {
        let packager = field(4, class, 16);
        let message = [b"0200\x10\0\0\0\0\0\0\0", content].concat();
        let mut index = Index::new();
        let error = packager.unpack(&message, &mut index).unwrap_err().to_string();
        let start = format!("field 4 at byte {offset}: a digit was expected");
        assert!(error.starts_with(&start), "{class}: {error}");
        for length in 12..message.len() {
            let error = packager.unpack(&message[..length], &mut index).unwrap_err().to_string();
            let left = length - 12;
            let expected =
                format!("field 4 at byte 12: {} bytes are needed, {left} are left", content.len());
            assert_eq!(error, expected, "{class}");
        }
        for (value, expected) in [
            ("84020000000001000", "field 4: the length is 17, but the maximum is 16"),
            ("840C000000000100", "field 4 at byte 3: a digit was expected, byte 43 was found"),
            ("8402=", "field 4 at byte 4: a digit was expected, byte 3D was found"),
        ] {
            let error = set(&packager, &[("0", "0200"), ("4", value)]).unwrap_err();
            assert_eq!(error.to_string(), expected, "{class}");
        }
    }
}

#[test]
fn a_bitmap_of_one_word_has_every_field_up_to_64() {
    for (class, bitmap) in
        [("X92_BITMAP", &b"2000000000000001"[..]), ("Base1_BITMAP126", b"\x20\0\0\0\0\0\0\x01")]
    {
        let fields = "<isofield id='0' class='IFA_NUMERIC' length='4'/>\
             <isofield id='3' class='IFA_NUMERIC' length='2'/>\
             <isofield id='64' class='IF_CHAR' length='2'/>\
             <isofield id='65' class='IF_CHAR' length='2'/>";
        let text = format!(
            "<isopackager>{fields}<isofield id='1' class='{class}' length='16'/></isopackager>"
        );
        let packager = Packager::from_jpos_xml(&text).unwrap();
        let packed = set(&packager, &[("0", "0200"), ("3", "33"), ("64", "zz")]).unwrap();
        assert_eq!(packed, [b"0200", bitmap, b"33zz"].concat(), "{class}");
        let mut index = Index::new();
        let view = packager.unpack(&packed, &mut index).unwrap();
        assert_eq!(view.text(64).as_deref(), Some("zz"));
        let error = set(&packager, &[("0", "0200"), ("65", "zz")]).unwrap_err().to_string();
        assert_eq!(error, "field 65: the packager does not have this field");
        for length in 0..packed.len() {
            packager.unpack(&packed[..length], &mut index).unwrap_err();
        }
    }
    let packager = Packager::from_jpos_xml(
        "<isopackager><isofield id='0' class='IFA_NUMERIC' length='4'/>\
         <isofield id='1' class='X92_BITMAP' length='16'/></isopackager>",
    );
    let error = packager.unwrap().unpack(b"0200200000000000000g", &mut Index::new()).err().unwrap();
    let expected =
        "field 0 at byte 19: a bitmap's hexadecimal digit was expected, byte 67 was found";
    assert_eq!(error.to_string(), expected);
}

fn composite(class: &str, length: usize, inside: &[(u16, &str, usize)]) -> Packager {
    let rows = inside.iter().map(|(id, class, length)| {
        format!("<isofield id='{id}' class='{class}' length='{length}'/>")
    });
    file(&format!(
        "<isofieldpackager id='48' class='{class}' length='{length}' emitBitmap='false' \
         packager='org.jpos.iso.packager.GenericSubFieldPackager'>{}</isofieldpackager>",
        rows.collect::<String>()
    ))
}

#[test]
fn a_composite_field_may_be_given_as_text() {
    let fixed = composite("IF_CHAR", 9, &[(1, "IF_CHAR", 2), (2, "IF_CHAR", 4)]);
    let counted = composite("IFA_LLLCHAR", 99, &[(1, "IFA_NUMERIC", 2), (2, "IFA_LLCHAR", 10)]);
    let outer = b"0200\0\0\0\0\0\x01\0\0";
    for (packager, text, content, inner) in [
        (&fixed, "07ab", "07ab     ", ["07", "ab  "]),
        (&fixed, "xyz", "xyz      ", ["xy", "z   "]),
        (&counted, "0703abc", "0070703abc", ["07", "abc"]),
    ] {
        let packed = set(packager, &[("0", "0200"), ("48", text)]).unwrap();
        assert_eq!(packed, [outer, content.as_bytes()].concat(), "{text}");
        let mut direct = vec![];
        packager.pack_values(&[(0, b"0200"), (48, text.as_bytes())], &mut direct).unwrap();
        assert_eq!(direct, packed);
        let (mut index, mut inside) = (Index::new(), Index::new());
        let view = packager.unpack(&packed, &mut index).unwrap();
        let nested = view.field(48).unwrap().nested(&mut inside).unwrap();
        assert_eq!([1, 2].map(|it| nested.text(it).unwrap()), inner, "{text}");
    }
    // jPOS packs these, and cannot read them.
    for (text, error) in [
        ("hello", "field 48.2 at byte 2: a length in ASCII digits was expected"),
        ("07x", "field 48.2 at byte 2: more content was expected"),
        ("0711abcdefghijk", "field 48.2 at byte 2: a length that its field may have was expected"),
        ("0703abcd", "field 48 at byte 7: the end was expected, 1 more bytes were found"),
    ] {
        let refused = set(&counted, &[("0", "0200"), ("48", text)]).unwrap_err().to_string();
        assert!(refused.starts_with(error), "{text}: {refused}");
        let mut direct = vec![];
        let values: [(u16, &[u8]); 2] = [(0, b"0200"), (48, text.as_bytes())];
        counted.pack_values(&values, &mut direct).unwrap_err();
        let lenient = counted.with_validation(Validation::Lenient);
        let packed = set(&lenient, &[("0", "0200"), ("48", text)]).unwrap();
        let length = format!("{:03}", text.len());
        assert_eq!(packed, [outer, length.as_bytes(), text.as_bytes()].concat());
        lenient.pack_values(&values, &mut direct).unwrap();
        assert_eq!(direct, packed);
    }
    let mut message = Message::new(&counted.with_validation(Validation::Lenient));
    message.set(48, "hello").unwrap();
    assert_eq!(message.to_string(), "48 <5 characters>\n");
    assert_eq!(message.view().revealed().to_string(), "48 hello\n");
}

/// As those of `cmf.xml`: their length is that of all fields together.
#[test]
fn composite_bytes_of_fixed_length_are_set_field_by_field() {
    for (class, expected) in
        [("IFB_BINARY", &b"07\x01\x02\x00\x03"[..]), ("IFA_BINARY", b"303701020003")]
    {
        let inside = [(1, "IFA_NUMERIC", 2), (2, "IFB_BINARY", 2), (3, "IFB_NUMERIC", 4)];
        let packager = composite(class, 6, &inside);
        let mut message = Message::new(&packager);
        message.set(0, "0200").unwrap();
        message.set([48, 1], "7").unwrap();
        let error = message.pack().unwrap_err().to_string();
        assert_eq!(error, "field 48: a length of 6 was expected, 2 was found");
        message.set_bytes([48, 2], &[1, 2]).unwrap();
        let mut inner = Index::new();
        let field = message.field(48).unwrap();
        assert_eq!(field.nested(&mut inner).unwrap().text(1).as_deref(), Some("07"), "{class}");
        let error = message.pack().unwrap_err().to_string();
        assert_eq!(error, "field 48: a length of 6 was expected, 4 was found");
        message.set([48, 3], "3").unwrap();
        let packed = message.pack().unwrap();
        assert_eq!(packed, [b"0200\0\0\0\0\0\x01\0\0", expected].concat());
        message.load(&packed).unwrap();
        assert_eq!(message.remove([48, 3]), Ok(true));
        message.pack().unwrap_err();
        assert_eq!(message.remove(48), Ok(true));
        message.set(3, "x").unwrap_err();
        // The whole is set with its length.
        let error = message.set_bytes(48, b"07").unwrap_err().to_string();
        assert_eq!(error, "field 48: a length of 6 was expected, 2 was found");
    }
}

#[test]
fn a_letter_in_front_of_tagged_fields_is_optional() {
    let packager = file(
        "<isofieldpackager id='48' class='IFA_LLLCHAR' length='99' \
         packager='org.jpos.iso.packager.EuroSubFieldPackager'>\
         <isofield id='0' class='IFMC_TCC' length='1'/>\
         <isofield id='1' class='IFMC_LLCHAR' length='9'/>\
         <isofield id='42' class='IFMC_LLCHAR' length='9'/></isofieldpackager>",
    );
    let described = Packager::from_toml(&packager.description()).unwrap();
    for packager in [&packager, &described] {
        let packed = set(packager, &[("0", "0200"), ("48.42", "x"), ("48.0", "R")]).unwrap();
        assert!(packed.ends_with(b"006R4201x"));
        let mut message = Message::new(packager);
        message.load(&packed).unwrap();
        message.set([48, 1], "ab").unwrap();
        assert!(message.pack().unwrap().ends_with(b"012R0102ab4201x"));
        assert_eq!(message.remove([48, 0]), Ok(true));
        assert!(message.pack().unwrap().ends_with(b"0110102ab4201x"));
        let digit = message.set([48, 0], "7").unwrap_err().to_string();
        assert_eq!(digit, "field 48.0: a letter or a blank was expected, something else was found");
        let bytes = |content: &[u8]| [b"0200\0\0\0\0\0\x01\0\0", content].concat();
        let mut index = Index::new();
        for content in [&b"003R42"[..], b"002RR", b"006R42x1x", b"0084201xxxx"] {
            packager.unpack(&bytes(content), &mut index).unwrap_err();
        }
    }
}

#[test]
fn headers_inside_fields() {
    let inside = |packager: &str| {
        Packager::from_jpos_xml(&format!(
            "<isopackager><isofield id='0' class='IFA_NUMERIC' length='4'/>\
             <isofield id='1' class='IFB_BITMAP' length='16'/>\
             <isofieldpackager id='48' class='IFA_LLLCHAR' length='99' emitBitmap='false' \
             headerLength='2' packager='org.jpos.iso.packager.{packager}'>\
             <isofield id='1' class='IFA_NUMERIC' length='2'/></isofieldpackager></isopackager>"
        ))
    };
    let packed = set(&inside("GenericSubFieldPackager").unwrap(), &[("0", "0200"), ("48.1", "7")]);
    assert!(packed.unwrap().ends_with(b"00207"));
    let error = inside("GenericPackager").unwrap_err().to_string();
    assert_eq!(error, "line 1: field 48, headerLength: only the outer message may have a header");
}

#[test]
fn the_third_bitmap_is_shown_as_the_field_that_carries_it() {
    let packager = Packager::from_jpos_xml(
        "<isopackager thirdBitmapField='65'><isofield id='0' class='IFA_NUMERIC' length='4'/>\
         <isofield id='1' class='IFB_BITMAP' length='16'/>\
         <isofield id='65' class='IFB_BITMAP' length='8'/>\
         <isofield id='70' class='IFA_NUMERIC' length='3'/>\
         <isofield id='130' class='IF_CHAR' length='1'/></isopackager>",
    )
    .unwrap();
    let with = set(&packager, &[("0", "0200"), ("70", "301"), ("130", "z")]).unwrap();
    let mut index = Index::new();
    let view = packager.unpack(&with, &mut index).unwrap();
    assert_eq!(view.third_bitmap(), Some((65, [0x40, 0, 0, 0, 0, 0, 0, 0])));
    assert_eq!(view.to_string(), "0 0200\n65 4000000000000000\n70 301\n130 z\n");
    let dump = packager.dump(&with).to_string();
    assert!(dump.contains("@.......          65 bitmap\n"), "{dump}");
    let without = set(&packager, &[("0", "0200"), ("70", "301")]).unwrap();
    let view = packager.unpack(&without, &mut index).unwrap();
    assert_eq!(view.to_string(), "0 0200\n70 301\n");
}

#[test]
fn the_later_of_two_descriptions_holds() {
    let two = "<isofield id='3' class='IFA_NUMERIC' length='6'/>\
               <isofield id='3' class='IF_CHAR' length='2'/>";
    let packed = set(&file(two), &[("0", "0200"), ("3", "7")]).unwrap();
    assert_eq!(packed, b"0200\x20\0\0\0\0\0\0\x007 ");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn amounts_are_read_back(digits in "[0-9]{0,21}", length in 4_usize..22, binary in any::<bool>(), left in any::<bool>()) {
        let class = if binary { "IFB_AMOUNT2003" } else { "IFA_AMOUNT2003" };
        let packager = file(&format!("<isofield id='97' class='{class}' length='{length}' pad='{left}'/>"));
        match set(&packager, &[("0", "0200"), ("97", &digits)]) {
            Ok(packed) => {
                let mut index = Index::new();
                let view = packager.unpack(&packed, &mut index).unwrap();
                prop_assert_eq!(view.text(97), Some(format!("{digits:0>length$}")));
            }
            Err(error) => {
                let expected = format!("field 97: the length is {}, but the maximum is {length}", digits.len());
                prop_assert_eq!(error.to_string(), expected);
                prop_assert!(digits.len() > length);
            }
        }
    }

    #[test]
    fn headers_are_read_back(header in prop::collection::vec(any::<u8>(), 0..9), value in "[0-9]{6}") {
        let length = header.len();
        let packager = Packager::from_jpos_xml(&format!(
            "<isopackager headerLength='{length}'><isofield id='0' class='IFA_NUMERIC' length='4'/>\
             <isofield id='1' class='X92_BITMAP' length='16'/>\
             <isofield id='3' class='IFA_NUMERIC' length='6'/></isopackager>"
        )).unwrap();
        let mut message = Message::new(&packager);
        message.set_header(&header).unwrap();
        message.set(0, "0200").unwrap();
        message.set(3, &value).unwrap();
        let packed = message.pack().unwrap();
        prop_assert_eq!(&packed[..length], &header);
        let mut read = Message::new(&packager);
        read.load(&packed).unwrap();
        prop_assert_eq!((read.header(), read.text(3)), (&header[..], Some(value)));
        prop_assert_eq!(read.pack().unwrap(), packed.clone());
        for cut in 0..packed.len() {
            prop_assert!(packager.unpack(&packed[..cut], &mut Index::new()).is_err());
        }
    }

    #[test]
    fn elements_are_read_back(letter in "[A-Z]?", values in prop::collection::btree_map(1_u16..100, "[ -~]{0,9}", 0..6)) {
        let rows: String = (1..100)
            .map(|id| format!("<isofield id='{id}' class='IFMC_LLCHAR' length='9'/>"))
            .collect();
        let packager = file(&format!(
            "<isofieldpackager id='48' class='IFA_LLLCHAR' length='999' \
             packager='org.jpos.iso.packager.EuroSubFieldPackager'>\
             <isofield id='0' class='IFMC_TCC' length='1'/>{rows}</isofieldpackager>"
        ));
        let mut expected: Vec<(u16, String)> = values.into_iter().collect();
        if !letter.is_empty() {
            expected.insert(0, (0, letter));
        }
        let mut message = Message::new(&packager);
        message.set(0, "0200").unwrap();
        for (number, value) in expected.iter().rev() {
            message.set([48, *number], value).unwrap();
        }
        let packed = message.pack();
        prop_assert_eq!(packed.is_ok(), !expected.is_empty());
        if let Ok(packed) = packed {
            let (mut index, mut inner) = (Index::new(), Index::new());
            let view = packager.unpack(&packed, &mut index).unwrap();
            let nested = view.field(48).unwrap().nested(&mut inner).unwrap();
            let read: Vec<(u16, String)> = nested.fields().map(|it| (it.number(), it.text())).collect();
            prop_assert_eq!(read, expected);
        }
    }

    /// Whatever arrives is read or refused.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), lenient in any::<bool>()) {
        let packager = file(
            "<isofield id='4' class='IFB_AMOUNT2003' length='16'/>\
             <isofield id='5' class='IFA_AMOUNT2003' length='12'/>\
             <isofieldpackager id='8' class='IFA_LLLCHAR' length='99' \
             packager='org.jpos.iso.packager.MasterCardEBCDICSubFieldPackager'>\
             <isofield id='0' class='IFEMC_TCC' length='1'/>\
             <isofield id='1' class='IFEMC_LLCHAR' length='9'/></isofieldpackager>\
             <isofield id='9' class='org.jpos.tlv.packager.IFB_LHBINARY' length='9'/>",
        );
        let packager = if lenient { packager.with_validation(Validation::Lenient) } else { packager };
        let head = b"0200\x19\x80\0\0\0\0\0\0";
        for bytes in [bytes.clone(), [head, &bytes[..]].concat()] {
            let mut index = Index::new();
            if let Ok(view) = packager.unpack(&bytes, &mut index) {
                drop(view.texts());
            }
            drop(packager.dump(&bytes).to_string());
        }
    }
}
