//! Parameters and refusals that many routes of the OpenAPI document share. The summary of a route is the comment of its handler.

use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Components, Content, OpenApi, Ref, RefOr};
use utoipa::{IntoParams, IntoResponses, PartialSchema as _, ToSchema};
use uuid::Uuid;
use web::problem::{MEDIA_TYPE, ProblemBody};

/// Takes the defaults of fields out: they are what is assumed where a request lacks the field, and
/// generators of clients read them as a promise that it is there.
pub fn remove_defaults(document: &mut OpenApi) {
    let schemas = document.components.iter_mut().flat_map(|it| it.schemas.values_mut());
    for schema in schemas {
        let RefOr::T(Schema::Object(object)) = schema else { continue };
        for property in object.properties.values_mut() {
            match property {
                RefOr::T(Schema::Object(property)) => property.default = None,
                RefOr::T(Schema::Array(property)) => property.default = None,
                RefOr::T(_) | RefOr::Ref(_) => {}
            }
        }
    }
}

/// The operations of a path.
pub fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let methods = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
    methods.into_iter().filter_map(Option::as_mut)
}

/// Says of every operation that wrong credentials are refused, and so is what they do not permit.
pub fn add_refusals(document: &mut OpenApi) {
    let refusals = [
        ("401", "The credentials are missing or wrong"),
        ("403", "They do not permit it, or the tenant is switched off"),
    ];
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        for (status, description) in refusals {
            let responses = &mut operation.responses.responses;
            if !responses.contains_key(status) {
                let response = ResponseBuilder::new().description(description).build();
                responses.insert(status.to_owned(), RefOr::T(response));
            }
        }
    }
}

/// Lets objects that are parts of others have the others' fields: a request may have no further ones, but an answer
/// has them beside it.
pub fn open_parts(document: &mut OpenApi) {
    let Some(components) = &mut document.components else { return };
    let mut parts = vec![];
    for schema in components.schemas.values() {
        let RefOr::T(Schema::AllOf(whole)) = schema else { continue };
        let of_whole = whole.items.iter().filter_map(|it| match it {
            RefOr::Ref(part) => part.ref_location.rsplit('/').next().map(str::to_owned),
            RefOr::T(_) => None,
        });
        parts.extend(of_whole);
    }
    for part in parts {
        if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(&part) {
            object.additional_properties = None;
        }
    }
}

/// Gives every error response without a body its body: a problem (RFC 9457).
pub fn add_problems(document: &mut OpenApi) {
    let operations = document.paths.paths.values_mut().flat_map(operations);
    let responses = operations.flat_map(|it| &mut it.responses.responses);
    for (_, response) in responses.filter(|(status, _)| status.starts_with(['4', '5'])) {
        let RefOr::T(response) = response else { continue };
        if !response.content.is_empty() {
            continue;
        }
        let problem = Content::new(Some(Ref::from_schema_name(ProblemBody::name())));
        response.content.insert(MEDIA_TYPE.to_owned(), RefOr::T(problem));
    }
    let components = document.components.get_or_insert_with(Components::new);
    let mut schemas = vec![(ProblemBody::name().into_owned(), ProblemBody::schema())];
    ProblemBody::schemas(&mut schemas);
    components.schemas.extend(schemas);
}

/// The environment that a route of feature flags works on.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub struct EnvironmentParameters {
    /// Its key; dev by default
    environment: Option<String>,
    /// Its project; default by default
    project: Option<String>,
}

/// The project of the environment in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub struct ProjectParameter {
    /// Its project; default by default
    project: Option<String>,
}

/// A window of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub struct PageParameters {
    /// How many to skip
    offset: Option<u64>,
    /// How many at most; 100 by default, 1000 at most
    limit: Option<u64>,
}

/// The expected version of what a request changes.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
pub struct IfMatch {
    /// The version that is to be changed
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// Makes a request repeatable.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
pub struct IdempotencyKey {
    /// Makes the request repeatable
    #[param(rename = "Idempotency-Key")]
    idempotency_key: Option<String>,
}

/// The billing account and the payment that rows of a list are of.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub struct PaymentParameters {
    /// Of this billing account
    account: Option<Uuid>,
    /// Of this payment
    payment: Option<Uuid>,
}

/// A parameter is invalid
#[derive(IntoResponses)]
#[response(status = 400)]
pub struct InvalidParameter;

/// A field is invalid
#[derive(IntoResponses)]
#[response(status = 400)]
pub struct InvalidField;

/// The key was used for another request
#[derive(IntoResponses)]
#[response(status = 422)]
pub struct AnotherRequest;

/// There is no such environment
#[derive(IntoResponses)]
#[response(status = 404)]
pub struct NoEnvironment;

/// There is no such environment or flag
#[derive(IntoResponses)]
#[response(status = 404)]
pub struct NoFlag;

/// There is no such environment or segment
#[derive(IntoResponses)]
#[response(status = 404)]
pub struct NoSegment;

/// It is in another version, which the problem names
#[derive(IntoResponses)]
#[response(status = 412)]
pub struct AnotherVersion;

/// flags.key_file is not configured
#[derive(IntoResponses)]
#[response(status = 501)]
pub struct NoSecretsKey;

/// The refusals of the body that is to be a flag or a segment.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
pub enum InvalidDefinition {
    /// The body is no object
    #[response(status = 400)]
    NoObject,
    /// Fields are invalid: all are listed
    #[response(status = 422)]
    WrongFields,
}

/// The refusal of an operator's request without valid credentials.
#[derive(IntoResponses)]
#[response(status = 401, description = "User or tenant is missing or wrong")]
pub struct Unauthenticated;

/// The refusal of a customer's request without a session.
#[derive(IntoResponses)]
#[response(status = 401, description = "Not logged in")]
pub struct NotLoggedIn;

/// The refusal while too many passwords wait.
#[derive(IntoResponses)]
#[response(status = 503, description = "Too many passwords wait to be hashed")]
pub struct PasswordsWait;

/// The refusals of an operator's request about one object.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
pub enum ObjectRejections {
    /// User or tenant is missing or wrong
    #[response(status = 401)]
    Unauthenticated,
    /// The user lacks the permission
    #[response(status = 403)]
    Forbidden,
    /// There is no such object, or it is another tenant's
    #[response(status = 404)]
    NotFound,
}
