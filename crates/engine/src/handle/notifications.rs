//! Notifications of gateways: the gateway reads what was posted, and what it says is committed. A front has the
//! partition's owner ask the gateway instead, because no front is believed about an outcome.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::payment::{Actor, GatewayInquired, GatewayKnowledge, GatewayStatus};
use domain::{AccountId, PaymentId, TenantNo, Timestamp, TransactionId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::requests::ask_within;
use super::resolver::{self, INQUIRY_TIMEOUT, InquiryAnswer};
use super::{Options, Transport, disputes};
use crate::holdings::Holdings;
use crate::lane::Lane;
use crate::ports::{
    DisputeInquiry, Inquiry, News, Notified, PostedNotification, Question, RequestRefused,
};
use crate::queue::{Inquired, Message, Queue, Reply, Route};
use crate::{Engine, Reason, Unavailable};

/// Notifications of one gateway that are read at the same time; more are refused.
const READING_MAX: usize = 64;

/// Those of them that one tenant may have: others are read meanwhile.
const READING_PER_TENANT_MAX: usize = READING_MAX / 4 * 3;

/// Fronts' messages to inquire that may wait for the answer of one gateway; more are refused.
const WAITING_MAX: usize = 1_024;

/// The user in whose name notifications are committed, and why.
const ACTOR: (&str, &str) = ("gateway", "gateway notification");

/// Why a notification was not booked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotificationError {
    /// No gateway has this name.
    #[error("there is no such gateway")]
    NoGateway,
    /// The gateway takes no notifications.
    #[error("the gateway takes no notifications")]
    Unsupported,
    /// It is not from the gateway, or cannot be read: a reason for its sender.
    #[error("{0}")]
    Invalid(String),
    /// The gateway cannot be asked now, or does not know yet what the notification says.
    #[error("the gateway cannot be asked now: send the notification again")]
    GatewayUnavailable,
    /// The gateway says what became of a payment that the database lacks: one of after the backup that was
    /// restored.
    #[error("the payment is not in the database: send the notification again")]
    NotThere,
    /// It was not written.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The notifications under way.
pub(crate) struct Notifications {
    by_gateway: HashMap<String, OfGateway>,
    reading_of_tenants: ReadingOfTenants,
}

/// The notifications of a gateway: one that hangs delays those of no other.
struct OfGateway {
    /// Those that may still be read.
    reading: Arc<Semaphore>,
    /// Inquiries that fronts asked for: those that may still begin.
    inquiries: Semaphore,
    waiting: Waiters,
}

/// Those who wait for the answers of a gateway.
#[derive(Default)]
struct Waiters(Mutex<Waiting>);

/// How many notifications of a gateway are being read for a tenant.
type ReadingOfTenants = Arc<Mutex<Holdings<(String, TenantNo)>>>;

/// The right to read a notification.
struct Reading {
    _permit: OwnedSemaphorePermit,
    of: (String, TenantNo),
    all: ReadingOfTenants,
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.of, 1);
    }
}

/// Who waits for the next answer to a question.
#[derive(Default)]
struct Waiting {
    by_question: BTreeMap<Question, Vec<Waiter>>,
    count: usize,
}

type Waiter = oneshot::Sender<Result<Inquired, Unavailable>>;

impl Notifications {
    pub(super) fn new<'a>(gateways: impl Iterator<Item = &'a String>, options: &Options) -> Self {
        let of_gateway = |name: &String| {
            let of_gateway = OfGateway {
                reading: Arc::new(Semaphore::new(READING_MAX)),
                inquiries: Semaphore::new(options.inquiries_max),
                waiting: Waiters::default(),
            };
            (name.clone(), of_gateway)
        };
        Self { by_gateway: gateways.map(of_gateway).collect(), reading_of_tenants: Arc::default() }
    }

    /// `None` where as many are being read as may be.
    fn begin_reading(&self, gateway: &str, tenant: TenantNo) -> Option<Reading> {
        let permit = Arc::clone(&self.by_gateway.get(gateway)?.reading).try_acquire_owned().ok()?;
        let (of, all) = ((gateway.to_owned(), tenant), Arc::clone(&self.reading_of_tenants));
        let mut counts = all.lock().unwrap_or_else(PoisonError::into_inner);
        if !counts.add_below(of.clone(), READING_PER_TENANT_MAX) {
            return None;
        }
        drop(counts);
        Some(Reading { _permit: permit, of, all })
    }
}

