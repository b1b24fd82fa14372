//! The metrics of each method. The first call registers its counters: a lookup by labels per call
//! costs more than dispatching the call.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use tonic::Code;

/// The paths of the counted methods; the last counts all others.
const METHODS: [&str; 22] = [
    "/faregate.v1.PaymentService/Pay",
    "/faregate.v1.PaymentService/Authorize",
    "/faregate.v1.PaymentService/Capture",
    "/faregate.v1.PaymentService/Refund",
    "/faregate.v1.PaymentService/Void",
    "/faregate.v1.PaymentService/Get",
    "/faregate.v1.PaymentService/GetByKey",
    "/faregate.v1.PaymentService/List",
    "/faregate.v1.BalanceService/GetBalance",
    "/faregate.v1.AccountService/Create",
    "/faregate.v1.AccountService/Get",
    "/faregate.v1.AccountService/GetByKey",
    "/faregate.v1.AccountService/AddPaymentMethod",
    "/faregate.v1.EntitlementService/Get",
    "/faregate.v1.EntitlementService/Watch",
    "/faregate.v1.EntitlementService/Check",
    "/faregate.v1.EntitlementService/Reserve",
    "/faregate.v1.EntitlementService/Confirm",
    "/faregate.v1.EntitlementService/Release",
    "/faregate.v1.FlagService/Evaluate",
    "/faregate.v1.FlagService/Watch",
    "other",
];

/// The codes of gRPC, 0 to 16.
const CODES: usize = 17;

/// The metrics of all methods.
pub(crate) struct CallMetrics {
    methods: [Method; METHODS.len()],
    refused: OnceLock<Counter>,
}

/// The counters and the latency of one method.
pub(crate) struct Method {
    path: &'static str,
    latency: OnceLock<Histogram>,
    calls: [OnceLock<Counter>; CODES],
}

impl CallMetrics {
    /// The recorder must be installed before the first call.
    pub(crate) fn new() -> Self {
        let method = |path| Method { path, latency: OnceLock::new(), calls: Default::default() };
        Self { methods: METHODS.map(method), refused: OnceLock::new() }
    }

    /// The method of a path.
    pub(crate) fn method(&self, path: &str) -> &Method {
        let last = &self.methods[METHODS.len() - 1];
        self.methods.iter().find(|method| method.path == path).unwrap_or(last)
    }

    /// Counts a call above the limit.
    pub(crate) fn refused(&self) {
        let make = || counter!("faregate_refused_total", "reason" => "grpc_calls");
        self.refused.get_or_init(make).increment(1);
    }
}

impl Method {
    pub(crate) const fn path(&self) -> &'static str {
        self.path
    }

    /// Counts a call.
    pub(crate) fn record(&self, code: Code, duration: Duration) {
        let number = i32::from(code);
        let cell = usize::try_from(number).ok().and_then(|at| self.calls.get(at));
        let make = || {
            let labels = [
                ("api", "grpc".into()),
                ("route", self.path.into()),
                ("status", format!("{code:?}").into()),
            ];
            let labels = labels.map(|(name, value): (&'static str, metrics::SharedString)| {
                metrics::Label::new(name, value)
            });
            counter!("faregate_requests_total", labels.to_vec())
        };
        if let Some(cell) = cell {
            cell.get_or_init(make).increment(1);
        }
        let latency = self.latency.get_or_init(
            || histogram!("faregate_request_seconds", "api" => "grpc", "route" => self.path),
        );
        latency.record(duration.as_secs_f64());
    }
}
