//! Schemas of flags and segments in the OpenAPI document, made of those of the evaluated model.

use evaluation::{Flag, Segment};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// The fields that a new flag needs; `document::flag` refuses one without them.
const FLAG_NEEDS: [&str; 5] =
    ["key", "variationType", "variations", "disabledVariationId", "fallthrough"];

/// The fields that answers may lack.
const OFTEN_ABSENT: [&str; 2] = ["description", "gate"];

/// Declares the schema of a model, named after a type of this module, with its required fields.
macro_rules! schema {
    ($(#[$doc:meta])* $name:ident of $model:ty, $shape:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $shape(<$model>::schema())
            }
        }

        impl ToSchema for $name {
            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                <$model>::schemas(schemas);
            }
        }
    };
}

schema!(
    /// A flag, as it is answered.
    FlagDocument of Flag, |it| with_required(it, |field| !OFTEN_ABSENT.contains(&field))
);
schema!(
    /// A flag, as it is sent; the server sets `id`, times, users and environment.
    FlagRequest of Flag, |it| with_required(it, |field| FLAG_NEEDS.contains(&field))
);
schema!(
    /// Fields of a flag that change (RFC 7396). `null` is a field that is not given; of `description` and `gate`,
    /// it takes the field off.
    FlagPatch of Flag, patch
);
schema!(
    /// A segment, as it is answered.
    SegmentDocument of Segment, |it| with_required(it, |_| true)
);
schema!(
    /// A segment, as it is sent.
    SegmentRequest of Segment, |it| with_required(it, |_| false)
);
schema!(
    /// Fields of a segment that change (RFC 7396). `null` is a field that is not given.
    SegmentPatch of Segment, patch
);

/// The schema with these fields required.
fn with_required(schema: RefOr<Schema>, is_required: impl Fn(&str) -> bool) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = schema else { unreachable!("a model is an object") };
    let names = object.properties.keys().filter(|name| is_required(name)).cloned();
    object.required = names.collect();
    // Next to a reference, generators read a default as a value to send, or not at all.
    for property in object.properties.values_mut() {
        if let RefOr::Ref(reference) = property {
            reference.default = None;
        }
    }
    RefOr::T(Schema::Object(object))
}

/// The schema of a patch: without required fields, each of which may be null. Generated clients send something for
/// a field that is not set, such as an empty list, where it cannot be null.
fn patch(schema: RefOr<Schema>) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = with_required(schema, |_| false) else {
        unreachable!("a model is an object")
    };
    for property in object.properties.values_mut() {
        match property {
            RefOr::T(Schema::Object(field)) => or_null(&mut field.schema_type),
            RefOr::T(Schema::Array(field)) => or_null(&mut field.schema_type),
            RefOr::Ref(_) => {
                let null = RefOr::T(Schema::Object(utoipa::openapi::Object::with_type(Type::Null)));
                let either = OneOfBuilder::new().item(null).item(property.clone());
                *property = either.into();
            }
            RefOr::T(Schema::OneOf(_) | Schema::AllOf(_) | Schema::AnyOf(_)) | RefOr::T(_) => {
                unreachable!("models have texts, numbers, lists and objects")
            }
        }
    }
    RefOr::T(Schema::Object(object))
}

fn or_null(kind: &mut SchemaType) {
    match kind {
        SchemaType::Type(only) => *kind = SchemaType::Array(vec![only.clone(), Type::Null]),
        SchemaType::Array(kinds) if !kinds.contains(&Type::Null) => kinds.push(Type::Null),
        SchemaType::Array(_) | SchemaType::AnyValue => {}
    }
}

/// A page of flags.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub struct FlagPage {
    flags: Vec<FlagDocument>,
    /// Whether there are further ones.
    more: bool,
}

/// A page of segments.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub struct SegmentPage {
    segments: Vec<SegmentDocument>,
    /// Whether there are further ones.
    more: bool,
}

/// All definitions of an environment.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its description is used")]
pub struct Export {
    feature_flags: Vec<FlagDocument>,
    segments: Vec<SegmentDocument>,
}

/// Definitions that are imported.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its description is used")]
pub struct ImportRequest {
    feature_flags: Option<Vec<FlagRequest>>,
    segments: Option<Vec<SegmentRequest>>,
}
