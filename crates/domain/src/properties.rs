//! Properties: what a client sends for a gateway, which Faregate does not interpret.

/// Key-value pairs for a gateway, in the order given (Kill Bill: plugin properties).
pub type Properties = Vec<(String, String)>;
