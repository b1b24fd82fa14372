//! The OpenAPI document of an API whose handlers write their answers by hand: a table of its routes.

use std::borrow::Cow;

use utoipa::openapi::Required;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{Object, Schema, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Components, Content, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

const NO_SCOPES: [&str; 0] = [];

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// A JSON body: the named schema of a type.
#[derive(Clone, Copy)]
pub struct Body {
    name: fn() -> Cow<'static, str>,
    schema: fn() -> RefOr<Schema>,
    nested: fn(&mut Vec<(String, RefOr<Schema>)>),
}

/// Who may call a route.
#[derive(Clone, Copy)]
pub enum Credentials {
    /// Anybody.
    None,
    /// Who has the credentials of the security scheme of this name.
    Scheme(&'static str),
    /// An operator of a tenant: the document's default.
    Operator,
}

/// One route.
pub struct Operation {
    method: HttpMethod,
    path: &'static str,
    summary: &'static str,
    credentials: Credentials,
    /// Optional parameters in the query, with their descriptions.
    query: &'static [(&'static str, &'static str)],
    request: Option<Body>,
    is_request_optional: bool,
    status: &'static str,
    description: &'static str,
    response: Option<Body>,
    /// The media type of a text that it is answered with.
    text: Option<&'static str>,
}

impl Body {
    /// The schema of a type, under the type's name.
    #[must_use]
    pub const fn of<T: ToSchema>() -> Self {
        Self { name: T::name, schema: <T as PartialSchema>::schema, nested: T::schemas }
    }

    fn content(self) -> Content {
        Content::new(Some(Ref::from_schema_name((self.name)())))
    }

    fn add_to(self, components: &mut Components) {
        let mut schemas = vec![((self.name)().into_owned(), (self.schema)())];
        (self.nested)(&mut schemas);
        components.schemas.extend(schemas);
    }
}

impl Operation {
    /// A route that reads, and is answered with 200.
    #[must_use]
    pub const fn get(path: &'static str, summary: &'static str) -> Self {
        Self::new(HttpMethod::Get, path, summary)
    }

    /// A route that is answered with 200.
    #[must_use]
    pub const fn new(method: HttpMethod, path: &'static str, summary: &'static str) -> Self {
        Self {
            method,
            path,
            summary,
            credentials: Credentials::None,
            query: &[],
            request: None,
            is_request_optional: false,
            status: "200",
            description: "Done",
            response: None,
            text: None,
        }
    }

    /// Requires credentials.
    #[must_use]
    pub const fn needs(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// Takes optional parameters in the query: names and descriptions.
    #[must_use]
    pub const fn with_query(self, query: &'static [(&'static str, &'static str)]) -> Self {
        Self { query, ..self }
    }

    /// Takes a body.
    #[must_use]
    pub const fn takes<T: ToSchema>(self) -> Self {
        Self { request: Some(Body::of::<T>()), ..self }
    }

    /// Takes a body, or none.
    #[must_use]
    pub const fn may_take<T: ToSchema>(self) -> Self {
        Self { request: Some(Body::of::<T>()), is_request_optional: true, ..self }
    }

    /// Is answered with this status where it is done; the description says what that means.
    #[must_use]
    pub const fn with_status(self, status: &'static str, description: &'static str) -> Self {
        Self { status, description, ..self }
    }

    /// Is answered with a body.
    #[must_use]
    pub const fn answers<T: ToSchema>(self) -> Self {
        Self { response: Some(Body::of::<T>()), ..self }
    }

    /// Is answered with a text of this media type.
    #[must_use]
    pub const fn answers_text(self, media_type: &'static str) -> Self {
        Self { text: Some(media_type), ..self }
    }

    /// The method and the path.
    #[must_use]
    pub const fn route(&self) -> (&HttpMethod, &'static str) {
        (&self.method, self.path)
    }

    /// The id: the method and the path's words.
    fn id(&self) -> String {
        let method = match self.method {
            HttpMethod::Get => "get",
            HttpMethod::Put => "put",
            HttpMethod::Delete => "delete",
            HttpMethod::Patch => "patch",
            HttpMethod::Post | HttpMethod::Options | HttpMethod::Head | HttpMethod::Trace => "post",
        };
        let words = self.path.split(|it: char| !it.is_ascii_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        let mut id = words.fold(method.to_owned(), |id, word| format!("{id}_{word}"));
        if self.path.ends_with('/') {
            id.push_str("_slash");
        }
        id
    }

    fn build(&self, tag: &str, errors: &[Refusal<'_>]) -> OperationBuilder {
        let mut operation = OperationBuilder::new()
            .tag(tag)
            .operation_id(Some(self.id()))
            .summary(Some(self.summary));
        operation = match self.credentials {
            Credentials::None => operation.security(SecurityRequirement::default()),
            Credentials::Scheme(name) => {
                operation.security(SecurityRequirement::new(name, NO_SCOPES))
            }
            Credentials::Operator => operation,
        };
        for name in self.path.split('{').skip(1).filter_map(|it| it.split('}').next()) {
            operation = operation.parameter(parameter(name, ParameterIn::Path, None));
        }
        for (name, description) in self.query {
            operation =
                operation.parameter(parameter(name, ParameterIn::Query, Some(*description)));
        }
        if let Some(body) = self.request {
            let required = if self.is_request_optional { Required::False } else { Required::True };
            let body = RequestBodyBuilder::new().content(JSON, body.content());
            operation = operation.request_body(Some(body.required(Some(required)).build()));
        }
        let mut response = ResponseBuilder::new().description(self.description);
        if let Some(body) = self.response {
            response = response.content(JSON, body.content());
        }
        if let Some(media_type) = self.text {
            response = response.content(media_type, text());
        }
        operation = operation.response(self.status, response);
        for (status, description, content) in errors {
            let response = ResponseBuilder::new().description(*description);
            let response = match content {
                Refused::Empty => response,
                Refused::Text => response.content(TEXT, text()),
                Refused::Json(body) => response.content(JSON, body.content()),
            };
            operation = operation.response(*status, response);
        }
        operation
    }
}

fn parameter(name: &str, within: ParameterIn, description: Option<&str>) -> ParameterBuilder {
    let required = if within == ParameterIn::Path { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(name.trim_start_matches('*'))
        .parameter_in(within)
        .required(required)
        .description(description)
        .schema(Some(Object::with_type(Type::String)))
}

fn text() -> Content {
    Content::new(Some(Object::with_type(Type::String)))
}

/// The body of a refusal.
#[derive(Clone, Copy)]
pub enum Refused {
    Empty,
    Json(Body),
    /// A reason in plain text.
    Text,
}

/// A status, what it means, and what it is answered with.
pub type Refusal<'a> = (&'a str, &'a str, Refused);

/// The document of the routes under a tag; each may also be answered with the `errors`.
#[must_use]
pub fn document(tag: &str, operations: &[Operation], errors: &[Refusal<'_>]) -> OpenApi {
    let mut paths = Paths::new();
    let mut components = Components::new();
    for operation in operations {
        let path = operation.path.replace("{*", "{");
        paths.add_path_operation(
            path,
            vec![operation.method.clone()],
            operation.build(tag, errors),
        );
        let bodies = [operation.request, operation.response];
        bodies.into_iter().flatten().for_each(|it| it.add_to(&mut components));
    }
    for (_, _, content) in errors {
        if let Refused::Json(body) = content {
            body.add_to(&mut components);
        }
    }
    OpenApiBuilder::new()
        .info(InfoBuilder::new().title(tag).version(env!("CARGO_PKG_VERSION")).build())
        .paths(paths)
        .components(Some(components))
        .build()
}

/// Declares shapes that only a document uses.
#[macro_export]
macro_rules! shapes {
    ($($(#[$of_type:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            #[derive(utoipa::ToSchema)]
            $(#[$of_type])*
            #[expect(dead_code, reason = "only its description is used")]
            struct $name {
                $($(#[$of_field])* $field: $type,)*
            }
        )*
    };
}
