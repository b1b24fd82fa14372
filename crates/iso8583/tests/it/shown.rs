//! What is shown of a message: never card data.

use iso8583::Message;

use crate::tables::mixed;

#[test]
fn card_data_is_masked() {
    let mut message = Message::new(&mixed());
    for (number, value) in [
        (0, "0200"),
        (2, "4761739001010119"),
        (3, "0"),
        (35, "4761739001010119=29122011234"),
        (43, "Caf\u{e9}\u{1}"),
    ] {
        message.set(number, value).unwrap();
    }
    message.set_bytes(52, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    message.set([48, 3], "4761739001010119").unwrap();
    message.set([60, 2], "open").unwrap();
    let masked = "0 0200\n2 476173******0119\n3 000000\n35 <28 characters>\n43 Caf\u{e9}\\u{1}\n\
                  48 <26 characters>\n52 <8 bytes>\n60.2 open\n";
    assert_eq!(message.to_string(), masked);
    assert_eq!(format!("{message:?} {:?}", message.view()), format!("{masked} {masked}"));
    let revealed = message.view().revealed().to_string();
    assert!(revealed.contains("48.3 4761739001010119\n52 0102030405060708\n"), "{revealed}");
    message.set(2, "123456789012").unwrap();
    assert!(message.to_string().contains("2 <12 characters>"));
}
