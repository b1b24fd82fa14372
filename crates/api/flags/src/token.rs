//! Tokens: an environment's secret with the time of connecting inserted into it, as FeatBit's SDKs
//! write them into the URL of a stream.
//!
//! Three letters give the position of the time and two its length. The secret without the `=` at its
//! end follows, with the time, in milliseconds since 1970, inserted at that position.

/// The letters of the digits 0 to 9.
const LETTERS: &[u8; 10] = b"QBWSPHDXZU";

/// The length of the position and the length in front.
const HEAD_BYTES: usize = 5;

/// The length of a secret.
pub const SECRET_BYTES: usize = 44;

/// A decoded token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The secret, to be looked up: a token that no SDK made may contain any text.
    pub secret: String,
    /// When the token was made, in milliseconds since 1970.
    pub made_at_ms: i64,
}

/// A token is malformed. It does not say how: an unauthenticated client sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no token")]
pub struct NoToken;

impl Token {
    /// Encodes a token with the time after `position` characters of the secret; SDKs choose that at
    /// random. A time before 1970 counts as 1970.
    #[must_use]
    pub fn encode(secret: &str, made_at_ms: i64, position: usize) -> String {
        let secret = secret.trim_end_matches('=');
        let time = made_at_ms.max(0).to_string();
        let mut position = position.max(2).min(secret.len());
        while !secret.is_char_boundary(position) {
            position -= 1;
        }
        let (before, after) = secret.split_at(position);
        let digits = format!("{position:03}{:02}", time.len());
        format!("{}{before}{}{after}", letters(&digits), letters(&time))
    }

    /// Decodes a token.
    ///
    /// # Errors
    /// [`NoToken`].
    pub fn decode(token: &str) -> Result<Self, NoToken> {
        if !token.is_ascii() {
            return Err(NoToken);
        }
        let (head, rest) = token.split_at_checked(HEAD_BYTES).ok_or(NoToken)?;
        let position = usize::try_from(number(&head[..3])?).map_err(|_| NoToken)?;
        let length = usize::try_from(number(&head[3..])?).map_err(|_| NoToken)?;
        let (before, rest) = rest.split_at_checked(position).ok_or(NoToken)?;
        let (time, after) = rest.split_at_checked(length).ok_or(NoToken)?;
        let made_at_ms = number(time)?;
        let mut secret = String::with_capacity(SECRET_BYTES);
        secret.push_str(before);
        secret.push_str(after);
        while !secret.len().is_multiple_of(4) {
            secret.push('=');
        }
        if secret.len() != SECRET_BYTES {
            return Err(NoToken);
        }
        Ok(Self { secret, made_at_ms })
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("made_at_ms", &self.made_at_ms).finish_non_exhaustive()
    }
}

fn letters(digits: &str) -> String {
    digits.bytes().map(|digit| char::from(LETTERS[usize::from(digit - b'0')])).collect()
}

/// Reads at least one digit.
fn number(text: &str) -> Result<i64, NoToken> {
    if text.is_empty() {
        return Err(NoToken);
    }
    text.bytes().try_fold(0_i64, |number, letter| {
        let digit = LETTERS.iter().position(|it| *it == letter).ok_or(NoToken)?;
        let digit = i64::try_from(digit).map_err(|_| NoToken)?;
        number.checked_mul(10).and_then(|it| it.checked_add(digit)).ok_or(NoToken)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "v3faJy3RCUO8d-EJiVdN6waRfGjfNan02Ms9c0LiTD6w";

    #[test]
    fn the_token_of_featbits_own_test() {
        let token = "QBPBHv3faJy3RCUO8d-QQBDDDQBZZQQXHPEJiVdN6waRfGjfNan02Ms9c0LiTD6w";
        let read = Token { secret: SECRET.to_owned(), made_at_ms: 1_666_018_800_754 };
        assert_eq!(Token::decode(token), Ok(read));
        // Without zeros before the time, as in the tokens of current SDKs.
        assert_eq!(
            Token::encode(SECRET, 1_666_018_800_754, 14),
            "QBPBSv3faJy3RCUO8d-BDDDQBZZQQXHPEJiVdN6waRfGjfNan02Ms9c0LiTD6w"
        );
    }

    #[test]
    fn malformed_tokens_are_refused() {
        let token = Token::encode(SECRET, 1_666_018_800_754, 14);
        let shorter = Token::encode(&SECRET[..40], 1_666_018_800_754, 14);
        let longer = Token::encode(&format!("{SECRET}abcd"), 1_666_018_800_754, 14);
        let far = "QBPUUv3faJy3RCUO8d-BDDDQBZZQQXHPEJiVdN6waRfGjfNan02Ms9c0LiTD6w";
        let nothing = format!("QQWQQ{SECRET}");
        let huge = format!("QQWWQv3{}{}", "U".repeat(20), &SECRET[2..]);
        let foreign = token.replace('v', "ü");
        for text in [
            "",
            "Q",
            "QBPBS",
            "abcde",
            &token[1..],
            &token[..58],
            &shorter,
            &longer,
            far,
            &nothing,
            &huge,
            &foreign,
            SECRET,
        ] {
            assert_eq!(Token::decode(text), Err(NoToken), "{text}");
        }
    }

    #[test]
    fn debug_output_of_a_token_hides_its_secret() {
        let token = Token::decode(&Token::encode(SECRET, 5, 9)).unwrap();
        assert_eq!(format!("{token:?}"), "Token { made_at_ms: 5, .. }");
    }

    proptest! {
        #[test]
        fn tokens_round_trip(
            secret in "[A-Za-z0-9_-]{41,44}", made_at_ms in 0..i64::MAX, position in 0..60_usize,
        ) {
            let read = Token::decode(&Token::encode(&secret, made_at_ms, position)).unwrap();
            prop_assert_eq!(read.secret.trim_end_matches('='), secret);
            prop_assert_eq!(read.made_at_ms, made_at_ms);
        }

        #[test]
        fn random_texts_do_not_panic(text in "[QBWSPHDXZUa-z€]{0,80}") {
            drop(Token::decode(&text));
        }
    }
}
