//! The tenant's endpoints as they are stored: read, changed, and written if nobody changed them meanwhile.

use ::webhooks::endpoint::{Endpoints, StoredAnswer};
use domain::command::TenantCommand;
use domain::tenant::webhook::SetWebhookEndpoints;
use domain::tenant::{VALUES_BYTES_MAX, WEBHOOK_ENDPOINTS};
use domain::{Command, Rejection, Seq, TenantRejection};
use secrets::Sealer;
use serde::Serialize;

use crate::Api;
use crate::caller::RequestContext;
use crate::error::Error;
use crate::parameters::invalid;
use crate::repeatable::Repeatable;

/// How often a change is made anew that lost against another one.
const TRIES_MAX: usize = 8;

/// The tenant's endpoints.
///
/// # Errors
/// Where they cannot be read now, or there is no key to open them.
pub(super) async fn read(api: &Api, context: &RequestContext) -> Result<Endpoints, Error> {
    read_with_place(api, context).await.map(|(endpoints, _)| endpoints)
}

/// Changes the tenant's endpoints; returns what the change returns. It is made again on what another change
/// has left.
///
/// # Errors
/// Those of the change, or where it cannot be written now.
pub(super) async fn change<T>(
    api: &Api,
    context: &RequestContext,
    mut change: impl FnMut(&mut Endpoints) -> Result<T, Error>,
) -> Result<T, Error> {
    write(api, context, |endpoints| change(endpoints).map(Change::Made)).await
}

/// As [`change`], once for each idempotency key; returns the answer as JSON. It is stored with the change, so that a
/// repetition gets it again, with the secret in it.
///
/// # Errors
/// As [`change`], or where the key was used for another request.
pub(super) async fn change_once<T: Serialize>(
    api: &Api,
    context: &RequestContext,
    repeatable: Option<Repeatable>,
    mut change: impl FnMut(&mut Endpoints) -> Result<T, Error>,
) -> Result<String, Error> {
    let now = api.engine.clock().now();
    let until = now.plus_us(api.engine.settings().reply_keep_us);
    write(api, context, |endpoints| {
        let before = repeatable.and_then(|it| endpoints.answered(it.key, now).map(|at| (it, at)));
        if let Some((it, before)) = before {
            it.require_same(before.fingerprint)?;
            return Ok(Change::MadeBefore(before.answer.clone()));
        }
        let answer = change(endpoints)?;
        let answer = serde_json::to_string(&answer).expect("an answer is plain JSON");
        if let Some(Repeatable { key, fingerprint }) = repeatable {
            let stored = StoredAnswer { key, fingerprint, until, answer: answer.clone() };
            endpoints.store_answer(stored, now);
        }
        Ok(Change::Made(answer))
    })
    .await
}

/// The result of a change.
enum Change<T> {
    /// It is to be written.
    Made(T),
    /// An earlier request has made it.
    MadeBefore(T),
}

async fn write<T>(
    api: &Api,
    context: &RequestContext,
    mut change: impl FnMut(&mut Endpoints) -> Result<Change<T>, Error>,
) -> Result<T, Error> {
    for _ in 0..TRIES_MAX {
        let (mut endpoints, read_at) = read_with_place(api, context).await?;
        let changed = match change(&mut endpoints)? {
            Change::Made(changed) => changed,
            Change::MadeBefore(changed) => return Ok(changed),
        };
        let Endpoints { all, callback, answers, callback_off } = &endpoints;
        let has_callback = callback.is_some() || callback_off.is_some();
        let is_empty = all.is_empty() && !has_callback && answers.is_empty();
        let sealer = sealer(api)?;
        let sealed = (!is_empty).then(|| endpoints.seal(sealer, context.tenant.no));
        if sealed.as_ref().is_some_and(|it| it.len() > VALUES_BYTES_MAX) {
            return Err(invalid("endpoints", "would take more than 256 KiB together"));
        }
        let set = SetWebhookEndpoints { sealed, read_at, disabled: None };
        let command = Command::Tenant(TenantCommand::SetWebhookEndpoints(set));
        match context.submit(api, command).await {
            Ok(_) => return Ok(changed),
            Err(Error::Rejected(rejection)) if is_overtaken(&rejection) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Contended)
}

fn is_overtaken(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::Tenant(TenantRejection::ValueChanged { .. }))
}

async fn read_with_place(
    api: &Api,
    context: &RequestContext,
) -> Result<(Endpoints, Option<Seq>), Error> {
    let (no, sealer) = (context.tenant.no, sealer(api)?);
    let stored =
        api.engine.read(move |queries| queries.tenant_value(no, WEBHOOK_ENDPOINTS)).await?;
    let read_at = stored.as_ref().map(|it| it.revision.seq);
    let Some(sealed) = stored.and_then(|it| it.value) else {
        return Ok((Endpoints::default(), read_at));
    };
    let opened = Endpoints::open(sealer, no, &sealed).map_err(|_| {
        tracing::error!(
            tenant = no.0,
            "failed to decrypt a tenant's webhook endpoints: was `flags.key_file` replaced?"
        );
        Error::WrongSecretsKey
    })?;
    Ok((opened, read_at))
}

/// The sealer of the endpoints.
///
/// # Errors
/// Where there is no key.
pub(super) fn sealer(api: &Api) -> Result<&Sealer, Error> {
    api.sealer.as_deref().ok_or(Error::NoSecretsKey)
}
