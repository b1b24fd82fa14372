//! One row of the matrix: a route, what it needs, and a request to it.

use std::fmt;

use super::world::Objects;

/// The credentials that a caller needs for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing, for this reason.
    Nothing(&'static str),
    /// Nothing, for this reason; credentials of a tenant are checked where there are any.
    TenantIfSent(&'static str),
    /// The token for metrics.
    MetricsToken,
    /// An operator, with this permission if any.
    Operator(Option<&'static str>),
    /// An operator, with this permission if any, and the credentials of a tenant.
    OperatorAndTenant(Option<&'static str>),
    /// The access token of a customer.
    Customer,
    /// The access token of the customer, or an operator with this permission and the credentials of
    /// the tenant.
    CustomerOrOperator(&'static str),
    /// A secret of an environment, of one of these types.
    Secret(&'static [&'static str]),
    /// This object in the path, which is secret.
    Path(&'static str),
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(reason) => write!(f, "nothing: {reason}"),
            Self::TenantIfSent(reason) => write!(f, "nothing, or a tenant: {reason}"),
            Self::MetricsToken => f.write_str("the token for metrics"),
            Self::Operator(None) => f.write_str("operator"),
            Self::Operator(Some(permission)) => write!(f, "operator with `{permission}`"),
            Self::OperatorAndTenant(None) => f.write_str("operator, tenant"),
            Self::OperatorAndTenant(Some(permission)) => {
                write!(f, "operator with `{permission}`, tenant")
            }
            Self::Customer => f.write_str("customer"),
            Self::CustomerOrOperator(permission) => {
                write!(f, "customer; or operator with `{permission}`, tenant")
            }
            Self::Secret(types) => write!(f, "secret of type {}", types.join(", ")),
            Self::Path(object) => write!(f, "the {object} in the path"),
        }
    }
}

/// A route and a request to it. Names in braces in its texts are replaced by [`Objects`].
pub struct Row {
    /// As the tables of routes have it: method and path. The method of gRPC is `RPC`.
    pub route: &'static str,
    pub needs: Needs,
    target: Option<&'static str>,
    body: &'static str,
    message: Option<fn(&Objects) -> Vec<u8>>,
    /// The media type of the body.
    pub media_type: &'static str,
    /// The `Accept` header of the request.
    pub accept: &'static str,
    /// The status for credentials of another tenant; none: that tenant's own data is shown.
    pub foreign: Option<u16>,
    /// A further status for a caller who may, where the request is a wrong one.
    pub or: Option<u16>,
    /// The object that is the address of the customer who may.
    pub customer: &'static str,
    /// Whether the response does not end.
    pub is_stream: bool,
    /// Whether the request ends what other rows need: it is sent last.
    pub is_last: bool,
}

pub fn row(route: &'static str, needs: Needs) -> Row {
    Row {
        route,
        needs,
        target: None,
        body: "",
        message: None,
        media_type: "application/json",
        accept: "application/json",
        foreign: None,
        or: None,
        customer: "email",
        is_stream: false,
        is_last: false,
    }
}

impl Row {
    /// The path and the query of the request, where they are not the route's path.
    pub fn at(mut self, target: &'static str) -> Self {
        self.target = Some(target);
        self
    }

    pub fn body(mut self, json: &'static str) -> Self {
        self.body = json;
        self
    }

    /// The body, as plain text.
    pub fn text(mut self, text: &'static str) -> Self {
        (self.body, self.media_type) = (text, "text/plain");
        self
    }

    pub fn xml(mut self, xml: &'static str) -> Self {
        (self.body, self.media_type) = (xml, "text/xml");
        self
    }

    /// The media type that the response has.
    pub fn accepting(mut self, media_type: &'static str) -> Self {
        self.accept = media_type;
        self
    }

    pub fn message(mut self, encode: fn(&Objects) -> Vec<u8>) -> Self {
        self.message = Some(encode);
        self
    }

    /// The request names an object, which another tenant does not have.
    pub fn of_object(mut self) -> Self {
        self.foreign = Some(404);
        self
    }

    /// The status for credentials of another tenant.
    pub fn foreign(mut self, status: u16) -> Self {
        self.foreign = Some(status);
        self
    }

    /// A caller who may gets this status too, because the request is a wrong one.
    pub fn or(mut self, status: u16) -> Self {
        self.or = Some(status);
        self
    }

    /// The customer who may is the one with this address.
    pub fn by(mut self, email: &'static str) -> Self {
        self.customer = email;
        self
    }

    pub fn stream(mut self) -> Self {
        self.is_stream = true;
        self
    }

    pub fn last(mut self) -> Self {
        self.is_last = true;
        self
    }

    /// The permission that an operator needs.
    pub fn permission(&self) -> Option<&'static str> {
        match self.needs {
            Needs::Operator(permission) | Needs::OperatorAndTenant(permission) => permission,
            Needs::CustomerOrOperator(permission) => Some(permission),
            Needs::Nothing(_)
            | Needs::TenantIfSent(_)
            | Needs::MetricsToken
            | Needs::Customer
            | Needs::Secret(_)
            | Needs::Path(_) => None,
        }
    }

    pub fn method(&self) -> &'static str {
        self.route.split_once(' ').expect("method and path").0
    }

    /// The path and the query of the request.
    pub fn target(&self, objects: &Objects) -> String {
        let path = self.route.split_once(' ').expect("method and path").1;
        let target = objects.fill(self.target.unwrap_or(path));
        assert!(
            !target.contains('{'),
            "{}: no object of the matrix has this name: {target}",
            self.route
        );
        target
    }

    /// The body of the request, or the message of the call.
    pub fn content(&self, objects: &Objects) -> Option<Vec<u8>> {
        match self.message {
            Some(encode) => Some(encode(objects)),
            None => (!self.body.is_empty()).then(|| objects.fill(self.body).into_bytes()),
        }
    }
}
