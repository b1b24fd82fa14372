//! Tests of framing with the vectors, and of invalid frames, messages and settings.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// The framing of a vector.
fn framing(vector: &Value) -> Framing {
    let [channel, header, properties] =
        ["channel", "header", "props"].map(|name| vector[name].as_str().unwrap_or_default());
    let text = match header {
        "" => format!("{channel}:{properties}"),
        _ => format!("{channel}:header={header},{properties}"),
    };
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("hexadecimal text");
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("a byte")).collect()
}

fn vectors(file: &str, list: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/vectors/iso8583");
    let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    json[list].as_array().expect("a list of vectors").clone()
}

fn encoded(framing: &Framing, header: Header<'_>, body: &[u8]) -> Result<Vec<u8>, FramingError> {
    let mut out = vec![];
    framing.encode(header, body, &mut out).map(|()| out)
}

/// A measuring function for PAD that knows the length.
fn measured(length: usize) -> impl Fn(&[u8]) -> Measured {
    move |bytes| match length.checked_sub(bytes.len()) {
        None | Some(0) => Measured::Message { length },
        Some(more) => Measured::Incomplete { more },
    }
}

#[test]
fn frames_equal_the_vectors() {
    let vectors = vectors("channel-frames.json", "frames");
    let plain = vectors.iter().filter(|vector| vector["body"].is_string());
    let mut count = 0;
    for vector in plain.filter(|vector| vector["channel"] != "gzip") {
        let (framing, body, frame) = (framing(vector), hex(&vector["body"]), hex(&vector["frame"]));
        let wire = encoded(&framing, Header::Configured, &body);
        assert_eq!(wire.as_ref(), Ok(&frame), "{vector}");
        arrives_byte_by_byte(&framing, &body, &frame);

        let (mut keep_alive, expected) = (vec![], hex(&vector["keepalive"]));
        framing.encode_keep_alive(&mut keep_alive);
        assert_eq!(keep_alive, expected, "{vector}");
        if !expected.is_empty() {
            let consumed = expected.len();
            keep_alive.extend(&frame);
            assert_eq!(
                framing.decode(&keep_alive),
                Ok(Decoded::KeepAlive { consumed }),
                "{vector}"
            );
        }
        count += 1;
    }
    assert_eq!(count, 24);
}

fn arrives_byte_by_byte(framing: &Framing, body: &[u8], frame: &[u8]) {
    // The decoder does not wait for the line end behind an XML message.
    let body = if framing.channel() == Channel::Xml { body.trim_ascii_end() } else { body };
    let end = if framing.channel() == Channel::Xml { frame.len() - 1 } else { frame.len() };
    let followed = [frame, frame].concat();
    let mut progress = Progress::default();
    let mut decode = |bytes: &[u8]| {
        if framing.channel() == Channel::Pad {
            return framing.decode_measured(bytes, measured(body.len()));
        }
        framing.decode_on(bytes, &mut progress)
    };
    for have in 0..end {
        match decode(&followed[..have]) {
            Ok(Decoded::Incomplete { more }) => assert!((1..=end - have).contains(&more)),
            other => panic!("{:?}, {have} bytes: {other:?}", framing.channel()),
        }
    }
    for have in end..=followed.len() {
        let Ok(Decoded::Message { header, body: found, consumed }) = decode(&followed[..have])
        else {
            panic!("{:?}: no message in {have} bytes", framing.channel());
        };
        assert_eq!((&followed[found], consumed), (body, end));
        let is_whole = framing.channel() == Channel::Vap || followed[header] == framing.header;
        assert!(is_whole, "{:?}", framing.channel());
    }
}

#[test]
fn replies_go_back_to_the_sender() {
    let frames = vectors("channel-frames.json", "frames");
    let mut swapped = frames.iter().filter(|vector| vector["case"].is_string()).peekable();
    assert!(swapped.peek().is_some());
    for vector in swapped {
        let frame = hex(&vector["frame"]);
        let header = Header::Reply(&[0x60, 0x12, 0x34, 0x56, 0x78]);
        assert_eq!(encoded(&framing(vector), header, &frame[7..]), Ok(frame), "{vector}");
    }
    let vap: Framing = "vap".parse().unwrap();
    for vector in vectors("base1-header.json", "headers") {
        let (given, reply) = (hex(&vector["hex"]), hex(&vector["after_swapDirection"]));
        let body = [7; 100];
        let frame = encoded(&vap, Header::Reply(&given), &body).unwrap();
        assert_eq!(frame[..26], [[0, 122, 0, 0].as_slice(), &reply].concat());
        let frame = encoded(&vap, Header::Given(&given), &body).unwrap();
        assert_eq!(frame[4..26], given);
    }
}

