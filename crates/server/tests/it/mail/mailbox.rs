//! An SMTP server that treats each mail as its test decides.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex as Gate, OwnedMutexGuard};

use super::{PATIENCE, readable};

/// The server's reaction to a recipient or a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// The mail is accepted.
    Takes,
    /// The recipient is refused temporarily (451).
    Postpones,
    /// The recipient is refused permanently (550).
    Refuses,
    /// The mail is accepted without a reply.
    Swallows,
}

type Decide = dyn Fn(&str) -> Manner + Send + Sync;

#[derive(Default)]
struct Heard {
    /// Recipients of all attempts.
    asked: Vec<String>,
    /// Accepted mails, also those without a reply.
    mails: Vec<String>,
}

pub(super) struct Mailbox {
    port: u16,
    decide: Arc<Mutex<Arc<Decide>>>,
    heard: Arc<Mutex<Heard>>,
    gate: Arc<Gate<()>>,
}

impl Mailbox {
    pub(super) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let decide: Arc<Mutex<Arc<Decide>>> = Arc::new(Mutex::new(Arc::new(move |_| manner)));
        let heard = Arc::<Mutex<Heard>>::default();
        let gate = Arc::<Gate<()>>::default();
        let shared = (Arc::clone(&decide), Arc::clone(&heard), Arc::clone(&gate));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (decide, heard, gate) = shared.clone();
                // A client that hangs up ends its conversation and nothing else.
                tokio::spawn(async move { drop(serve(stream, &decide, &heard, &gate).await) });
            }
        });
        Self { port, decide, heard, gate }
    }

    /// Until what is given back is dropped, it takes mails and says nothing.
    pub(super) fn holds(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.gate).try_lock_owned().unwrap()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// From now on it does so.
    pub(super) fn becomes(&self, decide: impl Fn(&str) -> Manner + Send + Sync + 'static) {
        *self.decide.lock().unwrap() = Arc::new(decide);
    }

    /// How often mails were offered.
    pub(super) fn asked(&self) -> usize {
        self.heard.lock().unwrap().asked.len()
    }

    /// The mails that were taken.
    pub(super) fn mails(&self) -> Vec<String> {
        self.heard.lock().unwrap().mails.clone()
    }

    /// Waits until so many were taken.
    pub(super) async fn has(&self, mails: usize) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        while self.mails().len() < mails {
            assert!(Instant::now() < until, "{mails} mails never came");
            tokio::task::yield_now().await;
        }
        self.mails()
    }
}

async fn serve(
    stream: TcpStream,
    decide: &Mutex<Arc<Decide>>,
    heard: &Mutex<Heard>,
    gate: &Gate<()>,
) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    write.write_all(b"220 mailbox\r\n").await?;
    let mut manner = Manner::Takes;
    while let Some(line) = lines.next_line().await? {
        let answer = if let Some(to) = line.strip_prefix("RCPT TO:") {
            let to = to.trim_matches(['<', '>']).to_owned();
            let decides = Arc::clone(&decide.lock().unwrap());
            manner = decides(&to);
            heard.lock().unwrap().asked.push(to.clone());
            match manner {
                Manner::Takes | Manner::Swallows => "250 fine".to_owned(),
                Manner::Postpones => format!("451 <{to}> is not ready"),
                Manner::Refuses => format!("550 <{to}> is not here"),
            }
        } else if line == "DATA" {
            write.write_all(b"354 go on\r\n").await?;
            let mut mail = String::new();
            while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                mail += &line;
                mail += "\r\n";
            }
            heard.lock().unwrap().mails.push(readable(&mail));
            drop(gate.lock().await);
            if manner == Manner::Swallows {
                // Nothing is said until the other side has enough.
                drop(lines.next_line().await?);
                return Ok(());
            }
            "250 taken".to_owned()
        } else {
            "250 fine".to_owned()
        };
        write.write_all(format!("{answer}\r\n").as_bytes()).await?;
    }
    Ok(())
}
