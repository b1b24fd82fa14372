//! Parses numbers like FeatBit's server: .NET's `double.TryParse` with its default styles.

/// Parses a number: surrounding white space, a leading sign, thousands separators, a fraction, an
/// exponent, and `Infinity` and `NaN` in any case.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_white_space);
    let (is_negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number = if unsigned.eq_ignore_ascii_case("infinity") || unsigned == "∞" {
        f64::INFINITY
    } else if unsigned.eq_ignore_ascii_case("nan") {
        f64::NAN
    } else {
        parse_unsigned(unsigned)?
    };
    Some(if is_negative { -number } else { number })
}

fn is_white_space(character: char) -> bool {
    matches!(character, '\t'..='\r' | ' ')
}

fn parse_unsigned(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // .NET accepts commas anywhere behind the first digit.
    let is_whole = !whole.starts_with(',') && whole.split(',').all(are_digits);
    let has_digits = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    if !is_whole || !are_digits(fraction) || !has_digits {
        return None;
    }
    let exponent = match exponent {
        Some(exponent) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !are_digits(digits) {
                return None;
            }
            exponent
        }
        None => "0",
    };
    if whole.contains(',') {
        return format!("{}.{fraction}0e{exponent}", whole.replace(',', "")).parse().ok();
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_of_dotnet_are_parsed() {
        let numbers = [
            ("30", 30.0),
            (" 30\t", 30.0),
            ("-1.25", -1.25),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("1,000", 1000.0),
            ("1,,0,.5e1", 105.0),
            ("1e2", 100.0),
            ("1E-2", 0.01),
            ("1e999", f64::INFINITY),
            ("-infinity", f64::NEG_INFINITY),
        ];
        for (text, number) in numbers {
            assert_eq!(parse(text).map(f64::to_bits), Some(f64::to_bits(number)), "{text}");
        }
        assert!(parse("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", " ", ".", "-", ",1", "1.0,0", "abc", "1e", "1e+", "0x10", "1_0", "１", "--1"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
