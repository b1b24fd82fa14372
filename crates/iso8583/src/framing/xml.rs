//! Finds the end of an XML message: the end of the outermost `isomsg` element.
//!
//! An interrupted scan continues where it stopped, so that each byte is scanned once. The scan only
//! recognises markup; the packager parses the message.

use std::ops::Range;

use super::error::FramingError;

const ELEMENT: &[u8] = b"isomsg";
const COMMENT: &[u8] = b"!--";
const COMMENT_END: &[u8] = b"-->";
const VERBATIM: &[u8] = b"![CDATA[";
const VERBATIM_END: &[u8] = b"]]>";
const INSTRUCTION_END: &[u8] = b"?>";

/// The state of a scan.
#[derive(Debug, Clone, Default)]
pub(super) struct Scan {
    /// The offset of the next byte.
    at: usize,
    /// The start of the message without preceding blanks.
    begin: Option<usize>,
    /// The number of open `isomsg` elements.
    depth: u32,
    inside: Inside,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Text,
    /// A comment, CDATA or an instruction, up to this end mark.
    Passage(&'static [u8]),
    /// A tag, and its open quotation mark.
    Tag(Tag, Option<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Opens,
    Closes,
    OfField,
}

impl Scan {
    /// Continues to the end of the message; returns the range of the message if it is complete.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Result<Option<Range<usize>>, FramingError> {
        loop {
            let has_advanced = match self.inside {
                Inside::Text => self.text(bytes)?,
                Inside::Passage(end) => self.passage(bytes, end),
                Inside::Tag(tag, quote) => {
                    let ended = self.tag(bytes, tag, quote)?;
                    if ended && self.depth == 0 {
                        return Ok(Some(self.begin.unwrap_or_default()..self.at));
                    }
                    ended
                }
            };
            if !has_advanced {
                return Ok(None);
            }
        }
    }

    /// Continues into the next markup. Returns false if more bytes are needed, like the functions below.
    fn text(&mut self, bytes: &[u8]) -> Result<bool, FramingError> {
        let rest = bytes.get(self.at..).unwrap_or_default();
        let blank = |byte: &u8| byte.is_ascii_whitespace();
        let next = match self.depth {
            0 => rest.iter().position(|byte| !blank(byte)),
            _ => rest.iter().position(|byte| *byte == b'<'),
        };
        let Some(next) = next else {
            self.at = bytes.len();
            return Ok(false);
        };
        self.at += next;
        if bytes[self.at] != b'<' {
            return Err(self.unexpected(bytes, self.at, "the beginning of `<isomsg`"));
        }
        self.begin.get_or_insert(self.at);
        self.mark(bytes, &bytes[self.at + 1..])
    }

    /// Recognises the markup that begins here.
    fn mark(&mut self, bytes: &[u8], mark: &[u8]) -> Result<bool, FramingError> {
        let may_become = |whole: &[u8]| mark.len() < whole.len() && whole.starts_with(mark);
        if may_become(COMMENT) || may_become(VERBATIM) {
            return Ok(false);
        }
        let passages = [(COMMENT, COMMENT_END), (VERBATIM, VERBATIM_END), (b"?", INSTRUCTION_END)];
        for (begin, end) in passages {
            if mark.starts_with(begin) {
                self.at += 1 + begin.len();
                self.inside = Inside::Passage(end);
                return Ok(true);
            }
        }
        if mark[0] == b'!' {
            return Err(FramingError::DocumentType { at: self.at });
        }
        let is_closing = mark[0] == b'/';
        let name = &mark[usize::from(is_closing)..];
        // The byte behind the name distinguishes `isomsg` from `isomsgs`.
        if name.len() <= ELEMENT.len() && ELEMENT.starts_with(name) {
            return Ok(false);
        }
        let ends = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/');
        let is_message = name.starts_with(ELEMENT) && ends(name[ELEMENT.len()]);
        let tag = match (is_message, is_closing) {
            (true, false) => Tag::Opens,
            (true, true) => Tag::Closes,
            (false, _) => Tag::OfField,
        };
        if self.depth == 0 && tag != Tag::Opens {
            return Err(self.unexpected(bytes, self.at + 1, "the name `isomsg`"));
        }
        self.at += 1;
        self.inside = Inside::Tag(tag, None);
        Ok(true)
    }

    fn passage(&mut self, bytes: &[u8], end: &[u8]) -> bool {
        let rest = bytes.get(self.at..).unwrap_or_default();
        match rest.windows(end.len()).position(|window| window == end) {
            Some(found) => {
                self.at += found + end.len();
                self.inside = Inside::Text;
                true
            }
            None => {
                self.at += rest.len().saturating_sub(end.len() - 1);
                false
            }
        }
    }

    fn tag(&mut self, bytes: &[u8], tag: Tag, open: Option<u8>) -> Result<bool, FramingError> {
        let mut quote = open;
        while let Some(&byte) = bytes.get(self.at) {
            self.at += 1;
            match (quote, byte) {
                (Some(mark), _) if mark == byte => quote = None,
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'<') => {
                    return Err(self.unexpected(bytes, self.at - 1, "the end of a tag"));
                }
                (None, b'>') => {
                    match tag {
                        Tag::Opens if bytes[self.at - 2] == b'/' => {}
                        Tag::Opens => self.depth += 1,
                        Tag::Closes => self.depth -= 1,
                        Tag::OfField => {}
                    }
                    self.inside = Inside::Text;
                    return Ok(true);
                }
                (Some(_) | None, _) => {}
            }
        }
        self.inside = Inside::Tag(tag, quote);
        Ok(false)
    }

    fn unexpected(&self, bytes: &[u8], at: usize, what: &'static str) -> FramingError {
        FramingError::Unexpected { at, what, found: bytes[at] }
    }
}

/// The end of a sent message: a line end, for line-based readers. Refuses anything but one message.
pub(super) fn end_of(body: &[u8]) -> Result<&'static [u8], FramingError> {
    let Some(found) = Scan::default().advance(body)? else {
        return Err(FramingError::Truncated { have: body.len() });
    };
    match body[found.end..].trim_ascii() {
        b"" if body.ends_with(b"\n") => Ok(b""),
        b"" => Ok(b"\n"),
        _ => Err(FramingError::EndInside { at: found.end }),
    }
}
