//! The rows of the flag APIs: FeatBit's and OFREP.

use super::row::{Needs, Row, row};

/// The types of secrets that SDKs have.
const SDK: &[&str] = &["server", "client"];
const ALL: &[&str] = &["server", "client", "relay-proxy"];

pub fn rows() -> Vec<Row> {
    let sdk = Needs::Secret(SDK);
    vec![
        row("GET /streaming", Needs::Secret(ALL)),
        row("GET /streaming/", Needs::Secret(ALL)),
        row("GET /streaming/{*rest}", Needs::Secret(ALL)).at("/streaming/rest"),
        row("GET /api/public/sdk/server/latest-all", Needs::Secret(&["server"])),
        row("POST /api/public/sdk/client/latest-all", Needs::Secret(&["client"]))
            .body(r#"{"keyId":"ada"}"#),
        row("POST /api/public/insight/track", sdk).body("[]"),
        row("POST /api/public/featureflag/evaluate", sdk).body(r#"{"user":{"keyId":"ada"}}"#),
        row("POST /api/public/agent/register", Needs::Secret(&["relay-proxy"])).body(r#""agent""#),
        row("POST /ofrep/v1/evaluate/flags/{*key}", sdk)
            .at("/ofrep/v1/evaluate/flags/{flagKey}")
            .body(r#"{"context":{"targetingKey":"ada"}}"#)
            .of_object(),
        row("POST /ofrep/v1/evaluate/flags", sdk).body(r#"{"context":{"targetingKey":"ada"}}"#),
        row("GET /ofrep/v1/events/{channel}", Needs::Path("channel")).stream(),
    ]
}
