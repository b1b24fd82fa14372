//! Environments and their secrets: how they are created, changed and expired.

use std::collections::BTreeSet;

use crate::change::FlagChange;
use crate::context::Context;
use crate::flag::environment::{
    self, AddSecret, AddSecrets, CreateEnvironment, ENVIRONMENTS_OF_RELAY_MAX, Environment,
    ExpireSecret, ExpireSecrets, NewSecret, SECRETS_MAX, Secret, SecretKind, UpdateEnvironment,
};
use crate::reply::{FlagReply, Outcome};
use crate::state::State;
use crate::{Accepted, EnvironmentId, Event, FlagRejection, Rejection, Reply, Revision, SecretId};

pub(crate) fn create(state: &State, it: &CreateEnvironment, cx: &mut Context) -> Outcome {
    for (field, key) in [("project", &it.project), ("key", &it.key)] {
        if !is_key(key) {
            return Err(Rejection::invalid(field, "letters, digits, - and _ were expected"));
        }
    }
    if it.secrets.len() > SECRETS_MAX {
        return Err(Rejection::invalid("secrets", "there are too many"));
    }
    let name = environment::claim(cx.tenant, &it.project, &it.key);
    let is_known = state.environment(cx.tenant, it.id).is_some();
    if is_known || state.claim(&name).is_some() {
        return Err(FlagRejection::EnvironmentAlreadyExists { key: it.key.clone() }.into());
    }
    cx.claim(name, it.id.uuid(), None);
    cx.change(FlagChange::Environment(Environment {
        tenant: cx.tenant,
        id: it.id,
        project: it.project.clone(),
        key: it.key.clone(),
        name: it.name.clone(),
        version: 0,
        definitions: 0,
        definitions_bytes: 0,
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
    Ok(Accepted::now(Reply::Flag(FlagReply::EnvironmentCreated(it.id))))
}

pub(crate) fn update(state: &State, it: &UpdateEnvironment, cx: &mut Context) -> Outcome {
    let Some(before) = state.environment(cx.tenant, it.environment) else {
        return Err(FlagRejection::EnvironmentNotFound { id: it.environment }.into());
    };
    let need_approval = it.changes_need_approval.unwrap_or(before.changes_need_approval);
    cx.change(FlagChange::Environment(Environment {
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
    Ok(Accepted::now(Reply::Flag(FlagReply::SecretAdded(id))))
}

pub(crate) fn add_secrets(state: &State, it: &AddSecrets, cx: &mut Context) -> Outcome {
    check_each_once(it.secrets.iter().map(|it| it.environment))?;
    let mut first = None;
    for secret in &it.secrets {
        let id = add_to(state, secret, cx)?;
        first.get_or_insert(id);
    }
    let first = first.ok_or_else(|| Rejection::invalid("environments", "there is none"))?;
    Ok(Accepted::now(Reply::Flag(FlagReply::SecretAdded(first))))
}

fn add_to(state: &State, it: &AddSecret, cx: &mut Context) -> Result<SecretId, Rejection> {
    let Some(before) = state.environment(cx.tenant, it.environment) else {
        return Err(FlagRejection::EnvironmentNotFound { id: it.environment }.into());
    };
    let secrets = before.secrets + 1;
    if usize::try_from(secrets).unwrap_or(usize::MAX) > SECRETS_MAX {
        return Err(Rejection::invalid("secrets", "the environment has too many"));
    }
    let revision = before.revision.next(cx.seq);
    cx.change(FlagChange::Environment(Environment { secrets, revision, ..before.clone() }));
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
        return Err(FlagRejection::SecretNotFound { id: it.secret }.into());
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
        return Err(FlagRejection::EnvironmentNotFound { id: it.environment }.into());
    };
    let Some(before) =
        state.secret(cx.tenant, it.secret).filter(|secret| secret.environment == it.environment)
    else {
        return Err(FlagRejection::SecretNotFound { id: it.secret }.into());
    };
    let revision = environment.revision.next(cx.seq);
    cx.change(FlagChange::Environment(Environment { revision, ..environment.clone() }));
    cx.change(FlagChange::Secret(Secret {
        expires_at: Some(it.at),
        revision: before.revision.next(cx.seq),
        ..before.clone()
    }));
    cx.event(Event::EnvironmentChanged { environment: before.environment });
    Ok(())
}

fn add(environment: EnvironmentId, it: &NewSecret, cx: &mut Context) -> SecretId {
    let id = cx.mint();
    cx.change(FlagChange::Secret(Secret {
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
    use crate::Timestamp;
    use crate::change::Change;
    use crate::command::FlagCommand;
    use crate::testing::{Rows, TENANT};
    use crate::{Command, Executed};

    fn create(rows: &mut Rows, id: u128, project: &str, key: &str) -> Result<Executed, Rejection> {
        let secret = |kind| NewSecret { kind, name: String::new(), sealed: "sealed".to_owned() };
        rows.run(Command::Flag(FlagCommand::CreateEnvironment(CreateEnvironment {
            id: EnvironmentId::new(Uuid::from_u128(id)),
            project: project.to_owned(),
            key: key.to_owned(),
            name: String::new(),
            secrets: vec![secret(SecretKind::Server), secret(SecretKind::Client)],
        })))
    }

    #[test]
    fn names_are_unique_in_their_project() {
        let mut rows = Rows::new();
        let executed = create(&mut rows, 1, "default", "dev").unwrap();
        let secrets = executed.done.changes.iter();
        assert_eq!(
            secrets.filter(|it| matches!(it, Change::Flag(FlagChange::Secret(_)))).count(),
            2
        );
        create(&mut rows, 2, "other", "dev").unwrap();
        let taken = Err(FlagRejection::EnvironmentAlreadyExists { key: "dev".to_owned() }.into());
        assert_eq!(create(&mut rows, 3, "default", "dev"), taken);
        let taken = Err(FlagRejection::EnvironmentAlreadyExists { key: "prod".to_owned() }.into());
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
            Command::Flag(FlagCommand::AddSecrets(AddSecrets {
                secrets: environments.iter().map(secret).collect(),
            }))
        };
        let refused = |reason| Err(Rejection::invalid("environments", reason));
        assert_eq!(rows.run(add(&[])), refused("there is none"));
        assert_eq!(rows.run(add(&[1, 2, 1])), refused("one is there twice"));
        let many: Vec<u128> = (1..=101).collect();
        assert_eq!(rows.run(add(&many)), refused("there are too many"));
        let nowhere = Err(FlagRejection::EnvironmentNotFound { id: environment(3) }.into());
        assert_eq!(rows.run(add(&[1, 3])), nowhere);
        let before = rows.state.environment(TENANT, environment(1)).unwrap().secrets;
        let executed = rows.run(add(&[2, 1])).unwrap();
        assert_eq!(rows.state.environment(TENANT, environment(1)).unwrap().secrets, before + 1);
        let added = executed.done.changes.iter().filter_map(|it| {
            let Change::Flag(FlagChange::Secret(secret)) = it else { return None };
            Some((secret.environment, secret.id, secret.sealed.clone()))
        });
        let added: Vec<_> = added.collect();
        let sealed: Vec<&str> = added.iter().map(|it| it.2.as_str()).collect();
        assert_eq!(sealed, ["sealed for 2", "sealed for 1"]);
        assert_eq!(executed.reply, Some(Reply::Flag(FlagReply::SecretAdded(added[0].1))));

        let expire = |(environment, secret): (EnvironmentId, SecretId)| ExpireSecret {
            environment,
            secret,
            at: Timestamp(7),
        };
        let [first, second] = [0, 1].map(|at| expire((added[at].0, added[at].1)));
        let alone = Command::Flag(FlagCommand::ExpireSecret(first.clone()));
        assert_eq!(rows.run(alone), Err(FlagRejection::SecretNotFound { id: first.secret }.into()));
        let crossed = ExpireSecret { environment: second.environment, ..first.clone() };
        let crossed =
            Command::Flag(FlagCommand::ExpireSecrets(ExpireSecrets { secrets: vec![crossed] }));
        assert_eq!(
            rows.run(crossed),
            Err(FlagRejection::SecretNotFound { id: first.secret }.into())
        );
        let both = ExpireSecrets { secrets: vec![first.clone(), second.clone()] };
        rows.run(Command::Flag(FlagCommand::ExpireSecrets(both))).unwrap();
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
            Command::Flag(FlagCommand::AddSecret(AddSecret { environment, secret }))
        };
        let nowhere = EnvironmentId::new(Uuid::from_u128(9));
        let refused = Err(FlagRejection::EnvironmentNotFound { id: nowhere }.into());
        assert_eq!(rows.run(add(nowhere)), refused);
        let executed = rows.run(add(EnvironmentId::new(Uuid::from_u128(1)))).unwrap();
        let Some(Reply::Flag(FlagReply::SecretAdded(id))) = executed.reply else {
            panic!("{executed:?}")
        };
        let here = EnvironmentId::new(Uuid::from_u128(1));
        let expire = |secret| {
            let (environment, at) = (here, Timestamp(7));
            Command::Flag(FlagCommand::ExpireSecret(ExpireSecret { environment, secret, at }))
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
        let refused = Err(FlagRejection::SecretNotFound { id: unknown }.into());
        assert_eq!(rows.run(expire(unknown)), refused);
        create(&mut rows, 2, "default", "prod").unwrap();
        let environment = EnvironmentId::new(Uuid::from_u128(2));
        let of_another = ExpireSecret { environment, secret: id, at: Timestamp(7) };
        let refused = Err(FlagRejection::SecretNotFound { id }.into());
        assert_eq!(rows.run(Command::Flag(FlagCommand::ExpireSecret(of_another))), refused);
    }
}
