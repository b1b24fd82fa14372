//! The mail queue: sends the mails that commits queue, and retries those that could not be sent.
//!
//! A queued mail is a row without address and token. Both are looked up right before it is sent, so
//! that a token which was used or replaced meanwhile is not sent. The rows are in the store: no mail is
//! lost with a process. A mail that was sent and not yet closed when a process ends is sent again, with
//! the same `Message-ID` and the same token. The owner of the first partition runs the queue.

mod overrides;
mod rendered;
mod without_address;

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::customer::Customer;
use domain::customer::mail::{Mail, MailKind};
use domain::{MailId, TenantNo, Timestamp};
use engine::ports::{Bookkeeping, Queries, StoreError};
use engine::{Engine, Unavailable};
use sign_up::tokens::TokenKey;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use self::overrides::Overrides;
use self::rendered::Rendered;
use self::without_address::without_address;
use crate::error::{MailError, SetupError};
use crate::links::Links;
use crate::mailer::Mailer;
use crate::options::Options;
use crate::template::Template;

/// How often it looks for mails that no commit of this process announced: retries, and those that other
/// processes queued.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long it waits where the core cannot be read or written.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How many mails are found by one look, besides those on their way.
const MAILS_MAX: usize = 64;

/// How long it gathers what commits ask for before it looks: some mails are found by one look, and
/// closed by one commit, where each by itself would cost as much as what asked for it.
const GATHER: Duration = Duration::from_millis(50);

/// How many mails may have gone out before that is written down: so many, and those that end in the
/// same moment, are sent again where the process is killed in between.
const UNWRITTEN_MAX: usize = 16;

/// How long that may take where others are still on their way.
const UNWRITTEN_WITHIN: Duration = Duration::from_millis(200);

/// How long mails on their way get to arrive when it is to stop.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// Mails that went out.
const SENT: &str = "faregate_mail_sent_total";

/// Mails that were given up.
pub(crate) const DEAD: &str = "faregate_mail_dead_total";

/// Settings of the mail queue.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Transport and sender.
    pub options: Options,
    /// The URL that links in mails begin with.
    pub base_url: String,
    /// The name of the platform in subjects and texts.
    pub platform_name: String,
    /// The pause before each retry, in microseconds; the last one repeats.
    pub retry_delays_us: Vec<i64>,
    /// Attempts after which a mail is given up.
    pub attempts_max: u32,
}

/// Renders and sends mails.
pub struct MailDispatcher {
    mailer: Mailer,
    links: Links,
    tokens: TokenKey,
    platform_name: String,
    retry_delays_us: Vec<i64>,
    attempts_max: u32,
    overrides: Overrides,
}

impl MailDispatcher {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// [`SetupError`], naming the setting.
    pub fn new(settings: Settings, tokens: TokenKey) -> Result<Self, SetupError> {
        let links = Links::new(&settings.base_url)
            .map_err(|error| SetupError { setting: "mail.base_url", reason: error.to_string() })?;
        for template in Template::ALL {
            metrics::counter!(SENT, "template" => template.name()).increment(0);
        }
        metrics::counter!(DEAD).increment(0);
        Ok(Self {
            mailer: Mailer::new(&settings.options)?,
            links,
            tokens,
            platform_name: settings.platform_name,
            retry_delays_us: settings.retry_delays_us,
            attempts_max: settings.attempts_max,
            overrides: Overrides::default(),
        })
    }

    /// When a mail is tried again that could not be sent so often; `None` where it is given up.
    fn next_attempt(&self, now: Timestamp, attempts: u32) -> Option<Timestamp> {
        if attempts >= self.attempts_max {
            return None;
        }
        let at = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
        let delay = self.retry_delays_us.get(at).or(self.retry_delays_us.last());
        delay.map(|delay_us| now.plus_us(*delay_us))
    }
}

/// Sends mails until `stop` is ready.
pub async fn run(engine: Engine, dispatcher: Arc<MailDispatcher>, stop: impl Future<Output = ()>) {
    let mut sending = Sending::new(engine, dispatcher);
    tokio::select! {
        () = sending.go_on() => {}
        () = stop => {}
    }
    if tokio::time::timeout(STOP_WITHIN, sending.finish()).await.is_err() {
        let underway = sending.underway.len();
        tracing::info!(
            underway,
            "mails in flight are sent again by the next owner of the first partition"
        );
    }
}

/// A mail's customer as they were read, if they are there; or why their row cannot be read.
type ReadCustomer = Result<Option<Customer>, StoreError>;

/// The result of a task that sent a mail.
type Ended = Result<(Id, Result<Bookkeeping, Unavailable>), JoinError>;

