//! `faregate bench http-gateway`: a payment gateway over HTTP that takes every charge, for benchmarks of
//! [`Gateway::Http`](super::flow::Gateway).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use secrets::webhook::{self, Secret};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

use super::parse_span;

/// The largest message that is read.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Options of `faregate bench http-gateway`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The address to listen on.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9100")]
    listen: SocketAddr,
    /// The secret of the server's `gateway.http.bench.secret`.
    #[arg(long, value_name = "SECRET", value_parser = Secret::parse)]
    secret: Secret,
    /// How long to take for an answer.
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = parse_span)]
    delay: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    transaction_id: Uuid,
}

/// Serves until a signal stops it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(serve(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("--listen {}", args.listen))?;
    eprintln!("charging on http://{}", listener.local_addr()?);
    let (secret, delay) = (Arc::new(args.secret.clone()), args.delay);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // The peer closed the connection before it was accepted.
                let Ok((stream, _)) = accepted else { continue };
                // An error costs only latency.
                drop(stream.set_nodelay(true));
                let secret = Arc::clone(&secret);
                let service = service_fn(move |request| {
                    let secret = Arc::clone(&secret);
                    async move { Ok::<_, Infallible>(answer(request, &secret, delay).await) }
                });
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                // The sender reports broken connections.
                tokio::spawn(async move { serving.await.ok() });
            }
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    secret: &Secret,
    delay: Duration,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let refused = |status| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        response
    };
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return refused(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let (body, id) = (body.to_bytes(), text(&head.headers, webhook::ID));
    let signed = webhook::Headers {
        id,
        timestamp: text(&head.headers, webhook::TIMESTAMP),
        signature: text(&head.headers, webhook::SIGNATURE),
    };
    if secret.verify(signed, &body, now_s()).is_err() {
        return refused(StatusCode::UNAUTHORIZED);
    }
    let Ok(Message { transaction_id }) = serde_json::from_slice(&body) else {
        return refused(StatusCode::BAD_REQUEST);
    };
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let charged = format!(r#"{{"transactionId":"{transaction_id}","status":"PROCESSED"}}"#);
    let answer = match head.uri.path().ends_with("/charge") {
        true => charged,
        false => format!(r#"{{"transactionId":"{transaction_id}","outcome":{charged}}}"#),
    };
    let now = now_s().to_string();
    Response::builder()
        .header(webhook::ID, id)
        .header(webhook::TIMESTAMP, &now)
        .header(webhook::SIGNATURE, secret.sign(id, &now, answer.as_bytes()))
        .body(Full::new(answer.into()))
        .expect("the id came in a header")
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default()
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
