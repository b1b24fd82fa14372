//! Serves the sample's flags, for measurements: `cargo run --release -p flags --example serve -- 5200`.
//!
//! `POST /toggle` switches a flag, `POST /touch` changes a segment.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use domain::TenantNo;
use evaluation::{Flag, MissingAttribute, Segment, Snapshot};
use feature_flags::{Environment, FlagCache, Secret, SecretKind};
use flags::Settings;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpSocket};
use uuid::Uuid;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ID: Uuid = Uuid::from_u128(0x6a3d_7c0e_54b1_4f0e_9f1c_2b8d_90e1_a701);
const SERVER_SECRET: &str = "Xq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
const CLIENT_SECRET: &str = "Jt7zLr2wSa9KcUe5oBv4MwDjchZ8arFUDk-fHCuNkOGn";
const FLAG: &str = "new-checkout";
const SEGMENT: &str = "5e900000-aaaa-4d00-8000-000000000001";
const BACKLOG: u32 = 4_096;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    feature_flags: Vec<Flag>,
    segments: Vec<Segment>,
}

fn sample() -> Result<Environment, serde_json::Error> {
    let sample: Sample = serde_json::from_str(include_str!("../sample.json"))?;
    let secret = |kind, value: &str| Secret { kind, value: value.to_owned(), expires_at_ms: None };
    Ok(Environment {
        tenant: TenantNo(1),
        id: ID,
        key: "dev".to_owned(),
        project_key: "default".to_owned(),
        secrets: vec![
            secret(SecretKind::Server, SERVER_SECRET),
            secret(SecretKind::Client, CLIENT_SECRET),
        ],
        snapshot: Snapshot::new(MissingAttribute::Empty)
            .with(sample.feature_flags, sample.segments),
    })
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

async fn toggle(State(cache): State<Arc<FlagCache>>) {
    let Some(environment) = cache.environment(ID) else { return };
    let Some(mut flag) = environment.snapshot().flag(FLAG).map(|it| it.flag().clone()) else {
        return;
    };
    flag.is_enabled = !flag.is_enabled;
    flag.updated_at = now();
    cache.apply(ID, vec![flag], vec![]);
}

async fn touch(State(cache): State<Arc<FlagCache>>) {
    let Some(environment) = cache.environment(ID) else { return };
    let segment = environment.snapshot().segment(SEGMENT).map(|it| it.segment().clone());
    let Some(mut segment) = segment else { return };
    segment.updated_at = now();
    cache.apply(ID, vec![], vec![segment]);
}

async fn serve(listener: TcpListener, router: Router) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        drop(stream.set_nodelay(true));
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            let connection = builder
                .half_close(true)
                .max_buf_size(64 * 1_024)
                .serve_connection(TokioIo::new(stream), service);
            // An error means that the client disconnected.
            drop(connection.with_upgrades().await);
        });
    }
}

#[tokio::main(worker_threads = 1)]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned()).parse()?;
    let cache = Arc::new(FlagCache::new());
    cache.upsert([sample()?]);
    cache.set_available(true);
    let operations = Router::new()
        .route("/toggle", post(toggle))
        .route("/touch", post(touch))
        .with_state(Arc::clone(&cache));
    let router = flags::router(cache, Settings::default()).merge(operations);
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], port).into())?;
    let listener = socket.listen(BACKLOG)?;
    println!("pid {} on {}", std::process::id(), listener.local_addr()?);
    println!("server secret {SERVER_SECRET}, client secret {CLIENT_SECRET}");
    // In a task, so that the main thread is not woken for each connection.
    tokio::spawn(serve(listener, router)).await?;
    Ok(())
}
