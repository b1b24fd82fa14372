//! Checks cases of frames and of headers of BASE I.

use serde_json::Value;

use super::outcome::{Outcome, Verdict};
use super::values::{bytes_of, bytes_of_hex, hex, list, number, text};
use crate::framing::{Channel, Decoded, Framing, Header, Measured};

/// The channel of compressed frames, which is not supported.
const UNSUPPORTED: &str = "gzip";

pub(super) fn check_file(file: &Value, outcome: &mut Outcome) {
    for case in list(&file["frames"]) {
        let settings = format!("{} {}", text(case, "header"), text(case, "props"));
        let id = format!("{} {}{}", text(case, "channel"), settings.trim(), text(case, "case"));
        if text(case, "channel") == UNSUPPORTED {
            outcome.add(&id, Verdict::NotChecked);
            continue;
        }
        outcome.add(&id, verdict(check_frame(case)));
    }
    // Reactions are not compared, because this library is stricter.
    outcome.not_checked += list(&file["reactions"]).len();
    for case in list(&file["headers"]) {
        outcome.add(text(case, "hex"), verdict(check_header(case)));
    }
}

fn verdict(result: Result<(), String>) -> Verdict {
    result.map_or_else(Verdict::Failed, |()| Verdict::Passed)
}

fn check_frame(case: &Value) -> Result<(), String> {
    let [channel, header, properties] = ["channel", "header", "props"].map(|name| text(case, name));
    let setting = match header {
        "" => format!("{channel}:{properties}"),
        _ => format!("{channel}:header={header},{properties}"),
    };
    let framing: Framing = setting.parse().map_err(|error| format!("{error}"))?;
    let frame = bytes_of(&case["frame"]).ok_or("`frame` cannot be read")?;
    if case.get("body").is_none() {
        return check_reply(&framing, case, &frame);
    }
    let body = bytes_of(&case["body"]).ok_or("`body` cannot be read")?;
    same("the frame", &encoded(&framing, Header::Configured, &body)?, &frame)?;
    // The message does not include the line end behind the XML.
    let is_xml = framing.channel() == Channel::Xml;
    let body = if is_xml { body.trim_ascii_end() } else { &body };
    same("the body", &decoded(&framing, &frame, body.len())?, body)?;
    let mut keep_alive = vec![];
    framing.encode_keep_alive(&mut keep_alive);
    match case.get("keepalive") {
        Some(expected) => {
            let expected = bytes_of(expected).ok_or("`keepalive` cannot be read")?;
            same("the keep-alive", &keep_alive, &expected)
        }
        None => Ok(()),
    }
}

/// Checks the exchange of addresses in the header of a reply. The header is in the text of the case.
fn check_reply(framing: &Framing, case: &Value, frame: &[u8]) -> Result<(), String> {
    let mut words = text(case, "case").split_ascii_whitespace();
    let header = words.find_map(|word| bytes_of_hex(word).filter(|bytes| bytes.len() >= 5));
    let header = header.ok_or("there is neither a body nor a header")?;
    let exchanged = [&header[..1], &header[3..5], &header[1..3], &header[5..]].concat();
    let start = frame.windows(header.len()).position(|window| window == exchanged);
    let start = start.ok_or("the frame does not hold the header with its addresses exchanged")?;
    let body = &frame[start + header.len()..];
    same("the frame", &encoded(framing, Header::Reply(&header), body)?, frame)
}

fn check_header(case: &Value) -> Result<(), String> {
    let (source, destination) = (text(case, "src"), text(case, "dst"));
    let framing: Framing = format!("vap:srcid={source},dstid={destination}")
        .parse()
        .map_err(|error| format!("{error}"))?;
    let given = bytes_of(&case["hex"]).ok_or("`hex` cannot be read")?;
    let swapped = bytes_of(&case["after_swapDirection"]).ok_or("the other way is missing")?;
    let body = vec![0; number(&case["setLen"]).unwrap_or(1)];
    // The header is behind two bytes of length and two zeros.
    let header = |frame: Vec<u8>| frame[4..frame.len() - body.len()].to_vec();
    let mut built = header(encoded(&framing, Header::Configured, &body)?);
    let format = number(&case["format"]).and_then(|it| u8::try_from(it).ok());
    built[2] = format.ok_or("`format` cannot be read")?;
    same("the header", &built, &given)?;
    same("the header", &header(encoded(&framing, Header::Given(&given), &body)?), &given)?;
    let replied = header(encoded(&framing, Header::Reply(&given), &body)?);
    same("the header of the answer", &replied, &swapped)?;
    let parsed = &case["parsed"];
    let ours = (usize::from(given[0]), hex(&given[8..11]), hex(&given[5..8]));
    let theirs = (
        number(&parsed["hlen"]).unwrap_or(ours.0),
        text(parsed, "source").to_owned(),
        text(parsed, "destination").to_owned(),
    );
    if ours == theirs { Ok(()) } else { Err(format!("should be {theirs:?}, is {ours:?}")) }
}

fn encoded(framing: &Framing, header: Header<'_>, body: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = vec![];
    framing.encode(header, body, &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

fn decoded(framing: &Framing, frame: &[u8], length: usize) -> Result<Vec<u8>, String> {
    let measure = |_: &[u8]| Measured::Message { length };
    match framing.decode_measured(frame, measure) {
        Ok(Decoded::Message { body, .. }) => Ok(frame[body].to_vec()),
        Ok(other) => Err(format!("no message was found in the frame, but {other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

fn same(what: &str, ours: &[u8], theirs: &[u8]) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what} should be {}, is {}", hex(theirs), hex(ours)))
}
