//! One route of the API, and one resource: a path with its routes. The table of all routes is in
//! `routes`, above the handlers.

use std::future::Future;
use std::pin::Pin;

use http::{HeaderValue, Method};

use crate::call::Call;
use crate::error::HandlerResult;
use crate::metrics::RouteMetrics;
use crate::request::Audited;

/// The response of a handler, boxed because handlers of all types are in one table.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

pub(crate) type Handler = fn(Call) -> ResponseFuture;

/// The credentials that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    None,
    User,
    UserAndTenant,
}

/// What body a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// None; one that is sent is not looked at.
    Nothing,
    /// One of any type, or none.
    Anything,
    Json,
    /// Text, as `text/plain`.
    Text,
    Xml,
}

impl Takes {
    /// Whether the body may be of this `Content-Type`.
    pub(crate) fn is_type(self, content_type: &[u8]) -> bool {
        let types: &[&str] = match self {
            Self::Nothing | Self::Anything => return true,
            Self::Json => &["application/json"],
            Self::Text => &["text/plain"],
            Self::Xml => &["text/xml", "application/xml"],
        };
        let sent = media_type(content_type);
        types.iter().any(|of| sent.eq_ignore_ascii_case(of.as_bytes()))
    }
}

/// The media types that a response can have; a request whose `Accept` has none of them is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    Json,
    /// Bytes without a type, as Kill Bill streams its queues.
    Octets,
    Text,
    Xml,
    JsonOrXml,
}

impl Gives {
    /// Whether an `Accept` header has one of them; an empty one has all.
    pub(crate) fn is_accepted(self, accept: &[u8]) -> bool {
        let mut ranges = accept.split(|byte| *byte == b',').map(media_type);
        accept.is_empty() || ranges.any(|it| self.media_types().iter().any(|of| includes(it, of)))
    }

    const fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["application/json"],
            Self::Octets => &["application/octet-stream"],
            Self::Text => &["text/plain"],
            Self::Xml => &["text/xml", "application/xml"],
            Self::JsonOrXml => &["application/json", "text/xml", "application/xml"],
        }
    }
}

/// Whether a media range, such as `text/*`, includes a type.
fn includes(range: &[u8], media_type: &str) -> bool {
    let any = range.strip_suffix(b"/*");
    let main = media_type.split('/').next().unwrap_or_default();
    range == b"*/*"
        || range.eq_ignore_ascii_case(media_type.as_bytes())
        || any.is_some_and(|any| any.eq_ignore_ascii_case(main.as_bytes()))
}

/// A media type without its parameters.
fn media_type(value: &[u8]) -> &[u8] {
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

/// One method of one path.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// With its parameters in braces: `/1.0/kb/accounts/{accountId}`.
    pub(crate) path: &'static str,
    pub(crate) credentials: Credentials,
    /// The permission that the caller needs; reads need none.
    pub(crate) permission: Option<&'static str>,
    /// Whether the operator whom `{username}` names needs no permission.
    pub(crate) is_open_to_its_user: bool,
    pub(crate) audited: Audited,
    pub(crate) takes: Takes,
    pub(crate) gives: Gives,
    pub(crate) handler: Handler,
}

/// One path with its methods.
pub(crate) struct Resource {
    pub(crate) path: &'static str,
    pub(crate) routes: Vec<&'static Route>,
    /// Methods that Kill Bill serves on this path and this API does not.
    pub(crate) unserved: &'static [Method],
    metrics: RouteMetrics,
}

/// What a resource has for a method.
pub(crate) enum RouteMatch {
    Route(&'static Route),
    /// Kill Bill serves the method, this API does not.
    Unserved,
    /// The path exists, with other methods.
    OtherMethods,
    /// The path does not exist.
    NoPath,
}

impl Resource {
    /// A path without methods.
    pub(crate) fn new(path: &'static str) -> Self {
        Self { path, routes: vec![], unserved: &[], metrics: RouteMetrics::new(path) }
    }

    /// The route of a method. HEAD is GET without the body, which the HTTP layer leaves out.
    pub(crate) fn find(&self, method: &Method) -> RouteMatch {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        if let Some(route) = self.routes.iter().find(|route| route.method == *method) {
            return RouteMatch::Route(route);
        }
        if self.unserved.contains(method) {
            return RouteMatch::Unserved;
        }
        if self.routes.is_empty() && self.unserved.is_empty() {
            return RouteMatch::NoPath;
        }
        RouteMatch::OtherMethods
    }

    /// The `Allow` header of a refused method.
    pub(crate) fn allow(&self) -> HeaderValue {
        let served = self.routes.iter().map(|route| &route.method);
        let mut methods: Vec<_> = served.chain(self.unserved).map(Method::as_str).collect();
        methods.push("OPTIONS");
        methods.sort_unstable();
        HeaderValue::try_from(methods.join(",")).expect("methods are tokens")
    }

    /// The `Allow` header of an OPTIONS request: a path with GET has HEAD too.
    pub(crate) fn options(&self) -> HeaderValue {
        let allow = self.allow();
        if matches!(self.find(&Method::GET), RouteMatch::OtherMethods) {
            return allow;
        }
        let allow = allow.to_str().expect("methods are tokens");
        HeaderValue::try_from(format!("HEAD,{allow}")).expect("methods are tokens")
    }

    pub(crate) const fn metrics(&self) -> &RouteMetrics {
        &self.metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        for accepted in ["", "application/json", "*/*", "text/html, application/*;q=0.5"] {
            assert!(Gives::Json.is_accepted(accepted.as_bytes()), "{accepted}");
        }
        for refused in ["application/xml", "text/html, text/*", "application/octet-stream"] {
            assert!(!Gives::Json.is_accepted(refused.as_bytes()), "{refused}");
        }
        assert!(Gives::Octets.is_accepted(b"application/*"));
        assert!(!Gives::Octets.is_accepted(b"application/json"));
        assert!(Gives::Text.is_accepted(b"TEXT/*"));
        assert!(Gives::JsonOrXml.is_accepted(b"application/xml"));
        assert!(Takes::Json.is_type(b"application/json; charset=utf-8"));
        assert!(Takes::Json.is_type(b"Application/JSON"));
        assert!(!Takes::Json.is_type(b"text/plain"));
        assert!(!Takes::Json.is_type(b"application/jsonp"));
        assert!(Takes::Text.is_type(b"text/plain; charset=utf-8"));
        assert!(Takes::Xml.is_type(b"application/xml"));
    }
}
