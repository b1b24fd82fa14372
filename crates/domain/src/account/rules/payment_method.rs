//! Payment methods: created, made the default, deleted.

use crate::account::blocking_state::ClosedTo;
use crate::account::payment_method::{
    CreatePaymentMethod, DeletePaymentMethod, MethodTask, SetDefaultPaymentMethod,
};
use crate::account::rules::closed::refuse_closed;
use crate::account::rules::default_method;
use crate::account::rules::method_step;
use crate::account::rules::tag;
use crate::account::tag::ControlTag;
use crate::change::AccountChange;
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::payment::EXTERNAL_PAYMENT;
use crate::payment::routing;
use crate::payment::rules::merchant_account::merchant_account;
use crate::reply::{AccountReply, Outcome};
use crate::state::State;
use crate::tenant::routing_rules::ROUTER;
use crate::{
    Accepted, Account, AccountRejection, Event, PaymentMethod, PaymentMethodId, PaymentRejection,
    Rejection, Reply, Revision,
};

pub(crate) fn create(state: &State, it: &CreatePaymentMethod, cx: &mut Context) -> Outcome {
    let Some(before) = state.account(cx.tenant, it.account) else {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    };
    if let Some(known) = known(state, it, cx) {
        return Ok(Accepted::now(Reply::Account(AccountReply::PaymentMethodCreated(known))));
    }
    let mut account = before.clone();
    let method = make(state, &mut account, it, cx)?;
    let id = method.id;
    let is_attaching = method.is_attaching();
    if is_attaching {
        method_step::request(&method, MethodTask::Attach, cx);
    }
    cx.change(AccountChange::PaymentMethod(method));
    if account.payment_method_id != before.payment_method_id {
        cx.event(Event::AccountChanged { account: account.id });
    }
    if account != *before {
        cx.change(AccountChange::Account(account));
    }
    if is_attaching {
        return Ok(Accepted::later());
    }
    Ok(Accepted::now(Reply::Account(AccountReply::PaymentMethodCreated(id))))
}

/// The method of the account that stands for one that the gateway has already: two that look at the gateway at once add
/// it once.
fn known(state: &State, it: &CreatePaymentMethod, cx: &Context) -> Option<PaymentMethodId> {
    if !it.is_attached {
        return None;
    }
    let name = it.external_payment_method_id.as_ref()?;
    let mut methods = state.methods_listed(cx.tenant, it.account);
    let is_it = |known: &&PaymentMethod| {
        known.gateway == it.gateway && known.external_payment_method_id.as_ref() == Some(name)
    };
    methods.find(is_it).map(|known| known.id)
}

/// A new payment method of an account, which changes with it: the method's id is minted and its key
/// claimed. The caller writes both.
pub(crate) fn make(
    state: &State,
    account: &mut Account,
    it: &CreatePaymentMethod,
    cx: &mut Context,
) -> Result<PaymentMethod, Rejection> {
    refuse_closed(state, account.id, ClosedTo::PaymentMethod, cx)?;
    if it.gateway == ROUTER {
        routing::check_method(&it.properties)?;
    } else if cx.settings.gateway(&it.gateway).is_none() {
        return Err(PaymentRejection::GatewayNotRegistered { gateway: it.gateway.clone() }.into());
    }
    let external = it.gateway == EXTERNAL_PAYMENT;
    if external && account.external_payment_method.is_some() {
        return Err(AccountRejection::ExternalPaymentMethodExists { account: account.id }.into());
    }
    let merchant_account = merchant_account(state, &it.gateway, cx)?;
    let id: PaymentMethodId = cx.mint();
    if let Some(key) = &it.external_key {
        let claim = ClaimKey::new(cx.tenant, ClaimKind::PaymentMethod, key);
        if is_taken(state, &claim, cx) {
            return Err(Rejection::InvalidParameter {
                field: "externalKey".to_owned(),
                reason: format!("{key} is taken by another payment method"),
            });
        }
        cx.claim(claim, id.uuid(), Some(account.id));
    }
    if external {
        account.external_payment_method = Some(id);
    }
    let attaches = !it.is_attached && method_step::attaches(&it.gateway, cx);
    if it.is_default && !attaches {
        default_method::set(account, Some(id), cx);
    }
    let mut method = PaymentMethod {
        tenant: cx.tenant,
        id,
        account_id: account.id,
        external_key: it.external_key.clone(),
        gateway: it.gateway.clone(),
        external_payment_method_id: it.external_payment_method_id.clone(),
        properties: it.properties.clone(),
        active: true,
        merchant_account,
        step: None,
        created_at: cx.now,
        updated_at: cx.now,
        revision: Revision::first(cx.seq),
    };
    if attaches {
        method_step::begin_attaching(&mut method, it.is_default, cx);
    }
    Ok(method)
}

