//! Kill Bill's errors: their codes and classes, and how a failure is answered.

mod rejection;

use std::borrow::Cow;
use std::time::Duration;

use axum::response::Response;
use domain::{PaymentId, Rejection};
use engine::access::AccessError;
use engine::{Reason, Unavailable};
use http::header::{ALLOW, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;
use web::BodyError;
use web::headers::mark_outcome_unknown;
use web::refusal_log::Why;

use self::rejection::invalid_parameter;
pub(crate) use self::rejection::{no_such_payment, no_tag_definition};
use crate::reply::{empty, json};

/// Names the payment of a request that did not succeed, also where Kill Bill sends no `Location`.
pub(crate) const PAYMENT: HeaderName = HeaderName::from_static("x-faregate-payment");

/// Java's class names, which some clients use to distinguish errors.
pub(crate) mod class {
    pub(crate) const ACCOUNT: &str = "org.killbill.billing.account.api.AccountApiException";
    /// An action that is blocked on an account.
    pub(crate) const ENTITLEMENT: &str =
        "org.killbill.billing.entitlement.api.EntitlementApiException";
    /// Payments and payment methods.
    pub(crate) const PAYMENT: &str = "org.killbill.billing.payment.api.PaymentApiException";
    pub(crate) const TAG: &str = "org.killbill.billing.util.api.TagApiException";
    pub(crate) const TAG_DEFINITION: &str =
        "org.killbill.billing.util.api.TagDefinitionApiException";
    pub(crate) const CUSTOM_FIELD: &str = "org.killbill.billing.util.api.CustomFieldApiException";
    /// An object that is not there, of those that have tags or custom fields.
    pub(crate) const NO_SUCH_OBJECT: &str =
        "org.killbill.billing.util.callcontext.InternalCallContextFactory$ObjectDoesNotExist";
    pub(crate) const CATALOG: &str = "org.killbill.billing.catalog.api.CatalogApiException";
    /// A subscription or its bundle.
    pub(crate) const SUBSCRIPTION: &str =
        "org.killbill.billing.entitlement.api.SubscriptionApiException";
    pub(crate) const INVOICE: &str = "org.killbill.billing.invoice.api.InvoiceApiException";
    pub(crate) const TENANT: &str = "org.killbill.billing.tenant.api.TenantApiException";
    /// Users and roles.
    pub(crate) const SECURITY: &str = "org.killbill.billing.security.SecurityApiException";
    /// A failed call of a gateway.
    pub(crate) const PLUGIN: &str =
        "org.killbill.billing.payment.plugin.api.PaymentPluginApiException";
    pub(crate) const ILLEGAL_ARGUMENT: &str = "java.lang.IllegalArgumentException";
    pub(crate) const ILLEGAL_STATE: &str = "java.lang.IllegalStateException";
    /// A missing permission.
    pub(crate) const UNAUTHORIZED: &str = "org.apache.shiro.authz.UnauthorizedException";
    /// A missing permission, as the cause.
    pub(crate) const AUTHORIZATION: &str = "org.apache.shiro.authz.AuthorizationException";
    /// An unserved route.
    pub(crate) const UNSUPPORTED: &str = "java.lang.UnsupportedOperationException";
    /// Overload, unavailability, or a command that is too large for the queue.
    pub(crate) const REJECTED: &str = "java.util.concurrent.RejectedExecutionException";
    /// A conflict with another request.
    pub(crate) const CLIENT_ERROR: &str = "javax.ws.rs.ClientErrorException";
    /// A body that is not JSON.
    pub(crate) const JSON_PARSE: &str = "com.fasterxml.jackson.core.JsonParseException";
    /// A field that cannot be converted.
    pub(crate) const JSON_MAPPING: &str = "com.fasterxml.jackson.databind.JsonMappingException";
    /// A text that is not a value of the field's type.
    pub(crate) const INVALID_FORMAT: &str =
        "com.fasterxml.jackson.databind.exc.InvalidFormatException";
    /// A JSON value of another kind.
    pub(crate) const MISMATCHED_INPUT: &str =
        "com.fasterxml.jackson.databind.exc.MismatchedInputException";
    /// An unknown field.
    pub(crate) const UNRECOGNIZED_PROPERTY: &str =
        "com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException";
}

/// When a request whose outcome is unknown may be sent again with its idempotency key: by then the
/// resolver has sent its first inquiry, with the default settings.
pub(crate) const RETRY_AFTER_UNKNOWN: Duration = Duration::from_secs(3);

/// The status, number and class of a refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    status: StatusCode,
    number: Option<i32>,
    class: &'static str,
}

