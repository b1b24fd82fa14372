//! Mails behind a real engine on a real store, into files and to a scripted mail server.

mod alerts;
mod mailbox;
mod queue;
mod routes;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::account::Person;
use domain::command::CustomerCommand;
use domain::customer::mail::Mail;
use domain::customer::{
    Customer, CustomerRef, CustomerReply, Profile, Register, RequestToken, Taken, TokenPurpose,
    Verification,
};
use domain::payment::Actor;
use domain::{Command, Currency, Reply, Request, Settings, TenantNo, Timestamp};
use engine::ports::Page;
use engine::{Answer, Clock, Engine, Options, Parts, Running};
use secrets::RootKey;
use sign_up::tokens::{MailedToken, TokenKey};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use ::mail::MailDispatcher;
use config::{MailTransport, Period};

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

const TENANT: TenantNo = TenantNo(1);

/// How long an address may stay unverified.
const DAY_US: i64 = Timestamp::DAY_US;

/// A directory that goes away with the test.
struct Home(PathBuf);

impl Home {
    /// One that is not there yet.
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("faregate-mail-{}", uuid::Uuid::now_v7())))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// An engine with a sender of mails.
struct Scene {
    engine: Engine,
    running: Running,
    tokens: TokenKey,
    sender: Option<(watch::Sender<bool>, JoinHandle<()>)>,
    home: Home,
}

impl Scene {
    /// Nobody sends yet.
    fn new() -> Self {
        Self::at(Home::new())
    }

    /// Starts an engine on a directory, with the database that it has, if any.
    fn at(home: Home) -> Self {
        let store = store::open_dir(&home.0, &store::Options::default()).unwrap();
        let queries = Arc::new(store.queries(2).unwrap());
        let settings = Settings::without_gateways(DAY_US, 10);
        let parts = Parts {
            store,
            queries,
            gateways: std::collections::BTreeMap::new(),
            clock: Clock::new(true),
            settings,
            options: Options { readers: 2, ..Options::default() },
        };
        let (engine, running) = Engine::start(parts).unwrap();
        let tokens = TokenKey::new(&RootKey::new([7; secrets::KEY_BYTES]));
        Self { engine, running, tokens, sender: None, home }
    }

    /// Sends from now on.
    fn send(&mut self, settings: &config::Mail) {
        let queue = settings.queue(&self.home.0, "http://localhost:8080".to_owned());
        let dispatcher = MailDispatcher::new(queue, self.tokens.clone()).unwrap();
        let (stop, mut stopped) = watch::channel(false);
        let until = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
        let sending = ::mail::run(self.engine.clone(), Arc::new(dispatcher), until);
        self.sender = Some((stop, tokio::spawn(sending)));
    }

    /// Sends no more.
    async fn hold(&mut self) {
        let (stop, sending) = self.sender.take().unwrap();
        stop.send_replace(true);
        sending.await.unwrap();
    }

    async fn end(mut self) {
        if self.sender.is_some() {
            self.hold().await;
        }
        self.running.stop(PATIENCE).await;
    }

    fn directory(&self) -> PathBuf {
        self.home.0.join("mail")
    }

    async fn submit(&self, command: Command) -> Answer {
        let id = self.engine.mint();
        let actor = Actor::new("test", "test", id.0);
        let request = Request { id, tenant: TENANT, actor, idempotency: None, command };
        self.engine.submit(request).await.unwrap()
    }

    async fn accepted(&self, command: CustomerCommand) -> Reply {
        match self.submit(Command::Customer(command)).await {
            Answer::Replied(reply) => reply,
            other @ (Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) => {
                panic!("{other:?}")
            }
        }
    }

    /// Signs somebody up, who is asked to verify their address within a day.
    async fn register(&self, email: &str) -> CustomerRef {
        let register = Register {
            profile: Profile {
                email: email.to_owned(),
                email_key: email.to_owned(),
                first_name: "Ann".to_owned(),
                last_name: "Lee".to_owned(),
                preferences: String::new(),
            },
            person: Person::default(),
            currency: Currency::parse("USD"),
            password_hash: "x".to_owned(),
            taken: Taken::NotifyByMail,
            verification: Verification::Mailed { within_us: DAY_US },
            operation: None,
        };
        let reply = self.accepted(CustomerCommand::Register(Box::new(register))).await;
        let Reply::Customer(CustomerReply::Registered(customer)) = reply else {
            panic!("{reply:?}")
        };
        customer
    }

