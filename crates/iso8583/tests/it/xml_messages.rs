//! Tests of messages in XML.
#![expect(clippy::unwrap_used, reason = "whatever is missing here fails the test")]

use iso8583::{Index, Message, Packager, Validation};
use proptest::prelude::*;

fn xml() -> Packager {
    Packager::built_in("xml").unwrap()
}

#[test]
fn values_of_all_types_are_packed_and_read_back() {
    let mut message = Message::new(&xml());
    message.set(0, "0200").unwrap();
    message.set(42, "\u{1}\t\\u0041'>\"&").unwrap();
    message.set(43, "<Caf\u{e9} & \"Bar\"'>\t\n").unwrap();
    message.set(45, "<]]>\r").unwrap();
    message.set(46, "<\r").unwrap();
    message.set_header(b"HDR").unwrap();
    message.set(44, "\u{20ac}5").unwrap();
    message.set_bytes(52, &[0, 0xAB]).unwrap();
    message.set([48, 2], "two").unwrap();
    message.set([48, 1], "one").unwrap();
    message.set([60, 3, 7], "deep").unwrap();
    let expected = "<isomsg>\n\
        \x20 <header>484452</header>\n\
        \x20 <field id=\"0\" value=\"0200\"/>\n\
        \x20 <field id=\"42\" value=\"\\u0001\\u0009\\u005cu0041&apos;&gt;&quot;&amp;\"/>\n\
        \x20 <field id=\"43\"><![CDATA[<Caf\u{e9} & \"Bar\"'>\t\n]]></field>\n\
        \x20 <field id=\"44\" value=\"\u{20ac}5\"/>\n\
        \x20 <field id=\"45\" value=\"&lt;]]&gt;\\u000d\"/>\n\
        \x20 <field id=\"46\" value=\"&lt;\\u000d\"/>\n\
        \x20 <isomsg id=\"48\">\n\
        \x20   <field id=\"1\" value=\"one\"/>\n\
        \x20   <field id=\"2\" value=\"two\"/>\n\
        \x20 </isomsg>\n\
        \x20 <field id=\"52\" value=\"00AB\" type=\"binary\"/>\n\
        \x20 <isomsg id=\"60\">\n\
        \x20   <isomsg id=\"3\">\n\
        \x20     <field id=\"7\" value=\"deep\"/>\n\
        \x20   </isomsg>\n\
        \x20 </isomsg>\n\
        </isomsg>\n";
    let packed = message.pack().unwrap();
    assert_eq!(std::str::from_utf8(&packed).unwrap(), expected);
    let mut loaded = Message::new(&xml());
    loaded.load(&packed).unwrap();
    assert_eq!(loaded.pack().unwrap(), packed);
    assert_eq!(loaded.header(), b"HDR");
    let mut index = Index::new();
    let packager = xml();
    let view = packager.unpack(&packed, &mut index).unwrap();
    assert_eq!(view.header(), b"HDR");
    for number in [42, 43, 45] {
        assert_eq!(
            (loaded.text(number), view.text(number)),
            (message.text(number), message.text(number))
        );
    }
    assert_eq!(loaded.text(44).as_deref(), Some("\u{20ac}5"));
    assert_eq!(loaded.field(52).unwrap().to_bytes(), [0, 0xAB]);
    assert!(loaded.field(52).unwrap().is_binary() && !loaded.field(43).unwrap().is_binary());
    loaded.set([60, 3, 7], "deeper").unwrap();
    loaded.remove([48, 1]).unwrap();
    loaded.set(39, "00").unwrap();
    let changed = String::from_utf8(loaded.pack().unwrap()).unwrap();
    assert!(changed.contains("id=\"7\" value=\"deeper\"") && !changed.contains("one"), "{changed}");
    let shown =
        "0 0200\n39 00\n42 \\u{1}\\t\\u0041'>\"&\n43 <Caf\u{e9} & \"Bar\"'>\\t\\n\n44 \u{20ac}5\n";
    assert!(loaded.to_string().starts_with(shown), "{loaded}");
    assert!(loaded.to_string().contains("\n52 <2 bytes>\n"), "{loaded}");
}

