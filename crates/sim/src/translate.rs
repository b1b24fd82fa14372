//! Between the simulation's words and those of the code under test: requests one way, answers the
//! other.

mod disputes;
mod routing;
mod signing;

use domain::account::blocking_state::{AddBlockingState, Blockable, Blocks, CloseAccount};
use domain::account::payment_method::{
    CreatePaymentMethod, DeletePaymentMethod, SetDefaultPaymentMethod,
};
use domain::change::{Change, CustomerChange, Image};
use domain::command::{AccountCommand, PaymentCommand, TenantCommand};
use domain::context::RoutingSettings;
use domain::customer::Customer;
use domain::payment::attempt::RetryPayment;
use domain::payment::combo::{ComboAccount, ComboMethod, ExistingAccount, InitiateCombo};
use domain::payment::dispute::Dispute;
use domain::payment::{
    Actor, CANCEL, Complete, ExpireAction, FixTransaction, FollowUp, GatewayAnswer,
    GatewayInquired, GatewayKnowledge, GatewayOutcome, GatewayReplied, GatewayStatus, Initiate,
    Payment, ReplyKey, ResolvePending, Transaction, TransactionStatus, TransactionType,
};
use domain::reply::AccountReply;
use domain::tenant::payment_rules::{AmountLimits, ControlPlugin, Limits, RulesPart};
use domain::tenant::{CreateTenant, PLUGIN_CONFIGURATION, SetTenantValue, Tenant};
use domain::{
    Account, AccountRejection, AmountMinor, Command, Currency, GatewayCall, GatewaySettings, Id,
    Idempotency, PaymentMethod, PaymentRejection, PaymentResult, Person, Rejection, Reply, Request,
    RequestId, Settings, TenantNo, TenantRejection, Timestamp, account,
};
use engine::Answer;
use engine::partition::Verdict;
use engine::ports::Entry;
use uuid::Uuid;

use crate::ask::{
    self, Again, Ask, CURRENCIES, Code, Combo, Completion, Created, Dropped, End, Follow, Heard,
    How, Kind, Known, Means, Outcome, Payer, Reason, Said, Start, Status, Uid, What,
};
use crate::model::Rules;

pub use disputes::status_of as dispute_status;
pub use signing::letter;

/// The settings, for the code under test.
#[must_use]
pub fn settings(rules: &Rules) -> Settings {
    let gateways = rules.gateways.iter().map(|(name, terms)| {
        let settings = GatewaySettings {
            settles_at_once: terms.at_once,
            needs_merchant_account: false,
            attaches_methods: false,
            action_timeout_us: terms.action_timeout_us,
            timeout_us: terms.timeout_us,
            settle_after_us: terms.settle_after_us,
        };
        ((*name).to_owned(), settings)
    });
    Settings {
        gateways: gateways.collect(),
        unknown_delays_us: rules.unknown_delays_us.clone(),
        pending_delays_us: rules.pending_delays_us.clone(),
        reply_keep_us: rules.reply_keep_us,
        transactions_per_payment_max: rules.transactions_max,
        routing: RoutingSettings {
            deadline_us: rules.tries_us,
            next_try_min_us: rules.next_try_min_us,
        },
    }
}

/// A request, as the code under test takes it.
#[must_use]
pub fn request(ask: &Ask) -> Request {
    let id = Uuid::from_u128(ask.id);
    Request {
        id: RequestId(id),
        tenant: TenantNo(ask.tenant),
        actor: Actor {
            user: "sim".to_owned(),
            created_by: "sim".to_owned(),
            reason: matches!(ask.what, What::Fix { has_reason: true, .. })
                .then(|| "settlement file".to_owned()),
            comments: None,
            token: id,
        },
        idempotency: ask.repeat.map(|repeat| Idempotency {
            key: ReplyKey(Uuid::from_u128(repeat.key)),
            fingerprint: Uuid::from_u128(repeat.print),
        }),
        command: command(&ask.what, ask.id),
    }
}

