//! The one branch on [`Command`], and what executing one yields.

use crate::Rejection;
use crate::command::{
    AccessCommand, AccountCommand, Command, CustomerCommand, EntitlementCommand, FlagCommand,
    PaymentCommand, Request, TenantCommand,
};
use crate::context::{Context, Done, Sequences, Stamp};
use crate::payment::TransactionType;
use crate::reply::{Outcome, Reply};
use crate::rules::{
    access, account, account_email, account_user, blocking_state, change_request, custom_field,
    customer, definition, entitlement, environment, import, method_step, offer, operation, payment,
    payment_method, purchase, tag, tenant, usage,
};
use crate::state::State;

/// An executed command: its reply, what it did, and the numbers that are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// `None`: the command that brings the outcome replies.
    pub reply: Option<Reply>,
    /// The changes, events and effects to commit.
    pub done: Done,
    /// The numbers to hand out next.
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
    let cx = &mut Context::new(request, stamp);
    let accepted = match &request.command {
        Command::Tenant(it) => of_tenant(state, it, cx),
        Command::Access(it) => of_access(state, it, cx),
        Command::Flag(it) => of_flags(state, it, cx),
        Command::Account(it) => of_account(state, it, cx),
        Command::Customer(it) => of_customer(state, it, cx),
        Command::Payment(it) => of_payment(state, it, cx),
        Command::Entitlement(it) => of_entitlements(state, it, cx),
    }?;
    let sequences = cx.sequences();
    Ok(Executed { reply: accepted.reply, done: std::mem::take(&mut cx.done), sequences })
}

fn of_tenant(state: &State, command: &TenantCommand, cx: &mut Context) -> Outcome {
    match command {
        TenantCommand::Create(it) => tenant::create(state, it, cx),
        TenantCommand::SetValue(it) => tenant::set_value(state, it, cx),
        TenantCommand::AppendValue(it) => tenant::append_value(state, it, cx),
        TenantCommand::DefineTag(it) => tag::define(state, it, cx),
        TenantCommand::UndefineTag(id) => tag::undefine(state, *id, cx),
        TenantCommand::ImportTagDefinition(it) => import::tag_definition(state, it, cx),
        TenantCommand::RotateSecret(it) => tenant::rotate_secret(state, it, cx),
        TenantCommand::WithdrawPreviousSecret => tenant::withdraw_previous_secret(state, cx),
        TenantCommand::SetActive(is_active) => tenant::set_active(state, *is_active, cx),
        TenantCommand::SetWebhookEndpoints(it) => tenant::set_webhook_endpoints(state, it, cx),
    }
}

fn of_access(state: &State, command: &AccessCommand, cx: &mut Context) -> Outcome {
    match command {
        AccessCommand::CreateUser(it) => access::create_user(state, it, cx),
        AccessCommand::UpdateUser(it) => access::update_user(state, it, cx),
        AccessCommand::PutRole(it) => access::put_role(state, it, cx),
    }
}

fn of_flags(state: &State, command: &FlagCommand, cx: &mut Context) -> Outcome {
    match command {
        FlagCommand::CreateEnvironment(it) => environment::create(state, it, cx),
        FlagCommand::UpdateEnvironment(it) => environment::update(state, it, cx),
        FlagCommand::AddSecret(it) => environment::add_secret(state, it, cx),
        FlagCommand::AddSecrets(it) => environment::add_secrets(state, it, cx),
        FlagCommand::ExpireSecrets(it) => environment::expire_secrets(state, it, cx),
        FlagCommand::ExpireSecret(it) => environment::expire_secret(state, it, cx),
        FlagCommand::PutDefinitions(it) => definition::put(state, it, cx),
        FlagCommand::RequestChange(it) => change_request::request(state, it, cx),
        FlagCommand::DecideChange(it) => change_request::decide(state, it, cx),
        FlagCommand::ApplyChange(it) => change_request::apply(state, it, cx),
    }
}

