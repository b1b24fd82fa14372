//! The gRPC API: limits, health and reflection.

use std::time::Duration;

use bytes::Bytes;
use grpc::api::{PayRequest, PayResponse, Property};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt as _;

use super::{Caller, EXTERNAL, SIMULATOR, soon, start, ten};
use crate::process::{Launch, Server, TempDir, run};
use crate::tls::private_key;

const CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/cert.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/key.pem");

fn property(key: &str, value: &str) -> Property {
    Property { key: key.to_owned(), value: value.to_owned() }
}

#[tokio::test]
async fn deadline_ends_the_call_and_not_the_payment() {
    let server = start();
    let caller = Caller::of(&server);
    let account = caller.account(SIMULATOR).await;
    let properties = vec![property("delayMs", "500")];
    let slow = PayRequest { properties, payment_key: "slow".to_owned(), ..ten(&account) };
    let url = server.grpc_url.clone().unwrap();
    let code =
        pay_over_http2(&url, caller.clone().with("grpc-timeout", "100m").request(slow)).await;
    assert_eq!(code, Code::DeadlineExceeded);
    let (_, debit, credit, _) = soon(async {
        loop {
            if let Some(line) = caller.balance(&account).await.unwrap().pop() {
                break line;
            }
        }
    })
    .await;
    assert_eq!((debit, credit), (0, 1000));
    let nonsense = caller.with("grpc-timeout", "soon").request(ten(&account));
    assert_eq!(pay_over_http2(&url, nonsense).await, Code::InvalidArgument);
}

/// The code of a payment sent over a bare HTTP/2 connection: tonic's client would give up at the
/// deadline before the server answers.
async fn pay_over_http2(url: &str, request: Request<PayRequest>) -> Code {
    let address = url.strip_prefix("http://").unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let (metadata, _, message) = request.into_parts();
    let length = u32::try_from(message.encoded_len()).unwrap();
    let mut body = [&[0], &length.to_be_bytes()[..]].concat();
    body.extend(message.encode_to_vec());
    let uri = format!("{url}/faregate.v1.PaymentService/Pay");
    let mut request = http::Request::post(uri).body(Full::new(Bytes::from(body))).unwrap();
    *request.headers_mut() = metadata.into_headers();
    request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    Code::from_bytes(answer.headers()["grpc-status"].as_bytes())
}

#[tokio::test]
async fn call_above_the_limit_is_refused_at_once() {
    let launch = Launch::usual().grpc().env("FAREGATE_GRPC_CALLS_MAX", "1");
    let server = Server::start_with(launch);
    server.tenant();
    let caller = Caller::of(&server);
    let account = caller.account(SIMULATOR).await;
    let slow = PayRequest { properties: vec![property("delayMs", "500000")], ..ten(&account) };
    let busy = {
        let caller = caller.clone();
        let refused = |status: &tonic::Status| status.code() == Code::ResourceExhausted;
        // A balance below may be in its place when it comes.
        tokio::spawn(async move {
            while caller.pay(slow.clone()).await.is_err_and(|status| refused(&status)) {}
        })
    };
    let refusal = soon(async {
        loop {
            if let Err(status) = caller.balance(&account).await {
                break status;
            }
        }
    })
    .await;
    assert_eq!(refusal.code(), Code::ResourceExhausted);
    let details = refusal.get_error_details();
    assert!(details.retry_info().and_then(|it| it.retry_delay) > Some(Duration::ZERO));
    // Giving up makes room: cancellation is honoured.
    busy.abort();
    soon(async { while caller.balance(&account).await.is_err() {} }).await;
}