fn command(what: &What, request: Uid) -> Command {
    match what {
        What::NewTenant { api_key } => Command::Tenant(TenantCommand::Create(CreateTenant {
            id: None,
            external_key: None,
            api_key: api_key.clone(),
            secret_hash: String::new(),
        })),
        What::SetValue { key, value } => Command::Tenant(TenantCommand::SetValue(SetTenantValue {
            key: key.clone(),
            value: value.clone(),
            rules: None,
        })),
        What::SetLimits { limits } => Command::Tenant(TenantCommand::SetValue(set_limits(*limits))),
        What::SetRouting(orders) => {
            Command::Tenant(TenantCommand::SetValue(routing::set_routing(*orders)))
        }
        What::NewAccount { key, currency } => Command::Account(AccountCommand::Create(Box::new(
            new_account(key.clone(), currency.map(currency_of)),
        ))),
        What::Rename { account, name } => {
            Command::Account(AccountCommand::Update(Box::new(rename(*account, name.clone()))))
        }
        What::NewMethod { account, key, gateway, default } => {
            Command::Account(AccountCommand::CreatePaymentMethod(CreatePaymentMethod {
                external_key: key.clone(),
                is_default: *default,
                properties: routing::properties_of(gateway),
                ..CreatePaymentMethod::default_of(id(*account), (*gateway).to_owned())
            }))
        }
        What::SetDefault { account, method } => {
            Command::Account(AccountCommand::SetDefaultPaymentMethod(SetDefaultPaymentMethod {
                account: id(*account),
                payment_method: id(*method),
            }))
        }
        What::DropMethod { method, if_default } => {
            let (even_if_default, auto_pay_off) = match if_default {
                Dropped::Not => (false, None),
                Dropped::Even => (true, None),
                Dropped::Suspending(account) => (false, Some(id(*account))),
            };
            let payment_method = id(*method);
            let it = DeletePaymentMethod { payment_method, even_if_default, auto_pay_off };
            Command::Account(AccountCommand::DeletePaymentMethod(it))
        }
        What::Close { account } => Command::Account(AccountCommand::Close(CloseAccount {
            account: id(*account),
            remove_future_notifications: true,
            cancel_subscriptions: false,
        })),
        What::Record { account, service, state } => record(*account, service, state),
        What::Customers(wish) => signing::command(wish, request),
        What::Start(it) => start(it),
        What::Combo(it) => combo(it),
        What::Retry(it) => again(it),
        What::Disputed(it) => disputes::record(it),
        What::BookDispute(it) => disputes::book(it),
        What::WarnOfDispute(it) => disputes::warn(it),
        What::GiveUp(it) => Command::Payment(PaymentCommand::ExpireAction(ExpireAction {
            payment: id(it.payment),
            transaction: id(it.transaction),
            due: Timestamp(it.due),
        })),
        What::Follow(it) => follow(it),
        What::Complete(it) => complete(it),
        What::Hearsay { .. } | What::Fix { .. } | What::Replied { .. } | What::Inquired { .. } => {
            ending(what)
        }
    }
}

fn complete(it: &Completion) -> Command {
    Command::Payment(PaymentCommand::Complete(Complete {
        payment: id(it.payment),
        transaction: it.transaction.map(id),
        transaction_key: it.key.clone(),
        kind: it.kind.map(kind_of),
        amount: it.amount.clone(),
        currency: None,
        properties: it
            .cancels
            .then(|| (CANCEL.to_owned(), "true".to_owned()))
            .into_iter()
            .collect(),
    }))
}

fn record(account: Uid, service: &str, state: &str) -> Command {
    Command::Account(AccountCommand::AddBlockingState(AddBlockingState {
        account: id(account),
        of: Blockable::Account,
        service: service.to_owned(),
        name: state.to_owned(),
        // As closing does.
        blocks: Blocks { change: state == "CLOSE_ACCOUNT", ..Blocks::default() },
        effective_at: None,
    }))
}

