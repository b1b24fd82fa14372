//! How a partition processes a batch, with what is to go wrong.

use domain::command::PaymentCommand;
use domain::payment::health::{BatchHealth, Unready};
use domain::payment::{GatewayAnswer, GatewayOutcome, GatewayStatus};
use domain::{Command, TenantNo};
use engine::partition::{Processed, Work};
use engine::ports::{Bookkeeping, Store};

use super::Offer;
use crate::mutant::Mutant;
use crate::translate;
use crate::world::owners::Owner;
use crate::world::{FOLLOWER, From, Job};

/// Processes a batch, with what is to go wrong.
pub(in crate::world) fn process<S: Store>(owner: &mut Owner<S>, offer: &mut Offer) -> Processed {
    owner.spy.arm(offer.trouble);
    let mut works: Vec<Work> = offer.jobs.iter().map(work).collect();
    for work in &mut works {
        bring_tries(owner, work);
    }
    let mut health = BatchHealth::default();
    for (tenant, gateway) in &offer.open_breakers {
        match tenant {
            None => health.set(gateway, Unready::BreakerOpen),
            Some(no) => health.set_of(TenantNo(*no), gateway, Unready::BreakerOpen),
        }
    }
    if owner.mutant != Some(Mutant::StampsNoHealth) {
        owner.partition.stamp_health(health.clone());
    }
    let upto = offer.reading.as_ref().map(|it| i64::try_from(it.upto).expect("records are few"));
    works.extend(upto.map(Work::ReadOn));
    let (is_scarce, refused) = (offer.is_scarce, &mut offer.refused_permits);
    let ignores = owner.mutant == Some(Mutant::StampsNoHealth);
    let mut permit = |tenant, gateway: &str| {
        let is_open = health.of(tenant).unready(gateway).is_some() && !ignores;
        *refused += u32::from(is_scarce || is_open);
        match (is_scarce, is_open) {
            (true, _) => Err(engine::Reason::GatewayFull),
            (false, true) => Err(engine::Reason::BreakerOpen),
            (false, false) => Ok(()),
        }
    };
    owner.partition.process(&works, offer.times, &mut permit)
}

/// Gives the answer to a call what the process knows of where it may go on.
fn bring_tries<S: Store>(owner: &Owner<S>, work: &mut Work) {
    let Work::Request(request) = work else { return };
    let Command::Payment(PaymentCommand::GatewayReplied(it)) = &mut request.command else { return };
    it.tries = owner.tries.get(&it.transaction.uuid().as_u128()).cloned();
    let is_unknown = matches!(it.answer, GatewayAnswer::TimedOut | GatewayAnswer::Nothing);
    let acts = matches!(&it.answer, GatewayAnswer::Outcome(it) if it.next_action.is_some());
    let mutant = owner.mutant;
    if (is_unknown && mutant == Some(Mutant::CascadesAfterUnknown))
        || (acts && mutant == Some(Mutant::CascadesWhileActing))
    {
        it.answer = GatewayAnswer::Outcome(GatewayOutcome {
            error_code: Some("51".to_owned()),
            ..GatewayOutcome::new(GatewayStatus::Error)
        });
    }
}

fn work(job: &Job) -> Work {
    match job.from {
        From::Follower(upto) => Work::Bookkeeping(vec![Bookkeeping::Followed {
            follower: FOLLOWER,
            upto: domain::Seq(upto),
        }]),
        From::Client(_) | From::Call | From::Resolver | From::Maker | From::Notification => {
            Work::Request(Box::new(translate::request(&job.ask)))
        }
    }
}
