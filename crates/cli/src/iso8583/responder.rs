//! `faregate iso8583 serve`: approves every request, for tests of other programs.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use command_line::message_format::{Channel, Format};
use config::Config;
use iso8583::connection::Connection;
use iso8583::framing::Header;
use iso8583::framing::codec::{Received, Sent};
use iso8583::message_type::response_to;
use iso8583::{Message, Packager, Problem};
use server::logging;
use server::serve::{self, Signals};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Fields of a request that are never echoed: chip data, and MACs, which are wrong for the response.
const NEVER_ECHOED: [u16; 3] = [55, 64, 128];
/// Echoed even if sensitive: the message type and the card number.
const ALWAYS_ECHOED: [u16; 2] = [0, 2];

/// The code of an approval: the last digits of the system trace audit number.
const APPROVAL_DIGITS: usize = 6;

/// Responses are written after so many requests, even if more have arrived: the peer can read them
/// meanwhile.
const BATCH_MESSAGES: u32 = 32;

/// Options of `faregate iso8583 serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8583")]
    listen: SocketAddr,
    #[command(flatten)]
    channel: Channel,
    #[command(flatten)]
    format: Format,
    /// Connections at once; those beyond are closed
    #[arg(long, value_name = "N", default_value = "256")]
    connections_max: NonZeroUsize,
    /// Seconds without a byte after which a connection is closed
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    idle: NonZeroUsize,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If it cannot listen.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    logging::start(&Config::default())?;
    let packager = args.format.packager()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new().context("cannot wait for signals")?;
        let listener = TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("cannot listen on {}", args.listen))?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            tracing::warn!(
                %address,
                "it listens beyond this machine: each client that reaches it gets its requests approved"
            );
        }
        serve::say(&format!("listening on {address}"));
        tokio::select! {
            () = accept(listener, args, &packager) => {}
            () = signals.wait() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn accept(listener: TcpListener, args: &Args, packager: &Packager) {
    let permits = Arc::new(Semaphore::new(args.connections_max.get()));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(error = %error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            tracing::warn!(%peer, "closed: there are too many connections");
            continue;
        };
        let codec = args.channel.codec(packager);
        let idle = Duration::from_secs(args.idle.get() as u64);
        let responder = Responder::new(packager);
        tokio::spawn(async move {
            let _permit = permit;
            match serve(stream, codec, responder, idle).await {
                Ok(()) => tracing::debug!(%peer, "closed"),
                Err(error) => tracing::warn!(%peer, "closed: {error:#}"),
            }
        });
    }
}

/// Answers all requests on one connection. A malformed frame or message closes it.
async fn serve(
    stream: TcpStream,
    codec: iso8583::framing::codec::Codec,
    mut responder: Responder,
    idle: Duration,
) -> anyhow::Result<()> {
    let mut connection = Connection::new(stream, codec)?;
    let timer = tokio::time::sleep(idle);
    tokio::pin!(timer);
    let mut active = Instant::now();
    loop {
        let is_open = tokio::select! {
            biased;
            exchanged = connection.exchange() => exchanged?,
            () = &mut timer => {
                let rest = idle.saturating_sub(active.elapsed());
                if rest.is_zero() {
                    anyhow::bail!("nothing has arrived for {} seconds", idle.as_secs());
                }
                timer.as_mut().reset(tokio::time::Instant::now() + rest);
                continue;
            }
        };
        active = Instant::now();
        let result = responder.answer_all(&mut connection).await;
        // Requests before a malformed one are answered.
        connection.flush().await?;
        result?;
        if !is_open {
            return Ok(());
        }
    }
}

/// Builds responses, with buffers that are reused.
struct Responder {
    message: Message,
    /// Fields that are not echoed.
    withheld: Vec<u16>,
    is_xml: bool,
    packed: Vec<u8>,
    value: Vec<u8>,
}

impl Responder {
    fn new(packager: &Packager) -> Self {
        let mut withheld = packager.sensitive_fields();
        withheld.retain(|number| !ALWAYS_ECHOED.contains(number));
        withheld.extend(NEVER_ECHOED);
        withheld.sort_unstable();
        withheld.dedup();
        let (message, is_xml) = (Message::new(packager), packager.is_xml());
        Self { message, withheld, is_xml, packed: vec![], value: vec![] }
    }

    async fn answer_all(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        let mut ready = 0;
        while let Some(received) = connection.receive()? {
            match received {
                Received::KeepAlive if connection.answers_keep_alives() => {
                    connection.send(Sent::KeepAlive)?
                }
                Received::KeepAlive => {}
                Received::Message { header, body } => self.answer(connection, &header, &body)?,
            }
            ready += 1;
            if ready == BATCH_MESSAGES {
                connection.flush().await?;
                ready = 0;
            }
        }
        Ok(())
    }

    /// Answers a request; other messages are ignored.
    fn answer(
        &mut self,
        connection: &mut Connection,
        header: &[u8],
        body: &[u8],
    ) -> anyhow::Result<()> {
        if !self.pack_answer(body)? {
            tracing::debug!("not a request");
            return Ok(());
        }
        let header = if header.is_empty() { Header::Configured } else { Header::Reply(header) };
        Ok(connection.send(Sent::Message { header, body: &self.packed })?)
    }

