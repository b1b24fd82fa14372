//! What a server and its worker say to each other: two sockets without a name, which the worker finds
//! in place of its standard input and output.
//!
//! The server's words are JSON, each behind its length. The worker's are packets: connections as file
//! descriptors, and how many streams it holds.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use ::flags::Insights;
use evaluation::{Flag, Segment};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{UnixDatagram, UnixStream};
use uuid::Uuid;

use crate::config::Config;

/// What the server tells.
#[derive(Debug, Serialize, Deserialize)]
pub enum Told {
    /// First of all: how to serve.
    Config(Box<Config>),
    /// Environments, in place of what was told of them.
    Environments(Vec<Environment>),
    /// Flags and segments that were made or changed.
    Changed { id: Uuid, flags: Vec<Flag>, segments: Vec<Segment> },
    /// All that there was at the start has been told.
    CaughtUp,
    /// The end: no more connections, and streams are told to go over this time.
    Stop(Duration),
}

/// All of an environment.
#[derive(Debug, Serialize, Deserialize)]
pub struct Environment {
    pub id: Uuid,
    pub key: String,
    pub project_key: String,
    pub secrets: Vec<Secret>,
    pub flags: Vec<Flag>,
    pub segments: Vec<Segment>,
}

/// A secret, in clear: the pipe has no name, and nobody else's end of it is open.
#[derive(Serialize, Deserialize)]
pub struct Secret {
    pub kind: String,
    pub value: String,
    pub expires_at_ms: Option<i64>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What the worker says.
pub enum Said {
    /// It listens.
    Ready,
    /// So many streams are open.
    Streams(usize),
    /// What programs told of flags.
    Insights(Insights),
    /// This connection is not of feature flags.
    Handed(TcpStream),
}

/// The longest packet.
const PACKET_BYTES_MAX: usize = 32 * 1_024;

/// What a packet begins with.
const READY: u8 = b'r';
const STREAMS: u8 = b's';
const HANDED: u8 = b'h';
const INSIGHTS: u8 = b'i';

/// The server's ends, and the worker's.
pub struct Pair {
    pub telling: UnixStream,
    pub hearing: Packets,
    pub worker_input: OwnedFd,
    pub worker_output: OwnedFd,
}

impl Pair {
    /// Makes both sockets.
    pub fn new() -> io::Result<Self> {
        let (telling, worker_input) = std::os::unix::net::UnixStream::pair()?;
        telling.set_nonblocking(true)?;
        let (hearing, worker_output) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok(Self {
            telling: UnixStream::from_std(telling)?,
            hearing: Packets::new(hearing)?,
            worker_input: worker_input.into(),
            worker_output,
        })
    }
}

/// The worker's ends: its standard input and output.
pub fn inherited() -> io::Result<(UnixStream, Packets)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let input = std::os::unix::net::UnixStream::from(input);
    input.set_nonblocking(true)?;
    Ok((UnixStream::from_std(input)?, Packets::new(output)?))
}

/// Tells the worker something.
pub async fn tell(pipe: &mut UnixStream, told: &Told) -> io::Result<()> {
    let text = serde_json::to_vec(told)?;
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    pipe.write_all(&length.to_be_bytes()).await?;
    pipe.write_all(&text).await
}

/// Hears the server's next words; an error where it has ended.
pub async fn hear(pipe: &mut UnixStream) -> io::Result<Told> {
    let length = usize::try_from(pipe.read_u32().await?).map_err(io::Error::other)?;
    let mut text = vec![0; length];
    pipe.read_exact(&mut text).await?;
    Ok(serde_json::from_slice(&text)?)
}

/// A socket for what workers say: packets in order (`SOCK_SEQPACKET`), and an end.
pub struct Packets(UnixDatagram);

