//! Records of the queue: a signature verifies what it was made for, and nothing with one bit, header,
//! part or place changed; bytes that no key made never verify. Commands and replies that are decoded
//! encode to what decodes to the same.
#![no_main]

use std::sync::LazyLock;

use kafka::signature::{Content, SIGNATURE};
use kafka::{ClusterKeys, Command, ReplyEnvelope, Role, SignatureError};
use libfuzzer_sys::fuzz_target;
use secrets::RootKey;

static KEYS: LazyLock<ClusterKeys> =
    LazyLock::new(|| ClusterKeys::new(&RootKey::new([7; 32]), Some(&RootKey::new([8; 32]))));
static PREVIOUS: LazyLock<ClusterKeys> =
    LazyLock::new(|| ClusterKeys::new(&RootKey::new([8; 32]), None));
static FOREIGN: LazyLock<ClusterKeys> =
    LazyLock::new(|| ClusterKeys::new(&RootKey::new([9; 32]), None));

/// A command or reply that is read is written and read as the same.
fn check_envelopes(value: &[u8]) {
    if let Ok(command) = Command::decode(value) {
        let again = Command::decode(&command.encode());
        assert_eq!(again.as_ref(), Ok(&command));
    }
    if let Ok(reply) = ReplyEnvelope::decode(value) {
        let again = ReplyEnvelope::decode(&reply.encode());
        assert_eq!(again.as_ref(), Ok(&reply));
    }
}

fn check_changed(content: &Content<'_>, signature: &[u8], (at, flip): (usize, u8)) {
    let wrong = |content: &Content<'_>| {
        assert_eq!(KEYS.verify(Some(signature), content), Err(SignatureError::Wrong));
    };
    wrong(&Content { partition: content.partition ^ 1, ..*content });
    wrong(&Content { topic: "commands.b", ..*content });
    wrong(&Content { key: content.key.map_or(Some(&[]), |_| None), ..*content });
    let mut headers = content.headers.to_vec();
    headers.push(("faregate-more", b""));
    wrong(&Content { headers: &headers, ..*content });
    // What is not Faregate's header is not believed, and may be added on the way.
    headers.pop();
    headers.extend([("trace", &b"x"[..]), (SIGNATURE, signature)]);
    assert!(KEYS.verify(Some(signature), &Content { headers: &headers, ..*content }).is_ok());
    if let Some(value) = content.value {
        let longer = [value, b"x"].concat();
        wrong(&Content { value: Some(&longer), ..*content });
        wrong(&Content { value: None, ..*content });
    }
    if flip != 0 {
        let mut changed = signature.to_vec();
        let at = at % changed.len();
        changed[at] ^= flip;
        assert!(KEYS.verify(Some(&changed), content).is_err());
        let shorter = &signature[..at];
        assert_eq!(KEYS.verify(Some(shorter), content), Err(SignatureError::Missing));
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk::<12>() else {
        return;
    };
    let (key, value) = rest.split_at(rest.len().min(usize::from(head[0])));
    check_envelopes(value);
    let signed_at_ms = i64::from_be_bytes(head[1..9].try_into().expect("eight bytes"));
    let header = [("faregate-reason", key)];
    let content = Content {
        topic: "commands.a",
        partition: i32::from(head[9]),
        key: (head[0] % 2 == 0).then_some(key),
        headers: if head[9] % 2 == 0 { &header } else { &[] },
        value: Some(value),
    };
    // Of any bytes.
    assert!(KEYS.verify(Some(value), &content).is_err());
    assert_eq!(KEYS.verify(None, &content), Err(SignatureError::Missing));
    let role = [Role::Front, Role::Processor, Role::Operator][usize::from(head[9] % 3)];
    let signature = KEYS.sign(role, signed_at_ms, &content);
    let signed = KEYS.verify(Some(&signature), &content).expect("it is ours");
    assert_eq!((signed.role, signed.signed_at_ms), (role, signed_at_ms));
    let previous = PREVIOUS.sign(role, signed_at_ms, &content);
    assert!(KEYS.verify(Some(&previous), &content).is_ok());
    let foreign = FOREIGN.sign(role, signed_at_ms, &content);
    assert_eq!(KEYS.verify(Some(&foreign), &content), Err(SignatureError::UnknownKey));
    check_changed(&content, &signature, (usize::from(head[10]), head[11]));
});