/// Whether a key is another method's: one that was never attached leaves its key.
fn is_taken(state: &State, key: &ClaimKey, cx: &Context) -> bool {
    let Some(claim) = state.claim(key) else { return false };
    let owner = state.payment_method(cx.tenant, PaymentMethodId::new(claim.owner));
    !owner.is_some_and(method_step::was_refused)
}

pub(crate) fn set_default(
    state: &State,
    it: &SetDefaultPaymentMethod,
    cx: &mut Context,
) -> Outcome {
    let Some(account) = state.account(cx.tenant, it.account) else {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    };
    let method = state.payment_method(cx.tenant, it.payment_method);
    if method.is_none_or(|method| method.account_id != account.id || !method.active) {
        return Err(AccountRejection::PaymentMethodNotFound { id: it.payment_method }.into());
    }
    default_method::change(account.clone(), Some(it.payment_method), cx);
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn delete(state: &State, it: &DeletePaymentMethod, cx: &mut Context) -> Outcome {
    let method = state.payment_method(cx.tenant, it.payment_method).filter(|m| m.active);
    let Some(method) = method else {
        return Err(AccountRejection::PaymentMethodNotFound { id: it.payment_method }.into());
    };
    let account = state
        .account(cx.tenant, method.account_id)
        .expect("a payment method is loaded with its account");
    let tag = it.tag();
    if tag.is_some_and(|tag| tag.account != account.id) {
        return Err(AccountRejection::PaymentMethodNotFound { id: it.payment_method }.into());
    }
    let is_default = account.payment_method_id == Some(method.id);
    if is_default && !it.even_if_default && tag.is_none() {
        return Err(AccountRejection::DefaultPaymentMethodInUse { account: account.id }.into());
    }
    let mut deleted = PaymentMethod {
        active: false,
        updated_at: cx.now,
        revision: method.revision.next(cx.seq),
        ..method.clone()
    };
    if method_step::attaches(&method.gateway, cx) {
        method_step::begin_detaching(&mut deleted, cx);
    }
    cx.change(AccountChange::PaymentMethod(deleted));
    let mut account = account.clone();
    let external = account.external_payment_method == Some(method.id);
    if external {
        account.external_payment_method = None;
    }
    if is_default {
        default_method::change(account, None, cx);
        if let Some(key) = tag {
            let control = (key.account, ControlTag::AutoPayOff);
            tag::put_control(control, state.tag(cx.tenant, key), cx);
        }
    } else if external {
        cx.change(AccountChange::Account(account));
    }
    Ok(Accepted::now(Reply::Done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AccountId;
    use crate::Command;
    use crate::account::tag::{ControlTag, TagKey};
    use crate::command::AccountCommand;
    use crate::testing::{Rows, TENANT};

    /// Adds a method, of the gateway and key given, and says its id and the events.
    fn add(
        rows: &mut Rows,
        account: AccountId,
        (gateway, key, is_default): (&str, Option<&str>, bool),
    ) -> Result<(PaymentMethodId, usize), Rejection> {
        let executed =
            rows.run(Command::Account(AccountCommand::CreatePaymentMethod(CreatePaymentMethod {
                external_key: key.map(str::to_owned),
                is_default,
                ..CreatePaymentMethod::default_of(account, gateway.to_owned())
            })))?;
        match executed.reply {
            Some(Reply::Account(AccountReply::PaymentMethodCreated(id))) => {
                Ok((id, executed.done.events.len()))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_a_new_default_changes_the_account() {
        let mut rows = Rows::new();
        let account = rows.account();
        let before = rows.state.account(TENANT, account).unwrap().revision;
        let (_, events) = add(&mut rows, account, (EXTERNAL_PAYMENT, None, false)).unwrap();
        assert_eq!((events, rows.state.account(TENANT, account).unwrap().revision), (0, before));
        let (method, events) = add(&mut rows, account, ("remote", None, true)).unwrap();
        let now = rows.state.account(TENANT, account).unwrap();
        assert_eq!((events, now.payment_method_id), (1, Some(method)));
        assert_eq!(now.revision.previous, Some(before.seq));
    }

    #[test]
    fn refusals() {
        let mut rows = Rows::new();
        let (account, other) = (rows.account(), rows.account());
        add(&mut rows, account, (EXTERNAL_PAYMENT, Some("k"), true)).unwrap();
        let second = add(&mut rows, account, (EXTERNAL_PAYMENT, None, false));
        assert_eq!(second, Err(AccountRejection::ExternalPaymentMethodExists { account }.into()));
        let nobody = add(&mut rows, account, ("nope", None, false));
        assert_eq!(
            nobody,
            Err(PaymentRejection::GatewayNotRegistered { gateway: "nope".to_owned() }.into())
        );
        let taken = add(&mut rows, other, ("remote", Some("k"), false));
        assert!(matches!(taken, Err(Rejection::InvalidParameter { .. })), "{taken:?}");
        let (foreign, _) = add(&mut rows, other, ("remote", None, false)).unwrap();
        let it = SetDefaultPaymentMethod { account, payment_method: foreign };
        let refused = rows.run(Command::Account(AccountCommand::SetDefaultPaymentMethod(it)));
        assert_eq!(refused, Err(AccountRejection::PaymentMethodNotFound { id: foreign }.into()));
    }

    #[test]
    fn a_closed_account_gets_no_method() {
        let mut rows = Rows::new();
        let account = rows.account();
        let (method, _) = add(&mut rows, account, ("remote", None, false)).unwrap();
        rows.state.account.closed.insert((TENANT, account));
        let refused = add(&mut rows, account, ("remote", None, false));
        let to = ClosedTo::PaymentMethod;
        assert_eq!(refused, Err(AccountRejection::Closed { account, to }.into()));
        let it = SetDefaultPaymentMethod { account, payment_method: method };
        rows.run(Command::Account(AccountCommand::SetDefaultPaymentMethod(it))).unwrap();
        rows.run(delete(method, true)).unwrap();
    }

    #[test]
    fn a_default_is_deleted_only_on_request_and_makes_room_for_another() {
        let mut rows = Rows::new();
        let account = rows.account();
        let (id, _) = add(&mut rows, account, (EXTERNAL_PAYMENT, None, true)).unwrap();
        let refused = rows.run(delete(id, false));
        assert_eq!(refused, Err(AccountRejection::DefaultPaymentMethodInUse { account }.into()));
        rows.run(delete(id, true)).unwrap();
        assert_eq!(rows.state.account(TENANT, account).unwrap().payment_method_id, None);
        let again = rows.run(delete(id, true));
        assert_eq!(again, Err(AccountRejection::PaymentMethodNotFound { id }.into()));
        add(&mut rows, account, (EXTERNAL_PAYMENT, None, true)).unwrap();
    }

    fn delete(payment_method: PaymentMethodId, even_if_default: bool) -> Command {
        let auto_pay_off = None;
        let it = DeletePaymentMethod { payment_method, even_if_default, auto_pay_off };
        Command::Account(AccountCommand::DeletePaymentMethod(it))
    }

    #[test]
    fn deleting_the_default_tags_its_account_where_that_is_asked_for() {
        let mut rows = Rows::new();
        let [account, other] = [(); 2].map(|()| rows.account());
        let (spare, _) = add(&mut rows, account, ("remote", None, false)).unwrap();
        let (id, _) = add(&mut rows, account, (EXTERNAL_PAYMENT, None, true)).unwrap();
        let with_tag = |payment_method, of| {
            let (even_if_default, auto_pay_off) = (false, Some(of));
            let it = DeletePaymentMethod { payment_method, even_if_default, auto_pay_off };
            Command::Account(AccountCommand::DeletePaymentMethod(it))
        };
        let not_theirs = rows.run(with_tag(id, other));
        assert_eq!(not_theirs, Err(AccountRejection::PaymentMethodNotFound { id }.into()));
        let tags = |events: &[Event]| {
            events.iter().filter(|it| matches!(it, Event::TagAdded { .. })).count()
        };
        let of_spare = rows.run(with_tag(spare, account)).unwrap();
        assert_eq!(tags(&of_spare.done.events), 0, "it was no default");
        let done = rows.run(with_tag(id, account)).unwrap();
        assert_eq!(tags(&done.done.events), 1);
        let key = TagKey::of_account(account, ControlTag::AutoPayOff);
        assert!(rows.state.tag(TENANT, key).unwrap().active);
        let (again, _) = add(&mut rows, account, (EXTERNAL_PAYMENT, None, true)).unwrap();
        let done = rows.run(with_tag(again, account)).unwrap();
        assert_eq!(tags(&done.done.events), 0, "it is there already");
    }
}
