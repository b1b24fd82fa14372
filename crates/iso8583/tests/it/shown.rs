//! Tests of the masking of card data.

use std::fmt::Write as _;

use iso8583::coding::FROM_EBCDIC;
use iso8583::{Index, Message, Packager, Validation};
use proptest::prelude::*;

use crate::tables::{MIXED, mixed, packager};

#[test]
fn card_data_is_masked() {
    let mut message = Message::new(&mixed());
    for (number, value) in [
        (0, "0200"),
        (2, "4761739001010119"),
        (3, "0"),
        (35, "4761739001010119=29122011234"),
        (43, "Caf\u{e9}\u{1}"),
    ] {
        message.set(number, value).unwrap();
    }
    message.set_bytes(52, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    message.set([48, 3], "4761739001010119").unwrap();
    message.set([60, 2], "open").unwrap();
    let masked = "0 0200\n2 476173******0119\n3 000000\n35 <28 characters>\n43 Caf\u{e9}\\u{1}\n\
                  48.1 <2 characters>\n48.2 <6 characters>\n48.3 <16 characters>\n52 <8 bytes>\n\
                  60.2 open\n";
    assert_eq!(message.to_string(), masked);
    assert_eq!(format!("{message:?} {:?}", message.view()), format!("{masked} {masked}"));
    let revealed = message.view().revealed().to_string();
    assert!(revealed.contains("48.3 4761739001010119\n52 0102030405060708\n"), "{revealed}");
    let inner = message.field(48).unwrap();
    let mut index = Index::new();
    let inner = inner.nested(&mut index).unwrap().field(3).unwrap();
    assert_eq!(format!("{inner:?} {}", inner.revealed()), "3 <16 characters> 4761739001010119");
    message.set(2, "123456789012").unwrap();
    assert!(message.to_string().contains("2 <12 characters>"));
}

#[test]
fn a_card_number_is_masked_wherever_it_turns_up() {
    let mut message = Message::new(&mixed());
    message.set(0, "0200").unwrap();
    let check = |message: &Message, number: u16, expected: &str| {
        let shown = message.to_string();
        let line = shown.lines().find_map(|line| line.strip_prefix(&format!("{number} ")));
        assert_eq!(line, Some(expected));
    };
    message.set(43, "to 5105105105105100, thanks").unwrap();
    check(&message, 43, "to 510510******5100, thanks");
    message.set(43, "to 5105008063608377, thanks").unwrap();
    check(&message, 43, "to 5105008063608377, thanks");
    message.set(43, "to 5105105105105101, thanks").unwrap();
    message.set(2, "5105105105105101").unwrap();
    check(&message, 43, "to ****************, thanks");
    message.set(43, "9951051051990000000").unwrap();
    check(&message, 43, "99********990000000");
    message.set_bytes(53, &[0x51, 0x05, 0x10, 0x51, 0x05, 0x10, 0x51, 0xAA]).unwrap();
    check(&message, 53, "**************AA");
    message.set_bytes(53, b"51051051").unwrap();
    check(&message, 53, "****************");
    let dump = mixed().dump(&message.pack().unwrap()).to_string();
    assert!(
        dump.contains("** ** ** ** ** ** ** ** ** ** ** ** ** ** ** **  ****************  53"),
        "{dump}"
    );
    message.set(2, "4000000000000002").unwrap();
    message.set(4, "100").unwrap();
    check(&message, 4, "000000000100");
}

#[test]
fn emv_tags_are_shown_without_card_data() {
    let check = |hex: &str, expected: &str| {
        let mut message = Message::new(&mixed());
        message.set_bytes(55, &bytes_of_hex(hex)).unwrap();
        assert_eq!(message.to_string(), format!("55 {expected}\n"), "{hex}");
    };
    check("9F36020042 8202 3900", "9F36=0042 82=3900");
    check("5A08 4761739001010119", "5A=476173******0119");
    check("5A0A 4761739001010119 FFFF", "5A=476173******0119FFFF");
    check("5A03 476173", "5A=<3 bytes>");
    check("57 0B 4761739001010119D29122", "57=<11 bytes>");
    check("5F24 03 291231 5F20 02 4142 99 01 00", "5F24=<3 bytes> 5F20=<2 bytes> 99=<1 bytes>");
    check("DF8129 02 3010 DF01 00", "DF8129=<2 bytes> DF01=<0 bytes>");
    check("70 0A 5A08 4761739001010119", "70={5A=476173******0119}");
    check("70 02 9F36", "70=<2 bytes>");
    check("9F36 05 00", "<4 bytes>");
    let nested: String = (0..10).rev().fold(String::new(), |mut hex, level| {
        let _ = write!(hex, "70{:02X}", level * 2);
        hex
    });
    check(&nested, "70={70={70={70={70={70={70={70={70=<2 bytes>}}}}}}}}");
    let mut message = Message::new(&mixed());
    message.set_bytes(55, &bytes_of_hex("5A 08 4761739001010119")).unwrap();
    assert_eq!(message.view().revealed().to_string(), "55 5A=4761739001010119\n");
}

#[test]
fn a_dump_has_offsets_fields_and_masks() {
    let mut message = Message::new(&mixed());
    message.set(0, "0200").unwrap();
    message.set(2, "4761739001010119").unwrap();
    message.set(41, "TERM").unwrap();
    message.set([48, 1], "7").unwrap();
    message.set([60, 2], "open").unwrap();
    message.set(43, "an address that needs a second line").unwrap();
    message.set_bytes(55, &bytes_of_hex("9F36020042 5A084761739001010119")).unwrap();
    let mut bytes = message.pack().unwrap();
    bytes.push(0x47);
    let expected = "\
0000  02 00                                            ..                0
0002  40 00 00 00 00 A1 02 10                          @.......          bitmap
000A  16 47 61 73 ** ** ** 01 19                       .Gas***..         2
0013  E3 C5 D9 D4 40 40 40 40                          ....@@@@          41
001B  33 35 61 6E 20 61 64 64 72 65 73 73 20 74 68 61  35an address tha  43
002B  74 20 6E 65 65 64 73 20 61 20 73 65 63 6F 6E 64  t needs a second
003B  20 6C 69 6E 65                                    line
0040  30 30 32                                         002               48
0043  ** **                                            **                48.1
0045  00 15                                            ..                55
0047  9F 36 02 00 42                                   .6..B             55.9F36
004C  5A 08 47 61 73 ** ** ** 01 19                    Z.Gas***..        55.5A
0056  30 31 34                                         014               60
0059  40 00 00 00 00 00 00 00                          @.......          60.bitmap
0061  30 34 6F 70 65 6E                                04open            60.2
0067  **                                               *                 beyond the end
";
    assert_eq!(mixed().dump(&bytes).to_string(), expected);
    assert_eq!(format!("{:?}", mixed().dump(&bytes)), expected);
    let revealed = mixed().dump(&bytes).revealed().to_string();
    assert!(revealed.contains("16 47 61 73 90 01 01 01 19"), "{revealed}");
    assert!(revealed.ends_with(
        "47                                               G                 beyond the end\n"
    ));
}

#[test]
fn an_odd_card_number_is_masked_in_a_dump() {
    let dump = |side: &str| {
        let text = MIXED.replace("2 IFB_LLNUM 19", &format!("2 IFB_LLNUM 19 {side}"));
        let packager = packager(&text);
        let mut message = Message::new(&packager);
        message.set(0, "0200").unwrap();
        message.set(2, "476173900101011").unwrap();
        let shown = packager.dump(&message.pack().unwrap()).to_string();
        shown.lines().last().unwrap().to_owned()
    };
    let left = "000A  15 04 76 17 3* ** ** 10 11                       ..v.***..         2";
    assert_eq!(dump("left"), left);
    let right = "000A  15 47 61 73 ** ** *1 01 10                       .Gas***..         2";
    assert_eq!(dump(""), right);
}

/// The inner fields of an encoded composite field have no offsets in the dump.
#[test]
fn a_dump_of_encoded_composite_fields_shows_the_outer_field() {
    let text = "0 IFA_NUMERIC 4\n1 IFB_BITMAP 8\n48 IFE_LLCHAR 30\n  1 IF_CHAR 16\n\
                60 IFE_LLCHAR 30\n  1 IF_CHAR 16\n  2 IF_CHAR 2\n";
    let packager = packager(text);
    let mut message = Message::new(&packager);
    for (path, value) in
        [("0", "0200"), ("48.1", "4761739001010119"), ("60.1", "4761739001010119"), ("60.2", "AB")]
    {
        message.set(path.parse::<iso8583::FieldPath>().unwrap(), value).unwrap();
    }
    let dump = packager.dump(&message.pack().unwrap()).to_string();
    let expected = "\
0000  30 32 30 30                                      0200              0
0004  00 00 00 00 00 01 00 10                          ........          bitmap
000C  F1 F6 ** ** ** ** ** ** ** ** ** ** ** ** ** **  ..**************  48
001C  ** **                                            **
001E  F1 F8 F4 F7 F6 F1 F7 F3 ** ** ** ** ** ** F0 F1  ........******..  60
002E  F1 F9 C1 C2                                      ....
";
    assert_eq!(dump, expected);
    let shown = message.to_string();
    assert_eq!(shown, "0 0200\n48.1 <16 characters>\n60.1 476173******0119\n60.2 AB\n");
}

#[test]
fn a_dump_of_an_invalid_message_masks_the_rest() {
    let check = |hex: &str, expected: &str| {
        assert_eq!(mixed().dump(&bytes_of_hex(hex)).to_string(), expected, "{hex}");
    };
    check("", "field 0 at byte 0: 2 bytes are needed, 0 are left\n");
    check(
        "0200 5000000000000000 03 1230 4761",
        "\
0000  02 00                                            ..                0
0002  50 00 00 00 00 00 00 00                          P.......          bitmap
000A  03 ** **                                         .**               2
000D  ** **                                            **                not read
field 4 at byte 13: 6 bytes are needed, 2 are left
",
    );
    check(
        "0200 8000",
        "\
0000  02 00                                            ..                0
0002  ** **                                            **                not read
field 1 at byte 2: 8 bytes are needed, 2 are left
",
    );
    check(
        "0200 0000000000010000 303035 3132 312020",
        "\
0000  02 00                                            ..                0
0002  00 00 00 00 00 01 00 00                          ........          bitmap
000A  ** ** ** ** ** ** ** **                          ********          not read
field 48.2 at byte 15: more content was expected
",
    );
}

#[test]
fn a_dump_of_xml_masks_values() {
    let packager = Packager::built_in("xml").unwrap();
    let xml = "<isomsg>\n<field id=\"0\" value=\"0200\"/><!-- 4761739001010119 -->\n\
               <field id=\"2\" value=\"4761739001010119\"/>\n<isomsg id=\"48\">\
               <field id=\"1\" value=\"123\"/></isomsg><field id='43'>\u{20ac} <![CDATA[4761739]]></field>\
               <field id=\"52\" value=\"1122334455667788\" type=\"binary\"/></isomsg>\n";
    let mut message = Message::new(&packager);
    message.load(xml.as_bytes()).unwrap();
    let masked =
        "0 0200\n2 476173******0119\n43 \u{20ac} *******\n48.1 <3 characters>\n52 <8 bytes>\n";
    assert_eq!(message.to_string(), masked);
    let dump = packager.dump(xml.as_bytes()).to_string();
    let shown: String = dump.lines().flat_map(|line| line[55..].chars().take(16)).collect();
    assert_eq!(
        shown,
        "<isomsg>.<field id=\"0\" value=\"****\"/>**** **************** ***.<field id=\"2\" value=\"\
         ****************\"/>.<isomsg id=\"48\"><field id=\"1\" value=\"***\"/></isomsg><field id='43'>\
         *** *******************</field><field id=\"52\" value=\"****************\" type=\"******\"/></isomsg>."
    );
    for broken in
        ["<isomsg><field id=\"2\" value=\"4761739001010119/>", "<x>4761739001010119</x>", "4761739"]
    {
        assert!(!packager.dump(broken.as_bytes()).to_string().contains("476"), "{broken}");
    }
}

/// A message with a card number in some fields.
fn card_messages() -> impl Strategy<Value = (String, Vec<(String, Vec<u8>)>)> {
    let any = "[1-9]{13,19}".prop_filter("a uniform number is ambiguous", |number| {
        !number.as_bytes().windows(7).any(|run| run.iter().all(|digit| *digit == run[0]))
    });
    (any, proptest::collection::vec((0..12_usize, "[0-9]{0,5}"), 0..8)).prop_map(
        |(number, places)| {
            let mut values = vec![("2".to_owned(), number.clone().into_bytes())];
            values
                .extend(places.into_iter().map(|(place, around)| carried(&number, place, &around)));
            (number, values)
        },
    )
}

/// A field with the card number in some form.
fn carried(number: &str, place: usize, around: &str) -> (String, Vec<u8>) {
    let bcd = bytes_of_hex(&format!("{number}{}", if number.len() % 2 == 1 { "F" } else { "" }));
    let tlv =
        |tag: &[u8]| [tag, &[u8::try_from(bcd.len()).expect("the value is short")], &bcd].concat();
    let nested = |inner: Vec<u8>| {
        [&[0x70, u8::try_from(inner.len()).expect("the value is short")], &inner[..]].concat()
    };
    let (path, value) = match place {
        0 => ("35", format!("{number}=2912{around}").into_bytes()),
        1 => ("43", format!("{around}{number}{around}").into_bytes()),
        2 => ("44", number.as_bytes().to_vec()),
        3 => ("48.3", format!("card {number}").into_bytes()),
        4 => ("55", tlv(&[0x5A])),
        5 => ("55", [tlv(&[0x57]), tlv(&[0x9F, 0x10])].concat()),
        6 => ("55", nested(tlv(&[0x5A]))),
        7 => ("55", [tlv(&[0xDF, 0x01]), bcd].concat()),
        8 => ("60.2", number.as_bytes()[..10].to_vec()),
        9 => ("62.2", format!("{around}{number}").into_bytes()),
        10 => ("90", number.as_bytes().to_vec()),
        _ => ("102", format!("{number}X").into_bytes()),
    };
    (path.to_owned(), value)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_seven_digits_of_a_card_number_are_shown(
        (number, values) in card_messages(),
        is_bcd in any::<bool>(),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..3),
    ) {
        let packager = if is_bcd { mixed() } else { packager(&MIXED.replace("IFB_LLNUM", "IFE_LLNUM")) };
        let mut message = Message::new(&packager);
        message.set(0, "0200").unwrap();
        for (path, value) in values {
            message.set_bytes(path.parse::<iso8583::FieldPath>().unwrap(), &value).unwrap();
        }
        hides(&message.to_string(), &number)?;
        hides(&format!("{message:?}"), &number)?;
        let mut bytes = message.pack().unwrap();
        let whole = packager.dump(&bytes);
        hides_bytes(&whole.to_string(), &number)?;
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        for validation in [Validation::Strict, Validation::Lenient] {
            hides(&shown(&packager.with_validation(validation), &bytes), &number)?;
        }
    }
}