fn of_account(state: &State, command: &AccountCommand, cx: &mut Context) -> Outcome {
    match command {
        AccountCommand::Create(it) => account::create(state, it, cx),
        AccountCommand::Update(it) => account::update(state, it, cx),
        AccountCommand::Erase(it) => account::erase(state, it, cx),
        AccountCommand::Release(it) => account::release(it, cx),
        AccountCommand::AddEmail(it) => account_email::add(state, it, cx),
        AccountCommand::RemoveEmail(it) => account_email::remove(state, it, cx),
        AccountCommand::Close(it) => blocking_state::close(state, it, cx),
        AccountCommand::AddBlockingState(it) => blocking_state::add(state, it, cx),
        AccountCommand::AddTags(it) => tag::add(state, it, cx),
        AccountCommand::RemoveTags(it) => tag::remove(state, it, cx),
        AccountCommand::AddCustomFields(it) => custom_field::add(state, it, cx),
        AccountCommand::UpdateCustomFields(it) => custom_field::update(state, it, cx),
        AccountCommand::RemoveCustomFields(it) => custom_field::remove(state, it, cx),
        AccountCommand::CreatePaymentMethod(it) => payment_method::create(state, it, cx),
        AccountCommand::SetDefaultPaymentMethod(it) => payment_method::set_default(state, it, cx),
        AccountCommand::DeletePaymentMethod(it) => payment_method::delete(state, it, cx),
        AccountCommand::MethodAnswered(it) => method_step::answered(state, it, cx),
        AccountCommand::ContinueMethod(it) => method_step::proceed(state, it, cx),
        AccountCommand::Import(it) => import::account(state, it, cx),
    }
}

fn of_payment(state: &State, command: &PaymentCommand, cx: &mut Context) -> Outcome {
    use TransactionType as T;
    let accepted = match command {
        PaymentCommand::Authorize(it) => payment::initiate(state, T::Authorize, it, cx),
        PaymentCommand::Purchase(it) => payment::initiate(state, T::Purchase, it, cx),
        PaymentCommand::Credit(it) => payment::initiate(state, T::Credit, it, cx),
        PaymentCommand::InitiateCombo(it) => payment::initiate_combo(state, it, cx),
        PaymentCommand::Capture(it) => payment::follow_up(state, T::Capture, it, cx),
        PaymentCommand::Refund(it) => payment::follow_up(state, T::Refund, it, cx),
        PaymentCommand::Void(it) => payment::follow_up(state, T::Void, it, cx),
        PaymentCommand::Chargeback(it) => payment::follow_up(state, T::Chargeback, it, cx),
        PaymentCommand::ReverseChargeback(it) => payment::reverse_chargeback(state, it, cx),
        PaymentCommand::Complete(it) => payment::complete(state, it, cx),
        PaymentCommand::ResolvePending(it) => payment::resolve_pending(state, it, cx),
        PaymentCommand::FixTransaction(it) => payment::fix(state, it, cx),
        PaymentCommand::GatewayReplied(it) => payment::gateway_replied(state, it, cx),
        PaymentCommand::GatewayInquired(it) => payment::gateway_inquired(state, it, cx),
        PaymentCommand::Retry(it) => payment::retry(state, it, cx),
        PaymentCommand::ExpireAction(it) => payment::expire_action(state, it, cx),
        PaymentCommand::CancelRetries(it) => payment::cancel_retries(state, it, cx),
        PaymentCommand::RefundLateSuccess(it) => payment::refund_late(state, it, cx),
        PaymentCommand::RecordDispute(it) => payment::record_dispute(state, it, cx),
        PaymentCommand::BookDispute(it) => payment::book_dispute(state, it, cx),
        PaymentCommand::WarnOfDispute(it) => payment::warn_of_dispute(state, it, cx),
        PaymentCommand::Import(it) => payment::import(state, it, cx),
        PaymentCommand::Buy(it) => payment::buy(state, it, cx),
    }?;
    payment::follow(state, cx);
    payment::note_late_successes(state, cx);
    purchase::follow(state, cx);
    Ok(accepted)
}

fn of_entitlements(state: &State, command: &EntitlementCommand, cx: &mut Context) -> Outcome {
    match command {
        EntitlementCommand::PutFeature(it) => offer::put_feature(state, it, cx),
        EntitlementCommand::PutOffer(it) => offer::put_offer(state, it, cx),
        EntitlementCommand::Grant(it) => entitlement::grant(state, it, cx),
        EntitlementCommand::Revoke(it) => entitlement::revoke(state, it, cx),
        EntitlementCommand::Continue(it) => entitlement::proceed(state, it, cx),
        EntitlementCommand::SetUsers(it) => account_user::set(state, it, cx),
        EntitlementCommand::RecordUsage(it) => usage::record(state, it, cx),
        EntitlementCommand::RecordUsages(it) => usage::record_all(state, it, cx),
        EntitlementCommand::Reserve(it) => usage::reserve(state, it, cx),
        EntitlementCommand::Confirm(it) => usage::confirm(state, it, cx),
        EntitlementCommand::Release(it) => usage::release(state, it, cx),
    }
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
