//! Tests of positions in which card data was shown by former versions.

use std::time::{Duration, Instant};

use iso8583::framing::Header;
use iso8583::{Index, Message, Packager};

use crate::tables::{mixed, packager};

const NUMBER: &str = "4761739001010119";

/// The displayed value in a message without other fields, and with the card number in field 2.
fn shown(value: &str) -> [String; 2] {
    [false, true].map(|has_number| {
        let mut message = Message::new(&mixed());
        if has_number {
            message.set(2, NUMBER).expect("the field exists");
        }
        message.set(43, value).expect("the field exists");
        let shown = message.to_string();
        shown
            .lines()
            .find_map(|line| line.strip_prefix("43 "))
            .expect("the field exists")
            .to_owned()
    })
}

#[test]
fn a_dump_by_another_packager_masks_card_numbers() {
    let [ascii, binary] = ["iso87a", "iso87b"].map(|name| Packager::built_in(name).unwrap());
    let mut message = Message::new(&ascii);
    for (number, value) in [(0, "0200"), (2, NUMBER), (3, "000000"), (4, "000000012300")] {
        message.set(number, value).unwrap();
    }
    for other in [(7, "1121120000"), (11, "000042"), (41, "TERM0001"), (49, "978")] {
        message.set(other.0, other.1).unwrap();
    }
    let bytes = message.pack().unwrap();
    for name in Packager::built_in_names() {
        let other = Packager::built_in(name).expect("the format is built in");
        assert_hidden(&other.dump(&bytes).to_string());
    }
    assert!(ascii.dump(&bytes).to_string().contains("  000000012300 "), "the amount is shown");
    let packed = {
        let mut message = Message::new(&binary);
        message.set(0, "0200").unwrap();
        message.set(2, NUMBER).unwrap();
        message.set(41, "TERM0001").unwrap();
        message.pack().unwrap()
    };
    assert_hidden(&ascii.dump(&packed).to_string());
}

/// No byte of the dump shows the middle of the number.
fn assert_hidden(dump: &str) {
    let columns = dump.lines().filter(|line| line.len() > 53).filter_map(|line| line.get(6..53));
    let halves: String = columns.flat_map(str::split_whitespace).collect();
    let ascii: String = NUMBER.bytes().map(|digit| format!("{digit:02X}")).collect();
    let ebcdic: String = NUMBER.bytes().map(|digit| format!("F{}", digit & 15)).collect();
    for digits in [&ascii[..], &ebcdic, NUMBER] {
        let unit = digits.len() / 16;
        assert!(!halves.contains(&digits[..7 * unit]), "{dump}");
        assert!(!halves.contains(&digits[6 * unit..]), "{dump}");
    }
}

#[test]
fn card_numbers_in_a_header_are_masked() {
    let jpos = r#"<isopackager headerLength="8">
        <isofield id="0" length="4" name="" class="org.jpos.iso.IFA_NUMERIC"/>
        <isofield id="1" length="8" name="" class="org.jpos.iso.IFB_BITMAP"/>
        <isofield id="3" length="6" name="" class="org.jpos.iso.IFA_NUMERIC"/></isopackager>"#;
    let packager = Packager::from_jpos_xml(jpos).unwrap();
    let mut bytes = vec![0; 8];
    bytes.extend_from_slice(b"0200\x20\0\0\0\0\0\0\x00000000");
    bytes[..8].copy_from_slice(&[0x47, 0x61, 0x73, 0x90, 0x01, 0x01, 0x01, 0x19]);
    assert_hidden(&packager.dump(&bytes).to_string());
}

#[test]
fn card_numbers_in_filling_are_masked() {
    for (number, is_sensitive) in [(45, true), (44, false)] {
        let text = format!("0 IFA_NUMERIC 4\n1 IFB_BITMAP 8\n{number} IFA_FLLCHAR 40\n");
        let packager = packager(&text);
        let mut message = Message::new(&packager);
        message.set(0, "0200").unwrap();
        message.set(number, "AB").unwrap();
        let mut bytes = message.pack().unwrap();
        let track = format!("{NUMBER}^NAME");
        bytes[20..20 + track.len()].copy_from_slice(track.as_bytes());
        let dump = packager.dump(&bytes).to_string();
        assert_hidden(&dump);
        assert!(!dump.contains("NAME"), "{dump}");
        assert_eq!(dump.contains("AB"), !is_sensitive, "{dump}");
        assert_eq!(dump.contains("476173"), !is_sensitive, "{dump}");
    }
}

