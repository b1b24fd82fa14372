//! Control programs: gateways that decide whether a call about a payment goes on. They are asked before the call is
//! submitted, so that nothing is held meanwhile, and nothing is written where one aborts it.

use std::time::Duration;

use domain::card_data::mask_pans;
use domain::command::PaymentCommand;
use domain::payment::combo::{ComboAccount, InitiateCombo};
use domain::payment::{FollowUp, Initiate, TransactionType};
use domain::reply::PaymentAborted;
use domain::{
    AccountId, AccountRejection, AmountMinor, Command, Currency, PaymentId, PaymentMethodId,
    PaymentRejection, Properties, Rejection, Reply, Request, TenantNo, asked_currency,
    positive_amount,
};
use futures_util::TryFutureExt;

use super::resolver::INQUIRY_TIMEOUT;
use crate::partition::Answer;
use crate::ports::{ControlDecision, ControlRequest, Gateway, RequestRefused};
use crate::{Deadline, Engine, Reason, Unavailable};

/// A request once its control programs were asked.
pub(super) enum Controlled {
    GoesOn(Box<Request>),
    Answered(Answer),
}

/// The properties of a command's call, and those that control programs may change.
struct Call<'c> {
    operation: TransactionType,
    of: Payer,
    payment: Option<PaymentId>,
    payment_key: Option<&'c String>,
    transaction_key: Option<&'c String>,
    amount: &'c mut Option<String>,
    /// `None` where the call cannot have another currency than its payment.
    currency: Option<&'c mut Option<Currency>>,
    /// `None` where the call cannot have another method.
    payment_method: Option<&'c mut Option<PaymentMethodId>>,
    properties: &'c Properties,
    control: &'c mut Vec<String>,
    approved: &'c mut Vec<String>,
}

/// Whose payment it is.
#[derive(Clone, Copy)]
enum Payer {
    Account(AccountId),
    /// An account that is made with it, and its currency.
    New(Option<Currency>),
    OfPayment(PaymentId),
}

/// The account, currency and amount of a call before its programs are asked.
struct Known {
    account: Option<AccountId>,
    currency: Currency,
    amount: Option<AmountMinor>,
}

impl Engine {
    /// Whether a gateway of this name decides about calls that name it.
    #[must_use]
    pub fn is_control_program(&self, name: &str) -> bool {
        self.gateway(name).is_some_and(Gateway::controls)
    }

    /// Whether a command names control programs that were not asked.
    pub(super) fn awaits_control(&self, command: &Command) -> bool {
        control_of(command).iter().any(|name| self.is_control_program(name))
    }

    /// Asks the control programs that a request names, in order, each with what those before it made of the call.
    ///
    /// # Errors
    /// [`Reason::ControlFailed`] where one cannot be asked or its answer cannot be believed: nothing was begun.
    pub(super) async fn controlled(&self, mut request: Request) -> Result<Controlled, Unavailable> {
        if self.is_answered(&request).await? {
            // The partition has its reply. If that has expired meanwhile, the rules refuse what was not asked.
            return Ok(Controlled::GoesOn(Box::new(request)));
        }
        let (tenant, id) = (request.tenant, request.idempotency.map(|it| it.key.0));
        let id = id.unwrap_or(request.id.0);
        let Some(mut call) = Call::of(&mut request.command) else {
            return Ok(Controlled::GoesOn(Box::new(request)));
        };
        let mut known = match self.known_of(tenant, &call).await? {
            Ok(known) => known,
            Err(rejection) => return Ok(Controlled::Answered(Answer::Refused(rejection))),
        };
        if let Some(currency) = &mut call.currency {
            **currency = Some(known.currency);
        }
        let named = std::mem::take(call.control);
        for name in named {
            if !self.is_control_program(&name) {
                call.control.push(name);
                continue;
            }
            let asked = call.request((tenant, id), &known);
            match self.ask_control((tenant, &name), asked).await? {
                ControlDecision::Aborted { reason } => {
                    let reason = mask_pans(&reason);
                    let aborted = PaymentAborted { attempt: None, plugin: name, reason };
                    return Ok(Controlled::Answered(Answer::Replied(Reply::PaymentAborted(
                        aborted,
                    ))));
                }
                ControlDecision::GoesOn { amount, payment_method } => {
                    call.lower(amount, &mut known).map_err(|it| failed(&name, it))?;
                    self.set_method((tenant, &name), (&mut call, &known), payment_method).await?;
                }
            }
            call.approved.push(name);
        }
        Ok(Controlled::GoesOn(Box::new(request)))
    }

