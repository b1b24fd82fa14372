//! Commands and replies as they lie in Kafka's records; `proto/faregate/queue/v1/envelope.proto`
//! describes them.

use std::time::Duration;

use domain::ledger::LedgerAccount;
use domain::{AccountId, Currency, PaymentId, Seq, TenantNo, TransactionId, WebhookEndpointId};
use engine::ports::{DisputeInquiry, Inquiry, LedgerTotal, Question};
use engine::queue::{Inquired, Message, Reply, Resend, SimulatedWork};
use engine::{Answer, Reason, Unavailable};
use prost::Message as _;
use uuid::Uuid;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// Where a reply goes, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// The front instance.
    pub front: u64,
    /// The request, among those of the front.
    pub correlation: u64,
    /// The topic of its replies.
    pub topic: String,
    /// The partition of its replies.
    pub partition: i32,
}

/// A record of a command topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Where the reply goes.
    pub reply_to: ReplyTo,
    /// How long after the log-append time it may still be begun; whole milliseconds.
    pub time_to_live: Duration,
    pub body: CommandBody,
}

/// The body of a command record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandBody {
    /// A message for the partition's owner.
    Ask(Message),
    /// Bytes to send back unchanged.
    Echo(Vec<u8>),
    /// Nothing: its timestamp is read.
    Clock,
}

/// A record of a reply topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyEnvelope {
    /// The front instance that waits.
    pub front: u64,
    /// The request, among those of the front.
    pub correlation: u64,
    pub outcome: ReplyBody,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    Reply(Reply),
    /// It was not done, for this reason; when to try again, in whole milliseconds.
    Unavailable(Reason, Option<Duration>),
    /// Its time to live was over: nothing happened.
    Expired,
    /// The bytes of the request, unchanged.
    Echo(Vec<u8>),
}

/// Why a record could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is of another version.
    #[error("version {0} is not known here")]
    UnknownVersion(u32),
    /// The record is malformed.
    #[error("{0}")]
    Garbage(String),
}

impl EnvelopeError {
    /// Its name in metrics and in the headers of dead letters.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::UnknownVersion(_) => "unknown_version",
            Self::Garbage(_) => "garbage",
        }
    }
}

impl Command {
    /// The record's value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = match &self.body {
            CommandBody::Ask(Message::Request(request)) => {
                wire::CommandBody::Request(json(request))
            }
            CommandBody::Ask(Message::Balance { tenant, account, work }) => {
                let ms = |it: Duration| u32::try_from(it.as_millis()).unwrap_or(u32::MAX);
                wire::CommandBody::Balance(wire::BalanceQuestion {
                    tenant: tenant.0,
                    account: account.uuid().as_bytes().to_vec(),
                    work_from_ms: work.map_or(0, |work| ms(work.from)),
                    work_to_ms: work.map_or(0, |work| ms(work.to)),
                })
            }
            CommandBody::Ask(Message::Inquire(question)) => {
                wire::CommandBody::Inquiry(question_to_wire(question))
            }
            CommandBody::Ask(Message::Resend(resend)) => {
                wire::CommandBody::Resend(resend_to_wire(resend))
            }
            CommandBody::Echo(bytes) => wire::CommandBody::Echo(bytes.clone()),
            CommandBody::Clock => wire::CommandBody::Clock(wire::Nothing {}),
        };
        let command = wire::Command {
            version: VERSION,
            front: self.reply_to.front,
            correlation: self.reply_to.correlation,
            reply_topic: self.reply_to.topic.clone(),
            reply_partition: self.reply_to.partition,
            time_to_live_ms: u32::try_from(self.time_to_live.as_millis()).unwrap_or(u32::MAX),
            body: Some(body),
        };
        command.encode_to_vec()
    }

    /// Reads a record's value.
    ///
    /// # Errors
    /// [`EnvelopeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        check_version(bytes)?;
        let wire = wire::Command::decode(bytes).map_err(garbage)?;
        let body = match wire.body.ok_or_else(|| lacks("body"))? {
            wire::CommandBody::Request(json) => {
                CommandBody::Ask(Message::Request(Box::new(parse("request", &json)?)))
            }
            wire::CommandBody::Balance(question) => {
                let account = Uuid::from_slice(&question.account).map_err(garbage)?;
                let ms = |it: u32| Duration::from_millis(u64::from(it));
                let work =
                    SimulatedWork { from: ms(question.work_from_ms), to: ms(question.work_to_ms) };
                CommandBody::Ask(Message::Balance {
                    tenant: TenantNo(question.tenant),
                    account: AccountId::new(account),
                    work: (!work.to.is_zero()).then_some(work),
                })
            }
            wire::CommandBody::Inquiry(inquiry) => {
                CommandBody::Ask(Message::Inquire(question_from_wire(inquiry)?))
            }
            wire::CommandBody::Resend(resend) => {
                CommandBody::Ask(Message::Resend(resend_from_wire(&resend)?))
            }
            wire::CommandBody::Echo(bytes) => CommandBody::Echo(bytes),
            wire::CommandBody::Clock(_) => CommandBody::Clock,
        };
        let reply_to = ReplyTo {
            front: wire.front,
            correlation: wire.correlation,
            topic: wire.reply_topic,
            partition: wire.reply_partition,
        };
        let time_to_live = Duration::from_millis(u64::from(wire.time_to_live_ms));
        Ok(Self { reply_to, time_to_live, body })
    }
}

