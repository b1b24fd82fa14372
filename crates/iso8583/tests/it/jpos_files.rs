//! Tests of packager files of jPOS.
#![expect(clippy::unwrap_used, reason = "whatever is missing here fails the test")]

use iso8583::{Index, Message, Packager, Problem, Validation};

/// A file with these attributes and fields; each field is `id class length` or an element.
fn packager(attributes: &str, fields: &[&str]) -> Packager {
    Packager::from_jpos_xml(&file(attributes, fields)).unwrap()
}

fn file(attributes: &str, fields: &[&str]) -> String {
    let mut text = format!("<!DOCTYPE isopackager SYSTEM \"x.dtd\">\n<isopackager {attributes}>\n");
    for field in fields {
        match field.split(' ').collect::<Vec<_>>()[..] {
            [id, class, length] if !field.starts_with('<') => text.push_str(&format!(
                "<isofield id=\"{id}\" class=\"org.jpos.iso.{class}\" length=\"{length}\" name=\"\"/>\n"
            )),
            _ => text.push_str(&format!("{field}\n")),
        }
    }
    text + "</isopackager>"
}

/// Packs the fields, compares the bytes, and reads them back.
fn check(packager: &Packager, fields: &str, expected: &str) {
    let described = Packager::from_toml(&packager.description()).unwrap();
    for packager in [packager, &described] {
        let mut message = Message::new(packager);
        let mut values = vec![];
        for field in fields.split(' ') {
            let (path, value) = field.split_once('=').unwrap();
            message.set(path.parse::<iso8583::FieldPath>().unwrap(), value).unwrap();
            values.push((path, value));
        }
        let packed = message.pack().unwrap();
        assert_eq!(packed.escape_ascii().to_string(), expected, "{fields}");
        let mut index = Index::new();
        let view = packager.unpack(&packed, &mut index).unwrap();
        assert_eq!(view.bytes(), packed);
        let mut loaded = Message::new(packager);
        loaded.load(&packed).unwrap();
        for view in [view, loaded.view()] {
            for (path, value) in &values {
                if let Ok(number) = path.parse::<u16>() {
                    assert_eq!(view.text(number).as_deref(), Some(*value), "{path} of {fields}");
                }
            }
        }
        assert_eq!(loaded.pack().unwrap(), packed);
        if !fields.contains('.') {
            let mut direct = vec![];
            let values = values.iter().map(|(path, it)| (path.parse().unwrap(), it.as_bytes()));
            let values: Vec<(u16, &[u8])> = values.collect();
            packager.pack_values(&values, &mut direct).unwrap();
            assert_eq!(direct, packed);
        }
    }
}

#[test]
fn a_third_bitmap_among_the_fields_is_supported() {
    let fields = [
        "0 IFA_NUMERIC 4",
        "1 IFB_BITMAP 16",
        "3 IFA_NUMERIC 6",
        "65 IFB_BITMAP 8",
        "66 IFA_NUMERIC 1",
        "70 IFA_NUMERIC 3",
        "130 IFA_NUMERIC 2",
        "192 IF_CHAR 1",
    ];
    let packager = packager("maxValidField=\"192\" thirdBitmapField=\"65\"", &fields);
    let zeros = "\\x00".repeat(7);
    check(&packager, "0=0200 3=000001", &format!("0200 {zeros}000001"));
    check(&packager, "0=0200 3=000001 70=301", &format!("0200\\xa0{zeros}\\x04{zeros}000001301"));
    check(
        &packager,
        "0=0200 3=000001 130=42",
        &format!("0200\\xa0{zeros}\\x80{zeros}000001@{zeros}42"),
    );
    check(
        &packager,
        "0=0200 3=000001 66=7 70=301 130=42 192=z",
        &format!("0200\\xa0{zeros}\\xc4{zeros}000001@{}\\x017301", "\\x00".repeat(6))
            .replace("7301", "730142z"),
    );
    // A field of another class is not a third bitmap.
    let fields =
        fields.map(|field| if field.starts_with("65") { "65 IFB_BINARY 4" } else { field });
    let other = self::packager("thirdBitmapField=\"65\"", &fields);
    let set = |number, value| Message::new(&other).set(number, value).map_err(|it| it.problem);
    assert_eq!(set(130, "42"), Err(Problem::UnknownField));
    assert_eq!(set(65, "1234"), Ok(()));
    let mut message = Message::new(&packager);
    assert_eq!(message.set(65, "x").unwrap_err().problem, Problem::BitmapIsDerived);
    for (number, value) in [(0, "0200"), (3, "1"), (130, "42")] {
        message.set(number, value).unwrap();
    }
    let with = message.pack().unwrap();
    message.load(&with).unwrap();
    message.set(70, "301").unwrap();
    message.remove(130).unwrap();
    let packed = message.pack().unwrap().escape_ascii().to_string();
    assert_eq!(packed, format!("0200\\xa0{zeros}\\x04{zeros}000001301"));
    // An empty third bitmap is kept.
    let mut empty = b"0200".to_vec();
    empty.extend([0xA0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]);
    empty.extend(b"000001\0\0\0\0\0\0\0\0");
    message.load(&empty).unwrap();
    assert_eq!(message.pack().unwrap(), empty);
    for length in 0..with.len() {
        let error = packager.unpack(&with[..length], &mut Index::new()).unwrap_err();
        assert!(matches!(error.problem, Problem::Truncated { .. }), "{length}: {error}");
    }
}

