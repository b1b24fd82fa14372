//! A bare echo on loopback: the upper bound of any server's throughput.

use std::collections::VecDeque;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{Args, Clock, ECHO_SHARE, Tally};

/// The most that one read takes.
const READ_BYTES: usize = 64 * 1024;

/// Measures the echo of frames of `frame_bytes`, with as many in flight as requests.
///
/// # Errors
/// If there is no thread or port left, or the echo fails.
pub async fn measure(args: &Args, frame_bytes: usize) -> anyhow::Result<Tally> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let server = std::thread::spawn(move || echo(listener));
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let span = args.duration.mul_f64(ECHO_SHARE / 2.0);
    let in_flight = usize::from(args.in_flight);
    let frames = vec![0x30; frame_bytes * in_flight];
    let mut buffer = vec![0; READ_BYTES];
    let (mut tally, clock) = (Tally::default(), Clock::start(None)?);
    let (mut free, mut rest, mut now) = (in_flight, 0, clock.started);
    let mut sent = VecDeque::with_capacity(in_flight);
    loop {
        if now.duration_since(clock.started) >= span {
            free = 0;
            if sent.is_empty() {
                break;
            }
        }
        stream.write_all(&frames[..free * frame_bytes]).await?;
        sent.extend((0..free).map(|_| now));
        let read = stream.read(&mut buffer).await?;
        anyhow::ensure!(read > 0, "the echo has ended");
        now = Instant::now();
        free = (rest + read) / frame_bytes;
        rest = (rest + read) % frame_bytes;
        tally.answers += free as u64;
        for sent in sent.drain(..free) {
            tally.latencies.record(now.duration_since(sent));
        }
    }
    clock.stop(&mut tally)?;
    drop(stream);
    drop(server.join());
    Ok(tally)
}

/// Sends received bytes back until the peer closes the connection.
fn echo(listener: std::net::TcpListener) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (mut stream, _) = TcpListener::from_std(listener)?.accept().await?;
        stream.set_nodelay(true)?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            stream.write_all(&buffer[..read]).await?;
        }
    })
}
