//! The effects of the properties on a call.

use super::*;
use domain::{AccountId, PaymentId, PaymentMethodId, TenantNo, TransactionId};
use expect_test::{Expect, expect};
use uuid::Uuid;

fn properties(text: &str) -> Properties {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    text.split(' ').filter(|pair| !pair.is_empty()).map(pair).collect()
}

fn call(
    operation: TransactionType,
    minor: Option<i64>,
    request: &str,
    method: &str,
) -> GatewayCall {
    let id = Uuid::from_u128(0x0192_aabb_ccdd_7000_8000_0000_0000_0123);
    GatewayCall {
        tenant: TenantNo(1),
        account: AccountId::new(id),
        payment: PaymentId::new(id),
        transaction: TransactionId::new(id),
        payment_method: PaymentMethodId::new(Uuid::nil()),
        gateway: "faregate-simulator".to_owned(),
        merchant_account: None,
        operation,
        amount: minor.map(AmountMinor),
        currency: Currency::parse("USD").unwrap(),
        external_payment_method_id: None,
        payment_method_properties: properties(method),
        properties: properties(request),
        references: vec![],
        is_controlled: false,
        seq: domain::Seq(1),
        timeout_us: 30_000_000,
        tries: None,
    }
}

fn shown_outcome(it: &GatewayOutcome) -> String {
    let mut text = format!("{:?}", it.status);
    if let Some(amount) = it.amount {
        text += &format!(" {}{}", amount.0, it.currency.map_or(String::new(), |it| it.to_string()));
    }
    for text_part in [&it.error_code, &it.error_message, &it.first_reference, &it.second_reference]
    {
        text += &text_part.as_ref().map_or(String::new(), |it| format!(" {it:?}"));
    }
    text
}

fn shown(call: &GatewayCall) -> String {
    let it = decide(call);
    let answer = match &it.response {
        Response::Withhold => "silence".to_owned(),
        Response::Send(GatewayAnswer::Outcome(outcome)) => shown_outcome(outcome),
        Response::Send(GatewayAnswer::Failed { message }) => format!("fails: {message}"),
        Response::Send(GatewayAnswer::Nothing) => "nothing".to_owned(),
        Response::Send(other) => format!("{other:?}"),
    };
    let truth = it.truth.as_ref().map_or("none".to_owned(), shown_outcome);
    let mut text = if truth == answer { answer } else { format!("{answer}; truth: {truth}") };
    for (name, time) in [("charged", it.charge_after), ("answered", it.answer_after)] {
        if !time.is_zero() {
            text += &format!("; {name} after {time:?}");
        }
    }
    if let Some(late) = &it.late {
        text += &format!("; after {:?}: {}", late.after, shown_outcome(&late.outcome));
    }
    if let Some(after) = it.reverse_after {
        text += &format!("; reversed after {after:?}");
    }
    if it.notifications > 0 {
        text += &format!("; {} notifications", it.notifications);
    }
    text
}

fn check(request: &str, expected: Expect) {
    expected.assert_eq(&shown(&call(TransactionType::Purchase, Some(1_000), request, "")));
}

