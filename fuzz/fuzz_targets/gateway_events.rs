//! Events of Stripe's and signatures of Standard Webhooks: what was not signed is never believed, what was signed
//! is, and with any one change, or too late, it is not.
#![no_main]

use gateway::fuzzing::stripe_event;
use libfuzzer_sys::fuzz_target;
use ring::hmac;
use secrets::webhook::{Headers, Secret};

const NOW_S: i64 = 1_795_000_000;
const STRIPES: &str = "whsec_drawn-for-this";
const OURS: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn signature(body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, STRIPES.as_bytes());
    let tag = hmac::sign(&key, &[NOW_S.to_string().as_bytes(), b".", body].concat());
    let hex: String = tag.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    format!("t={NOW_S},v1={hex}")
}

fn is_believed(signature: &str, body: &[u8], now_s: i64) -> bool {
    stripe_event(signature, body, (STRIPES, now_s)).0
}

fuzz_target!(|data: &[u8]| {
    let (given, body) = data.split_at(data.len() / 2);
    let given = String::from_utf8_lossy(given);
    assert!(!is_believed(&given, body, NOW_S), "a signature that nobody made");
    let signed = signature(body);
    assert!(is_believed(&signed, body, NOW_S));
    assert!(!is_believed(&signed, body, NOW_S + 301) && !is_believed(&signed, body, NOW_S - 301));
    assert!(!is_believed(&signed, &[body, b" "].concat(), NOW_S));
    let (secret, timestamp) = (Secret::parse(OURS).expect("it is one"), NOW_S.to_string());
    let made_up = Headers { id: "msg_1", timestamp: &timestamp, signature: &given };
    assert!(secret.verify(made_up, body, NOW_S).is_err(), "a signature that nobody made");
    let signature = secret.sign("msg_1", &timestamp, body);
    let signed = |id, now_s| {
        secret.verify(Headers { id, timestamp: &timestamp, signature: &signature }, body, now_s)
    };
    assert!(signed("msg_1", NOW_S).is_ok());
    assert!(signed("msg_2", NOW_S).is_err() && signed("msg_1", NOW_S + 301).is_err());
});
