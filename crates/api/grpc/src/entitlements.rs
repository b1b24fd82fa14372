//! `EntitlementService`: what accounts may do, and what they reserve of their limits.

mod view;
mod watch;

use std::pin::Pin;
use std::sync::Arc;

use domain::command::EntitlementCommand;
use domain::entitlement::level::Counted;
use domain::entitlement::usage::{ConfirmReservation, Ends, ReleaseReservation, Reserve};
use domain::reply::EntitlementReply;
use domain::{AccountId, Idempotency, Reply};
use engine::access::TenantRef;
use engine::entitlements::{self, Check, Holding, NotThere};
use futures_util::Stream;
use tonic::{Request, Response, Status};

use self::watch::Watch;
use crate::api::entitlement_service_server::EntitlementService;
use crate::api::{
    self, CheckRequest, CheckResponse, ConfirmRequest, ConfirmResponse,
    EntitlementServiceGetRequest, EntitlementServiceGetResponse, EntitlementServiceWatchRequest,
    EntitlementServiceWatchResponse, ReleaseRequest, ReleaseResponse, ReserveRequest,
    ReserveResponse, reserve_request,
};
use crate::call::{Call, ServiceContext};
use crate::fields;
use crate::refusal::{Refusal, Resource};
use crate::view::time;

/// The permission to read what accounts may do, as over HTTP.
const READ: &str = "entitlement:read";

/// The permission to count and to reserve.
const WRITE_USAGE: &str = "usage:write";

/// The longest key of a feature that is looked up, in characters.
const FEATURE_CHARS_MAX: usize = 255;

pub(crate) struct AccountEntitlements {
    context: Arc<ServiceContext>,
}

impl AccountEntitlements {
    pub(crate) const fn new(context: Arc<ServiceContext>) -> Self {
        Self { context }
    }
}

#[tonic::async_trait]
impl EntitlementService for AccountEntitlements {
    type WatchStream =
        Pin<Box<dyn Stream<Item = Result<EntitlementServiceWatchResponse, Status>> + Send>>;

    async fn get(
        &self,
        request: Request<EntitlementServiceGetRequest>,
    ) -> Result<Response<EntitlementServiceGetResponse>, Status> {
        let (call, it) = Call::of(&self.context, request)?;
        call.require(READ)?;
        let account = fields::id("account_id", &it.account_id)?;
        let (document, _) = read(&self.context, &call.authenticated().tenant, account).await?;
        Ok(Response::new(EntitlementServiceGetResponse { entitlements: Some(document) }))
    }

    async fn watch(
        &self,
        request: Request<EntitlementServiceWatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (call, it) = Call::of(&self.context, request)?;
        call.require(READ)?;
        let account = fields::id("account_id", &it.account_id)?;
        let watch = Watch::begin(Arc::clone(&self.context), call.into_caller(), account).await?;
        Ok(Response::new(Box::pin(watch.responses())))
    }

    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let (call, it) = Call::of(&self.context, request)?;
        call.require(READ)?;
        let account: AccountId = fields::id("account_id", &it.account_id)?;
        let wanted = feature(it.feature)?;
        let engine = &self.context.engine;
        let checked = engine.read_check((call.tenant(), account), wanted.clone()).await;
        let checked = checked.map_err(Refusal::from)?;
        let check = Check::of(&checked, &wanted, engine.clock().now());
        let check = check.map_err(|it| match it {
            NotThere::Feature => Refusal::NotFound { what: Resource::Feature, name: wanted },
            NotThere::Account => no_account(account),
        })?;
        Ok(Response::new(view::check(&check)))
    }

    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        let (call, it, idempotency) =
            Call::of_write(&self.context, request, ("Reserve", WRITE_USAGE))?;
        let reserve = Reserve {
            account: fields::id("account_id", &it.account_id)?,
            ends: ends(it.ends)?,
            feature: feature(it.feature)?,
            quantity: it.quantity,
        };
        let command = EntitlementCommand::Reserve(Box::new(reserve));
        let Reply::Entitlement(EntitlementReply::Reserved { reservation, until, counted }) =
            call.submit(command.into(), idempotency).await?
        else {
            unreachable!("the reply belongs to the command")
        };
        Ok(Response::new(ReserveResponse {
            reservation_id: reservation.to_string(),
            feature: counted.feature,
            quantity: counted.quantity,
            until: Some(time(until)),
            usage: Some(view::usage(counted.level)),
        }))
    }

    async fn confirm(
        &self,
        request: Request<ConfirmRequest>,
    ) -> Result<Response<ConfirmResponse>, Status> {
        let (call, it, idempotency) =
            Call::of_write(&self.context, request, ("Confirm", WRITE_USAGE))?;
        let confirm = ConfirmReservation {
            account: fields::id("account_id", &it.account_id)?,
            reservation: fields::id("reservation_id", &it.reservation_id)?,
            quantity: it.quantity,
        };
        let counted = settle(&call, EntitlementCommand::Confirm(confirm), idempotency).await?;
        let usage = Some(view::usage(counted.level));
        let Counted { feature, quantity, .. } = counted;
        Ok(Response::new(ConfirmResponse { feature, quantity, usage }))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        let (call, it, idempotency) =
            Call::of_write(&self.context, request, ("Release", WRITE_USAGE))?;
        let release = ReleaseReservation {
            account: fields::id("account_id", &it.account_id)?,
            reservation: fields::id("reservation_id", &it.reservation_id)?,
        };
        let counted = settle(&call, EntitlementCommand::Release(release), idempotency).await?;
        let usage = Some(view::usage(counted.level));
        let Counted { feature, quantity, .. } = counted;
        Ok(Response::new(ReleaseResponse { feature, quantity, usage }))
    }
}

/// Reads what an account may do now, and how long that may be held.
async fn read(
    context: &ServiceContext,
    tenant: &TenantRef,
    account: AccountId,
) -> Result<(api::Entitlements, Holding), Refusal> {
    let now = context.engine.clock().now();
    let holding = Holding { now, held_us: tenant.entitlements_held_us };
    let of = (tenant.no, account);
    let known = context.engine.read(move |queries| entitlements::read(queries, of, now)).await?;
    let known = known.ok_or_else(|| no_account(account))?;
    Ok((view::document(&known.document(holding)), holding))
}

/// Submits what ends a reservation.
async fn settle(
    call: &Call<'_>,
    command: EntitlementCommand,
    idempotency: Option<Idempotency>,
) -> Result<Counted, Refusal> {
    let Reply::Entitlement(EntitlementReply::Counted(counted)) =
        call.submit(command.into(), idempotency).await?
    else {
        unreachable!("the reply belongs to the command")
    };
    Ok(counted)
}

fn feature(key: String) -> Result<String, Refusal> {
    let key = fields::optional_text("feature", key, FEATURE_CHARS_MAX)?;
    key.ok_or_else(|| Refusal::field("feature", "needs to be set"))
}

/// When a reservation ends; whether that is in range, the core says.
fn ends(given: Option<reserve_request::Ends>) -> Result<Ends, Refusal> {
    match given {
        Some(reserve_request::Ends::Until(at)) => Ok(Ends::At(fields::time(&at))),
        Some(reserve_request::Ends::Ttl(ttl)) => Ok(Ends::After(fields::duration_us(&ttl))),
        None => Err(Refusal::field("until", "needs to be set, or ttl")),
    }
}

fn no_account(account: AccountId) -> Refusal {
    Refusal::NotFound { what: Resource::Account, name: account.to_string() }
}
