//! The one branch on [`Command`], and what executing one yields.

use serde::{Deserialize, Serialize};

use crate::command::{Command, Request};
use crate::context::{Context, Done, Sequences, Stamp};
use crate::customer::{self, CustomerCommand, CustomerReply};
use crate::payment::{TransactionStatus, TransactionType};
use crate::state::State;
use crate::{
    AccountId, ChangeRequestId, EnvironmentId, PaymentId, PaymentMethodId, Rejection, SecretId,
    TenantId, TransactionId, access, account, change_request, definition, environment, operation,
    payment, payment_method, tag, tenant,
};

/// An answer to an accepted command. Durable format: additive only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Done; there is nothing to name.
    Done,
    /// A tenant was made.
    TenantCreated(TenantId),
    /// A user was made.
    UserCreated(String),
    /// A role was made or changed.
    RoleCreated(String),
    /// An account was made.
    AccountCreated(AccountId),
    /// A payment method was added.
    PaymentMethodCreated(PaymentMethodId),
    /// An environment was made.
    EnvironmentCreated(EnvironmentId),
    /// A secret was added.
    SecretAdded(SecretId),
    /// Definitions were made or changed.
    DefinitionsPut {
        /// The version that they have now.
        version: i64,
    },
    /// A change is kept for later.
    ChangeRequested(ChangeRequestId),
    /// What was asked about a customer was done.
    Customer(CustomerReply),
    /// A payment transaction reached a status.
    Payment(PaymentReply),
}

/// What became of a payment transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentReply {
    /// The payment.
    pub payment: PaymentId,
    /// The transaction.
    pub transaction: TransactionId,
    /// What became of it.
    pub result: PaymentResult,
}

/// How a payment transaction stands, and how the gateway failed where it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaymentResult {
    /// By its status.
    Status {
        /// The status.
        status: TransactionStatus,
        /// The gateway's words for a refusal.
        message: Option<String>,
    },
    /// UNKNOWN: the gateway answered with an error of its own.
    GatewayFailed {
        /// In its words.
        message: String,
    },
    /// UNKNOWN: the gateway answered nothing.
    GatewayAnsweredNothing,
    /// UNKNOWN: the gateway did not answer in time.
    GatewayTimedOut,
}

impl Reply {
    /// Whether it tells of an outcome that is not known yet: such a reply is given, but not kept.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        match self {
            Self::Payment(it) => match &it.result {
                PaymentResult::Status { status, .. } => status.is_in_doubt(),
                PaymentResult::GatewayFailed { .. }
                | PaymentResult::GatewayAnsweredNothing
                | PaymentResult::GatewayTimedOut => true,
            },
            Self::Done
            | Self::TenantCreated(_)
            | Self::UserCreated(_)
            | Self::RoleCreated(_)
            | Self::AccountCreated(_)
            | Self::PaymentMethodCreated(_)
            | Self::EnvironmentCreated(_)
            | Self::SecretAdded(_)
            | Self::DefinitionsPut { .. }
            | Self::ChangeRequested(_)
            | Self::Customer(_) => false,
        }
    }
}

/// An accepted command's reply: now, or once a gateway has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// `None`: the reply is that of the command which brings the outcome.
    pub reply: Option<Reply>,
}

impl Accepted {
    pub(crate) const fn now(reply: Reply) -> Self {
        Self { reply: Some(reply) }
    }

    pub(crate) const fn later() -> Self {
        Self { reply: None }
    }
}

pub(crate) type Outcome = Result<Accepted, Rejection>;

/// An executed command: its reply, what it did, and the numbers that are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// See [`Accepted`].
    pub reply: Option<Reply>,
    /// What is to be committed.
    pub done: Done,
    /// What to hand out next.
    pub sequences: Sequences,
}