/// Kill Bill's error codes with their statuses and classes.
pub(crate) mod code {
    use http::StatusCode;

    use super::{Code, class};

    const fn coded(status: StatusCode, number: i32, class: &'static str) -> Code {
        Code { status, number: Some(number), class }
    }

    pub(crate) const TENANT_ALREADY_EXISTS: Code =
        coded(StatusCode::CONFLICT, 20_000, class::TENANT);
    pub(crate) const TENANT_NOT_FOUND_BY_ID: Code =
        coded(StatusCode::NOT_FOUND, 20_001, class::TENANT);
    pub(crate) const TENANT_NOT_FOUND_BY_API_KEY: Code =
        coded(StatusCode::NOT_FOUND, 20_003, class::TENANT);
    pub(crate) const INVALID_USER: Code = coded(StatusCode::BAD_REQUEST, 40_001, class::SECURITY);
    pub(crate) const USER_ALREADY_EXISTS: Code =
        coded(StatusCode::BAD_REQUEST, 40_002, class::SECURITY);
    pub(crate) const INVALID_ROLE: Code = coded(StatusCode::BAD_REQUEST, 40_003, class::SECURITY);
    pub(crate) const ROLE_ALREADY_EXISTS: Code =
        coded(StatusCode::BAD_REQUEST, 40_004, class::SECURITY);
    pub(crate) const INVALID_PERMISSION: Code =
        coded(StatusCode::BAD_REQUEST, 40_005, class::SECURITY);
    pub(crate) const ACCOUNT_ALREADY_EXISTS: Code =
        coded(StatusCode::CONFLICT, 3000, class::ACCOUNT);
    pub(crate) const ACCOUNT_NOT_FOUND_BY_ID: Code =
        coded(StatusCode::NOT_FOUND, 3002, class::ACCOUNT);
    pub(crate) const ACCOUNT_NOT_FOUND_BY_KEY: Code =
        coded(StatusCode::NOT_FOUND, 3003, class::ACCOUNT);
    pub(crate) const ACCOUNT_KEY_IS_FIXED: Code =
        coded(StatusCode::BAD_REQUEST, 3005, class::ACCOUNT);
    pub(crate) const NO_DEFINITION_FOR_TAG: Code = coded(StatusCode::BAD_REQUEST, 3902, class::TAG);
    pub(crate) const NO_SUCH_TAG_DEFINITION: Code =
        coded(StatusCode::NOT_FOUND, 3902, class::TAG_DEFINITION);
    pub(crate) const TAG_DEFINITION_RESERVED: Code =
        coded(StatusCode::BAD_REQUEST, 3900, class::TAG_DEFINITION);
    pub(crate) const TAG_DEFINITION_EXISTS: Code =
        coded(StatusCode::CONFLICT, 3901, class::TAG_DEFINITION);
    pub(crate) const TAG_DEFINITION_IN_USE: Code =
        coded(StatusCode::BAD_REQUEST, 3903, class::TAG_DEFINITION);
    pub(crate) const TAG_DEFINITION_HAS_UPPERCASE: Code =
        coded(StatusCode::BAD_REQUEST, 3904, class::TAG_DEFINITION);
    pub(crate) const NO_SUCH_TAG: Code = coded(StatusCode::NOT_FOUND, 3950, class::TAG);
    pub(crate) const TAG_CANNOT_BE_REMOVED: Code = coded(StatusCode::BAD_REQUEST, 3951, class::TAG);
    pub(crate) const BLOCKED: Code = coded(StatusCode::BAD_REQUEST, 6000, class::ENTITLEMENT);
    pub(crate) const REQUESTED_DATE_TOO_EARLY: Code =
        coded(StatusCode::BAD_REQUEST, 1001, class::SUBSCRIPTION);
    pub(crate) const NOT_CHANGEABLE: Code =
        coded(StatusCode::BAD_REQUEST, 1021, class::SUBSCRIPTION);
    pub(crate) const CANCEL_PENDING: Code =
        coded(StatusCode::BAD_REQUEST, 1022, class::SUBSCRIPTION);
    pub(crate) const EXPIRES_BEFORE: Code =
        coded(StatusCode::BAD_REQUEST, 1026, class::SUBSCRIPTION);
    pub(crate) const ALREADY_CANCELLED: Code =
        coded(StatusCode::BAD_REQUEST, 1031, class::SUBSCRIPTION);
    pub(crate) const NOT_CANCELLED: Code =
        coded(StatusCode::BAD_REQUEST, 1070, class::SUBSCRIPTION);
    pub(crate) const NO_CHANGE_PENDING: Code =
        coded(StatusCode::BAD_REQUEST, 1071, class::SUBSCRIPTION);
    pub(crate) const CHANGE_ILLEGAL: Code = coded(StatusCode::BAD_REQUEST, 2001, class::CATALOG);
    pub(crate) const TARGET_TOO_FAR: Code = coded(StatusCode::BAD_REQUEST, 4005, class::INVOICE);
    pub(crate) const NO_BASE: Code = coded(StatusCode::BAD_REQUEST, 1013, class::SUBSCRIPTION);
    pub(crate) const BUNDLE_KEY_IN_USE: Code =
        coded(StatusCode::BAD_REQUEST, 1014, class::SUBSCRIPTION);
    pub(crate) const BASE_EXISTS: Code = coded(StatusCode::BAD_REQUEST, 1015, class::SUBSCRIPTION);
    pub(crate) const ADD_ON_INCLUDED: Code =
        coded(StatusCode::BAD_REQUEST, 1018, class::SUBSCRIPTION);
    pub(crate) const ADD_ON_NOT_AVAILABLE: Code =
        coded(StatusCode::BAD_REQUEST, 1019, class::SUBSCRIPTION);
    pub(crate) const TOO_MANY_IN_BUNDLE: Code =
        coded(StatusCode::BAD_REQUEST, 1025, class::SUBSCRIPTION);
    pub(crate) const NO_SUCH_BUNDLE: Code = coded(StatusCode::NOT_FOUND, 1081, class::SUBSCRIPTION);
    pub(crate) const NO_SUCH_BUNDLE_KEY: Code =
        coded(StatusCode::NOT_FOUND, 1083, class::SUBSCRIPTION);
    pub(crate) const NO_SUCH_SUBSCRIPTION: Code =
        coded(StatusCode::NOT_FOUND, 1080, class::SUBSCRIPTION);
    pub(crate) const SEVERAL_PLANS_OFFERED: Code =
        coded(StatusCode::BAD_REQUEST, 2002, class::CATALOG);
    pub(crate) const NO_PRICE: Code = coded(StatusCode::BAD_REQUEST, 2010, class::CATALOG);
    pub(crate) const NOT_SOLD_IN_CURRENCY: Code =
        coded(StatusCode::BAD_REQUEST, 2011, class::CATALOG);
    pub(crate) const NO_PLAN_OFFERED: Code = coded(StatusCode::BAD_REQUEST, 2020, class::CATALOG);
    pub(crate) const NO_SUCH_PLAN: Code = coded(StatusCode::BAD_REQUEST, 2021, class::CATALOG);
    pub(crate) const NO_SUCH_PRODUCT: Code = coded(StatusCode::BAD_REQUEST, 2030, class::CATALOG);
    pub(crate) const NO_SUCH_PHASE: Code = coded(StatusCode::BAD_REQUEST, 2040, class::CATALOG);
    pub(crate) const NO_CATALOG: Code = coded(StatusCode::BAD_REQUEST, 2050, class::CATALOG);
    pub(crate) const NO_SUCH_INVOICE: Code = coded(StatusCode::NOT_FOUND, 4006, class::INVOICE);
    pub(crate) const NO_SUCH_CREDIT: Code = coded(StatusCode::NOT_FOUND, 4008, class::INVOICE);
    pub(crate) const CREDIT_AMOUNT: Code = coded(StatusCode::BAD_REQUEST, 4009, class::INVOICE);
    pub(crate) const ADJUSTMENT_AMOUNT: Code = coded(StatusCode::BAD_REQUEST, 4010, class::INVOICE);
    pub(crate) const NO_SUCH_INVOICE_ITEM: Code =
        coded(StatusCode::NOT_FOUND, 4011, class::INVOICE);
    pub(crate) const CHARGE_AMOUNT: Code = coded(StatusCode::BAD_REQUEST, 4015, class::INVOICE);
    pub(crate) const ADJUSTMENT_TOO_LARGE: Code =
        coded(StatusCode::BAD_REQUEST, 4020, class::INVOICE);
    pub(crate) const NOT_ADJUSTABLE: Code = coded(StatusCode::BAD_REQUEST, 4021, class::INVOICE);
    pub(crate) const INVOICE_COMMITTED: Code = coded(StatusCode::BAD_REQUEST, 4024, class::INVOICE);
    pub(crate) const INVOICE_PAID: Code = coded(StatusCode::BAD_REQUEST, 4028, class::INVOICE);
    pub(crate) const SYSTEM_CREDIT: Code = coded(StatusCode::BAD_REQUEST, 4030, class::INVOICE);
    pub(crate) const INVOICE_VOID: Code = coded(StatusCode::BAD_REQUEST, 4031, class::INVOICE);
    pub(crate) const INVOICE_REPAIRED: Code = coded(StatusCode::BAD_REQUEST, 4032, class::INVOICE);
    pub(crate) const CREDIT_USED: Code = coded(StatusCode::BAD_REQUEST, 4033, class::INVOICE);
    pub(crate) const INVOICE_OF_ANOTHER_ACCOUNT: Code =
        coded(StatusCode::BAD_REQUEST, 4001, class::INVOICE);
    pub(crate) const INVOICE_STATUS: Code = coded(StatusCode::BAD_REQUEST, 4023, class::INVOICE);
    pub(crate) const INVALID_CATALOG: Code = coded(StatusCode::BAD_REQUEST, 2080, class::CATALOG);
    pub(crate) const INVALID_SIMPLE_PLAN: Code =
        coded(StatusCode::BAD_REQUEST, 2060, class::CATALOG);
    pub(crate) const INVALID_PRICE_OVERRIDE: Code =
        coded(StatusCode::BAD_REQUEST, 2081, class::CATALOG);
    pub(crate) const NO_SUCH_CUSTOM_FIELD: Code =
        coded(StatusCode::BAD_REQUEST, 9001, class::CUSTOM_FIELD);
    pub(crate) const CUSTOM_FIELD_NAME_IS_FIXED: Code =
        coded(StatusCode::BAD_REQUEST, 9002, class::CUSTOM_FIELD);
    pub(crate) const NO_SUCH_PAYMENT_METHOD: Code =
        coded(StatusCode::NOT_FOUND, 7000, class::PAYMENT);
    pub(crate) const INTERNAL_PAYMENT_ERROR: Code =
        coded(StatusCode::INTERNAL_SERVER_ERROR, 7019, class::PAYMENT);
    pub(crate) const NO_SUCH_PAYMENT: Code = coded(StatusCode::NOT_FOUND, 7020, class::PAYMENT);
    pub(crate) const DEFAULT_PAYMENT_METHOD: Code =
        coded(StatusCode::BAD_REQUEST, 7022, class::PAYMENT);
    pub(crate) const EXTERNAL_PAYMENT_METHOD_EXISTS: Code =
        coded(StatusCode::BAD_REQUEST, 7023, class::PAYMENT);
    pub(crate) const NO_SUCH_SUCCESS: Code = coded(StatusCode::NOT_FOUND, 7024, class::PAYMENT);
    pub(crate) const NO_SUCH_PLUGIN: Code = coded(StatusCode::BAD_REQUEST, 7028, class::PAYMENT);
    pub(crate) const ACTIVE_TRANSACTION_KEY: Code =
        coded(StatusCode::BAD_REQUEST, 7030, class::PAYMENT);
    pub(crate) const INVALID_PARAMETER: Code = coded(StatusCode::BAD_REQUEST, 7031, class::PAYMENT);
    pub(crate) const INVALID_OPERATION: Code = coded(StatusCode::BAD_REQUEST, 7032, class::PAYMENT);
    pub(crate) const DIFFERENT_ACCOUNT: Code = coded(StatusCode::BAD_REQUEST, 7034, class::PAYMENT);
    pub(crate) const PAYMENT_STATE_MACHINE: Code =
        coded(StatusCode::BAD_REQUEST, 7036, class::PAYMENT);
    pub(crate) const PLUGIN_TIMEOUT: Code =
        coded(StatusCode::GATEWAY_TIMEOUT, 7100, class::PAYMENT);
    pub(crate) const CONTROL_ABORTED: Code =
        coded(StatusCode::UNPROCESSABLE_ENTITY, 7106, class::PAYMENT);
    pub(crate) const PLUGIN_EXCEPTION: Code = coded(StatusCode::BAD_REQUEST, 7199, class::PAYMENT);
    /// A key of more than 255 characters.
    pub(crate) const fn key_too_long(class: &'static str) -> Code {
        coded(StatusCode::BAD_REQUEST, 5, class)
    }
    /// A refusal for which Kill Bill has no number.
    pub(crate) const fn plain(status: StatusCode, class: &'static str) -> Code {
        Code { status, number: None, class }
    }
    /// A tag that does not apply to accounts.
    pub(crate) const TAG_NOT_APPLICABLE: Code =
        plain(StatusCode::BAD_REQUEST, class::ILLEGAL_STATE);
    /// An invalid value for which Kill Bill has no number.
    pub(crate) const ILLEGAL_ARGUMENT: Code =
        plain(StatusCode::BAD_REQUEST, class::ILLEGAL_ARGUMENT);
}