    async fn request(&self, customer: CustomerRef, purpose: TokenPurpose) {
        let request = RequestToken { customer, purpose, within_us: DAY_US };
        self.accepted(CustomerCommand::RequestToken(request)).await;
    }

    async fn customer(&self, customer: CustomerRef) -> Customer {
        let read = self.engine.read(move |queries| queries.customer(TENANT, customer.id));
        read.await.unwrap().unwrap()
    }

    /// Mails that are tried, or that were given up.
    async fn mails(&self, given_up: bool) -> Vec<Mail> {
        let page = Page { offset: 0, limit: 100 };
        self.engine.read(move |queries| queries.mails(TENANT, given_up, page)).await.unwrap()
    }

    /// Waits until the mails that are tried are so.
    async fn queue(&self, what: &str, is_so: impl Fn(&[Mail]) -> bool) -> Vec<Mail> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mails = self.mails(false).await;
            if is_so(&mails) {
                return mails;
            }
            assert!(Instant::now() < until, "never happened: {what}: {mails:?}");
            tokio::task::yield_now().await;
        }
    }

    /// Waits until no mail is tried any more.
    async fn sent(&self) {
        self.queue("all is sent", <[Mail]>::is_empty).await;
    }

    /// Lets so much time pass.
    fn wait(&self, period_us: i64) {
        let clock = self.engine.clock();
        clock.set(clock.now().plus_us(period_us));
    }

    /// Whether this is the token that holds.
    async fn holds(&self, customer: CustomerRef, purpose: TokenPurpose, token: &str) -> bool {
        let presented = MailedToken::read(token).unwrap();
        assert_eq!((presented.tenant, presented.customer), (TENANT, customer.id.uuid()));
        let Some(issued) = self.customer(customer).await.issued(purpose) else { return false };
        let purpose = sign_up::service::token_purpose(purpose);
        self.tokens.matches(purpose, &presented, issued.id.uuid())
    }
}

/// Mail into files.
fn into_files() -> config::Mail {
    config::Mail { transport: MailTransport::File, ..config::Mail::default() }
}

/// Mail to this mailbox; three tries, a minute and five minutes after the ones before.
fn to(mailbox: &mailbox::Mailbox) -> config::Mail {
    let mut settings = config::Mail {
        transport: MailTransport::Smtp,
        retry_delays: vec![Period::seconds(60), Period::seconds(300)],
        attempts: 3,
        ..config::Mail::default()
    };
    settings.smtp.host = "127.0.0.1".to_owned();
    settings.smtp.port = mailbox.port();
    settings.smtp.security = config::SmtpSecurity::None;
    settings
}

/// The mails in a directory, as people read them.
fn files(directory: &Path) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(directory) else { return vec![] };
    let files = files.map(|file| file.unwrap().path());
    let whole = files.filter(|path| path.extension().is_some_and(|it| it == "eml"));
    whole.map(|path| readable(&std::fs::read_to_string(path).unwrap())).collect()
}

/// A mail without its transfer encoding, as far as our words need one.
fn readable(mail: &str) -> String {
    mail.replace("=\r\n", "").replace("=3D", "=")
}

/// The tokens of the links to this page in a mail; the text's and the HTML's are the same.
fn token(mail: &str, page: &str) -> Option<String> {
    let marker = format!("{page}?token=");
    let mut tokens: Vec<&str> = mail
        .split(&marker)
        .skip(1)
        .map(|rest| {
            &rest[..rest.find(|c: char| !c.is_alphanumeric() && !"-_".contains(c)).unwrap()]
        })
        .collect();
    tokens.dedup();
    assert!(tokens.len() < 2, "{tokens:?}");
    tokens.first().map(|token| (*token).to_owned())
}