/// The command that ends a transaction.
fn ending(what: &What) -> Command {
    match what {
        What::Hearsay { payment, transaction, worked } => {
            Command::Payment(PaymentCommand::ResolvePending(ResolvePending {
                payment: id(*payment),
                transaction: id(*transaction),
                success: *worked,
            }))
        }
        What::Fix { payment, transaction, status, has_reason: _ } => {
            Command::Payment(PaymentCommand::FixTransaction(FixTransaction {
                payment: id(*payment),
                transaction: id(*transaction),
                status: status_of(*status),
            }))
        }
        What::Replied { payment, transaction, heard, is_controlled } => {
            Command::Payment(PaymentCommand::GatewayReplied(GatewayReplied {
                payment: id(*payment),
                transaction: id(*transaction),
                answer: answer_of(*heard),
                is_controlled: *is_controlled,
                tries: None,
            }))
        }
        What::Inquired { payment, transaction, known, asked_at } => {
            Command::Payment(PaymentCommand::GatewayInquired(GatewayInquired {
                payment: id(*payment),
                transaction: id(*transaction),
                knowledge: knowledge_of(*known),
                asked_at: Timestamp(*asked_at),
            }))
        }
        What::NewTenant { .. }
        | What::SetValue { .. }
        | What::SetLimits { .. }
        | What::SetRouting(_)
        | What::NewAccount { .. }
        | What::Rename { .. }
        | What::NewMethod { .. }
        | What::SetDefault { .. }
        | What::DropMethod { .. }
        | What::Close { .. }
        | What::Record { .. }
        | What::Customers(_)
        | What::Start(_)
        | What::Combo(_)
        | What::Retry(_)
        | What::Disputed(_)
        | What::BookDispute(_)
        | What::WarnOfDispute(_)
        | What::GiveUp(_)
        | What::Follow(_)
        | What::Complete(_) => unreachable!("{what:?} ends no transaction"),
    }
}

/// The control plugin that checks limits.
const RULES: &str = ControlPlugin::FaregateRules.name();

fn control(is_controlled: bool) -> Vec<String> {
    is_controlled.then(|| RULES.to_owned()).into_iter().collect()
}

fn set_limits(limits: Option<ask::Limits>) -> SetTenantValue {
    let rules = limits.map(|it| {
        let amount = |minor: Option<i64>| minor.map(AmountMinor);
        let amounts = AmountLimits { payment: amount(it.amount), day: amount(it.amount_a_day) };
        RulesPart::Limits(Limits {
            every_payment: it.every,
            amounts: [(currency_of(ask::LIMITED), amounts)].into(),
            payments_per_day: Some(it.a_day),
            lower_amounts: it.lowers,
            method_gateways: it.methods_of.iter().map(|it| (*it).to_owned()).collect(),
            ..Limits::default()
        })
    });
    let value = rules.as_ref().map(|_| "limits".to_owned());
    SetTenantValue { key: format!("{PLUGIN_CONFIGURATION}{RULES}"), value, rules }
}

fn new_account(key: Option<String>, currency: Option<Currency>) -> account::CreateAccount {
    account::CreateAccount { external_key: key, currency, ..account::CreateAccount::default() }
}

fn rename(account: Uid, name: String) -> account::UpdateAccount {
    account::UpdateAccount {
        person: Person { name: Some(name), ..Person::default() },
        ..account::UpdateAccount::unchanged(id(account))
    }
}

/// The property that asks for retries.
fn retries() -> (String, String) {
    ("IPCD_RETRIES".to_owned(), "true".to_owned())
}

fn again(it: &Again) -> Command {
    Command::Payment(PaymentCommand::Retry(RetryPayment {
        account: id(it.account),
        payment: id(it.payment),
        attempt: id(it.attempt),
        transaction_key: it.key.clone(),
        is_answered: it.is_answered,
        due: domain::Timestamp(it.due),
    }))
}

fn start(it: &Start) -> Command {
    let initiate = Initiate {
        account: id(it.account),
        payment: it.payment.map(id),
        payment_method: it.method.map(id),
        payment_key: it.payment_key.clone(),
        transaction_key: it.key.clone(),
        amount: it.amount.clone(),
        currency: it.currency.map(currency_of),
        properties: it.asks_for_retries.then(retries).into_iter().collect(),
        control: control(it.is_controlled),
        approved: vec![],
        gateways: vec![],
    };
    match it.kind {
        Kind::Authorize => Command::Payment(PaymentCommand::Authorize(initiate)),
        Kind::Credit => Command::Payment(PaymentCommand::Credit(initiate)),
        Kind::Purchase => Command::Payment(PaymentCommand::Purchase(initiate)),
        Kind::Capture | Kind::Refund | Kind::Void | Kind::Chargeback | Kind::Reversal => {
            unreachable!("a payment does not start with a {:?}", it.kind)
        }
    }
}

