//! The rows of the gRPC API.

use grpc::api::{
    AccountServiceCreateRequest, AccountServiceGetByKeyRequest, AccountServiceGetRequest,
    AddPaymentMethodRequest, AuthorizeRequest, CaptureRequest, CheckRequest, ConfirmRequest,
    EntitlementServiceGetRequest, EntitlementServiceWatchRequest, EvaluateRequest, FlagUser,
    GetBalanceRequest, PayRequest, PaymentServiceGetByKeyRequest, PaymentServiceGetRequest,
    PaymentServiceListRequest, RefundRequest, ReleaseRequest, ReserveRequest, VoidRequest,
    WatchRequest, reserve_request,
};
use prost::Message as _;

use super::row::{Needs, Row, row};
use crate::grpc::usd;

const READ: Needs = Needs::OperatorAndTenant(None);
const TRIGGER: Needs = Needs::OperatorAndTenant(Some("payment:trigger"));
const SDK: Needs = Needs::Secret(&["server", "client"]);
const PROBES: Needs = Needs::Nothing("load balancers have no credentials");

pub fn rows() -> Vec<Row> {
    [payments(), accounts(), entitlements(), others()].into_iter().flatten().collect()
}

fn payments() -> Vec<Row> {
    vec![
        row("RPC /faregate.v1.PaymentService/Pay", TRIGGER)
            .message(|it| {
                let account_id = it.get("accountId");
                PayRequest { account_id, amount: usd(100), ..PayRequest::default() }.encode_to_vec()
            })
            .of_object(),
        row("RPC /faregate.v1.PaymentService/Authorize", TRIGGER)
            .message(|it| {
                let account_id = it.get("accountId");
                AuthorizeRequest { account_id, amount: usd(100), ..AuthorizeRequest::default() }
                    .encode_to_vec()
            })
            .of_object(),
        row("RPC /faregate.v1.PaymentService/Capture", TRIGGER)
            .message(|it| {
                let payment_id = it.get("paymentId");
                CaptureRequest { payment_id, amount: usd(100), ..CaptureRequest::default() }
                    .encode_to_vec()
            })
            .of_object(),
        row(
            "RPC /faregate.v1.PaymentService/Refund",
            Needs::OperatorAndTenant(Some("payment:refund")),
        )
        .message(|it| {
            let payment_id = it.get("paymentId");
            RefundRequest { payment_id, amount: usd(100), ..RefundRequest::default() }
                .encode_to_vec()
        })
        .of_object(),
        row("RPC /faregate.v1.PaymentService/Void", TRIGGER)
            .message(|it| {
                let payment_id = it.get("paymentId");
                VoidRequest { payment_id, ..VoidRequest::default() }.encode_to_vec()
            })
            .of_object(),
        row("RPC /faregate.v1.PaymentService/Get", READ)
            .message(|it| {
                PaymentServiceGetRequest { payment_id: it.get("paymentId") }.encode_to_vec()
            })
            .of_object(),
        row("RPC /faregate.v1.PaymentService/GetByKey", READ)
            .message(|it| {
                PaymentServiceGetByKeyRequest { payment_key: it.get("paymentKey") }.encode_to_vec()
            })
            .of_object(),
        row("RPC /faregate.v1.PaymentService/List", READ)
            .message(|it| {
                let account_id = it.get("accountId");
                PaymentServiceListRequest { account_id, ..PaymentServiceListRequest::default() }
                    .encode_to_vec()
            })
            .of_object(),
    ]
}