#[tokio::test]
async fn large_and_malformed_messages_are_refused() {
    let server = start();
    let caller = Caller::of(&server);
    let account = caller.account(EXTERNAL).await;
    let properties = vec![property("a", &"v".repeat(2 * 1024 * 1024))];
    let large = caller.pay(PayRequest { properties, ..ten(&account) }).await.unwrap_err();
    assert!(matches!(large.code(), Code::OutOfRange | Code::ResourceExhausted), "{large:?}");

    let mut client = tonic::client::Grpc::new(caller.channel.clone());
    for garbage in [&[0xff_u8, 0xff, 0xff, 0xff][..], &[0x0a, 0x7f, 0x41], &[0x0a, 0x01, 0xff]] {
        client.ready().await.unwrap();
        let path = "/faregate.v1.PaymentService/Pay".parse().unwrap();
        let request: Request<Vec<u8>> = caller.request(garbage.to_vec());
        let answer = client.unary(request, path, raw::Codec).await;
        let status = answer.map(|_: tonic::Response<PayResponse>| ()).unwrap_err();
        let refused = matches!(status.code(), Code::Internal | Code::InvalidArgument);
        assert!(refused, "{garbage:?}: {status:?}");
    }
    // The connection has survived it all.
    caller.pay(ten(&account)).await.unwrap();
    client.ready().await.unwrap();
    let path = "/faregate.v1.PaymentService/Steal".parse().unwrap();
    let answer = client.unary(caller.request(vec![]), path, raw::Codec).await;
    let status = answer.map(|_: tonic::Response<PayResponse>| ()).unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

/// Bytes as they are, where a message should be.
mod raw {
    use prost::Message;
    use prost::bytes::BufMut;
    use tonic::Status;
    use tonic::codec::{DecodeBuf, Decoder, EncodeBuf, Encoder};

    pub struct Codec;

    impl tonic::codec::Codec for Codec {
        type Encode = Vec<u8>;
        type Decode = grpc::api::PayResponse;
        type Encoder = Self;
        type Decoder = Self;

        fn encoder(&mut self) -> Self {
            Self
        }

        fn decoder(&mut self) -> Self {
            Self
        }
    }

    impl Encoder for Codec {
        type Item = Vec<u8>;
        type Error = Status;

        fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
            into.put_slice(&item);
            Ok(())
        }
    }

    impl Decoder for Codec {
        type Item = grpc::api::PayResponse;
        type Error = Status;

        fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
            let decoded = grpc::api::PayResponse::decode(from);
            decoded.map(Some).map_err(|error| Status::internal(error.to_string()))
        }
    }
}

#[tokio::test]
async fn health_and_reflection_need_no_credentials() {
    let server = start();
    let channel = Caller::of(&server).channel;
    let mut health = HealthClient::new(channel.clone());
    for service in ["", "faregate.v1.PaymentService", "faregate.v1.BalanceService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let request = HealthCheckRequest { service: "nobody".to_owned() };
    assert_eq!(health.check(request).await.unwrap_err().code(), Code::NotFound);

    let mut reflection = ServerReflectionClient::new(channel);
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let ask = ServerReflectionRequest { host: String::new(), message_request };
    let stream = futures_util::stream::iter([ask]);
    let mut answers = reflection.server_reflection_info(stream).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let mut names: Vec<_> = listed.service.into_iter().map(|it| it.name).collect();
    names.sort();
    let expected = [
        "faregate.v1.AccountService",
        "faregate.v1.BalanceService",
        "faregate.v1.EntitlementService",
        "faregate.v1.FlagService",
        "faregate.v1.PaymentService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn streams_without_credentials_are_few() {
    let server = start();
    let request = HealthCheckRequest::default;
    let mut held = vec![];
    // Four on a connection, 64 on all of them.
    for _ in 0..16 {
        let health = HealthClient::new(Caller::of(&server).channel);
        for _ in 0..4 {
            held.push(health.clone().watch(request()).await.unwrap().into_inner());
        }
        let fifth = health.clone().watch(request()).await.unwrap_err();
        assert_eq!(fifth.code(), Code::ResourceExhausted);
        let checked = health.clone().check(request()).await.unwrap().into_inner();
        assert_eq!(checked.status(), ServingStatus::Serving, "checks are free");
    }
    let caller = Caller::of(&server);
    let health = HealthClient::new(caller.channel.clone());
    assert_eq!(health.clone().watch(request()).await.unwrap_err().code(), Code::ResourceExhausted);
    let ask = || futures_util::stream::pending::<ServerReflectionRequest>();
    let mut reflection = ServerReflectionClient::new(caller.channel.clone());
    let refused = reflection.server_reflection_info(ask()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    // Customers are served meanwhile, and a stream that ends makes room.
    let account = caller.account(EXTERNAL).await;
    caller.pay(ten(&account)).await.unwrap();
    drop(held.pop());
    soon(async { while health.clone().watch(request()).await.is_err() {} }).await;
}

#[tokio::test]
async fn reflection_can_be_off() {
    let server =
        Server::start_with(Launch::usual().grpc().env("FAREGATE_GRPC_REFLECTION", "false"));
    let mut reflection = ServerReflectionClient::new(Caller::of(&server).channel);
    let ask = futures_util::stream::pending::<ServerReflectionRequest>();
    let refused = reflection.server_reflection_info(ask).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}

#[tokio::test]
async fn stopping_server_finishes_calls_in_progress() {
    let server = start();
    let caller = Caller::of(&server);
    let account = caller.account(SIMULATOR).await;
    let slow = PayRequest {
        properties: vec![property("delayMs", "1000")],
        payment_key: "slow".to_owned(),
        ..ten(&account)
    };
    // A watcher of health does not delay the stop.
    let request = HealthCheckRequest::default();
    let mut watched = HealthClient::new(caller.channel.clone()).watch(request).await.unwrap();
    let reply = watched.get_mut().message().await.unwrap().unwrap();
    assert_eq!(reply.status(), ServingStatus::Serving);
    let paying = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.pay(slow).await })
    };
    let by_key = || {
        let payment_key = "slow".to_owned();
        caller.request(grpc::api::PaymentServiceGetByKeyRequest { payment_key })
    };
    soon(async { while caller.payments().get_by_key(by_key()).await.is_err() {} }).await;
    let stopped = tokio::task::spawn_blocking(move || server.stop());
    let paid = paying.await.unwrap().unwrap();
    assert_eq!(paid.status(), grpc::api::TransactionStatus::Success);
    let reply = watched.get_mut().message().await.unwrap().unwrap();
    assert_eq!(reply.status(), ServingStatus::NotServing);
    let (status, said) = stopped.await.unwrap();
    assert!(status.success(), "{said}");
}

