//! Functions that are public for fuzz targets only.

use domain::tenant::routing_rules::RoutingRules;

/// Reads the configuration of `faregate-router`; the error is the field and what is wrong with it.
///
/// # Errors
/// The reason that a client gets.
pub fn routing_rules(text: &str) -> Result<RoutingRules, String> {
    crate::routing::read(text)
}