/// The refusal of a request about an object that is not there, of those that have custom fields or tags.
pub(crate) fn no_such_object(kind: &str, id: &impl std::fmt::Display) -> Failure {
    let code = code::plain(StatusCode::NOT_FOUND, class::NO_SUCH_OBJECT);
    Failure::coded(code, format!("Object id={id} type={kind} doesn't exist!"))
}

/// Kill Bill's error body (`BillingExceptionJson`).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorJson<'a> {
    class_name: &'a str,
    code: Option<i32>,
    message: &'a str,
    cause_class_name: Option<&'a str>,
    cause_message: Option<&'a str>,
    /// Always empty: the server is not a Java program.
    stack_trace: [String; 0],
}

/// The error body of Kill Bill's servlet container, which refuses some requests itself.
#[derive(Serialize)]
struct ContainerErrorJson<'a> {
    servlet: &'a str,
    message: &'a str,
    url: &'a str,
    status: &'a str,
}

/// A refusal with the error body.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) cause_class: Option<&'static str>,
    pub(crate) cause_message: Option<String>,
    pub(crate) location: Option<HeaderValue>,
    /// The payment that the request is about, if a transaction was written.
    pub(crate) payment: Option<PaymentId>,
    /// Whether it is not known if money moved.
    pub(crate) is_unknown: bool,
    pub(crate) retry_after: Option<Duration>,
}

