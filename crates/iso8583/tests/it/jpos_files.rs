//! Packager files of jPOS: what their attributes do on the wire, and what is refused in them.
#![expect(clippy::unwrap_used, reason = "whatever is missing here fails the test")]

use iso8583::{Index, Message, Packager, Validation};

/// A file with these attributes and fields, each `id class length` or an element by itself.
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

/// Packs the fields, sees the bytes, and reads them back in all ways.
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
fn third_bitmap_among_the_fields() {
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
    let mut message = Message::new(&packager);
    assert!(message.set(65, "x").is_err());
    for (number, value) in [(0, "0200"), (3, "1"), (130, "42")] {
        message.set(number, value).unwrap();
    }
    let with = message.pack().unwrap();
    message.load(&with).unwrap();
    message.set(70, "301").unwrap();
    message.remove(130).unwrap();
    let packed = message.pack().unwrap().escape_ascii().to_string();
    assert_eq!(packed, format!("0200\\xa0{zeros}\\x04{zeros}000001301"));
    for length in 0..with.len() {
        assert!(packager.unpack(&with[..length], &mut Index::new()).is_err());
    }
}

#[test]
fn third_bitmap_at_another_field_in_digits() {
    let fields = [
        "0 IFA_NUMERIC 4",
        "1 IFA_BITMAP 16",
        "3 IFA_NUMERIC 2",
        "7 IFA_BITMAP 16",
        "8 IFA_NUMERIC 2",
        "129 IFA_NUMERIC 2",
    ];
    let packager = packager("thirdBitmapField=\"7\"", &fields);
    check(
        &packager,
        "0=0200 3=33 8=88 129=99",
        "0200A3000000000000000000000000000000338000000000000000889 9".replace(' ', "").as_str(),
    );
}

#[test]
fn headers() {
    let packager =
        packager("headerLength=\"3\"", &["0 IFA_NUMERIC 4", "1 IFB_BITMAP 8", "3 IFA_NUMERIC 2"]);
    let mut message = Message::new(&packager);
    message.set(0, "0200").unwrap();
    message.set(3, "42").unwrap();
    let refused = message.pack().unwrap_err();
    assert_eq!(refused.to_string(), "message: a header of 3 bytes was expected, 0 were found");
    assert!(message.set_header(b"HDRX").is_err());
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
    // jPOS writes what it has.
    message.clear();
    let lenient = packager.with_validation(Validation::Lenient);
    let mut message = Message::new(&lenient);
    message.set(0, "0200").unwrap();
    message.set(3, "42").unwrap();
    assert_eq!(message.pack().unwrap(), packed[3..]);
}

#[test]
fn no_bitmap() {
    let fields = ["0 IFA_NUMERIC 4", "1 IFA_BITMAP 16", "2 IF_CHAR 2", "3 IFA_LLCHAR 9"];
    let without = packager("emitBitmap=\"false\"", &fields);
    check(&without, "0=0200 2=ab 3=cde", "0200ab03cde");
    let without = packager("bitmapField=\"-1\" firstField=\"2\"", &fields);
    check(&without, "2=ab 3=cde", "ab03cde");
}

#[test]
fn bitmap_at_another_field() {
    let fields = ["0 IFA_NUMERIC 4", "1 IFA_NUMERIC 1", "2 IFB_BITMAP 8", "3 IF_CHAR 2"];
    let packager = packager("bitmapField=\"2\"", &fields);
    check(&packager, "0=0200 1=7 3=ab", "0200\\xa0\\x00\\x00\\x00\\x00\\x00\\x00\\x007ab");
}

#[test]
fn nested() {
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
        "headerLength=\"2\"",
        &two,
        "line 5: field 48, headerLength: only messages have headers here",
    );
    refused(
        "emitBitmap=\"true\"",
        &row(2, "IF_CHAR", 2),
        "line 5: field 48, emitBitmap: neither field 0 nor field 1 is a bitmap",
    );
    refused(
        "",
        &row(2, "IF_CHAT", 2),
        "line 5: field 48.2, class: `IF_CHAT` of length 2: no such class of field",
    );
}

