//! A receiver of webhooks that answers as a test wants it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// How a receiver answers.
#[derive(Clone, Debug)]
pub enum Answers {
    /// With this status and body, and these further lines of the head.
    Status(u16, &'static str, &'static str),
    /// Not at all; the connection stays open.
    Never,
    /// With a status of 200, and a body that never ends.
    Endlessly,
    /// With half a status line.
    Cut,
    /// With a status of 500, and half a body.
    CutBody,
    /// With this status, and the request's head and this text as the body.
    Echo(u16, &'static str),
}

/// A request that was posted to the receiver.
#[derive(Clone, Debug)]
pub struct Received {
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Received {
    pub fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("it is JSON")
    }
}

/// Changes a delivery before it is stored and answered.
type Change = dyn Fn(&mut Received) + Send + Sync;

pub struct Receiver {
    pub url: String,
    answers: Arc<Mutex<Answers>>,
    received: Arc<Mutex<Vec<Received>>>,
}

/// How many ids [`Receiver::renaming`] has given.
static RENAMED: AtomicUsize = AtomicUsize::new(0);

impl Receiver {
    pub fn start() -> Self {
        Self::changing(|_| {})
    }

    /// One behind a planted bug: on the way to it, everything gets an id of its own.
    pub fn renaming() -> Self {
        Self::changing(|it| {
            let id = format!("evt_{:020x}", RENAMED.fetch_add(1, Ordering::Relaxed));
            it.headers.insert("webhook-id".to_owned(), id);
        })
    }

    /// One that does this with each delivery before it answers.
    pub fn doing(act: impl Fn(&Received) + Send + Sync + 'static) -> Self {
        Self::changing(move |it| act(it))
    }

    fn changing(change: impl Fn(&mut Received) + Send + Sync + 'static) -> Self {
        let change: Arc<Change> = Arc::new(change);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/in?a=b", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new(Answers::Status(200, "", "")));
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let (how, into) = (Arc::clone(&answers), Arc::clone(&received));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (how, into) = (Arc::clone(&how), Arc::clone(&into));
                let change = Arc::clone(&change);
                std::thread::spawn(move || serve(stream.unwrap(), &how, (&into, &*change)));
            }
        });
        Self { url, answers, received }
    }

    pub fn answer(&self, answers: Answers) {
        *self.answers.lock().unwrap() = answers;
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The ids of what was posted of this type, in order.
    pub fn ids(&self, event_type: &str) -> Vec<String> {
        let received = self.received();
        let of_type = received.iter().filter(|it| it.json()["type"] == event_type);
        of_type.map(|it| it.id().to_owned()).collect()
    }
}

/// Serves a connection until either side closes it.
fn serve(
    mut stream: TcpStream,
    how: &Mutex<Answers>,
    (into, change): (&Mutex<Vec<Received>>, &Change),
) {
    while let Some(mut request) = read(&mut stream) {
        change(&mut request);
        let sent: String =
            request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        into.lock().unwrap().push(request);
        let answers = how.lock().unwrap().clone();
        match answers {
            Answers::Status(status, head, body) => {
                if !write(&mut stream, status, (head, body)) {
                    return;
                }
            }
            Answers::Echo(status, text) => {
                if !write(&mut stream, status, ("", &format!("{text}\n{sent}"))) {
                    return;
                }
            }
            Answers::CutBody => {
                let half = "HTTP/1.1 500 Status\r\nContent-Length: 100\r\n\r\nhalf a body";
                drop(stream.write_all(half.as_bytes()));
                return;
            }
            Answers::Never => {
                let mut rest = [0; 1];
                drop(stream.read(&mut rest));
                return;
            }
            Answers::Endlessly => {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                let mut sent = stream.write_all(head.as_bytes());
                while sent.is_ok() {
                    sent = stream.write_all(b"4\r\nmore\r\n");
                }
                return;
            }
            Answers::Cut => {
                drop(stream.write_all(b"HTTP/1.1 20"));
                return;
            }
        }
    }
}

/// Whether the connection goes on.
fn write(stream: &mut TcpStream, status: u16, (head, body): (&str, &str)) -> bool {
    let length = body.len();
    let text = format!("HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n{head}\r\n{body}");
    stream.write_all(text.as_bytes()).is_ok()
}

fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut head = vec![];
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers: BTreeMap<String, String> =
        lines.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some(Received { headers, body: String::from_utf8(body).ok()? })
}