impl Problem {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message,
            cause_class: None,
            cause_message: None,
            location: None,
            payment: None,
            is_unknown: false,
            retry_after: None,
        }
    }
}

/// The result of a handler.
pub(crate) type HandlerResult = Result<Response, Failure>;

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No credentials, or wrong ones.
    Unauthenticated,
    /// Too many failed logins.
    Throttled { retry_after: Duration },
    /// A refusal of Kill Bill's servlet container: the tenant's credentials, the media type, the path.
    Container { status: StatusCode, message: Cow<'static, str> },
    /// The client does not accept JSON.
    NotAcceptable,
    /// The path has other methods.
    MethodNotAllowed { allow: HeaderValue },
    /// All refusals with the error body.
    Problem(Box<Problem>),
    /// The request's body cannot be read.
    Body(BodyError),
    /// The engine's refusal.
    Refused(Box<Rejection>),
    /// The engine cannot process the request now.
    Unavailable(Unavailable),
}

impl Failure {
    /// A refusal with the error body.
    pub(crate) fn coded(code: Code, message: impl Into<String>) -> Self {
        Self::Problem(Box::new(Problem::new(code, message)))
    }

    /// An invalid value for which Kill Bill has no number.
    pub(crate) fn illegal(message: impl Into<String>) -> Self {
        Self::coded(code::ILLEGAL_ARGUMENT, message)
    }

