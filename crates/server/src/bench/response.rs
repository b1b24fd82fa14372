//! Reads HTTP/1.1 responses: a bounded, allocation-free parser for what a payment API answers.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

/// The longest head that is read.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The longest body that is read, chunk framing included.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A complete response, as ranges of the bytes it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The value of `Location`.
    pub location: Option<Range<usize>>,
    /// `Retry-After`, where it is a number of seconds.
    pub retry_after: Option<Duration>,
    /// Whether the connection ends with this response.
    pub close: bool,
    /// The body as it was framed.
    body: Range<usize>,
    chunked: bool,
}

impl Response {
    /// Whether the server refused to take the request and says when to come again. An answer
    /// with a `Location` was taken, whatever its status.
    pub fn is_refusal(&self) -> bool {
        matches!(self.status, 429 | 503) && self.retry_after.is_some() && self.location.is_none()
    }

    /// The body without its chunk framing.
    pub fn body<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let framed = &bytes[self.body.clone()];
        if !self.chunked {
            return Cow::Borrowed(framed);
        }
        let mut body = Vec::with_capacity(framed.len());
        let mut at = 0;
        while let Ok(Some(chunk)) = chunk_at(framed, at) {
            if chunk.data.is_empty() {
                break;
            }
            body.extend_from_slice(&framed[chunk.data]);
            at = chunk.next;
        }
        Cow::Owned(body)
    }
}

/// Why bytes are not a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The first line is not `HTTP/1.x NNN`.
    #[error("bad status line")]
    StatusLine,
    /// A header without a colon, or with a value that cannot be.
    #[error("bad header")]
    Header,
    /// More than [`HEAD_BYTES_MAX`].
    #[error("head too long")]
    HeadTooLong,
    /// More than [`BODY_BYTES_MAX`].
    #[error("body too long")]
    BodyTooLong,
    /// Neither a length nor chunks: the end of the body cannot be told.
    #[error("body without length")]
    NoLength,
    /// Chunk framing that is none.
    #[error("bad chunk")]
    Chunk,
    /// Bytes after the response, though nothing else was asked.
    #[error("unexpected bytes after the response")]
    Excess,
}

/// Reads one response; `None` while bytes are missing.
pub fn parse(bytes: &[u8]) -> Result<Option<Response>, ResponseError> {
    let mut start = 0;
    loop {
        let Some(head) = parse_head(bytes, start)? else { return Ok(None) };
        if (100..200).contains(&head.status) {
            // An interim response: the real one follows.
            start = head.end;
            continue;
        }
        let Some(end) = body_end(bytes, &head)? else { return Ok(None) };
        if end < bytes.len() {
            return Err(ResponseError::Excess);
        }
        return Ok(Some(Response {
            status: head.status,
            location: head.location,
            retry_after: head.retry_after,
            close: head.close,
            body: head.end..end,
            chunked: head.framing == Framing::Chunked,
        }));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Unstated,
    Length(usize),
    Chunked,
}

struct Head {
    status: u16,
    location: Option<Range<usize>>,
    retry_after: Option<Duration>,
    close: bool,
    framing: Framing,
    end: usize,
}

fn parse_head(bytes: &[u8], start: usize) -> Result<Option<Head>, ResponseError> {
    let Some(line) = line_at(bytes, start)? else { return Ok(None) };
    let (status, close) = status_line(&bytes[line.text.clone()])?;
    let mut head = Head {
        status,
        location: None,
        retry_after: None,
        close,
        framing: Framing::Unstated,
        end: line.next,
    };
    loop {
        let Some(line) = line_at(bytes, head.end)? else { return Ok(None) };
        if line.next - start > HEAD_BYTES_MAX {
            return Err(ResponseError::HeadTooLong);
        }
        head.end = line.next;
        if line.text.is_empty() {
            return Ok(Some(head));
        }
        header(bytes, line.text, &mut head)?;
    }
}

struct Line {
    text: Range<usize>,
    next: usize,
}

fn line_at(bytes: &[u8], start: usize) -> Result<Option<Line>, ResponseError> {
    let rest = &bytes[start.min(bytes.len())..];
    let Some(length) = rest.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n') else {
        return if rest.len() >= HEAD_BYTES_MAX {
            Err(ResponseError::HeadTooLong)
        } else {
            Ok(None)
        };
    };
    let text_length = length - usize::from(length > 0 && rest[length - 1] == b'\r');
    Ok(Some(Line { text: start..start + text_length, next: start + length + 1 }))
}

