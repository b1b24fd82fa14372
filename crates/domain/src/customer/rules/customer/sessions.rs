//! Sessions: how one begins, is renewed and ends.

use super::lookup::{changed, find};
use crate::change::CustomerChange;
use crate::context::Context;
use crate::customer::{
    CloseSessions, Code, CustomerFile, CustomerRejection as R, CustomerReply, CustomerStatus,
    OpenSession, RefreshSession, SESSIONS_MAX, SecondFactor, Session,
};
use crate::reply::Outcome;
use crate::state::State;
use crate::{Accepted, Rejection, Reply};

pub(crate) fn open_session(state: &State, it: &OpenSession, cx: &mut Context) -> Outcome {
    let file = find(state, it.customer, cx)?;
    let customer = &file.customer;
    let refuse = |why| Err(Rejection::Customer(why));
    if customer.status != CustomerStatus::Active {
        return refuse(R::Deactivated);
    }
    if !customer.is_verified {
        return refuse(R::NotVerified);
    }
    if customer.password_version != it.password_version {
        return refuse(R::PasswordChanged);
    }
    let second_factor = take_code(customer.credentials.second_factor.as_ref(), it.code.as_ref())?;
    if it.rehashed.is_some() || second_factor != customer.credentials.second_factor {
        let mut after = changed(customer, cx);
        it.rehashed.iter().for_each(|hash| after.credentials.password_hash.clone_from(hash));
        after.credentials.second_factor = second_factor;
        cx.change(CustomerChange::Customer(after));
    }
    end_superfluous(file, cx);
    let session = Session {
        tenant: cx.tenant,
        id: cx.mint(),
        customer: customer.id,
        generation: 0,
        created_at: cx.now,
        renewed_at: cx.now,
        expires_at: cx.now.plus_us(it.lifetime_us),
        refresh_until: cx.now.plus_us(it.refresh_us),
        network: it.network,
    };
    let reply = session_reply(&session);
    cx.change(CustomerChange::Session(session));
    Ok(Accepted::now(reply))
}

/// The second factor after a code was taken, which is not accepted again. Refused where a code is asked for and none
/// is right.
pub(super) fn take_code(
    second_factor: Option<&SecondFactor>,
    code: Option<&Code>,
) -> Result<Option<SecondFactor>, Rejection> {
    let Some(asked) = second_factor.filter(|it| it.is_confirmed) else {
        return Ok(second_factor.cloned());
    };
    let mut left = asked.clone();
    match code {
        Some(Code::Step(step)) if *step > asked.last_step => left.last_step = *step,
        Some(Code::Recovery(hash)) if asked.recovery_hashes.contains(hash) => {
            left.recovery_hashes.retain(|it| it != hash);
        }
        Some(Code::Step(_) | Code::Recovery(_)) | None => {
            return Err(Rejection::Customer(R::CodeInvalid));
        }
    }
    Ok(Some(left))
}

/// Ends the sessions that nobody can go on with, and the oldest where there are too many.
fn end_superfluous(file: &CustomerFile, cx: &mut Context) {
    let (mut live, over): (Vec<&Session>, Vec<&Session>) =
        file.sessions.iter().partition(|it| it.refresh_until > cx.now);
    live.sort_by_key(|it| (it.created_at, it.id));
    let too_many = (live.len() + 1).saturating_sub(SESSIONS_MAX);
    for session in over.into_iter().chain(live.into_iter().take(too_many)) {
        end(session, cx);
    }
}

pub(crate) fn refresh_session(state: &State, it: &RefreshSession, cx: &mut Context) -> Outcome {
    let file = find(state, it.customer, cx)?;
    let before = file.sessions.iter().find(|own| own.id == it.session);
    let ends_at = |own: &Session| own.created_at.plus_us(it.session_max_us);
    let live = before
        .filter(|own| own.refresh_until.min(ends_at(own)) > cx.now)
        .filter(|own| it.generation <= own.generation);
    let before = live.ok_or(Rejection::Customer(R::SessionNotFound))?;
    if it.generation < before.generation {
        let was_renewed_just_now = it.generation + 1 == before.generation
            && before.network == it.network
            // A clock that went back does not lengthen the grace.
            && (cx.now.0 - before.renewed_at.0).abs() < it.grace_us;
        if was_renewed_just_now {
            return Ok(Accepted::now(session_reply(before)));
        }
        end(before, cx);
        return Ok(Accepted::now(Reply::Customer(CustomerReply::SessionRevoked)));
    }
    let ends_at = ends_at(before);
    let session = Session {
        generation: before.generation.checked_add(1).expect("nobody renews so often"),
        renewed_at: cx.now,
        expires_at: cx.now.plus_us(it.lifetime_us).min(ends_at),
        refresh_until: cx.now.plus_us(it.refresh_us).min(ends_at),
        network: it.network,
        ..before.clone()
    };
    let reply = session_reply(&session);
    cx.change(CustomerChange::Session(session));
    Ok(Accepted::now(reply))
}

pub(crate) fn close_sessions(state: &State, it: &CloseSessions, cx: &mut Context) -> Outcome {
    let file = find(state, it.customer, cx)?;
    match it.session {
        None => end_all(file, cx),
        Some(id) => {
            let own = file.sessions.iter().find(|own| own.id == id);
            end(own.ok_or(Rejection::Customer(R::SessionNotFound))?, cx);
        }
    }
    Ok(Accepted::now(Reply::Done))
}

/// Ends all sessions of a customer.
pub(super) fn end_all(file: &CustomerFile, cx: &mut Context) {
    file.sessions.iter().for_each(|session| end(session, cx));
}

fn end(session: &Session, cx: &mut Context) {
    let (session, customer) = (session.id, session.customer);
    cx.change(CustomerChange::SessionEnded { session, customer });
}

const fn session_reply(it: &Session) -> Reply {
    let (session, generation, expires_at) = (it.id, it.generation, it.expires_at);
    Reply::Customer(CustomerReply::Session { session, generation, expires_at })
}