    /// An invalid parameter of a payment.
    pub(crate) fn parameter(field: &str, reason: &str) -> Self {
        Self::coded(code::INVALID_PARAMETER, invalid_parameter(field, reason))
    }

    /// The same for an entry of a list of lists, which the message names. Both count from 1.
    pub(crate) fn of_entry(mut self, bundle: usize, entry: usize) -> Self {
        if let Self::Problem(problem) = &mut self {
            problem.message = format!("entry {entry} of bundle {bundle}: {}", problem.message);
        }
        self
    }

    /// The caller lacks a permission.
    pub(crate) fn forbidden(permission: &str) -> Self {
        let code = code::plain(StatusCode::UNAUTHORIZED, class::UNAUTHORIZED);
        let message = format!("Subject does not have permission [{permission}]");
        let mut problem = Problem::new(code, message);
        problem.cause_class = Some(class::AUTHORIZATION);
        problem.cause_message = Some("Not authorized to invoke the operation".to_owned());
        Self::Problem(Box::new(problem))
    }

    /// The tenant's credentials are missing or wrong.
    pub(crate) fn tenant(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Container { status: StatusCode::UNAUTHORIZED, message: message.into() }
    }

    /// No such path.
    pub(crate) const fn not_found() -> Self {
        Self::Container { status: StatusCode::NOT_FOUND, message: Cow::Borrowed("Not Found") }
    }

