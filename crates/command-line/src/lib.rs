//! The parts that the command lines of `faregate` and `faregate-bench` share: options that name a server or an
//! ISO 8583 format, exit codes, and the text of errors.

pub mod message_format;
mod target;

pub use target::{Scheme, Target, TargetError};

/// The exit code of a command that could not run: the arguments or the environment are wrong.
pub const CANNOT_RUN: u8 = 2;

/// The error and its causes. Some errors contain the text of their cause; no text is repeated.
pub fn explain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    let mut before = text.clone();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) && !cause.contains(&before) {
            text = format!("{text}: {cause}");
        }
        before = cause;
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_text_that_its_cause_has_or_is_is_not_repeated() {
        let chain = |texts: &[&'static str]| {
            let (first, rest) = texts.split_first().unwrap();
            explain(&rest.iter().fold(anyhow!(*first), |error, text| error.context(*text)))
        };
        assert_eq!(
            chain(&["code 11: malformed", "malformed", "a.db: malformed"]),
            "a.db: malformed"
        );
        assert_eq!(chain(&["refused", "cannot connect"]), "cannot connect: refused");
    }
}
