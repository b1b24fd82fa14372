//! The next action of a customer, before a transaction goes on, as it is stored: sealed, because it has secrets.

use domain::TransactionId;
use secrets::{Purpose, Sealer};

/// Names and texts, such as `redirectUrl` and `clientSecret`: shown to the caller, and with `withPluginInfo`.
pub(crate) type NextAction = Vec<(&'static str, String)>;

/// The property with the URL that the customer's browser goes to.
pub(crate) const REDIRECT_URL: &str = "redirectUrl";
/// The property with the secret that the customer's browser confirms with.
pub(crate) const CLIENT_SECRET: &str = "clientSecret";

/// Seals it for the row of its transaction.
pub(crate) fn seal(action: &NextAction, of: TransactionId, sealer: &Sealer) -> String {
    let text = serde_json::to_string(action).expect("it is a list of texts");
    sealer.seal_named(Purpose::NextAction, (of.uuid(), ""), &text)
}
