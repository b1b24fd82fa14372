//! What fuzz targets look at that others do not see.

use domain::routing_rules::RoutingRules;

/// Reads the configuration of `faregate-router`; the error is the field and what is wrong with it.
///
/// # Errors
/// What a client is answered.
pub fn routing_rules(text: &str) -> Result<RoutingRules, String> {
    crate::routing::read(text)
}
