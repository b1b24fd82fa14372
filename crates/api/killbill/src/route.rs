//! One route of the API, and one resource: a path with its routes. The table of all routes is in
//! `routes`, above the handlers.

use std::future::Future;
use std::pin::Pin;

use http::{HeaderValue, Method};

use crate::call::Call;
use crate::error::HandlerResult;
use crate::media_types::{Gives, Takes};
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

/// The result of looking up a path and a method.
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
