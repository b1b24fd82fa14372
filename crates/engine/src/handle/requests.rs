//! Requests to gateways beside the calls of the outbox: pages for customers, their methods, configurations, decisions
//! about calls, and the content of notifications.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use domain::payment::MethodAtGateway;
use domain::{AccountId, MerchantAccount, TenantNo};
use futures_util::FutureExt;

use super::outbox::CallPermit;
use super::permits::InFlightPermit;
use super::resolver::INQUIRY_TIMEOUT;
use crate::breaker::CallEnd;
use crate::ports::{Form, FormRequest, RequestRefused};
use crate::{Engine, Reason, Unavailable};

/// A gateway's answer, or the refusal of the request.
pub type GatewayResult<T> = Result<T, RequestRefused>;

impl Engine {
    /// Has a gateway make a page for a customer, with the right to one of its calls.
    ///
    /// # Errors
    /// [`Unavailable`] where it grants none.
    pub async fn ask_for_form(
        &self,
        gateway: &str,
        form: FormRequest,
    ) -> Result<GatewayResult<Form>, Unavailable> {
        let Some(it) = self.gateway(gateway) else { return Ok(Err(RequestRefused::Unsupported)) };
        let of = (form.tenant, gateway);
        self.ask_permitted(of, INQUIRY_TIMEOUT, async move { it.form(form).await }).await
    }

    /// Asks a gateway for the methods of an account's customer, with the right to one of its calls. One that keeps
    /// none is not asked.
    ///
    /// # Errors
    /// [`Unavailable`] where it grants none.
    pub async fn ask_for_methods(
        &self,
        gateway: &str,
        (tenant, account): (TenantNo, AccountId),
    ) -> Result<GatewayResult<Vec<MethodAtGateway>>, Unavailable> {
        let Some(it) = self.gateway(gateway).filter(|it| it.lists_methods()) else {
            return Ok(Err(RequestRefused::Unsupported));
        };
        let request = async move { it.methods(tenant, account).await };
        self.ask_permitted((tenant, gateway), INQUIRY_TIMEOUT, request).await
    }

    /// Has a gateway read a tenant's configuration. One that is stopped does too, and so does one whose breaker is
    /// open: another configuration may be what it lacks.
    ///
    /// # Errors
    /// [`Unavailable`] where it has as many calls in flight as it may.
    pub async fn ask_for_merchant_account(
        &self,
        (tenant, gateway): (TenantNo, &str),
        configuration: &str,
    ) -> Result<GatewayResult<Option<MerchantAccount>>, Unavailable> {
        let Some(it) = self.gateway(gateway) else { return Ok(Err(RequestRefused::Unsupported)) };
        let _in_flight = self.in_flight_permit(tenant, gateway)?;
        let request = async move { it.merchant_account(configuration).await };
        Ok(ask_within(INQUIRY_TIMEOUT, request).await)
    }

    /// Asks a gateway with the right to one of its calls; how that ends counts for its breaker.
    pub(super) async fn ask_permitted<T>(
        &self,
        (tenant, gateway): (TenantNo, &str),
        limit: Duration,
        request: impl Future<Output = GatewayResult<T>>,
    ) -> Result<GatewayResult<T>, Unavailable> {
        let CallPermit { in_flight: _in_flight, breaker } = self.call_permit(tenant, gateway)?;
        let started = Instant::now();
        let answered = ask_within(limit, request).await;
        let end = |failed| CallEnd { failed, took: started.elapsed() };
        match &answered {
            Ok(_) => breaker.ended(end(false)),
            Err(RequestRefused::Unavailable(_)) => breaker.ended(end(true)),
            // The gateway may not have been reached at all: that says nothing.
            Err(
                RequestRefused::Unsupported | RequestRefused::Invalid(_) | RequestRefused::Unfit(_),
            ) => drop(breaker),
        }
        Ok(answered)
    }

    /// The right to a tenant's call of a gateway.
    pub(super) fn call_permit(
        &self,
        tenant: TenantNo,
        gateway: &str,
    ) -> Result<CallPermit, Reason> {
        let options = &self.shared().options;
        if options.stopped_gateways.contains(gateway) {
            return Err(Reason::GatewayStopped);
        }
        let in_flight = self.in_flight_permit(tenant, gateway)?;
        let breaker = options.breakers.admit(gateway, tenant).ok_or(Reason::BreakerOpen)?;
        Ok(CallPermit { in_flight, breaker })
    }

    fn in_flight_permit(&self, tenant: TenantNo, gateway: &str) -> Result<InFlightPermit, Reason> {
        self.shared().permits.acquire(gateway, tenant).ok_or(Reason::GatewayFull)
    }
}

/// Waits for what a gateway's code says, for so long.
pub(super) async fn ask_within<T>(
    limit: Duration,
    request: impl Future<Output = GatewayResult<T>>,
) -> GatewayResult<T> {
    let guarded = AssertUnwindSafe(request).catch_unwind();
    let unavailable = |reason: &str| Err(RequestRefused::Unavailable(reason.to_owned()));
    match tokio::time::timeout(limit, guarded).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(_)) => unavailable("it panicked"),
        Err(_) => unavailable("it took too long"),
    }
}