fn combo(it: &Combo) -> Command {
    let account = match &it.payer {
        Payer::Known { account, currency } => ComboAccount::Existing(ExistingAccount {
            id: id(*account),
            external_key: None,
            currency: currency.map(currency_of),
        }),
        Payer::New { key, currency } => {
            ComboAccount::New(Box::new(new_account(key.clone(), currency.map(currency_of))))
        }
    };
    let payment_method = it.means.as_ref().map(|means| match means {
        Means::Known(method) => ComboMethod { id: Some(id(*method)), ..ComboMethod::default() },
        Means::Named { key, gateway } => ComboMethod {
            external_key: key.clone(),
            gateway: Some((*gateway).to_owned()),
            properties: routing::properties_of(gateway),
            ..ComboMethod::default()
        },
    });
    let start = &it.start;
    Command::Payment(PaymentCommand::InitiateCombo(Box::new(InitiateCombo {
        kind: kind_of(start.kind),
        account,
        payment_method,
        payment: start.payment.map(id),
        payment_key: start.payment_key.clone(),
        transaction_key: start.key.clone(),
        amount: start.amount.clone(),
        currency: start.currency.map(currency_of),
        properties: start.asks_for_retries.then(retries).into_iter().collect(),
        control: control(start.is_controlled),
        approved: vec![],
        gateways: vec![],
    })))
}

fn follow(it: &Follow) -> Command {
    let follow_up = FollowUp {
        transaction_key: it.key.clone(),
        amount: it.amount.clone(),
        currency: it.currency.map(currency_of),
        control: control(it.is_controlled),
        approved: vec![],
        ..FollowUp::of(id(it.payment))
    };
    match it.kind {
        Kind::Capture => Command::Payment(PaymentCommand::Capture(follow_up)),
        Kind::Refund => Command::Payment(PaymentCommand::Refund(follow_up)),
        Kind::Void => Command::Payment(PaymentCommand::Void(follow_up)),
        Kind::Chargeback => Command::Payment(PaymentCommand::Chargeback(follow_up)),
        Kind::Reversal => Command::Payment(PaymentCommand::ReverseChargeback(follow_up)),
        Kind::Authorize | Kind::Credit | Kind::Purchase => {
            unreachable!("a {:?} does not follow on a payment", it.kind)
        }
    }
}

/// What a gateway's client heard, as the code under test takes it.
#[must_use]
pub fn answer_of(heard: Heard) -> GatewayAnswer {
    match heard {
        Heard::Said(outcome) => GatewayAnswer::Outcome(outcome_of(outcome)),
        Heard::Broke => GatewayAnswer::Failed { message: "it broke".to_owned() },
        Heard::Silence => GatewayAnswer::Nothing,
        Heard::TooLate => GatewayAnswer::TimedOut,
        Heard::NotSent => GatewayAnswer::not_reached("no route".to_owned()),
    }
}

/// What a gateway said when it was asked, as the code under test takes it.
#[must_use]
pub fn knowledge_of(known: Known) -> GatewayKnowledge {
    match known {
        Known::Found(outcome) => GatewayKnowledge::Found(outcome_of(outcome)),
        Known::NotFound => GatewayKnowledge::NotFound,
        Known::Unreachable => GatewayKnowledge::Unreachable,
    }
}

fn outcome_of(outcome: Outcome) -> GatewayOutcome {
    let declined = outcome.end == End::Error;
    GatewayOutcome {
        status: match outcome.end {
            End::Processed => GatewayStatus::Processed,
            End::Pending => GatewayStatus::Pending,
            End::Error => GatewayStatus::Error,
            End::Canceled => GatewayStatus::Canceled,
            End::Undefined => GatewayStatus::Undefined,
        },
        amount: outcome.amount.map(AmountMinor),
        currency: outcome.currency.map(currency_of),
        error_code: declined.then(|| "51".to_owned()),
        error_message: declined.then(|| "insufficient funds".to_owned()),
        first_reference: None,
        second_reference: None,
        next_action: outcome.acts.then(|| "sealed".to_owned()),
        payment_method: None,
    }
}

/// The reply that a verdict gives, in the model's types.
#[must_use]
pub fn said(verdict: &Verdict) -> Said {
    match verdict {
        Verdict::Answered(Answer::Replied(reply)) => said_by(reply),
        Verdict::Answered(Answer::Refused(rejection)) => Said::Refused(reason(rejection)),
        Verdict::Answered(Answer::StillRunning) => Said::StillRunning,
        Verdict::Answered(Answer::AnotherRequest) => Said::AnotherRequest,
        Verdict::Waits(effect) => Said::Waits(effect.uuid().as_u128()),
        Verdict::Unavailable(reason) => Said::Unavailable(reason.label()),
    }
}

