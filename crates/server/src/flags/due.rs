//! Makes the changes of feature flags that were kept for later, once their time has come.
//!
//! The core does not read documents, so what a patch makes of one is found out here, upon what is
//! there, and then told to the core: it makes the change if that is still there, and once, because a
//! change that was made does not wait any more. Which ones wait is in the store: nothing is lost with
//! a process. Whoever owns the first partition runs this.

use std::future::Future;
use std::time::Duration;

use domain::change_request::{ApplyChange, ChangeRequest, Judged};
use domain::definition::{Definition, DefinitionKind, Expected, NewDefinition};
use domain::payment::Actor;
use domain::{Command, Rejection, Request};
use engine::{Answer, Engine, Unavailable};

use crate::native::flags::{input, patch};
use crate::problem::Problem;

/// How often it looks for changes whose time has come.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long it waits where one could be neither made nor given up.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// How many changes it asks for at a time.
const CHANGES_MAX: usize = 32;

/// Makes changes until `stop` is ready.
pub async fn run(engine: Engine, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    loop {
        let pass = async {
            let made_all = match pass(&engine).await {
                Ok(made_all) => made_all,
                Err(error) => {
                    tracing::warn!(error = %error, "changes of feature flags wait to be made");
                    false
                }
            };
            tokio::time::sleep(if made_all { LOOK_EVERY } else { AFTER_FAILURE }).await;
        };
        // A command that was begun is carried out or not, whether somebody waits for it or not.
        tokio::select! {
            () = pass => {}
            () = &mut stop => return,
        }
    }
}

/// Makes all that is due; whether nothing was left over.
async fn pass(engine: &Engine) -> Result<bool, Unavailable> {
    let now = engine.clock().now();
    let (mut after, mut made_all) = (None, true);
    loop {
        let read = engine.read(move |queries| queries.change_requests_due(now, after, CHANGES_MAX));
        let due = read.await?;
        let is_last = due.len() < CHANGES_MAX;
        for change in due {
            after = change.due_at.map(|at| (at, change.id));
            let id = change.id;
            if let Err(error) = make(engine, change).await {
                tracing::warn!(change.id = %id, error = %error, "a change waits to be made");
                made_all = false;
            }
        }
        if is_last {
            return Ok(made_all);
        }
    }
}

/// Makes a change, or gives it up. Where somebody else changed the same meanwhile, the next look
/// makes it upon theirs.
async fn make(engine: &Engine, change: ChangeRequest) -> Result<(), Problem> {
    let (no, environment) = (change.tenant, change.key.environment);
    let newest = Some(i64::MAX);
    let read = engine.read(move |queries| queries.environment_file(no, environment, newest));
    let version = read.await?.map(|it| it.environment.version);
    let there = engine.read(move |queries| queries.definitions(no, environment)).await?;
    let before = there.iter().find(|it| it.key == change.key);
    let upon = before.map(|it| it.version);
    // What is judged by all that is there: if something changes meanwhile, it may not fit any more.
    let is_by_all = change.key.kind == DefinitionKind::Segment || upon.is_none();
    let version = version.filter(|_| is_by_all);
    let judged = match judge(&change, before, &there).await {
        Ok(NewDefinition { id, body, is_archived, .. }) => Judged::Fits { id, body, is_archived },
        Err(problem @ (Problem::Unavailable(_) | Problem::Access(_))) => return Err(problem),
        Err(problem) => Judged::Fails { explanation: input::explained(&problem) },
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
        command: Command::ApplyChange(ApplyChange {
            change: change.id,
            key: change.key,
            upon,
            version,
            judged,
        }),
    };
    match engine.submit_own(request).await? {
        Answer::Refused(refused) if !is_overtaken(&refused) => {
            Err(Problem::Rejected(Box::new(refused)))
        }
        Answer::Replied(_) | Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest => {
            Ok(())
        }
    }
}

/// What the change makes of what is there.
async fn judge(
    change: &ChangeRequest,
    before: Option<&Definition>,
    there: &[Definition],
) -> Result<NewDefinition, Problem> {
    let part = serde_json::from_str(&change.patch).map_err(|_| crate::native::flags::bug())?;
    let document = patch::patched(&change.key, before, part)?;
    patch::judged((change.key.kind, document), Expected::Anything, there).await
}

/// Whether somebody was quicker.
fn is_overtaken(refused: &Rejection) -> bool {
    matches!(refused, Rejection::DefinitionChanged { .. } | Rejection::ChangeNotWaiting { .. })
}