    /// Whether the failure is a fault of this installation that needs an operator. Refusals, overload
    /// and failures of gateways are not.
    pub(crate) const fn is_fault(&self) -> bool {
        match self {
            Self::Unavailable(unavailable) => unavailable.reason.is_fault(),
            Self::Unauthenticated
            | Self::Throttled { .. }
            | Self::Container { .. }
            | Self::NotAcceptable
            | Self::MethodNotAllowed { .. }
            | Self::Problem(_)
            | Self::Body(_)
            | Self::Refused(_) => false,
        }
    }

    /// The response to a request for `path`.
    pub(crate) fn into_response(self, path: &str) -> Response {
        let why = self.why();
        let mut response = self.render(path);
        if let Some(why) = why {
            response.extensions_mut().insert(Why(why));
        }
        response
    }

    /// Why credentials or rights are not enough, for the log.
    fn why(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Unauthenticated => Some("user or password is missing or wrong".into()),
            Self::Container { status: StatusCode::UNAUTHORIZED, .. } => {
                Some("the tenant's API key or secret is missing or wrong".into())
            }
            Self::Problem(problem) if problem.cause_class == Some(class::AUTHORIZATION) => {
                Some(problem.message.clone().into())
            }
            Self::Throttled { .. }
            | Self::Container { .. }
            | Self::NotAcceptable
            | Self::MethodNotAllowed { .. }
            | Self::Problem(_)
            | Self::Body(_)
            | Self::Refused(_)
            | Self::Unavailable(_) => None,
        }
    }

    fn render(self, path: &str) -> Response {
        match self {
            Self::Unauthenticated => {
                let mut response = empty(StatusCode::UNAUTHORIZED);
                let challenge = HeaderValue::from_static("BASIC realm=\"application\"");
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
                response
            }
            Self::Throttled { retry_after } => {
                let code = code::plain(StatusCode::TOO_MANY_REQUESTS, class::REJECTED);
                let mut problem = Problem::new(code, "Too many failed attempts to log in");
                problem.retry_after = Some(retry_after);
                render(problem)
            }
            Self::Container { status, message } => container(status, &message, path),
            Self::NotAcceptable => empty(StatusCode::NOT_ACCEPTABLE),
            Self::MethodNotAllowed { allow } => {
                let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
                response.headers_mut().insert(ALLOW, allow);
                response
            }
            Self::Problem(problem) => render(*problem),
            Self::Body(error) => body_response(error),
            Self::Refused(rejection) => {
                let (code, message) = rejection::wire(&rejection);
                render(Problem::new(code, message))
            }
            Self::Unavailable(unavailable) => unavailable_response(&unavailable),
        }
    }
}

