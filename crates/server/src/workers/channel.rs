//! The channel between a server and its worker: two unnamed sockets, which the worker finds as its
//! standard input and output.
//!
//! The server's messages are JSON, each after its length. The worker's are packets: connections as file
//! descriptors, counts of streams, insights.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use domain::TenantNo;
use evaluation::{Flag, Segment};
use feature_flags::account_lookup::Found;
use feature_flags::accounts::{Account, UserKey};
use feature_flags::entitled_keys::KeyUpdate;
use feature_flags::{EnvironmentContents, Insights};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{UnixDatagram, UnixStream};
use uuid::Uuid;

use config::Config;

/// A message of the server.
#[derive(Debug, Serialize, Deserialize)]
pub enum ServerMessage {
    /// The first message: the configuration.
    Config(Box<Config>),
    /// Environments, in place of those sent before. Their secrets are in plain text: no other process
    /// can open the socket.
    Environments(Vec<EnvironmentContents>),
    /// Flags and segments that were created or changed.
    Changed { id: Uuid, flags: Vec<Flag>, segments: Vec<Segment> },
    /// All environments of the start have been sent.
    CaughtUp,
    /// From now on the changes of what accounts are entitled to are sent.
    FollowsAccounts,
    /// The current entitlements of accounts for which they have changed.
    Accounts(Vec<Account>),
    /// Accounts used something of their limits.
    Used(Vec<Uuid>),
    /// The accounts of the users that the worker wanted.
    Found(Found),
    /// They could not be looked up.
    NotFound(Vec<UserKey>),
    /// Users who are entitled to features that the worker asked for.
    Keys(KeyUpdate),
    /// The stop: accept no more connections, and close streams over this time.
    Stop(Duration),
}

/// A message of the worker.
pub enum WorkerMessage {
    /// The worker listens.
    Ready,
    /// The number of open streams.
    Streams(usize),
    /// Counts of evaluations and metrics.
    Insights(Insights),
    /// Users to look up. The next ones are sent once there is an answer.
    LookUp(Vec<UserKey>),
    /// Features of a tenant whose users server SDKs are to get.
    RequestKeys(TenantNo, Vec<Box<str>>),
    /// A connection that is not for feature flags.
    Connection(TcpStream),
}

/// The longest packet.
const PACKET_BYTES_MAX: usize = 32 * 1_024;

/// The first byte of a packet, by kind.
const READY: u8 = b'r';
const STREAMS: u8 = b's';
const HANDED: u8 = b'h';
const INSIGHTS: u8 = b'i';
const LOOK_UP: u8 = b'w';
const REQUEST_KEYS: u8 = b'k';

/// The server's ends, and the worker's.
pub struct Pair {
    pub to_worker: UnixStream,
    pub from_worker: WorkerSocket,
    pub worker_input: OwnedFd,
    pub worker_output: OwnedFd,
}

impl Pair {
    /// Creates both sockets.
    pub fn new() -> io::Result<Self> {
        let (to_worker, worker_input) = std::os::unix::net::UnixStream::pair()?;
        to_worker.set_nonblocking(true)?;
        let (from_worker, worker_output) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok(Self {
            to_worker: UnixStream::from_std(to_worker)?,
            from_worker: WorkerSocket::new(from_worker)?,
            worker_input: worker_input.into(),
            worker_output,
        })
    }
}

/// The worker's ends: its standard input and output.
pub fn inherited() -> io::Result<(UnixStream, WorkerSocket)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let input = std::os::unix::net::UnixStream::from(input);
    input.set_nonblocking(true)?;
    Ok((UnixStream::from_std(input)?, WorkerSocket::new(output)?))
}

/// Sends a message to the worker.
pub async fn send(socket: &mut UnixStream, message: &ServerMessage) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    socket.write_all(&length.to_be_bytes()).await?;
    socket.write_all(&text).await
}

/// Receives the server's next message; an error once the server has ended.
pub async fn receive(socket: &mut UnixStream) -> io::Result<ServerMessage> {
    let length = usize::try_from(socket.read_u32().await?).map_err(io::Error::other)?;
    let mut text = vec![0; length];
    socket.read_exact(&mut text).await?;
    Ok(serde_json::from_slice(&text)?)
}

/// The socket of worker messages: packets in order, with an end (`SOCK_SEQPACKET`).
pub struct WorkerSocket(UnixDatagram);

