//! Answers on their way to clients: long ones count towards the memory for unread answers until they are
//! written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use domain::TenantNo;
use engine::access::ClientAddress;
use http::Response;
use http::header::CONTENT_TYPE;
use hyper::body::{Body as _, Frame, SizeHint};
use web::answer_budget::{SharedAnswer, is_counted};
use web::{AnswerAccount, AnswerBudget, AnswerPermit};

/// The bytes that are counted for all short parts of an answer in parts: they wait together in a
/// connection's buffer, so many bytes at most.
const SHORT_PARTS_BYTES: usize = 64 * 1024;

/// Parts up to this length are short, in bytes: a connection takes 16 parts at a time.
const SHORT_PART_BYTES: usize = SHORT_PARTS_BYTES / 16;

/// An answer whose bytes are counted until they are written; as it is where it is short, shared, or a stream
/// of events, which has limits of its own. `None` where there is no room for it.
pub(crate) fn counted(
    budget: &Arc<AnswerBudget>,
    client: ClientAddress,
    response: Response<Body>,
) -> Option<Response<Body>> {
    if !is_counted(&response) || response.extensions().get::<SharedAnswer>().is_some() {
        return Some(response);
    }
    let tenant = response.extensions().get::<TenantNo>().copied();
    let length = response.body().size_hint().exact();
    if length.is_none() && is_event_stream(&response) {
        return Some(response);
    }
    let length = length.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    let account = budget.account(client, tenant);
    let permit = account.acquire(length.unwrap_or(SHORT_PARTS_BYTES))?;
    let of_parts = length.is_none().then_some(account);
    Some(response.map(|body| Body::new(CountedBody { body, permit: Some(permit), of_parts })))
}

fn is_event_stream(response: &Response<Body>) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"))
}

struct CountedBody {
    body: Body,
    /// Of the whole body, which is one part; or of the short parts of a body in parts.
    permit: Option<AnswerPermit>,
    /// The account that counts the longer parts, where the body comes in parts.
    of_parts: Option<AnswerAccount>,
}

impl CountedBody {
    /// A part that gives back what it holds once it is written.
    fn counted(&mut self, part: Bytes) -> Result<Bytes, io::Error> {
        match &self.of_parts {
            None => Ok(match self.permit.take() {
                Some(permit) => permit.attach(part),
                None => part,
            }),
            Some(_) if part.len() <= SHORT_PART_BYTES => Ok(part),
            Some(account) => {
                let permit = account.acquire(part.len());
                let no_room = || io::Error::other("there is no room for the rest of the answer");
                Ok(permit.ok_or_else(no_room)?.attach(part))
            }
        }
    }
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        let counted = match frame?.into_data() {
            Ok(part) => self.counted(part).map(Frame::data).map_err(axum::Error::new),
            Err(trailers) => Ok(trailers),
        };
        Poll::Ready(Some(counted))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};

    use super::*;

    const KIB: usize = 1024;

    fn budget() -> Arc<AnswerBudget> {
        AnswerBudget::new(4 * 1024 * KIB, vec![])
    }

    fn answer(body: impl Into<Body>) -> Response<Body> {
        Response::new(body.into())
    }

    const CLIENT: ClientAddress =
        ClientAddress(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

    #[tokio::test]
    async fn long_answers_are_counted_until_they_are_written() {
        let budget = budget();
        let length = |it: &Response<Body>| it.body().size_hint().exact();
        let short = counted(&budget, CLIENT, answer(vec![b' '; 16 * KIB])).unwrap();
        assert_eq!(budget.held_bytes(), 0);
        let long = counted(&budget, CLIENT, answer(vec![b' '; 700 * KIB])).unwrap();
        assert_eq!((length(&short), length(&long)), (Some(16 * 1024), Some(700 * 1024)));
        assert_eq!(budget.held_bytes(), 700 * KIB);
        assert!(counted(&budget, CLIENT, answer(vec![b' '; 700 * KIB])).is_none());
        let mut shared = answer(vec![b' '; 700 * KIB]);
        shared.extensions_mut().insert(SharedAnswer);
        assert!(counted(&budget, CLIENT, shared).is_some());
        let mut parts = long.into_body().into_data_stream();
        let written = parts.next().await.unwrap().unwrap();
        drop(parts);
        assert_eq!((written.len(), budget.held_bytes()), (700 * KIB, 700 * KIB));
        drop(written);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[tokio::test]
    async fn of_an_answer_in_parts_what_is_not_written_is_counted() {
        let budget = budget();
        let parts = [100, 1, 800, 300].map(|it| Ok::<_, io::Error>(vec![b' '; it * KIB]));
        let in_parts = answer(Body::from_stream(stream::iter(parts)));
        let mut parts = counted(&budget, CLIENT, in_parts).unwrap().into_body().into_data_stream();
        assert_eq!(budget.held_bytes(), 64 * KIB);
        let first = parts.next().await.unwrap().unwrap();
        let short = parts.next().await.unwrap().unwrap();
        assert_eq!(budget.held_bytes(), 164 * KIB);
        drop((first, short));
        let held = parts.next().await.unwrap().unwrap();
        assert_eq!(budget.held_bytes(), 864 * KIB);
        assert!(parts.next().await.unwrap().is_err(), "1,024 KiB are the network's");
        drop((parts, held));
        assert_eq!(budget.held_bytes(), 0);
        let mut events = answer(Body::from_stream(stream::pending::<Result<Bytes, io::Error>>()));
        let media_type = http::HeaderValue::from_static("text/event-stream");
        events.headers_mut().insert(CONTENT_TYPE, media_type);
        let _events = counted(&budget, CLIENT, events).unwrap();
        assert_eq!(budget.held_bytes(), 0);
    }
}
