//! WebSocket frames (RFC 6455), the server's side, without extensions.

use bytes::Bytes;

/// The longest head that a server writes.
pub const HEAD_BYTES_MAX: usize = 10;

/// The longest text in a control frame.
const CONTROL_BYTES_MAX: usize = 125;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    Continuation = 0x0,
    Text = 0x1,
    Binary = 0x2,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xA,
}

/// The head of a client's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub opcode: Opcode,
    /// Whether it is the last frame of its message.
    pub is_final: bool,
    /// The length of the head itself.
    pub bytes: usize,
    /// The length of the payload.
    pub length: u64,
    mask: [u8; 4],
}

/// A frame that a client must not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no frame of a WebSocket client")]
pub struct Malformed;

impl Head {
    /// Reads the head of a frame; none where more bytes are needed.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let opcode = match first & 0x0F {
            0x0 => Opcode::Continuation,
            0x1 => Opcode::Text,
            0x2 => Opcode::Binary,
            0x8 => Opcode::Close,
            0x9 => Opcode::Ping,
            0xA => Opcode::Pong,
            _ => return Err(Malformed),
        };
        let is_final = first & FINAL != 0;
        let short = second & !MASKED;
        let is_bad_control =
            opcode.is_control() && (!is_final || usize::from(short) > CONTROL_BYTES_MAX);
        if first & RESERVED != 0 || second & MASKED == 0 || is_bad_control {
            return Err(Malformed);
        }
        let (length, rest) = match short {
            126 => match rest.split_first_chunk::<2>() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk::<8>() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            _ => (u64::from(short), rest),
        };
        let Some((mask, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let head = bytes.len() - rest.len();
        Ok(Some(Self { opcode, is_final, bytes: head, length, mask: *mask }))
    }

    /// Removes the client's mask from the payload.
    pub fn unmask(&self, payload: &mut [u8]) {
        if self.mask == [0; 4] {
            return;
        }
        let (words, rest) = payload.as_chunks_mut::<4>();
        let mask = u32::from_ne_bytes(self.mask);
        for word in words {
            *word = (u32::from_ne_bytes(*word) ^ mask).to_ne_bytes();
        }
        for (byte, mask) in rest.iter_mut().zip(self.mask) {
            *byte ^= mask;
        }
    }
}

impl Opcode {
    pub const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// Writes the head of a text that begins at [`HEAD_BYTES_MAX`]; returns where the head begins.
pub fn text_around(bytes: &mut [u8]) -> usize {
    let length = bytes.len() - HEAD_BYTES_MAX;
    let room = &mut bytes[..HEAD_BYTES_MAX];
    let first = FINAL | Opcode::Text as u8;
    let (at, short) = match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length @ ..126), _) => (8, length),
        (_, Ok(length)) => {
            room[8..].copy_from_slice(&length.to_be_bytes());
            (6, 126)
        }
        (_, Err(_)) => {
            room[2..].copy_from_slice(&(length as u64).to_be_bytes());
            (0, 127)
        }
    };
    room[at] = first;
    room[at + 1] = short;
    at
}

/// The answer to a WebSocket ping.
pub fn pong(payload: &[u8]) -> Bytes {
    control(Opcode::Pong, payload)
}

/// A close frame, with a code and a reason of at most 123 bytes, or empty.
pub fn close(code: Option<u16>, reason: &str) -> Bytes {
    let mut payload = vec![];
    if let Some(code) = code {
        payload.extend_from_slice(&code.to_be_bytes());
        payload.extend_from_slice(reason.as_bytes());
    }
    control(Opcode::Close, &payload)
}

fn control(opcode: Opcode, payload: &[u8]) -> Bytes {
    let length = payload.len().min(CONTROL_BYTES_MAX);
    let mut frame = Vec::with_capacity(2 + length);
    frame.push(FINAL | opcode as u8);
    frame.push(u8::try_from(length).expect("a control frame is short"));
    frame.extend_from_slice(&payload[..length]);
    frame.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A client's frame of this text, masked.
    fn masked(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            length @ ..126 => frame.push(MASKED | u8::try_from(length).unwrap()),
            length @ ..65_536 => {
                frame.push(MASKED | 126);
                frame.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
            }
            length => {
                frame.push(MASKED | 127);
                frame.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    #[test]
    fn a_masked_text_of_the_rfc_is_decoded() {
        // RFC 6455, 5.7: a masked "Hello".
        let mut frame = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        let head = Head::decode(&frame).unwrap().unwrap();
        assert_eq!(
            (head.opcode, head.is_final, head.bytes, head.length),
            (Opcode::Text, true, 6, 5)
        );
        head.unmask(&mut frame[6..]);
        assert_eq!(&frame[6..], b"Hello");
        for length in 0..6 {
            assert_eq!(Head::decode(&frame[..length]), Ok(None), "{length}");
        }
    }

    #[test]
    fn heads_have_the_shortest_length_that_fits() {
        let text = |length: usize| {
            let mut bytes = vec![0; HEAD_BYTES_MAX];
            bytes.resize(HEAD_BYTES_MAX + length, b'x');
            let at = text_around(&mut bytes);
            bytes[at..HEAD_BYTES_MAX].to_vec()
        };
        assert_eq!(text(0), [0x81, 0]);
        assert_eq!(text(125), [0x81, 125]);
        assert_eq!(text(126), [0x81, 126, 0, 126]);
        assert_eq!(text(65_535), [0x81, 126, 0xFF, 0xFF]);
        assert_eq!(text(65_536), [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(*close(Some(1001), "bye"), *b"\x88\x05\x03\xE9bye");
        assert_eq!(*close(None, "bye"), *b"\x88\x00");
        assert_eq!(*pong(b"x"), *b"\x8A\x01x");
    }

    proptest! {
        #[test]
        fn a_masked_frame_round_trips(
            length in prop_oneof![0..130_usize, 65_530..65_540_usize], mask: [u8; 4], is_final: bool,
        ) {
            let payload: Vec<u8> = (0..=250).cycle().take(length).collect();
            let mut frame = masked(if is_final { 0x82 } else { 0x02 }, &payload, mask);
            let head = Head::decode(&frame).unwrap().unwrap();
            prop_assert_eq!(head.length, length as u64);
            prop_assert_eq!((head.opcode, head.is_final), (Opcode::Binary, is_final));
            head.unmask(&mut frame[head.bytes..]);
            prop_assert_eq!(&frame[head.bytes..], &payload);
        }

        #[test]
        fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(Some(head)) = Head::decode(&bytes) {
                prop_assert!(head.bytes <= bytes.len());
            }
        }
    }
}