#[test]
fn card_numbers_with_separators_or_without_are_masked() {
    for [value, unknown, known] in [
        ["a 4761 7390 0101 0119.", "a 4761 73** **** 0119.", "a **** **** **** ****."],
        ["4761-7390-0101-0119", "4761-73**-****-0119", "****-****-****-****"],
        [
            "4-7-6-1-7-3-9-0-0-1-0-1-0-1-1-9",
            "4-7-6-1-7-3-*-*-*-*-*-*-0-1-1-9",
            "*-*-*-*-*-*-*-*-*-*-*-*-*-*-*-*",
        ],
        ["pan=0004761739001010119x", "pan=000476173******0119x", "pan=000****************x"],
        ["order 0012345 of 2029", "order 0012345 of 2029", "order 0012345 of 2029"],
    ] {
        assert_eq!(shown(value), [unknown, known], "{value}");
    }
    for value in ["47617390010101192912", "pan=004761739001010119", "004761739001010119=29"] {
        for text in shown(value) {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            assert!(!text.contains(&NUMBER[..7]) && !digits.contains("3900101"), "{text}");
        }
    }
}

#[test]
fn the_rest_of_a_track_is_masked() {
    let check = |value: &str, unknown: &str| assert_eq!(shown(value)[0], unknown, "{value}");
    check("%B4761739001010119^SMITH/J Q^29121?B", "%B476173******0119^***************?B");
    check(";4761739001010119=29122011234? end", ";476173******0119=***********? end");
    check("4761739001010119D2912201123 end", "476173******0119D********** end");
    check("4761739001010119^SMITH/JOHN ^2912", "476173******0119^****************");
    assert_eq!(shown("4761739001010119=2912 b")[1], "****************=**** b");
    let track = [0x47, 0x61, 0x73, 0x90, 0x01, 0x01, 0x01, 0x19, 0xD2, 0x91, 0x2F, 0x11];
    let mut message =
        Message::new(&packager("0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n90 IFB_BINARY 12\n"));
    message.set_bytes(90, &track).unwrap();
    assert_eq!(message.to_string(), "90 476173******0119D****F11\n");
}

#[test]
fn card_numbers_in_inner_xml_messages_are_masked() {
    let packager = Packager::built_in("xml").unwrap();
    let field = |number: u16| format!("<field id=\"{number}\" value=\"{NUMBER}=2912\"/>");
    let fields: String = [2, 14, 34, 35, 36, 45, 52].map(field).concat();
    let xml = format!(
        "<isomsg><field id=\"63\" value=\"x{NUMBER}\"/><isomsg id=\"127\"><isomsg id=\"9\">{fields}</isomsg>{fields}</isomsg></isomsg>"
    );
    let mut index = Index::new();
    let view = packager.unpack(xml.as_bytes(), &mut index).unwrap();
    let shown = view.to_string();
    assert!(!shown.contains("2912") && !shown.contains("0119"), "{shown}");
    assert!(shown.contains("127.9.45 <21 characters>\n"), "{shown}");
    let index = format!("{index:?}");
    assert!(!index.contains("52, 55"), "{index}");
    assert!(index.starts_with("Index { fields: 2, ") && index.len() < 300, "{index}");
}

#[test]
fn debug_of_a_header_shows_its_length() {
    let shown = format!(
        "{:?} {:?} {:?}",
        Header::Configured,
        Header::Given(NUMBER.as_bytes()),
        Header::Reply(&[1])
    );
    assert_eq!(shown, "Configured Given(<16 bytes>) Reply(<1 bytes>)");
}

#[test]
fn long_messages_are_masked_in_linear_time() {
    let digits = |seed: u32| -> String {
        let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let states = std::iter::successors(Some(seed), next).skip(1).take(100_000);
        states.filter_map(|state| char::from_digit((state >> 16) % 10, 10)).collect()
    };
    let tags: String = (0..4_000).map(|place| format!("5A08476100000{place:04}119")).collect();
    let tracks = format!("{NUMBER}^").repeat(5_000);
    let messages = [
        [format!("id=\"2\" value=\"{}\"", digits(3)), format!("id=\"63\" value=\"{}\"", digits(9))],
        [
            format!("id=\"55\" type=\"binary\" value=\"{tags}\""),
            format!("id=\"63\" value=\"{}\"", digits(9)),
        ],
        [format!("id=\"2\" value=\"{NUMBER}\""), format!("id=\"63\" value=\"{tracks}\"")],
    ];
    let packager = Packager::built_in("xml").unwrap();
    for [first, second] in messages {
        let xml = format!("<isomsg><field {first}/><field {second}/></isomsg>");
        let mut message = Message::new(&packager);
        message.load(xml.as_bytes()).unwrap();
        let start = Instant::now();
        assert!(!message.to_string().is_empty());
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
}
