//! Reads HTTP/1.1 responses within bounds and without allocating: `httparse` reads heads and chunk
//! sizes, this module finds where a response ends.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::Duration;

use httparse::{Header, ParserConfig, Status};

/// The longest head that is read.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The longest body that is read, chunk framing included.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most headers of a response.
const HEADERS_MAX: usize = 64;

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
    /// The body with its chunk framing.
    body: Range<usize>,
    chunked: bool,
}

impl Response {
    /// Whether the server refused the request before it did anything, and asks for a retry. A
    /// response with a `Location` is none, whatever its status: the request was taken.
    pub fn is_refusal(&self) -> bool {
        matches!(self.status, 429 | 503) && self.retry_after.is_some() && self.location.is_none()
    }

    /// The body without its chunk framing. Allocates for a chunked body only.
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
    /// A malformed header, or one with an invalid value.
    #[error("bad header")]
    Header,
    /// More than [`HEAD_BYTES_MAX`], or more than [`HEADERS_MAX`] headers.
    #[error("head too long")]
    HeadTooLong,
    /// More than [`BODY_BYTES_MAX`].
    #[error("body too long")]
    BodyTooLong,
    /// Neither a length nor chunks: the body would end with the connection.
    #[error("body without length")]
    NoLength,
    /// Malformed chunk framing.
    #[error("bad chunk")]
    Chunk,
    /// Bytes after the response to the only request sent.
    #[error("unexpected bytes after the response")]
    Excess,
}

impl From<httparse::Error> for ResponseError {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::Status | httparse::Error::Version | httparse::Error::Token => {
                Self::StatusLine
            }
            httparse::Error::HeaderName
            | httparse::Error::HeaderValue
            | httparse::Error::NewLine => Self::Header,
            httparse::Error::TooManyHeaders => Self::HeadTooLong,
        }
    }
}

/// Reads one response; `None` while bytes are missing.
pub fn parse(bytes: &[u8]) -> Result<Option<Response>, ResponseError> {
    let mut start = 0;
    loop {
        let Some(head) = parse_head(bytes, start)? else { return Ok(None) };
        if (100..200).contains(&head.status) {
            // An interim response: the final one follows.
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
    let rest = &bytes[start..];
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let status = ParserConfig::default().parse_response_with_uninit_headers(
        &mut parsed,
        rest,
        &mut headers,
    )?;
    let length = match status {
        Status::Complete(length) if length <= HEAD_BYTES_MAX => length,
        Status::Partial if rest.len() < HEAD_BYTES_MAX => return Ok(None),
        Status::Complete(_) | Status::Partial => return Err(ResponseError::HeadTooLong),
    };
    let status = parsed.code.filter(|code| *code >= 100).ok_or(ResponseError::StatusLine)?;
    let mut head = Head {
        status,
        location: None,
        retry_after: None,
        // HTTP/1.0 closes unless a header says otherwise.
        close: parsed.version == Some(0),
        framing: Framing::Unstated,
        end: start + length,
    };
    for header in parsed.headers.iter() {
        head.read(bytes, header)?;
    }
    Ok(Some(head))
}

impl Head {
    fn read(&mut self, bytes: &[u8], header: &Header<'_>) -> Result<(), ResponseError> {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let value = header.value.trim_ascii();
        // By length first: most headers are none of these.
        match header.name.len() {
            8 if is("location") => {
                let start = value.as_ptr().addr() - bytes.as_ptr().addr();
                self.location = Some(start..start + value.len());
            }
            10 if is("connection") => self.close = value.eq_ignore_ascii_case(b"close"),
            11 if is("retry-after") => self.retry_after = decimal(value).map(Duration::from_secs),
            14 if is("content-length") => {
                let length = decimal(value).ok_or(ResponseError::Header)?;
                let length = usize::try_from(length).map_err(|_| ResponseError::BodyTooLong)?;
                if length > BODY_BYTES_MAX {
                    return Err(ResponseError::BodyTooLong);
                }
                self.framing = Framing::Length(length);
            }
            17 if is("transfer-encoding") => {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ResponseError::Header);
                }
                self.framing = Framing::Chunked;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The end of the body; `None` while bytes are missing.
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
    let size = httparse::parse_chunk_size(&bytes[start..]).map_err(|_| ResponseError::Chunk)?;
    let Status::Complete((length, size)) = size else { return Ok(None) };
    let size = usize::try_from(size).map_err(|_| ResponseError::BodyTooLong)?;
    if size > BODY_BYTES_MAX {
        return Err(ResponseError::BodyTooLong);
    }
    let data_start = start + length;
    let data = data_start..data_start + size;
    if size == 0 {
        return Ok(Some(Chunk { next: data_start, data }));
    }
    let Some(after) = bytes.get(data.end..data.end + 2) else { return Ok(None) };
    if after != b"\r\n" {
        return Err(ResponseError::Chunk);
    }
    Ok(Some(Chunk { next: data.end + 2, data }))
}

/// The end of the trailers, with the empty line that ends a chunked body.
fn trailers_end(bytes: &[u8], start: usize) -> Result<Option<usize>, ResponseError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    match httparse::parse_headers(&bytes[start..], &mut headers)? {
        Status::Complete((length, _)) if length <= HEAD_BYTES_MAX => Ok(Some(start + length)),
        Status::Partial if bytes.len() - start < HEAD_BYTES_MAX => Ok(None),
        Status::Complete(_) | Status::Partial => Err(ResponseError::HeadTooLong),
    }
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
    fn status_location_and_length_are_read() {
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
    fn refusal_needs_retry_after_and_no_location() {
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
    fn chunked_bodies_are_joined_and_checked() {
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
    fn malformed_responses_are_refused() {
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
    fn heads_above_the_limit_are_refused() {
        let long_line = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(parse(long_line.as_bytes()), Err(ResponseError::HeadTooLong));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: yyyyyyyyyyy\r\n".repeat(2000));
        assert_eq!(parse(many.as_bytes()), Err(ResponseError::HeadTooLong));
    }

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
            let status = parse(text.as_bytes()).unwrap().map(|response| response.status);
            assert!(matches!(status, Some(200 | 201)), "{text:?}: {status:?}");
        }
    }
}