/// The mails on their way, and what came of others.
struct Sending {
    engine: Engine,
    dispatcher: Arc<MailDispatcher>,
    /// Mails that are due and wait for room, oldest first.
    found: VecDeque<(TenantNo, MailId)>,
    /// Whether more may wait than was found.
    may_be_more: bool,
    /// Whether the last look at what waits failed.
    has_failed: bool,
    underway: HashMap<Id, Mail>,
    tasks: JoinSet<Result<Bookkeeping, Unavailable>>,
    /// Outcomes to be written, and their mails: until they are written, none of these mails is sent again.
    unwritten: Vec<Bookkeeping>,
    unwritten_of: HashSet<(TenantNo, MailId)>,
}

impl Sending {
    fn new(engine: Engine, dispatcher: Arc<MailDispatcher>) -> Self {
        Self {
            engine,
            dispatcher,
            found: VecDeque::new(),
            may_be_more: false,
            has_failed: false,
            underway: HashMap::new(),
            tasks: JoinSet::new(),
            unwritten: vec![],
            unwritten_of: HashSet::new(),
        }
    }

    /// Does not end. A slow mail holds up a place, and not what comes after it.
    async fn go_on(&mut self) {
        let mut queued = self.engine.mails_queued();
        let mut regular = interval(LOOK_EVERY);
        regular.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_room = self.room() > 0;
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => self.take_note(ended).await,
                Ok(()) = queued.changed(), if has_room && !self.has_failed => {
                    tokio::time::sleep(GATHER).await;
                    queued.mark_unchanged();
                    self.fill().await;
                }
                _ = regular.tick() => self.fill().await,
                () = tokio::time::sleep(UNWRITTEN_WITHIN), if !self.unwritten.is_empty() => {
                    self.write_down().await;
                }
            }
            if self.tasks.is_empty() || self.unwritten.len() >= UNWRITTEN_MAX {
                self.write_down().await;
            }
        }
    }

    /// How many more mails may be on their way, so that none that was read waits.
    fn room(&self) -> usize {
        self.dispatcher
            .mailer
            .concurrent_mails_max()
            .unwrap_or(MAILS_MAX)
            .saturating_sub(self.tasks.len())
    }

    /// Puts mails on their way as far as there are any and there is room.
    async fn fill(&mut self) {
        let room = self.room();
        if room == 0 {
            return;
        }
        for (mail, customer) in self.next(room).await {
            let (engine, dispatcher) = (self.engine.clone(), Arc::clone(&self.dispatcher));
            let task = deliver(engine, dispatcher, mail.clone(), customer);
            self.underway.insert(self.tasks.spawn(task).id(), mail);
        }
    }

    /// The next mails that are to be sent, each with its customer, as both are now.
    async fn next(&mut self, room: usize) -> Vec<(Mail, ReadCustomer)> {
        let now = self.engine.clock().now();
        let underway = self.underway.values().map(|it| (it.tenant, it.id));
        let busy: HashSet<_> = underway.chain(self.unwritten_of.iter().copied()).collect();
        let (mut found, mut may_be_more) = (std::mem::take(&mut self.found), self.may_be_more);
        let read = self.engine.read(move |queries| {
            if found.is_empty() {
                found = due(queries, now, &busy)?;
                may_be_more = found.len() == MAILS_MAX;
            }
            let rest = found.split_off(room.min(found.len()));
            Ok((with_customers(queries, found)?, rest, may_be_more))
        });
        let read = read.await;
        self.has_failed = read.is_err();
        let (next, rest, may_be_more) = read.unwrap_or_else(|error| {
            tracing::warn!(error = %error, "mails wait to be looked at");
            (vec![], VecDeque::new(), false)
        });
        (self.found, self.may_be_more) = (rest, may_be_more);
        next
    }

    /// Takes note of a mail that is not on its way any more, and of all others that are not, and fills
    /// their places where there may be more.
    async fn take_note(&mut self, ended: Ended) {
        let mut is_away = !self.ended(ended);
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            is_away |= !self.ended(ended);
        }
        if is_away {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        if !self.found.is_empty() || self.may_be_more || is_away {
            self.fill().await;
        }
    }

    /// Takes note of a mail that is not on its way any more; false where the core was away.
    fn ended(&mut self, ended: Ended) -> bool {
        let (id, result) = match ended {
            Ok((id, result)) => (id, Some(result)),
            Err(error) => {
                tracing::error!(error = %error, "a mail was not sent");
                (error.id(), None)
            }
        };
        let Some(mail) = self.underway.remove(&id) else { return true };
        let (no, id) = (mail.tenant, mail.id);
        let row = match result {
            Some(Ok(row)) => row,
            Some(Err(error)) => {
                tracing::warn!(error = %error, "a mail waits to be looked at");
                return false;
            }
            // A bug, which a try at once would show again and again.
            None => {
                postponed(&self.dispatcher, self.engine.clock().now(), mail, "a bug".to_owned())
            }
        };
        self.unwritten.push(row);
        self.unwritten_of.insert((no, id));
        true
    }

    /// Writes the outcome of mails, however long it takes: meanwhile none of them is sent again.
    async fn write_down(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        while let Err(error) = self.engine.record(self.unwritten.clone()).await {
            tracing::warn!(error = %error, "failed to write the outcome of sent mails; it is written later, and no mail is sent again");
            tokio::time::sleep(AFTER_FAILURE).await;
        }
        self.unwritten.clear();
        self.unwritten_of.clear();
    }

    /// Waits for the mails on their way.
    async fn finish(&mut self) {
        self.write_down().await;
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.ended(ended);
            self.write_down().await;
        }
    }
}