#[test]
fn a_third_bitmap_in_digits_is_supported() {
    let fields = [
        "0 IFA_NUMERIC 4",
        "1 IFA_BITMAP 16",
        "3 IFA_NUMERIC 2",
        "7 IFA_BITMAP 16",
        "8 IFA_NUMERIC 2",
        "129 IFA_NUMERIC 2",
    ];
    let packager = packager("thirdBitmapField=\"7\"", &fields);
    check(&packager, "0=0200 3=33 8=88 129=99", "020023000000000000003380000000000000008899");
}

#[test]
fn headers_are_required_and_read() {
    let packager =
        packager("headerLength=\"3\"", &["0 IFA_NUMERIC 4", "1 IFB_BITMAP 8", "3 IFA_NUMERIC 2"]);
    let mut message = Message::new(&packager);
    message.set(0, "0200").unwrap();
    message.set(3, "42").unwrap();
    let refused = message.pack().unwrap_err();
    assert_eq!(refused.to_string(), "message: a header of 3 bytes was expected, 0 were found");
    let long = message.set_header(b"HDRX").unwrap_err();
    assert_eq!(long.problem, Problem::BadHeader { expected: 3, found: 4 });
    message.set_header(b"HDR").unwrap();
    let packed = message.pack().unwrap();
    assert_eq!(packed, b"HDR0200\x20\x00\x00\x00\x00\x00\x00\x0042");
    let mut index = Index::new();
    let view = packager.unpack(&packed, &mut index).unwrap();
    assert_eq!(
        (view.header(), view.bytes(), view.text(3)),
        (&b"HDR"[..], &packed[..], Some("42".into()))
    );
    let mut loaded = Message::new(&packager);
    loaded.load(&packed).unwrap();
    assert_eq!((loaded.header(), loaded.pack().unwrap()), (&b"HDR"[..], packed.clone()));
    let error = packager.unpack(&packed[..packed.len() - 1], &mut index).unwrap_err();
    assert_eq!(error.to_string(), "field 3 at byte 15: 2 bytes are needed, 1 are left");
    let error = packager.unpack(b"HD", &mut index).unwrap_err();
    assert_eq!(error.to_string(), "message at byte 0: 3 bytes are needed, 2 are left");
    // jPOS packs a message without a header.
    message.clear();
    let lenient = packager.with_validation(Validation::Lenient);
    let mut message = Message::new(&lenient);
    message.set(0, "0200").unwrap();
    message.set(3, "42").unwrap();
    assert_eq!(message.pack().unwrap(), packed[3..]);
}