fn shown(packager: &Packager, bytes: &[u8]) -> String {
    match packager.unpack(bytes, &mut Index::new()) {
        Ok(_) => String::new(),
        Err(error) => format!("{error} {error:?}"),
    }
}

fn hides(text: &str, number: &str) -> Result<(), TestCaseError> {
    prop_assert!(!reveals(text, number), "{number} in\n{text}");
    Ok(())
}

fn reveals(text: &str, number: &str) -> bool {
    number.as_bytes().windows(7).any(|run| text.as_bytes().windows(7).any(|it| it == run))
}

/// Neither the text of a dump nor its bytes show the number.
fn hides_bytes(dump: &str, number: &str) -> Result<(), TestCaseError> {
    hides(dump, number)?;
    let columns = dump.lines().filter_map(|line| line.get(6..53));
    let bytes: Vec<&str> = columns.flat_map(str::split_whitespace).collect();
    let read = |as_character: fn(u8) -> u8| {
        let character =
            |hex: &&str| u8::from_str_radix(hex, 16).map_or('*', |it| char::from(as_character(it)));
        bytes.iter().map(character).collect::<String>()
    };
    hides(&bytes.concat(), number)?;
    hides(&read(|byte| byte), number)?;
    hides(&read(|byte| FROM_EBCDIC[byte as usize]), number)
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let half = |digit| iso8583::coding::hex_value(digit).expect("a digit");
    digits.as_chunks::<2>().0.iter().map(|pair| half(pair[0]) << 4 | half(pair[1])).collect()
}

