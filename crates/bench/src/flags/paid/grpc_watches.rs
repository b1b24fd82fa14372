//! gRPC's watches of flags, on which a value is awaited.

use std::future::poll_fn;
use std::time::Duration;

use anyhow::Context as _;
use grpc::api::flag_value::Value;
use grpc::api::{FlagUser, WatchRequest, WatchResponse};
use http::header::{CONTENT_TYPE, HeaderName, TE};
use http::{HeaderMap, HeaderValue};
use tokio::sync::{OnceCell, mpsc};
use tokio::time::Instant;

use super::shop::FLAG;
use crate::flags::socket::Failure;
use crate::grpc::channel::{Channel, Head, Messages, decode, frame};
use command_line::Target;

const WATCH: &str = "/faregate.v1.FlagService/Watch";

/// How many watches share a connection.
const PER_CONNECTION: u32 = 100;

/// The connections, each opened by its first watch.
pub struct Watches {
    target: Target,
    head: Head,
    channels: Vec<OnceCell<Channel>>,
    timeout: Duration,
}

impl Watches {
    /// For so many watches, with the secret of an environment.
    pub fn new(target: Target, secret: &str, held: u32, timeout: Duration) -> anyhow::Result<Self> {
        let secret = HeaderValue::from_str(secret).context("the secret is no metadata")?;
        let metadata = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
            (TE, HeaderValue::from_static("trailers")),
            (HeaderName::from_static("x-api-key"), secret),
        ]);
        let head = Head::new(&target, WATCH, &metadata);
        let channels = (0..held.div_ceil(PER_CONNECTION)).map(|_| OnceCell::new()).collect();
        Ok(Self { target, head, channels, timeout })
    }

    /// Drops `ready` once the user's first values are there, and then reports each change of the flag.
    pub async fn follow(
        &self,
        (n, user): (u32, &str),
        ready: mpsc::UnboundedSender<()>,
        changed: impl Fn(bool, Instant),
    ) -> Result<(), Failure> {
        let channel = &self.channels[(n / PER_CONNECTION) as usize];
        let opened = channel.get_or_try_init(|| Channel::open(&self.target, self.timeout)).await;
        let mut channel = opened.map_err(|_| "not connected")?.clone();
        poll_fn(|context| channel.poll_ready(context)).await.map_err(|_| "closed")?;
        let attributes = [("country".to_owned(), "uy".to_owned())].into();
        let user = FlagUser { key: user.to_owned(), attributes, ..FlagUser::default() };
        let message = frame(&WatchRequest { user: Some(user) });
        let response = channel.begin(&self.head, message).map_err(|_| "closed")?;
        let opened = tokio::time::timeout(self.timeout, Messages::of(response)).await;
        let mut messages = opened.map_err(|_| "no answer in time")?.map_err(|_| "refused")?;
        let mut ready = Some(ready);
        while let Some(message) = messages.next().await.map_err(|_| "closed")? {
            let at = Instant::now();
            let update: WatchResponse = decode(&message).map_err(|_| "another answer")?;
            // The first message has all flags.
            if ready.take().is_some() {
                continue;
            }
            let flag = update.flags.into_iter().find(|it| it.key == FLAG);
            if let Some(flag) = flag {
                changed(flag.value == Some(Value::Boolean(true)), at);
            }
        }
        Err("closed")
    }
}
