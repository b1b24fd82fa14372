//! Fuzzes streams of all channels: a stream in pieces has the same frames as in one piece, and decoded
//! frames can be encoded and decoded again.
#![no_main]

use iso8583::framing::{Channel, Decoded, Framing, Header, Progress, Settings};
use libfuzzer_sys::fuzz_target;

const CONTENT_MAX: usize = 4_096;

/// The frames up to the first error or the end, from a stream that grows by `step` bytes.
fn frames(framing: &Framing, stream: &[u8], step: usize) -> Vec<Decoded> {
    let (mut found, mut from, mut end) = (vec![], 0, 0);
    let mut progress = Progress::default();
    loop {
        match framing.decode_on(&stream[from..end], &mut progress) {
            Ok(Decoded::Incomplete { more }) => {
                assert!(more > 0);
                if end == stream.len() {
                    return found;
                }
                end = stream.len().min(end + step);
            }
            Ok(frame @ (Decoded::Message { consumed, .. } | Decoded::KeepAlive { consumed })) => {
                assert!(consumed > 0 && consumed <= end - from);
                from += consumed;
                found.push(frame);
            }
            Err(error) => {
                let _ = error.to_string();
                return found;
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [which, step, stream @ ..] = data else {
        return;
    };
    let channel = Channel::ALL[usize::from(*which) % Channel::ALL.len()];
    let settings = Settings { content_max: CONTENT_MAX, ..Settings::default() };
    let framing = Framing::new(channel, settings).expect("the settings fit every channel");
    let whole = frames(&framing, stream, usize::MAX / 2);
    assert_eq!(whole, frames(&framing, stream, usize::from(*step).max(1)), "{channel:?}");
    let mut from = 0;
    for frame in whole {
        match frame {
            Decoded::Message { header, body, consumed } => {
                let (header, body) = (&stream[from..][header], &stream[from..][body]);
                assert!(body.len() <= CONTENT_MAX);
                check_encoding(&framing, header, body);
                from += consumed;
            }
            Decoded::KeepAlive { consumed } => from += consumed,
            Decoded::Incomplete { .. } => unreachable!("incomplete frames are not collected"),
        }
    }
});

fn check_encoding(framing: &Framing, header: &[u8], body: &[u8]) {
    let mut out = vec![];
    if framing.encode(Header::Given(header), body, &mut out).is_err() {
        assert!(out.is_empty());
        return;
    }
    match framing.decode(&out) {
        Ok(Decoded::Message { body: found, consumed, .. }) => {
            assert_eq!(&out[found], body);
            framing.finish(&out[consumed..]).expect("only a line end is left");
        }
        other => panic!("{other:?}"),
    }
}
