//! Applies scheduled changes of feature flags when they are due.
//!
//! The core does not read documents: the result of a patch is computed here, upon the current
//! definition, and sent to the core, which applies it if the definition is still the same. An applied
//! change is no longer waiting, so it is applied once. The store has the waiting changes: nothing is
//! lost with a process. The owner of the first partition runs this.

use std::future::Future;
use std::time::Duration;

use domain::command::FlagCommand;
use domain::flag::change_request::{ApplyChange, ChangeRequest, Judged};
use domain::flag::definition::{Definition, DefinitionKind, Expected, NewDefinition};
use domain::payment::Actor;
use domain::{Command, FlagRejection, Rejection, Request};
use engine::periodic::{Pass, Periodic};
use engine::{Answer, Engine, Unavailable};

use crate::error::Error;
use crate::patch;
use crate::validate::{Basis, validate};

/// The pause between two searches for changes that are due.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The pause after a change could be neither applied nor failed.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// How many changes a read returns.
const CHANGES_MAX: usize = 32;

/// Applies changes until `stop` is ready. A command that was submitted is executed all the same.
pub async fn run(engine: Engine, stop: impl Future<Output = ()>) {
    let periodic = Periodic::every(POLL_INTERVAL).with_backoff(AFTER_FAILURE, AFTER_FAILURE);
    let pass = || async {
        match pass(&engine).await {
            Ok(true) => Pass::Idle,
            Ok(false) => Pass::Failed,
            Err(error) => {
                tracing::warn!(%error, "failed to read scheduled changes; they are retried");
                Pass::Failed
            }
        }
    };
    periodic.run(stop, pass).await;
}

/// Applies all changes that are due; false where one has to be retried.
async fn pass(engine: &Engine) -> Result<bool, Unavailable> {
    let now = engine.clock().now();
    let (mut after, mut is_complete) = (None, true);
    loop {
        let read = engine.read(move |queries| queries.change_requests_due(now, after, CHANGES_MAX));
        let due = read.await?;
        let is_last = due.len() < CHANGES_MAX;
        for change in due {
            after = change.due_at.map(|at| (at, change.id));
            let id = change.id;
            if let Err(error) = apply(engine, change).await {
                tracing::warn!(change.id = %id, %error, "failed to apply a change; it is retried");
                is_complete = false;
            }
        }
        if is_last {
            return Ok(is_complete);
        }
    }
}

/// Applies a change, or marks it as failed. Where the definition changed meanwhile, the next pass
/// applies it upon the new version.
async fn apply(engine: &Engine, change: ChangeRequest) -> Result<(), Error> {
    let (no, environment) = (change.tenant, change.key.environment);
    let newest = Some(i64::MAX);
    let read = engine.read(move |queries| queries.environment_file(no, environment, newest));
    let version = read.await?.map(|it| it.environment.version);
    let existing = engine.read(move |queries| queries.definitions(no, environment)).await?;
    let before = existing.iter().find(|it| it.key == change.key);
    let upon = before.map(|it| it.version);
    // What is validated against the whole environment must not be applied to another version of it.
    let needs_whole = change.key.kind == DefinitionKind::Segment || upon.is_none();
    let version = version.filter(|_| needs_whole);
    let judged = match result(&change, before, &existing).await {
        Ok(NewDefinition { id, body, is_archived, .. }) => Judged::Fits { id, body, is_archived },
        Err(error @ (Error::Unavailable(_) | Error::Unreadable(_))) => return Err(error),
        Err(error) => Judged::Fails { explanation: error.explanation() },
    };
    let approved = change.decided_by.map(|user| format!(", approved by {user}"));
    let note = format!("change {}{}", change.id, approved.unwrap_or_default());
    let comments = change.comment.map_or(note.clone(), |comment| format!("{comment} ({note})"));
    let id = engine.mint();
    let (user, created_by) = (change.author.clone(), change.author);
    let request = Request {
        id,
        tenant: no,
        actor: Actor {
            user,
            created_by,
            reason: change.reason,
            comments: Some(comments),
            token: id.0,
        },
        idempotency: None,
        command: Command::Flag(FlagCommand::ApplyChange(ApplyChange {
            change: change.id,
            key: change.key,
            upon,
            version,
            judged,
        })),
    };
    match engine.submit_own(request).await? {
        Answer::Refused(refused) if !is_outdated(&refused) => {
            Err(Error::Rejected(Box::new(refused)))
        }
        Answer::Replied(_) | Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest => {
            Ok(())
        }
    }
}

/// The definition after the change.
async fn result(
    change: &ChangeRequest,
    before: Option<&Definition>,
    existing: &[Definition],
) -> Result<NewDefinition, Error> {
    let part = serde_json::from_str(&change.patch).map_err(|_| Error::bug())?;
    let document = patch::apply(&change.key, before, part)?;
    validate((change.key.kind, document), Expected::Anything, Basis::of(existing)?).await
}

/// Whether the definition or the change itself changed since it was read.
fn is_outdated(refused: &Rejection) -> bool {
    matches!(
        refused,
        Rejection::Flag(FlagRejection::DefinitionChanged { .. })
            | Rejection::Flag(FlagRejection::ChangeNotWaiting { .. })
    )
}
