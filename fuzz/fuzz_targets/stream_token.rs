//! Tokens in the URL of a stream: a token that is taken holds a secret of the right length and a time,
//! encodes to a token of the same, and no text decodes to the secret of another token.
#![no_main]

use flags::{SECRET_BYTES, Token};
use libfuzzer_sys::fuzz_target;

const LETTERS: &str = "QBWSPHDXZU";

/// The token's parts, counted letter by letter.
fn naive(text: &str) -> Option<(String, i64)> {
    let letters: Vec<char> = text.is_ascii().then(|| text.chars().collect())?;
    let number = |letters: &[char]| {
        let digits: Option<String> =
            letters.iter().map(|it| LETTERS.find(*it).map(|it| it.to_string())).collect();
        digits.and_then(|it| it.parse::<i64>().ok())
    };
    let position = usize::try_from(number(letters.get(..3)?)?).ok()?;
    let length = usize::try_from(number(letters.get(3..5)?)?).ok()?;
    let rest = &letters[5..];
    let time = number(rest.get(position..position + length)?)?;
    let secret: String = rest[..position].iter().chain(&rest[position + length..]).collect();
    let padded = format!("{secret}{}", "=".repeat((4 - secret.len() % 4) % 4));
    (padded.len() == SECRET_BYTES).then_some((padded, time))
}

fuzz_target!(|data: &[u8]| {
    let Some((position, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let found = Token::decode(text).ok();
    let parts = found.as_ref().map(|it| (it.secret.clone(), it.made_at_ms));
    assert_eq!(parts, naive(text), "{text}");
    let Some(token) = found else {
        return;
    };
    assert!(token.secret.len() == SECRET_BYTES && token.made_at_ms >= 0);
    assert!(!format!("{token:?}").contains(&token.secret));
    let again = Token::encode(&token.secret, token.made_at_ms, usize::from(*position));
    // All padding is written as none, and read back as what the length needs.
    if token.secret.trim_end_matches('=').len() + 3 >= SECRET_BYTES {
        assert_eq!(Token::decode(&again), Ok(token));
    }
});
