//! Decodes the bytes of a client into messages.

use feature_flags::close;
use feature_flags::frame::{Head, Opcode};

/// The longest message, in bytes: four frames of 2 KiB, as with FeatBit's server.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 * 1_024;

/// How many frames a message may have.
pub(crate) const FRAMES_MAX: u8 = 4;

/// Received bytes that are not decoded yet. A silent client uses no memory.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    bytes: Vec<u8>,
    /// How many of them are decoded.
    decoded: usize,
    /// The message whose frames are being received.
    message: Vec<u8>,
    frames: u8,
    is_text: bool,
}

/// A message or control frame of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A text or binary message: FeatBit's server treats them alike.
    Message(Vec<u8>),
    /// A WebSocket ping, not FeatBit's.
    Ping(Vec<u8>),
    /// A close frame, with its code, if any.
    Close(Option<u16>),
}

impl Inbound {
    /// Appends bytes that were read.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message or control frame, if all of it was received.
    ///
    /// # Errors
    /// The code to close with, where it violates the protocol.
    pub(crate) fn next(&mut self) -> Result<Option<Received>, u16> {
        let received = self.read();
        if self.decoded == self.bytes.len() {
            (self.bytes, self.decoded) = (vec![], 0);
        } else if matches!(received, Ok(None)) {
            self.bytes.drain(..self.decoded);
            self.decoded = 0;
        }
        received
    }

    fn read(&mut self) -> Result<Option<Received>, u16> {
        loop {
            let bytes = &mut self.bytes[self.decoded..];
            let head = Head::decode(bytes).map_err(|_| close::PROTOCOL_ERROR)?;
            let Some(head) = head else { return Ok(None) };
            let length = usize::try_from(head.length).unwrap_or(usize::MAX);
            if !head.opcode.is_control() && length > MESSAGE_BYTES_MAX - self.message.len() {
                return Err(close::TOO_BIG);
            }
            let end = head.bytes + length;
            let Some(payload) = bytes.get_mut(head.bytes..end) else { return Ok(None) };
            head.unmask(payload);
            let payload = payload.to_vec();
            self.decoded += end;
            let received = match head.opcode {
                Opcode::Ping => Some(Received::Ping(payload)),
                Opcode::Pong => None,
                Opcode::Close => Some(Received::Close(code(&payload)?)),
                Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                    self.append(head, payload)?.map(Received::Message)
                }
            };
            if received.is_some() {
                return Ok(received);
            }
        }
    }

    /// Appends a frame to its message; returns the message with the last frame.
    fn append(&mut self, head: Head, payload: Vec<u8>) -> Result<Option<Vec<u8>>, u16> {
        let is_continuation = head.opcode == Opcode::Continuation;
        if is_continuation != (self.frames > 0) {
            return Err(close::PROTOCOL_ERROR);
        }
        if !is_continuation {
            self.is_text = head.opcode == Opcode::Text;
        }
        self.frames += 1;
        if self.frames > FRAMES_MAX {
            return Err(close::TOO_BIG);
        }
        if self.frames == 1 {
            self.message = payload;
        } else {
            self.message.extend_from_slice(&payload);
        }
        if !head.is_final {
            return Ok(None);
        }
        self.frames = 0;
        let message = std::mem::take(&mut self.message);
        if self.is_text && std::str::from_utf8(&message).is_err() {
            return Err(close::NOT_TEXT);
        }
        Ok(Some(message))
    }
}

/// The code in a close frame. Reserved codes must not be sent.
fn code(payload: &[u8]) -> Result<Option<u16>, u16> {
    match payload {
        [] => Ok(None),
        [high, low, reason @ ..] => match u16::from_be_bytes([*high, *low]) {
            code @ (1000..=1003 | 1007..=1014 | 3000..=4999)
                if std::str::from_utf8(reason).is_ok() =>
            {
                Ok(Some(code))
            }
            _ => Err(close::PROTOCOL_ERROR),
        },
        [_] => Err(close::PROTOCOL_ERROR),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match u8::try_from(payload.len()) {
            Ok(length @ ..126) => frame.push(0x80 | length),
            _ => {
                frame.push(0xFE);
                frame.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
            }
        }
        frame.extend_from_slice(&[7, 0, 255, 1]);
        let masked = payload.iter().zip([7, 0, 255, 1].iter().cycle());
        frame.extend(masked.map(|(byte, mask)| byte ^ mask));
        frame
    }

    /// Everything that is received, however its bytes are split.
    fn decode(bytes: &[u8], cuts: &[usize]) -> Result<Vec<Received>, u16> {
        let mut inbound = Inbound::default();
        let mut all = vec![];
        let mut from = 0;
        let ends = cuts.iter().copied().chain([bytes.len()]);
        for end in ends {
            let end = end.clamp(from, bytes.len());
            inbound.take(&bytes[from..end]);
            from = end;
            while let Some(received) = inbound.next()? {
                all.push(received);
            }
            let buffered = inbound.bytes.len() + inbound.message.len();
            assert!(buffered <= 2 * MESSAGE_BYTES_MAX, "{buffered}");
        }
        Ok(all)
    }

    #[test]
    fn decoded_bytes_are_freed() {
        let mut inbound = Inbound::default();
        inbound.take(&frame(0x81, &[b'x'; 5_000]));
        assert_eq!(inbound.next(), Ok(Some(Received::Message(vec![b'x'; 5_000]))));
        assert_eq!(inbound.next(), Ok(None));
        assert_eq!((inbound.bytes.capacity(), inbound.message.capacity()), (0, 0));
    }

    proptest! {
        #[test]
        fn messages_do_not_depend_on_how_their_bytes_are_split(
            messages in prop::collection::vec(("[a-zé]{0,200}", 0..3_usize), 1..6),
            cuts in prop::collection::vec(0..2_000_usize, 0..12),
        ) {
            let (mut bytes, mut expected) = (vec![], vec![]);
            for (text, frames) in &messages {
                let text = text.as_bytes();
                let size = (text.len() / (frames + 1)).max(1);
                let mut rest = text;
                for frame_no in 0..*frames {
                    let (before, after) = rest.split_at(size.min(rest.len()));
                    bytes.extend(frame(u8::from(frame_no == 0), before));
                    bytes.extend(frame(0x8A, b"pong"));
                    rest = after;
                }
                bytes.extend(frame(if *frames == 0 { 0x81 } else { 0x80 }, rest));
                expected.push(Received::Message(text.to_vec()));
            }
            let mut cuts = cuts;
            cuts.sort_unstable();
            prop_assert_eq!(decode(&bytes, &cuts), Ok(expected));
        }

        #[test]
        fn random_bytes_do_not_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec(0..300_usize, 0..5),
        ) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            drop(decode(&bytes, &cuts));
        }
    }
}