impl Waiters {
    /// Adds a waiter; returns whether it is the first one of its question. `None` where too many wait.
    fn add(&self, question: &Question, waiter: Waiter) -> Option<bool> {
        let mut waiting = self.lock();
        if waiting.count >= WAITING_MAX {
            return None;
        }
        waiting.count += 1;
        let is_first = !waiting.by_question.contains_key(question);
        waiting.by_question.entry(question.clone()).or_default().push(waiter);
        Some(is_first)
    }

    /// Those who wait, for the next answer. Where there are none, asking ends.
    fn next(&self, question: &Question) -> Vec<Waiter> {
        let mut waiting = self.lock();
        let next = waiting.by_question.get_mut(question).map(std::mem::take).unwrap_or_default();
        waiting.count -= next.len();
        if next.is_empty() {
            waiting.by_question.remove(question);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Has a gateway read what was posted to a tenant, and returns once what it says is committed. What is about
    /// nothing of Faregate's is not; a payment that the database lacks may be there later.
    ///
    /// # Errors
    /// [`NotificationError`].
    pub async fn take_notification(
        &self,
        gateway: &str,
        posted: PostedNotification,
    ) -> Result<(), NotificationError> {
        let taken = self.read_and_book(gateway, posted).await;
        let result = match &taken {
            Ok(true) => "booked",
            Ok(false) | Err(NotificationError::NotThere) => "unknown",
            Err(NotificationError::NoGateway) => return Err(NotificationError::NoGateway),
            Err(NotificationError::Unsupported | NotificationError::Invalid(_)) => "refused",
            Err(NotificationError::GatewayUnavailable | NotificationError::Unavailable(_)) => {
                "unavailable"
            }
        };
        let labels = [("gateway", gateway.to_owned()), ("result", result.to_owned())];
        metrics::counter!("faregate_gateway_notifications_total", &labels).increment(1);
        taken.map(drop)
    }

    /// Whether it was about a transaction of the gateway.
    async fn read_and_book(
        &self,
        name: &str,
        posted: PostedNotification,
    ) -> Result<bool, NotificationError> {
        let gateway = self.gateway(name).ok_or(NotificationError::NoGateway)?;
        let full = || Unavailable::from(Reason::GatewayFull);
        let tenant = posted.tenant;
        let notifications = &self.shared().notifications;
        let _reading = notifications.begin_reading(name, tenant).ok_or_else(full)?;
        let asked_at = self.clock().real_now();
        let reason = match ask_within(INQUIRY_TIMEOUT, gateway.notification(posted)).await {
            Ok(None) => return Ok(false),
            Ok(Some(notified)) => {
                return self.notified_by((name, asked_at), tenant, notified).await;
            }
            Err(RequestRefused::Unsupported) => return Err(NotificationError::Unsupported),
            Err(RequestRefused::Invalid(reason)) => return Err(NotificationError::Invalid(reason)),
            Err(RequestRefused::Unavailable(reason) | RequestRefused::Unfit(reason)) => reason,
        };
        tracing::warn!(
            gateway = name,
            reason,
            "failed to read a notification; its sender repeats it"
        );
        Err(NotificationError::GatewayUnavailable)
    }

    /// Books what a gateway says of a transaction that went through it: none may say what became of another's.
    /// Returns whether it did.
    async fn notified_by(
        &self,
        (gateway, asked_at): (&str, Timestamp),
        tenant: TenantNo,
        notified: Notified,
    ) -> Result<bool, NotificationError> {
        let Notified { payment, transaction, .. } = notified;
        let file = self.read(move |queries| queries.payment(tenant, payment)).await?;
        let found = file.as_ref().and_then(|file| file.transaction(transaction).zip(Some(file)));
        let Some((found, file)) = found else {
            tracing::error!(
                gateway,
                tenant = tenant.0,
                payment.id = %payment,
                transaction.id = %transaction,
                "a gateway notifies of a transaction that the database lacks: its sender repeats it; was a backup \
                 restored? `faregate reconcile` lists what is missing"
            );
            return Err(NotificationError::NotThere);
        };
        if found.gateway != gateway {
            return Ok(false);
        }
        self.book_notified((tenant, file.payment.account_id), (gateway, asked_at), notified).await
    }

    /// Books the outcome that a gateway says of a transaction. Returns whether there is one.
    ///
    /// # Errors
    /// [`NotificationError`]: it was not written; the gateway should notify again.
    pub async fn notified(
        &self,
        tenant: TenantNo,
        (payment, transaction): (PaymentId, TransactionId),
        knowledge: GatewayKnowledge,
    ) -> Result<bool, NotificationError> {
        let account = self.read(move |queries| queries.payment_account(tenant, payment)).await?;
        let Some(account) = account else { return Ok(false) };
        let notified = Notified { payment, transaction, news: News::Outcome(knowledge) };
        let asked = ("", self.clock().real_now());
        self.book_notified((tenant, account), asked, notified).await
    }

    async fn book_notified(
        &self,
        (tenant, account): (TenantNo, AccountId),
        (gateway, asked_at): (&str, Timestamp),
        notified: Notified,
    ) -> Result<bool, NotificationError> {
        if let Transport::Queue(queue) = &self.shared().transport {
            let Notified { payment, transaction, news } = notified;
            let of = Inquiry { tenant, payment, transaction };
            let (question, is_final) = match news {
                News::Outcome(knowledge) => (Question::Outcome(of), is_final(&knowledge)),
                // The front has read it.
                News::Dispute { case, .. } => {
                    (Question::Dispute(DisputeInquiry { of, case }), true)
                }
            };
            return match ask_owner(&**queue, account, question).await? {
                Inquired::NoTransaction => Err(NotificationError::NotThere),
                Inquired::Unreachable => Err(NotificationError::GatewayUnavailable),
                // It answers from something that is behind: the sender repeats it.
                Inquired::Open if is_final => Err(NotificationError::GatewayUnavailable),
                Inquired::Open | Inquired::Final => Ok(true),
            };
        }
        let Notified { payment, transaction, news } = notified;
        match news {
            News::Outcome(knowledge) => {
                let inquired = GatewayInquired { payment, transaction, knowledge, asked_at };
                let answer = InquiryAnswer { tenant, inquired };
                resolver::book(self, answer, actor(self), Lane::Own).await?;
                Ok(true)
            }
            News::Dispute { case, said } => {
                let of = Inquiry { tenant, payment, transaction };
                let of = DisputeInquiry { of, case };
                Ok(disputes::book(self, (gateway, of), (*said, asked_at), actor(self)).await?)
            }
        }
    }

    /// Has the gateway of a transaction asked what became of it, by the owner of the payment's partition, and returns
    /// once the answer is committed.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn inquire(&self, inquiry: Inquiry) -> Result<Inquired, Unavailable> {
        let Transport::Queue(queue) = &self.shared().transport else {
            return self.inquire_for_front(Question::Outcome(inquiry)).await;
        };
        let (tenant, payment) = (inquiry.tenant, inquiry.payment);
        let account = self.read(move |queries| queries.payment_account(tenant, payment)).await?;
        match account {
            Some(account) => ask_owner(&**queue, account, Question::Outcome(inquiry)).await,
            None => Ok(Inquired::NoTransaction),
        }
    }

    /// Asks the gateway of a transaction, because a front asks for that, and commits the answer. A question is
    /// under way once at most: those who ask it meanwhile share the next answer, which may know more.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn inquire_for_front(&self, question: Question) -> Result<Inquired, Unavailable> {
        let Some(gateway) = gateway_of(self, question.of()).await? else {
            return Ok(Inquired::NoTransaction);
        };
        let Some(of_gateway) = self.shared().notifications.by_gateway.get(&gateway) else {
            return Ok(Inquired::Unreachable);
        };
        let (waiter, answered) = oneshot::channel();
        match of_gateway.waiting.add(&question, waiter) {
            None => return Err(Reason::GatewayFull.into()),
            Some(true) => {
                drop(tokio::spawn(inquire_until_all_are_answered(self.clone(), gateway, question)));
            }
            Some(false) => {}
        }
        answered.await.unwrap_or_else(|_| Err(Reason::Bug.into()))
    }
}