fn accounts() -> Vec<Row> {
    vec![
        row(
            "RPC /faregate.v1.AccountService/Create",
            Needs::OperatorAndTenant(Some("account:create")),
        )
        .message(|_| {
            let currency_code = "USD".to_owned();
            AccountServiceCreateRequest { currency_code, ..AccountServiceCreateRequest::default() }
                .encode_to_vec()
        }),
        row("RPC /faregate.v1.AccountService/Get", READ)
            .message(|it| {
                AccountServiceGetRequest { account_id: it.get("accountId") }.encode_to_vec()
            })
            .of_object(),
        row("RPC /faregate.v1.AccountService/GetByKey", READ)
            .message(|it| {
                AccountServiceGetByKeyRequest { account_key: it.get("accountKey") }.encode_to_vec()
            })
            .of_object(),
        row(
            "RPC /faregate.v1.AccountService/AddPaymentMethod",
            Needs::OperatorAndTenant(Some("payment_method:create")),
        )
        .message(|it| {
            AddPaymentMethodRequest {
                account_id: it.get("accountId"),
                gateway: "__EXTERNAL_PAYMENT__".to_owned(),
                ..AddPaymentMethodRequest::default()
            }
            .encode_to_vec()
        })
        .of_object(),
        row("RPC /faregate.v1.BalanceService/GetBalance", READ)
            .message(|it| GetBalanceRequest { account_id: it.get("accountId") }.encode_to_vec())
            .of_object(),
    ]
}

fn entitlements() -> Vec<Row> {
    const READ: Needs = Needs::OperatorAndTenant(Some("entitlement:read"));
    const USAGE: Needs = Needs::OperatorAndTenant(Some("usage:write"));
    vec![
        row("RPC /faregate.v1.EntitlementService/Get", READ)
            .message(|it| {
                EntitlementServiceGetRequest { account_id: it.get("accountId") }.encode_to_vec()
            })
            .of_object(),
        row("RPC /faregate.v1.EntitlementService/Watch", READ)
            .message(|it| {
                EntitlementServiceWatchRequest { account_id: it.get("accountId") }.encode_to_vec()
            })
            .of_object()
            .stream(),
        row("RPC /faregate.v1.EntitlementService/Check", READ)
            .message(|it| {
                let (account_id, feature) = (it.get("accountId"), it.get("featureKey"));
                CheckRequest { account_id, feature }.encode_to_vec()
            })
            .of_object(),
        row("RPC /faregate.v1.EntitlementService/Reserve", USAGE)
            .message(|it| {
                let ttl = prost_types::Duration { seconds: 60, nanos: 0 };
                let request = ReserveRequest {
                    account_id: it.get("accountId"),
                    feature: "limit-of-a".to_owned(),
                    quantity: 1,
                    ends: Some(reserve_request::Ends::Ttl(ttl)),
                };
                request.encode_to_vec()
            })
            .of_object(),
        row("RPC /faregate.v1.EntitlementService/Confirm", USAGE)
            .message(|it| {
                let (account_id, reservation_id) = (it.get("accountId"), it.get("reservationId"));
                ConfirmRequest { account_id, reservation_id, quantity: None }.encode_to_vec()
            })
            .of_object()
            .last(),
        row("RPC /faregate.v1.EntitlementService/Release", USAGE)
            .message(|it| {
                let (account_id, reservation_id) = (it.get("accountId"), it.get("reservationId"));
                ReleaseRequest { account_id, reservation_id }.encode_to_vec()
            })
            .of_object()
            .last(),
    ]
}

fn others() -> Vec<Row> {
    vec![
        row("RPC /faregate.v1.FlagService/Evaluate", SDK).message(|_| {
            let user = FlagUser { key: "ada".to_owned(), ..FlagUser::default() };
            EvaluateRequest { user: Some(user), keys: vec![] }.encode_to_vec()
        }),
        row("RPC /faregate.v1.FlagService/Watch", SDK)
            .message(|_| {
                let user = FlagUser { key: "ada".to_owned(), ..FlagUser::default() };
                WatchRequest { user: Some(user) }.encode_to_vec()
            })
            .stream(),
        row("RPC /grpc.health.v1.Health/Check", PROBES).message(|_| vec![]),
        row("RPC /grpc.health.v1.Health/Watch", PROBES).message(|_| vec![]).stream(),
        row(
            "RPC /grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            Needs::Nothing("the services are public; `grpc.reflection` switches it off"),
        )
        .message(|_| vec![])
        .stream(),
    ]
}
