//! Sends the mails that commits ask for, tries again those that could not be sent, and forgets the
//! customers who did not verify their address in time.
//!
//! A mail waits as a row without address and token: both are found out right before it is sent, so
//! that a token which was used or replaced meanwhile is not sent any more. Which mails wait is in the
//! store: nothing is lost with a process. What was sent and not yet closed when a process ends is sent
//! again, with the same `Message-ID` and the same token. Whoever owns the first partition runs this.

pub mod backlog;
mod letter;
pub mod over;
mod overrides;
pub mod sweep;
mod without_address;

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::mail::{Mail, MailKind};
use domain::{MailId, TenantNo, Timestamp};
use engine::ports::Bookkeeping;
use engine::{Engine, Unavailable};
use gateway::mail::{CONNECTIONS_MAX, Links, MailError, Mailer, SetupError, Template};
use signup::tokens::TokenKey;
use tokio::task::{Id, JoinSet};

use self::letter::Letter;
use self::overrides::Overrides;
use self::without_address::without_address;
use crate::config;

/// How often it looks for mails that no commit of this process told of: retries, and those that other
/// processes queued.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long it waits where the core cannot be read or written.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How many mails are in memory at a time, besides those on their way.
const MAILS_MAX: usize = 64;

/// Mails on their way at the same time: as many as there are connections, so that none that was looked
/// at waits for one.
const UNDERWAY_MAX: usize = CONNECTIONS_MAX;

/// How long it gathers what commits ask for before it looks: some mails are found by one look, and
/// closed by one commit, where each by itself would cost as much as what asked for it.
const GATHER: Duration = Duration::from_millis(50);

/// How many mails may have gone out before that is written down: so many are sent again where the
/// process is killed in between.
const UNWRITTEN_MAX: usize = 16;

/// How long that may take where others are still on their way.
const UNWRITTEN_WITHIN: Duration = Duration::from_millis(200);

/// How long mails on their way get to arrive when it is to stop.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// Mails that went out.
const SENT: &str = "faregate_mail_sent_total";

/// Mails that were given up.
const DEAD: &str = "faregate_mail_dead_total";

/// How mails are written and sent.
pub struct Post {
    mailer: Mailer,
    links: Links,
    tokens: TokenKey,
    platform_name: String,
    retry_delays_us: Vec<i64>,
    attempts_max: u32,
    overrides: Overrides,
}