impl ReplyEnvelope {
    /// The record's value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = match &self.outcome {
            ReplyBody::Reply(Reply::Answer(answer)) => match answer {
                Answer::Replied(reply) => wire::ReplyBody::Replied(json(reply)),
                Answer::Refused(rejection) => wire::ReplyBody::Refused(json(rejection)),
                Answer::StillRunning => wire::ReplyBody::StillRunning(wire::Nothing {}),
                Answer::AnotherRequest => wire::ReplyBody::AnotherRequest(wire::Nothing {}),
            },
            ReplyBody::Reply(Reply::Balance(totals)) => wire::ReplyBody::Balance(wire::Balance {
                found: totals.is_some(),
                totals: totals.iter().flatten().map(total_to_wire).collect(),
            }),
            ReplyBody::Reply(Reply::Inquired(inquired)) => {
                wire::ReplyBody::Inquired(wire::Inquired { result: inquired_to_wire(*inquired) })
            }
            ReplyBody::Reply(Reply::Resent) => wire::ReplyBody::Resent(wire::Nothing {}),
            ReplyBody::Unavailable(reason, retry_after) => {
                let milliseconds = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
                wire::ReplyBody::Unavailable(wire::Refusal {
                    reason: reason.label().to_owned(),
                    retry_after_ms: retry_after.map(milliseconds),
                })
            }
            ReplyBody::Expired => wire::ReplyBody::Expired(wire::Nothing {}),
            ReplyBody::Echo(bytes) => wire::ReplyBody::Echo(bytes.clone()),
        };
        let reply = wire::Reply {
            version: VERSION,
            front: self.front,
            correlation: self.correlation,
            body: Some(body),
        };
        reply.encode_to_vec()
    }

    /// Reads a record's value.
    ///
    /// # Errors
    /// [`EnvelopeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        check_version(bytes)?;
        let wire = wire::Reply::decode(bytes).map_err(garbage)?;
        let answer = |answer| ReplyBody::Reply(Reply::Answer(answer));
        let outcome = match wire.body.ok_or_else(|| lacks("body"))? {
            wire::ReplyBody::Replied(json) => answer(Answer::Replied(parse("replied", &json)?)),
            wire::ReplyBody::Refused(json) => answer(Answer::Refused(parse("refused", &json)?)),
            wire::ReplyBody::StillRunning(_) => answer(Answer::StillRunning),
            wire::ReplyBody::AnotherRequest(_) => answer(Answer::AnotherRequest),
            wire::ReplyBody::Unavailable(refusal) => {
                let retry_after = refusal.retry_after_ms.map(Duration::from_millis);
                ReplyBody::Unavailable(reason(&refusal.reason), retry_after)
            }
            wire::ReplyBody::Balance(balance) => {
                let totals = balance.totals.iter().map(total_from_wire);
                let totals = totals.collect::<Result<Vec<_>, _>>()?;
                ReplyBody::Reply(Reply::Balance(balance.found.then_some(totals)))
            }
            wire::ReplyBody::Inquired(inquired) => {
                ReplyBody::Reply(Reply::Inquired(inquired_from_wire(inquired.result)?))
            }
            wire::ReplyBody::Resent(_) => ReplyBody::Reply(Reply::Resent),
            wire::ReplyBody::Expired(_) => ReplyBody::Expired,
            wire::ReplyBody::Echo(bytes) => ReplyBody::Echo(bytes),
        };
        Ok(Self { front: wire.front, correlation: wire.correlation, outcome })
    }
}