/// The vectors have the reactions of jPOS. This library refuses where it differs.
#[test]
fn reactions_equal_the_vectors() {
    let ours = |vector: &Value| {
        let setting = vector["config"].as_str().unwrap();
        let setting = setting.replace('@', "header=");
        let channel = vector["channel"].as_str().unwrap();
        let framing: Framing = format!("{channel}:{setting}").parse().unwrap();
        let input = hex(&vector["input"]);
        let mut at = 0;
        loop {
            match framing.decode(&input[at..]) {
                Ok(Decoded::KeepAlive { consumed }) => at += consumed,
                Ok(Decoded::Message { body, .. }) => break format!("{} bytes", body.len()),
                Ok(Decoded::Incomplete { more }) => break format!("{more} more"),
                Err(error) => break error.to_string(),
            }
        }
    };
    let expected = [
        "55 bytes",
        "55 bytes",
        "55 bytes",
        "byte 2 should be a digit of the length, but is 58",
        "byte 0 should be a digit of the length, but is 2D",
        "44 more",
        "40 bytes",
        "the length at byte 0 is 55, above the maximum of 50",
        "4 more",
        "28 bytes",
        "28 bytes",
        "28 bytes", // jPOS takes its own keep-alive for an error
        "65507 more",
        "28 bytes",
        "28 bytes",
        "byte 4 should be the length of a VAP header, but is 08",
        "55 bytes",
        "byte 57 should be the end mark, but is 00", // jPOS does not check it
        "55 bytes",                                  // a keep-alive again
        "the length at byte 0 is 2147483647, above the maximum of 100000",
        "the length at byte 0 is 4294967295, above the maximum of 100000",
        "28 bytes",
        "byte 2 should be a digit of the length, but is 47",
        "byte 1 should be a digit of the length, but is FF",
        "55 bytes",
        "55 bytes",
        "byte 0 should be the protocol identifier, but is FF", // jPOS does not check it
        "55 bytes",
        "the length at byte 0 is 1, below the minimum of 2",
    ];
    let vectors = vectors("channel-frames.json", "reactions");
    assert_eq!(vectors.len(), expected.len());
    for (vector, expected) in vectors.iter().zip(expected) {
        assert_eq!(ours(vector), expected, "{vector}");
    }
}

#[test]
fn keep_alives_are_answered_by_channels_that_expect_it() {
    let answers = |text: &str| text.parse::<Framing>().unwrap().answers_keep_alives();
    assert!(["vap", "cs", "ascii:expect-keep-alive=true"].into_iter().all(answers));
    assert!(!["ascii", "nac", "cs:expect-keep-alive=false"].into_iter().any(answers));
}

#[test]
fn invalid_frames_are_refused() {
    let check = |channel: &str, bytes: &[u8], expected: &str| {
        let error = channel.parse::<Framing>().unwrap().decode(bytes).unwrap_err();
        assert_eq!(error.to_string(), expected, "{channel}");
    };
    check("nac:header=6000010002", b"\0\x04", "the length at byte 0 is 4, below the minimum of 5");
    check("cs", b"\0\x04\0\x01", "byte 3 should be a zero after the length, but is 01");
    check("vap", b"\0\x15\0\0", "the length at byte 0 is 21, below the minimum of 22");
    check("rbp", b"\xD0\x4B\0\0\0\0", "byte 1 should be the protocol identifier, but is 4B");
    check("base24tcp", b"\0\0", "the length at byte 0 is 0, below the minimum of 1");
    check("base24", b"\x03", "the length at byte 0 is 0, below the minimum of 1");
    let endless = "the message has not ended after 4 bytes, the maximum";
    check("base24:max-packet-length=4", b"abcde", endless);
    check("base24:max-packet-length=4", b"abcde\x03", endless);
    check("xml:max-packet-length=4", b"<iso", endless);
    check(
        "xml",
        b"<?xml?>\n<!DOCTYPE",
        "a document type definition begins at byte 8; it is not read",
    );
    check("xml", b" <isomsgs>", "byte 2 should be the name `isomsg`, but is 69");
    check("xml", b"</isomsg>", "byte 1 should be the name `isomsg`, but is 2F");
    check("xml", b"0800", "byte 0 should be the beginning of `<isomsg`, but is 30");
    check("xml", b"<isomsg <", "byte 8 should be the end of a tag, but is 3C");
    check("pad", b"0800", "the channel does not delimit messages; a packager must measure them");
}