impl From<Unavailable> for Failure {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

impl Failure {
    /// The failure of the user's authentication.
    pub(crate) fn of_user(error: AccessError) -> Self {
        match error {
            AccessError::Missing
            | AccessError::Invalid
            | AccessError::UnknownApiKey
            | AccessError::WrongSecret
            | AccessError::TenantInactive => Self::Unauthenticated,
            AccessError::Throttled { retry_after } => Self::Throttled { retry_after },
            AccessError::Unavailable(unavailable) => Self::Unavailable(unavailable),
        }
    }

    /// The failure of the tenant's authentication.
    pub(crate) fn of_tenant(error: AccessError, api_key: &str) -> Self {
        match error {
            AccessError::Missing => Self::tenant(TENANT_HEADERS_MISSING),
            AccessError::UnknownApiKey => {
                Self::tenant(format!("No account found for user [{api_key}]"))
            }
            AccessError::Invalid | AccessError::WrongSecret => Self::tenant(format!(
                "Submitted credentials for token [org.apache.shiro.authc.UsernamePasswordToken - \
                 {api_key}, rememberMe=false] did not match the expected credentials."
            )),
            AccessError::TenantInactive => Self::tenant("The tenant is switched off"),
            AccessError::Throttled { retry_after } => Self::Throttled { retry_after },
            AccessError::Unavailable(unavailable) => Self::Unavailable(unavailable),
        }
    }
}

/// Kill Bill's message for a request without a tenant.
pub(crate) const TENANT_HEADERS_MISSING: &str =
    "Make sure to set the X-Killbill-ApiKey and X-Killbill-ApiSecret headers";

fn body_response(error: BodyError) -> Response {
    let (status, class, message) = match error {
        BodyError::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            class::CLIENT_ERROR,
            "The request's body is larger than the server accepts.",
        ),
        BodyError::TimedOut => (
            StatusCode::REQUEST_TIMEOUT,
            class::CLIENT_ERROR,
            "The request's body did not arrive in time.",
        ),
        BodyError::Broken => {
            (StatusCode::BAD_REQUEST, class::CLIENT_ERROR, "The request's body broke off.")
        }
        BodyError::NoRoom => (
            StatusCode::SERVICE_UNAVAILABLE,
            class::REJECTED,
            "The server is at its limit of request bodies in memory; nothing was done.",
        ),
    };
    let mut problem = Problem::new(code::plain(status, class), message);
    problem.retry_after = (error == BodyError::NoRoom).then_some(Duration::ZERO);
    render(problem)
}

fn unavailable_response(unavailable: &Unavailable) -> Response {
    let (status, class) = match unavailable.reason {
        Reason::MessageTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, class::REJECTED),
        Reason::QueueFull
        | Reason::QueueAway
        | Reason::GatewayFull
        | Reason::GatewayStopped
        | Reason::BreakerOpen
        | Reason::ControlFailed
        | Reason::Expired
        | Reason::ReadersFull
        | Reason::ReadTooLong
        | Reason::HashersFull
        | Reason::Stopping => (StatusCode::SERVICE_UNAVAILABLE, class::REJECTED),
        Reason::DiskFull
        | Reason::Store
        | Reason::NotOwner
        | Reason::CommitInDoubt
        | Reason::Repeated
        | Reason::Quarantined => (StatusCode::SERVICE_UNAVAILABLE, class::ILLEGAL_STATE),
        Reason::Bug => (StatusCode::INTERNAL_SERVER_ERROR, class::ILLEGAL_STATE),
    };
    let mut problem = Problem::new(code::plain(status, class), unavailable.to_string());
    problem.is_unknown = unavailable.reason.leaves_outcome_unknown();
    problem.retry_after = unavailable.retry_after;
    render(problem)
}