#[test]
fn a_positional_message_requires_all_fields() {
    let fields = ["0 IFA_NUMERIC 4", "1 IFA_BITMAP 16", "2 IF_CHAR 2", "3 IFA_LLCHAR 9"];
    let without = packager("emitBitmap=\"false\"", &fields);
    check(&without, "0=0200 2=ab 3=cde", "0200ab03cde");
    let without = packager("bitmapField=\"-1\" firstField=\"2\"", &fields);
    check(&without, "0=0200 2=ab 3=cde", "0200ab03cde");
    // jPOS packs an incomplete message and cannot read it back.
    let lenient = without.with_validation(Validation::Lenient);
    for (missing, other, expected) in [(2, (3, "cde"), "020003cde"), (3, (2, "ab"), "0200ab")] {
        let mut message = Message::new(&without);
        message.set(0, "0200").unwrap();
        message.set(other.0, other.1).unwrap();
        let error = message.pack().unwrap_err().problem;
        assert_eq!(error, Problem::Gap { position: missing });
        let mut message = Message::new(&lenient);
        message.set(0, "0200").unwrap();
        message.set(other.0, other.1).unwrap();
        assert_eq!(message.pack().unwrap(), expected.as_bytes());
        let error = lenient.unpack(expected.as_bytes(), &mut Index::new()).unwrap_err();
        assert!(
            matches!(error.problem, Problem::BadPrefix { .. } | Problem::Truncated { .. }),
            "{error}"
        );
    }
}

#[test]
fn the_bitmap_may_be_another_field() {
    let fields = ["0 IFA_NUMERIC 4", "1 IFA_NUMERIC 1", "2 IFB_BITMAP 8", "3 IF_CHAR 2"];
    let packager = packager("bitmapField=\"2\"", &fields);
    check(&packager, "0=0200 1=7 3=ab", "0200\\xa0\\x00\\x00\\x00\\x00\\x00\\x00\\x007ab");
}

#[test]
fn composite_fields_are_compiled() {
    let sub = |attributes: &str, fields: &str| {
        let file = file(
            "",
            &[
                "0 IFA_NUMERIC 4",
                "1 IFB_BITMAP 8",
                &format!(
                    "<isofieldpackager id=\"48\" class=\"IFA_LLLCHAR\" length=\"99\" {attributes} \
                     packager=\"org.jpos.iso.packager.GenericSubFieldPackager\">{fields}\
                     </isofieldpackager>"
                ),
            ],
        );
        Packager::from_jpos_xml(&file)
    };
    let row = |id: u8, class: &str, length: u8| {
        format!("<isofield id=\"{id}\" class=\"{class}\" length=\"{length}\"/>")
    };
    let outer = "0200\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00";
    let two = row(0, "IFB_BITMAP", 8) + &row(1, "IF_CHAR", 1) + &row(2, "IF_CHAR", 2);
    let bits = "\\x00".repeat(7);
    check(&sub("", &two).unwrap(), "0=0200 48.1=a 48.2=bc", &format!("{outer}011\\xc0{bits}abc"));
    let off = sub("emitBitmap=\"false\"", &two).unwrap();
    check(&off, "0=0200 48.1=a 48.2=bc", &format!("{outer}003abc"));
    // Inner fields begin with 1 by default.
    let usual = row(0, "IF_CHAR", 1) + &row(1, "IF_CHAR", 2) + &row(2, "IFA_LLCHAR", 9);
    let usual = sub("emitBitmap=\"false\"", &usual).unwrap();
    check(&usual, "0=0200 48.1=ab 48.2=c", &format!("{outer}005ab01c"));
    check(&usual, "0=0200 48.2=c", &format!("{outer}005  01c"));
    let zero = Message::new(&usual).set([48, 0], "z").unwrap_err();
    assert_eq!(zero.problem, Problem::UnknownField);
    let long = row(0, "IFB_BITMAP", 16) + &row(2, "IF_CHAR", 2) + &row(70, "IF_CHAR", 1);
    let long = sub("bitmapField=\"0\"", &long).unwrap();
    check(&long, "0=0200 48.2=bc", &format!("{outer}010@{bits}bc"));
    check(&long, "0=0200 48.2=bc 48.70=z", &format!("{outer}019\\xc0{bits}\\x04{bits}bcz"));
    let from_zero = row(0, "IF_CHAR", 1) + &row(1, "IF_CHAR", 2);
    let from_zero = sub("emitBitmap=\"false\" firstField=\"0\"", &from_zero).unwrap();
    check(&from_zero, "0=0200 48.0=a 48.1=bc", &format!("{outer}003abc"));
    check(&from_zero, "0=0200 48.1=bc", &format!("{outer}003 bc"));
    let from_one = row(0, "IF_CHAR", 1) + &row(1, "IF_CHAR", 2);
    let from_one = sub("emitBitmap=\"false\" firstField=\"1\"", &from_one).unwrap();
    check(&from_one, "0=0200 48.1=bc", &format!("{outer}002bc"));
    let refused = |attributes: &str, fields: &str, expected: &str| {
        assert_eq!(sub(attributes, fields).unwrap_err().to_string(), expected);
    };
    refused(
        "emitBitmap=\"true\"",
        &row(2, "IF_CHAR", 2),
        "line 5: field 48, emitBitmap: neither field 0 nor field 1 is a bitmap",
    );
    refused(
        "",
        &row(2, "IF_CHAT", 2),
        "line 5: field 48.2, class: `IF_CHAT` of length 2: unknown field class",
    );
}

