//! The message type: version, class, function and origin, a digit each.

/// The type of the answer to a message; nothing if the message is an answer itself, or none at all.
///
/// ```
/// # use iso8583::message_type::response_to;
/// assert_eq!(response_to(b"0200"), Some(*b"0210"));
/// assert_eq!(response_to(b"0421"), Some(*b"0430")); // a repeat is answered as the first
/// assert_eq!(response_to(b"0210"), None);
/// ```
#[must_use]
pub fn response_to(message_type: &[u8]) -> Option<[u8; 4]> {
    let [version, class, function, origin] = *message_type.as_array()?;
    let is_request = message_type.iter().all(u8::is_ascii_digit) && function.is_multiple_of(2);
    // The origin's odd digits are those of repeats.
    is_request.then_some([version, class, function + 1, origin & !1])
}
