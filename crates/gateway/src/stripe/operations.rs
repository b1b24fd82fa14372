//! Calls: what each operation asks of Stripe. Each request has an idempotency key of its own, made of the
//! transaction's id and the step.

use domain::payment::{AMOUNT_NOT_TAKEN, CANCEL, GatewayOutcome, GatewayStatus, TransactionType};
use domain::{GatewayCall, GatewayReference};
use secrets::Sealer;
use uuid::Uuid;

use super::amount::to_stripe;
use super::api::{Api, Parameters, Trouble, is_id};
use super::methods::{self, Attached, Holder, OwnMethod};
use super::objects::{Intent, Refund};
use super::outcome::{self, Secret};
use crate::customer_return::CustomerReturn;
use crate::tenants::Tenants;

/// Where a customer who is present comes back to from a challenge.
const RETURN_URL: &str = "returnUrl";
/// `false`: the customer is present, and can pass a challenge.
const OFF_SESSION: &str = "offSession";
/// The longest URL to come back to.
const RETURN_URL_BYTES_MAX: usize = 2_048;

/// A call of a tenant whose id is `tenant`.
pub(super) struct Charging<'a> {
    pub(super) api: Api<'a>,
    pub(super) call: &'a GatewayCall,
    pub(super) tenant: Uuid,
    pub(super) tenants: &'a Tenants,
    /// Customers come back through this installation; `None`: straight to the merchant.
    pub(super) returns: Option<Returns<'a>>,
}

/// How URLs are made to which customers come back.
pub(super) struct Returns<'a> {
    pub(super) sealer: &'a Sealer,
    /// The beginning of these URLs.
    pub(super) base: &'a str,
}

/// The outcome of a call, and the intent that waits for its customer.
pub(super) struct Answered {
    pub(super) outcome: GatewayOutcome,
    pub(super) intent: Option<Intent>,
}

impl From<GatewayOutcome> for Answered {
    fn from(outcome: GatewayOutcome) -> Self {
        Self { outcome, intent: None }
    }
}