/// Up to [`MAILS_MAX`] mails that are to be sent and are not `busy`.
fn due(
    queries: &dyn Queries,
    now: Timestamp,
    busy: &HashSet<(TenantNo, MailId)>,
) -> Result<VecDeque<(TenantNo, MailId)>, StoreError> {
    let due = queries.mails_due(now, busy.len() + MAILS_MAX)?;
    let names = due.into_iter().map(|mail| (mail.tenant, mail.id));
    Ok(names.filter(|name| !busy.contains(name)).take(MAILS_MAX).collect())
}

/// These mails with their customers, without those that no longer exist. A customer who cannot be
/// read does not delay the mail of other customers.
fn with_customers(
    queries: &dyn Queries,
    names: VecDeque<(TenantNo, MailId)>,
) -> Result<Vec<(Mail, ReadCustomer)>, StoreError> {
    let mut read = vec![];
    for (no, id) in names {
        let Some(mail) = queries.mail(no, id)? else { continue };
        let customer = match queries.customer(no, mail.customer) {
            Err(error @ StoreError::Corrupt { .. }) => Err(error),
            customer => Ok(customer?),
        };
        read.push((mail, customer));
    }
    Ok(read)
}

/// Sends a mail and returns the result to be stored.
async fn deliver(
    engine: Engine,
    dispatcher: Arc<MailDispatcher>,
    mail: Mail,
    customer: ReadCustomer,
) -> Result<Bookkeeping, Unavailable> {
    let customer = match customer {
        Ok(customer) => customer,
        Err(error) => {
            tracing::error!(customer = %mail.customer, error = %error, "a customer cannot be read");
            let reason = "its customer cannot be read".to_owned();
            return Ok(postponed(&dispatcher, engine.clock().now(), mail, reason));
        }
    };
    let rendered = rendered::render(&engine, &dispatcher, &mail, customer).await?;
    let closed = Bookkeeping::MailClosed { tenant: mail.tenant, id: mail.id };
    let outgoing = match rendered {
        Rendered::Ready(outgoing) => outgoing,
        Rendered::Pointless(why) => {
            tracing::info!(tenant = mail.tenant.0, mail.id = %mail.id, why, "a mail is not sent");
            return Ok(closed);
        }
        Rendered::Unwritable(error) => return Ok(given_up(mail, error.to_string())),
    };
    Ok(match dispatcher.mailer.send(&outgoing).await {
        Ok(()) => {
            let template = template(mail.kind).name();
            metrics::counter!(SENT, "template" => template).increment(1);
            closed
        }
        Err(MailError::Temporary(reason)) => {
            let reason = without_address(&reason, &outgoing.to);
            postponed(&dispatcher, engine.clock().now(), mail, reason)
        }
        Err(MailError::Permanent(reason)) => given_up(mail, without_address(&reason, &outgoing.to)),
    })
}

fn postponed(
    dispatcher: &MailDispatcher,
    now: Timestamp,
    mail: Mail,
    error: String,
) -> Bookkeeping {
    let attempts = mail.attempts.saturating_add(1);
    let due_at = dispatcher.next_attempt(now, attempts);
    if due_at.is_none() {
        return given_up(mail, error);
    }
    tracing::info!(
        tenant = mail.tenant.0, mail.id = %mail.id, attempts, error, "a mail is tried again"
    );
    Bookkeeping::MailPostponed(Mail { due_at, attempts, error: Some(error), ..mail })
}

fn given_up(mail: Mail, error: String) -> Bookkeeping {
    let attempts = mail.attempts.saturating_add(1);
    tracing::warn!(
        tenant = mail.tenant.0, mail.id = %mail.id, attempts, error, "a mail was given up"
    );
    metrics::counter!(DEAD).increment(1);
    Bookkeeping::MailPostponed(Mail { due_at: None, attempts, error: Some(error), ..mail })
}

/// The template of a kind of mail.
const fn template(kind: MailKind) -> Template {
    match kind {
        MailKind::Welcome => Template::Welcome,
        MailKind::Verification => Template::Verification,
        MailKind::PasswordReset => Template::PasswordReset,
        MailKind::PasswordChanged => Template::PasswordChanged,
        MailKind::AlreadyRegistered => Template::AlreadyRegistered,
    }
}