/// Executes a request against the loaded rows. Pure: the state is not touched, and the same
/// arguments give the same result.
///
/// # Errors
/// A [`Rejection`] is an answer; nothing is to be written for it.
///
/// # Panics
/// Where an invariant is broken; the caller catches it, and nothing is written.
pub fn execute(state: &State, request: &Request, stamp: Stamp<'_>) -> Result<Executed, Rejection> {
    use TransactionType as T;
    let cx = &mut Context::new(request, stamp);
    let accepted = match &request.command {
        Command::CreateTenant(it) => tenant::create(state, it, cx),
        Command::SetTenantValue(it) => tenant::set_value(state, it, cx),
        Command::CreateUser(it) => access::create_user(state, it, cx),
        Command::UpdateUser(it) => access::update_user(state, it, cx),
        Command::PutRole(it) => access::put_role(state, it, cx),
        Command::CreateEnvironment(it) => environment::create(state, it, cx),
        Command::UpdateEnvironment(it) => environment::update(state, it, cx),
        Command::AddSecret(it) => environment::add_secret(state, it, cx),
        Command::AddSecrets(it) => environment::add_secrets(state, it, cx),
        Command::ExpireSecrets(it) => environment::expire_secrets(state, it, cx),
        Command::ExpireSecret(it) => environment::expire_secret(state, it, cx),
        Command::PutDefinitions(it) => definition::put(state, it, cx),
        Command::RequestChange(it) => change_request::request(state, it, cx),
        Command::DecideChange(it) => change_request::decide(state, it, cx),
        Command::ApplyChange(it) => change_request::apply(state, it, cx),
        Command::CreateAccount(it) => account::create(state, it, cx),
        Command::UpdateAccount(it) => account::update(state, it, cx),
        Command::Customer(it) => of_customer(state, it, cx),
        Command::AddTags(it) => tag::add(state, it, cx),
        Command::RemoveTags(it) => tag::remove(state, it, cx),
        Command::CreatePaymentMethod(it) => payment_method::create(state, it, cx),
        Command::SetDefaultPaymentMethod(it) => payment_method::set_default(state, it, cx),
        Command::DeletePaymentMethod(it) => payment_method::delete(state, it, cx),
        Command::Authorize(it) => payment::initiate(state, T::Authorize, it, cx),
        Command::Purchase(it) => payment::initiate(state, T::Purchase, it, cx),
        Command::Credit(it) => payment::initiate(state, T::Credit, it, cx),
        Command::Capture(it) => payment::follow_up(state, T::Capture, it, cx),
        Command::Refund(it) => payment::follow_up(state, T::Refund, it, cx),
        Command::Void(it) => payment::follow_up(state, T::Void, it, cx),
        Command::Chargeback(it) => payment::follow_up(state, T::Chargeback, it, cx),
        Command::ReverseChargeback(it) => payment::reverse_chargeback(state, it, cx),
        Command::Complete(it) => payment::complete(state, it, cx),
        Command::ResolvePending(it) => payment::resolve_pending(state, it, cx),
        Command::FixTransaction(it) => payment::fix(state, it, cx),
        Command::GatewayReplied(it) => payment::gateway_replied(state, it, cx),
        Command::GatewayInquired(it) => payment::gateway_inquired(state, it, cx),
    }?;
    let sequences = cx.sequences();
    Ok(Executed { reply: accepted.reply, done: std::mem::take(&mut cx.done), sequences })
}

fn of_customer(state: &State, command: &CustomerCommand, cx: &mut Context) -> Outcome {
    match command {
        CustomerCommand::Register(it) => customer::register(state, it, cx),
        CustomerCommand::VerifyEmail(it) => customer::verify_email(state, it, cx),
        CustomerCommand::RequestToken(it) => customer::request_token(state, it, cx),
        CustomerCommand::SetPassword(it) => customer::set_password(state, it, cx),
        CustomerCommand::OpenSession(it) => customer::open_session(state, it, cx),
        CustomerCommand::RefreshSession(it) => customer::refresh_session(state, it, cx),
        CustomerCommand::CloseSessions(it) => customer::close_sessions(state, it, cx),
        CustomerCommand::Update(it) => customer::update(state, it, cx),
        CustomerCommand::Erase(it) => customer::erase(state, it, cx),
        CustomerCommand::QueueRegistration(it) => operation::queue(it, cx),
        CustomerCommand::FailOperation(it) => operation::fail(state, it, cx),
    }
}