impl From<Unavailable> for ReplyBody {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable.reason, unavailable.retry_after)
    }
}

/// The reason of that name. One that a newer processor made up promises nothing.
fn reason(label: &str) -> Reason {
    let known = Reason::ALL.into_iter().find(|reason| reason.label() == label);
    known.unwrap_or(Reason::CommitInDoubt)
}

/// The version is read first, and alone: whatever else a later one holds.
fn check_version(bytes: &[u8]) -> Result<(), EnvelopeError> {
    let version = wire::Version::decode(bytes).map_err(garbage)?.version;
    match version {
        VERSION => Ok(()),
        0 => Err(lacks("version")),
        other => Err(EnvelopeError::UnknownVersion(other)),
    }
}

fn garbage(error: impl std::fmt::Display) -> EnvelopeError {
    EnvelopeError::Garbage(error.to_string())
}

fn lacks(field: &str) -> EnvelopeError {
    EnvelopeError::Garbage(format!("it has no {field}"))
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the domain's types are JSON: they lie in the journal as it")
}

/// The error says where it is, not what stands there: it may be personal.
fn parse<T: serde::de::DeserializeOwned>(field: &str, json: &[u8]) -> Result<T, EnvelopeError> {
    serde_json::from_slice(json).map_err(|error| {
        let (kind, column) = (error.classify(), error.column());
        EnvelopeError::Garbage(format!("{field}: {kind:?} error at byte {column} of the JSON"))
    })
}

const fn inquired_to_wire(inquired: Inquired) -> u32 {
    match inquired {
        Inquired::NoTransaction => 1,
        Inquired::Unreachable => 2,
        Inquired::Open => 3,
        Inquired::Final => 4,
    }
}

fn inquired_from_wire(result: u32) -> Result<Inquired, EnvelopeError> {
    match result {
        1 => Ok(Inquired::NoTransaction),
        2 => Ok(Inquired::Unreachable),
        3 => Ok(Inquired::Open),
        4 => Ok(Inquired::Final),
        other => Err(garbage(format_args!("result {other} of an inquiry is not known"))),
    }
}

fn question_to_wire(question: &Question) -> wire::Inquiry {
    let Inquiry { tenant, payment, transaction } = question.of();
    wire::Inquiry {
        tenant: tenant.0,
        payment: payment.uuid().as_bytes().to_vec(),
        transaction: transaction.uuid().as_bytes().to_vec(),
        dispute: match question {
            Question::Outcome(_) => None,
            Question::Dispute(it) => Some(it.case.clone()),
        },
    }
}

fn question_from_wire(inquiry: wire::Inquiry) -> Result<Question, EnvelopeError> {
    let id = |bytes: &[u8]| Uuid::from_slice(bytes).map_err(garbage);
    let of = Inquiry {
        tenant: TenantNo(inquiry.tenant),
        payment: PaymentId::new(id(&inquiry.payment)?),
        transaction: TransactionId::new(id(&inquiry.transaction)?),
    };
    Ok(match inquiry.dispute {
        None => Question::Outcome(of),
        Some(case) => Question::Dispute(DisputeInquiry { of, case }),
    })
}

fn resend_to_wire(resend: &Resend) -> wire::Resend {
    wire::Resend {
        tenant: resend.tenant.0,
        seq: resend.seq.0,
        ordinal: u32::from(resend.ordinal),
        endpoints: resend.endpoints.iter().map(|it| it.uuid().as_bytes().to_vec()).collect(),
    }
}