/// The status, and whether the version closes its connections.
fn status_line(line: &[u8]) -> Result<(u16, bool), ResponseError> {
    let rest = line.strip_prefix(b"HTTP/1.").ok_or(ResponseError::StatusLine)?;
    let (version, code) = match rest {
        [version @ (b'0' | b'1'), b' ', code @ ..] => (*version, code),
        _ => return Err(ResponseError::StatusLine),
    };
    let digits = match code {
        [digits @ .., b' '] if digits.len() == 3 => digits,
        digits if digits.len() == 3 => digits,
        longer if longer.len() > 3 && longer[3] == b' ' => &longer[..3],
        _ => return Err(ResponseError::StatusLine),
    };
    let status = decimal(digits).and_then(|status| u16::try_from(status).ok());
    match status {
        Some(status) if status >= 100 => Ok((status, version == b'0')),
        Some(_) | None => Err(ResponseError::StatusLine),
    }
}

fn header(bytes: &[u8], line: Range<usize>, head: &mut Head) -> Result<(), ResponseError> {
    let text = &bytes[line.clone()];
    let colon = text.iter().position(|byte| *byte == b':').ok_or(ResponseError::Header)?;
    let name = &text[..colon];
    let value = text[colon + 1..].trim_ascii();
    match name.len() {
        8 if name.eq_ignore_ascii_case(b"location") => {
            let start = line.start + colon + 1 + leading_blanks(&text[colon + 1..]);
            head.location = Some(start..start + value.len());
        }
        10 if name.eq_ignore_ascii_case(b"connection") => {
            head.close = value.eq_ignore_ascii_case(b"close");
        }
        11 if name.eq_ignore_ascii_case(b"retry-after") => {
            head.retry_after = decimal(value).map(Duration::from_secs);
        }
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            let length = decimal(value).ok_or(ResponseError::Header)?;
            let length = usize::try_from(length).map_err(|_| ResponseError::BodyTooLong)?;
            if length > BODY_BYTES_MAX {
                return Err(ResponseError::BodyTooLong);
            }
            head.framing = Framing::Length(length);
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(ResponseError::Header);
            }
            head.framing = Framing::Chunked;
        }
        _ => {}
    }
    Ok(())
}

fn leading_blanks(text: &[u8]) -> usize {
    text.len() - text.trim_ascii_start().len()
}

/// Where the body ends; `None` while bytes are missing.
fn body_end(bytes: &[u8], head: &Head) -> Result<Option<usize>, ResponseError> {
    if matches!(head.status, 204 | 304) {
        return Ok(Some(head.end));
    }
    match head.framing {
        Framing::Unstated => Err(ResponseError::NoLength),
        Framing::Length(length) => {
            let end = head.end + length;
            Ok((bytes.len() >= end).then_some(end))
        }
        Framing::Chunked => {
            let mut at = head.end;
            while let Some(chunk) = chunk_at(bytes, at)? {
                at = chunk.next;
                if at - head.end > BODY_BYTES_MAX {
                    return Err(ResponseError::BodyTooLong);
                }
                if chunk.data.is_empty() {
                    return trailers_end(bytes, at);
                }
            }
            Ok(None)
        }
    }
}

struct Chunk {
    data: Range<usize>,
    next: usize,
}

fn chunk_at(bytes: &[u8], start: usize) -> Result<Option<Chunk>, ResponseError> {
    let Some(line) = line_at(bytes, start)? else { return Ok(None) };
    let text = &bytes[line.text];
    let digits = text.split(|byte| *byte == b';').next().unwrap_or(text).trim_ascii();
    let size = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .and_then(|digits| usize::from_str_radix(digits, 16).ok())
        .ok_or(ResponseError::Chunk)?;
    if size > BODY_BYTES_MAX {
        return Err(ResponseError::BodyTooLong);
    }
    let data = line.next..line.next + size;
    if size == 0 {
        return Ok(Some(Chunk { next: line.next, data }));
    }
    let Some(after) = bytes.get(data.end..data.end + 2) else { return Ok(None) };
    if after != b"\r\n" {
        return Err(ResponseError::Chunk);
    }
    Ok(Some(Chunk { next: data.end + 2, data }))
}