/// An inner message has its type in front of its bitmap.
#[test]
fn a_composite_field_may_be_a_message() {
    let inside = "<isofieldpackager id=\"48\" class=\"IFA_LLLCHAR\" length=\"99\" \
                  packager=\"org.jpos.iso.packager.GenericPackager\">\
                  <isofield id=\"0\" class=\"IF_CHAR\" length=\"2\"/>\
                  <isofield id=\"1\" class=\"IFB_BITMAP\" length=\"8\"/>\
                  <isofield id=\"2\" class=\"IF_CHAR\" length=\"2\"/></isofieldpackager>";
    let packager = packager("", &["0 IFA_NUMERIC 4", "1 IFB_BITMAP 8", inside]);
    let bits = "\\x00".repeat(7);
    let outer = "0200\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00";
    check(&packager, "0=0200 48.0=zz 48.2=ab", &format!("{outer}012zz@{bits}ab"));
}

/// The inner fields are encoded in EBCDIC.
#[test]
fn composite_fields_in_ebcdic_are_encoded() {
    for (class, expected) in [
        ("IFE_LLLCHAR", "\\xf0\\xf0\\xf3!\\\"#"),
        ("IFE_LLLBINARY", "\\xf0\\xf0\\xf3\\x81\\x82\\x83"),
        ("IFB_LLHCHAR", "\\x03\\x81\\x82\\x83"),
        ("IFE_CHAR", "!\\\"#"),
    ] {
        let length = if class.contains("_L") { 99 } else { 3 };
        let inside = format!(
            "<isofieldpackager id=\"48\" class=\"{class}\" length=\"{length}\" emitBitmap=\"false\" \
             packager=\"org.jpos.iso.packager.GenericSubFieldPackager\">\
             <isofield id=\"1\" class=\"IFE_CHAR\" length=\"1\"/>\
             <isofield id=\"2\" class=\"IFE_CHAR\" length=\"2\"/></isofieldpackager>"
        );
        let packager = packager("", &["0 IFA_NUMERIC 4", "1 IFB_BITMAP 8", &inside]);
        let outer = "0200\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00";
        check(&packager, "0=0200 48.1=a 48.2=bc", &format!("{outer}{expected}"));
        let mut message = Message::new(&packager);
        message.set(0, "0200").unwrap();
        message.set([48, 1], "a").unwrap();
        message.set([48, 2], "bc").unwrap();
        let packed = message.pack().unwrap();
        let mut index = Index::new();
        let view = packager.unpack(&packed, &mut index).unwrap();
        let mut inner = Index::new();
        let nested = view.field(48).unwrap().nested(&mut inner).unwrap();
        assert_eq!((nested.text(1), nested.text(2)), (Some("a".into()), Some("bc".into())));
    }
}

