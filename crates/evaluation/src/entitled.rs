//! The features that a user is entitled to: the server knows them, and no client can claim them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The attribute of a user that says what it has of a feature: this, and the feature's key.
pub const ENTITLED_ATTRIBUTE: &str = "entitled.";

/// The segment of the users who are entitled to a feature: this, and the feature's key.
pub const ENTITLED_SEGMENT: &str = "entitled:";

/// The features that a user is entitled to, each with what it has of it, as text. Clones share it.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Entitled(Option<Arc<[Feature]>>);

/// The key of a feature, and what the user has of it.
type Feature = (Box<str>, Box<str>);

impl Entitled {
    /// The value that the user has of a feature, as text; `None` where the user is not entitled to it.
    #[must_use]
    pub fn value(&self, feature: &str) -> Option<&str> {
        let features = self.0.as_deref()?;
        let at = features.binary_search_by(|(key, _)| (**key).cmp(feature)).ok()?;
        Some(&features[at].1)
    }

    /// All of it, by the keys of features.
    pub fn features(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|it| it.iter()).map(|(key, value)| (&**key, &**value))
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Entitled {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(features: I) -> Self {
        let mut features: Vec<Feature> =
            features.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        features.sort_unstable();
        Self(if features.is_empty() { None } else { Some(features.into()) })
    }
}

impl Serialize for Entitled {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.features())
    }
}

impl<'de> Deserialize<'de> for Entitled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let features: Vec<(String, String)> = Vec::deserialize(deserializer)?;
        Ok(features.into_iter().collect())
    }
}

impl fmt::Debug for Entitled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.features()).finish()
    }
}