    /// Whether a request came before: it is not decided about again.
    async fn is_answered(&self, request: &Request) -> Result<bool, Unavailable> {
        let Some(idempotency) = request.idempotency else { return Ok(false) };
        let now = self.clock().now();
        self.read(move |queries| queries.has_reply(idempotency.key, now)).await
    }

    async fn known_of(
        &self,
        tenant: TenantNo,
        call: &Call<'_>,
    ) -> Result<Result<Known, Rejection>, Unavailable> {
        let (account, of_account) = match call.of {
            Payer::New(currency) => (None, currency),
            Payer::Account(id) => {
                let found = self.read(move |queries| queries.account(tenant, id)).await?;
                let Some(found) = found else {
                    return Ok(Err(AccountRejection::NotFound { id }.into()));
                };
                (Some(id), found.account.currency)
            }
            Payer::OfPayment(id) => {
                let found = self.read(move |queries| queries.payment(tenant, id)).await?;
                let Some(file) = found else {
                    let payment = id.to_string();
                    return Ok(Err(PaymentRejection::NotFound { payment }.into()));
                };
                (Some(file.payment.account_id), Some(file.payment.currency))
            }
        };
        let asked = call.currency.as_ref().and_then(|it| **it);
        let known = asked_currency(asked, of_account).and_then(|currency| {
            let amount = match call.operation {
                TransactionType::Void | TransactionType::ChargebackReversal => None,
                TransactionType::Authorize
                | TransactionType::Purchase
                | TransactionType::Credit
                | TransactionType::Capture
                | TransactionType::Refund
                | TransactionType::Chargeback => {
                    Some(positive_amount(call.amount.as_deref(), currency)?)
                }
            };
            Ok(Known { account, currency, amount })
        });
        Ok(known)
    }

    /// Asks one program, with the right to one of its calls.
    async fn ask_control(
        &self,
        (tenant, name): (TenantNo, &str),
        asked: ControlRequest,
    ) -> Result<ControlDecision, Unavailable> {
        let gateway = self.gateway(name).expect("it is a control program");
        let own = u64::try_from(gateway.settings().timeout_us).unwrap_or(0);
        let limit = INQUIRY_TIMEOUT.min(Duration::from_micros(own));
        let deadline = Deadline::within(self.clock(), limit);
        let deciding = gateway.control(asked, deadline).map_err(RequestRefused::Unavailable);
        let decided = self.ask_permitted((tenant, name), limit, deciding).await?;
        let label = match &decided {
            Ok(ControlDecision::GoesOn { .. }) => "goes_on",
            Ok(ControlDecision::Aborted { .. }) => "aborted",
            Err(_) => "failed",
        };
        metrics::counter!("faregate_control_calls_total", "gateway" => name.to_owned(), "answer" => label)
            .increment(1);
        decided.map_err(|refused| match refused {
            RequestRefused::Unavailable(reason)
            | RequestRefused::Unfit(reason)
            | RequestRefused::Invalid(reason) => failed(name, &reason),
            RequestRefused::Unsupported => failed(name, "it is no control program"),
        })
    }

    /// Takes the method that a program sets, if it is one that the account can pay with.
    async fn set_method(
        &self,
        (tenant, program): (TenantNo, &str),
        (call, known): (&mut Call<'_>, &Known),
        method: Option<PaymentMethodId>,
    ) -> Result<(), Unavailable> {
        let Some(id) = method else { return Ok(()) };
        let (Some(slot), Some(account)) = (&mut call.payment_method, known.account) else {
            return Err(failed(program, "paymentMethodId: the call can have no other"));
        };
        let found = self.read(move |queries| queries.payment_method(tenant, id)).await?;
        if !found.is_some_and(|it| it.method.active && it.method.account_id == account) {
            return Err(failed(program, "paymentMethodId: is none that the account can pay with"));
        }
        **slot = Some(id);
        Ok(())
    }
}

fn failed(program: &str, reason: &str) -> Unavailable {
    tracing::warn!(
        gateway = program,
        reason,
        "a control program did not decide; the call is refused"
    );
    Reason::ControlFailed.into()
}

impl<'c> Call<'c> {
    /// The call that a command is; `None` where no control plugin can be named.
    fn of(command: &'c mut Command) -> Option<Self> {
        let Command::Payment(command) = command else { return None };
        Some(if let PaymentCommand::Authorize(it) = command {
            Self::start(TransactionType::Authorize, it)
        } else if let PaymentCommand::Purchase(it) = command {
            Self::start(TransactionType::Purchase, it)
        } else if let PaymentCommand::Credit(it) = command {
            Self::start(TransactionType::Credit, it)
        } else if let PaymentCommand::InitiateCombo(it) = command {
            Self::combo(it)
        } else if let PaymentCommand::Capture(it) = command {
            Self::follow_up(TransactionType::Capture, it)
        } else if let PaymentCommand::Refund(it) = command {
            Self::follow_up(TransactionType::Refund, it)
        } else if let PaymentCommand::Void(it) = command {
            Self::follow_up(TransactionType::Void, it)
        } else if let PaymentCommand::Chargeback(it) = command {
            Self::follow_up(TransactionType::Chargeback, it)
        } else if let PaymentCommand::ReverseChargeback(it) = command {
            Self::follow_up(TransactionType::ChargebackReversal, it)
        } else {
            return None;
        })
    }

