//! One route of the API, and one resource: a path with its routes. The list of all routes is in
//! `routes`, above the handlers.

use std::future::Future;
use std::pin::Pin;

use domain::object::ObjectType;
use http::{HeaderValue, Method};
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::PathItem;

use crate::call::Call;
use crate::error::HandlerResult;
use crate::media_types::{Gives, Takes};
use crate::metrics::RouteMetrics;
use crate::objects::ObjectNames;
use crate::request::Audited;

/// The response of a handler, boxed because handlers of all types are in one list.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

pub(crate) type Handler = fn(Call) -> ResponseFuture;

/// A handler, and the OpenAPI document of nothing else.
pub(crate) struct DescribedHandler {
    pub(crate) describe: fn() -> OpenApi,
    pub(crate) handle: Handler,
}

/// The parameter of a path that has the id of an object, on routes that several types of objects have.
pub(crate) const OBJECT_ID: &str = "objectId";

/// The credentials that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    None,
    User,
    UserAndTenant,
}

/// One method of one path.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// With its parameters in braces: `/1.0/kb/accounts/{accountId}`.
    pub(crate) path: String,
    /// The type of objects that the path names, on a route that several types have.
    pub(crate) object: Option<ObjectType>,
    pub(crate) credentials: Credentials,
    /// The permission that the caller needs; most reads need none.
    pub(crate) permission: Option<&'static str>,
    /// Whether the operator whom `{username}` names needs no permission.
    pub(crate) is_open_to_its_user: bool,
    /// Whether the route exists only if the clock is a test clock.
    pub(crate) is_of_test_clock: bool,
    pub(crate) audited: Audited,
    pub(crate) takes: Takes,
    pub(crate) gives: Gives,
    pub(crate) handler: DescribedHandler,
}

/// A route that changes nothing. By default it needs no permission.
///
/// # Panics
/// If it is no GET.
pub(crate) fn read(handler: DescribedHandler) -> Route {
    let route = Route::new(handler);
    assert_eq!(route.method, Method::GET, "{} changes something", route.path);
    route
}

/// A route that changes something. By default it takes JSON, and no body with DELETE.
pub(crate) fn write(permission: &'static str, handler: DescribedHandler) -> Route {
    let route = Route::new(handler);
    let takes = if route.method == Method::DELETE { Takes::Nothing } else { Takes::Json };
    Route { permission: Some(permission), audited: Audited::ByHeader, takes, ..route }
}

/// A route that exists only if the clock is a test clock. It needs no permission and is not audited.
pub(crate) fn on_test_clock(handler: DescribedHandler) -> Route {
    Route { is_of_test_clock: true, ..Route::new(handler) }
}

impl Route {
    fn new(handler: DescribedHandler) -> Self {
        let mut described = (handler.describe)().paths.paths.into_iter();
        let (path, item) = described.next().expect("a handler describes its path");
        Self {
            method: method_of(&item),
            path,
            object: None,
            credentials: Credentials::UserAndTenant,
            permission: None,
            is_open_to_its_user: false,
            is_of_test_clock: false,
            audited: Audited::Not,
            takes: Takes::Nothing,
            gives: Gives::Json,
            handler,
        }
    }

    /// The route of one type of objects: its handler describes the path with `{object}/{objectId}`.
    pub(crate) fn of(self, kind: ObjectType) -> Self {
        let names = ObjectNames::of(kind);
        let path = self.path.replace("{object}", names.collection).replace(OBJECT_ID, names.id);
        Self { path, object: Some(kind), ..self }
    }

    /// The route belongs to the installation, not to a tenant.
    pub(crate) fn of_installation(self) -> Self {
        Self { credentials: Credentials::User, ..self }
    }

    /// The operator whom `{username}` names needs no permission.
    pub(crate) fn open_to_its_user(self) -> Self {
        Self { is_open_to_its_user: true, ..self }
    }

    /// Without `X-Killbill-CreatedBy` the operator is the author: Kill Bill's clients do not send it here.
    pub(crate) fn authored_by_its_user(self) -> Self {
        Self { audited: Audited::ByHeaderOrUser, ..self }
    }

    pub(crate) fn without_credentials(self) -> Self {
        Self { credentials: Credentials::None, ..self }
    }

    /// The permission that a read needs.
    pub(crate) fn needing(self, permission: &'static str) -> Self {
        Self { permission: Some(permission), ..self }
    }

    /// The body, instead of the default.
    pub(crate) fn taking(self, takes: Takes) -> Self {
        Self { takes, ..self }
    }

    /// The answer, instead of JSON.
    pub(crate) fn giving(self, gives: Gives) -> Self {
        Self { gives, ..self }
    }
}

fn method_of(item: &PathItem) -> Method {
    let operations = [
        (&item.get, Method::GET),
        (&item.post, Method::POST),
        (&item.put, Method::PUT),
        (&item.delete, Method::DELETE),
    ];
    let described = operations.into_iter().find(|(operation, _)| operation.is_some());
    described.expect("a handler describes its method, one of Kill Bill's").1
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