/// Like jPOS, trimmed fields are neither filled up nor trimmed. They are only read back at the end.
#[test]
fn trimmed_fields_are_not_filled_up() {
    for (class, value, whole, expected) in [
        ("IF_CHAR", "ab", "a    ", "ab"),
        ("IFA_NUMERIC", "12", "00012", "12"),
        ("IFE_CHAR", "ab", "a    ", "\\x81\\x82"),
        ("IFE_NUMERIC", "12", "00012", "\\xf1\\xf2"),
        ("IFB_NUMERIC", "12", "00012", "\\x12"),
    ] {
        let field = format!("<isofield id=\"3\" class=\"{class}\" length=\"5\" trim=\"true\"/>");
        let packager = packager("", &["0 IFA_NUMERIC 4", "1 IFB_BITMAP 8", &field]);
        let lenient = packager.with_validation(Validation::Lenient);
        let mut message = Message::new(&lenient);
        message.set(0, "0200").unwrap();
        message.set(3, value).unwrap();
        let packed = message.pack().unwrap();
        let bitmap = format!("0200 {}", "\\x00".repeat(7));
        assert_eq!(packed.escape_ascii().to_string(), format!("{bitmap}{expected}"), "{class}");
        let mut index = Index::new();
        assert_eq!(lenient.unpack(&packed, &mut index).unwrap().text(3).as_deref(), Some(value));
        let error = packager.unpack(&packed, &mut index).unwrap_err().to_string();
        assert!(error.starts_with("field 3 at byte 12: "), "{error}");
        let mut message = Message::new(&packager);
        message.set(0, "0200").unwrap();
        let error = message.set(3, value).unwrap_err().to_string();
        assert_eq!(error, "field 3: a length of 5 was expected, 2 was found");
        message.set(3, whole).unwrap();
        let packed = message.pack().unwrap();
        let view = packager.unpack(&packed, &mut index).unwrap();
        assert_eq!(view.text(3).as_deref(), Some(whole));
    }
    let field =
        "<isofield id=\"3\" class=\"IFB_NUMERIC\" length=\"5\" pad=\"true\" trim=\"true\"/>";
    let packager = packager("", &["0 IFA_NUMERIC 4", "1 IFB_BITMAP 8", field]);
    let mut message = Message::new(&packager.with_validation(Validation::Lenient));
    message.set(0, "0200").unwrap();
    message.set(3, "123").unwrap();
    assert!(message.pack().unwrap().ends_with(b"\0\x01\x23"));
    assert_eq!(message.pack().unwrap().len(), 14);
}

/// The content of a field with BER-TLV is opaque; `tlv` reads it.
#[test]
fn ber_tlv_fields_stay_opaque() {
    let tlv = "<isofieldpackager id=\"55\" class=\"IFB_LLHBINARY\" length=\"255\" emitBitmap=\"false\" \
               packager=\"org.jpos.tlv.packager.bertlv.BERTLVBinaryPackager\"/>";
    let packager = packager("", &["0 IFA_NUMERIC 4", "1 IFB_BITMAP 8", tlv]);
    check(&packager, "0=0200 55=ABC", "0200\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\x03ABC");
}

#[test]
fn invalid_files_are_refused() {
    let check = |text: &str, expected: &str| {
        let error = Packager::from_jpos_xml(text).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    };
    check("", "line 1: an element `isopackager` was expected");
    check("<isomsg/>", "line 1: `isomsg` was not expected here");
    check("<isopackager/>", "line 1: at least one field was expected");
    check("<isopackager>x</isopackager>", "line 1: no text was expected");
    check("<isopackager/><isopackager/>", "line 1: at least one field was expected");
    let field =
        |attributes: &str| format!("<isopackager>\n<isofield {attributes}/>\n</isopackager>");
    check(&field("id='2' length='3'"), "line 2: field 2, class: a class was expected");
    check(
        &field("length='3' class='IF_CHAR'"),
        "line 2: id: the number of a field was expected, 0 to 999",
    );
    check(
        &field("id='1000' length='3' class='IF_CHAR'"),
        "line 2: id: the number of a field was expected, 0 to 999",
    );
    check(&field("id='2' class='IF_CHAR'"), "line 2: field 2, length: a number was expected");
    check(
        &field("id='2' length='-3' class='IF_CHAR'"),
        "line 2: field 2, length: a number was expected",
    );
    check(
        &field("id='2' length='9999999' class='IF_CHAR'"),
        "line 2: field 2, class: `IF_CHAR` of length 9999999: the length is 9999999, but the maximum is 999999",
    );
    check(
        &field("id='2' length='3' class='IF_CHAR' colour='red'"),
        "line 2: field 2, colour: an unknown attribute",
    );
    check(
        &field("id='2' length='3' class='IF_CHAR' pad='maybe'"),
        "line 2: field 2, pad: `true` or `false` was expected",
    );
    check(
        &field("id='1' length='7' class='IFB_BITMAP'"),
        "field 1: a bitmap has 8, 16 or 24 bytes",
    );
    check(
        "<isopackager maxValidField='x'>\n<isofield id='70' length='3' class='IF_CHAR'/></isopackager>",
        "line 2: maxValidField: a number was expected",
    );
}