/// Skips trailers up to the empty line that ends a chunked body.
fn trailers_end(bytes: &[u8], start: usize) -> Result<Option<usize>, ResponseError> {
    let mut at = start;
    while let Some(line) = line_at(bytes, at)? {
        at = line.next;
        if at - start > HEAD_BYTES_MAX {
            return Err(ResponseError::HeadTooLong);
        }
        if line.text.is_empty() {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&render(text.replace('\n', "\r\n").as_bytes()));
    }

    fn render(bytes: &[u8]) -> String {
        match parse(bytes) {
            Ok(None) => "incomplete".to_owned(),
            Err(error) => format!("error: {error}"),
            Ok(Some(response)) => {
                let text =
                    |range: Range<usize>| String::from_utf8_lossy(&bytes[range]).into_owned();
                format!(
                    "{} location={:?} retry_after={:?} close={} body={:?} refusal={}",
                    response.status,
                    response.location.clone().map(text),
                    response.retry_after,
                    response.close,
                    String::from_utf8_lossy(&response.body(bytes)),
                    response.is_refusal(),
                )
            }
        }
    }

    #[test]
    fn created() {
        check(
            "HTTP/1.1 201 Created\nLocation:  http://h/1.0/kb/accounts/x \ncontent-length: 0\n\n",
            expect![[
                r#"201 location=Some("http://h/1.0/kb/accounts/x") retry_after=None close=false body="" refusal=false"#
            ]],
        );
        check(
            "HTTP/1.1 204\n\n",
            expect![[r#"204 location=None retry_after=None close=false body="" refusal=false"#]],
        );
        check(
            "HTTP/1.0 200 OK\nCONTENT-LENGTH: 2\n\nhi",
            expect![[r#"200 location=None retry_after=None close=true body="hi" refusal=false"#]],
        );
    }

    #[test]
    fn refusals_are_told_from_unknown_outcomes() {
        check(
            "HTTP/1.1 503 x\nRetry-After: 2\nConnection: close\nContent-Length: 2\n\n{}",
            expect![[
                r#"503 location=None retry_after=Some(2s) close=true body="{}" refusal=true"#
            ]],
        );
        check(
            "HTTP/1.1 503 x\nLocation: /p\nContent-Length: 0\n\n",
            expect![[
                r#"503 location=Some("/p") retry_after=None close=false body="" refusal=false"#
            ]],
        );
        check(
            "HTTP/1.1 429 x\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\nContent-Length: 0\n\n",
            expect![[r#"429 location=None retry_after=None close=false body="" refusal=false"#]],
        );
    }

    #[test]
    fn chunks() {
        check(
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n2;x=y\nde\n0\nTrailer: t\n\n",
            expect![[
                r#"200 location=None retry_after=None close=false body="abcde" refusal=false"#
            ]],
        );
        check(
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nabcd\n",
            expect!["error: bad chunk"],
        );
        check("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n-1\n", expect!["error: bad chunk"]);
        check(
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nffffffff\n",
            expect!["error: body too long"],
        );
    }

    #[test]
    fn interim_responses_are_skipped() {
        check(
            "HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Length: 1\n\nx",
            expect![[r#"200 location=None retry_after=None close=false body="x" refusal=false"#]],
        );
        check("HTTP/1.1 100 Continue\n\nHTTP/1.1 200", expect!["incomplete"]);
    }

    #[test]
    fn refused_input() {
        check("HTTP/2 200 OK\n\n", expect!["error: bad status line"]);
        check("HTTP/1.1 20 OK\n\n", expect!["error: bad status line"]);
        check("HTTP/1.1 2000\n\n", expect!["error: bad status line"]);
        check("HTTP/1.1 099 x\n\n", expect!["error: bad status line"]);
        check("HTTP/1.1 200 OK\nnonsense\n\n", expect!["error: bad header"]);
        check("HTTP/1.1 200 OK\nContent-Length: -1\n\n", expect!["error: bad header"]);
        check("HTTP/1.1 200 OK\nContent-Length: 99999999\n\n", expect!["error: body too long"]);
        check("HTTP/1.1 200 OK\n\n", expect!["error: body without length"]);
        check(
            "HTTP/1.1 200 OK\nContent-Length: 1\n\nxy",
            expect!["error: unexpected bytes after the response"],
        );
    }

    #[test]
    fn heads_are_bounded() {
        let long_line = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(parse(long_line.as_bytes()), Err(ResponseError::HeadTooLong));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: yyyyyyyyyyy\r\n".repeat(2000));
        assert_eq!(parse(many.as_bytes()), Err(ResponseError::HeadTooLong));
    }

    /// However the bytes arrive, the answer is "incomplete" until the last one.
    #[test]
    fn every_prefix_is_incomplete() {
        let texts = [
            "HTTP/1.1 201 Created\r\nLocation: /x\r\nContent-Length: 3\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ];
        for text in texts {
            for end in 0..text.len() {
                assert_eq!(parse(&text.as_bytes()[..end]), Ok(None), "{end} bytes of {text:?}");
            }
            assert!(matches!(parse(text.as_bytes()), Ok(Some(_))));
        }
    }
}