/// Whole seconds, rounded up, at least one.
fn whole_seconds(delay: Duration) -> u64 {
    (delay.as_secs() + u64::from(delay.subsec_nanos() > 0)).max(1)
}

fn render(problem: Problem) -> Response {
    let body = ErrorJson {
        class_name: problem.code.class,
        code: problem.code.number,
        message: &problem.message,
        cause_class_name: problem.cause_class,
        cause_message: problem.cause_message.as_deref(),
        stack_trace: [],
    };
    let mut response = json(problem.code.status, &body);
    let headers = response.headers_mut();
    if let Some(location) = problem.location {
        headers.insert(LOCATION, location);
    }
    if let Some(payment) = problem.payment {
        let payment = HeaderValue::try_from(payment.to_string());
        headers.insert(PAYMENT, payment.expect("a UUID is visible ASCII"));
    }
    if problem.is_unknown {
        mark_outcome_unknown(headers);
    }
    if let Some(delay) = problem.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(delay)));
    }
    response
}

fn container(status: StatusCode, message: &str, url: &str) -> Response {
    json(status, &ContainerErrorJson { servlet: "default", message, url, status: status.as_str() })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    async fn rendered(failure: Failure) -> String {
        use http_body_util::BodyExt;
        let response = failure.into_response("/1.0/kb/x");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let headers = parts.headers.iter().map(|(name, value)| format!("{name}: {value:?}\n"));
        let headers: String = headers.collect();
        format!("{}\n{headers}{}", parts.status.as_u16(), String::from_utf8_lossy(&body))
    }

    #[tokio::test]
    async fn failures_of_the_api_have_kill_bills_statuses_and_bodies() {
        expect![[r#"
            401
            content-type: "application/json"
            www-authenticate: "BASIC realm=\"application\""
        "#]]
        .assert_eq(&rendered(Failure::Unauthenticated).await);
        expect![[r#"
            401
            content-type: "application/json"
            {"servlet":"default","message":"Make sure to set the X-Killbill-ApiKey and X-Killbill-ApiSecret headers","url":"/1.0/kb/x","status":"401"}"#]].assert_eq(&rendered(Failure::tenant(TENANT_HEADERS_MISSING)).await);
        expect![[r#"
            401
            content-type: "application/json"
            {"className":"org.apache.shiro.authz.UnauthorizedException","code":null,"message":"Subject does not have permission [account:create]","causeClassName":"org.apache.shiro.authz.AuthorizationException","causeMessage":"Not authorized to invoke the operation","stackTrace":[]}"#]].assert_eq(&rendered(Failure::forbidden("account:create")).await);
        let retry_after = Duration::from_millis(1500);
        expect![[r#"
            429
            content-type: "application/json"
            retry-after: "2"
            {"className":"java.util.concurrent.RejectedExecutionException","code":null,"message":"Too many failed attempts to log in","causeClassName":null,"causeMessage":null,"stackTrace":[]}"#]].assert_eq(&rendered(Failure::Throttled { retry_after }).await);
        expect![[r#"
            406
            content-type: "application/json"
        "#]]
        .assert_eq(&rendered(Failure::NotAcceptable).await);
        expect![[r#"
            503
            content-type: "application/json"
            retry-after: "1"
            {"className":"java.util.concurrent.RejectedExecutionException","code":null,"message":"too many requests are waiting","causeClassName":null,"causeMessage":null,"stackTrace":[]}"#]].assert_eq(&rendered(Unavailable::from(Reason::QueueFull).into()).await);
        expect![[r#"
            500
            content-type: "application/json"
            {"className":"java.lang.IllegalStateException","code":null,"message":"internal error: nothing of the request was written","causeClassName":null,"causeMessage":null,"stackTrace":[]}"#]].assert_eq(&rendered(Unavailable::from(Reason::Bug).into()).await);
    }
}
