//! Query strings: all parameters agree with a slow decoding of each byte, a query is refused exactly
//! where an escape is no UTF-8, one parameter alone is decoded as among all of them, and what was decoded
//! can be encoded and decoded again. The search for card numbers in a head does not fail.
#![no_main]

use domain::card_data::{NumericKeys, contains_pan};
use http::{HeaderMap, Uri};
use libfuzzer_sys::fuzz_target;
use web::card_data::find_in_head;
use web::query::{Query, values};

fn decode(text: &str) -> Vec<u8> {
    let (bytes, mut decoded, mut at) = (text.as_bytes(), vec![], 0);
    let digit = |at: usize| bytes.get(at).and_then(|it| char::from(*it).to_digit(16));
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).expect("two digits are a byte"));
                at += 2;
            }
            (b'+', ..) => decoded.push(b' '),
            (byte, ..) => decoded.push(byte),
        }
        at += 1;
    }
    decoded
}

fn naive(query: &str) -> Option<Vec<(String, String)>> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let [name, value] = [name, value].map(|it| String::from_utf8(decode(it)).ok());
        Some((name?, value?))
    };
    parts.map(pair).collect()
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn check_head(query: &str, pairs: &[(String, String)]) {
    let Ok(uri) = Uri::try_from(format!("/v1/x?{query}")) else {
        return;
    };
    let found = find_in_head(&uri, &HeaderMap::new(), NumericKeys::Checked);
    let is_number = |(name, value): &(String, String)| contains_pan(name) || contains_pan(value);
    // A fragment is no part of the query.
    if !query.contains('#') {
        assert_eq!(found.is_some(), pairs.iter().any(is_number), "{found:?}");
    }
    assert!(found.is_none_or(|name| !contains_pan(&name)), "the name is shown to the client");
}

fuzz_target!(|query: &str| {
    let (found, expected) = (Query::parse(query), naive(query));
    assert_eq!(found.is_ok(), expected.is_some(), "{query:?}");
    let (Ok(found), Some(expected)) = (found, expected) else {
        return;
    };
    let pairs: Vec<(String, String)> =
        found.clone().into_pairs().map(|(n, v)| (n.into_owned(), v.into_owned())).collect();
    assert_eq!(pairs, expected);
    for (name, _) in &pairs {
        let first = pairs.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
        assert_eq!(found.first(name), first);
    }
    // Names are compared as they were sent.
    let sent: Vec<String> = values(query, "token").flatten().map(Into::into).collect();
    let of_token = query.split('&').filter(|it| *it == "token" || it.starts_with("token="));
    assert_eq!(sent.len(), of_token.count());
    assert!(sent.iter().all(|value| found.all("token").any(|it| it == value)));
    let encoded: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    let encoded = encoded.join("&");
    let again: Vec<(String, String)> = Query::parse(&encoded)
        .expect("it is UTF-8")
        .into_pairs()
        .map(|(n, v)| (n.into_owned(), v.into_owned()))
        .collect();
    assert_eq!(again, pairs);
    check_head(query, &pairs);
});