/// Has the owner of a payment's partition ask the gateway.
async fn ask_owner(
    queue: &dyn Queue,
    account: AccountId,
    question: Question,
) -> Result<Inquired, Unavailable> {
    let route = Route::Account(question.of().tenant, account);
    match queue.ask(route, Message::Inquire(question)).await? {
        Reply::Inquired(inquired) => Ok(inquired),
        Reply::Answer(_) | Reply::Balance(_) | Reply::Resent => Err(Reason::Bug.into()),
    }
}

async fn inquire_until_all_are_answered(engine: Engine, gateway: String, question: Question) {
    let of_gateway = &engine.shared().notifications.by_gateway[&gateway];
    let _permit = of_gateway.inquiries.acquire().await;
    loop {
        let waiters = of_gateway.waiting.next(&question);
        if waiters.is_empty() {
            return;
        }
        let answer = inquire(&engine, &gateway, question.clone()).await;
        for waiter in waiters {
            // The front's message may have expired.
            drop(waiter.send(answer.clone()));
        }
    }
}

/// The gateway of a transaction; `None` where there is no such transaction.
async fn gateway_of(engine: &Engine, of: &Inquiry) -> Result<Option<String>, Unavailable> {
    let Inquiry { tenant, payment, transaction } = *of;
    let file = engine.read(move |queries| queries.payment(tenant, payment)).await?;
    let found = file.as_ref().and_then(|it| it.transaction(transaction));
    Ok(found.map(|it| it.gateway.clone()))
}

