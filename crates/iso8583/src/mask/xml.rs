//! Masks a message in XML except for its elements and field numbers.

/// The masked bytes: all except the elements of messages without their values.
pub(crate) fn hidden_bytes(bytes: &[u8]) -> Vec<bool> {
    let mut hidden = vec![true; bytes.len()];
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(|byte| *byte == b'<').map(|it| at + it) {
        let Some(end) = end_of_element(bytes, start) else { return hidden };
        if is_of_message(&bytes[start..end]) {
            show_element(&bytes[start..end], &mut hidden[start..end]);
        }
        at = end;
    }
    for (byte, is_hidden) in bytes.iter().zip(&mut hidden) {
        *is_hidden &= !byte.is_ascii_whitespace();
    }
    hidden
}

/// The end of an element: behind the first `>` outside of quotation marks.
fn end_of_element(bytes: &[u8], start: usize) -> Option<usize> {
    let mut open = None;
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match (open, *byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') => open = Some(*byte),
            (Some(mark), byte) if mark == byte => open = None,
            (None | Some(_), _) => {}
        }
    }
    None
}

fn is_of_message(element: &[u8]) -> bool {
    let name = element[1..].strip_prefix(b"/").unwrap_or(&element[1..]);
    [&b"isomsg"[..], b"field"].iter().any(|known| {
        let next = name.strip_prefix(*known).and_then(|rest| rest.first());
        next.is_some_and(|next| next.is_ascii_whitespace() || matches!(next, b'/' | b'>'))
    })
}

/// Shows an element without values, except for the attribute `id`, the field's number.
fn show_element(element: &[u8], hidden: &mut [bool]) {
    let mut open = None;
    for (at, byte) in element.iter().enumerate() {
        match (open, *byte) {
            (Some((mark, _)), byte) if mark == byte => open = None,
            (Some((_, is_number)), byte) => {
                hidden[at] = !(is_number && byte.is_ascii_digit());
                continue;
            }
            (None, b'"' | b'\'') => open = Some((*byte, element[..at].ends_with(b" id="))),
            (None, _) => {}
        }
        hidden[at] = false;
    }
}