#[test]
fn invalid_messages_are_not_framed() {
    let check = |channel: &str, header: Header<'_>, body: &[u8], expected: &str| {
        let framing: Framing = channel.parse().unwrap();
        let error = encoded(&framing, header, body).unwrap_err();
        assert_eq!(error.to_string(), expected, "{channel}");
    };
    let none = Header::Configured;
    for channel in Channel::ALL {
        let empty = "an empty message cannot be sent: it would be read as a keep-alive";
        check(channel.name(), none, b"", empty);
    }
    let long = [b'a'; 10_000];
    for channel in ["ascii", "ncc", "bcd"] {
        check(channel, none, &long, "the length at byte 0 is 10000, above the maximum of 9999");
    }
    let short = "the length at byte 0 is 3, above the maximum of 2";
    check("raw:max-packet-length=2", Header::Given(b"h"), b"bo", short);
    check(
        "base24",
        Header::Given(b"h"),
        b"b\x03",
        "byte 2 of the message would be read as its end",
    );
    check("xml", none, b"<isomsg>", "the message is cut off, 8 bytes after its beginning");
    let two = b"<isomsg/> <isomsg/>";
    check("xml", none, two, "byte 9 of the message would be read as its end");
    let header = Header::Given(&[22; 21]);
    check("vap", header, b"0800", "a header of 21 bytes is invalid for this channel");
    check(
        "vap",
        Header::Given(&[0; 22]),
        b"0800",
        "a header of 22 bytes is invalid for this channel",
    );
}

#[test]
fn invalid_settings_are_refused() {
    let check = |text: &str, expected: &str| {
        let error = text.parse::<Framing>().unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    };
    check("nacl", "there is no channel `nacl`");
    check("nac:colour=1", "there is no setting `colour=1`; a setting is written name=value");
    check("nac:header", "there is no setting `header`; a setting is written name=value");
    check("nac:header=6", "`header` cannot be `6`: hexadecimal digits in pairs");
    check("nac:length-digits=4", "the channel nac has no `length-digits`");
    check("pad:include-header-length=true", "the channel pad has no `include-header-length`");
    check("vap:header=00", "the channel vap has no `header`");
    check("nac:srcid=123456", "the channel nac has no `srcid`");
    check("vap:srcid=12345A", "`srcid` cannot be `12345A`: six digits");
    check("ascii:length-digits=10", "`length-digits` cannot be `10`: from 1 to 9");
    check("ascii:max-packet-length=-1", "`max-packet-length` cannot be `-1`: a number");
    check("cs:expect-keep-alive=1", "`expect-keep-alive` cannot be `1`: true or false");
}