/// A document type is ignored: no entity, file or address is read.
#[test]
fn document_types_are_ignored() {
    let field = |class: &str| {
        format!(
            "<!DOCTYPE isopackager [<!ENTITY c \"IF_CHAR\"><!ENTITY f SYSTEM \"file:///etc/passwd\">\
             <!ENTITY a \"&c;&c;&c;&c;\"><!ATTLIST isofield pad CDATA \"true\">]>\n\
             <isopackager><isofield id=\"2\" class=\"{class}\" length=\"3\"/></isopackager>"
        )
    };
    assert_eq!(Packager::from_jpos_xml(&field("IF_CHAR")).map(drop), Ok(()));
    for class in ["&c;", "&f;", "&a;", "IF_&nbsp;CHAR"] {
        let error = Packager::from_jpos_xml(&field(class)).unwrap_err().to_string();
        assert!(error.starts_with("line 2: field 2, class:"), "{error}");
        assert!(error.contains("entity"), "{error}");
    }
    let known =
        field("IF_CHAR").replace("length", "name=\"&lt;&amp;&#65;&quot;&apos;&gt;\" length");
    assert_eq!(Packager::from_jpos_xml(&known).unwrap().field_name(2), "<&A\"'>");
    // Some editors write a byte order mark.
    let marked = format!("\u{feff}{}", field("IF_CHAR"));
    assert_eq!(Packager::from_jpos_xml(&marked).map(drop), Ok(()));
    let text = "<!DOCTYPE isopackager [<!ENTITY c \"x\">]><isopackager>&c;</isopackager>";
    let error = Packager::from_jpos_xml(text).unwrap_err();
    assert_eq!(error.to_string(), "line 1: no entity was expected");
}

/// The behaviour of packagers in other packages does not follow from their names.
#[test]
fn packagers_in_other_packages_are_refused() {
    let check = |package: &str, is_known: bool| {
        let element = format!(
            "<isofieldpackager id='48' class='IFA_LLLCHAR' length='99' \
             packager='{package}GenericSubFieldPackager'>\
             <isofield id='1' length='2' class='IFA_NUMERIC'/></isofieldpackager>"
        );
        let text = file("", &["0 IFA_NUMERIC 4", "1 IFA_BITMAP 16", &element]);
        match Packager::from_jpos_xml(&text) {
            Ok(_) => assert!(is_known, "{package}"),
            Err(error) => {
                assert!(!is_known && error.to_string().contains("is not known here"), "{error}");
            }
        }
    };
    check("", true);
    check("org.jpos.iso.packager.", true);
    check("com.acme.", false);
    check("org.jposts.", false);
}

#[test]
fn long_and_deep_files_are_refused() {
    let long = format!("<isopackager>{}</isopackager>", " ".repeat(iso8583::DESCRIPTION_BYTES_MAX));
    let error = Packager::from_jpos_xml(&long).unwrap_err();
    assert!(error.to_string().starts_with("a description has at most 1048576 bytes"), "{error}");
    let begin = "<isofieldpackager id=\"48\" class=\"IFA_LLLCHAR\" length=\"9\" packager=\"GenericPackager\">";
    let deep = format!("<isopackager>{}", begin.repeat(10_000));
    let error = Packager::from_jpos_xml(&deep).unwrap_err();
    assert_eq!(error.to_string(), "field 48.48.48.48: fields are nested 4 deep at most");
}
