//! Environments of feature flags, and the secrets that programs read them with.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::execute::{Accepted, Outcome};
use crate::state::{Change, ClaimKey, ClaimKind, Read, State};
use crate::{EnvironmentId, Event, Rejection, Reply, Revision, SecretId, TenantNo, Timestamp};

/// How many secrets an environment has at most, those that ended too.
pub const SECRETS_MAX: usize = 1_000;

/// How many environments a relay proxy has at most: it names all of them where it asks for what is
/// new, in a message of 8 KiB at most.
pub const ENVIRONMENTS_OF_RELAY_MAX: usize = 100;

/// Where a project's flags have values of their own, such as `dev` or `prod`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Whose it is.
    pub tenant: TenantNo,
    /// Its id, which its secrets carry.
    pub id: EnvironmentId,
    /// The project's key.
    pub project: String,
    /// Its own key; unique in the project.
    pub key: String,
    /// What people call it.
    pub name: String,
    /// The version that was given to its last change: Unix time in milliseconds, and always more
    /// than the one before, so that whoever knows a version knows what they miss.
    pub version: i64,
    /// How many flags and segments it has.
    pub definitions: u32,
    /// How many secrets it has, those that ended too.
    pub secrets: u32,
    /// Whether what is defined there changes only by changes that another user has approved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_need_approval: bool,
    /// How many changes wait: see [`crate::change_request`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changes_waiting: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its history: a change of its secrets or definitions is one of it too, so that whoever knows its
    /// newest revision knows what they miss.
    pub revision: Revision,
}

/// What a secret opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SecretKind {
    /// All flags and segments, for servers.
    Server,
    /// Flags as they are for one user, for browsers and apps: not secret from their users.
    Client,
    /// Flags, segments and secrets of several environments, for proxies between them and programs.
    /// Each environment has a row of it, with the same value.
    RelayProxy,
}

/// What programs read an environment with. There may be several, so that one can take the other's
/// place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// Whose it is.
    pub tenant: TenantNo,
    /// Its id, which is not secret.
    pub id: SecretId,
    /// What it opens.
    pub environment: EnvironmentId,
    /// How.
    pub kind: SecretKind,
    /// What people call it.
    pub name: String,
    /// The value, encrypted. Never journalled.
    #[serde(skip)]
    pub sealed: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops opening anything, in real time; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// Its history.
    pub revision: Revision,
}

/// Makes an environment with its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateEnvironment {
    /// Its id: its secrets were made with it.
    pub id: EnvironmentId,
    /// See [`Environment::project`].
    pub project: String,
    /// See [`Environment::key`].
    pub key: String,
    /// See [`Environment::name`].
    pub name: String,
    /// At most [`SECRETS_MAX`].
    pub secrets: Vec<NewSecret>,
}

/// A secret that is about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSecret {
    /// See [`Secret::kind`].
    pub kind: SecretKind,
    /// See [`Secret::name`].
    pub name: String,
    /// See [`Secret::sealed`].
    pub sealed: String,
}

/// Changes what an environment is called, and whether changes need approval there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateEnvironment {
    /// Which environment.
    pub environment: EnvironmentId,
    /// See [`Environment::name`]; `None` where it stays.
    pub name: Option<String>,
    /// See [`Environment::changes_need_approval`]; `None` where it stays.
    pub changes_need_approval: Option<bool>,
}

/// Gives an environment one more secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddSecret {
    /// Which environment.
    pub environment: EnvironmentId,
    /// The secret.
    pub secret: NewSecret,
}

/// Lets a secret end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpireSecret {
    /// Of which environment.
    pub environment: EnvironmentId,
    /// Which secret.
    pub secret: SecretId,
    /// See [`Secret::expires_at`].
    pub at: Timestamp,
}

impl ExpireSecret {
    pub(crate) fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        read(Read::Environment(tenant, self.environment));
        read(Read::Secret(tenant, self.secret));
    }
}

/// Gives several environments a secret each, all or none: those of a relay proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddSecrets {
    /// One for each environment, at most [`ENVIRONMENTS_OF_RELAY_MAX`].
    pub secrets: Vec<AddSecret>,
}

/// Lets several secrets end, all or none: those of a relay proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpireSecrets {
    /// One of each environment.
    pub secrets: Vec<ExpireSecret>,
}

