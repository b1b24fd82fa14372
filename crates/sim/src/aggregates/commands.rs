//! Commands that several workloads send.

use domain::account::payment_method::CreatePaymentMethod;
use domain::command::{AccountCommand, EntitlementCommand, PaymentCommand};
use domain::entitlement::GrantFeature;
use domain::entitlement::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset,
};
use domain::flag::definition::Expected;
use domain::payment::{GatewayAnswer, GatewayReplied};
use domain::{AccountId, Command, GatewayCall, Timestamp};

/// Makes a payment method at a gateway the default of an account.
pub(super) fn create_method(account: AccountId, gateway: &str) -> Command {
    let method = CreatePaymentMethod::default_of(account, gateway.to_owned());
    Command::Account(AccountCommand::CreatePaymentMethod(method))
}

/// Makes a feature that is not there.
pub(super) fn put_feature(key: &str, terms: FeatureTerms) -> Command {
    let (key, name, expected) = (key.to_owned(), key.to_owned(), Expected::Nothing);
    let put = PutFeature { key, name, terms, archived: false, expected };
    EntitlementCommand::PutFeature(Box::new(put)).into()
}

/// The terms of a limit, of which an account has the sum of its grants.
pub(super) fn limit(unit: &str, resets: Reset, overdraft: bool) -> FeatureTerms {
    let limit = LimitTerms { unit: unit.to_owned(), resets, overdraft };
    FeatureTerms { kind: FeatureKind::Limit(limit), combine: Combine::Sum }
}

/// Grants so much of a limit to an account from now on.
pub(super) fn grant(
    account: AccountId,
    feature: &str,
    value: i64,
    until: Option<i64>,
    reason: &str,
) -> Command {
    let grant = GrantFeature {
        account,
        feature: feature.to_owned(),
        value: FeatureValue::Limit(value),
        from: None,
        until: until.map(Timestamp),
        reason: reason.to_owned(),
    };
    EntitlementCommand::Grant(Box::new(grant)).into()
}

/// The answer of a gateway to a call.
pub(super) fn replied(call: &GatewayCall, answer: GatewayAnswer) -> Command {
    Command::Payment(PaymentCommand::GatewayReplied(GatewayReplied {
        payment: call.payment,
        transaction: call.transaction,
        answer,
        is_controlled: false,
        tries: None,
    }))
}
