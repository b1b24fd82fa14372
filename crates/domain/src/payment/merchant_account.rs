//! Tenants' accounts at gateways.

use serde::{Deserialize, Serialize};

/// A tenant's account at a gateway: the gateway's name for it, and what else its transactions cannot be found
/// without, such as the mode: `acct_1Nv0/live`. No secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MerchantAccount(pub String);

impl std::fmt::Display for MerchantAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
