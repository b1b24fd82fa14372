//! This API in the OpenAPI document: OFREP, and FeatBit's HTTP requests. The streams are described in
//! `docs/reference/feature-flags.md`: OpenAPI has no words for them.

use utoipa::ToSchema;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::HttpMethod::Post;
use web::openapi::{Body, Credentials, Operation, Refused, document};

/// A secret of an environment in `X-API-Key`, or as a bearer token.
const OFREP: Credentials = Credentials::Scheme("environmentSecret");
/// A secret of an environment in `Authorization`, without a scheme.
const FEATBIT: Credentials = Credentials::Scheme("sdkSecret");

/// When an SDK was last up to date.
const SINCE: &[(&str, &str)] =
    &[("timestamp", "Only what changed later, in milliseconds since 1970")];

static OFREP_OPERATIONS: [Operation; 3] = [
    Operation::new(Post, "/ofrep/v1/evaluate/flags/{*key}", "Evaluates a flag for a context")
        .needs(OFREP)
        .takes::<OfrepRequest>()
        .with_status("200", "The value, or none where the program's default counts")
        .answers::<OfrepEvaluation>(),
    Operation::new(Post, "/ofrep/v1/evaluate/flags", "Evaluates all flags for a context")
        .needs(OFREP)
        .takes::<OfrepRequest>()
        .with_status("200", "The values; ETag names them")
        .answers::<OfrepEvaluations>(),
    Operation::get("/ofrep/v1/events/{channel}", "A stream of events: when to evaluate again")
        .with_status("200", "A stream")
        .answers_text("text/event-stream"),
];

static FEATBIT_OPERATIONS: [Operation; 5] = [
    Operation::get("/api/public/sdk/server/latest-all", "All flags and segments, for servers")
        .needs(FEATBIT)
        .with_query(SINCE)
        .with_status("200", "They; an empty body if nothing changed")
        .answers::<FeatBitSync>(),
    Operation::new(Post, "/api/public/sdk/client/latest-all", "All values for a user")
        .needs(FEATBIT)
        .with_query(SINCE)
        .takes::<FeatBitUser>()
        .with_status("200", "They; an empty body if nothing changed")
        .answers::<FeatBitSync>(),
    Operation::new(Post, "/api/public/insight/track", "Reports evaluations and metrics")
        .needs(FEATBIT)
        .takes::<FeatBitInsights>(),
    Operation::new(Post, "/api/public/featureflag/evaluate", "Evaluates flags for a user")
        .needs(FEATBIT)
        .takes::<FeatBitQuestion>()
        .answers::<FeatBitValues>(),
    Operation::new(Post, "/api/public/agent/register", "Registers a relay proxy by its name")
        .needs(FEATBIT)
        .takes::<FeatBitAgent>()
        .with_status("200", "Its name")
        .answers_text("text/plain"),
];

/// The document of OFREP and of `/api/public`.
#[must_use]
pub fn openapi() -> OpenApi {
    let errors = [("4XX", "Refused", Refused::Json(Body::of::<OfrepError>()))];
    let mut document_of_all = document("OFREP", &OFREP_OPERATIONS, &errors);
    let errors = [
        ("401", "The secret is missing, unknown, expired or of another type", Refused::Empty),
        ("4XX", "Refused: what is wrong with the request", Refused::Text),
    ];
    document_of_all.merge(document("FeatBit's SDKs", &FEATBIT_OPERATIONS, &errors));
    document_of_all
}