/// BER-TLV inside a field stays as it is: what is inside is `tlv`'s affair.
#[test]
fn ber_tlv() {
    let tlv = "<isofieldpackager id=\"55\" class=\"IFB_LLHBINARY\" length=\"255\" emitBitmap=\"false\" \
               packager=\"org.jpos.tlv.packager.bertlv.BERTLVBinaryPackager\"/>";
    let packager = packager("", &["0 IFA_NUMERIC 4", "1 IFB_BITMAP 8", tlv]);
    check(&packager, "0=0200 55=ABC", "0200\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\x03ABC");
}

#[test]
fn refusals() {
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
        "line 2: field 2, class: `IF_CHAR` of length 9999999: at most 999999 is the length, 9999999 was found",
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
        "<isopackager maxValidField='64'>\n<isofield id='70' length='3' class='IF_CHAR'/></isopackager>",
        "line 2: maxValidField: field 70 is described, which is beyond it",
    );
    check(
        "<isopackager thirdBitmapField='65'><isofield id='1' length='16' class='IFB_BITMAP'/></isopackager>",
        "line 1: thirdBitmapField: field 65 and the first bitmap have to be bitmaps",
    );
    let twice = "<isofield id='2' length='3' class='IF_CHAR'/>".repeat(2);
    check(
        &format!("<isopackager>{twice}</isopackager>"),
        "line 1: field 2, id: the field is described twice",
    );
}

/// Nothing that a document type says is read, and no file or address is looked at.
#[test]
fn document_types_are_not_read() {
    let field = |class: &str| {
        format!(
            "<!DOCTYPE isopackager [<!ENTITY c \"IF_CHAR\"><!ENTITY f SYSTEM \"file:///etc/passwd\">\
             <!ENTITY a \"&c;&c;&c;&c;\"><!ATTLIST isofield pad CDATA \"true\">]>\n\
             <isopackager><isofield id=\"2\" class=\"{class}\" length=\"3\"/></isopackager>"
        )
    };
    assert!(Packager::from_jpos_xml(&field("IF_CHAR")).is_ok());
    for class in ["&c;", "&f;", "&a;", "IF_&nbsp;CHAR"] {
        let error = Packager::from_jpos_xml(&field(class)).unwrap_err().to_string();
        assert!(error.starts_with("line 2: field 2, class:"), "{error}");
        assert!(error.contains("entity"), "{error}");
    }
    let known =
        field("IF_CHAR").replace("length", "name=\"&lt;&amp;&#65;&quot;&apos;&gt;\" length");
    assert_eq!(Packager::from_jpos_xml(&known).unwrap().field_name(2), "<&A\"'>");
    let text = "<!DOCTYPE isopackager [<!ENTITY c \"x\">]><isopackager>&c;</isopackager>";
    let error = Packager::from_jpos_xml(text).unwrap_err();
    assert_eq!(error.to_string(), "line 1: no entity was expected");
}

#[test]
fn bounds() {
    let long = format!("<isopackager>{}</isopackager>", " ".repeat(iso8583::DESCRIPTION_BYTES_MAX));
    let error = Packager::from_jpos_xml(&long).unwrap_err();
    assert!(error.to_string().starts_with("a description has at most 1048576 bytes"), "{error}");
    let begin = "<isofieldpackager id=\"48\" class=\"IFA_LLLCHAR\" length=\"9\" packager=\"GenericPackager\">";
    let deep = format!("<isopackager>{}", begin.repeat(10_000));
    let error = Packager::from_jpos_xml(&deep).unwrap_err();
    assert_eq!(error.to_string(), "field 48.48.48.48: fields are nested 4 deep at most");
}