fn said_by(reply: &Reply) -> Said {
    match reply {
        // The model knows tenants by number, and names by what it gave them.
        Reply::Done
        | Reply::TenantCreated(_)
        | Reply::TagDefinitionCreated(_)
        | Reply::Access(_) => Said::Done,
        // The workload asks for none of these.
        Reply::Flag(_) | Reply::Entitlement(_) | Reply::Billing(_) | Reply::Imported { .. } => {
            Said::Done
        }
        Reply::Customer(it) => signing::said_by(it),
        Reply::PaymentAborted(_) => Said::Aborted,
        Reply::Account(AccountReply::Created(id)) => Said::Made(id.uuid().as_u128()),
        Reply::Account(AccountReply::PaymentMethodCreated(id)) => Said::Made(id.uuid().as_u128()),
        // No gateway of the simulation attaches methods.
        Reply::Account(
            AccountReply::PaymentMethodPending(_) | AccountReply::PaymentMethodRefused(_),
        ) => Said::Done,
        Reply::Payment(paid) => Said::Paid {
            payment: paid.payment.uuid().as_u128(),
            transaction: paid.transaction.uuid().as_u128(),
            how: match &paid.result {
                PaymentResult::Status { status, .. } => How::Is(status_from(*status)),
                PaymentResult::AmountNotTaken { .. } => {
                    How::Is(status_from(TransactionStatus::PluginFailure))
                }
                PaymentResult::GatewayFailed { .. } => How::Broke,
                PaymentResult::GatewayAnsweredNothing => How::Silent,
                PaymentResult::GatewayTimedOut => How::Late,
            },
        },
    }
}

/// Why a refusal refuses.
#[must_use]
pub fn reason(rejection: &Rejection) -> Reason {
    match rejection {
        Rejection::Tenant(TenantRejection::AlreadyExists { .. }) => Reason::Taken,
        Rejection::Account(it) => account_reason(it),
        Rejection::Payment(it) => payment_reason(it),
        Rejection::Customer(why) => Reason::Customer(format!("{why:?}")),
        Rejection::InvalidParameter { field, .. } => Reason::Field(field.clone()),
        Rejection::Tenant(_)
        | Rejection::Access(_)
        | Rejection::Flag(_)
        | Rejection::Billing(_)
        | Rejection::Entitlement(_) => Reason::Other(format!("{rejection:?}")),
    }
}

fn account_reason(rejection: &AccountRejection) -> Reason {
    use AccountRejection as R;
    match rejection {
        R::AlreadyExists { .. } => Reason::Taken,
        R::NotFound { .. } => Reason::NoAccount,
        R::PaymentMethodNotFound { .. } => Reason::NoMethod,
        R::ExternalPaymentMethodExists { .. } => Reason::SecondExternal,
        R::DefaultPaymentMethodInUse { .. } => Reason::DefaultInUse,
        R::Closed { .. } => Reason::Closed,
        R::TagNotFound { .. } => Reason::NoTag,
        R::TagDefinitionNotFound { .. } => Reason::NoTagDefinition,
        R::TagNotApplicable { .. } => Reason::UnfitTag,
        R::TagNeedsDefaultMethod { .. } => Reason::NothingToPayWith,
        R::CustomFieldNotFound { .. } => Reason::NoField,
        R::KeyIsFixed { .. }
        | R::FieldIsFixed { .. }
        | R::CustomFieldNameIsFixed { .. }
        | R::TooManyCustomFields => Reason::Other(format!("{rejection:?}")),
    }
}

fn payment_reason(rejection: &PaymentRejection) -> Reason {
    use PaymentRejection as R;
    match rejection {
        R::NotFound { .. } => Reason::NoPayment,
        R::TransactionNotFound { .. } => Reason::NoTransaction,
        R::OfAnotherAccount { .. } => Reason::OthersPayment,
        R::TransactionOfAnotherAccount { .. } => Reason::OthersTransaction,
        R::TransactionKeySucceeded { .. } => Reason::KeySucceeded,
        R::NoSuchSuccess { .. } => Reason::NoSuccess,
        R::InvalidTransition { .. } => Reason::Transition,
        R::InDoubt { .. } => Reason::InDoubt,
        R::GatewayNotRegistered { .. } => Reason::Other(format!("{rejection:?}")),
    }
}