web::shapes! {
    /// A context: `targetingKey`, and any other attributes.
    #[schema(rename_all = "camelCase")]
    OfrepRequest {
        context: OfrepContext,
    }
    /// Who a flag is evaluated for. Members beside the key are attributes.
    #[schema(rename_all = "camelCase")]
    OfrepContext {
        targeting_key: String,
        #[serde(flatten)]
        #[schema(value_type = HashMap<String, Value>)]
        attributes: (),
    }
    /// The value of a flag for a context.
    #[schema(rename_all = "camelCase")]
    OfrepEvaluation {
        key: String,
        #[schema(value_type = Option<Value>)]
        value: (),
        /// `STATIC`, `TARGETING_MATCH`, `SPLIT`, `DISABLED`, `DEFAULT` or `UNKNOWN`.
        reason: String,
        /// The variation's id.
        variant: Option<String>,
    }
    /// The values of all flags.
    #[schema(rename_all = "camelCase")]
    OfrepEvaluations {
        flags: Vec<OfrepEvaluation>,
        #[schema(value_type = Object)]
        metadata: (),
        #[schema(value_type = Vec<Object>)]
        event_streams: (),
    }
    /// A refusal.
    #[schema(rename_all = "camelCase")]
    OfrepError {
        key: Option<String>,
        /// `PARSE_ERROR`, `TARGETING_KEY_MISSING`, `INVALID_CONTEXT`, `FLAG_NOT_FOUND` or `GENERAL`.
        error_code: String,
        error_details: Option<String>,
    }
    /// The message of FeatBit's streams: `data-sync`.
    #[schema(rename_all = "camelCase")]
    FeatBitSync {
        message_type: String,
        #[schema(value_type = Object)]
        data: (),
    }
    /// A user.
    #[schema(rename_all = "camelCase")]
    FeatBitUser {
        key_id: String,
        name: Option<String>,
        customized_properties: Option<Vec<FeatBitProperty>>,
    }
    /// A property of a user.
    #[schema(rename_all = "camelCase")]
    FeatBitProperty { name: String, value: Option<String>, }
    /// Whose flags, and which of them.
    #[schema(rename_all = "camelCase")]
    FeatBitQuestion {
        user: FeatBitUser,
        filter: Option<FeatBitFilter>,
    }
    /// The wanted flags: those that match all conditions.
    #[schema(rename_all = "camelCase")]
    FeatBitFilter {
        tags: Option<Vec<String>>,
        /// `and` or `or`; an empty text ignores tags.
        tag_filter_mode: Option<String>,
        keys: Option<Vec<String>>,
        /// Only those that changed later, in milliseconds since 1970.
        timestamp: Option<i64>,
    }
    /// The value of a flag.
    #[schema(rename_all = "camelCase")]
    FeatBitValue { key: String, variation: FeatBitVariation, }
    /// The variation that a user gets.
    #[schema(rename_all = "camelCase")]
    FeatBitVariation {
        id: String,
        /// `boolean`, `string`, `number` or `json`.
        r#type: String,
        value: String,
        match_reason: String,
        send_to_experiment: bool,
    }
    /// A program's report about a user: evaluations and measurements.
    #[schema(rename_all = "camelCase")]
    FeatBitInsight {
        user: FeatBitUser,
        variations: Option<Vec<FeatBitEvaluation>>,
        metrics: Option<Vec<FeatBitMetric>>,
    }
    /// An evaluation.
    #[schema(rename_all = "camelCase")]
    FeatBitEvaluation {
        feature_flag_key: String,
        variation: FeatBitVariationId,
        timestamp: Option<i64>,
        send_to_experiment: Option<bool>,
    }
    /// A variation.
    #[schema(rename_all = "camelCase")]
    FeatBitVariationId { id: String, }
    /// A measurement.
    #[schema(rename_all = "camelCase")]
    FeatBitMetric {
        r#type: Option<String>,
        event_name: String,
        numeric_value: Option<f64>,
        timestamp: Option<i64>,
    }
}

/// Reports.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
struct FeatBitInsights(Vec<FeatBitInsight>);

/// The values of flags.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
struct FeatBitValues(Vec<FeatBitValue>);

/// The name of a relay proxy.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
struct FeatBitAgent(String);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ROUTES;

    #[test]
    fn all_served_routes_but_the_streams_are_described() {
        let described = OFREP_OPERATIONS.iter().chain(&FEATBIT_OPERATIONS);
        let described = described.map(|it| it.route().1);
        let served = ROUTES.iter().map(|it| it.path).filter(|path| !path.starts_with("/streaming"));
        let (described, served): (BTreeSet<_>, BTreeSet<_>) =
            (described.collect(), served.collect());
        assert_eq!(described, served);
    }
}