/// The claim on an environment's name.
pub(crate) fn claim(tenant: TenantNo, project: &str, key: &str) -> ClaimKey {
    ClaimKey::new(tenant, ClaimKind::Environment, &format!("{project}/{key}"))
}

pub(crate) fn create(state: &State, it: &CreateEnvironment, cx: &mut Context) -> Outcome {
    for (field, key) in [("project", &it.project), ("key", &it.key)] {
        if !is_key(key) {
            return Err(Rejection::invalid(field, "letters, digits, - and _ were expected"));
        }
    }
    if it.secrets.len() > SECRETS_MAX {
        return Err(Rejection::invalid("secrets", "there are too many"));
    }
    let name = claim(cx.tenant, &it.project, &it.key);
    let is_known = state.environment(cx.tenant, it.id).is_some();
    if is_known || state.claim(&name).is_some() {
        return Err(Rejection::EnvironmentAlreadyExists { key: it.key.clone() });
    }
    cx.claim(name, it.id.uuid(), None);
    cx.change(Change::Environment(Environment {
        tenant: cx.tenant,
        id: it.id,
        project: it.project.clone(),
        key: it.key.clone(),
        name: it.name.clone(),
        version: 0,
        definitions: 0,
        secrets: u32::try_from(it.secrets.len()).unwrap_or(u32::MAX),
        changes_need_approval: false,
        changes_waiting: 0,
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    }));
    for secret in &it.secrets {
        add(it.id, secret, cx);
    }
    cx.event(Event::EnvironmentChanged { environment: it.id });
    Ok(Accepted::now(Reply::EnvironmentCreated(it.id)))
}