impl WorkerSocket {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UnixDatagram::from_std(socket)?))
    }

    /// Sends a message to the server.
    pub async fn send(&self, sent: &WorkerMessage) -> io::Result<()> {
        let text = match sent {
            WorkerMessage::Ready => vec![READY],
            WorkerMessage::Streams(count) => format!("{}{count}", char::from(STREAMS)).into_bytes(),
            WorkerMessage::Insights(insights) => packet(INSIGHTS, insights)?,
            WorkerMessage::LookUp(users) => packet(LOOK_UP, users)?,
            WorkerMessage::RequestKeys(tenant, features) => {
                packet(REQUEST_KEYS, &(tenant, features))?
            }
            WorkerMessage::Connection(_) => vec![HANDED],
        };
        self.0
            .async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut rights = SendAncillaryBuffer::new(&mut space);
                let handed;
                if let WorkerMessage::Connection(connection) = sent {
                    handed = [connection.as_fd()];
                    rights.push(SendAncillaryMessage::ScmRights(&handed));
                }
                let text = [IoSlice::new(&text)];
                Ok(sendmsg(&self.0, &text, &mut rights, SendFlags::NOSIGNAL)?)
            })
            .await?;
        Ok(())
    }

    /// Receives a worker's next message; `None` once the worker has ended.
    pub async fn receive(&self) -> io::Result<Option<WorkerMessage>> {
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
        let packet = text.get(..length).and_then(<[u8]>::split_first);
        match (packet, handed) {
            (None, _) => Ok(None),
            (Some((&READY, _)), None) => Ok(Some(WorkerMessage::Ready)),
            (Some((&STREAMS, count)), None) => {
                let count = std::str::from_utf8(count).ok().and_then(|it| it.parse().ok());
                let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed packet");
                Ok(Some(WorkerMessage::Streams(count.ok_or_else(malformed)?)))
            }
            (Some((&INSIGHTS, insights)), None) => {
                Ok(Some(WorkerMessage::Insights(serde_json::from_slice(insights)?)))
            }
            (Some((&LOOK_UP, users)), None) => {
                Ok(Some(WorkerMessage::LookUp(serde_json::from_slice(users)?)))
            }
            (Some((&REQUEST_KEYS, request)), None) => {
                let (tenant, features) = serde_json::from_slice(request)?;
                Ok(Some(WorkerMessage::RequestKeys(tenant, features)))
            }
            (Some((&HANDED, _)), Some(connection)) => {
                Ok(Some(WorkerMessage::Connection(TcpStream::from(connection))))
            }
            (Some(_), _) => Err(io::Error::new(io::ErrorKind::InvalidData, "malformed packet")),
        }
    }
}

/// A packet of JSON.
fn packet(kind: u8, content: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = vec![kind];
    serde_json::to_writer(&mut text, content)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use feature_flags::{Secret, SecretKind};

    use super::*;

    #[tokio::test]
    async fn connections_are_passed_with_their_unread_bytes() {
        let Pair { from_worker, worker_output, .. } = Pair::new().unwrap();
        let worker = WorkerSocket::new(worker_output).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"before").unwrap();
        let (connection, _) = listener.accept().unwrap();
        worker.send(&WorkerMessage::Ready).await.unwrap();
        worker.send(&WorkerMessage::Streams(18_000)).await.unwrap();
        worker.send(&WorkerMessage::Connection(connection)).await.unwrap();
        assert!(matches!(from_worker.receive().await.unwrap(), Some(WorkerMessage::Ready)));
        assert!(matches!(
            from_worker.receive().await.unwrap(),
            Some(WorkerMessage::Streams(18_000))
        ));
        let Some(WorkerMessage::Connection(mut connection)) = from_worker.receive().await.unwrap()
        else {
            panic!("no connection")
        };
        let mut read = [0; 6];
        connection.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"before");
        drop(worker);
        assert!(from_worker.receive().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn messages_arrive_as_they_were_sent() {
        let Pair { mut to_worker, worker_input, .. } = Pair::new().unwrap();
        let input = std::os::unix::net::UnixStream::from(worker_input);
        input.set_nonblocking(true).unwrap();
        let mut input = UnixStream::from_std(input).unwrap();
        let (kind, value) = (SecretKind::Server, "hush".to_owned());
        let secret = Secret { kind, value, expires_at_ms: None };
        let environment = EnvironmentContents {
            id: Uuid::nil(),
            tenant: TenantNo(1),
            key: "dev".into(),
            project_key: "default".into(),
            secrets: vec![secret],
            flags: vec![Flag { key: "a".into(), ..Flag::default() }],
            segments: vec![],
        };
        assert!(!format!("{environment:?}").contains("hush"));
        send(&mut to_worker, &ServerMessage::Environments(vec![environment])).await.unwrap();
        send(&mut to_worker, &ServerMessage::CaughtUp).await.unwrap();
        let ServerMessage::Environments(received) = receive(&mut input).await.unwrap() else {
            panic!("other")
        };
        assert_eq!(
            (received[0].secrets[0].value.as_str(), received[0].flags[0].key.as_str()),
            ("hush", "a")
        );
        assert!(matches!(receive(&mut input).await.unwrap(), ServerMessage::CaughtUp));
        drop(to_worker);
        receive(&mut input).await.unwrap_err();
    }
}