#[tokio::test]
async fn client_without_trusted_certificate_is_refused() {
    let dir = TempDir::new();
    let launch = Launch::usual()
        .grpc()
        .env("FAREGATE_TLS_CERT", CERT)
        .env("FAREGATE_TLS_KEY", &private_key(&dir, 0o400))
        .env("FAREGATE_GRPC_CLIENT_CA", CERT);
    let server = Server::start_with(launch);
    let url = server.grpc_url.clone().unwrap();
    assert!(url.starts_with("https://"), "{url}");
    let [cert, key] = [CERT, KEY].map(|path| std::fs::read(path).unwrap());
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&cert))
        .domain_name("localhost");
    let check = async |tls: ClientTlsConfig| {
        let endpoint = Channel::from_shared(url.clone()).unwrap().tls_config(tls).unwrap();
        let channel = endpoint.connect().await.map_err(|error| error.to_string())?;
        let request = HealthCheckRequest::default();
        let answer = HealthClient::new(channel).check(request).await;
        answer.map(|it| it.into_inner().status()).map_err(|status| status.to_string())
    };
    assert!(check(tls.clone()).await.is_err());
    let known = tls.identity(Identity::from_pem(cert, key));
    assert_eq!(check(known).await, Ok(ServingStatus::Serving));
}

#[test]
fn invalid_settings_are_named() {
    let check = |arguments: &[&str], environment: &[(&str, &str)], expected: &str| {
        let mut command = crate::process::faregate(&["config"]);
        let output = command.args(arguments).envs(environment.iter().copied()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    };
    check(&["--grpc-listen", "here"], &[], "`grpc.listen`");
    check(&[], &[("FAREGATE_GRPC_CLIENT_CA", "ca.pem")], "`grpc.client_ca`");
    check(&[], &[("FAREGATE_GRPC_CALLS_MAX", "0")], "`grpc.calls_max`");
    let executing = [("FAREGATE_GRPC_EXECUTING_CALLS_MAX", "0")];
    check(&[], &executing, "`grpc.executing_calls_max`");
    assert!(run(&["config"]).status.success());
}