impl Post {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// [`SetupError`], naming the setting.
    pub fn new(
        settings: &config::Mail,
        data_dir: &Path,
        tokens: TokenKey,
    ) -> Result<Self, SetupError> {
        let links = Links::new(&settings.base_url)
            .map_err(|error| SetupError { setting: "mail.base_url", reason: error.to_string() })?;
        for template in Template::ALL {
            metrics::counter!(SENT, "template" => template.name()).increment(0);
        }
        metrics::counter!(DEAD).increment(0);
        Ok(Self {
            mailer: Mailer::new(&settings.options(data_dir))?,
            links,
            tokens,
            platform_name: settings.platform_name.clone(),
            retry_delays_us: settings.retry_delays.iter().map(|it| it.as_us()).collect(),
            attempts_max: settings.attempts,
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
pub async fn run(engine: Engine, post: Arc<Post>, stop: impl Future<Output = ()>) {
    let mut sending = Sending::new(engine, post);
    tokio::select! {
        () = sending.go_on() => {}
        () = stop => {}
    }
    if tokio::time::timeout(STOP_WITHIN, sending.finish()).await.is_err() {
        let underway = sending.underway.len();
        tracing::info!(underway, "mails on their way are sent again by whoever sends next");
    }
}

/// The mails that were found, those on their way, and what came of others.
struct Sending {
    engine: Engine,
    post: Arc<Post>,
    found: VecDeque<Mail>,
    underway: HashMap<Id, Mail>,
    tasks: JoinSet<Result<Option<Bookkeeping>, Unavailable>>,
    /// What is to be written, and of which mails: until it is, none of them is sent again.
    unwritten: Vec<Bookkeeping>,
    unwritten_of: HashSet<(TenantNo, MailId)>,
}

impl Sending {
    fn new(engine: Engine, post: Arc<Post>) -> Self {
        Self {
            engine,
            post,
            found: VecDeque::new(),
            underway: HashMap::new(),
            tasks: JoinSet::new(),
            unwritten: vec![],
            unwritten_of: HashSet::new(),
        }
    }

    /// Does not end. A slow mail holds up a place of [`UNDERWAY_MAX`], and not what comes after it.
    async fn go_on(&mut self) {
        let mut queued = self.engine.mails_queued();
        loop {
            queued.mark_unchanged();
            let has_failed = match self.fill().await {
                Ok(()) => false,
                Err(error) => {
                    tracing::warn!(error = %error, "mails wait to be looked at");
                    true
                }
            };
            let is_full = self.tasks.len() == UNDERWAY_MAX;
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => {
                    if !self.ended(ended) {
                        tokio::time::sleep(AFTER_FAILURE).await;
                    }
                }
                Ok(()) = queued.changed(), if !is_full && !has_failed => {
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(UNWRITTEN_WITHIN), if !self.unwritten.is_empty() => {
                    self.write_down().await;
                }
                () = tokio::time::sleep(LOOK_EVERY), if !is_full || has_failed => {}
            }
            if self.tasks.is_empty() || self.unwritten.len() >= UNWRITTEN_MAX {
                self.write_down().await;
            }
        }
    }

    /// Puts mails on their way as long as there are any and there is room.
    async fn fill(&mut self) -> Result<(), Unavailable> {
        if self.found.is_empty() && self.tasks.len() < UNDERWAY_MAX {
            let now = self.engine.clock().now();
            let due = self.engine.read(move |queries| queries.mails_due(now, MAILS_MAX)).await?;
            let is_new = |mail: &Mail| {
                let mail = (mail.tenant, mail.id);
                !self.unwritten_of.contains(&mail)
                    && self.underway.values().all(|it| (it.tenant, it.id) != mail)
            };
            self.found = due.into_iter().filter(is_new).collect();
        }
        while self.tasks.len() < UNDERWAY_MAX
            && let Some(mail) = self.found.pop_front()
        {
            let task = deliver(self.engine.clone(), Arc::clone(&self.post), mail.clone());
            self.underway.insert(self.tasks.spawn(task).id(), mail);
        }
        Ok(())
    }

    /// Takes note of a mail that is not on its way any more; false where the core was away.
    fn ended(
        &mut self,
        ended: Result<(Id, Result<Option<Bookkeeping>, Unavailable>), tokio::task::JoinError>,
    ) -> bool {
        let (id, result) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // A bug, which a try at once would show again and again.
                tracing::error!(error = %error, "a mail was not sent");
                let mail = self.underway.get(&error.id()).cloned();
                let now = self.engine.clock().now();
                let row = mail.map(|it| postponed(&self.post, now, it, "a bug".to_owned()));
                (error.id(), Ok(row))
            }
        };
        let mail = self.underway.remove(&id);
        match result {
            Ok(row) => {
                if let (Some(mail), Some(row)) = (mail, row) {
                    self.unwritten.push(row);
                    self.unwritten_of.insert((mail.tenant, mail.id));
                }
                true
            }
            Err(error) => {
                tracing::warn!(error = %error, "a mail waits to be looked at");
                false
            }
        }
    }

    /// Writes down what came of mails, however long it takes: meanwhile none of them is sent again.
    async fn write_down(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        while let Err(error) = self.engine.record(self.unwritten.clone()).await {
            tracing::warn!(error = %error, "what came of mails waits to be written");
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

/// Sends a mail that was found some moments ago, if it still is to be sent, and says what is to be
/// written down of it.
async fn deliver(
    engine: Engine,
    post: Arc<Post>,
    found: Mail,
) -> Result<Option<Bookkeeping>, Unavailable> {
    let Some((mail, letter)) = letter::write(&engine, &post, &found).await? else {
        return Ok(None);
    };
    let closed = Bookkeeping::MailClosed { tenant: mail.tenant, id: mail.id };
    let outgoing = match letter {
        Letter::Ready(outgoing) => outgoing,
        Letter::Pointless(why) => {
            tracing::info!(tenant = mail.tenant.0, mail.id = %mail.id, why, "a mail is not sent");
            return Ok(Some(closed));
        }
        Letter::Unwritable(error) => return Ok(Some(given_up(mail, error.to_string()))),
    };
    Ok(Some(match post.mailer.send(&outgoing).await {
        Ok(()) => {
            let template = template(mail.kind).name();
            metrics::counter!(SENT, "template" => template).increment(1);
            closed
        }
        Err(MailError::Temporary(reason)) => {
            let reason = without_address(&reason, &outgoing.to);
            postponed(&post, engine.clock().now(), mail, reason)
        }
        Err(MailError::Permanent(reason)) => given_up(mail, without_address(&reason, &outgoing.to)),
    }))
}

fn postponed(post: &Post, now: Timestamp, mail: Mail, error: String) -> Bookkeeping {
    let attempts = mail.attempts.saturating_add(1);
    let due_at = post.next_attempt(now, attempts);
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
#[must_use]
pub const fn template(kind: MailKind) -> Template {
    match kind {
        MailKind::Welcome => Template::Welcome,
        MailKind::Verification => Template::Verification,
        MailKind::PasswordReset => Template::PasswordReset,
        MailKind::PasswordChanged => Template::PasswordChanged,
        MailKind::AlreadyRegistered => Template::AlreadyRegistered,
    }
}

#[cfg(test)]
mod tests;
