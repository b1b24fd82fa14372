//! The message type: one digit each for version, class, function and origin.

/// The type of the response to a message; `None` for a response or an invalid type.
///
/// ```
/// # use iso8583::message_type::response_to;
/// assert_eq!(response_to(b"0200"), Some(*b"0210"));
/// assert_eq!(response_to(b"0421"), Some(*b"0430")); // a repeat has the response of the original
/// assert_eq!(response_to(b"0210"), None);
/// ```
#[must_use]
pub fn response_to(message_type: &[u8]) -> Option<[u8; 4]> {
    let [version, class, function, origin] = *message_type.as_array()?;
    let is_request = message_type.iter().all(u8::is_ascii_digit) && function.is_multiple_of(2);
    // The odd digits of the origin are repeats.
    is_request.then_some([version, class, function + 1, origin & !1])
}