/// The ids that a journal row names.
#[must_use]
pub fn created(entry: &Entry) -> Created {
    let mut created = Created::default();
    for change in &entry.changes {
        if let Some(it) = Tenant::of(change) {
            created.tenant = Some(it.no.0);
        } else if let Some(it) = Account::of(change) {
            created.account = Some(it.id.uuid().as_u128());
        } else if let Some(it) = PaymentMethod::of(change) {
            created.method = Some(it.id.uuid().as_u128());
        } else if let Some(it) = Payment::of(change) {
            created.payment = Some(it.id.uuid().as_u128());
        } else if let Some(it) = Transaction::of(change) {
            created.transaction = Some(it.id.uuid().as_u128());
            if let Some(free) = created.moves.iter_mut().find(|it| it.is_none()) {
                *free = created.transaction;
            }
        } else if let Some(it) = Dispute::of(change) {
            created.dispute = Some(it.id.uuid().as_u128());
        } else if let Some(it) = Customer::of(change).filter(|it| it.revision.previous.is_none()) {
            created.customer = Some(it.id.uuid().as_u128());
        } else if let Change::Customer(CustomerChange::Session(it)) = change
            && it.generation == 0
        {
            created.session = Some(it.id.uuid().as_u128());
        } else if let Change::Customer(CustomerChange::Mail(it)) = change {
            created.token = it.token.map(|id| id.uuid().as_u128()).or(created.token);
        }
    }
    created
}

/// A call of a gateway, in the simulation's words.
#[must_use]
pub fn call(it: &GatewayCall, no: u64, now: i64, settle_after_us: i64) -> crate::gateway::Call {
    crate::gateway::Call {
        no,
        tenant: it.tenant.0,
        payment: it.payment.uuid().as_u128(),
        transaction: it.transaction.uuid().as_u128(),
        kind: kind_from(it.operation),
        amount: it.amount.map(|amount| amount.0),
        currency: code(it.currency),
        deadline: now + it.timeout_us,
        settle_after_us,
        is_controlled: it.is_controlled,
        cancels: it.properties.iter().any(|(name, _)| name == CANCEL),
    }
}

/// An id of any kind.
#[must_use]
pub fn id<K>(uid: Uid) -> Id<K> {
    Id::new(Uuid::from_u128(uid))
}

fn currency_of(code: Code) -> Currency {
    Currency::parse(code).expect("the workload uses currencies that exist")
}

/// A currency of the workload.
#[must_use]
pub fn code(currency: Currency) -> Code {
    let found = CURRENCIES.iter().find(|(code, _)| *code == currency.code());
    found.map_or("", |(code, _)| code)
}

const fn kind_of(kind: Kind) -> TransactionType {
    match kind {
        Kind::Authorize => TransactionType::Authorize,
        Kind::Capture => TransactionType::Capture,
        Kind::Purchase => TransactionType::Purchase,
        Kind::Refund => TransactionType::Refund,
        Kind::Credit => TransactionType::Credit,
        Kind::Void => TransactionType::Void,
        Kind::Chargeback => TransactionType::Chargeback,
        Kind::Reversal => TransactionType::ChargebackReversal,
    }
}

/// The kind of a stored transaction, in the model's types.
#[must_use]
pub const fn kind_from(kind: TransactionType) -> Kind {
    match kind {
        TransactionType::Authorize => Kind::Authorize,
        TransactionType::Capture => Kind::Capture,
        TransactionType::Purchase => Kind::Purchase,
        TransactionType::Refund => Kind::Refund,
        TransactionType::Credit => Kind::Credit,
        TransactionType::Void => Kind::Void,
        TransactionType::Chargeback => Kind::Chargeback,
        TransactionType::ChargebackReversal => Kind::Reversal,
    }
}

const fn status_of(status: Status) -> TransactionStatus {
    match status {
        Status::Running => TransactionStatus::InFlight,
        Status::Success => TransactionStatus::Success,
        Status::Pending => TransactionStatus::Pending,
        Status::Declined => TransactionStatus::PaymentFailure,
        Status::Failed => TransactionStatus::PluginFailure,
        Status::Unknown => TransactionStatus::Unknown,
    }
}

/// Where a stored transaction stands.
#[must_use]
pub const fn status_from(status: TransactionStatus) -> Status {
    match status {
        TransactionStatus::InFlight => Status::Running,
        TransactionStatus::Success => Status::Success,
        TransactionStatus::Pending => Status::Pending,
        TransactionStatus::PaymentFailure => Status::Declined,
        TransactionStatus::PluginFailure => Status::Failed,
        TransactionStatus::Unknown => Status::Unknown,
    }
}