impl Packets {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixDatagram::from_std(socket)?))
    }

    /// Says something to the server.
    pub async fn say(&self, said: &Said) -> io::Result<()> {
        let text = match said {
            Said::Ready => vec![READY],
            Said::Streams(count) => format!("{}{count}", char::from(STREAMS)).into_bytes(),
            Said::Insights(insights) => {
                let mut text = vec![INSIGHTS];
                serde_json::to_writer(&mut text, insights)?;
                text
            }
            Said::Handed(_) => vec![HANDED],
        };
        self.0
            .async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut rights = SendAncillaryBuffer::new(&mut space);
                let handed;
                if let Said::Handed(connection) = said {
                    handed = [connection.as_fd()];
                    rights.push(SendAncillaryMessage::ScmRights(&handed));
                }
                let text = [IoSlice::new(&text)];
                Ok(sendmsg(&self.0, &text, &mut rights, SendFlags::NOSIGNAL)?)
            })
            .await?;
        Ok(())
    }

    /// Hears what a worker says; nothing where it has ended.
    pub async fn hear(&self) -> io::Result<Option<Said>> {
        let mut text = vec![0; PACKET_BYTES_MAX];
        let (length, handed) = self
            .0
            .async_io(Interest::READABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut rights = RecvAncillaryBuffer::new(&mut space);
                let mut into = [IoSliceMut::new(&mut text)];
                let got = recvmsg(&self.0, &mut into, &mut rights, RecvFlags::CMSG_CLOEXEC)?;
                let mut handed = None;
                for message in rights.drain() {
                    if let RecvAncillaryMessage::ScmRights(mut connections) = message {
                        handed = connections.next();
                    }
                }
                Ok((got.bytes, handed))
            })
            .await?;
        let said = text.get(..length).and_then(<[u8]>::split_first);
        match (said, handed) {
            (None, _) => Ok(None),
            (Some((&READY, _)), None) => Ok(Some(Said::Ready)),
            (Some((&STREAMS, count)), None) => {
                let count = std::str::from_utf8(count).ok().and_then(|it| it.parse().ok());
                let unclear = || io::Error::new(io::ErrorKind::InvalidData, "an unclear packet");
                Ok(Some(Said::Streams(count.ok_or_else(unclear)?)))
            }
            (Some((&INSIGHTS, insights)), None) => {
                Ok(Some(Said::Insights(serde_json::from_slice(insights)?)))
            }
            (Some((&HANDED, _)), Some(connection)) => {
                Ok(Some(Said::Handed(TcpStream::from(connection))))
            }
            (Some(_), _) => Err(io::Error::new(io::ErrorKind::InvalidData, "an unclear packet")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[tokio::test]
    async fn connections_go_through_with_what_they_have_not_been_asked() {
        let Pair { hearing, worker_output, .. } = Pair::new().unwrap();
        let worker = Packets::new(worker_output).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"before").unwrap();
        let (connection, _) = listener.accept().unwrap();
        worker.say(&Said::Ready).await.unwrap();
        worker.say(&Said::Streams(18_000)).await.unwrap();
        worker.say(&Said::Handed(connection)).await.unwrap();
        assert!(matches!(hearing.hear().await.unwrap(), Some(Said::Ready)));
        assert!(matches!(hearing.hear().await.unwrap(), Some(Said::Streams(18_000))));
        let Some(Said::Handed(mut connection)) = hearing.hear().await.unwrap() else {
            panic!("not handed over")
        };
        let mut read = [0; 6];
        connection.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"before");
        drop(worker);
        assert!(hearing.hear().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn words_are_heard_as_they_were_told() {
        let Pair { mut telling, worker_input, .. } = Pair::new().unwrap();
        let input = std::os::unix::net::UnixStream::from(worker_input);
        input.set_nonblocking(true).unwrap();
        let mut input = UnixStream::from_std(input).unwrap();
        let secret = Secret { kind: "server".into(), value: "hush".into(), expires_at_ms: None };
        let environment = Environment {
            id: Uuid::nil(),
            key: "dev".into(),
            project_key: "default".into(),
            secrets: vec![secret],
            flags: vec![Flag { key: "a".into(), ..Flag::default() }],
            segments: vec![],
        };
        assert!(!format!("{environment:?}").contains("hush"));
        tell(&mut telling, &Told::Environments(vec![environment])).await.unwrap();
        tell(&mut telling, &Told::CaughtUp).await.unwrap();
        let Told::Environments(heard) = hear(&mut input).await.unwrap() else { panic!("other") };
        assert_eq!(
            (heard[0].secrets[0].value.as_str(), heard[0].flags[0].key.as_str()),
            ("hush", "a")
        );
        assert!(matches!(hear(&mut input).await.unwrap(), Told::CaughtUp));
        drop(telling);
        hear(&mut input).await.unwrap_err();
    }
}