fn resend_from_wire(resend: &wire::Resend) -> Result<Resend, EnvelopeError> {
    let id = |bytes: &Vec<u8>| Uuid::from_slice(bytes).map(WebhookEndpointId::new).map_err(garbage);
    Ok(Resend {
        tenant: TenantNo(resend.tenant),
        seq: Seq(resend.seq),
        ordinal: u16::try_from(resend.ordinal).map_err(garbage)?,
        endpoints: resend.endpoints.iter().map(id).collect::<Result<_, _>>()?,
    })
}

fn total_to_wire(total: &LedgerTotal) -> wire::LedgerTotal {
    wire::LedgerTotal {
        account: match total.account {
            LedgerAccount::Customer => 1,
            LedgerAccount::Gateway => 2,
            LedgerAccount::Refunds => 3,
            LedgerAccount::Disputes => 4,
            LedgerAccount::DisputeExcess => 5,
            LedgerAccount::Sales => 6,
            LedgerAccount::Tax => 7,
        },
        gateway: total.gateway.clone(),
        currency: total.currency.code().to_owned(),
        debit: total.debit.to_string(),
        credit: total.credit.to_string(),
    }
}

fn total_from_wire(total: &wire::LedgerTotal) -> Result<LedgerTotal, EnvelopeError> {
    let account = match total.account {
        1 => LedgerAccount::Customer,
        2 => LedgerAccount::Gateway,
        3 => LedgerAccount::Refunds,
        4 => LedgerAccount::Disputes,
        5 => LedgerAccount::DisputeExcess,
        6 => LedgerAccount::Sales,
        7 => LedgerAccount::Tax,
        other => return Err(garbage(format_args!("ledger account {other} is not known"))),
    };
    let currency = Currency::parse(&total.currency).ok_or_else(|| lacks("currency"))?;
    let (debit, credit) = (total.debit.parse(), total.credit.parse());
    let (debit, credit) = (debit.map_err(garbage)?, credit.map_err(garbage)?);
    Ok(LedgerTotal { account, gateway: total.gateway.clone(), currency, debit, credit })
}

