//! Events that Stripe posts: signed, and about an object that is read back.

use ring::hmac;

use super::objects::{Event, EventObject};

/// How old a signature may be, and how far ahead of our clock.
const TOLERANCE_S: i64 = 5 * 60;

/// How many signatures of one event are looked at: Stripe sends one for each secret that is in use.
const SIGNATURES_MAX: usize = 10;

/// Verifies `Stripe-Signature` over the raw body with each of the secrets, in constant time:
/// <https://docs.stripe.com/webhooks#verify-manually>.
///
/// # Errors
/// Why it is not believed.
pub(crate) fn verify(
    signature: Option<&str>,
    body: &[u8],
    secrets: &[String],
    now_s: i64,
) -> Result<(), &'static str> {
    let signature = signature.ok_or("has no Stripe-Signature")?;
    let part = |name: &str, it: &str| -> Option<String> {
        let (key, value) = it.trim().split_once('=')?;
        (key == name).then(|| value.to_owned())
    };
    let at = signature.split(',').find_map(|it| part("t", it));
    let at = at.ok_or("has a Stripe-Signature without a time")?;
    let signed_s: i64 = at.parse().map_err(|_| "has a Stripe-Signature without a time")?;
    if now_s.saturating_sub(signed_s).abs() > TOLERANCE_S {
        return Err("has a Stripe-Signature that is older than 5 minutes, or of the future");
    }
    let message = [at.as_bytes(), b".", body].concat();
    let given = signature.split(',').filter_map(|it| part("v1", it)).take(SIGNATURES_MAX);
    let given: Vec<Vec<u8>> = given.filter_map(|it| bytes_of_hex(&it)).collect();
    let is_signed = |secret: &String| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        given.iter().any(|it| hmac::verify(&key, &message, it).is_ok())
    };
    match secrets.iter().any(is_signed) {
        true => Ok(()),
        false => Err("has a Stripe-Signature of no secret of the configuration"),
    }
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// The object that an event is to be looked at.
pub(crate) enum Subject {
    Intent(String),
    Refund(String),
    Dispute(String),
}

impl Subject {
    /// The id of what was made for a transaction.
    pub(crate) fn object(&self) -> Option<&str> {
        match self {
            Self::Intent(id) | Self::Refund(id) => Some(id),
            Self::Dispute(_) => None,
        }
    }
}

/// The subject of an event; `None` where it is about no payment, refund or dispute.
///
/// # Errors
/// Where it is no event.
pub(crate) fn subject(body: &[u8]) -> Result<Option<Subject>, &'static str> {
    let event: Event = serde_json::from_slice(body).map_err(|_| "is no event of Stripe")?;
    let EventObject { object, id, payment_intent } = event.data.object;
    Ok(match (object.as_str(), id, payment_intent) {
        ("payment_intent", Some(id), _) => Some(Subject::Intent(id)),
        ("refund", Some(id), _) => Some(Subject::Refund(id)),
        ("dispute", Some(id), _) => Some(Subject::Dispute(id)),
        ("charge", _, Some(intent)) => Some(Subject::Intent(intent.id().to_owned())),
        (_, _, _) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"data":{"object":{"object":"refund","id":"re_1"}}}"#;
    const NOW_S: i64 = 1_795_000_000;

    fn signed(secret: &str, at_s: i64) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let tag = hmac::sign(&key, &[at_s.to_string().as_bytes(), b".", BODY].concat());
        let hex: String = tag.as_ref().iter().map(|it| format!("{it:02x}")).collect();
        format!("t={at_s},v1={hex},v0=ignored")
    }

    fn check(signature: Option<&str>, body: &[u8], is_believed: bool) {
        let secrets = ["whsec_new".to_owned(), "whsec_old".to_owned()];
        let verified = verify(signature, body, &secrets, NOW_S);
        assert_eq!(verified.is_ok(), is_believed, "{signature:?}: {verified:?}");
    }

    #[test]
    fn only_fresh_signatures_of_own_secrets_over_the_very_body_are_believed() {
        for secret in ["whsec_new", "whsec_old"] {
            check(Some(&signed(secret, NOW_S)), BODY, true);
        }
        check(Some(&signed("whsec_new", NOW_S - 300)), BODY, true);
        check(Some(&signed("whsec_new", NOW_S - 301)), BODY, false);
        check(Some(&signed("whsec_new", NOW_S + 301)), BODY, false);
        check(Some(&signed("whsec_other", NOW_S)), BODY, false);
        check(Some(&signed("whsec_new", NOW_S)), b"{}", false);
        check(None, BODY, false);
        for wrong in ["", "t=,v1=", "v1=00", "t=1795000000", "t=1795000000,v1=zz", "t=-1,v1=é"] {
            check(Some(wrong), BODY, false);
        }
    }

    #[test]
    fn an_event_is_about_an_intent_a_refund_a_dispute_or_nothing() {
        let of = |body: &str| match subject(body.as_bytes()) {
            Ok(Some(Subject::Intent(id))) => format!("intent {id}"),
            Ok(Some(Subject::Refund(id))) => format!("refund {id}"),
            Ok(Some(Subject::Dispute(id))) => format!("dispute {id}"),
            Ok(None) => "nothing".to_owned(),
            Err(reason) => reason.to_owned(),
        };
        let event = |object: &str| of(&format!(r#"{{"data":{{"object":{object}}}}}"#));
        assert_eq!(event(r#"{"object":"payment_intent","id":"pi_1"}"#), "intent pi_1");
        assert_eq!(event(r#"{"object":"refund","id":"re_1"}"#), "refund re_1");
        let dispute = r#"{"object":"dispute","id":"du_1","payment_intent":"pi_1"}"#;
        assert_eq!(event(dispute), "dispute du_1");
        let charge = r#"{"object":"charge","id":"ch_1","payment_intent":"pi_1"}"#;
        assert_eq!(event(charge), "intent pi_1");
        assert_eq!(event(r#"{"object":"charge","id":"ch_1"}"#), "nothing");
        assert_eq!(event(r#"{"object":"customer","id":"cus_1"}"#), "nothing");
        assert_eq!(of("[]"), "is no event of Stripe");
    }
}