#[test]
fn an_xml_message_ends_with_its_own_element() {
    let framing: Framing = "xml".parse().unwrap();
    let check = |text: &str| {
        let wire = format!("\n{text}\n<isomsg>");
        let message =
            Decoded::Message { header: 1..1, body: 1..text.len() + 1, consumed: text.len() + 1 };
        assert_eq!(framing.decode(wire.as_bytes()), Ok(message), "{text}");
        let mut progress = Progress::default();
        for have in 0..=text.len() {
            let decoded = framing.decode_on(&wire.as_bytes()[..have], &mut progress);
            assert_eq!(decoded, Ok(Decoded::Incomplete { more: 1 }), "{have} of {text}");
        }
    };
    check("<isomsg/>");
    check("<isomsg></isomsg >");
    check(r#"<isomsg><isomsg id="48"><field id="1" value="a"/></isomsg></isomsg>"#);
    check(r#"<isomsg a="</isomsg>" b='"/>'><isomsgs></isomsgs></isomsg>"#);
    check("<?xml version='1.0'?><!-- </isomsg> --><isomsg><![CDATA[</isomsg>]]></isomsg>");
    assert_eq!(framing.finish(b" \r\n"), Ok(()));
    assert_eq!(framing.finish(b"<"), Err(FramingError::Truncated { have: 1 }));
}

#[test]
fn measured_lengths_are_limited_by_the_maximum() {
    let framing: Framing = "pad:max-packet-length=10,header=AA".parse().unwrap();
    let decode = |bytes: &[u8], measured| framing.decode_measured(bytes, |_| measured);
    let incomplete = |more| Ok(Decoded::Incomplete { more });
    assert_eq!(decode(&[0], Measured::Message { length: 1 }), incomplete(1));
    assert_eq!(decode(&[0; 4], Measured::Incomplete { more: usize::MAX }), incomplete(6));
    assert_eq!(decode(&[0; 4], Measured::Incomplete { more: 0 }), incomplete(1));
    let endless = Err(FramingError::Endless { max: 10 });
    assert_eq!(decode(&[0; 10], Measured::Incomplete { more: 1 }), endless);
    let long = Err(FramingError::TooLong { at: 0, length: 10, max: 10 });
    assert_eq!(decode(&[0; 2], Measured::Message { length: 10 }), long);
    let unreadable = Err(FramingError::Unmeasurable { at: 4 });
    assert_eq!(decode(&[0; 5], Measured::Invalid { at: 3 }), unreadable);
}

fn any_framing() -> impl Strategy<Value = Framing> {
    let max = 1_usize..300;
    let channel = prop::sample::select(Channel::ALL.to_vec());
    (channel, max, any::<bool>(), any::<bool>()).prop_map(|(channel, max, headed, counted)| {
        let can_have = !matches!(channel, Channel::Vap | Channel::Xml);
        let header = if headed && can_have { b"H2345".to_vec() } else { vec![] };
        let has_length = matches!(channel.boundary(), Boundary::Length(_));
        let length_counts_itself = counted && has_length;
        let settings =
            Settings { header, content_max: max, length_counts_itself, ..Settings::default() };
        Framing::new(channel, settings).unwrap()
    })
}

/// Bytes that are often nearly a frame.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let bits = ["<isomsg", ">", "</isomsg>", "<!--", "-->", "\u{3}", "0012", "\0\0", "\0\u{c}"];
    let bit = prop_oneof![
        prop::sample::select(bits.to_vec()).prop_map(|bit| bit.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..30),
    ];
    prop::collection::vec(bit, 0..20).prop_map(|bits| bits.concat())
}

proptest! {
    #[test]
    fn never_asks_for_more_than_the_maximum(framing in any_framing(), bytes in any_bytes()) {
        // The protocol identifier, length, zeros and end mark are added.
        let max = framing.content_max + 9;
        let mut progress = Progress::default();
        for have in 0..=bytes.len() {
            let bytes = &bytes[..have];
            let decoded = framing.decode_measured(bytes, measured(77));
            if framing.channel() != Channel::Pad {
                prop_assert_eq!(&decoded, &framing.decode_on(bytes, &mut progress));
            }
            match decoded {
                Ok(Decoded::Incomplete { more }) => {
                    prop_assert!(more > 0 && have + more <= max.max(framing.header.len() + 1));
                }
                Ok(Decoded::KeepAlive { consumed }) => {
                    prop_assert!(consumed > 0 && consumed <= have);
                    break;
                }
                Ok(Decoded::Message { header, body, consumed }) => {
                    prop_assert!(header.end == body.start && body.end <= consumed);
                    prop_assert!(consumed <= have && consumed <= max);
                    break;
                }
                Err(_) => break,
            }
        }
    }

    #[test]
    fn sent_messages_arrive(framing in any_framing(), body in any_bytes()) {
        if let Ok(wire) = encoded(&framing, Header::Configured, &body) {
            let decoded = framing.decode_measured(&wire, measured(body.len())).unwrap();
            let Decoded::Message { body: found, consumed, .. } = decoded else {
                return Err(TestCaseError::fail("no message"));
            };
            if framing.channel() == Channel::Xml {
                prop_assert_eq!(&wire[found], body.trim_ascii());
            } else {
                prop_assert_eq!((&wire[found], consumed), (body.as_slice(), wire.len()));
            }
        }
    }
}