    /// Packs the response to a request. Returns `false` for other messages.
    fn pack_answer(&mut self, body: &[u8]) -> anyhow::Result<bool> {
        self.message.load(body).context("a message was not read")?;
        let Some(response) = self.response_type() else { return Ok(false) };
        let is_approval = matches!(response[1], b'1' | b'2');
        // Read before it is removed: it may be a withheld field.
        self.read(11);
        self.message.set(0, str::from_utf8(&response).unwrap_or_default())?;
        for number in &self.withheld {
            self.message.remove(*number)?;
        }
        // In XML any field may be composite, so these are found in the message only.
        while let Some(number) = self.nested() {
            self.message.remove(number)?;
        }
        set_if_known(&mut self.message, 39, "00")?;
        // Approvals of authorizations and financial transactions have a code.
        if is_approval {
            let digits = str::from_utf8(&self.value).unwrap_or_default();
            let start = digits.len().saturating_sub(APPROVAL_DIGITS);
            let code = digits.get(start..).unwrap_or_default();
            if code.is_empty() {
                self.message.remove(38)?;
            } else {
                set_if_known(&mut self.message, 38, code)?;
            }
        }
        self.packed.clear();
        self.message.pack_into(&mut self.packed)?;
        Ok(true)
    }

    /// A composite field of an XML message.
    fn nested(&self) -> Option<u16> {
        let fields = self.is_xml.then(|| self.message.view().fields());
        let nested = fields?.find(|field| field.is_composite());
        nested.map(|field| field.number())
    }

    fn response_type(&mut self) -> Option<[u8; 4]> {
        self.read(0);
        response_to(&self.value)
    }

    /// Reads a field's value; empty if the field is missing.
    fn read(&mut self, number: u16) {
        self.value.clear();
        if let Some(field) = self.message.field(number) {
            field.read(&mut self.value);
        }
    }
}

/// Sets a field, unless the format lacks it.
fn set_if_known(message: &mut Message, number: u16, value: &str) -> Result<(), iso8583::Error> {
    match message.set(number, value) {
        Err(error) if error.problem == Problem::UnknownField => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers a request with these fields. Returns the fields of the response, one per line.
    fn answer(packager: &Packager, fields: &[(&str, &str)]) -> String {
        let mut request = Message::new(packager);
        for (path, value) in fields {
            let path: iso8583::FieldPath = path.parse().unwrap();
            request.set(path, value).unwrap();
        }
        let mut responder = Responder::new(packager);
        assert!(responder.pack_answer(&request.pack().unwrap()).unwrap());
        let mut answer = Message::new(packager);
        answer.load(&responder.packed).unwrap();
        answer.view().revealed().to_string()
    }

    #[test]
    fn sensitive_fields_are_not_echoed() {
        let base24 = Packager::built_in("base24").unwrap();
        let fields = [
            ("0", "0200"),
            ("2", "4761739001010119"),
            ("11", "000042"),
            ("14", "2912"),
            ("34", "4761739001010119"),
            ("41", "TERM0001"),
            ("48", "private"),
            ("60", "open"),
            ("63", "& 0000200038! C000026 123"),
            ("126", "& 0000200038! C000026 123"),
        ];
        assert_eq!(
            answer(&base24, &fields),
            "0 0210\n2 4761739001010119\n11 000042\n38 000042\n39 00\n41 TERM0001\n60 open\n"
        );
    }

    #[test]
    fn composites_of_sensitive_fields_are_not_echoed() {
        let text = r#"
            [fields]
            0 = { content = "digits", length = 4 }
            1 = { content = "bitmap", length = 8 }
            11 = { content = "digits", length = 6 }
            55 = { content = "text", length = 9, prefix = { digits = 2 }, sensitive = false }
            [fields.62]
            content = "text"
            length = 99
            prefix = { digits = 2 }
            [fields.62.inside.fields]
            1 = { content = "digits", length = 4 }
            2 = { content = "digits", length = 3, sensitive = true }
        "#;
        let packager = Packager::from_toml(text).unwrap();
        let fields =
            [("0", "0200"), ("11", "000042"), ("55", "chip"), ("62.1", "0001"), ("62.2", "123")];
        // Neither 38 nor 39 is in the format.
        assert_eq!(answer(&packager, &fields), "0 0210\n11 000042\n");
    }

    #[test]
    fn composites_are_not_echoed_in_xml() {
        let xml = Packager::built_in("xml").unwrap();
        let fields = [("0", "0800"), ("60", "open"), ("127.52", "1122"), ("127.3", "x")];
        assert_eq!(answer(&xml, &fields), "0 0810\n39 00\n60 open\n");
    }

    #[test]
    fn response_without_trace_number_has_no_approval_code() {
        let iso87a = Packager::built_in("iso87a").unwrap();
        let fields = [("0", "0200"), ("38", "OLD123"), ("41", "TERM0001")];
        assert_eq!(answer(&iso87a, &fields), "0 0210\n39 00\n41 TERM0001\n");
    }
}