    fn start(operation: TransactionType, it: &'c mut Initiate) -> Self {
        Self {
            operation,
            of: Payer::Account(it.account),
            payment: it.payment,
            payment_key: it.payment_key.as_ref(),
            transaction_key: it.transaction_key.as_ref(),
            amount: &mut it.amount,
            currency: Some(&mut it.currency),
            payment_method: Some(&mut it.payment_method),
            properties: &it.properties,
            control: &mut it.control,
            approved: &mut it.approved,
        }
    }

    /// Its method is part of the request, and may be new.
    fn combo(it: &'c mut InitiateCombo) -> Self {
        Self {
            operation: it.kind,
            of: match &it.account {
                ComboAccount::Existing(existing) => Payer::Account(existing.id),
                ComboAccount::New(new) => Payer::New(new.currency),
            },
            payment: it.payment,
            payment_key: it.payment_key.as_ref(),
            transaction_key: it.transaction_key.as_ref(),
            amount: &mut it.amount,
            currency: Some(&mut it.currency),
            payment_method: None,
            properties: &it.properties,
            control: &mut it.control,
            approved: &mut it.approved,
        }
    }

    fn follow_up(operation: TransactionType, it: &'c mut FollowUp) -> Self {
        Self {
            operation,
            of: Payer::OfPayment(it.payment),
            payment: Some(it.payment),
            payment_key: None,
            transaction_key: it.transaction_key.as_ref(),
            amount: &mut it.amount,
            currency: None,
            payment_method: None,
            properties: &it.properties,
            control: &mut it.control,
            approved: &mut it.approved,
        }
    }

    fn request(&self, (tenant, request): (TenantNo, uuid::Uuid), known: &Known) -> ControlRequest {
        ControlRequest {
            tenant,
            request,
            account: known.account,
            payment: self.payment,
            payment_key: self.payment_key.cloned(),
            transaction_key: self.transaction_key.cloned(),
            operation: self.operation,
            amount: known.amount,
            currency: known.currency,
            payment_method: self.payment_method.as_ref().and_then(|it| **it),
            properties: self.properties.clone(),
        }
    }

    /// Takes the amount that a program sets.
    ///
    /// # Errors
    /// Where it is not a part of what was asked for: no program makes a client pay more.
    fn lower(&mut self, to: Option<AmountMinor>, known: &mut Known) -> Result<(), &'static str> {
        let Some(to) = to else { return Ok(()) };
        let Some(asked) = known.amount else { return Err("amount: the call has none") };
        if to <= AmountMinor::ZERO || to > asked {
            return Err("amount: is not above 0, or more than was asked for");
        }
        known.amount = Some(to);
        *self.amount = Some(to.decimal(known.currency));
        Ok(())
    }
}

/// The control plugins that a command names and that were not asked.
const fn control_of(command: &Command) -> &[String] {
    let Command::Payment(command) = command else { return &[] };
    if let PaymentCommand::Authorize(it)
    | PaymentCommand::Purchase(it)
    | PaymentCommand::Credit(it) = command
    {
        return it.control.as_slice();
    }
    if let PaymentCommand::InitiateCombo(it) = command {
        return it.control.as_slice();
    }
    if let PaymentCommand::Capture(it)
    | PaymentCommand::Refund(it)
    | PaymentCommand::Void(it)
    | PaymentCommand::Chargeback(it)
    | PaymentCommand::ReverseChargeback(it) = command
    {
        return it.control.as_slice();
    }
    &[]
}
