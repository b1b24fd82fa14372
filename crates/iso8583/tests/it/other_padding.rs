//! Card numbers of an odd length that another side pads on the other side.
#![expect(clippy::unwrap_used, reason = "whatever is missing here fails the test")]

use iso8583::{Index, Message, OtherPadding, Packager, Validation};

const AMEX: &str = "378282246310005";
/// It ends in 0, so that the other padding is right, too.
const ENDS_IN_0: &str = "371449635390040";
const LONG: &str = "6304000000000000018";

fn packager(pad: &str, length: usize) -> Packager {
    let text = format!(
        "[fields]\n0 = {{ content = \"digits\", length = 4 }}\n1 = {{ content = \"bitmap\", length = 8 }}\n\
         2 = {{ content = \"digits\", coding = \"bcd\", length = {length}, pad = \"{pad}\", \
         prefix = {{ coding = \"bcd\", digits = 2 }} }}\n\
         35 = {{ content = \"track\", coding = \"bcd\", length = 37, pad = \"{pad}\", \
         prefix = {{ coding = \"bcd\", digits = 2 }} }}\n"
    );
    Packager::from_toml(&text).unwrap()
}

/// Writes a field with one padding and reads it with another; what speaks for another padding.
fn check(written: &str, read: &str, (field, value): (u16, &str)) -> Vec<OtherPadding> {
    let writer = packager(written, 19);
    let mut message = Message::new(&writer);
    message.set(0, "0200").unwrap();
    message.set(field, value).unwrap();
    let wire = message.pack().unwrap();
    let reader = packager(read, 19);
    let mut index = Index::new();
    let lenient = reader.clone().with_validation(Validation::Lenient);
    let found: Vec<OtherPadding> =
        lenient.unpack(&wire, &mut index).unwrap().other_paddings().collect();
    // What is read strictly without an error says the same.
    if let Ok(view) = reader.unpack(&wire, &mut index) {
        assert_eq!(view.other_paddings().collect::<Vec<_>>(), found);
    }
    found
}

#[test]
fn the_check_digit_names_the_padding() {
    let track = format!("{AMEX}=25121010000012345678");
    assert_eq!(track.len() % 2, 0);
    let odd_track = format!("{AMEX}=2512101000001234567");
    for pads in [["left", "right"], ["right", "left"], ["right-f", "left"]] {
        let [written, read] = pads;
        for (field, value) in [(2, AMEX), (2, ENDS_IN_0), (2, LONG), (35, &*odd_track)] {
            let expected = vec![OtherPadding { field, pad: written }];
            assert_eq!(check(written, read, (field, value)), expected, "{pads:?} {value}");
            assert_eq!(check(written, written, (field, value)), [], "{written} {value}");
        }
        // No half byte is free.
        for (field, value) in [(2, "4761739001010119"), (35, &*track)] {
            assert_eq!(check(written, read, (field, value)), [], "{pads:?} {value}");
        }
        // Neither side has a right check digit, or it is no card number.
        for value in ["378282246310006", "18", "0"] {
            assert_eq!(check(written, read, (2, value)), [], "{pads:?} {value}");
        }
    }
    let shown = OtherPadding { field: 2, pad: "left" }.to_string();
    let expected = "field 2: the check digit of the card number (Luhn) is wrong, and right with \
                    `pad = \"left\"`";
    assert_eq!(shown, expected);
}