#[test]
fn outcome_decides_the_answer() {
    check("", expect!["Processed 1000USD"]);
    check("outcome=PROCESSED", expect!["Processed 1000USD"]);
    check("outcome=PENDING", expect!["Pending 1000USD"]);
    check(
        "outcome=ERROR errorCode=51 errorMessage=declined",
        expect![[r#"Error 1000USD "51" "declined""#]],
    );
    check("outcome=CANCELED", expect!["Canceled 1000USD"]);
    check("outcome=UNDEFINED", expect!["Undefined 1000USD"]);
    check("outcome=EXCEPTION", expect!["fails: EXCEPTION for purchasePayment; truth: none"]);
    check("outcome=EXCEPTION errorMessage=boom", expect!["fails: boom; truth: none"]);
    check("outcome=NULL", expect!["nothing; truth: none"]);
    check("outcome=TIMEOUT", expect!["silence; truth: none"]);
    check("firstReference=a secondReference=b", expect![[r#"Processed 1000USD "a" "b""#]]);
}

#[test]
fn truth_and_lost_answer_hide_the_outcome() {
    check("lostAnswer=true", expect!["silence; truth: Processed 1000USD"]);
    check("lostAnswer=true outcome=ERROR", expect!["silence; truth: Error 1000USD"]);
    check("outcome=TIMEOUT truth=PROCESSED", expect!["silence; truth: Processed 1000USD"]);
    check(
        "outcome=EXCEPTION truth=PROCESSED",
        expect!["fails: EXCEPTION for purchasePayment; truth: Processed 1000USD"],
    );
    check("outcome=UNDEFINED truth=ERROR", expect!["Undefined 1000USD; truth: Error 1000USD"]);
    check("outcome=UNDEFINED truth=NONE", expect!["Undefined 1000USD; truth: none"]);
    check("outcome=ERROR truth=PROCESSED", expect!["Error 1000USD; truth: Processed 1000USD"]);
}

#[test]
fn late_outcomes_and_reversals_are_scheduled() {
    check("outcome=PENDING lateMs=2000", expect!["Pending 1000USD; after 2s: Processed 1000USD"]);
    check(
        "outcome=PENDING lateMs=2000 truth=ERROR",
        expect!["Pending 1000USD; after 2s: Error 1000USD"],
    );
    check(
        "outcome=TIMEOUT lateMs=500",
        expect!["silence; truth: Undefined 1000USD; after 500ms: Processed 1000USD"],
    );
    check(
        "outcome=NULL lateMs=500 truth=CANCELED",
        expect!["nothing; truth: Undefined 1000USD; after 500ms: Canceled 1000USD"],
    );
    check(
        "lostAnswer=true lateMs=500",
        expect!["silence; truth: Processed 1000USD; after 500ms: Processed 1000USD"],
    );
    check("reverseAfterMs=3000", expect!["Processed 1000USD; reversed after 3s"]);
    check("duplicate=true", expect!["Processed 1000USD; 2 notifications"]);
    check("outcome=TIMEOUT truth=NONE lateMs=5", expect!["silence; truth: none"]);
}

#[test]
fn delays_postpone_charge_and_answer() {
    check("delayMs=1000", expect!["Processed 1000USD; answered after 1s"]);
    check(
        "chargeAfterMs=40 delayMs=50",
        expect!["Processed 1000USD; charged after 40ms; answered after 50ms"],
    );
    check("jitterMs=7-7", expect!["Processed 1000USD; answered after 7ms"]);
    let jittered =
        decide(&call(TransactionType::Purchase, Some(1), "delayMs=100 jitterMs=10-20", ""));
    let expected = Duration::from_millis(110)..=Duration::from_millis(120);
    assert!(expected.contains(&jittered.answer_after), "{jittered:?}");
}

#[test]
fn processed_amount_and_currency_replace_the_requested_ones() {
    check("processedAmount=3", expect!["Processed 300USD"]);
    check("processedAmount=12.5 processedCurrency=KWD", expect!["Processed 12500KWD"]);
    check("processedCurrency=EUR", expect!["Processed 1000EUR"]);
    let void = call(TransactionType::Void, None, "", "");
    expect!["Processed"].assert_eq(&shown(&void));
}

#[test]
fn invalid_properties_are_refused_by_name() {
    check(
        "delayMs=soon",
        expect![[
            r#"Canceled "INVALID_PROPERTY" "delayMs must be a whole number of milliseconds within bounds""#
        ]],
    );
    check(
        "delayMs=600001",
        expect![[
            r#"Canceled "INVALID_PROPERTY" "delayMs must be a whole number of milliseconds within bounds""#
        ]],
    );
    check(
        "lateMs=-1",
        expect![[
            r#"Canceled "INVALID_PROPERTY" "lateMs must be a whole number of milliseconds within bounds""#
        ]],
    );
    check(
        "jitterMs=9-3",
        expect![[r#"Canceled "INVALID_PROPERTY" "jitterMs must be MIN-MAX in milliseconds""#]],
    );
    check(
        "outcome=GOOD",
        expect![[
            r#"Canceled "INVALID_PROPERTY" "outcome must be PROCESSED, PENDING, ERROR, CANCELED, UNDEFINED, EXCEPTION, NULL or TIMEOUT""#
        ]],
    );
    check(
        "truth=MAYBE",
        expect![[
            r#"Canceled "INVALID_PROPERTY" "truth must be PROCESSED, PENDING, ERROR, CANCELED, UNDEFINED or NONE""#
        ]],
    );
    check(
        "lostAnswer=yes",
        expect![[r#"Canceled "INVALID_PROPERTY" "lostAnswer must be true or false""#]],
    );
    check(
        "processedCurrency=EURO",
        expect![[r#"Canceled "INVALID_PROPERTY" "processedCurrency must be an ISO 4217 code""#]],
    );
    check(
        "processedAmount=1.234",
        expect![[
            r#"Canceled "INVALID_PROPERTY" "processedAmount must be an amount of the currency""#
        ]],
    );
}

#[test]
fn request_properties_override_those_of_the_payment_method() {
    let both =
        |request, method| shown(&call(TransactionType::Capture, Some(1_000), request, method));
    expect!["Error 1000USD; answered after 5ms"]
        .assert_eq(&both("outcome=ERROR", "outcome=PENDING delayMs=5"));
    expect!["Pending 1000USD"].assert_eq(&both("", "outcome=PENDING"));
    expect!["Canceled 1000USD"]
        .assert_eq(&both("ACTION_RETURN_PLUGIN_STATUS_CANCELED=*", "outcome=PENDING"));
    expect!["Processed 1000USD"]
        .assert_eq(&both("outcome=PROCESSED", "ACTION_RETURN_PLUGIN_STATUS_ERROR=*"));
}

#[test]
fn properties_of_kill_bills_test_plugin_are_supported() {
    check("ACTION_RETURN_PLUGIN_STATUS_PENDING=*", expect!["Pending 1000USD"]);
    check("ACTION_RETURN_PLUGIN_STATUS_ERROR=*", expect!["Error 1000USD"]);
    check("ACTION_RETURN_PLUGIN_STATUS_CANCELED=true", expect!["Canceled 1000USD"]);
    check("ACTION_SLEEP=*", expect!["Undefined 1000USD"]);
    check("RETURN_NIL=*", expect!["nothing; truth: Undefined 1000USD"]);
    check(
        "ACTION_THROW_EXCEPTION=*",
        expect!["fails: ACTION_THROW_EXCEPTION for purchasePayment; truth: Undefined 1000USD"],
    );
    check("ACTION_RETURN_PLUGIN_STATUS_ERROR=refundPayment", expect!["Processed 1000USD"]);
    check("ACTION_RETURN_PLUGIN_STATUS_ERROR=purchasePayment", expect!["Error 1000USD"]);
    let names: Vec<String> = [
        TransactionType::Authorize,
        TransactionType::Capture,
        TransactionType::Refund,
        TransactionType::Credit,
        TransactionType::Void,
    ]
    .into_iter()
    .map(|operation| shown(&call(operation, None, "ACTION_THROW_EXCEPTION=*", "")))
    .collect();
    expect![[r#"
        fails: ACTION_THROW_EXCEPTION for authorizePayment; truth: Undefined
        fails: ACTION_THROW_EXCEPTION for capturePayment; truth: Undefined
        fails: ACTION_THROW_EXCEPTION for refundPayment; truth: Undefined
        fails: ACTION_THROW_EXCEPTION for creditPayment; truth: Undefined
        fails: ACTION_THROW_EXCEPTION for voidPayment; truth: Undefined"#]]
    .assert_eq(&names.join("\n"));
}

#[test]
fn magic_amounts_apply_without_properties() {
    let of = |minor, request| shown(&call(TransactionType::Purchase, Some(minor), request, ""));
    let all: Vec<String> = MAGIC_AMOUNTS.iter().map(|(minor, _)| of(*minor, "other=1")).collect();
    expect![[r#"
        Error 66601USD "declined"
        Canceled 66602USD
        Pending 66603USD
        Undefined 66604USD
        fails: EXCEPTION for purchasePayment; truth: none
        nothing; truth: none
        silence; truth: none
        silence; truth: Processed 66608USD
        Pending 66609USD; after 2s: Processed 66609USD
        Processed 66610USD; reversed after 2s
        Processed 66611USD; 2 notifications"#]]
    .assert_eq(&all.join("\n"));
    expect!["Processed 66601USD; answered after 1ms"].assert_eq(&of(66_601, "delayMs=1"));
    expect!["Processed 66600USD"].assert_eq(&of(66_600, ""));
}
