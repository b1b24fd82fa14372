//! Measures what a record's signature costs, without a broker: `cargo run --release -p kafka --example
//! signature_cost`. Per size of the value: signing it with its header made, and verifying it with its
//! headers read, in microseconds per record; the median of rounds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use kafka::signature::{Content, SIGNATURE, Signature};
use kafka::{ClusterKeys, Role};
use rdkafka::message::{Header, Headers as _, OwnedHeaders};
use secrets::{KEY_BYTES, RootKey};

const ROUNDS: usize = 21;
const RECORDS: u32 = 5_000;

fn main() {
    let keys = ClusterKeys::new(&RootKey::new([7; KEY_BYTES]), None);
    // A balance query, a purchase, and a large request.
    for bytes in [100, 600, 16 * 1024] {
        let value = vec![b'x'; bytes];
        let content = Content {
            topic: "faregate.payment",
            partition: 3,
            key: Some(b"2/0192aabb-ccdd-7000-8000-000000000001"),
            headers: &[],
            value: Some(&value),
        };
        let signature = keys.sign(Role::Front, 0, &content);
        let signing = median(|| {
            let signature = keys.sign(Role::Front, 0, black_box(&content));
            black_box(header(&signature));
        });
        let headers = header(&signature);
        let verifying = median(|| {
            let read = headers.get(0).value;
            assert!(keys.verify(black_box(read), black_box(&content)).is_ok());
        });
        let us = |it: Duration| it.as_secs_f64() * 1e6;
        println!("{bytes:>6} bytes: sign {:.2} us, verify {:.2} us", us(signing), us(verifying));
    }
}

fn header(signature: &Signature) -> OwnedHeaders {
    let header = Header { key: SIGNATURE, value: Some(signature.as_slice()) };
    OwnedHeaders::new_with_capacity(1).insert(header)
}

/// The median of rounds, for one record.
fn median(mut one: impl FnMut()) -> Duration {
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            (0..RECORDS).for_each(|_| one());
            started.elapsed() / RECORDS
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}