pub(crate) fn update(state: &State, it: &UpdateEnvironment, cx: &mut Context) -> Outcome {
    let Some(before) = state.environment(cx.tenant, it.environment) else {
        return Err(Rejection::EnvironmentNotFound { id: it.environment });
    };
    let need_approval = it.changes_need_approval.unwrap_or(before.changes_need_approval);
    cx.change(Change::Environment(Environment {
        name: it.name.clone().unwrap_or_else(|| before.name.clone()),
        changes_need_approval: need_approval,
        revision: before.revision.next(cx.seq),
        ..before.clone()
    }));
    cx.event(Event::EnvironmentChanged { environment: it.environment });
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn add_secret(state: &State, it: &AddSecret, cx: &mut Context) -> Outcome {
    let id = add_to(state, it, cx)?;
    Ok(Accepted::now(Reply::SecretAdded(id)))
}

pub(crate) fn add_secrets(state: &State, it: &AddSecrets, cx: &mut Context) -> Outcome {
    check_each_once(it.secrets.iter().map(|it| it.environment))?;
    let mut first = None;
    for secret in &it.secrets {
        let id = add_to(state, secret, cx)?;
        first.get_or_insert(id);
    }
    let first = first.ok_or_else(|| Rejection::invalid("environments", "there is none"))?;
    Ok(Accepted::now(Reply::SecretAdded(first)))
}

fn add_to(state: &State, it: &AddSecret, cx: &mut Context) -> Result<SecretId, Rejection> {
    let Some(before) = state.environment(cx.tenant, it.environment) else {
        return Err(Rejection::EnvironmentNotFound { id: it.environment });
    };
    let secrets = before.secrets + 1;
    if usize::try_from(secrets).unwrap_or(usize::MAX) > SECRETS_MAX {
        return Err(Rejection::invalid("secrets", "the environment has too many"));
    }
    let revision = before.revision.next(cx.seq);
    cx.change(Change::Environment(Environment { secrets, revision, ..before.clone() }));
    let id = add(it.environment, &it.secret, cx);
    cx.event(Event::EnvironmentChanged { environment: it.environment });
    Ok(id)
}

/// Nothing is changed twice by one command.
fn check_each_once(environments: impl Iterator<Item = EnvironmentId>) -> Result<(), Rejection> {
    let mut seen = BTreeSet::new();
    for environment in environments {
        if !seen.insert(environment) {
            return Err(Rejection::invalid("environments", "one is there twice"));
        }
    }
    match seen.len() <= ENVIRONMENTS_OF_RELAY_MAX {
        true => Ok(()),
        false => Err(Rejection::invalid("environments", "there are too many")),
    }
}

/// A relay proxy's secret ends in all of its environments, by [`expire_secrets`].
pub(crate) fn expire_secret(state: &State, it: &ExpireSecret, cx: &mut Context) -> Outcome {
    let known = state.secret(cx.tenant, it.secret);
    if known.is_some_and(|it| it.kind == SecretKind::RelayProxy) {
        return Err(Rejection::SecretNotFound { id: it.secret });
    }
    expire_in(state, it, cx)?;
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn expire_secrets(state: &State, it: &ExpireSecrets, cx: &mut Context) -> Outcome {
    check_each_once(it.secrets.iter().map(|it| it.environment))?;
    for secret in &it.secrets {
        expire_in(state, secret, cx)?;
    }
    Ok(Accepted::now(Reply::Done))
}

fn expire_in(state: &State, it: &ExpireSecret, cx: &mut Context) -> Result<(), Rejection> {
    let Some(environment) = state.environment(cx.tenant, it.environment) else {
        return Err(Rejection::EnvironmentNotFound { id: it.environment });
    };
    let Some(before) =
        state.secret(cx.tenant, it.secret).filter(|secret| secret.environment == it.environment)
    else {
        return Err(Rejection::SecretNotFound { id: it.secret });
    };
    let revision = environment.revision.next(cx.seq);
    cx.change(Change::Environment(Environment { revision, ..environment.clone() }));
    cx.change(Change::Secret(Secret {
        expires_at: Some(it.at),
        revision: before.revision.next(cx.seq),
        ..before.clone()
    }));
    cx.event(Event::EnvironmentChanged { environment: before.environment });
    Ok(())
}

fn add(environment: EnvironmentId, it: &NewSecret, cx: &mut Context) -> SecretId {
    let id = cx.mint();
    cx.change(Change::Secret(Secret {
        tenant: cx.tenant,
        id,
        environment,
        kind: it.kind,
        name: it.name.clone(),
        sealed: it.sealed.clone(),
        created_at: cx.now,
        expires_at: None,
        revision: Revision::first(cx.seq),
    }));
    id
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Can it stand in an address as it is?
fn is_key(text: &str) -> bool {
    const LONGEST: usize = 64;
    let is_right = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
    (1..=LONGEST).contains(&text.len()) && text.chars().all(is_right)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::testing::{Rows, TENANT};
    use crate::{Command, Executed};

    fn create(rows: &mut Rows, id: u128, project: &str, key: &str) -> Result<Executed, Rejection> {
        let secret = |kind| NewSecret { kind, name: String::new(), sealed: "sealed".to_owned() };
        rows.run(Command::CreateEnvironment(CreateEnvironment {
            id: EnvironmentId::new(Uuid::from_u128(id)),
            project: project.to_owned(),
            key: key.to_owned(),
            name: String::new(),
            secrets: vec![secret(SecretKind::Server), secret(SecretKind::Client)],
        }))
    }

    #[test]
    fn names_are_unique_in_their_project() {
        let mut rows = Rows::new();
        let executed = create(&mut rows, 1, "default", "dev").unwrap();
        let secrets = executed.done.changes.iter();
        assert_eq!(secrets.filter(|it| matches!(it, Change::Secret(_))).count(), 2);
        create(&mut rows, 2, "other", "dev").unwrap();
        let taken = Err(Rejection::EnvironmentAlreadyExists { key: "dev".to_owned() });
        assert_eq!(create(&mut rows, 3, "default", "dev"), taken);
        let taken = Err(Rejection::EnvironmentAlreadyExists { key: "prod".to_owned() });
        assert_eq!(create(&mut rows, 1, "default", "prod"), taken);
        for key in ["", "a/b", "a b", &"x".repeat(65)] {
            let refused = create(&mut rows, 4, "default", key);
            assert!(matches!(refused, Err(Rejection::InvalidParameter { .. })), "{key}");
        }
    }

    #[test]
    fn a_relay_proxy_s_secrets_are_added_and_end_together() {
        let mut rows = Rows::new();
        create(&mut rows, 1, "default", "dev").unwrap();
        create(&mut rows, 2, "default", "prod").unwrap();
        let environment = |n| EnvironmentId::new(Uuid::from_u128(n));
        let add = |environments: &[u128]| {
            let secret = |n: &u128| {
                let (kind, sealed) = (SecretKind::RelayProxy, format!("sealed for {n}"));
                let secret = NewSecret { kind, name: "agent".to_owned(), sealed };
                AddSecret { environment: environment(*n), secret }
            };
            Command::AddSecrets(AddSecrets { secrets: environments.iter().map(secret).collect() })
        };
        let refused = |reason| Err(Rejection::invalid("environments", reason));
        assert_eq!(rows.run(add(&[])), refused("there is none"));
        assert_eq!(rows.run(add(&[1, 2, 1])), refused("one is there twice"));
        let many: Vec<u128> = (1..=101).collect();
        assert_eq!(rows.run(add(&many)), refused("there are too many"));
        let nowhere = Err(Rejection::EnvironmentNotFound { id: environment(3) });
        assert_eq!(rows.run(add(&[1, 3])), nowhere);
        let before = rows.state.environment(TENANT, environment(1)).unwrap().secrets;
        let executed = rows.run(add(&[2, 1])).unwrap();
        assert_eq!(rows.state.environment(TENANT, environment(1)).unwrap().secrets, before + 1);
        let added = executed.done.changes.iter().filter_map(|it| {
            let Change::Secret(secret) = it else { return None };
            Some((secret.environment, secret.id, secret.sealed.clone()))
        });
        let added: Vec<_> = added.collect();
        let sealed: Vec<&str> = added.iter().map(|it| it.2.as_str()).collect();
        assert_eq!(sealed, ["sealed for 2", "sealed for 1"]);
        assert_eq!(executed.reply, Some(Reply::SecretAdded(added[0].1)));

        let expire = |(environment, secret): (EnvironmentId, SecretId)| ExpireSecret {
            environment,
            secret,
            at: Timestamp(7),
        };
        let [first, second] = [0, 1].map(|at| expire((added[at].0, added[at].1)));
        let alone = Command::ExpireSecret(first.clone());
        assert_eq!(rows.run(alone), Err(Rejection::SecretNotFound { id: first.secret }));
        let crossed = ExpireSecret { environment: second.environment, ..first.clone() };
        let crossed = Command::ExpireSecrets(ExpireSecrets { secrets: vec![crossed] });
        assert_eq!(rows.run(crossed), Err(Rejection::SecretNotFound { id: first.secret }));
        let both = ExpireSecrets { secrets: vec![first.clone(), second.clone()] };
        rows.run(Command::ExpireSecrets(both)).unwrap();
        for it in [first, second] {
            let secret = rows.state.secret(TENANT, it.secret).unwrap();
            assert_eq!(secret.expires_at, Some(Timestamp(7)));
        }
    }

    #[test]
    fn a_secret_is_added_and_ends() {
        let mut rows = Rows::new();
        create(&mut rows, 1, "default", "dev").unwrap();
        let add = |environment| {
            let (kind, sealed) = (SecretKind::Server, "s".to_owned());
            let secret = NewSecret { kind, name: "new".to_owned(), sealed };
            Command::AddSecret(AddSecret { environment, secret })
        };
        let nowhere = EnvironmentId::new(Uuid::from_u128(9));
        let refused = Err(Rejection::EnvironmentNotFound { id: nowhere });
        assert_eq!(rows.run(add(nowhere)), refused);
        let executed = rows.run(add(EnvironmentId::new(Uuid::from_u128(1)))).unwrap();
        let Some(Reply::SecretAdded(id)) = executed.reply else { panic!("{executed:?}") };
        let here = EnvironmentId::new(Uuid::from_u128(1));
        let expire = |secret| {
            let (environment, at) = (here, Timestamp(7));
            Command::ExpireSecret(ExpireSecret { environment, secret, at })
        };
        rows.run(expire(id)).unwrap();
        let secret = rows.state.secret(TENANT, id).unwrap();
        assert_eq!((secret.expires_at, secret.name.as_str()), (Some(Timestamp(7)), "new"));
        for _ in 3..SECRETS_MAX {
            rows.run(add(here)).unwrap();
        }
        let full = Rejection::invalid("secrets", "the environment has too many");
        assert_eq!(rows.run(add(here)), Err(full));
        let unknown = SecretId::new(Uuid::from_u128(9));
        let refused = Err(Rejection::SecretNotFound { id: unknown });
        assert_eq!(rows.run(expire(unknown)), refused);
        create(&mut rows, 2, "default", "prod").unwrap();
        let environment = EnvironmentId::new(Uuid::from_u128(2));
        let of_another = ExpireSecret { environment, secret: id, at: Timestamp(7) };
        let refused = Err(Rejection::SecretNotFound { id });
        assert_eq!(rows.run(Command::ExpireSecret(of_another)), refused);
    }
}
