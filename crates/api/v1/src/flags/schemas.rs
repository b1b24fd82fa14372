//! Schemas of flags and segments in the OpenAPI document, made of those of the evaluated model.

use evaluation::{Flag, Segment};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

/// The fields that a new flag needs; `document::flag` refuses one without them.
const FLAG_NEEDS: [&str; 5] =
    ["key", "variationType", "variations", "disabledVariationId", "fallthrough"];

/// The fields that answers may lack.
const OFTEN_ABSENT: [&str; 1] = ["description"];

/// Declares the schema of a model, named after a type of this module, with its required fields.
macro_rules! schema {
    ($(#[$doc:meta])* $name:ident of $model:ty, required: $required:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                with_required(<$model>::schema(), $required)
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
    FlagDocument of Flag, required: |field| !OFTEN_ABSENT.contains(&field)
);
schema!(
    /// A flag, as it is sent; the server sets `id`, times, users and environment.
    FlagRequest of Flag, required: |field| FLAG_NEEDS.contains(&field)
);
schema!(
    /// Fields of a flag that change (RFC 7396).
    FlagPatch of Flag, required: |_| false
);
schema!(
    /// A segment, as it is answered.
    SegmentDocument of Segment, required: |_| true
);
schema!(
    /// A segment, as it is sent, or fields of it that change (RFC 7396).
    SegmentRequest of Segment, required: |_| false
);

/// The schema with these fields required.
fn with_required(schema: RefOr<Schema>, is_required: impl Fn(&str) -> bool) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = schema else { unreachable!("a model is an object") };
    let names = object.properties.keys().filter(|name| is_required(name)).cloned();
    object.required = names.collect();
    RefOr::T(Schema::Object(object))
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