async fn inquire(
    engine: &Engine,
    gateway: &str,
    question: Question,
) -> Result<Inquired, Unavailable> {
    let inquiry = match question {
        Question::Outcome(inquiry) => inquiry,
        Question::Dispute(of) => return disputes::ask(engine, (gateway, of), actor(engine)).await,
    };
    let answer = resolver::ask_gateway(engine, gateway, inquiry).await;
    let knowledge = &answer.inquired.knowledge;
    let inquired = match knowledge {
        // Fronts do not put off the resolver's inquiries.
        GatewayKnowledge::Unreachable => return Ok(Inquired::Unreachable),
        GatewayKnowledge::NotFound | GatewayKnowledge::Found(_) => match is_final(knowledge) {
            true => Inquired::Final,
            false => Inquired::Open,
        },
    };
    resolver::book(engine, answer, actor(engine), Lane::Own).await?;
    Ok(inquired)
}

/// Whether a gateway says that a transaction succeeded or failed.
const fn is_final(knowledge: &GatewayKnowledge) -> bool {
    match knowledge {
        GatewayKnowledge::Found(outcome) => match outcome.status {
            GatewayStatus::Processed | GatewayStatus::Error | GatewayStatus::Canceled => true,
            GatewayStatus::Pending | GatewayStatus::Undefined => false,
        },
        GatewayKnowledge::NotFound | GatewayKnowledge::Unreachable => false,
    }
}

fn actor(engine: &Engine) -> Actor {
    Actor::new(ACTOR.0, ACTOR.1, engine.mint().0)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn notifications() -> Notifications {
        let gateways = ["acme", "bank"].map(str::to_owned);
        Notifications::new(gateways.iter(), &Options::default())
    }

    fn question(transaction: u128) -> Question {
        let transaction = TransactionId::new(Uuid::from_u128(transaction));
        let payment = PaymentId::new(Uuid::from_u128(7));
        Question::Outcome(Inquiry { tenant: TenantNo(1), payment, transaction })
    }

    fn wait(all: &Notifications, transaction: u128) -> Option<bool> {
        wait_for(all, "acme", transaction)
    }

    fn wait_for(all: &Notifications, gateway: &str, transaction: u128) -> Option<bool> {
        all.by_gateway[gateway].waiting.add(&question(transaction), oneshot::channel().0)
    }

    fn next(all: &Notifications, transaction: u128) -> usize {
        all.by_gateway["acme"].waiting.next(&question(transaction)).len()
    }

    #[test]
    fn those_who_ask_while_an_inquiry_runs_share_the_next_one() {
        let all = notifications();
        assert_eq!([wait(&all, 1), wait(&all, 1), wait(&all, 2)], [true, false, true].map(Some));
        assert_eq!(next(&all, 1), 2);
        // An inquiry runs, and may know less than what is notified now.
        assert_eq!([wait(&all, 1), wait(&all, 1)], [Some(false); 2]);
        assert_eq!([next(&all, 1), next(&all, 1), next(&all, 2), next(&all, 2)], [2, 0, 1, 0]);
        assert!(all.by_gateway["acme"].waiting.lock().by_question.is_empty());
        assert_eq!(wait(&all, 1), Some(true), "nothing runs any more");
    }

    #[test]
    fn so_many_wait_and_so_many_are_read_and_no_more() {
        let all = notifications();
        let transactions = (1..).take(WAITING_MAX);
        assert!(transactions.into_iter().all(|it| wait(&all, it) == Some(true)));
        assert_eq!(wait(&all, 1), None);
        assert_eq!(wait_for(&all, "bank", 1), Some(true), "one gateway leaves others room");
        assert_eq!(next(&all, 1), 1);
        assert_eq!(wait(&all, 1), Some(false));
        let begin = |tenant| all.begin_reading("acme", TenantNo(tenant));
        let reading: Vec<_> = (0..64).map(|it| begin(it / 16)).collect();
        assert!(reading.iter().all(Option::is_some));
        assert!(begin(9).is_none());
        drop(reading);
        let of_one: Vec<_> = (0..READING_PER_TENANT_MAX).map(|_| begin(1)).collect();
        assert!(of_one.iter().all(Option::is_some));
        assert!(begin(1).is_none() && begin(2).is_some());
        drop(of_one);
        assert!(begin(1).is_some());
    }
}