/// The messages of the `.proto` file.
mod wire {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Version {
        #[prost(uint32, tag = "1")]
        pub version: u32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Nothing {}

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Command {
        #[prost(uint32, tag = "1")]
        pub version: u32,
        #[prost(fixed64, tag = "2")]
        pub front: u64,
        #[prost(fixed64, tag = "3")]
        pub correlation: u64,
        #[prost(string, tag = "4")]
        pub reply_topic: String,
        #[prost(int32, tag = "5")]
        pub reply_partition: i32,
        #[prost(uint32, tag = "6")]
        pub time_to_live_ms: u32,
        #[prost(oneof = "CommandBody", tags = "7, 8, 9, 10, 11, 12")]
        pub body: Option<CommandBody>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum CommandBody {
        #[prost(bytes, tag = "7")]
        Request(Vec<u8>),
        #[prost(message, tag = "8")]
        Balance(BalanceQuestion),
        #[prost(bytes, tag = "9")]
        Echo(Vec<u8>),
        #[prost(message, tag = "10")]
        Clock(Nothing),
        #[prost(message, tag = "11")]
        Inquiry(Inquiry),
        #[prost(message, tag = "12")]
        Resend(Resend),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Resend {
        #[prost(uint32, tag = "1")]
        pub tenant: u32,
        #[prost(int64, tag = "2")]
        pub seq: i64,
        #[prost(uint32, tag = "3")]
        pub ordinal: u32,
        #[prost(bytes, repeated, tag = "4")]
        pub endpoints: Vec<Vec<u8>>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Inquiry {
        #[prost(uint32, tag = "1")]
        pub tenant: u32,
        #[prost(bytes, tag = "2")]
        pub payment: Vec<u8>,
        #[prost(bytes, tag = "3")]
        pub transaction: Vec<u8>,
        #[prost(string, optional, tag = "4")]
        pub dispute: Option<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct BalanceQuestion {
        #[prost(uint32, tag = "1")]
        pub tenant: u32,
        #[prost(bytes, tag = "2")]
        pub account: Vec<u8>,
        #[prost(uint32, tag = "3")]
        pub work_from_ms: u32,
        #[prost(uint32, tag = "4")]
        pub work_to_ms: u32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Reply {
        #[prost(uint32, tag = "1")]
        pub version: u32,
        #[prost(fixed64, tag = "2")]
        pub front: u64,
        #[prost(fixed64, tag = "3")]
        pub correlation: u64,
        #[prost(oneof = "ReplyBody", tags = "4, 5, 6, 7, 8, 9, 10, 11, 12, 13")]
        pub body: Option<ReplyBody>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum ReplyBody {
        #[prost(bytes, tag = "4")]
        Replied(Vec<u8>),
        #[prost(bytes, tag = "5")]
        Refused(Vec<u8>),
        #[prost(message, tag = "6")]
        StillRunning(Nothing),
        #[prost(message, tag = "7")]
        AnotherRequest(Nothing),
        #[prost(message, tag = "8")]
        Unavailable(Refusal),
        #[prost(message, tag = "9")]
        Balance(Balance),
        #[prost(message, tag = "10")]
        Expired(Nothing),
        #[prost(bytes, tag = "11")]
        Echo(Vec<u8>),
        #[prost(message, tag = "12")]
        Inquired(Inquired),
        #[prost(message, tag = "13")]
        Resent(Nothing),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Inquired {
        #[prost(uint32, tag = "1")]
        pub result: u32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Refusal {
        #[prost(string, tag = "1")]
        pub reason: String,
        #[prost(uint64, optional, tag = "2")]
        pub retry_after_ms: Option<u64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Balance {
        #[prost(bool, tag = "1")]
        pub found: bool,
        #[prost(message, repeated, tag = "2")]
        pub totals: Vec<LedgerTotal>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct LedgerTotal {
        #[prost(uint32, tag = "1")]
        pub account: u32,
        #[prost(string, tag = "2")]
        pub gateway: String,
        #[prost(string, tag = "3")]
        pub currency: String,
        #[prost(string, tag = "4")]
        pub debit: String,
        #[prost(string, tag = "5")]
        pub credit: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::payment::{Actor, TransactionStatus};
    use domain::tenant::SetTenantValue;
    use domain::{PaymentReply, PaymentResult, Rejection, Request, RequestId, TenantRejection};

    fn id(last: u128) -> Uuid {
        Uuid::from_u128(0x0192_aabb_ccdd_7000_8000_0000_0000_0000 + last)
    }

    fn request() -> Request {
        let actor = Actor {
            user: "u".to_owned(),
            created_by: "t".to_owned(),
            reason: None,
            comments: Some("ä \"quoted\"".to_owned()),
            token: id(9),
        };
        let command =
            domain::Command::Tenant(domain::command::TenantCommand::SetValue(SetTenantValue {
                key: "k".to_owned(),
                value: Some("v".to_owned()),
                rules: None,
            }));
        let id = RequestId(id(1));
        Request { id, tenant: TenantNo(3), actor, idempotency: None, command }
    }

    fn command(body: CommandBody) -> Command {
        let topic = "faregate.reply".to_owned();
        let reply_to = ReplyTo { front: u64::MAX, correlation: 0x1_0000_0002, topic, partition: 2 };
        Command { reply_to, time_to_live: Duration::from_secs(30), body }
    }

    fn inquiry() -> Inquiry {
        Inquiry {
            tenant: TenantNo(3),
            payment: PaymentId::new(id(5)),
            transaction: TransactionId::new(id(6)),
        }
    }

    #[test]
    fn commands_come_back_as_they_were() {
        let account = AccountId::new(id(4));
        for body in [
            CommandBody::Ask(Message::Request(Box::new(request()))),
            CommandBody::Ask(Message::Balance { tenant: TenantNo(3), account, work: None }),
            CommandBody::Ask(Message::Balance {
                tenant: TenantNo(3),
                account,
                work: Some(SimulatedWork {
                    from: Duration::from_secs(2),
                    to: Duration::from_secs(5),
                }),
            }),
            CommandBody::Ask(Message::Inquire(Question::Outcome(inquiry()))),
            CommandBody::Ask(Message::Inquire(Question::Dispute(DisputeInquiry {
                of: inquiry(),
                case: "du_1".to_owned(),
            }))),
            CommandBody::Ask(Message::Resend(Resend {
                tenant: TenantNo(3),
                seq: Seq(i64::MAX),
                ordinal: u16::MAX,
                endpoints: vec![WebhookEndpointId::new(Uuid::nil()), WebhookEndpointId::new(id(7))],
            })),
            CommandBody::Echo(vec![0, 255, 10]),
            CommandBody::Clock,
        ] {
            let command = command(body);
            assert_eq!(Command::decode(&command.encode()), Ok(command));
        }
    }

    #[test]
    fn replies_come_back_as_they_were() {
        let payment = domain::Reply::Payment(PaymentReply {
            payment: PaymentId::new(id(2)),
            transaction: TransactionId::new(id(3)),
            result: PaymentResult::Status { status: TransactionStatus::Success, message: None },
        });
        let refused = Rejection::Tenant(TenantRejection::AlreadyExists { key: "k".to_owned() });
        let total = |account| LedgerTotal {
            account,
            gateway: "g".to_owned(),
            currency: Currency::parse("EUR").unwrap(),
            debit: i128::MAX,
            credit: i128::MIN,
        };
        use LedgerAccount::{Customer, Disputes, Gateway, Refunds};
        let totals = [Customer, Gateway, Refunds, Disputes].map(total).to_vec();
        let answers = [
            Answer::Replied(payment),
            Answer::Refused(refused),
            Answer::StillRunning,
            Answer::AnotherRequest,
        ];
        let refusals =
            Reason::ALL.map(|reason| ReplyBody::from(Unavailable::from(reason))).into_iter();
        let balances = [None, Some(vec![]), Some(totals)];
        let outcomes = answers.into_iter().map(|it| ReplyBody::Reply(Reply::Answer(it)));
        let outcomes = outcomes.chain(balances.map(|it| ReplyBody::Reply(Reply::Balance(it))));
        let inquired =
            [Inquired::NoTransaction, Inquired::Unreachable, Inquired::Open, Inquired::Final];
        let inquired = inquired.map(|it| ReplyBody::Reply(Reply::Inquired(it)));
        let outcomes = outcomes.chain(inquired).chain([ReplyBody::Reply(Reply::Resent)]);
        for outcome in
            outcomes.chain(refusals).chain([ReplyBody::Expired, ReplyBody::Echo(vec![7])])
        {
            let answered = ReplyEnvelope { front: 5, correlation: 6, outcome };
            assert_eq!(ReplyEnvelope::decode(&answered.encode()), Ok(answered));
        }
    }

    #[test]
    fn a_reason_of_a_newer_processor_promises_nothing() {
        assert_eq!(reason("made_up_later"), Reason::CommitInDoubt);
    }

    fn check(bytes: &[u8], label: &str, message: &str) {
        let error = Command::decode(bytes).unwrap_err();
        assert_eq!((error.label(), error.to_string().as_str()), (label, message));
    }

    #[test]
    fn records_that_are_not_commands_are_distinguished() {
        check(b"", "garbage", "it has no version");
        let good = command(CommandBody::Ask(Message::Request(Box::new(request())))).encode();
        assert!(good.starts_with(&[8, 1]), "version 1 in field 1");
        check(&[&[8, 2], &good[2..]].concat(), "unknown_version", "version 2 is not known here");
        // A later version may give the other numbers to other types.
        check(&[8, 9, 0x12, 0], "unknown_version", "version 9 is not known here");
        check(&good[..2], "garbage", "it has no body");
        for length in 1..good.len() {
            assert!(Command::decode(&good[..length]).is_err(), "cut to {length} bytes");
        }
        let body = wire::CommandBody::Request(b"{\"secret\": 1}".to_vec());
        let wire = wire::Command { version: 1, body: Some(body), ..wire::Command::default() };
        check(&wire.encode_to_vec(), "garbage", "request: Data error at byte 13 of the JSON");
        let body = wire::CommandBody::Balance(wire::BalanceQuestion {
            tenant: 1,
            account: vec![1, 2, 3],
            work_from_ms: 0,
            work_to_ms: 0,
        });
        let wire = wire::Command { version: 1, body: Some(body), ..wire::Command::default() };
        assert_eq!(Command::decode(&wire.encode_to_vec()).unwrap_err().label(), "garbage");
    }
}