impl Charging<'_> {
    /// Carries the call out.
    pub(super) async fn carry_out(&self) -> Result<Answered, Trouble> {
        let own = self.call.references.iter().find(|it| it.transaction == self.call.transaction);
        let carried = match (self.call.operation, own) {
            (TransactionType::Authorize | TransactionType::Purchase, None) => self.charge().await,
            (TransactionType::Authorize | TransactionType::Purchase, Some(own)) => {
                // Nothing that is refused here says what became of what is pending.
                self.complete(own).await.map_err(|trouble| match trouble {
                    Trouble::Refused(refused) => {
                        Trouble::Unfit(format!("Stripe answered HTTP {}", refused.status))
                    }
                    trouble @ (Trouble::NotSent(_)
                    | Trouble::Limited(_)
                    | Trouble::Unfit(_)
                    | Trouble::Unknown(_)
                    | Trouble::KeyInUse(_)) => trouble,
                })
            }
            (TransactionType::Capture, _) => self.capture().await.map(Answered::from),
            (TransactionType::Refund, _) => self.refund().await.map(Answered::from),
            (TransactionType::Void, _) => self.release().await.map(Answered::from),
            (
                TransactionType::Credit
                | TransactionType::Chargeback
                | TransactionType::ChargebackReversal,
                _,
            ) => Ok(refused("unsupported", "Stripe has no such operation").into()),
        };
        match carried {
            Err(Trouble::Refused(refused)) => Ok(outcome::of_refusal(&refused).into()),
            carried => carried,
        }
    }

    async fn charge(&self) -> Result<Answered, Trouble> {
        let amount = match self.amount() {
            Ok(amount) => amount,
            Err(reason) => return Ok(refused(AMOUNT_NOT_TAKEN, &reason).into()),
        };
        // No money moves before the intent is made.
        let attached = match self.method().attached().await {
            Err(Trouble::Unknown(reason) | Trouble::KeyInUse(reason)) => {
                return Err(Trouble::NotSent(reason));
            }
            attached => attached?,
        };
        let parameters = self.intent(amount, &attached);
        let said = attached.is_new.then(|| methods::at_gateway(attached));
        let named =
            |outcome: GatewayOutcome| GatewayOutcome { payment_method: said.clone(), ..outcome };
        let parameters = match parameters {
            Ok(parameters) => parameters,
            Err(reason) => return Ok(named(refused(RETURN_URL, &reason)).into()),
        };
        let made = self.api.post("/v1/payment_intents", parameters, &self.key("create")).await;
        match made {
            Ok(intent) => {
                self.answer(intent).map(|it| Answered { outcome: named(it.outcome), ..it })
            }
            Err(Trouble::Refused(refused)) => Ok(named(outcome::of_refusal(&refused)).into()),
            Err(trouble) => Err(trouble),
        }
    }

    /// The payment method of the call.
    fn method(&self) -> OwnMethod<'_> {
        let call = self.call;
        OwnMethod {
            api: &self.api,
            tenants: self.tenants,
            holder: Holder {
                tenant: call.tenant,
                tenant_id: self.tenant,
                account: call.account,
                gateway: &call.gateway,
                merchant: call.merchant_account.as_ref(),
            },
            id: call.payment_method,
            external_id: call.external_payment_method_id.as_deref(),
            properties: &call.payment_method_properties,
        }
    }

    fn intent(&self, amount: i64, attached: &Attached) -> Result<Parameters, String> {
        let configuration = self.api.configuration;
        let capture_method = match self.call.operation == TransactionType::Authorize {
            true => "manual",
            false => "automatic",
        };
        let parameters = self
            .with_metadata(Parameters::default())
            .with("amount", amount.to_string())
            .with("currency", self.call.currency.code().to_ascii_lowercase())
            .with("confirm", "true")
            .with("capture_method", capture_method)
            .with("payment_method", &attached.method)
            .with_some("customer", attached.customer.as_ref())
            .with_some("description", configuration.charge_description.as_ref())
            .with_some(
                "statement_descriptor_suffix",
                configuration.charge_statement_descriptor.as_ref(),
            )
            .with("automatic_payment_methods[enabled]", "true")
            .with("expand[]", "latest_charge");
        let parameters = match self.call.operation == TransactionType::Authorize {
            true => parameters
                .with("payment_method_options[card][request_multicapture]", "if_available"),
            false => parameters,
        };
        let return_url = self.property(RETURN_URL);
        if let Some(url) = return_url {
            let is_url = url.starts_with("https://") || url.starts_with("http://");
            if !is_url || url.len() > RETURN_URL_BYTES_MAX {
                return Err("returnUrl: should be a URL of at most 2048 bytes".to_owned());
            }
            return Ok(parameters.with("return_url", self.way_back(url)));
        }
        let parameters = parameters.with("automatic_payment_methods[allow_redirects]", "never");
        Ok(match self.property(OFF_SESSION) == Some("false") {
            true => parameters,
            false => parameters.with("off_session", "true"),
        })
    }

    /// Where Stripe sends the customer back to: to us where that can be, so that the outcome is booked before the
    /// merchant's page is shown.
    fn way_back(&self, url: &str) -> String {
        let ours = self.returns.as_ref().map(|Returns { sealer, base }| {
            let back = CustomerReturn {
                tenant: self.call.tenant,
                payment: self.call.payment,
                transaction: self.call.transaction,
                url: url.to_owned(),
            };
            format!("{base}{}", back.path(sealer))
        });
        ours.filter(|it| it.len() <= RETURN_URL_BYTES_MAX).unwrap_or_else(|| url.to_owned())
    }

    /// Looks at an intent that waits for its customer, and goes on with it or gives it up.
    async fn complete(&self, own: &GatewayReference) -> Result<Answered, Trouble> {
        let path = self.intent_path(own)?;
        let with_charge = Parameters::default().with("expand[]", "latest_charge");
        let intent: Intent = self.api.get(&path, with_charge).await?;
        let cancels = self.property(CANCEL) == Some("true");
        let step = match intent.status.as_str() {
            "requires_action" | "requires_confirmation" | "requires_payment_method" if cancels => {
                "cancel"
            }
            "requires_confirmation" => "confirm",
            _ => return Ok(self.seen(intent)),
        };
        let parameters = Parameters::default().with("expand[]", "latest_charge");
        let key = self.key(&format!("{step}-{}", self.call.seq.0));
        match self.api.post(&format!("{path}/{step}"), parameters, &key).await {
            // The customer may have been faster: what the intent is now is no failure of the payment.
            Err(Trouble::Refused(_)) => {
                let with_charge = Parameters::default().with("expand[]", "latest_charge");
                Ok(self.seen(self.api.get(&path, with_charge).await?))
            }
            changed => Ok(self.seen(changed?)),
        }
    }

    /// An intent whose secret the customer may have.
    fn seen(&self, intent: Intent) -> Answered {
        let outcome = outcome::of_intent(&intent, self.call.operation, Secret::Out);
        Answered { outcome, intent: Some(intent) }
    }

    /// Captures all that is left, or a part: what is left after a part is released where Stripe has one capture.
    async fn capture(&self) -> Result<GatewayOutcome, Trouble> {
        let path = self.intent_path(self.attempt()?)?;
        let amount = match self.amount() {
            Ok(amount) => amount,
            Err(reason) => return Ok(refused(AMOUNT_NOT_TAKEN, &reason)),
        };
        let with_charge = Parameters::default().with("expand[]", "latest_charge");
        let before: Intent = self.api.get(&path, with_charge).await?;
        if before.status != "requires_capture" {
            let reason = "Stripe has released what was not captured";
            return Ok(refused("not_capturable", reason));
        }
        let is_part = amount < before.amount_capturable;
        let parameters = Parameters::default()
            .with("amount_to_capture", amount.to_string())
            .with(
                format!("metadata[{}]", outcome::capture_mark(self.call.transaction)),
                amount.to_string(),
            )
            .with("expand[]", "latest_charge");
        let parameters = match is_part && before.has_multicapture() {
            true => parameters.with("final_capture", "false"),
            false => parameters,
        };
        let path = format!("{path}/capture");
        let after: Intent = self.api.post(&path, parameters, &self.key("capture")).await?;
        Ok(outcome::captured(&after, self.call.amount.map(|it| (it, self.call.currency))))
    }

    async fn refund(&self) -> Result<GatewayOutcome, Trouble> {
        let amount = match self.amount() {
            Ok(amount) => amount,
            Err(reason) => return Ok(refused(AMOUNT_NOT_TAKEN, &reason)),
        };
        let parameters = self
            .with_metadata(Parameters::default())
            .with("payment_intent", self.intent_id(self.attempt()?)?)
            .with("amount", amount.to_string());
        let refund: Refund = self.api.post("/v1/refunds", parameters, &self.key("create")).await?;
        Ok(outcome::of_refund(&refund))
    }

    async fn release(&self) -> Result<GatewayOutcome, Trouble> {
        let path = format!("{}/cancel", self.intent_path(self.attempt()?)?);
        let intent = self.api.post(&path, Parameters::default(), &self.key("cancel")).await?;
        Ok(outcome::released(&intent))
    }

    fn answer(&self, intent: Intent) -> Result<Answered, Trouble> {
        let own = self.call.transaction.to_string();
        if intent.metadata.get(outcome::TRANSACTION) != Some(&own) {
            return Err(Trouble::Unknown("Stripe's answer is of another transaction".to_owned()));
        }
        let outcome = outcome::of_intent(&intent, self.call.operation, Secret::Kept);
        Ok(Answered { outcome, intent: Some(intent) })
    }

    /// The attempt that the call follows on.
    fn attempt(&self) -> Result<&GatewayReference, Trouble> {
        let attempt = self.call.references.iter().find(|it| it.operation.is_initial());
        attempt.ok_or_else(|| Trouble::Unfit("the payment has no PaymentIntent".to_owned()))
    }

    fn intent_id(&self, of: &GatewayReference) -> Result<String, Trouble> {
        let id = of.first.clone().filter(|it| is_id(it));
        id.ok_or_else(|| Trouble::Unfit("the payment has no PaymentIntent".to_owned()))
    }

    fn intent_path(&self, of: &GatewayReference) -> Result<String, Trouble> {
        Ok(format!("/v1/payment_intents/{}", self.intent_id(of)?))
    }

    fn amount(&self) -> Result<i64, String> {
        to_stripe(self.call.amount.unwrap_or_default(), self.call.currency)
    }

    /// A property of the request.
    fn property(&self, name: &str) -> Option<&str> {
        let mut of_name = self.call.properties.iter().filter(|(key, _)| key == name);
        of_name.next().map(|(_, value)| value.as_str())
    }

    /// The idempotency key of a step.
    pub(super) fn key(&self, step: &str) -> String {
        format!("{}:{step}", self.call.transaction)
    }

    fn with_metadata(&self, parameters: Parameters) -> Parameters {
        let of = |name: &str| format!("metadata[{name}]");
        parameters
            .with(of(outcome::TENANT), self.tenant.to_string())
            .with(of(outcome::ACCOUNT), self.call.account.to_string())
            .with(of(outcome::PAYMENT), self.call.payment.to_string())
            .with(of(outcome::TRANSACTION), self.call.transaction.to_string())
    }
}

/// The outcome of a call that is refused before Stripe is asked to carry it out.
pub(super) fn refused(code: &str, reason: &str) -> GatewayOutcome {
    GatewayOutcome {
        error_code: Some(code.to_owned()),
        error_message: Some(reason.to_owned()),
        ..GatewayOutcome::new(GatewayStatus::Canceled)
    }
}
