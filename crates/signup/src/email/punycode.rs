//! Labels of domains in ASCII: Punycode (RFC 3492), one way.

const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const INITIAL_BIAS: u32 = 72;
const INITIAL_CODE: u32 = 128;

/// The most characters of a label that are looked at: more do not fit into 63 bytes of ASCII.
const CHARACTERS_MAX: usize = 63;

/// A label that is not all ASCII, without the `xn--` before it; none where it is too long.
pub(super) fn encode(label: &str) -> Option<String> {
    let codes: Vec<u32> = label.chars().map(u32::from).collect();
    if codes.len() > CHARACTERS_MAX {
        return None;
    }
    let mut encoded: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(encoded.len()).ok()?;
    if basic > 0 {
        encoded.push('-');
    }
    let (mut code, mut delta, mut bias, mut handled) = (INITIAL_CODE, 0_u32, INITIAL_BIAS, basic);
    while let Some(next) = codes.iter().copied().filter(|it| *it >= code).min() {
        delta = delta.checked_add((next - code).checked_mul(handled + 1)?)?;
        code = next;
        for it in &codes {
            if *it < code {
                delta = delta.checked_add(1)?;
            }
            if *it == code {
                push(&mut encoded, delta, bias);
                bias = adapt(delta, handled + 1, handled == basic);
                delta = 0;
                handled += 1;
            }
        }
        delta = delta.checked_add(1)?;
        code += 1;
    }
    Some(encoded)
}

/// A number as digits whose weights depend on the bias.
fn push(encoded: &mut String, mut number: u32, bias: u32) {
    for at in (BASE..).step_by(BASE as usize) {
        let threshold = at.saturating_sub(bias).clamp(T_MIN, T_MAX);
        if number < threshold {
            break;
        }
        let rest = number - threshold;
        encoded.push(digit(threshold + rest % (BASE - threshold)));
        number = rest / (BASE - threshold);
    }
    encoded.push(digit(number));
}

fn adapt(delta: u32, handled: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / DAMP } else { delta / 2 };
    delta += delta / handled;
    let mut bias = 0;
    while delta > ((BASE - T_MIN) * T_MAX) / 2 {
        delta /= BASE - T_MIN;
        bias += BASE;
    }
    bias + (BASE - T_MIN + 1) * delta / (delta + SKEW)
}

/// `a` to `z`, then `0` to `9`.
fn digit(number: u32) -> char {
    char::from_digit((number + 10) % BASE, BASE).expect("a digit is less than the base")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_are_encoded_as_in_rfc_3492() {
        for (label, encoded) in [
            ("bücher", "bcher-kva"),
            ("münchen", "mnchen-3ya"),
            ("ليهمابتكلموشعربي؟", "egbpdaj6bu4bxfgehfvwxn"),
            ("他们为什么不说中文", "ihqwcrb4cv8a8dqg056pqjye"),
            ("почемужеонинеговорятпорусски", "b1abfaaepdrnnbgefbadotcwatmq2g4l"),
            ("3年b組金八先生", "3b-ww4c5e180e575a65lsy2b"),
            ("そのスピードで", "d9juau41awczczp"),
        ] {
            assert_eq!(encode(label).as_deref(), Some(encoded), "{label}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_encoded_in_ascii_or_refused(label in ".{0,80}") {
            if let Some(encoded) = encode(&label) {
                prop_assert!(encoded.is_ascii());
            }
        }
    }
}