/// The read fields, separated by blanks.
fn read(text: &str, validation: Validation) -> String {
    let packager = xml().with_validation(validation);
    let mut index = Index::new();
    match packager.unpack(text.as_bytes(), &mut index) {
        Ok(view) => {
            assert_eq!(view.bytes(), text.as_bytes());
            view.revealed().to_string().trim_end().replace('\n', ", ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn equivalent_forms_of_xml_are_read() {
    let check = |text: &str, expected: &str| assert_eq!(read(text, Validation::Strict), expected);
    check("<?xml version='1.0'?><!-- x --><isomsg><field id='39' value='00'/></isomsg>", "39 00");
    check("<isomsg><field value='00' id='39'></field><!-- <field> --></isomsg>\n", "39 00");
    check("<isomsg><field id='39'>a<![CDATA[<b>]]>&amp;&#99;</field></isomsg>", "39 a<b>&c");
    check(
        "<isomsg><field id='41' value='x'/><field id='0' value='0800'/></isomsg>",
        "0 0800, 41 x",
    );
    check("<isomsg><field id='52' type='binary' value='0a0B'/></isomsg>", "52 0A0B");
    check("<isomsg/>", "");
    check(
        "<isomsg><field id='3' value='\\u0041\\u00e9\\u20ac\\u00+1\\u00'>\\u0041</field></isomsg>",
        "3 A\u{e9}\\u20ac\\u00+1\\u00\\u0041",
    );
    check("<isomsg><header>0aFF</header><field id='39' value='00'/></isomsg>", "39 00");
    check("<isomsg><isomsg id='48'/></isomsg>", "");
}

#[test]
fn invalid_xml_is_refused() {
    let check = |text: &str, expected: &str| {
        assert_eq!(read(text, Validation::Strict), expected, "{text}");
        assert_eq!(read(text, Validation::Lenient), expected, "{text}");
    };
    check("", "message at byte 0: expected an element `isomsg` in the XML");
    check("x", "message at byte 0: expected no text beside fields in the XML");
    check("<isomsg>", "message at byte 8: expected an element `isomsg` in the XML");
    check("<field id='2'/>", "message at byte 0: expected `isomsg` or a `field` in it in the XML");
    check("<!DOCTYPE isomsg><isomsg/>", "message at byte 0: expected no document type in the XML");
    check("<isomsg/><isomsg/>", "message at byte 9: expected the end in the XML");
    let field = |field: &str| format!("<isomsg><field {field}/></isomsg>");
    check(&field("value='x'"), "message at byte 8: expected the number of a field in the XML");
    check(&field("id='1000'"), "message at byte 8: expected the number of a field in the XML");
    check(&field("id='-1'"), "message at byte 8: expected the number of a field in the XML");
    check(&field("id='2' id='3'"), "message at byte 8: expected attributes with values in the XML");
    check(
        &field("id='2' value='&x;'"),
        "message at byte 8: expected one of XML's own entities in the XML",
    );
    check(
        &field("id='52' type='binary' value='1'"),
        "field 52 at byte 8: expected hexadecimal digits in the XML",
    );
    for text in ["\0", "\u{b}", "\u{1f}", "&#1;", "&#xFFFE;"] {
        check(
            &field(&format!("id='43' value='a{text}'")),
            "field 43 at byte 8: expected characters that XML has in the XML",
        );
    }
    check(
        "<isomsg><field id='2'>&x;</field></isomsg>",
        "field 2 at byte 22: expected one of XML's own entities in the XML",
    );
    check("<isomsg><field id='2'/><field id='2'/></isomsg>", "field 2: the field occurs twice");
    check(
        &format!("<isomsg>{}{}", "<isomsg id='3'>".repeat(4), "</isomsg>".repeat(5)),
        "field 3.3.3 at byte 53: fields are nested 4 deep at most",
    );
}

#[test]
fn strict_refuses_unknown_markup_that_lenient_ignores() {
    let check = |text: &str, expected: &str| {
        assert_eq!(read(text, Validation::Strict), expected, "{text}");
        assert_eq!(read(text, Validation::Lenient), expected, "{text}");
    };
    check("<isomsg id='3'/>", "message at byte 0: expected a message that is no field in the XML");
    check(
        "<isomsg><header>0</header></isomsg>",
        "message at byte 17: expected hexadecimal digits in the XML",
    );
    for unknown in ["<isomsg>x</isomsg>", "<isomsg><foo>x<field id='2'/></foo></isomsg>"] {
        assert_eq!(read(unknown, Validation::Lenient), "");
        assert!(read(unknown, Validation::Strict).starts_with("message at byte 8: "));
    }
    let unknown = "<isomsg><field id='2' colour='red'/></isomsg>";
    assert_eq!(read(unknown, Validation::Lenient), "2");
    assert_eq!(
        read(unknown, Validation::Strict),
        "message at byte 8: expected id, value and type as attributes in the XML",
    );
    let long = format!("<isomsg>{}</isomsg>", " ".repeat(600_000));
    check(&long, "message: the length is 600017, but the maximum is 524288");
    let error = xml().unpack(b"<isomsg>\xff", &mut Index::new()).unwrap_err();
    assert_eq!(error.to_string(), "message at byte 8: expected UTF-8 in the XML");
    let mut message = Message::new(&xml());
    message.set(43, "\u{fffe}").unwrap();
    let error = message.pack().unwrap_err().to_string();
    assert_eq!(error, "field 43: a character that XML has was expected, something else was found");
}

/// Card numbers are also found between characters of several bytes.
#[test]
fn card_numbers_are_masked() {
    let mut message = Message::new(&xml());
    message.set(2, "4761739001010119").unwrap();
    message.set(43, "\u{20ac}4761739001010119\u{20ac}").unwrap();
    let shown = "2 476173******0119\n43 \u{20ac}****************\u{20ac}\n";
    assert_eq!(message.to_string(), shown);
}

/// Messages may declare ISO-8859-1.
#[test]
fn the_declared_encoding_is_used() {
    let bytes =
        b"<?xml version='1.0' encoding='ISO-8859-1'?><isomsg><field id='3' value='\xe9'/></isomsg>";
    let packager = xml();
    let mut index = Index::new();
    let view = packager.unpack(bytes, &mut index).unwrap();
    assert_eq!((view.text(3).as_deref(), view.bytes()), (Some("\u{e9}"), &bytes[..]));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn read_messages_are_packed_to_equal_ones(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("<isomsg>"), Just("</isomsg>"), Just("<isomsg id='48'>"), Just("<field id='"),
                Just("<field id='3' value='"), Just("'/>"), Just("' value='"), Just("</field>"),
                Just("<field id='7'>"), Just("' type='binary"), Just("0A"), Just("&amp;"),
                Just("&#10;"), Just("\u{2}"), Just("&#3;"), Just("\u{20ac}"),
                Just("<!-- -->"), Just("<![CDATA["), Just("]]>"), Just(" "), Just("52"), Just("<field id='52' type='binary' value='00ff'/>"),
            ],
            0..12,
        ),
    ) {
        let bytes = format!("<isomsg>{}</isomsg>", parts.concat()).into_bytes();
        let packager = xml();
        let mut index = Index::new();
        let Ok(view) = packager.unpack(&bytes, &mut index) else { return Ok(()) };
        let shown = view.revealed().to_string();
        let mut message = Message::new(&packager);
        message.load(&bytes).unwrap();
        prop_assert_eq!(message.view().revealed().to_string(), &shown[..]);
        let packed = message.pack().unwrap();
        let mut again = Message::new(&packager);
        again.load(&packed).unwrap();
        prop_assert_eq!(again.view().revealed().to_string(), shown);
        prop_assert_eq!(again.pack().unwrap(), packed);
    }

    /// Arbitrary files do not cause a panic.
    #[test]
    fn arbitrary_files_do_not_panic(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("<isofield id=\"1\" length=\"16\" class=\"IFB_BITMAP\"/>".to_owned()),
                Just("<isofield id=\"65\" length=\"8\" class=\"IFB_BITMAP\"/>".to_owned()),
                Just("</isofieldpackager>".to_owned()),
                Just("<!-- ".to_owned()),
                (0u16..200, "(IF[ABE]?B?_T{0,3}L{0,6}H?[A-Z]{3,7}|IF[AB]_L?L?(NUM|CHAR|BINARY))", 0u32..300)
                    .prop_map(|(id, class, length)| format!(
                        "<isofield id=\"{id}\" class=\"{class}\" length=\"{length}\" pad=\"true\"/>"
                    )),
                (0u16..200, "(emitBitmap|firstField|bitmapField|thirdBitmapField|headerLength)", "(true|false|[0-9]{1,3})")
                    .prop_map(|(id, name, value)| format!(
                        "<isofieldpackager id=\"{id}\" class=\"IFA_LLLCHAR\" length=\"99\" {name}=\"{value}\" \
                         packager=\"GenericPackager\">"
                    )),
            ],
            1..10,
        ),
        attribute in "(|maxValidField=\"128\"|thirdBitmapField=\"65\"|emitBitmap=\"false\"|headerLength=\"4\"|firstField=\"3\")",
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let text = format!("<isopackager {attribute}>{}</isopackager>", parts.concat());
        let Ok(packager) = Packager::from_jpos_xml(&text) else { return Ok(()) };
        let described = packager.description();
        let again = Packager::from_toml(&described).unwrap();
        prop_assert_eq!(again.description(), described);
        for packager in [packager.clone(), packager.with_validation(Validation::Lenient)] {
            let mut message = Message::new(&packager);
            if message.load(&bytes).is_ok() {
                let _shown = message.to_string();
                let _packed = message.pack();
            }
        }
    }
}
