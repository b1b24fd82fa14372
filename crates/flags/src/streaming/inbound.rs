//! Messages out of the bytes that a client sends.

use crate::frame::{Head, Opcode};
use crate::streaming::close;

/// The longest message, in bytes: four pieces of 2 KiB, as with FeatBit's server.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 * 1_024;

/// How many frames a message may have.
pub(crate) const FRAMES_MAX: u8 = 4;

/// What a client has sent and nobody has dealt with. Nothing is kept of a client that is silent.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    bytes: Vec<u8>,
    /// How many of them have been dealt with.
    done: usize,
    /// The message whose frames are coming.
    message: Vec<u8>,
    frames: u8,
    is_text: bool,
}

/// What a client says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A message; text or binary, which FeatBit's server does not tell apart either.
    Message(Vec<u8>),
    /// A ping of WebSocket's, not of FeatBit's.
    Ping(Vec<u8>),
    /// The end, with a code where one was given.
    Close(Option<u16>),
}

impl Inbound {
    /// Takes in what was read.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next that the client says, if all of it is there.
    ///
    /// # Errors
    /// The code to close with, where it may not say that.
    pub(crate) fn next(&mut self) -> Result<Option<Said>, u16> {
        let said = self.read();
        if self.done == self.bytes.len() {
            (self.bytes, self.done) = (vec![], 0);
        } else if matches!(said, Ok(None)) {
            self.bytes.drain(..self.done);
            self.done = 0;
        }
        said
    }

    fn read(&mut self) -> Result<Option<Said>, u16> {
        loop {
            let bytes = &mut self.bytes[self.done..];
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
            self.done += end;
            let said = match head.opcode {
                Opcode::Ping => Some(Said::Ping(payload)),
                Opcode::Pong => None,
                Opcode::Close => Some(Said::Close(code(&payload)?)),
                Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                    self.piece(head, payload)?.map(Said::Message)
                }
            };
            if said.is_some() {
                return Ok(said);
            }
        }
    }

    /// A frame of a message; all of it with the last.
    fn piece(&mut self, head: Head, payload: Vec<u8>) -> Result<Option<Vec<u8>>, u16> {
        let goes_on = head.opcode == Opcode::Continuation;
        if goes_on != (self.frames > 0) {
            return Err(close::PROTOCOL_ERROR);
        }
        if !goes_on {
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

/// The code in a closing frame. Those that only stand for something may not be sent.
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

    /// All that is said, however it is cut.
    fn said(bytes: &[u8], cuts: &[usize]) -> Result<Vec<Said>, u16> {
        let mut inbound = Inbound::default();
        let mut all = vec![];
        let mut from = 0;
        let ends = cuts.iter().copied().chain([bytes.len()]);
        for end in ends {
            let end = end.clamp(from, bytes.len());
            inbound.take(&bytes[from..end]);
            from = end;
            while let Some(said) = inbound.next()? {
                all.push(said);
            }
            let kept = inbound.bytes.len() + inbound.message.len();
            assert!(kept <= 2 * MESSAGE_BYTES_MAX, "{kept}");
        }
        Ok(all)
    }

    #[test]
    fn nothing_is_kept_of_a_client_that_is_silent() {
        let mut inbound = Inbound::default();
        inbound.take(&frame(0x81, &[b'x'; 5_000]));
        assert_eq!(inbound.next(), Ok(Some(Said::Message(vec![b'x'; 5_000]))));
        assert_eq!(inbound.next(), Ok(None));
        assert_eq!((inbound.bytes.capacity(), inbound.message.capacity()), (0, 0));
    }

    proptest! {
        #[test]
        fn messages_do_not_depend_on_how_their_bytes_come(
            messages in prop::collection::vec(("[a-zé]{0,200}", 0..3_usize), 1..6),
            cuts in prop::collection::vec(0..2_000_usize, 0..12),
        ) {
            let (mut bytes, mut expected) = (vec![], vec![]);
            for (text, pieces) in &messages {
                let text = text.as_bytes();
                let size = (text.len() / (pieces + 1)).max(1);
                let mut rest = text;
                for piece in 0..*pieces {
                    let (before, after) = rest.split_at(size.min(rest.len()));
                    bytes.extend(frame(u8::from(piece == 0), before));
                    bytes.extend(frame(0x8A, b"pong"));
                    rest = after;
                }
                bytes.extend(frame(if *pieces == 0 { 0x81 } else { 0x80 }, rest));
                expected.push(Said::Message(text.to_vec()));
            }
            let mut cuts = cuts;
            cuts.sort_unstable();
            prop_assert_eq!(said(&bytes, &cuts), Ok(expected));
        }

        #[test]
        fn no_bytes_are_a_trap(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec(0..300_usize, 0..5),
        ) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            drop(said(&bytes, &cuts));
        }
    }
}
