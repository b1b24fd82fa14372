//! Messages on their way to clients: long ones count towards the memory for unread answers until they are
//! written.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use web::AnswerAccount;
use web::answer_budget::COUNTED_ABOVE_BYTES;

use crate::Refusal;

/// A response whose long messages are counted; it ends with `RESOURCE_EXHAUSTED` where there is no room.
pub(crate) fn counted(account: AnswerAccount, body: Body) -> Body {
    Body::new(Counted { body, account, is_over: false })
}

struct Counted {
    body: Body,
    account: AnswerAccount,
    is_over: bool,
}

impl Counted {
    fn counted(&mut self, message: Bytes) -> Frame<Bytes> {
        if message.len() <= COUNTED_ABOVE_BYTES {
            return Frame::data(message);
        }
        match self.account.acquire(message.len()) {
            Some(permit) => Frame::data(permit.attach(message)),
            None => {
                self.is_over = true;
                let mut trailers = HeaderMap::new();
                let status = Status::from(Refusal::Full);
                if status.add_header(&mut trailers).is_err() {
                    tracing::error!("failed to write a status; the response ends without one");
                }
                Frame::trailers(trailers)
            }
        }
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        let frame = match frame?.into_data() {
            Ok(message) => self.counted(message),
            Err(trailers) => trailers,
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