#[test]
fn sensitive_fields_are_listed() {
    let check = |name: &str, expected: &[u16]| {
        let packager = Packager::built_in(name).unwrap();
        assert_eq!(packager.sensitive_fields(), expected, "{name}");
    };
    check("iso87a", &[2, 14, 34, 35, 36, 45, 48, 52, 55, 64, 128]);
    check("base24", &[2, 14, 34, 35, 36, 45, 48, 52, 55, 63, 64, 126, 128]);
    check("xml", &[2, 14, 34, 35, 36, 45, 48, 52, 55, 64, 128]);
    let text = r#"
        [fields]
        0 = { content = "digits", length = 4 }
        60 = { content = "text", length = 99, prefix = { digits = 2 } }
        61 = { content = "text", length = 99, prefix = { digits = 2 }, sensitive = true }
        [fields.62]
        content = "text"
        length = 99
        prefix = { digits = 2 }
        [fields.62.inside.fields]
        1 = { content = "digits", length = 4 }
        2 = { content = "digits", length = 3, sensitive = true }
    "#;
    let packager = Packager::from_toml(text).unwrap();
    assert_eq!(packager.sensitive_fields(), [61, 62]);
    let packager = Packager::built_in("base24").unwrap();
    let mut message = Message::new(&packager);
    message.set(0, "0200").unwrap();
    message.set(63, "& 0000200038! C000026 123").unwrap();
    assert_eq!(message.to_string(), "0 0200\n63 <25 characters>\n");
    let is_sensitive = |number: u16| message.field(number).unwrap().is_sensitive();
    assert_eq!((is_sensitive(0), is_sensitive(63)), (false, true));
}
