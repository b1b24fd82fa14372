//! Bytes as hexadecimal digits. Blanks between the digits are ignored.

pub fn bytes_of_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let half = |digit| iso8583::coding::hex_value(digit).expect("a digit");
    digits.as_chunks::<2>().0.iter().map(|pair| half(pair[0]) << 4 | half(pair[1])).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
